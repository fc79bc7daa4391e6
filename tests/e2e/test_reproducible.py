"""Sums that do not depend on their order: the fast reduction gives the bits of the exact sum's rounding, run after run and
whatever the memory's tiles. At a small size; configs/bench/reduce.yaml is the same at full."""

import math

import h5py
import numpy as np
import pytest

import harness

pytestmark = pytest.mark.gpu
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


@pytest.fixture(params=["uniform", "normal", "alternating"])
def data(request):
    return request.param


@pytest.fixture(params=["float32", "float64"])
def file(request, folder, rng, data):
    x = values(rng, data, request.param)
    with h5py.File(folder / "x.h5", "w") as file:
        file["x"] = x
    return x, {"x": {"file": str(folder / "x.h5"), "dataset": "/x"}}


def test_rounds_the_exact_sum(folder, file):
    x, inputs = file
    results = harness.run_job(folder, inputs=inputs, operations=operations())
    exact = math.fsum(x.astype(np.float64))
    for name, value in {"total_0": exact, "total_1": exact / SIZE}.items():
        found = results.output(name)[()]
        assert abs(float(found) - value) <= np.spacing(np.abs(x.dtype.type(value))), name


def test_same_bits_whatever_the_tiles(folder, file):
    _, inputs = file
    found = set()
    for memory in MEMORY:
        (folder / "results.h5").unlink(missing_ok=True)
        results = harness.run_job(folder, inputs=inputs, memory=memory, operations=operations())
        found.add(tuple(results.output(f"total_{i}").tobytes() for i in range(2)))
    assert len(found) == 1


def test_same_bits_run_after_run(folder, file):
    _, inputs = file
    results = harness.run_job(
        folder, inputs=inputs, defaults={"warmup": 0, "repeat": 1}, operations=operations(repeats=50)
    )
    for first in range(2):
        assert len({results.output(f"total_{i}").tobytes() for i in range(first, 100, 2)}) == 1
