"""Do the tests notice mistakes? `make mutants N=200 SEED=1`: draws mutants (an operator swapped, a condition negated, a
statement deleted, a number one off) over the C sources of runner/ and kernels/, builds each, and runs the tests that
run its line, the cheapest first, until one fails. A mutant that none notices has survived.

Which tests run a line, and how long they take, `make coverage` has told (build-coverage/by). A test's failure counts
only where it then passes without the mutant. A mutant whose code is the same as before is not counted; one that
tests/mutants.txt justifies is counted apart. A mutant gets LIMIT=60 seconds of tests, as `make coverage` timed them:
what would take longer is not tried, so that with more of them fewer survive.

Mutants may do anything to anybody's files and processes: each test has a process space of its own and its files in
memory, and the rest is read-only. Needs root and unshare. What was done is kept in BUILD/done-SEED.json, and the same
call goes on from there; with AGAIN=1 it tries survivors again.

`make mutants GPU=1` draws them over the CUDA sources and needs a GPU: unit/test_kernels_random is the test of all, by
drawn cases of the operation."""

import hashlib
import json
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
AGAIN = os.environ.get("AGAIN")  # survivors are tried again
LIMIT = float(os.environ.get("LIMIT", 60))
BUILD_S, GPU_S = 150, 120  # what takes longer to compile keeps its code; what takes longer on a GPU hangs

# ---- drawing --------------------------------------------------------------------------------------------------------

SWAPS = {
    "relation": (3, r"(?<= )(<=|>=|==|!=|<|>)(?= )",
                 {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}),
    "sum": (2, r"(?<=[\w)\]] )(\+=|-=|[-+*/%])(?= )",
            {"+": "-", "-": "+", "*": "/", "/": "*", "%": "/", "+=": "-=", "-=": "+="}),
    "logic": (2, r"(?<= )(&&|\|\|)(?= )", {"&&": "||", "||": "&&"}),
    "bits": (0.5, r"(?<=[\w)\]] )(<<|>>|&|\|)(?= )", {"<<": ">>", ">>": "<<", "&": "|", "|": "&"}),
    "truth": (1, r"\b(true|false)\b", {"true": "false", "false": "true"}),
    "number": (1.5, r"(?<![\w.])(\d+)(?![\w.])(?!.*:$)", None),
    "negation": (2, r"\bif (?=\()", None),
    "deletion": (3, r"^ +(?:if \(.*\) )?"
                    r"(?:return\b.*|break|continue|goto \w+|[\w.>*\[\]-]+ [-+|&]?= .*|[\w>.-]+\(.*\));$", None),
}  # fmt: skip


def masked(text):
    """The same text with blanks for comments, strings, and the preprocessor's lines; and for what says the same if it
    is one off: `id < 0` of an identifier of HDF5, which is never 0, and how large an array of a function is."""

    def blank(found):
        return re.sub(r"[^\n]", " ", found[0])

    pattern = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|^#(?:[^\n]*\\\n)*[^\n]*$'
    text = re.sub(pattern, blank, text, flags=re.S | re.M)
    names = "|".join(set(re.findall(r"\bhid_t \*?(\w+)", text))) or "hid_t"
    text = re.sub(rf"\b(?:{names}) (?:<|>=) 0\b", blank, text)
    array = r"^ +(?!return |else |case )(?:(?:const|static|unsigned|struct|enum) )*\w+ \**\w+\[[^=;\n]*"
    return re.sub(array, lambda found: re.sub(r"\[\d+\]", blank, found[0]), text, flags=re.M)


def functions(lines):
    """The name of the function that each line is in the body of; None elsewhere."""
    name, head = None, ""
    for line in lines:
        yield name if line[:1] in (" ", "") else None
        if line.startswith("}"):
            name, head = None, ""
        elif line[:1].strip():
            head = line if not head or head.endswith((";", "}")) else head + line
            head = head.rstrip()
        elif name is None and head:
            head = (head + line).rstrip()
        if name is None and head.endswith("{"):
            called = re.search(r"\b(?!__launch_bounds__)(\w+)\((?!\()", head)
            name = called[1] if called and "=" not in head and not head.startswith(("enum", "struct {")) else "-"
        if head.endswith((";", "}")):
            head = ""


def balanced(text):
    return text.count("(") == text.count(")")


