"""`op: map`: drawn expressions over arrays of all types, shapes and special values, compared with NumPy bit by bit
where IEEE 754 defines the result, and within two units in the last place elsewhere."""

import itertools
import os
import random
import re

import h5py
import numpy as np
import pytest

import harness

CASES = int(os.environ.get("TILERUN_CASES", 300))
SEED = int(os.environ.get("TILERUN_SEED", 0)) or random.randrange(1 << 30)
IN_JOB = 50  # expressions
TYPES = ["float32", "float64", "float16"] + [f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)]
SHAPES = [(7, 5, 6), (5, 6), (6,), (1, 6), (7, 1, 1), (5, 1), (1,), ()]
WHOLE = (7, 5, 6)


class NoType(Exception):
    """NumPy refuses these types or values."""


class Value:
    """A part of an expression: its text, and NumPy's array, or a Python number, which has no type of its own."""

    def __init__(self, text, value):
        self.text = text
        self.value = np.asarray(value) if isinstance(value, np.generic) else value
        self.weak = not isinstance(self.value, np.ndarray)


def is_float(dtype):
    return np.dtype(dtype).kind == "f"


def common(*values):
    """NumPy's type for an operation on these values (NEP 50)."""
    strong = [v.value.dtype for v in values if not v.weak]
    weak = [v.value for v in values if v.weak]
    dtype = np.result_type(*strong) if strong else np.dtype(bool)
    if any(isinstance(w, float) for w in weak) and not is_float(dtype):
        return np.dtype(np.float64)
    if any(type(w) is int for w in weak) and dtype == bool:
        return np.dtype(np.int64)
    return dtype


def cast(value, dtype):
    if value.weak and type(value.value) is int and np.dtype(dtype).kind in "iu":
        limits = np.iinfo(dtype)
        if not limits.min <= value.value <= limits.max:
            raise NoType
    return np.asarray(value.value).astype(dtype)


def float_type(dtype):
    if is_float(dtype):
        return dtype
    return np.dtype({1: np.float16, 2: np.float32}.get(dtype.itemsize, np.float64))


def arithmetic(name, function):
    def value(a, b):
        dtype = common(a, b)
        if name in ("//", "%", "**") and dtype == bool:
            dtype = np.dtype(np.int8)
        if name == "-" and dtype == bool:
            raise NoType
        if name == "/" and not is_float(dtype):
            dtype = np.dtype(np.float64)
        x, y = cast(a, dtype), cast(b, dtype)
        if name == "**" and dtype.kind in "iu" and (y < 0).any():
            raise NoType
        return Value(f"({a.text} {name} {b.text})", function(x, y))

    return value


def comparison(name, function):
    def value(a, b):
        kinds = [np.asarray(v.value).dtype.kind for v in (a, b)]
        if "f" in kinds:
            dtype = common(a, b)
            x, y = cast(a, dtype), cast(b, dtype)
        else:  # by value, whatever the types
            x, y = (np.asarray(v.value).astype(object) for v in (a, b))
        return Value(f"({a.text} {name} {b.text})", np.asarray(function(x, y)).astype(bool))

    return value


def unary(name, function, bools=True, written="{name}({x})", to_float=False, floats_only=False):
    def value(a):
        if a.weak:
            raise NoType
        dtype = a.value.dtype
        if dtype == bool and not bools:
            raise NoType
        text = written.format(name=name, x=a.text)
        if floats_only and not is_float(dtype):
            return Value(text, a.value)
        return Value(text, function(a.value.astype(float_type(dtype)) if to_float else a.value))

    return value


def two(name, function):
    def value(a, b):
        dtype = common(a, b)
        return Value(f"{name}({a.text}, {b.text})", function(cast(a, dtype), cast(b, dtype)))

    return value


def where(c, a, b):
    dtype = common(a, b)
    condition = np.asarray(c.value).astype(bool)
    chosen = np.where(condition, cast(a, dtype), cast(b, dtype))
    text = random.Random(c.text).choice(["where({c}, {a}, {b})", "({a} if {c} else {b})"])
    return Value(text.format(c=c.text, a=a.text, b=b.text), chosen)


