"""The same bits, run after run, of every variant that says so, whatever the data. Selections besides give the same bits
by every variant and whatever the memory's tiles, and so do the fast reduction's sums, unless numbers far apart cancel:
they are then the rounding of the exact sum. At a small size; configs/bench/reduce.yaml is the same at full."""

import math

import h5py
import numpy as np
import pytest

import harness
import referee

RUNS = 20 if any(v.runs_here and not v.on_cpu for v in harness.list_variants()) else 5
SIZE = 3_000_017  # ends within a load, a batch, a block
MEMORY = ["1GiB", "8MiB", "2MiB", "500kB", "64KiB"]


def values(rng, data, dtype):
    """`alternating`: large numbers that cancel in pairs far apart, and small ones that must survive them."""
    if data == "uniform":
        return rng.uniform(0, 1, SIZE).astype(dtype)
    if data == "normal":
        return rng.normal(size=SIZE).astype(dtype)
    large = 1e6 * np.where(np.arange(SIZE) % 2, -1.0, 1.0)
    return np.where(np.arange(SIZE) % 64 < 62, large, rng.uniform(0, 1, SIZE)).astype(dtype)


def operations(repeats=1):
    return [
        {"id": f"total_{i}", "op": "reduce", "inputs": ["x"], "operator": operator, "axis": "all", "variants": ["stream"]}
        for i, operator in enumerate(["sum", "mean"] * repeats)
    ]


VARIANTS = [v for v in harness.list_variants() if v.runs_here and v.same_bits and not v.limit]


# What k is split for, what tiles end in, a stack; a sum of everything, of rows, of columns.
REPEATED = {
    "long": {"op": "matmul", "inputs": ["flat", "flat"], "transpose_b": True},
    "ragged": {"op": "matmul", "inputs": ["m", "m"], "transpose_a": True},
    "stack": {"op": "matmul", "inputs": ["s", "s"], "transpose_b": True},
    **{f"sum_{axis}": {"op": "reduce", "operator": "sum", "axis": axis, "inputs": ["m"]} for axis in (0, 1, "all")},
}
SHAPES = {"flat": [65, 20000], "m": [131, 257], "s": [5, 70, 130]}


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_every_variant_repeats_itself(folder, dtype):
    inputs = {name: {"random": {"shape": shape, "dtype": dtype, "distribution": "normal"}} for name, shape in SHAPES.items()}
    entries = {
        op: harness.variant_entries(
            v for v in VARIANTS if v.op == op and dtype in v.dtypes and (op == "matmul" or "sum" in v.operators)
        )
        for op in ("matmul", "reduce")
    }
    results = harness.run_job(
        folder,
        timeout=600,
        inputs=inputs,
        sync=False,
        defaults={"warmup": 0, "repeat": 1, "store": "all", "verify": "none"},
        operations=[
            {"id": f"{name}_{run}", **operation, "variants": entries[operation["op"]]}
            for name, operation in REPEATED.items()
            for run in range(RUNS)
        ],
    )
    seen, runs = {}, 0
    with h5py.File(results.path) as file:
        for path in harness.dataset_names(file, "variants"):
            _, operation, variant = path.split("/")
            seen.setdefault((operation.rsplit("_", 1)[0], variant), set()).add(file[path][()].tobytes())
            runs += 1
    assert runs == RUNS * len(seen) and len(seen) >= len(REPEATED)
    assert {key for key, bits in seen.items() if len(bits) > 1} == set()


@pytest.fixture(params=["uniform", "normal", "alternating"])
def data(request):
    return request.param


@pytest.fixture(params=["float32", "float64"])
def file(request, folder, rng, data):
    x = values(rng, data, request.param)
    harness.write_arrays(folder / "x.h5", x=x)
    return x, {"x": {"file": str(folder / "x.h5"), "dataset": "/x"}}


@pytest.mark.gpu
def test_rounds_the_exact_sum(folder, file):
    x, inputs = file
    results = harness.run_job(folder, inputs=inputs, operations=operations())
    exact = math.fsum(x.astype(np.float64))
    for name, value in {"total_0": exact, "total_1": exact / SIZE}.items():
        found = results.output(name)[()]
        assert abs(float(found) - value) <= np.spacing(np.abs(x.dtype.type(value))), name


@pytest.mark.gpu
def test_same_bits_whatever_the_tiles(folder, file):
    _, inputs = file
    found = set()
    for memory in MEMORY:
        (folder / "results.h5").unlink(missing_ok=True)
        results = harness.run_job(folder, inputs=inputs, memory=memory, operations=operations())
        found.add(tuple(results.output(f"total_{i}").tobytes() for i in range(2)))
    assert len(found) == 1