def changed(kind, line, code, found):
    """The line with the mistake, or None."""
    begin, end = found.span()
    if kind == "deletion":
        return line[: len(line) - len(line.lstrip())] + ";" if balanced(code) else None
    if kind == "negation":
        depth = 0
        for at in range(end, len(code)):
            depth += {"(": 1, ")": -1}.get(code[at], 0)
            if depth == 0:
                return f"{line[:end]}(!{line[end : at + 1]}){line[at + 1 :]}"
        return None
    if kind == "number":
        word = {"0": "1", "1": "0"}.get(found[1]) or str(int(found[1]) + 1)
    else:
        word = SWAPS[kind][2][found[1]]
    return line[:begin] + word + line[end:]


def mutants_of(path):
    """All of a file: (kind, path, line number, function, line before, line after)."""
    text = path.read_text()
    lines, codes = text.split("\n"), masked(text).split("\n")
    before = ";"
    for number, (line, code, function) in enumerate(zip(lines, codes, functions(codes)), 1):
        code = code.rstrip()
        for kind, (_, pattern, _) in SWAPS.items():
            if function in (None, "-"):
                continue
            if kind == "deletion" and not before.endswith((";", "{", "}", ":", ")", "else")):
                continue
            for found in re.finditer(pattern, code):
                after = changed(kind, line, code.ljust(len(line)), found)
                if after and after != line:
                    yield kind, os.path.relpath(path, ROOT), number, function, line.strip(), after
        before = code or before


def draw(sources, chance):
    """Distinct lines, each kind of mistake as often as its weight says."""
    by_kind = {kind: [] for kind in SWAPS}
    for path in sources:
        for mutant in mutants_of(path):
            by_kind[mutant[0]].append(mutant)
    seen = set()
    while True:
        kind = chance.choices(list(SWAPS), [weight for weight, _, _ in SWAPS.values()])[0]
        mutant = chance.choice(by_kind[kind])
        if mutant[1:3] not in seen:
            seen.add(mutant[1:3])
            yield mutant


def justified_ones():
    """Those of the list: its lines are `KEY | WHY`, or `FILE FUNCTION: * | WHY` for all of a function."""
    lines = (ROOT / "tests/mutants.txt").read_text().splitlines()
    return {line.rpartition(" | ")[0] for line in lines if line and not line.startswith("#")}


def is_justified(mutant, justified):
    return key(mutant) in justified or f"{mutant[1]} {mutant[3]}: *" in justified


def key(mutant):
    """`FILE FUNCTION: MUTATION HASH`, such as `runner/a.c f: < to <= 1a2b3c4d`. The hash is of the line's code before and
    after, so that comments and other lines may change."""
    kind, path, _, function, before, after = mutant
    code = [" ".join(re.sub(r"/\*.*?(\*/|$)|//.*", "", line).split()) for line in (before, after)]
    mutation = kind
    if kind not in ("deletion", "negation"):
        pairs = zip(*(re.findall(r"\w+|[^\w\s]+", line) for line in code))
        mutation = next(f"{old} to {new}" for old, new in pairs if old != new)
    return f"{path} {function}: {mutation} {hashlib.sha256(chr(10).join(code).encode()).hexdigest()[:8]}"


def described(mutant):
    return f"{mutant[1]}:{mutant[2]}: {mutant[4]} => {mutant[5].strip()}"


# ---- building -------------------------------------------------------------------------------------------------------


# What is changed is checked, as `make SANITIZE=1 test` checks all: memory that is lost or not its own is noticed.
CHECKS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]


def code_of(object):
    return re.sub(rb"tmpxft_\w{8}", b"", object.read_bytes())  # nvcc's number of a file that it makes between


