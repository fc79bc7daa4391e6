"""What make rebuilds when a knob, a source or the commit changes: exactly what that concerns, so that the program is
the one that a clean build would have made. The real Makefile over a few empty sources; the compilers are scripts whose
"object files" are their own command lines and sources, so that an object that is stale differs from a clean one."""

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

import harness
import tree as real

CASES = int(os.environ.get("TILERUN_CASES", 2))

# Says what it was called with and what it read. Writes the dependencies that -MMD asks for, and logs what it makes.
COMPILER = """\
#!/bin/sh
read -r release < ROOT/release
[ "$1" != --version ] || { echo "NAME 1.$release"; exit; }
words="NAME 1.$release $*"
while [ $# -gt 0 ]; do
    case $1 in
        -o) shift; out=$1 ;;
        *.c | *.cu | *.o) in=${in:+$in }$1 ;;
    esac
    shift
done
echo "$out" >> ROOT/log
case $out in
    *.o) INCLUDED; printf '%s: %s\\n' "$out" "$in" > "${out%.o}.d" ;;
esac
{ echo "$words"; cat $in; } > "$out"
"""

KNOBS = {
    "CUDA": ["0", "1"],
    "CPPFLAGS": ["", "-DX -Wdate-time"],
    "LDFLAGS": ["", "-Wl,-z,now"],
    "CFLAGS": ["-O1", "-O2 -DX='\"a b\"'"],
    "NVFLAGS": ["-O1", "-O3 -lineinfo"],
    "CUDA_ARCHS": ["80", "90a", "80 90"],
    "VARIANTS": ["", "core/b"],
    "SANITIZE": ["", "1", "thread"],
    "CC": ["cc", "other-cc"],
    "HDF5_DIR": ["one", "two"],
    "YAML_DIR": ["one", "two"],
    "DEFLATE": ["0", "1"],
    "LZF": ["0", "1"],
}

SOURCES = ["runner/main.c", "runner/record/environment.c", "runner/stream/device_cuda.c", "runner/base/all.h",
           "kernels/core/a.c", "kernels/core/b.cu", "kernels/core/c.cu", "kernels/core/registry.def",
           "kernels/core/kernel.h", "runner/compile/templates/tilerun.h.in"]

def included(folder, name, found=None):
    """What a source includes from the tree, itself included."""
    found = {name} if found is None else found
    for include in re.findall(r'^ *# *include "([^"]+)"', (folder / name).read_text(), re.M):
        for path in (os.path.normpath(f"{Path(name).parent}/{include}"), f"runner/{include}", include):
            if (folder / path).is_file() and path not in found:
                found.add(path)
                included(folder, path, found)
    return found