def clip(x, low, high):
    dtype = common(x, low, high)
    clipped = np.minimum(np.maximum(cast(x, dtype), cast(low, dtype)), cast(high, dtype))
    return Value(f"clip({x.text}, {low.text}, {high.text})", clipped)


def logical(name, function):
    def value(a, b):
        x, y = (np.asarray(v.value).astype(bool) for v in (a, b))
        return Value(f"({a.text} {name} {b.text})", function(x, y))

    return value


def to_type(a, dtype):
    array = np.asarray(a.value)
    if np.dtype(dtype).kind in "iu" and array.dtype.kind == "f":  # C defines no result beyond the type's range
        limits = np.iinfo(dtype)
        whole = np.trunc(array.astype(np.longdouble))
        low, high = np.longdouble(str(limits.min)), np.longdouble(str(limits.max))
        if not (np.isfinite(array) & (whole >= low) & (whole <= high)).all():
            raise NoType
    return Value(f'cast({a.text}, "{dtype}")', array.astype(dtype))


EXACT = [
    *(arithmetic(*row) for row in (("+", np.add), ("-", np.subtract), ("*", np.multiply), ("/", np.divide),
                                   ("//", np.floor_divide), ("%", np.remainder))),
    *(comparison(*row) for row in (("<", np.less), ("<=", np.less_equal), (">", np.greater), ("==", np.equal),
                                   (">=", np.greater_equal), ("!=", np.not_equal))),
    logical("and", np.logical_and),
    logical("or", np.logical_or),
    two("minimum", np.minimum),
    two("maximum", np.maximum),
    unary("not", lambda x: ~x.astype(bool), written="(not {x})"),
    unary("-", np.negative, bools=False, written="(-{x})"),
    unary("+", lambda x: x, bools=False, written="(+{x})"),
    unary("abs", np.abs),
    unary("sign", np.sign, bools=False),
    unary("isnan", np.isnan),
    unary("isfinite", np.isfinite),
    unary("floor", np.floor, floats_only=True),
    unary("ceil", np.ceil, floats_only=True),
    unary("rint", np.rint, to_float=True),
    unary("sqrt", np.sqrt, to_float=True),
    where,
    clip,
    to_type,
]  # fmt: skip
INEXACT = [np.exp, np.log, np.log2, np.log10, np.sin, np.cos, np.tan, np.tanh, np.hypot, np.power]


def draw_arrays(draw):
    """Inputs of drawn types and shapes, with special values."""
    arrays = {}
    for name in "ABCDE":
        dtype, shape = np.dtype(draw.choice(TYPES)), draw.choice(SHAPES)
        generator = np.random.default_rng(draw.randrange(1 << 30))
        if dtype.kind == "f":
            array = generator.normal(0, 10.0 ** draw.choice([-3, 0, 1, 4]), shape)
            special = np.array([0.0, -0.0, 1, -1, np.nan, np.inf, -np.inf, 2.5, -7.0, 3e38, 1e-45, 0.5])
            array = np.where(generator.random(shape) < 0.3, generator.choice(special, shape), array)
        else:
            limits = np.iinfo(dtype)
            array = generator.integers(max(limits.min, -20), 20, shape)
            edges = np.array([limits.min, limits.max, 0, 1, limits.max - 1], dtype)
            array = np.where(generator.random(shape) < 0.2, generator.choice(edges, shape), array.astype(dtype))
        with np.errstate(all="ignore"):
            arrays[name] = np.asarray(array).astype(dtype)
    arrays["E"] = np.resize(arrays["E"], WHOLE)  # so that every index exists
    return arrays


def draw_constant(draw):
    number = draw.choice([0, 1, 2, -1, 3, 7, 100, 300, -2, 0.5, -1.25, 2.0, 1e-3, 1e10, True])
    text = str(number) if not isinstance(number, bool) else "true"
    return Value(f"({text})" if text.startswith("-") else text, number)