class Tree:
    """A copy of the sources that is built by itself; `objects` are taken from BUILD where nothing has changed."""

    def __init__(self, build, folder):
        self.build, self.folder = build, folder
        shutil.rmtree(folder, ignore_errors=True)
        for name in ("runner", "kernels"):
            shutil.copytree(ROOT / name, folder / name)
        words, commit = self.flags("cc.flags"), (build / "commit").read_text()
        self.compile = {".c": [*words, "-Werror=return-type", f'-DTILERUN_COMMIT="{commit}"']}
        self.checks = CHECKS
        if (build / "nvcc.flags").exists() and self.flags("nvcc.flags"):
            self.compile[".cu"], self.checks = self.flags("nvcc.flags"), []
        link = self.flags("link.flags")
        self.objects = [word for word in link[1:] if word.endswith(".o")]
        self.objects.sort(key=lambda name: (ROOT / name).stat().st_size)
        self.libraries = [word for word in link[1:] if not word.endswith(".o")]
        self.references, self.locks = {}, {}

    def flags(self, name):
        return shlex.split(re.split(r" \\?# ", (self.build / name).read_text())[0])

    def made(self, command, limit=None):
        try:
            return subprocess.run(command, cwd=self.folder, capture_output=True, timeout=limit).returncode == 0
        except subprocess.TimeoutExpired:
            return False

    def compiled(self, name, until, checks=()):
        """The object of that name, made of this copy's source; None if it does not compile, or takes too long."""
        source = os.path.relpath(ROOT / name, self.build).removesuffix(".o")
        object = self.folder / "objects" / f"{source}.o"
        object.parent.mkdir(parents=True, exist_ok=True)
        words = [*self.compile[Path(source).suffix], *checks, "-c", "-o", object, source]
        return object if self.made(words, max(0, until - time.monotonic())) else None

    def reference(self, name):
        """The code of the object without a mistake, as this compiler makes it; None if it takes too long."""
        with self.locks.setdefault(name, threading.Lock()):
            if name not in self.references:
                object = self.compiled(name, time.monotonic() + BUILD_S)
                self.references[name] = object and code_of(object)
            return self.references[name]

    def mutate(self, mutant, original):
        """Builds the objects that the mistake changes; False if it does not compile, or changes none."""
        _, path, number, _, _, after = mutant
        text = (ROOT / path).read_text().split("\n")
        text[number - 1] = after
        (self.folder / path).write_text("\n".join(text))
        self.changed, self.path, until = {}, path, time.monotonic() + BUILD_S
        for name in self.objects:  # the small ones first: where a header is in many, those that BUILD_S is enough for
            if path in self.depends(ROOT / name):
                object = self.compiled(name, until)
                if not object:
                    break
                if code_of(object) != (original.reference(name) or code_of(object)):
                    self.changed[name] = object
                    if self.checks:
                        self.compiled(name, until, self.checks)
        self.linked = set()
        return bool(self.changed)

    def restore(self, mutant):
        shutil.copy(ROOT / mutant[1], self.folder / mutant[1])

    def test_object(self, unit):
        """Made anew where the mistake is in a header that the test itself has."""
        object = self.build / f"tests/{unit}.o"
        if self.path not in self.depends(object):
            return object
        words = [*self.compile[".c"], "-c", "-o", self.folder / f"{unit}.o"]
        (self.folder / "tests/unit").mkdir(parents=True, exist_ok=True)
        for path in ROOT.glob("tests/unit/*.[ch]"):
            shutil.copy(path, self.folder / "tests/unit")
        return self.folder / f"{unit}.o" if self.made([*words, f"tests/unit/{unit}.c"]) else object

    @staticmethod
    def depends(object):
        """The sources that an object is made of, from ROOT on."""
        words = object.with_suffix(".d").read_text().replace("\\\n", " ").split()
        return set(map(os.path.normpath, words))

    def link(self, part):
        """Links what a part runs."""
        unit = part.removeprefix("unit/") if part.startswith("unit/") else None
        target = self.folder / (unit or "tilerun")
        if target not in self.linked:
            objects = [str(self.changed.get(name, ROOT / name)) for name in self.objects]
            if unit:
                objects = [name for name in objects if not name.endswith("main.c.o")]
                objects += [self.test_object(unit), "-lcmocka"]
            if not self.made([self.compile[".c"][0], *self.checks, "-o", target, *objects, *self.libraries]):
                raise RuntimeError(f"{target} cannot be linked")
            self.linked.add(target)
        return target


# ---- testing --------------------------------------------------------------------------------------------------------

# A process space and mounts of its own: the rest of the machine is read-only, what is written is in memory.
APART = """set -e; mount -t proc proc /proc; mount -o remount,ro,bind /; mount -t tmpfs -o size=3g tmpfs /dev/shm
cd /dev/shm; mkdir root; mkdir -m 1777 tmp; mount --bind "$0" root; mount -o remount,ro,bind root; mount --bind tmp /tmp
mkdir -p "$0"; mount --bind root "$0"; cd "$0"; ulimit -c 0; exec "$@" """


def run_apart(command, limit, **environment):
    """The exit status (None: it took too long), and what was printed."""
    words = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"]
    words += ["sh", "-c", APART, ROOT]
    process = subprocess.Popen(
        [*map(str, [*words, *command])], cwd=ROOT, env=os.environ | environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    )  # fmt: skip
    try:
        out = process.communicate(timeout=limit)[0]
        return process.returncode, out
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return None, ""


