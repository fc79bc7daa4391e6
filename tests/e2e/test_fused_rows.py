"""`map:` of a reduction along rows, on a GPU by `fused`, compared with NumPy: short rows pass through shared memory, long
ones do not, and a row rarely begins where a vector does."""

import h5py
import numpy as np
import pytest

import harness

UNIGNORING = ["count_nan", "argmin", "argmax"]  # NaNs count, or are the extreme elements


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "uint8", "uint32"])
def test_rows_of_a_fused_map(tmp_path, rng, dtype):
    """Rows of any length, few and many of them, by each operator that `fused` has."""
    arrays, operations, maps = {}, [], {}
    lengths = [1, 2, 3, 4, 5, 17, 31, 32, 33, 52, 64, 100, 255, 256, *rng.integers(6, 2100, 10)]
    for number, length in enumerate(int(length) for length in lengths):
        shape = (int(rng.choice([1, 3, 700, 200_000 // length + 1])), length)
        values = rng.integers(0, 100, (2, *shape))
        if np.dtype(dtype).kind == "f":
            values = rng.normal(size=(2, *shape))
            values[0][rng.random(shape) < 0.02] = np.nan
        a, b = (arrays.setdefault(f"{name}{number}", v.astype(dtype)) for name, v in zip("AB", values))
        for operator in ["sum", "prod", "min", "max", "mean", "norm2", "argmin", "argmax", "count_nan"]:
            id = f"{operator}{number}"
            ignored = a.dtype.kind == "f" and operator not in UNIGNORING and bool(rng.integers(2))
            maps[id] = np.maximum(a, b) - np.minimum(a, b), operator, ignored
            operations.append({"id": id, "op": "reduce", "inputs": [f"A{number}", f"B{number}"], "axis": 1,
                               "map": f"maximum(A{number}, B{number}) - minimum(A{number}, B{number})",
                               "operator": operator, "skip_nan": ignored, "variants": ["fused"]})
    harness.write_arrays(tmp_path / "data.h5", **arrays)
    inputs = {name: {"file": "data.h5", "dataset": "/" + name} for name in arrays}
    path = harness.write_job(tmp_path / "job.yaml", defaults={"repeat": 1, "warmup": 0, "verify": "none"},
                             inputs=inputs, operations=operations)
    done = harness.tilerun("run", path, "-o", tmp_path / "out.h5", "--device", "cuda")
    assert done.returncode == harness.OK, done.stderr[-2000:]
    with h5py.File(tmp_path / "out.h5") as file, np.errstate(all="ignore"):
        for id, (values, operator, ignored) in maps.items():
            check_fused_rows(file["outputs/" + id][()], values, operator, ignored, id)


def check_fused_rows(out, values, operator, ignored, id):
    is_real = values.dtype.kind == "f"
    wide = values.astype(np.float64 if is_real else np.int64)
    prefix = "nan" if ignored else ""
    if operator == "count_nan":
        right = np.isnan(wide).sum(axis=1)
    elif operator == "norm2":
        right = np.sqrt(getattr(np, prefix + "sum")(wide * wide, axis=1))
    else:
        right = getattr(np, prefix + operator)(wide, axis=1)
    if operator in ("mean", "norm2") or (operator in ("sum", "prod") and is_real):
        limits = np.finfo(out.dtype)
        right = np.where(np.abs(right) > float(limits.max), np.copysign(np.inf, right), right)
        tolerance = {"rtol": max(2 * float(limits.eps), 1e-12), "atol": 2 * float(limits.smallest_subnormal)}
        assert np.allclose(out.astype(np.float64), right, **tolerance, equal_nan=True), id
    else:
        assert np.array_equal(out.astype(right.dtype), right, equal_nan=is_real), id