class Tree:
    """A copy of the Makefile with a few sources, or all, and its own compilers first in PATH."""

    def __init__(self, folder, whole=False):
        self.folder = folder
        shutil.copy(harness.ROOT / "Makefile", folder)
        for name in ("bin/cc", "bin/other-cc", "cuda/bin/nvcc"):
            read = "[ ! -e ROOT/included/$in ] || read -r in < ROOT/included/$in" if whole else 'in="$in runner/base/all.h"'
            self.write(name, COMPILER.replace("INCLUDED", read).replace("ROOT", str(folder))
                       .replace("NAME", name.split("/")[-1])).chmod(0o755)
        for part in ("runner", "kernels") if whole else ():
            shutil.copytree(harness.ROOT / part, folder / part)
            for path in [path for path in (folder / part).rglob("*.c*") if path.suffix in (".c", ".cu")]:
                name = str(path.relative_to(folder))
                self.write(f"included/{name}", " ".join([name, *sorted(included(folder, name) - {name})]) + "\n")
        for name in () if whole else SOURCES:
            self.write(name, f"{name}\n")
        for name in ("kernels/core/registry.awk", "runner/compile/embed.awk"):
            shutil.copy(harness.ROOT / name, folder / name)
        (folder / "release").write_text("0")
        # Not what `make test` was given.
        given = [key for key in os.environ if key in KNOBS or re.match("MAKE|MFLAGS|GIT_|V$", key)]
        self.environment = {key: value for key, value in os.environ.items() if key not in given}
        self.environment["PATH"] = f"{folder}/bin:{os.environ['PATH']}"
        self.git("init", "-q")
        self.commit()

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def git(self, *arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=b"]
        subprocess.run(["git", *identity, *arguments], cwd=self.folder, check=True, capture_output=True)

    def commit(self):
        self.git("commit", "-q", "--allow-empty", "-m", "x")

    def make(self, knobs, *arguments, build="build", expect=None):
        """Returns what was made, in BUILD. `expect`: make fails, and says this line."""
        (self.folder / "log").write_text("")
        words = [f"{key}={value}" for key, value in knobs.items()]
        done = subprocess.run(
            ["make", f"BUILD={build}", f"CUDA_HOME={self.folder}/cuda", *words, *arguments],
            cwd=self.folder, env=self.environment, capture_output=True, text=True,
        )
        time.sleep(0.03)  # files' times have the resolution of the system's tick: what is changed next shall be newer
        if expect is None:
            assert done.returncode == 0, done.stderr
        else:
            assert done.returncode == 2 and expect in done.stderr.splitlines(), done.stderr
        return [line.removeprefix(f"{build}/") for line in (self.folder / "log").read_text().splitlines()]

    def failure(self, knobs):
        """What make says, which fails."""
        words = ["make", f"CUDA_HOME={self.folder}/cuda", *(f"{key}={value}" for key, value in knobs.items())]
        done = subprocess.run(words, cwd=self.folder, env=self.environment, capture_output=True, text=True)
        assert done.returncode == 2
        return done.stderr.splitlines()

    def built(self, build="build"):
        """What is in BUILD that a program is made of: its name and its content."""
        root = self.folder / build
        files = [path for path in root.rglob("*") if path.suffix == ".o" or path.name == "tilerun"]
        return {str(path.relative_to(root)): path.read_text().replace(f" {build}/", " BUILD/") for path in files}


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


def kind(name):
    return "cu" if name.endswith(".cu.o") else "c" if name.endswith(".c.o") else "link"


def change(tree, rng, knobs):
    """Draws a change of knobs, of a source or of what is around; returns what it was."""
    what = rng.choice(["knob", "knob", "knob", "edit", "header", "add", "delete", "commit", "release", "nothing"])
    extra = [path for path in tree.folder.glob("kernels/core/extra*")]
    if what == "knob":
        name = str(rng.choice(list(KNOBS)))
        knobs[name] = str(rng.choice(KNOBS[name]))
        return f"{name}={knobs[name]}"
    if what == "edit":
        path = tree.folder / str(rng.choice(["kernels/core/a.c", "kernels/core/b.cu", "runner/main.c"]))
        path.write_text(f"{rng.integers(1 << 30)}\n")
        return f"edit {path.name}"
    if what == "header":
        (tree.folder / "runner/base/all.h").write_text(f"{rng.integers(1 << 30)}\n")
    elif what == "add":
        (tree.folder / f"kernels/core/extra{rng.integers(100)}{rng.choice(['.c', '.cu'])}").write_text("extra\n")
    elif what == "delete" and extra:
        extra[0].unlink()
    elif what == "commit":
        tree.commit()
    elif what == "release":
        (tree.folder / "release").write_text(str(rng.integers(100)))
    return str(what)


@pytest.mark.parametrize("part", range(CASES))
def test_drawn_changes_rebuild_what_they_concern(tree, rng, part):
    """Nightly: TILERUN_CASES=20."""
    knobs = {name: str(rng.choice(values)) for name, values in KNOBS.items()}
    tree.make(knobs)
    for step in range(8):
        before, done = tree.built(), [change(tree, rng, knobs) for _ in range(rng.integers(1, 3))]
        print(step, done, knobs)
        planned = tree.make(knobs, "-n")
        assert planned == [] and tree.built() == before, "`make -n` has changed something"
        made = tree.make(knobs)
        tree.make(knobs, build="clean")
        clean, after = tree.built("clean"), tree.built()
        shutil.rmtree(tree.folder / "clean")
        assert {name: after[name] for name in clean} == clean
        # What was wrong or missing was made, once; and with it only what the same words concern, where another object
        # of the kind was wrong for more than its source.
        wrong = {name for name in clean if before.get(name) != clean[name]}
        assert wrong <= set(made) and len(made) == len(set(made))
        words = {kind(name) for name in wrong if before.get(name, "").split("\n")[0] != clean[name].split("\n")[0]}
        assert [name for name in made if name not in wrong and kind(name) not in words] == []
        assert tree.make(knobs) == []


@pytest.mark.parametrize("knob", KNOBS)
def test_each_knob_concerns_its_own(tree, knob):
    """Flags of nvcc do not rebuild C, nor those of the C compiler CUDA C."""
    knobs = {name: values[0] for name, values in KNOBS.items()} | {"CUDA": "1"}
    tree.make(knobs)
    knobs[knob] = next(value for value in KNOBS[knob] if value != knobs[knob])
    made = {kind(name) for name in tree.make(knobs)}
    expected = {"NVFLAGS": {"cu", "link"}, "CUDA_ARCHS": {"cu", "link"}, "CUDA": {"c", "link"}, "VARIANTS": {"link"}}
    expected |= {"CPPFLAGS": {"c", "cu", "link"}, "LDFLAGS": {"link"}}
    assert made == expected.get(knob, {"c", "link"})


def cuda_of(made):
    return {name.removesuffix(".o") for name in made if name.endswith(".cu.o")}


def test_variants_that_are_not_compiled(tmp_path):
    """Their descriptors are made without functions; a whole build afterwards compiles what is missing and no more."""
    tree = Tree(tmp_path, whole=True)
    files = {str(path.relative_to(tmp_path)) for path in (tmp_path / "kernels").rglob("*.cu")}
    chosen = {"kernels/scale/simple.cu", "kernels/reduce/tree.cu"}
    knobs = {"CUDA": "1", "VARIANTS": "scale/simple reduce/tree"}
    assert cuda_of(tree.make(knobs)) == chosen
    absent = re.findall(r"const struct kernel (\w+) =", (tmp_path / "build/kernels/core/left_out.c").read_text())
    names = {name: path for path in sorted(files)
             for name in re.findall(r"^KERNEL\((\w+)\)", (tmp_path / path).read_text(), re.M)}
    assert sorted(absent) == sorted(name for name, path in names.items() if path not in chosen)
    assert tree.make(knobs) == []
    several = {name for name in files if re.search(r"/multicast(_\w+)?\.cu", name)}
    assert len(several) > 1 and cuda_of(tree.make(knobs | {"VARIANTS": "matmul/multicast"})) == several
    made = tree.make({"CUDA": "1"})
    assert cuda_of(made) == files - chosen - several
    assert {name for name in made if not name.endswith(".cu.o")} == {"kernels/core/left_out.c.o", "tilerun"}
    other = "kernels/matmul/tuned/split.cu: needs matmul_async: add it to VARIANTS"
    tree.make(knobs | {"VARIANTS": "matmul/split matmul/exact32"}, expect=other)
    nothing = next(line for line in tree.failure(knobs | {"VARIANTS": "reduce/three"}) if "VARIANTS" in line)
    assert nothing.endswith("VARIANTS: no CUDA variant is called reduce/three.  Stop.")


def test_the_first_demo_compiles_what_its_job_names(tmp_path):
    """For this machine's GPU; what `make` compiles stays as it is, and is taken once it is whole."""
    tree = Tree(tmp_path, whole=True)
    tree.write("tests/deps.sh", "#!/bin/sh\nmkdir -p build && touch -a build/deps.mk\n").chmod(0o755)
    tree.write("tests/demo.sh", "#!/bin/sh\n").chmod(0o755)
    (tmp_path / "configs").mkdir()
    shutil.copy(harness.ROOT / "configs/quickstart.yaml", tmp_path / "configs")
    wanted = set()
    for operation in (tmp_path / "configs/quickstart.yaml").read_text().split("- ")[1:]:
        op, variants = re.search(r"op: (\w+)", operation), re.search(r"variants: \[(.*)\]", operation)
        wanted |= {f"kernels/{op[1]}/{name}.cu" for name in re.findall(r"[a-z]+", variants[1] if variants else "")}
    wanted = {name for name in wanted if (tmp_path / name).exists()}
    assert len(wanted) >= 8
    tree.write("bin/nvidia-smi", "#!/bin/sh\nexit 9\n").chmod(0o755)  # no driver
    made = tree.make({"CUDA": "1"}, "demo")
    assert cuda_of(made) == {f"demo/{name}" for name in wanted}
    assert "code=sm_80" in tree.built()["demo/kernels/scale/simple.cu.o"]
    tree.write("bin/nvidia-smi", "#!/bin/sh\necho 9.0\necho 9.0\n").chmod(0o755)
    assert cuda_of(tree.make({"CUDA": "1"}, "demo")) == {f"demo/{name}" for name in wanted}
    words = tree.built()["demo/kernels/scale/simple.cu.o"].split("\n")[0]
    assert "code=sm_90 " in words and "code=compute_" not in words
    rest = tree.make({"CUDA": "1"})
    assert wanted < cuda_of(rest) and not any(name.endswith(".c.o") and "left_out" not in name for name in rest)
    assert tree.make({"CUDA": "1"}, "demo") == tree.make({"CUDA": "1"}) == []


def test_a_demo_that_must_be_built_says_so(tmp_path):
    """A newcomer sees why it takes long, also where stdout is no terminal."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("MAKE") and key != "MFLAGS"}
    for there in (False, True):
        if there:
            (tmp_path / "tilerun").touch()
        made = subprocess.run(["make", "-n", f"BUILD={tmp_path}", "CUDA=0", "demo"], cwd=harness.ROOT, env=clean,
                              capture_output=True, text=True)  # fmt: skip
        assert made.returncode == 0 and ("is built first" in made.stdout.splitlines()[0]) != there, made.stdout


def test_architectures(tree):
    """9.0's own instructions are compiled for 9.0a alone, whichever of the two was named; PTX is of the highest."""
    tree.write("kernels/core/hopper.cu", "    .only_below = 100,\n")
    tree.write("kernels/core/hopper_half.cu", "half\n")

    def words(archs, name):
        tree.make({"CUDA": "1", "CUDA_ARCHS": archs})
        return re.findall(r"code=(\w+)|-DTILERUN_SM90A=(1)", tree.built()[f"kernels/core/{name}.cu.o"].split("\n")[0])

    for archs in ("90", "90a", "90 90a"):
        assert words(archs, "b") == [("sm_90", ""), ("compute_90", ""), ("", "1")]
        assert words(archs, "hopper") == words(archs, "hopper_half") == [("sm_90a", ""), ("", "1")]
    assert words("80", "b") == words("80", "hopper") == [("sm_80", ""), ("compute_80", "")]
    assert words("100 80", "b") == [("sm_100", ""), ("sm_80", ""), ("compute_100", "")]
    assert words("100 90", "hopper") == [("sm_90a", ""), ("", "1")]


def test_nvcc_that_arrives_later(tree):
    """Without nvcc the program is CPU-only; with it, the same command builds the rest, and objects that say so anew."""
    (tree.folder / "cuda/bin/nvcc").rename(tree.folder / "nvcc")
    assert not any(name.endswith(".cu.o") for name in tree.make({}))
    (tree.folder / "nvcc").rename(tree.folder / "cuda/bin/nvcc")
    made = tree.make({})
    assert {"kernels/core/b.cu.o", "runner/stream/device_cuda.c.o", "runner/main.c.o", "tilerun"} <= set(made)
    assert "-DTILERUN_CUDA=1" in tree.built()["runner/main.c.o"]


def test_an_interrupted_compiler_leaves_nothing(tree):
    """A compiler that fails after it has begun to write."""
    compiler = tree.folder / "bin/cc"
    good = compiler.read_text()
    compiler.write_text(good + "case $out in *main.c.o) exit 1 ;; esac\n")
    with pytest.raises(AssertionError):
        tree.make({"CUDA": "0"})
    compiler.write_text(good)
    assert "runner/main.c.o" in tree.make({"CUDA": "0"})


def test_a_line_of_the_registry_concerns_the_registry(tmp_path):
    """Of all sources, those in CUDA C too. (kernel.h concerns every variant, so includes are seen.)"""
    tree = Tree(tmp_path, whole=True)
    made = tree.make({"CUDA": "1"})
    variants = {name for name in made if re.fullmatch(r"kernels/(matmul|reduce|scale|transpose)/(tuned/)?\w+\.c.?\.o", name)}
    assert len(variants) > 30
    (tmp_path / "kernels/core/registry.def").touch()
    assert tree.make({"CUDA": "1"}) == ["kernels/core/registry.c.o", "tilerun"]
    (tmp_path / "kernels/core/kernel.h").touch()
    assert variants < set(tree.make({"CUDA": "1"}))


@pytest.mark.parametrize("suffix, macro, other", [("c", "CPU", "CUDA"), ("cu", "CUDA", "CPU")])
@pytest.mark.parametrize("cuda", ["0", "1"])
def test_a_variant_needs_its_line(tree, suffix, macro, other, cuda):
    """Whether it is compiled or not, and however old the file is."""
    knobs, registry = {"CUDA": cuda}, "kernels/core/registry.def"
    tree.make(knobs)
    file, begin = f"kernels/transpose/strips.{suffix}", "KERNEL({})" if (suffix == "c") == (cuda == "0") else "const struct kernel {}"
    source = tree.write(file, "/* KERNEL(like_this) */\n" + begin.format("transpose_strips") + " = {\n};\n")
    os.utime(source, (0, 0))
    forgotten = f"{file}: add {macro}(transpose_strips) to {registry}"
    for _ in range(2):
        assert "tilerun" not in tree.make(knobs, expect=forgotten)
    tree.write(registry, f"CPU(transpose_cpu)\n{other}(transpose_strips)\n")
    tree.make(knobs, expect=f"{file}: change {other}(transpose_strips) in {registry} to {macro}(transpose_strips)")
    tree.write(registry, f"CPU(transpose_strip)\n/* a comment */\n{macro}(transpose_strips)\n")
    tree.make(knobs)
    tree.write(registry, f"/* {macro}(transpose_strips) */\n")
    tree.make(knobs, expect=forgotten)


def test_a_stale_line_does_not_link(folder):
    copy = real.copy_tree(folder)
    real.register(copy, ["CPU(transpose_stale)"])
    done = real.make(copy)
    assert done.returncode == 2 and re.search("undefined reference to .transpose_stale", done.stdout), done.stdout


def test_only_the_commit(tree):
    tree.make({})
    tree.commit()
    assert tree.make({}) == ["runner/record/environment.c.o", "tilerun"]


def test_a_release_is_tagged_with_its_version():
    """The version stands in runner/record/environment.c alone. A tagged commit is v and that version."""
    version = re.match(r"tilerun (\d+\.\d+\.\d+) ", harness.tilerun("--version").stdout)[1]
    source = (harness.ROOT / "runner/record/environment.c").read_text()
    assert f'const char tilerun_version[] = "{version}";\n' in source
    tags = subprocess.run(["git", "tag", "--points-at", "HEAD", "v*"], cwd=harness.ROOT, capture_output=True, text=True)
    if tags.returncode or not tags.stdout:
        pytest.skip("this commit has no release's tag")
    assert tags.stdout.split() == [f"v{version}"]
    described = subprocess.run(["git", "describe", "--tags", "--exact-match"], cwd=harness.ROOT, capture_output=True)
    assert described.stdout.decode().strip() == f"v{version}"
