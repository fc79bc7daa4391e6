"""Drawn jobs, in several files that include each other, against an expander that knows only configs/README.md: the same
runs in the same order, with the same labels, shapes and types; each drawn mistake is reported at its place, once."""

import itertools
import json
import os
import random
import re

import pytest

import harness

CASES = int(os.environ.get("TILERUN_CASES", 40))
SEED = int(os.environ.get("TILERUN_SEED", 0)) or random.randrange(1 << 30)
PARTS = 4
THREADS = min(2, len(os.sched_getaffinity(0)))

# ---- values and expressions, whose rules are Python's ----------------------------------------------------------------


def written(value):
    """As a value stands in a label."""
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def evaluate(text, values):
    names = {"minimum": min, "maximum": max}
    return eval(re.sub(r"\$\{?(\w+)\}?", r"\1", text), {"__builtins__": {}}, names | values)  # noqa: S307: it is ours


def draw_list(rng, text):
    """A swept parameter as written, and its values."""
    if text:
        values = rng.sample(["float32", "float64"], rng.randint(1, 2))
        return f"[{', '.join(values)}]", values
    count, first = rng.randint(1, 3), rng.randint(1, 4)
    if rng.random() < 0.4:
        step = rng.choice([1, 2, 5])
        beyond = rng.randrange(step) if count > 1 else 0
        words = "" if step == 1 and rng.random() < 0.5 else f", step: {step}"
        values = [first + step * i for i in range(count)]
        return f"{{from: {first}, to: {values[-1] + beyond}{words}}}", values
    if rng.random() < 0.3:
        values = [first * 2**i for i in range(count)]
        return f"{{from: {first}, to: {values[-1]}, times: 2}}", values
    values = rng.sample([1, 2, 3, 4, 6, 7, 9], count)
    return json.dumps(values), values


EXPRESSIONS = [
    "$%s + 1", "2 * $%s", "maximum($%s, 3)", "$%s if $%s > 2 else 5", "$%s ** 2", "7 // $%s + 1", "($%s + 8) %% 5 + 1",
    "minimum($%s, $%s * 2)",
]  # fmt: skip
CONDITIONS = ["$%s <= $%s + 1", "$%s != $%s", "$%s * $%s < 30", "$%s >= 2 or $%s == 1", "not ($%s == 3 and $%s > 2)"]


# ---- the job ---------------------------------------------------------------------------------------------------------


