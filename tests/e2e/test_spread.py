"""var, std, count_nan and skip_nan against NumPy: drawn shapes, types, axes and data, memory of 64 KiB and unlimited, by
every variant that runs here. Truths come from NumPy's extended type in two passes, or for integers from fractions."""

import os
import warnings
from fractions import Fraction

import h5py
import numpy as np
import pytest

import harness
import referee

SEED = int(os.environ.get("TILERUN_SEED", 0))
CASES = int(os.environ.get("TILERUN_CASES", 8))
OPERATORS = ["var", "std"]
VARIANTS = [v for v in harness.list_variants() if v.op == "reduce" and v.runs_here]


def spread(rng, shape, dtype):
    """Data on which naive formulas fail, as stored."""
    if dtype not in referee.FLOATS:
        limits = np.iinfo(dtype)
        near = int(rng.integers(0, 3))
        low, high = [(limits.min, limits.max), (limits.max - 9, limits.max), (max(limits.min, -5), 5)][near]
        return rng.integers(low, high, shape, dtype, endpoint=True)
    noise = rng.standard_normal(shape)
    values = [
        noise,
        1e8 + noise,
        1e4 * (1 + noise * 4 * referee.EPSILON[dtype]),
        np.full(shape, 0.1),
        noise * np.exp2(rng.integers(-12, 12, shape)),
        np.where(np.arange(noise.size).reshape(shape) == 0, 6e4, noise),
    ][int(rng.integers(0, 6))]
    return referee.round_to(np.clip(values, -referee.LARGEST[dtype], referee.LARGEST[dtype]), dtype)


def with_gaps(rng, x, dtype):
    share = rng.choice([0.0, 0.1, 0.6, 0.97])
    return np.where(rng.random(x.shape) < share, referee.round_to(np.nan, dtype), x)


def moved(x, axis):
    """Rows, one for each output."""
    return x.reshape(1, -1) if axis == "all" else np.moveaxis(x, axis, -1).reshape(-1, x.shape[axis])


def outputs_of(x, axis):
    return () if axis == "all" else x.shape[:axis] + x.shape[axis + 1 :]


def variance(row, ddof, skip):
    """Of one row, as exactly as the type allows."""
    if row.dtype.kind in "iu":
        numbers = [int(x) for x in row]
        n = len(numbers)
        if n - ddof <= 0:
            return np.nan
        whole = n * sum(x * x for x in numbers) - sum(numbers) ** 2
        return float(Fraction(whole) / (n * (Fraction(n) - Fraction(ddof))))
    row = row[~np.isnan(row)] if skip else row
    if len(row) - ddof <= 0:
        return np.nan
    wide = row.astype(np.longdouble)
    apart = wide - wide.mean()
    return float((np.sum(apart * apart) - np.sum(apart) ** 2 / len(row)) / (np.longdouble(len(row)) - ddof))


def check(results, name, variant, dtype, x, axis, operator, ddof, skip):
    rows = moved(referee.widen(x, dtype), axis)
    with np.errstate(invalid="ignore", over="ignore"):
        truth = np.array([variance(row, ddof, skip) for row in rows])
        truth = (np.sqrt(truth) if operator == "std" else truth).reshape(outputs_of(x, axis))
    kind = referee.result_type("mean", dtype)
    slack = 4 if dtype in referee.INTEGERS else 32 + rows.shape[1] / 4
    bound = slack * 2.0**-52 * np.abs(truth) + referee.EPSILON[kind] * np.abs(truth) + referee.LEAST[kind]
    stored = results.read(f"variants/{name}/{variant}")
    wrong = referee.difference(stored, kind, truth, bound)
    assert wrong is None, f"{variant} {operator} {dtype} {x.shape} axis {axis} ddof {ddof} skip {skip}: {wrong}"


def write(folder, arrays):
    with h5py.File(folder / "in.h5", "w") as file:
        for name, (x, dtype) in arrays.items():
            referee.write_dataset(file, name, x, dtype)
    return {name: {"file": "in.h5", "dataset": f"/{name}"} for name in arrays}


def draw_shape(rng):
    most = [3000, 70, 24][rank := int(rng.integers(0, 3))]
    return tuple(int(n) for n in rng.integers(1, most, rank + 1, endpoint=True))


@pytest.mark.parametrize("memory", ["64KiB", "90%"])
@pytest.mark.parametrize("dtype", referee.DTYPES)
def test_spread(folder, dtype, memory):
    rng = np.random.default_rng([SEED, referee.DTYPES.index(dtype)])
    arrays, operations, cases = {}, [], []
    names = [v.name for v in VARIANTS if dtype in v.dtypes and "var" in v.operators]
    for case in range(CASES):
        x = spread(rng, draw_shape(rng), dtype)
        skip = bool(rng.integers(0, 2)) and dtype in referee.FLOATS
        x = with_gaps(rng, x, dtype) if skip else x
        arrays[f"x{case}"] = (x, dtype)
        for operator in OPERATORS:
            axis = [*range(x.ndim), "all"][int(rng.integers(0, x.ndim + 1))]
            ddof = [0, 1, 2, 0.5][int(rng.integers(0, 4))]
            name = f"{operator}{case}"
            operations.append(
                {"id": name, "op": "reduce", "inputs": [f"x{case}"], "operator": operator, "axis": axis, "ddof": ddof}
                | {"skip_nan": skip, "variants": names}
            )
            cases.append((name, x, axis, operator, ddof, skip))
    results = harness.run_job(
        folder,
        inputs=write(folder, arrays),
        memory=memory,
        sync=False,
        defaults={"warmup": 0, "repeat": 1, "store": "all", "verify": "full"},
        operations=operations,
    )
    for name, x, axis, operator, ddof, skip in cases:
        for variant in names:
            assert results.row(name, variant)["status"] == "ok"
            check(results, name, variant, dtype, x, axis, operator, ddof, skip)