SETTINGS = {
    "OMP_WAIT_POLICY": "passive", "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": "/tmp", "XDG_CACHE_HOME": "/tmp/cache",
    "PLANTED_TRIES": "1", "HONEST_CASES": "200",
    "ASAN_OPTIONS": "handle_segv=0:handle_sigbus=0:handle_sigfpe=0:handle_abort=0:verify_asan_link_order=0:"
                    "allocator_may_return_null=1:detect_odr_violation=0",
}  # fmt: skip


class Tests:
    def __init__(self, build, original):
        self.original = original
        self.failing = {}  # of a part, without a mistake: they are left out
        self.lock = threading.Lock()
        # Of each part what it runs; of each file its lines, and by how many parts each of them is run.
        self.runs, self.counted, self.run_by = {}, defaultdict(set), defaultdict(Counter)
        for path in (ROOT / "build-coverage/by").glob("*.json"):
            about = json.loads(path.read_text())
            for source, lines in about["files"].items():
                self.counted[source] |= set(map(int, lines))
                about["files"][source] = {int(line) for line, (count, _) in lines.items() if count}
                self.run_by[source].update(about["files"][source])
            self.runs[about["part"]] = about

    def of(self, mutant):
        """The parts that run the line, those first that run much of its file, of what few others run, in little time;
        of a kernel those first that compare every element."""
        _, path, number, *_ = mutant
        if path.endswith((".cu", ".cuh")):
            return ["unit/test_kernels_random"]
        kernel, found = path.startswith("kernels/"), []
        counted = self.run_by[path] if kernel else self.counted[path]  # optimised lines share their counts
        at = max((line for line in counted if line <= number), default=0)  # where the statement begins
        if at not in self.run_by[path]:  # as far as is known: a killed process tells nothing
            at = max((line for line in self.run_by[path] if line <= number), default=0)
        for part, about in self.runs.items():
            lines = about["files"].get(path, ())
            if at in lines and part != "slurm":
                whole = part.startswith("e2e")
                seconds = about["seconds"] + (4 if whole else 0.2)
                found.append((kernel and whole, seconds / sum(1 / self.run_by[path][line] for line in lines), part))
        return [part for *_, part in sorted(found)]

    def command(self, tree, part, only=None):
        target = tree.link(part)
        if part.startswith("unit/"):
            return [target], self.cases(tree) if ".cu" in tree.compile else {}
        if part == "jobs":
            checks = 'for job; do "$0" check "$job" 2>&1 | cmp - "${job%.yaml}.expected" || exit; done'
            jobs = [path.relative_to(ROOT) for path in sorted(ROOT.glob("tests/jobs/bad/*.yaml"))]
            return ["bash", "-c", f'tests/generate.sh "$0" --check && {checks}', target, *jobs], {}
        words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "--tb=no", "-m", "not timings", "-rfE"]
        words += [f"--deselect={name}" for name in self.failing.get(part, ())]
        settings = {"TILERUN": str(target), "TILERUN_CASES": "20"}
        return [*words, "-x", *(only or [ROOT / f"tests/{part}.py"])], settings

    def cases(self, tree):
        """For unit/test_kernels_random: those of the operation whose source has the mistake. Products take longest."""
        of = Path(tree.path).parts[1] if tree.path else "core"
        return {"TILERUN_CASES": "60"} if of == "core" else {
            "TILERUN_CASE": f"cuda/{of}/", "TILERUN_CASES": "60" if of == "matmul" else "300",
        }  # fmt: skip

    def outcome(self, tree, part, limit, only=None):
        """(passed, the failed tests)"""
        command, environment = self.command(tree, part, only)
        status, out = run_apart(command, limit, **SETTINGS, **environment)
        failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", out, re.M) or re.findall(r"^\[  FAILED  \] (\w+)$", out, re.M)
        none = part.startswith("e2e/") and status == 5  # all of pytest's are left out
        return status == 0 or none, ["too long"] if status is None else failed or [f"exit {status}"]

    def fails_alone(self, part, failed):
        """Do these tests, or the part, fail without any mistake too? Tests are then left out from now on."""
        tests = [name for name in failed if "::" in name] if part.startswith("e2e/") else []
        with self.lock:
            passed = self.outcome(self.original, part, 8 * self.seconds(part) + 60, only=tests)[0]
        if not passed:
            self.failing.setdefault(part, set()).update(tests or {"all"})
        return not passed

    def seconds(self, part):
        return self.runs.get(part, {"seconds": 5})["seconds"]

    def killer(self, tree, mutant):
        """The test that notices, or None."""
        left = LIMIT
        for part in self.of(mutant):
            while self.seconds(part) < left and "all" not in self.failing.get(part, ()):
                limit = GPU_S if ".cu" in tree.compile else 8 * self.seconds(part) + 60
                passed, failed = self.outcome(tree, part, limit)
                left -= self.seconds(part)
                if passed:
                    break
                if not self.fails_alone(part, failed):
                    return f"{part}: {failed[0]}"
        return None


