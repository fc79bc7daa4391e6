"""Sweeps: ranges, derived parameters, `zip` and `where`, against an expander of their own, and expressions against
Python's parser."""

import ast
import itertools
import json
import math
import os
import random
import re

import h5py
import numpy as np
import pytest

import harness

CASES = int(os.environ.get("TILERUN_CASES", 60))
SEED = int(os.environ.get("TILERUN_SEED", 0)) or random.randrange(1 << 30)
LEAST, MOST = -(1 << 63), (1 << 63) - 1


class NoValue(Exception):
    """The expression has none."""


def real(function, numpy_function):
    """A function of the C library on doubles; NumPy's where Python raises instead of giving infinity or NaN."""

    def value(*operands):
        try:
            return float(function(*operands))
        except (OverflowError, ValueError):
            return float(numpy_function(*(np.float64(x) for x in operands)))

    return value


def or_integer(function):
    return lambda x: int(x) if isinstance(x, int) else float(function(x))


def either(function, choose):
    """`minimum` or `maximum`: keeps the type of the one that it takes."""
    return lambda a, b: a if math.isnan(a) else b if math.isnan(b) else choose(a, b)


FUNCTIONS = {
    "abs": abs,
    "floor": or_integer(np.floor),
    "ceil": or_integer(np.ceil),
    "rint": or_integer(np.rint),
    "sign": lambda x: (x > 0) - (x < 0) if isinstance(x, int) else float(np.sign(x)),
    "minimum": either(np.minimum, min),
    "maximum": either(np.maximum, max),
    "clip": lambda x, low, high: FUNCTIONS["minimum"](FUNCTIONS["maximum"](x, low), high),
    "isfinite": math.isfinite,
    "sqrt": real(math.sqrt, np.sqrt),
    "exp": real(math.exp, np.exp),
    "log2": real(math.log2, np.log2),
    "hypot": real(math.hypot, np.hypot),
}


def power(a, b):
    if isinstance(a, int) and isinstance(b, int) and b >= 0:
        if b > 64 and abs(a) > 1:
            raise NoValue
        return a**b
    if a == 0 and b < 0:
        raise NoValue
    return real(math.pow, np.power)(a, b)


OPERATORS = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: float(a) / float(b),
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
    ast.Pow: power,
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
}


def bounded(value):
    if isinstance(value, int) and not LEAST <= value <= MOST:
        raise NoValue
    return value


def evaluate(node, names):
    """The value of a tree of Python's parser, in 64 bits."""
    match node:
        case ast.Expression():
            return evaluate(node.body, names)
        case ast.Constant():
            return bounded(node.value)
        case ast.Name():
            return names[node.id]
        case ast.UnaryOp():
            value = evaluate(node.operand, names)
            if isinstance(node.op, ast.Not):
                return not value
            return bounded(-value if isinstance(node.op, ast.USub) else +value)
        case ast.BoolOp():
            wanted = isinstance(node.op, ast.Or)
            return wanted if any(bool(evaluate(v, names)) == wanted for v in node.values) else not wanted
        case ast.IfExp():
            return evaluate(node.body if evaluate(node.test, names) else node.orelse, names)
        case ast.Compare():
            left = evaluate(node.left, names)
            for op, right in zip(node.ops, node.comparators):
                right = evaluate(right, names)
                if not OPERATORS[type(op)](left, right):
                    return False
                left = right
            return True
        case ast.BinOp():
            a, b = evaluate(node.left, names), evaluate(node.right, names)
            return bounded(OPERATORS[type(node.op)](a, b))
        case ast.Call():
            return bounded(FUNCTIONS[node.func.id](*(evaluate(a, names) for a in node.args)))
    raise AssertionError(ast.dump(node))


def value_of(text, names):
    tree = ast.parse(re.sub(r"\$\{?(\w+)\}?", r"\1", text).strip(), mode="eval")
    try:
        with np.errstate(all="ignore"):
            return evaluate(tree, names)
    except (ZeroDivisionError, NoValue):
        return None