@pytest.mark.gpu
def test_same_bits_run_after_run(folder, file):
    _, inputs = file
    results = harness.run_job(
        folder, inputs=inputs, defaults={"warmup": 0, "repeat": 1}, operations=operations(repeats=50)
    )
    for first in range(2):
        assert len({results.output(f"total_{i}").tobytes() for i in range(first, 100, 2)}) == 1


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "int16"])
@pytest.mark.parametrize("shape", [(312500, 256), (78355, 1021)])
def test_blocks_draw_what_others_leave(folder, rng, dtype, shape):
    """Inputs so large that the fast reduction deals part of them out as blocks get round to it. Of whole numbers all
    results are known to the bit."""
    whole = rng.integers(-1000, 1000, shape, dtype=np.int16)
    whole[tuple(rng.integers(0, shape))] = 2000
    harness.write_arrays(folder / "x.h5", x=whole.astype(dtype))
    of_x = {"op": "reduce", "inputs": ["x"], "variants": ["stream"]}
    wanted = [(operator, axis) for operator in ("sum", "max", "argmax") for axis in (0, 1, "all")]
    results = harness.run_job(
        folder,
        inputs={"x": {"file": str(folder / "x.h5"), "dataset": "/x"}},
        sync=False,
        defaults={"warmup": 0, "repeat": 1, "verify": "none"},
        operations=[
            {"id": f"{operator}_{axis}_{run}", "operator": operator, "axis": axis, **of_x}
            for operator, axis in wanted
            for run in range(5)
        ],
    )
    for operator, axis in wanted:
        numpy = {"sum": lambda axis: whole.sum(axis, dtype=np.int64), "max": whole.max, "argmax": whole.argmax}[operator]
        exact = numpy(None if axis == "all" else axis)
        for run in range(5):
            found = results.output(f"{operator}_{axis}_{run}")
            assert (found == np.asarray(exact).astype(found.dtype)).all(), (operator, axis, run)


# ---- drawn data ----------------------------------------------------------------------------------------------------

DRAWN = (128, 513)
BUDGETS = ["1GiB", "64KiB"]