class Job:
    """A drawn job: `lists` has the swept parameters, `derived` texts with what they use; `sections` what is written."""

    def __init__(self, rng):
        self.rng, self.env = rng, {}
        self.lists, self.derived, self.single, self.parameters = {}, {}, {}, {}
        for i in range(rng.randint(1, 4)):
            self.parameters[f"n{i}"], self.lists[f"n{i}"] = draw_list(rng, False)
        if rng.random() < 0.5:
            self.parameters["dt"], self.lists["dt"] = draw_list(rng, True)
        if rng.random() < 0.6:
            self.single["s"] = rng.randint(1, 9)
            self.parameters["s"] = self.draw_single(self.single["s"])
        self.swept = [name for name in self.lists if name != "dt"]
        for i in range(rng.randrange(3)):
            of = rng.choice([*self.swept, *self.single, *self.derived])
            text = rng.choice(EXPRESSIONS)
            self.derived[f"d{i}"] = text % ((of,) * text.count("%s")) if "%s" in text else text
            self.parameters[f"d{i}"] = self.derived[f"d{i}"]
        self.draw_zip()
        self.numbers = [*self.swept, *self.single, *self.derived]
        self.where = []
        for _ in range(rng.choice([0, 0, 1, 1, 2])):
            self.where.append(rng.choice(CONDITIONS) % (rng.choice(self.swept), rng.choice(self.numbers)))
        if "dt" in self.lists and rng.random() < 0.4:
            self.where.append(f"$dt == 'float32' or ${rng.choice(self.swept)} > 1")
        self.draw_operations()

    def draw_single(self, value):
        if self.rng.random() < 0.5:
            return str(value)
        self.env["TILERUN_DRAWN"] = str(value)
        return "${env:TILERUN_DRAWN}"

    def draw_zip(self):
        """Lists of one length, all of whose tuples differ since those of the first do."""
        self.zipped = []
        if len(self.swept) < 2 or self.rng.random() < 0.5:
            return
        self.zipped = self.rng.sample(self.swept, 2)
        length = self.rng.randint(2, 3)
        for name in self.zipped:
            self.lists[name] = self.rng.sample(range(1, 8), length)
            self.parameters[name] = json.dumps(self.lists[name])

    def draw_operations(self):
        """Everything that is a parameter is used by some input's shape."""
        rng, names = self.rng, list(self.numbers)
        rng.shuffle(names)
        self.inputs, self.operations = {}, {}
        while names or not self.inputs:
            sizes = [names.pop() if names else rng.choice(self.numbers) for _ in range(2)]
            dtype = "$dt" if "dt" in self.lists and (not self.inputs or rng.random() < 0.3) else "float32"
            self.inputs[f"A{len(self.inputs)}"] = ([f"${size}" for size in sizes], dtype)
        for name in self.inputs:
            self.add_operation(name)
        for _ in range(rng.randrange(3)):
            matrices = [name for name, (op, *_) in self.operations.items() if op != "reduce"]
            self.add_operation(rng.choice([*self.inputs, *matrices]))

    def add_operation(self, source):
        rng = self.rng
        op = rng.choice(["scale", "transpose", "reduce"])
        options = {"reduce": "operator: sum, axis: 0", "scale": "alpha: 2"}.get(op, "")
        threads = rng.choice([None, None, None, "[1]", "1", str(list(range(1, THREADS + 1)))])
        names = ["cpu"] if op == "scale" else rng.sample(["cpu", "blocked"], rng.randint(1, 2))
        self.operations[f"o{len(self.operations)}"] = (op, source, options, names, threads)

    # ---- what it means ----

    def uses(self, text):
        """The swept parameters that a text depends on."""
        found = set()
        for name in re.findall(r"\$\{?(\w+)\}?", text):
            found |= {name} if name in self.lists else self.uses(self.derived.get(name, ""))
        return found | set(self.zipped) if found & set(self.zipped) else found

    def order(self):
        return [name for name in self.merged["parameters"] if name in self.lists]

    def combinations(self):
        """Full combinations of values for which all conditions hold, the last parameter fastest."""
        order = self.order()
        groups = []
        for name in order:
            if name not in self.zipped:
                groups.append([name])
            elif self.zipped[0] in (name, None) or not any(set(group) & set(self.zipped) for group in groups):
                if not any(set(group) & set(self.zipped) for group in groups):
                    groups.append([n for n in order if n in self.zipped])
        for choice in itertools.product(*(range(len(self.lists[group[0]])) for group in groups)):
            at = {name: i for group, i in zip(groups, choice) for name in group}
            values = {name: self.lists[name][i] for name, i in at.items()} | self.single
            for name, text in self.derived.items():
                values[name] = evaluate(text, values)
            if all(evaluate(condition, values) for condition in self.where):
                yield at, values

    def instances(self, uses):
        """Label and values of each combination of the parameters that something depends on."""
        names = [name for name in self.order() if name in uses]
        found = {}
        for at, values in self.kept:
            found.setdefault(tuple(at[name] for name in names), values)
        for key in sorted(found):
            values = found[key]
            yield ",".join(f"{name}={written(values[name])}" for name in names), values

    def runs(self):
        self.kept = list(self.combinations())
        depends, shapes, dtypes, runs = {}, {}, {}, []
        for name, (sizes, dtype) in self.inputs.items():
            depends[name], shapes[name], dtypes[name] = self.uses(" ".join([*sizes, dtype])), sizes, dtype
        for name, (op, source, _, variants, threads) in self.operations.items():
            depends[name], dtypes[name] = depends[source], dtypes[source]
            shapes[name] = shapes[source][::-1] if op == "transpose" else shapes[source]
            threads = self.merged.get("defaults", {}).get("threads", "") if threads is None else threads
            counts = re.findall(r"\d+", threads)
            labels = [f"{v},threads={t}" for v in variants for t in counts] or variants
            for label, values in self.instances(depends[name]):
                shape = "x".join(str(evaluate(size, values)) for size in shapes[source])
                dtype = evaluate(dtypes[name], values) if "$" in dtypes[name] else dtypes[name]
                runs += [(name, label, variant, shape, dtype) for variant in labels]
        return runs

    # ---- what is written ----

    def sections(self):
        inputs = {
            name: f"{{random: {{shape: [{', '.join(sizes)}], dtype: {dtype}}}}}"
            for name, (sizes, dtype) in self.inputs.items()
        }
        defaults = {"repeat": "2"}
        if self.rng.random() < 0.2:
            defaults["threads"] = str(list(range(1, THREADS + 1)))
        operations = []
        for name, (op, source, options, variants, threads) in self.operations.items():
            more = [options] if options else []
            more += [f"threads: {threads}"] if threads else []
            operations.append(
                f"{{id: {name}, op: {op}, inputs: [{source}], variants: [{', '.join(variants)}]"
                + "".join(f", {word}" for word in more) + "}"
            )  # fmt: skip
        lists = {"operations": operations, "where": self.where, "zip": [f"[{', '.join(self.zipped)}]"]}
        maps = {"parameters": self.parameters, "inputs": inputs, "defaults": defaults}
        return maps, {name: lines for name, lines in lists.items() if lines and (name != "zip" or self.zipped)}

    def write(self, folder):
        """Deals the job out to files, whose values are hidden by those of files that include them; sets `merged` to the
        maps as they are merged, and `places` to the file and line of what counts."""
        maps, lists = self.sections()
        rng = self.rng
        tree = rng.choice([{"job.yaml": []}] * 2 + [
            {"job.yaml": ["a.yaml"], "a.yaml": []},
            {"job.yaml": ["a.yaml", "sub/b.yaml"], "a.yaml": [], "sub/b.yaml": ["c.yaml"], "sub/c.yaml": []},
        ])  # fmt: skip
        merging = [f for f in ("a.yaml", "sub/c.yaml", "sub/b.yaml", "job.yaml") if f in tree]  # the last one wins
        contents = {file: {} for file in merging}
        for section, entries in [*maps.items(), *lists.items()]:
            keys = entries.items() if isinstance(entries, dict) else [(None, entries)]
            for key, text in keys:
                owner = rng.randrange(len(merging))
                contents[merging[owner]].setdefault(section, {})[key] = text
                if owner and rng.random() < 0.3:
                    contents[merging[rng.randrange(owner)]].setdefault(section, {})[key] = self.hidden(section, key)
        self.merged, self.places, self.texts = {}, {}, {}
        for file in merging:
            lines = ["version: 1"] if file == "job.yaml" else []
            if tree[file]:
                lines.append(f"include: {tree[file][0] if len(tree[file]) == 1 else '[' + ', '.join(tree[file]) + ']'}")
                self.places["include", file] = (file, len(lines))
            for section, entries in contents[file].items():
                lines.append(f"{section}:")
                for key, text in entries.items():
                    self.merged.setdefault(section, {})[key] = text
                    for number, line in enumerate([text] if key else text):
                        lines.append(f"  {key}: {line}" if key else f"  - {line}")
                        self.places[section, key or number] = (file, len(lines))
            lines += ["x-empty: 1"] if not lines else []
            self.texts[file] = lines
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text("\n".join(lines) + "\n")
        if list(self.merged["parameters"]) != sorted(self.merged["parameters"], key=self.depth):
            return False  # a parameter may use earlier ones only
        return True

    def hidden(self, section, key):
        """What would count if a file were missing, and would be no mistake."""
        values = {
            "operations": ["{id: hidden, op: scale, inputs: [A0]}"], "where": ["$n0 > 0"], "defaults": "1",
            "zip": [f"[{', '.join(reversed(self.zipped))}]"], "inputs": "{random: {shape: [2, 2]}}",
        }  # fmt: skip
        if section != "parameters":
            return values[section]
        if key in self.zipped:
            return json.dumps(self.lists[key][::-1])
        return "[float32]" if key == "dt" else "77"

    def depth(self, name):
        return 0 if name not in self.derived else 1 + max(map(self.depth, re.findall(r"\$(\w+)", self.derived[name])))