def drawn(rng, names, depth):
    """An expression of these names."""
    if depth == 0 or rng.random() < 0.15:
        if rng.random() < 0.6:
            return rng.choice(["$%s", "${%s}"]) % rng.choice(names)
        return rng.choice(["0", "1", "2", "3", "7", "64", "0.5", "1e3", "2.25", "9223372036854775807"])
    a, b, c = (drawn(rng, names, depth - 1) for _ in range(3))
    kind = rng.randrange(12)
    if kind < 5:
        return f"{a} {rng.choice(['+', '-', '*', '/', '//', '%'])} {b}"
    if kind == 5:
        return f"({a}) {rng.choice(['**', '*', '-'])} {rng.choice(['2', '3', '-1', '$b'])}"
    if kind == 6:
        return f"{a} {rng.choice(['<', '<=', '>', '>=', '==', '!='])} {b}"
    if kind == 7:
        return f"({a} {rng.choice(['and', 'or'])} {rng.choice(['', 'not '])}{b})"
    if kind == 8:
        return f"({a} if {b} else {c})"
    if kind == 9:
        return rng.choice(["-", "+", ""]) + f"({a})"
    name = rng.choice(sorted(FUNCTIONS))
    operands = {"minimum": 2, "maximum": 2, "hypot": 2, "clip": 3}.get(name, 1)
    return f"{name}({', '.join([a, b, c][:operands])})"


def is_same(text, value):
    if isinstance(value, bool):
        return text == str(value).lower()
    if isinstance(value, int):
        return text == str(value)
    read = float(text.removeprefix("!!float "))
    if not text.startswith("!!float ") and not set(text) & set(".eE"):
        return False  # an integer
    if math.isnan(value) or value == 0:
        return str(read) == str(float(value))
    return read == value or abs(read - value) <= 1e-12 * abs(value)


def resolved(path):
    """The values of the parameters of a job, as `plan --resolved` prints them."""
    text = harness.quiet("plan", "--resolved", path)
    block = text.split("parameters:\n")[1].split("inputs:")[0]
    return {name: value.strip('"') for name, value in re.findall(r"^  (\w+): (.*)$", block, re.M)}


