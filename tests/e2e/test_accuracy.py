"""How far each matmul variant is from the truth, beside the vendor's library: float32 data of many kinds, k from 64 to
16384, against NumPy's float64. Rounding errors are measured over 128 rows of a 1024 x k x 1024 product: the largest
|error| / (|A||B|) of an element, and the Frobenius error. `pytest -s` shows the table."""

from collections import namedtuple

import h5py
import numpy as np
import pytest

import harness
import referee

SIDE, ROWS = 1024, 128
LENGTHS = [64, 256, 1024, 4096, 16384]
VARIANTS = [v for v in harness.list_variants() if v.op == "matmul" and "float32" in v.dtypes]
OURS = [v for v in VARIANTS if v.runs_here and not v.limit and not v.on_cpu and v.name != "cublas"]

Errors = namedtuple("Errors", "largest frobenius")


def powers(rng, shape, low, high):
    return np.exp2(rng.integers(low, high + 1, shape)).astype(np.float32)


def normal(rng, *shape):
    return rng.standard_normal(shape, np.float32)


def sparse(rng, *shape):
    return normal(rng, *shape) * (rng.random(shape, np.float32) < 0.1)


# What A and B are made of. Products stay below float32's largest number where single factors come near it.
DATA = {
    "U(0,1)": lambda rng, k: (rng.random((SIDE, k), np.float32), rng.random((k, SIDE), np.float32)),
    "N(0,1)": lambda rng, k: (normal(rng, SIDE, k), normal(rng, k, SIDE)),
    "integers": lambda rng, k: tuple(rng.integers(-8, 9, s).astype(np.float32) for s in ((SIDE, k), (k, SIDE))),
    "lines * 2^(-20..20)": lambda rng, k: (
        normal(rng, SIDE, k) * powers(rng, (SIDE, 1), -20, 20),
        normal(rng, k, SIDE) * powers(rng, (1, SIDE), -20, 20),
    ),
    "N * 2^(-8..8)": lambda rng, k: tuple(normal(rng, *s) * powers(rng, s, -8, 8) for s in ((SIDE, k), (k, SIDE))),
    "near overflow": lambda rng, k: (normal(rng, SIDE, k) * np.float32(2.0**125), normal(rng, k, SIDE) / 1024),
    "subnormal": lambda rng, k: (normal(rng, SIDE, k) * np.float32(2.0**-130), normal(rng, k, SIDE) * 2**20),
    "9 of 10 are zero": lambda rng, k: (sparse(rng, SIDE, k), sparse(rng, k, SIDE)),
}
# 22 bits of each number, in two slices, are fewer than float32's 24: that shows where there is little else to round,
# in the data or where cuBLAS cuts k so often that its own error is below one step of float32.
SLICES_SHOW = {"9 of 10 are zero"}
ONE_STEP = np.finfo(np.float32).eps


def label(variant):
    return f"{variant.name},hand_over=no" if "hand_over" in variant.parameters else variant.name


def entry(variant):
    return {"name": variant.name, "hand_over": "no"} if "hand_over" in variant.parameters else variant.name


def errors(c, value, magnitude):
    """Of some rows. A magnitude of zero has no error that is not infinite."""
    error = np.abs(c.astype(np.float64) - value)
    with np.errstate(invalid="ignore", divide="ignore"):
        largest = np.max(np.where(error == 0, 0, error / magnitude))
    # By the largest number first, so that squares stay within float64.
    scale = np.max(np.abs(value))
    return Errors(largest, np.linalg.norm(error / scale) / np.linalg.norm(value / scale))


def products(folder, rng, data, k):
    """Each variant's errors, by its name; the vendor's under `cublas` where it is there. A variant that does not take
    the shape, as one for small matrices, has none."""
    a, b = DATA[data](rng, k)
    with h5py.File(folder / "inputs.h5", "w") as file:
        file["a"], file["b"] = a, b
    results = harness.run_job(
        folder,
        inputs={name: {"file": str(folder / "inputs.h5"), "dataset": f"/{name}"} for name in "ab"},
        sync=False,
        defaults={"warmup": 0, "repeat": 1, "store": "all", "verify": "none"},
        operations=[{"id": "c", "op": "matmul", "inputs": ["a", "b"], "variants": [*map(entry, OURS), "cublas"]}],
    )
    rows = np.sort(rng.choice(SIDE, ROWS, replace=False))
    a, b = a[rows].astype(np.float64), b.astype(np.float64)
    value, magnitude = a @ b, np.abs(a) @ np.abs(b)
    found = {}
    for name in [*map(label, OURS), "cublas"]:
        row = results.row("c", name)
        assert row["status"] in ("unchecked", "skipped"), row["message"]
        if row["status"] == "unchecked":
            found[name.split(",")[0]] = errors(results.read(f"variants/c/{name}")[rows], value, magnitude)
    return found


@pytest.mark.gpu
@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("k", LENGTHS)
def test_matmul_accuracy(folder, rng, data, k):
    if not OURS:
        pytest.skip("no variant of ours runs here")
    found = products(folder, rng, data, k)
    print(f"\n{data}, k = {k}: largest |error| / (|A||B|), Frobenius error")
    for name, error in found.items():
        print(f"  {name:10} {error.largest:.2e} {error.frobenius:.2e}")
    for variant in [v for v in OURS if v.name in found]:
        error = found[variant.name]
        bound = (k + 2) * referee.EPSILON["float32"] + referee.CLASS_ERROR[variant.accuracy]
        if data == "subnormal" and variant.accuracy != "full":
            continue  # rounding to fewer bits leaves few of a number that has few
        assert error.largest <= bound, variant.name
        if data == "integers" and variant.accuracy == "full":
            assert error.largest == 0, variant.name
    if "split" in found and "cublas" in found and data not in SLICES_SHOW:
        assert found["split"].frobenius <= max(found["cublas"].frobenius, ONE_STEP)