def run_plan(folder, job, *arguments):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TILERUN_DRAWN")} | job.env
    return harness.tilerun("plan", "job.yaml", "--json", *arguments, cwd=folder, env=environment)


def draw_job(rng, folder):
    while True:
        job = Job(rng)
        if job.write(folder):
            return job


def show(folder, job):
    return f"seed {SEED}\n" + "\n".join(f"--- {file}\n{(folder / file).read_text()}" for file in job.texts)


def planned(done):
    runs = json.loads(done.stdout)["runs"]
    return [(r["operation"], r["parameters"], r["variant"], r["shape"], r["dtype"]) for r in runs]


def draw_set(rng, job):
    """--set for some parameters; changes the job accordingly."""
    arguments = []
    for name in rng.sample(job.swept, rng.randrange(2)):
        if name in job.zipped:
            continue
        text, job.lists[name] = draw_list(rng, False)
        text = ",".join(map(str, job.lists[name])) if rng.random() < 0.5 else text
        arguments += ["--set", f"{name}={text}"]
    if "s" in job.single and rng.random() < 0.3:
        job.single["s"] = rng.randint(1, 9)
        arguments += ["--set", f"s={job.single['s']}"]
    return arguments


@pytest.mark.parametrize("part", range(PARTS))
def test_runs(tmp_path, part):
    rng = random.Random(f"{SEED} runs {part}")
    for number in range(max(1, CASES // PARTS)):
        folder = tmp_path / str(number)
        job = draw_job(rng, folder)
        arguments = draw_set(rng, job)
        expected = job.runs()
        done = run_plan(folder, job, *arguments)
        if not expected:
            assert done.returncode == harness.USAGE, show(folder, job)
            found = re.findall(r"^(\S+?):(\d+):", done.stderr, re.M)
            assert found == [last_condition(job)], show(folder, job) + done.stderr
            continue
        assert done.returncode == harness.OK, show(folder, job) + f"{arguments}\n{done.stderr}"
        assert planned(done) == expected, show(folder, job) + str(arguments)
        left_out = len(job.kept) < len(list(Fewer(job, 0).combinations()))
        assert ("leaves out" in done.stderr) == left_out, show(folder, job) + done.stderr


class Fewer(Job):
    """A job with its first conditions only."""

    def __init__(self, job, count):
        self.__dict__.update(job.__dict__, where=job.where[:count])


def last_condition(job):
    """The place of the condition after which nothing is left."""
    count = next(count for count in range(len(job.where) + 1) if not list(Fewer(job, count).combinations()))
    file, line = job.places["where", count - 1]
    return file, str(line)


# ---- mistakes --------------------------------------------------------------------------------------------------------


def spoil(rng, job, folder):
    """Makes one mistake in the files. Returns the file and line at which it must be reported."""
    whole = [(key, place) for key, place in job.places.items() if key[0] != "include"]
    parameters = [(key[1], place) for key, place in whole if key[0] == "parameters"]
    swept = [place for name, place in parameters if name in job.swept and name not in job.zipped]
    twice = [(place, job.lists[name]) for name, place in parameters if name in job.swept and name not in job.zipped]
    operations = [place for key, place in whole if key[0] == "operations"]
    operations = [(f, n) for f, n in operations if "threads" not in job.texts[f][n - 1]] or operations[:0]
    inputs = [place for key, place in whole if key[0] == "inputs"]
    conditions = [place for key, place in whole if key[0] == "where"]
    includes = [place for key, place in job.places.items() if key[0] == "include"]
    derived = [place for name, place in parameters if name in job.derived]
    mistakes = [
        (operations, r"\}$", ", timeout: 10}"), (operations, r"\}$", ", timeout: 5 minutes}"),
        (operations, r"\}$", ", retries: -1}"), (operations, r"\}$", ", threads: 99999}"),
        (operations, r"\}$", ", threads: [0]}"), (operations, r"\}$", ", alhpa: $n0}"),
        (operations, r"inputs: \[\w+", "inputs: [gone"), (inputs, r"shape: \[", "shape: [$gone, "),
        (inputs, "random", "rnadom"),
        (swept, r": .*", ": {from: 1, to: 5, step: 0}"),
        (swept, r": .*", ": {from: 5, to: 1, step: 1}"),
        (swept, r": .*", ": {from: 1, to: 5, by: 2}"),
        (swept, r": .*", ": []"),
        ([place for _, place in parameters], r": .*", ": ${env:TILERUN_DRAWN_GONE}"),
        (derived, r": .*", ": $n0 * / 2"), (derived, r": .*", ": $n0 // 0"), (derived, r": .*", ": $n0 + $gone"),
        (derived, r": .*", ": sqroot($n0)"), (conditions, r"- .*", "- $n0 <"), (conditions, r"- .*", "- $gone > 1"),
        (conditions, r"- .*", "- $n0 // 0 > 1"), (conditions, r"- .*", "- 1 < 2"), (conditions, r"- .*", "- $n0 > 1e6"),
        ([place for key, place in whole if key[0] == "zip"], r"\[", "[gone, "),
        ([place for key, place in whole if key[0] == "zip"], r"\[(\w+)", r"[\1, \1"),
        *(([place], ": .*", f": {json.dumps([*values, values[-1]])}") for place, values in twice),
        (includes, r": .*", ": gone.yaml"), (includes, r": .*", ": ITSELF"), (includes, r": .*", ": THE JOB"),
    ]  # fmt: skip
    places, pattern, text = rng.choice([mistake for mistake in mistakes if mistake[0]])
    file, line = rng.choice(places)
    for word, other in (("ITSELF", file), ("THE JOB", "job.yaml")):
        text = text.replace(word, os.path.relpath(other, os.path.dirname(file) or "."))
    spoiled, count = re.subn(pattern, text, job.texts[file][line - 1], count=1)
    assert count == 1, (pattern, job.texts[file][line - 1])
    job.texts[file][line - 1] = spoiled
    (folder / file).write_text("\n".join(job.texts[file]) + "\n")
    return file, line


@pytest.mark.parametrize("part", range(PARTS))
def test_mistakes(tmp_path, part):
    """One mistake is one message, at its file and line; exit code 2."""
    rng = random.Random(f"{SEED} mistakes {part}")
    for number in range(max(1, CASES // PARTS)):
        folder = tmp_path / str(number)
        job = draw_job(rng, folder)
        while not job.runs():
            job = draw_job(rng, folder)
        file, line = spoil(rng, job, folder)
        done = run_plan(folder, job)
        found = re.findall(r"^(\S+?):(\d+):(\d+): ", done.stderr, re.M)
        assert done.returncode == harness.USAGE, show(folder, job) + done.stderr
        assert {place[:2] for place in found} == {(file, str(line))}, show(folder, job) + done.stderr
        assert len(found) == 1, show(folder, job) + done.stderr