@pytest.mark.parametrize("part", range(4))
def test_expressions(tmp_path, part):
    """Drawn expressions have the values that Python gives them, and those without a value are errors at their lines."""
    rng = random.Random(f"{SEED} {part}")
    path = tmp_path / "job.yaml"
    for _ in range(max(1, CASES // 20)):
        choices = {"a": [0, 1, 2, 3, 5, 1 << 40], "b": [-3, -1, 0, 1, 2, 4], "x": [0.1, 1.5, -2.75, 1e200]}
        names = {name: rng.choice(of) for name, of in choices.items()}
        texts = {f"e{i}": drawn(rng, list(names), rng.randint(1, 4)) for i in range(40)}
        texts = {name: text + " + 0 * $a" if "$" not in text else text for name, text in texts.items()}
        values = {name: value_of(text, names) for name, text in texts.items()}

        def write(kept):
            lines = ["version: 1", "parameters:"]
            lines += [f"  {name}: {value}" for name, value in names.items()]
            lines += [f"  {name}: {rng.choice(['', ' '])}{texts[name]}" for name in kept]
            uses = " ".join(f"${{{name}}}" for name in [*names, *kept])
            lines += [f'description: "{uses}"', "inputs: {A: {random: {shape: [2]}}}"]
            lines += ["operations: [{id: s, op: reduce, operator: sum, axis: all, inputs: [A]}]"]
            path.write_text("\n".join(lines) + "\n")
            heads = [line.split(":")[0].strip() for line in lines]
            return {name: heads.index(name) + 1 for name in kept}

        lines = write(texts)
        done = harness.tilerun("check", path)
        wrong = {lines[name] for name, value in values.items() if value is None}
        assert {int(n) for n in re.findall(r"job\.yaml:(\d+):", done.stderr)} == wrong, f"seed {SEED}: {done.stderr}"
        good = [name for name, value in values.items() if value is not None]
        write(good)
        shown = resolved(path)
        for name in good:
            assert is_same(shown[name], values[name]), f"seed {SEED}: {texts[name]} of {names}: {shown[name]}"


@pytest.mark.parametrize("depth, code", [(8, harness.OK), (100, harness.USAGE)])
def test_chains_in_chains(tmp_path, depth, code):
    """The middle of `a < b < c` is evaluated twice; nested ones would take for ever."""
    text = "$n"
    for _ in range(depth):
        text = f"0 <= ({text}) <= 1"
    path = tmp_path / "job.yaml"
    path.write_text(
        f"version: 1\nparameters: {{n: [1]}}\nwhere: {text}\ninputs: {{A: {{random: {{shape: [$n]}}}}}}\n"
        "operations: [{id: t, op: scale, inputs: [A]}]\n"
    )
    assert harness.tilerun("check", path, timeout=20).returncode == code


def test_parameters_that_use_others_twice(tmp_path):
    """Each is computed once for a combination, not twice as often as the one below it."""
    chain = "".join(f"  p{i}: ($p{i - 1} + $p{i - 1}) / 2\n" for i in range(1, 60))
    (tmp_path / "job.yaml").write_text(
        f"version: 1\nparameters:\n  p0: [1, 2]\n{chain}inputs: {{A: {{random: {{shape: [3]}}}}}}\n"
        "operations: [{id: t, op: scale, inputs: [A], alpha: $p59}]\n"
    )
    assert harness.tilerun("check", tmp_path / "job.yaml", timeout=20).returncode == harness.OK


# ---- the expander ---------------------------------------------------------------------------------------------------


def drawn_range(rng):
    """A range as written and its values."""
    first, count = rng.randint(1, 5), rng.randint(1, 4)
    if rng.random() < 0.5:
        step = rng.choice([1, 3, -1, -4, 0.5, 0.1])
        values = [first + i * step for i in range(count)]
        beyond = rng.choice([0, int(step / 3)]) if isinstance(step, int) and count > 1 else 0
        step = "" if step == (1 if count > 1 else None) else f", step: {step}"
        return f"{{from: {first}, to: {values[-1] + beyond!r}{step}}}", values
    factor, sign = rng.choice([2, 3, 10]), rng.choice([1, 1, -1])
    first *= sign
    values = [first * factor**i for i in range(count)]
    if count > 1 and rng.random() < 0.3:
        return f"{{from: {values[-1]}.0, to: {first}, times: {1 / factor!r}}}", values[::-1]
    beyond = sign * rng.randrange(2) if count > 1 else 0
    return f"{{from: {first}, to: {values[-1] + beyond}, times: {factor}}}", values


class Sweep:
    """A drawn job, and the runs that it must have."""

    def __init__(self, rng):
        self.lists, self.lines = {}, []
        count, length = rng.randint(1, 4), rng.randint(1, 3)
        self.zipped = [f"p{i}" for i in range(rng.randint(2, count))] if count > 1 and rng.random() < 0.4 else []
        for i in range(count):
            values = rng.sample([1, 2, 3, 5, 8, 13], rng.randint(1, 3))
            if self.zipped and i < len(self.zipped):  # the first has no value twice, so the tuples differ
                values = rng.sample(range(1, 9), length) if i == 0 else [rng.randint(1, 3) for _ in range(length)]
            text = json.dumps(values)
            if not (self.zipped and i < len(self.zipped)) and rng.random() < 0.5:
                text, values = drawn_range(rng)
            self.lists[f"p{i}"] = values
            self.lines.append(f"  p{i}: {text}")
        names = list(self.lists)
        self.derived = rng.choice(["$p0 + 1", "2 * $p0", "maximum($p0, 2)", "$p0 if $p0 > 2 else 3"])
        self.where = []
        for _ in range(rng.randrange(3)):
            a, b = rng.choice(names), rng.choice([*names, "d"])
            condition = f"${a} {rng.choice(['<', '<=', '!=', '>='])} ${b} + {rng.choice([0, 1, 2])}"
            self.where.append(condition + rng.choice(["", f" or ${a} == 1", f" and ${b} < 9"]))
        self.operations = [rng.sample(names, rng.randint(1, count)) for _ in range(rng.randint(1, 3))]
        self.operations[-1] += [n for n in names if not any(n in of for of in self.operations)]
        self.operations[0] += ["d"]

    def kept(self):
        """The places in the lists of all full combinations for which the conditions hold, in order."""
        groups = [[name] for name in self.lists if name not in self.zipped[1:]]
        groups = [self.zipped if self.zipped and group == self.zipped[:1] else group for group in groups]
        self.count = math.prod(len(self.lists[group[0]]) for group in groups)
        for indices in itertools.product(*(range(len(self.lists[group[0]])) for group in groups)):
            at = {name: i for group, i in zip(groups, indices) for name in group}
            values = {name: self.lists[name][i] for name, i in at.items()}
            values["d"] = value_of(self.derived, values)
            if all(value_of(condition, values) for condition in self.where):
                yield at

    def runs(self):
        """The operation and label of each run, in order."""
        kept = list(self.kept())
        runs = []
        for number, names in enumerate(self.operations):
            uses = {"p0" if name == "d" else name for name in names}
            uses |= set(self.zipped) if uses & set(self.zipped) else set()
            names = [name for name in self.lists if name in uses]
            places = sorted({tuple(at[name] for name in names) for at in kept})
            labels = [",".join(f"{n}={self.lists[n][i]:.15g}" for n, i in zip(names, at)) for at in places]
            runs += [(f"o{number}", label) for label in labels]
        return runs

    def text(self):
        lines = ["version: 1", "parameters:", *self.lines, f"  d: {self.derived}"]
        lines += [f"zip: [[{', '.join(self.zipped)}]]"] if self.zipped else []
        lines += ["where:", *(f"  - {condition}" for condition in self.where)] if self.where else []
        lines += ["inputs: {A: {random: {shape: [2]}}}", "operations:"]
        for number, names in enumerate(self.operations):
            names = [*names, *(n for n in self.lists if n in self.zipped and set(names) & {*self.zipped, "d"})]
            names += ["p0"] if "d" in names else []
            place = f"x{number}-" + "-".join(f"${{{name}}}" for name in names)
            lines.append(f"  - {{id: o{number}, op: scale, alpha: 1, inputs: [A], to: '{place}.h5:/x'}}")
        return "\n".join(lines) + "\n"


@pytest.mark.parametrize("part", range(4))
def test_expansion(tmp_path, part):
    """Drawn sweeps have the runs, in the order and with the labels, that an expander in Python gives them; so has the
    resolved job."""
    rng = random.Random(f"{SEED} {part}")
    for number in range(max(1, CASES // 4)):
        sweep = Sweep(rng)
        path = tmp_path / f"{number}.yaml"
        path.write_text(sweep.text())
        expected = sweep.runs()
        done = harness.tilerun("plan", "--json", path)
        if not expected:
            assert done.returncode == harness.USAGE and "where" in done.stderr, f"seed {SEED}: {sweep.text()}"
            continue
        assert done.returncode == harness.OK, f"seed {SEED}: {done.stderr}"
        assert ("leaves out" in done.stderr) == (len(list(sweep.kept())) < sweep.count), f"seed {SEED}: {sweep.text()}"
        for text in (done.stdout, None):
            if text is None:
                again = tmp_path / "resolved.yaml"
                again.write_text(harness.tilerun("plan", "--resolved", path).stdout)
                text = harness.tilerun("plan", "--json", again).stdout
            runs = [(run["operation"], run["parameters"]) for run in json.loads(text)["runs"]]
            assert list(dict.fromkeys(runs)) == expected, f"seed {SEED}: {sweep.text()}"


def test_a_large_space_with_few_combinations_left(tmp_path):
    """What `where` leaves counts, not the 262,144 combinations; what is left may be too much as well."""
    path = tmp_path / "job.yaml"
    text = (
        "version: 1\nparameters: {a: {from: 1, to: 64}, b: {from: 1, to: 64}, c: {from: 1, to: 64}}\n"
        "where: $a * $b * $c == 64\ninputs: {A: {random: {shape: [$a, $b, $c]}}}\n"
        "operations: [{id: s, op: reduce, operator: sum, axis: all, inputs: [A]}]\n"
    )
    path.write_text(text)
    done = harness.tilerun("plan", "--json", path)
    wanted = [(a, b, 64 // a // b) for a in range(1, 65) for b in range(1, 65) if 64 % (a * b) == 0]
    assert done.returncode == harness.OK and "262116 of 262144" in done.stderr, done.stderr
    assert [run["parameters"] for run in json.loads(done.stdout)["runs"]] == [f"a={a},b={b},c={c}" for a, b, c in wanted]
    path.write_text(text.replace("== 64", "> 64"))
    done = harness.tilerun("check", path)
    assert done.returncode == harness.USAGE and "more than 100000 inputs" in done.stderr


REAL = """
version: 1
parameters: {n: [2, 3], half: $n / 2, same: $half, k: {from: 1, to: 2, step: 0.5}, a: 1, one: $a / 1, list: [$a * 2.0]}
tags: {one: $one}
inputs: {x: {random: {shape: [$one], dtype: uint8, distribution: constant, value: 200}}}
defaults: {threads: $one}
operations:
  - {id: half, op: map, inputs: [x], expression: x * $half}
  - {id: same, op: map, inputs: [x], expression: x * $same}
  - {id: ranged, op: map, inputs: [x], expression: x * $k}
  - {id: listed, op: map, inputs: [x], expression: x * $list}
  - {id: one, op: map, inputs: [x], expression: x * $one, to: "of-$one.h5:/x"}
"""
PRODUCTS = {"n=2/half": 200, "n=3/half": 300, "n=2/same": 200, "n=3/same": 300, "k=1/ranged": 200,
            "k=1.5/ranged": 300, "k=2/ranged": 400, "list=2/listed": 400, "one": 200}  # fmt: skip


def test_a_computed_real_number_stays_one(tmp_path):
    """Beside it integers become float64, also if it is whole, and also by the resolved job. A whole one is a size, a
    count and a text as an integer is."""
    job, resolved = tmp_path / "job.yaml", tmp_path / "resolved.yaml"
    job.write_text(REAL)
    resolved.write_text(harness.quiet("plan", "--resolved", job))
    for path in (job, resolved):
        harness.tilerun("run", path, "-o", tmp_path / "out.h5", "--once", "--overwrite", expect=harness.OK)
        with h5py.File(tmp_path / "out.h5") as file:
            values = {name: file["outputs"][name][()] for name in PRODUCTS}
            assert isinstance(file.attrs["one"], np.float64)
        assert {name: of.tolist() for name, of in values.items()} == {name: [of] for name, of in PRODUCTS.items()}
        assert {of.dtype.name for of in values.values()} == {"float64"}
        assert (tmp_path / "of-1.h5").exists()


@pytest.mark.parametrize(
    "text, values",
    [
        ("n=[1, 4]", [1, 4]),
        ("n={from: 2, to: 8, times: 2}", [2, 4, 8]),
        ("n={from: 3, to: 1, step: -1}", [3, 2, 1]),
        ("n=3,5", [3, 5]),
        ("n=7", [7]),
    ],
)
def test_set(tmp_path, text, values):
    """--set takes lists and ranges; what is derived follows."""
    path = tmp_path / "job.yaml"
    path.write_text(
        "version: 1\nparameters: {n: [9], m: $n * 2}\ninputs: {A: {random: {shape: [$n, $m]}}}\n"
        "operations: [{id: t, op: transpose, inputs: [A]}]\n"
    )
    runs = json.loads(harness.quiet("plan", "--json", path, "--set", text))["runs"]
    assert [(run["parameters"], run["shape"]) for run in runs] == [(f"n={n}", f"{n}x{2 * n}") for n in values]


def test_set_keeps_commas(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text(
        "version: 1\nparameters: {name: x}\ninputs: {A: {random: {shape: [4]}}}\n"
        'operations: [{id: s, op: scale, alpha: 2, inputs: [A], to: "$name:/s"}]\n'
    )
    done = harness.tilerun("run", path, "-o", tmp_path / "out.h5", "--once", "--set", 'name=["a,b.h5"]')
    assert done.returncode == harness.OK and (tmp_path / "a,b.h5").exists(), done.stderr