def draw_leaf(draw, arrays):
    kind = draw.random()
    if kind < 0.75:
        name = draw.choice(list(arrays))
        return Value(name, arrays[name])
    if kind < 0.85:
        axis = draw.randrange(3)
        return Value(f"i{axis}", np.broadcast_to(np.indices(WHOLE)[axis], WHOLE))
    return draw_constant(draw)


def draw_value(draw, arrays, depth):
    if depth == 0:
        return draw_leaf(draw, arrays)
    function = draw.choice(EXACT)
    count = {where: 3, clip: 3, to_type: 1}.get(function, function.__code__.co_argcount)
    operands = [draw_value(draw, arrays, draw.randrange(depth)) for _ in range(count)]
    if all(v.weak for v in operands):
        operands[0] = Value("E", arrays["E"])
    if function is to_type:
        return to_type(operands[0], draw.choice(TYPES))
    return function(*operands)


def finish_inexact(draw, value, arrays):
    """One of the functions that differ from library to library, as the last: (text, result in float64, type)."""
    function = draw.choice(INEXACT)
    x = value.value.astype(float_type(value.value.dtype))
    if function is np.power:
        base = np.abs(x)
        result = np.power(base.astype(np.longdouble), np.longdouble(x.dtype.type(1.7)))
        return (f"(abs({value.text}) * 1.0) ** 1.7", result, x.dtype) if is_float(value.value.dtype) else None
    if function is np.hypot:
        return f"hypot({value.text}, {value.text})", np.hypot(*[x.astype(np.longdouble)] * 2), x.dtype
    return f"{function.__name__}({value.text})", function(x.astype(np.longdouble)), x.dtype


def check_close(out, right, dtype, text):
    with np.errstate(all="ignore"):
        rounded = right.astype(dtype)
        same = (out == rounded) | (np.isnan(out) & np.isnan(rounded))
        spacing = np.maximum(np.abs(np.spacing(rounded)), np.finfo(dtype).smallest_subnormal).astype(np.float64)
        near = np.abs(out.astype(np.longdouble) - right) <= 2 * spacing
        huge = np.isinf(out) & (np.abs(right) > 0.99 * float(np.finfo(dtype).max))
    assert (same | near | huge).all(), (text, out[~(same | near | huge)][:3], right[~(same | near | huge)][:3])


def draw_job(draw):
    """Arrays, and expressions over them with their right results."""
    arrays, operations = draw_arrays(draw), []
    while len(operations) < IN_JOB:
        try:
            value = draw_value(draw, arrays, draw.randrange(1, 5))
        except NoType:
            continue
        if value.weak or len(value.text) > 1000:
            continue
        finished = finish_inexact(draw, value, arrays) if draw.random() < 0.25 else None
        text, right, dtype = finished or (value.text, value.value, value.value.dtype)
        names = set(re.findall(r"\w+", text))
        used = [name for name in arrays if name in names or (name == "E" and names & {"i0", "i1", "i2"})]
        operations.append((f"op{len(operations)}", text, used or ["E"], right, dtype, finished is not None))
    return arrays, operations