def drawn(rng, kind, shape, dtype):
    """Data in which the order of a reduction shows, or its partial results leave the range; as stored."""
    low, high = referee.EXPONENTS[dtype]
    size = int(np.prod(shape))
    signs = rng.choice([-1.0, 1.0], size)
    if kind == "bits":
        return referee.random_bits(rng, shape, dtype)
    if kind == "cancelling":  # over 1 to 200 binades
        large = np.repeat(np.exp2(rng.integers(1, min(200, high - 1), size // 4)), 2)
        large[1::2] *= -1
        x = rng.permutation(np.concatenate([large, rng.normal(size=size - large.size)]))
    elif kind == "zeros":
        x = signs * rng.choice([0.0, 1.0], size, p=[0.999, 0.001])
    elif kind == "payloads":
        x = np.where(rng.random(size) < 0.01, np.nan, signs)
    elif kind == "rising_product":  # first all that is large, then all that is small
        exponents = rng.integers(0, high, size // 2)
        x = signs * np.exp2(np.concatenate([exponents, -exponents, np.zeros(size % 2)]))
    elif kind == "turning_product":  # 2, 1/2, 2, 1/2...: each thread of a kernel has the one or the other
        x = np.exp2(np.where(np.arange(size) % 2, -1.0, 1.0) * rng.integers(1, min(-low, high)))
    elif kind == "subnormal":
        x = signs * np.ldexp(rng.integers(0, 8, size).astype(float), low)
    else:
        x = signs * np.ldexp(rng.uniform(1, 2, size), rng.integers(low, high, size))
    stored = referee.round_to(x, dtype)
    if kind == "payloads":
        word = stored.view(f"u{stored.itemsize}")
        payload = rng.integers(1, 2 ** {"float16": 10, "bfloat16": 7}.get(dtype, 23), size).astype(word.dtype)
        sign = rng.integers(0, 2, size).astype(word.dtype) << word.dtype.type(8 * stored.itemsize - 1)
        word[:] = np.where(np.isnan(x), word | payload | sign, word)
    return stored.reshape(shape)


KINDS = ["bits", "cancelling", "zeros", "payloads", "rising_product", "turning_product", "subnormal", "spread"]


def drawn_file(folder, rng, dtype, shape):
    """The inputs of a job, and the arrays, by kind."""
    x = {kind: drawn(rng, kind, shape, dtype) for kind in KINDS}
    with h5py.File(folder / "drawn.h5", "w") as file:
        for kind, stored in x.items():
            referee.write_dataset(file, kind, stored, dtype)
    return x, {kind: {"file": str(folder / "drawn.h5"), "dataset": f"/{kind}"} for kind in KINDS}


def quiet_nans(stored, dtype):
    word, quiet = f"u{stored.dtype.itemsize}", referee.round_to(np.full(1, np.nan), dtype)
    bits = np.atleast_1d(stored).view(word)[np.isnan(np.atleast_1d(referee.widen(stored, dtype)))]
    return (bits == quiet.view(word)).all()


@pytest.mark.parametrize("dtype", referee.FLOATS)
def test_drawn_data_by_every_variant(folder, rng, dtype):
    x, inputs = drawn_file(folder, rng, dtype, DRAWN)
    able = [v for v in VARIANTS if v.op == "reduce" and dtype in v.dtypes and v.name != "cub"]  # it takes arrays whole
    wanted = [(k, o, a, run) for k in KINDS for o in referee.OPERATORS for a in (0, 1, "all") for run in range(2)]
    drawn = set(rng.permutation(len(wanted) // 2)[: len(wanted) // 6])  # of pairs
    wanted = [one for number, one in enumerate(wanted) if number // 2 in drawn]
    seen = {}
    for memory in BUDGETS:
        (folder / "results.h5").unlink(missing_ok=True)
        results = harness.run_job(
            folder,
            inputs=inputs,
            memory=memory,
            sync=False,
            defaults={"warmup": 0, "repeat": 1, "store": "all", "verify": "none"},
            operations=[
                {
                    "id": f"{kind}-{operator}-{axis}-{run}",
                    "op": "reduce",
                    "inputs": [kind],
                    "operator": operator,
                    "axis": axis,
                    "variants": harness.variant_entries(v for v in able if operator in v.operators),
                }
                for kind, operator, axis, run in wanted
            ],
        )
        for path, stored in results.everything().items():
            group, name, *variant = path.split("/")
            if group == "variants":
                kind, operator, axis, _ = name.split("-")
                seen.setdefault((kind, operator, axis, variant[0], memory), []).append(stored)
    complaints = []
    for (kind, operator, axis, variant, memory), stored in seen.items():
        place = f"{kind} {operator} {axis} {variant} {memory}"
        assert len(stored) == 2
        if stored[0].tobytes() != stored[1].tobytes():
            complaints.append(f"{place}: differs from run to run")
        if operator not in ("argmin", "argmax") and not quiet_nans(stored[0], dtype):
            complaints.append(f"{place}: a NaN with a sign or a payload")
        if operator in ("sum", "mean"):
            continue  # how far these may be off is for other tests to say
        value, bound = referee.reduce(x[kind], dtype, operator, axis if axis == "all" else int(axis))
        if wrong := referee.difference(stored[0], referee.result_type(operator, dtype), value, bound):
            complaints.append(f"{place}: {wrong}")
    assert len(seen) >= len(wanted) and not complaints, "\n".join(complaints[:40])


@pytest.mark.gpu
@pytest.mark.parametrize("dtype, size", [("float32", 80_000_003), ("float64", 40_000_003), ("float16", 160_000_007)])
@pytest.mark.parametrize("kind", ["cancelling", "payloads", "zeros", "turning_product", "spread"])
def test_drawn_data_in_drawn_pieces(folder, rng, dtype, size, kind):
    """Inputs so large that blocks draw part of them: which block had what must not show."""
    x = drawn(rng, kind, (size,), dtype)
    with h5py.File(folder / "x.h5", "w") as file:
        referee.write_dataset(file, "x", x, dtype)
    operators = ["sum", "mean", "norm2", "prod", "min", "max", "argmax"]
    seen = {}
    for memory in ("4GiB", "100MB"):
        (folder / "results.h5").unlink(missing_ok=True)
        results = harness.run_job(
            folder,
            inputs={"x": {"file": str(folder / "x.h5"), "dataset": "/x"}},
            memory=memory,
            sync=False,
            defaults={"warmup": 0, "repeat": 1, "verify": "none"},
            operations=[
                {"id": f"{o}_{run}", "op": "reduce", "inputs": ["x"], "operator": o, "axis": "all", "variants": ["stream"]}
                for o in operators
                for run in range(10)
            ],
        )
        for o in operators:
            seen[o, memory] = {results.output(f"{o}_{run}").tobytes() for run in range(10)}
            assert len(seen[o, memory]) == 1, (o, memory)
            if o in ("min", "max", "argmax"):
                value, bound = referee.reduce(x, dtype, o, "all")
                assert referee.difference(results.output(f"{o}_0"), referee.result_type(o, dtype), value, bound) is None
    for o in ("min", "max", "argmax"):
        assert seen[o, "4GiB"] == seen[o, "100MB"], o
