"""Factors and addends at the ends of their range (0, subnormal, tiny, huge), and operands whose products overflow,
vanish, are infinite or NaN: what every variant gives is NumPy's, and is judged right.

    TILERUN_CASES=500 TILERUN_SEED=1     other cases, more of them; one by TILERUN_CASE=57
"""

import os

import h5py
import numpy as np
import pytest

import harness
import referee

SEED = int(os.environ.get("TILERUN_SEED", 0))
CASES = int(os.environ.get("TILERUN_CASES", 5))
CHOSEN = os.environ.get("TILERUN_CASE")
FACTORS = [0.0, -0.0, 5e-324, -1e-320, 1e-300, 1e-40, 2.0**-149, 1e-8, -1.0, 3.0, 1e30, 1e39, -1e300, 1.7e308]


def cases():
    return [int(CHOSEN)] if CHOSEN is not None else [SEED * 100000 + case for case in range(CASES)]


def draw_operand(rng, shape, dtype):
    """Powers of two of all sizes, some of them infinities, NaNs and zeros."""
    low, high = referee.EXPONENTS[dtype]
    kind = rng.integers(4)
    exponents = rng.integers(low, high + 1, shape) if kind < 2 else rng.integers(high - 3, high + 1, shape)
    x = np.ldexp(rng.choice([1.0, -1.0] if kind else [1.0], shape), exponents)
    if rng.random() < 0.5:
        x = np.where(rng.random(shape) < 0.1, rng.choice([np.inf, -np.inf, np.nan, 0.0, -0.0], shape), x)
    return referee.round_to(x, dtype)


def variants_of(op, dtype):
    """Without the vendor's, which multiplies an input by alpha first, and those of lower accuracy, which take the least
    numbers of a type for zeros."""
    found = [v for v in harness.list_variants() if v.op == op and v.runs_here and not v.limit and dtype in v.dtypes]
    return [v.name for v in found if v.name != "cublas" and v.accuracy == "full"]


def run(folder, operands, dtype, operation):
    with h5py.File(folder / "in.h5", "w") as file:
        for name, x in operands.items():
            referee.write_dataset(file, name, x, dtype)
    inputs = {name: {"file": "in.h5", "dataset": name} for name in operands}
    operation = {"id": "y", "inputs": list(operands), "repeat": 1, "warmup": 0, "store": "all", **operation}
    return harness.run_job(folder, inputs=inputs, operations=[operation])


def check(results, dtype, right, words):
    """NaNs and infinities where they should be, numbers within the type's rounding."""
    bad = [(row["variant"], row["status"], row["message"]) for row in results.rows if row["status"] not in ("ok", "skipped")]
    assert not bad and any(row["status"] == "ok" for row in results.rows), (words, bad)
    for name, stored in results.everything().items():
        value = referee.widen(stored, dtype)
        assert np.array_equal(np.isnan(value), np.isnan(right)), (words, name, value, right)
        finite = np.isfinite(right) & np.isfinite(value)
        slack = 4 * referee.EPSILON[dtype] * np.abs(right[finite]) + 2 * referee.LEAST[dtype]
        assert np.all(np.abs(value[finite] - right[finite]) <= slack), (words, name, value, right)
        assert np.array_equal(value[~finite], right[~finite], equal_nan=True), (words, name, value, right)


def product(a, b, dtype, alpha):
    """One product an element, in the accumulator's type; then alpha, rounded once."""
    wide = np.float64 if dtype == "float64" else np.float32
    with np.errstate(all="ignore"):
        sums = referee.widen(a, dtype).astype(wide) * referee.widen(b, dtype).astype(wide)
        return referee.widen(referee.round_to(alpha * sums.astype(np.float64), dtype), dtype)


@pytest.mark.parametrize("seed", cases())
@pytest.mark.parametrize("dtype", referee.FLOATS)
def test_factors_of_products(folder, dtype, seed):
    rng = np.random.default_rng(seed)
    alpha = float(rng.choice(FACTORS if seed % 3 else [0.0, -0.0]))
    a = draw_operand(rng, (int(rng.integers(1, 40)), 1), dtype)
    b = draw_operand(rng, (1, int(rng.integers(1, 40))), dtype)
    right = product(a, b, dtype, alpha)
    verify = str(rng.choice(["full", "sampled"]))
    variants = variants_of("matmul", dtype)
    operation = {"op": "matmul", "alpha": alpha, "verify": verify, "variants": variants}
    check(run(folder, {"a": a, "b": b}, dtype, operation), dtype, right, (seed, alpha, dtype))


@pytest.mark.parametrize("seed", cases())
@pytest.mark.parametrize("dtype", referee.FLOATS)
def test_factors_and_addends_of_scales(folder, dtype, seed):
    rng = np.random.default_rng(seed)
    alpha, beta = (float(rng.choice(FACTORS)) for _ in range(2))
    x = draw_operand(rng, (int(rng.integers(1, 300)),), dtype)
    with np.errstate(all="ignore"):  # in long double, whose product of two float64 may be rounded but leaves no range
        exact = np.longdouble(alpha) * referee.widen(x, dtype).astype(np.longdouble) + np.longdouble(beta)
        right = referee.widen(referee.round_to(exact.astype(np.float64), dtype), dtype)
    operation = {"op": "scale", "alpha": alpha, "beta": beta, "variants": variants_of("scale", dtype)}
    check(run(folder, {"x": x}, dtype, operation), dtype, right, (seed, alpha, beta, dtype))


@pytest.mark.parametrize("verify", ["full", "sampled"])
@pytest.mark.parametrize("dtype, size", [("float64", 1e200), ("float32", 1e30), ("bfloat16", 1e30)])
def test_a_factor_of_zero_of_sums_that_overflow(folder, dtype, size, verify):
    """NumPy: 0 times an infinity is NaN. In a corner of a product that is too large to be checked whole, too."""
    a = np.ones((300, 30))
    a[250:] *= size
    b = np.full((30, 200), size)
    a, b = referee.round_to(a, dtype), referee.round_to(b, dtype)
    operation = {"op": "matmul", "alpha": 0, "variants": variants_of("matmul", dtype), "verify": verify}
    right = np.where(np.arange(300)[:, None] < 250, 0.0, np.full((1, 200), np.nan))
    check(run(folder, {"a": a, "b": b}, dtype, operation), dtype, right, (dtype, verify))