@pytest.mark.parametrize("case", range(max(1, CASES // IN_JOB)))
def test_drawn_expressions(tmp_path, case):
    check_drawn(tmp_path, case, "cpu")


@pytest.mark.gpu
@pytest.mark.parametrize("case", range(max(1, CASES // IN_JOB)))
def test_drawn_expressions_on_a_gpu(tmp_path, case):
    check_drawn(tmp_path, case, "cuda")


each_device = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])


@each_device
@pytest.mark.parametrize("shape, dtype", [((5, 600, 511), "f4"), ((3, 1200, 1030), "u1"), ((2, 90, 71), "f8")])
def test_a_matrix_that_is_repeated(tmp_path, rng, device, shape, dtype):
    """Kernels treat one of a MiB or more in a way of its own."""
    a, b = (rng.integers(0, 200, dims).astype(dtype) for dims in (shape, shape[1:]))
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["a"], file["b"] = a, b
    inputs = {name: {"file": "data.h5", "dataset": "/" + name} for name in "ab"}
    operations = [
        {"id": "difference", "op": "map", "inputs": ["a", "b"], "expression": "a - b"},
        {"id": "least", "op": "reduce", "operator": "min", "axis": 0, "inputs": ["a", "b"], "map": "a - b"},
    ]
    results = harness.run_job(tmp_path, device=device, inputs=inputs, operations=operations)
    np.testing.assert_array_equal(results.output("difference"), a - b)
    np.testing.assert_array_equal(results.output("least"), (a - b).min(axis=0))


@each_device
def test_sign(tmp_path, device):
    """Zeros have the sign of 0, whatever theirs is."""
    zeros = np.array([-0.0, 0.0, 2, -3, np.nan])
    with h5py.File(tmp_path / "data.h5", "w") as file:
        for dtype in ("f4", "f8"):
            file[dtype] = zeros.astype(dtype)
    results = harness.run_job(
        tmp_path,
        device=device,
        inputs={dtype: {"file": "data.h5", "dataset": "/" + dtype} for dtype in ("f4", "f8")},
        operations=[
            {"id": "of_" + dtype, "op": "map", "inputs": [dtype], "expression": f"1 / sign({dtype})"}
            for dtype in ("f4", "f8")
        ],
    )
    for dtype in ("f4", "f8"):
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(results.output("of_" + dtype), 1 / np.sign(zeros.astype(dtype)))


@each_device
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_negatives(tmp_path, device):
    """Of the least integers too, and where a compiler may join them with what follows."""
    maps = {
        "maximum(-x, 1)": lambda x: np.maximum(-x, x.dtype.type(1)),
        "(x == x) // abs(x)": lambda x: (x == x).astype(x.dtype) // np.abs(x),
        "abs(x) < 0": lambda x: (np.abs(x) < 0).astype(np.uint8),
        "minimum(x // -1, -x)": lambda x: -x,
    }
    least = ["-x", "0 - x", "x * -4"]
    operations, right, names = [], {}, {"a": "i1", "b": "i2", "c": "i4", "d": "i8"}
    with h5py.File(tmp_path / "data.h5", "w") as file:
        for name, dtype in names.items():
            values = np.random.default_rng(1).integers(-9, 20, (37, 31)).astype(dtype)
            values[::5, ::7] = np.iinfo(dtype).min
            values[values == 0] = 5
            file[name] = values
            for number, (text, function) in enumerate(maps.items()):
                id = f"{name}_map{number}"
                operations.append({"id": id, "op": "map", "inputs": [name], "expression": re.sub(r"\bx\b", name, text)})
                right[id] = function(values)
            for number, text in enumerate(least):
                for axis in (0, 1):
                    id = f"{name}_min{number}_{axis}"
                    reduce = {"id": id, "op": "reduce", "operator": "min", "axis": axis, "inputs": [name]}
                    operations.append(reduce | {"map": re.sub(r"\bx\b", name, text)})
                    right[id] = (-values if number < 2 else values * values.dtype.type(-4)).min(axis=axis)
    inputs = {name: {"file": "data.h5", "dataset": "/" + name} for name in names}
    results = harness.run_job(tmp_path, device=device, inputs=inputs, operations=operations)
    for id, array in right.items():
        np.testing.assert_array_equal(results.output(id), array, id)


def check_drawn(tmp_path, case, device):
    draw = random.Random(SEED + case)
    print(f"TILERUN_SEED={SEED}, case {case}")
    with np.errstate(all="ignore"):
        arrays, operations = draw_job(draw)
    harness.write_arrays(tmp_path / "data.h5", **arrays)
    job = {
        "defaults": {"repeat": 1, "warmup": 0, "keep_tiles": draw.choice(["always", "never"])},
        "inputs": {name: {"file": "data.h5", "dataset": "/" + name} for name in arrays},
        "operations": [
            {"id": id, "op": "map", "inputs": used, "expression": text} for id, text, used, *_ in operations
        ],
    }
    path = harness.write_job(tmp_path / "job.yaml", **job)
    done = harness.tilerun("run", path, "-o", tmp_path / "out.h5", "--device", device)
    bad = [line for line in done.stderr.splitlines() if ": ok, " not in line and "overflowed" not in line]
    assert done.returncode == harness.OK, "\n".join(bad)[-3000:]
    with h5py.File(tmp_path / "out.h5") as file:
        for id, text, used, right, dtype, inexact in operations:
            out = file["outputs/" + id][()]
            shape = np.broadcast_shapes(np.shape(right), *(arrays[name].shape for name in used))
            right = np.broadcast_to(right, shape)
            assert out.shape == shape, text
            assert out.dtype == (np.uint8 if dtype == bool else dtype), text
            if inexact:
                check_close(np.asarray(out), right, dtype, text)
                continue
            right = right.astype(out.dtype)
            same = (out == right) | ((out != out) & (right != right))
            assert same.all(), (text, out[~same][:3], right[~same][:3], {n: arrays[n].dtype for n in used})


def test_a_large_power_of_an_inexact_number(tmp_path):
    """How far it may be off is not known, as the base is negative; it is no less right for being near 1e308."""
    operation = {"id": "z", "op": "map", "inputs": ["x"], "expression": "sin(x) ** -100"}
    x = {"random": {"shape": [9], "dtype": "float64", "distribution": "constant", "value": -1e-3}}
    results = harness.run_job(tmp_path, inputs={"x": x}, operations=[operation])
    np.testing.assert_allclose(results.output("z"), np.sin(-1e-3) ** -100.0, rtol=1e-12)


def test_a_cast_of_a_number(tmp_path):
    """A number loses its fraction; one beyond the type is a mistake."""
    x = {"random": {"shape": [3], "dtype": "int64", "distribution": "constant", "value": 1}}
    casts = {"85.0, 'uint16'": 85, "-2.75, 'int8'": -2, "-0.5, 'uint8'": 0, "7 / 2, 'float64'": 3.5}

    def operations(texts):
        maps = [f"cast({text}) + 0 * x" for text in texts]
        return [{"id": f"o{i}", "op": "map", "inputs": ["x"], "expression": text} for i, text in enumerate(maps)]

    results = harness.run_job(tmp_path, inputs={"x": x}, operations=operations(casts))
    for i, (text, value) in enumerate(casts.items()):
        assert (results.output(f"o{i}") == value).all(), text
    wrong = ["300.0, 'uint8'", "-1.0, 'uint64'", "nan, 'int8'", "1e19, 'int64'", "1e20, 'uint64'"]
    path = harness.write_job(tmp_path / "wrong.yaml", inputs={"x": x}, operations=operations(wrong))
    done = harness.tilerun("check", path)
    assert done.returncode == harness.USAGE and f"{len(wrong)} mistakes" in done.stderr, done.stderr


def test_types_of_clip_and_hypot(tmp_path):
    arrays = {name: np.ones(2, dtype) for name, dtype in zip("abcd", ("int8", "uint8", "float16", "uint32"))}
    with h5py.File(tmp_path / "data.h5", "w") as file:
        for name, array in arrays.items():
            file[name] = array
    inputs = {name: {"file": "data.h5", "dataset": "/" + name} for name in arrays}
    several = [*itertools.permutations(arrays, 3), *itertools.permutations(arrays, 2)]
    operations = [
        {"id": "".join(names), "op": "map", "inputs": list(names), "expression": f"{name}({', '.join(names)})"}
        for names in several
        for name in ["clip" if len(names) == 3 else "hypot"]
    ]
    results = harness.run_job(tmp_path, inputs=inputs, operations=operations)
    for names in several:
        right = (np.clip if len(names) == 3 else np.hypot)(*(arrays[name] for name in names))
        assert results.output("".join(names)).dtype == right.dtype, names


INEXACT_OPERATORS = ["sum", "max", "min", "mean", "norm2", "prod", "var", "std"]


def check_reduced(out, values, operator, axis, text):
    """`values`: what the map gives. Compares what NumPy reduces them to."""
    with np.errstate(all="ignore"):
        right = getattr(np, operator)(values, axis=axis)
        if operator in ("max", "min") or values.dtype.kind != "f":
            assert np.array_equal(np.asarray(out, right.dtype), right, equal_nan=values.dtype.kind == "f"), text
            return
        wide = values.astype(np.float64)
        right, size = wide.sum(axis=axis), np.abs(wide).sum(axis=axis)
        bound = (2 * np.finfo(values.dtype).eps + 1e-13) * size + 2 * float(np.finfo(values.dtype).smallest_subnormal)
        off = np.abs(out.astype(np.float64) - right)
        huge = ~(size < 0.99 * float(np.finfo(values.dtype).max))  # NaN, infinite, or may overflow
        assert ((off <= bound) | huge).all(), text


@pytest.mark.parametrize("case", range(max(1, CASES // IN_JOB // 3)))
def test_reductions_of_drawn_expressions(tmp_path, case):
    check_drawn_reductions(tmp_path, case, "cpu")


@pytest.mark.gpu
@pytest.mark.parametrize("case", range(max(1, CASES // IN_JOB // 3)))
def test_reductions_of_drawn_expressions_on_a_gpu(tmp_path, case):
    check_drawn_reductions(tmp_path, case, "cuda")


def check_drawn_reductions(tmp_path, case, device):
    draw = random.Random(SEED + 1000 + case)
    print(f"TILERUN_SEED={SEED}, case {case}")
    with np.errstate(all="ignore"):
        arrays, drawn = draw_job(draw)
    harness.write_arrays(tmp_path / "data.h5", **arrays)
    operations = []
    for id, text, used, values, dtype, inexact in drawn:
        shape = np.broadcast_shapes(np.shape(values), *(arrays[name].shape for name in used))
        if not shape:
            continue
        values = np.broadcast_to(values, shape)
        if not inexact:
            values = values.astype(np.uint8 if dtype == bool else dtype)
        axes = draw.choice(["all", *range(len(shape)), *([[0, 2]] if len(shape) == 3 else [])])
        axis = None if axes == "all" else tuple(axes) if isinstance(axes, list) else axes
        operator = draw.choice(INEXACT_OPERATORS if inexact else ["sum", "max", "min"])
        keys = {"id": id, "op": "reduce", "inputs": used, "map": text, "operator": operator, "axis": axes}
        operations.append((keys, values, axis, dtype if inexact else None))
    inputs = {name: {"file": "data.h5", "dataset": "/" + name} for name in arrays}
    defaults = {"repeat": 1, "warmup": 0, "keep_tiles": draw.choice(["always", "never"])}
    jobs = [o[0] for o in operations]
    path = harness.write_job(tmp_path / "job.yaml", defaults=defaults, inputs=inputs, operations=jobs)
    done = harness.tilerun("run", path, "-o", tmp_path / "out.h5", "--device", device, "--memory", "1MiB")
    bad = [line for line in done.stderr.splitlines() if ": ok, " not in line and "overflowed" not in line]
    assert done.returncode == harness.OK, "\n".join(bad)[-3000:]
    with h5py.File(tmp_path / "out.h5") as file:
        for keys, values, axis, dtype in operations:
            out = np.asarray(file["outputs/" + keys["id"]][()])
            if dtype is None:
                check_reduced(out, values, keys["operator"], axis, keys)
            elif keys["operator"] in ("max", "min"):
                with np.errstate(all="ignore"):
                    check_close(out, getattr(np, keys["operator"])(values, axis=axis), dtype, keys)
