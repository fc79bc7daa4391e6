"""The same bits, run after run, of every variant that says so. And sums that do not depend on their order: the fast
reduction gives the bits of the exact sum's rounding, whatever the memory's tiles. At a small size;
configs/bench/reduce.yaml is the same at full."""

import math

import h5py
import numpy as np
import pytest

import harness

RUNS = 20
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
        op: [harness.variant_entry(v) for v in VARIANTS if v.op == op and dtype in v.dtypes] for op in ("matmul", "reduce")
    }
    results = harness.run_job(
        folder,
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
    with h5py.File(folder / "x.h5", "w") as file:
        file["x"] = x
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
    with h5py.File(folder / "x.h5", "w") as file:
        file["x"] = whole.astype(dtype)
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