# ---- all of it ------------------------------------------------------------------------------------------------------


def make_unit_objects(tree):
    headers = [*(ROOT / "runner").rglob("*.h"), *(ROOT / "kernels").rglob("*.h"), *ROOT.glob("tests/unit/*.h")]
    newest = max(path.stat().st_mtime for path in headers)
    wanted = "test_kernels_random.c" if ".cu" in tree.compile else "test_*.c"
    for path in sorted(ROOT.glob(f"tests/unit/{wanted}")):
        object = tree.build / "tests" / f"{path.stem}.o"
        object.parent.mkdir(exist_ok=True)
        if not object.exists() or object.stat().st_mtime < max(newest, path.stat().st_mtime):
            subprocess.run([*tree.compile[".c"], "-c", "-o", object, path.relative_to(ROOT)], cwd=ROOT, check=True)


SAME = "the same code"  # or none that compiles


def judge(tests, tree, mutant):
    try:
        return tests.killer(tree, mutant) if tree.mutate(mutant, tests.original) else SAME
    finally:
        tree.restore(mutant)


class Record:
    """What was done, by mutant; it stays in a file. Its lock is held by those who use it."""

    def __init__(self, path):
        self.path, self.lock, self.justified = path, threading.Lock(), justified_ones()
        self.done = {key(m): (tuple(m), killer) for m, killer in json.loads(path.read_text())} if path.exists() else {}

    def add(self, mutant, killer):
        self.done[key(mutant)] = (mutant, killer)
        self.path.write_text(json.dumps(list(self.done.values())))
        if killer != SAME:
            print(f"{'killed' if killer else 'survived':8} {described(mutant)}  [{killer}]", flush=True)

    def counted(self, folder):
        """Of a folder those that are killed, those that are justified, those that have survived."""
        here = [(m, killer) for m, killer in self.done.values() if m[1].startswith(folder + "/") and killer != SAME]
        justified = [m for m, _ in here if is_justified(m, self.justified)]
        left = [(m, killer) for m, killer in here if not is_justified(m, self.justified)]
        return [m for m, killer in left if killer], justified, [m for m, killer in left if not killer]

    def survivors_now(self, folder):
        """The survivors as the sources have them now; those of lines that are gone are forgotten."""
        for mutant in self.counted(folder)[2]:
            now = [one for one in mutants_of(ROOT / mutant[1]) if key(one) == key(mutant)]
            del self.done[key(mutant)]
            yield from now[:1]


def main():
    build, count, seed = Path(sys.argv[1]).resolve(), int(sys.argv[2]), int(sys.argv[3])
    original = Tree(build, build / "original")
    original.changed, original.path, original.linked = {}, None, set()
    make_unit_objects(original)
    tests = Tests(build, original)
    gpu = ".cu" in original.compile
    record = Record(build / f"done-{seed}.json")
    endings = (".cu", ".cuh") if gpu else (".c", ".h")
    for folder in sys.argv[4:] or (["kernels"] if gpu else ["runner", "kernels"]):
        sources = sorted(path for path in (ROOT / folder).rglob("*") if path.suffix in endings)
        drawn = record.survivors_now(folder) if AGAIN else draw(sources, random.Random(seed))

        def work(worker):
            tree = Tree(build, build / f"worker-{worker}")
            while True:
                with record.lock:
                    if not AGAIN and sum(map(len, record.counted(folder))) >= count:
                        return
                    mutant = next((one for one in drawn if key(one) not in record.done), None)
                if not mutant:
                    return
                killer = judge(tests, tree, mutant)
                with record.lock:
                    record.add(mutant, killer)

        with ThreadPoolExecutor() as pool:
            list(pool.map(work, range(int(os.environ.get("JOBS", os.cpu_count())))))
        killed, justified, survived = record.counted(folder)
        total = len(killed) + len(survived)
        print(f"{folder}: {len(killed)} of {total} killed, {100 * len(killed) / max(total, 1):.1f} %; "
              f"{len(justified)} more are justified; {len(survived)} survived:")  # fmt: skip
        for mutant in sorted(survived):
            print(f"    {described(mutant)}\n        {key(mutant)} | ")


if __name__ == "__main__":
    sys.exit(main())