NAN_NAMES = {o: f"nan{o}" for o in ["sum", "prod", "min", "max", "mean", "argmin", "argmax"]}


def without_nan(x, operator, axis):
    """NumPy's nan functions; a position of NaNs alone is -1."""
    axis = None if axis == "all" else axis
    if operator == "count_nan":
        return np.sum(np.isnan(x), axis=axis, dtype=np.int64)
    if operator == "norm2":
        return np.sqrt(np.nansum(x * x, axis=axis))
    if operator in ("argmin", "argmax"):
        none = np.all(np.isnan(x), axis=axis)
        worst = np.where(np.isnan(x), np.inf if operator == "argmin" else -np.inf, x)
        at = getattr(np, operator)(worst, axis=axis)
        return np.where(none, -1, at)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of slices of NaNs alone
        return getattr(np, NAN_NAMES[operator])(x, axis=axis)


@pytest.mark.parametrize("memory", ["64KiB", "90%"])
@pytest.mark.parametrize("dtype", referee.FLOATS)
def test_skip_nan(folder, dtype, memory):
    rng = np.random.default_rng([SEED, 100 + referee.DTYPES.index(dtype)])
    arrays, operations, cases = {}, [], []
    for case in range(CASES):
        x = with_gaps(rng, referee.random_values(rng, draw_shape(rng), dtype), dtype)
        arrays[f"x{case}"] = (x, dtype)
        for operator in [*NAN_NAMES, "norm2", "count_nan"]:
            axis = [*range(x.ndim), "all"][int(rng.integers(0, x.ndim + 1))]
            names = [v.name for v in VARIANTS if dtype in v.dtypes and operator in v.operators]
            names = [n for n in names if n not in ("atomic", "tree", "shuffle", "cub", "exact", "exact_cpu")]  # which refuse
            if operator in ("prod", "norm2"):
                names = [n for n in names if n != "stream"]
            name = f"{operator}{case}"
            operations.append(
                {"id": name, "op": "reduce", "inputs": [f"x{case}"], "operator": operator, "axis": axis}
                | {"skip_nan": True, "variants": names}
            )
            cases.append((name, names, x, axis, operator))
    results = harness.run_job(
        folder,
        inputs=write(folder, arrays),
        memory=memory,
        sync=False,
        defaults={"warmup": 0, "repeat": 1, "store": "all", "verify": "full"},
        operations=operations,
    )
    for name, names, x, axis, operator in cases:
        wide = referee.widen(x, dtype)
        value = np.asarray(without_nan(wide, operator, axis))
        kind = "int64" if value.dtype.kind == "i" else dtype
        length = x.size if axis == "all" else x.shape[axis]
        with np.errstate(invalid="ignore"):
            magnitude = np.abs(value)
            if operator in ("sum", "mean"):
                magnitude = np.abs(without_nan(np.abs(wide), operator, axis))
            bound = None
            if operator in ("sum", "mean", "prod", "norm2"):
                bound = referee.with_rounding(value, kind, (length + 4) * 2.0**-52 * magnitude)
        for variant in names:
            assert results.row(name, variant)["status"] == "ok"
            wrong = referee.difference(results.read(f"variants/{name}/{variant}"), kind, value, bound)
            assert wrong is None, f"{variant} {operator} {dtype} {x.shape} axis {axis}: {wrong}"


def test_integers_have_the_same_bits(folder, rng):
    """In any memory, by every variant."""
    x = rng.integers(-(2**31), 2**31, (300, 70), np.int32, endpoint=False)
    inputs = write(folder, {"x": (x, "int32")})
    names = [v.name for v in VARIANTS if "var" in v.operators and "int32" in v.dtypes]
    found = set()
    for memory in ["64KiB", "100KiB", "90%"]:
        results = harness.run_job(
            folder,
            arguments=["--overwrite"],
            inputs=inputs,
            memory=memory,
            sync=False,
            defaults={"warmup": 0, "repeat": 1, "store": "all"},
            operations=[{"id": "s", "op": "reduce", "inputs": ["x"], "operator": "std", "axis": 0, "variants": names}],
        )
        found |= {results.read(f"variants/s/{variant}").tobytes() for variant in names}
    assert len(found) == 1


def test_words(folder):
    """Units and names say what was reduced, and how."""
    with h5py.File(folder / "in.h5", "w") as file:
        x = file.create_dataset("x", data=np.arange(12.0).reshape(3, 4))
        x.attrs["units"], x.attrs["long_name"] = "m s-1", "speed"
    operators = ["var", "std", "count_nan"]
    harness.run_job(
        folder,
        inputs={"x": {"file": "in.h5", "dataset": "/x"}},
        operations=[
            {"id": o, "op": "reduce", "inputs": ["x"], "operator": o, "axis": 0, "skip_nan": o == "var"}
            for o in operators
        ],
    )
    with h5py.File(folder / "results.h5") as file:
        said = {o: (file["outputs"][o].attrs["units"], file["outputs"][o].attrs["long_name"]) for o in operators}
        said = {o: tuple(t.decode() if isinstance(t, bytes) else t for t in pair) for o, pair in said.items()}
    assert said == {
        "var": ("(m s-1)2", "var of speed over axis 0, without NaN"),
        "std": ("m s-1", "std of speed over axis 0"),
        "count_nan": ("1", "count_nan of speed over axis 0"),
    }
