"""The cases that every variant is put through, one job for each operation and type: edge shapes around every tile, all
options and axes, and values that are awkward. A case is an operation of the job with NumPy's answer to it."""

import os
from collections import namedtuple

import h5py
import numpy as np

import harness
import referee

# `options` as in the job file; `inputs` as stored; `value` and `bound` as the referee has them; `dtype` the result's;
# `magnitude` what the bounds of lower accuracy classes are relative to.
Case = namedtuple("Case", "id options inputs value bound dtype magnitude", defaults=[None])

# Without CUDA an operator and type meets a third of the shapes and axes, drawn; all of them if TILERUN_CASES is set.
EVERY = "TILERUN_CASES" in os.environ or "no CUDA" not in harness.quiet("--version")

SQUARES = [1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 129]  # tiles and one more or less
RECTANGLES = [
    (1, 33, 65),
    (33, 1, 17),
    (65, 31, 1),
    (13, 127, 61),
    (5, 257, 3),
    (128, 1, 1),
    (1, 1, 1000),
    (0, 5, 3),
    (5, 0, 3),
    (5, 3, 0),
    (64, 64, 5000),  # k long enough to be split over blocks
    (129, 257, 520),  # beyond the largest tiles
    (300, 70, 1111),
    (1, 513, 700),
    (515, 1, 600),
]

VECTORS = [1, 2, 31, 32, 33, 255, 256, 257, 1023, 1025, 10007]
MATRICES = [(1, 1), (1, 300), (300, 1), (33, 65), (127, 3), (257, 31), (64, 64)]
STACKS = [(1, 1, 1), (3, 17, 33), (2, 33, 65), (5, 1, 7)]


def matmul_case(name, dtype, a, b, **options):
    value, bound = referee.matmul(a, b, dtype, **options)
    return Case(name, options, [a, b], value, bound, dtype, referee.matmul_magnitude(a, b, dtype, **options))


def alpha_cases(rng, dtype):
    """alphas of any size with sums that the accumulator holds: the result is in range where alpha is not in the type's,
    or it overflows, or nothing is left of it."""
    most = {"float16": 6, "float64": 480}.get(dtype, 50)  # exponent of operands, either way
    result = {"float16": 9, "float64": 900}.get(dtype, 110)  # and of what is to come out
    for number in range(12):
        exponents, (m, n, k) = rng.integers(-most, most + 1, 2), rng.integers(1, 200, 3)
        wanted = rng.integers(-result, result + 1)
        if number % 3 == 0:
            wanted = rng.choice([-1000, 1000])
        elif number % 3 == 1:  # as far from the sum as may be
            exponents[:] = -most * np.sign(wanted)
        power = np.clip(wanted - sum(exponents), -1020, 1020)
        alpha = float(rng.uniform(1, 2) * rng.choice([-1, 1]) * 2.0**power)
        shapes = (k, m) if number % 2 else (m, k), (n, k) if number % 4 > 1 else (k, n)
        a, b = (referee.round_to(rng.uniform(-1, 1, s) * 2.0**e, dtype) for s, e in zip(shapes, exponents))
        flips = {"transpose_a": bool(number % 2), "transpose_b": number % 4 > 1}
        with np.errstate(over="ignore"):
            case = matmul_case(f"alpha_{number}", dtype, a, b, alpha=alpha, **flips)
        yield case


def matmul_cases(rng, dtype):
    def values(*shape):
        return referee.random_values(rng, shape, dtype)

    for m, n, k in [(s, s, s) for s in SQUARES] + RECTANGLES:
        yield matmul_case(f"p_{m}_{n}_{k}", dtype, values(m, k), values(k, n))
    for number, (ta, tb) in enumerate([(False, False), (False, True), (True, False), (True, True)]):
        options = {"transpose_a": ta, "transpose_b": tb}
        a, b = values(*((65, 33) if ta else (33, 65))), values(*((17, 65) if tb else (65, 17)))
        yield matmul_case(f"flipped_{number}", dtype, a, b, alpha=-1.5, **options)
        a, b = values(*((3, 20, 9) if ta else (3, 9, 20))), values(*((3, 34, 20) if tb else (3, 20, 34)))
        yield matmul_case(f"stack_{number}", dtype, a, b, **options)
        yield matmul_case(f"shared_{number}", dtype, a, b[0].copy(), alpha=0.5, **options)
    yield matmul_case("no_stack", dtype, values(0, 4, 5), values(0, 5, 6))
    yield matmul_case("alpha_zero", dtype, values(9, 9), values(9, 9), alpha=0)
    yield from alpha_cases(rng, dtype)
    a, b = (referee.widen(values(s, s), dtype) for s in (35, 35))
    a[3, 4], a[20, 34], b[34, 7], b[0, 33] = np.nan, np.inf, -np.inf, np.nan
    yield matmul_case("not_finite", dtype, referee.round_to(a, dtype), referee.round_to(b, dtype))
    if dtype == "float16":
        a = referee.round_to(
            np.full((3, 40), 100.0) * [[1], [-1], [0.5]], dtype
        )  # 40 * 10^4: infinite, -, 200,000: too
        yield matmul_case("overflow", dtype, a, referee.round_to(np.full((40, 2), 100.0), dtype))


def reduce_values(rng, shape, dtype, operator):
    if operator != "prod" or dtype not in referee.FLOATS:
        return referee.random_values(rng, shape, dtype)
    return referee.round_to(rng.choice([-1.0, 0.5, 1.0, 2.0], shape, p=[0.2, 0.1, 0.6, 0.1]), dtype)


def reduce_case(name, dtype, operator, axis, x):
    value, bound = referee.reduce(x, dtype, operator, axis)
    return Case(
        f"{operator}_{name}",
        {"operator": operator, "axis": axis},
        [x],
        value,
        bound,
        referee.result_type(operator, dtype),
    )


def shapes_and_axes():
    for n in VECTORS:
        yield (n,), 0
        yield (n,), "all"
    for shape in MATRICES:
        yield from ((shape, axis) for axis in (0, 1, -1, "all"))
    for shape in STACKS:
        yield from ((shape, axis) for axis in (0, 1, 2, -2, "all"))


def reduce_cases(rng, dtype, operator):
    for number, (shape, axis) in enumerate(shapes_and_axes()):
        if not EVERY and rng.integers(3):
            continue
        yield reduce_case(f"{number}", dtype, operator, axis, reduce_values(rng, shape, dtype, operator))
    yield reduce_case("no_columns", dtype, operator, 0, referee.random_values(rng, (5, 0), dtype))
    if operator in ("sum", "prod", "mean", "norm2"):
        yield reduce_case("nothing", dtype, operator, "all", referee.random_values(rng, (0,), dtype))
        yield reduce_case("no_rows", dtype, operator, 0, referee.random_values(rng, (0, 37), dtype))
    ties = referee.round_to(rng.integers(0, 3, (40, 70)).astype(np.float64), dtype)
    for axis in (0, 1, "all"):
        yield reduce_case(f"ties_{axis}", dtype, operator, axis, ties)
    if dtype in referee.FLOATS:
        yield from reduce_awkward_floats(rng, dtype, operator)


def reduce_awkward_floats(rng, dtype, operator):
    x = referee.widen(reduce_values(rng, (70, 50), dtype, operator), dtype)
    x[3, 4], x[60, 4], x[5, 6], x[7, 8], x[69, 8] = np.nan, np.nan, np.inf, -np.inf, np.inf
    for axis in (0, 1, "all"):
        yield reduce_case(f"not_finite_{axis}", dtype, operator, axis, referee.round_to(x, dtype))
    infinite = referee.round_to(np.full((9, 3), np.inf), dtype)
    yield reduce_case("infinite", dtype, operator, 0, infinite)
    zeros = referee.round_to(np.where(rng.integers(0, 2, (33, 5)), 0.0, -0.0), dtype)
    yield reduce_case("signed_zeros", dtype, operator, 1, zeros)
    if operator in ("prod", "norm2"):  # whose products of two or of 40 elements leave the type's range, or float64's
        low, high = referee.EXPONENTS[dtype]
        exponents = rng.integers(0, min(high, 400), (40, 50))
        rising = np.concatenate([exponents, -exponents])
        yield reduce_case("rising", dtype, operator, 0, referee.round_to(np.exp2(rising), dtype))
        for name, exponent in {"large": high - 6, "small": low // 2, "least": low + 2}.items():
            x = rng.uniform(1, 2, (70, 50)) * 2.0**exponent
            yield reduce_case(name, dtype, operator, 1, referee.round_to(x, dtype))
    if dtype == "float16" and operator in ("sum", "norm2"):  # beyond 65504
        yield reduce_case("overflow", dtype, operator, 1, referee.round_to(np.full((3, 300), 6e4), dtype))


TRANSPOSED = MATRICES + STACKS + [(31, 33), (32, 32), (33, 31), (257, 129), (5, 0), (0, 5), (0, 4, 4), (3, 0, 2)]


def transpose_cases(rng, dtype):
    for number, shape in enumerate(TRANSPOSED):
        x = referee.random_bits(rng, shape, dtype)
        yield Case(f"t_{number}", {}, [x], x.swapaxes(-1, -2), referee.BITS, dtype)


def scale_cases(rng, dtype):
    terms = [(1, 0), (1.5, -0.25), (-2, 3)] if dtype in referee.FLOATS else [(1, 1), (-3, 7), (0, -1)]
    for n, (alpha, beta) in enumerate(terms):
        for number, shape in enumerate([(s,) for s in VECTORS] + MATRICES + STACKS + [(0,), (3, 0)]):
            x = referee.random_values(rng, shape, dtype)
            value, bound = referee.scale(x, dtype, alpha, beta)
            yield Case(f"s_{n}_{number}", {"alpha": alpha, "beta": beta}, [x], value, bound, dtype)
    if dtype in referee.FLOATS:
        x = referee.round_to(np.array([np.nan, np.inf, -np.inf, -0.0, 6e4, 3e38]), dtype)
        with np.errstate(over="ignore"):
            yield Case("s_awkward", {"alpha": 2, "beta": 1}, [x], *referee.scale(x, dtype, 2, 1), dtype)


def cases_of(op, operator, rng, dtype):
    if op == "reduce":
        return list(reduce_cases(rng, dtype, operator))
    return list({"matmul": matmul_cases, "transpose": transpose_cases, "scale": scale_cases}[op](rng, dtype))


def write_inputs(path, cases, dtype):
    inputs = {}
    with h5py.File(path, "w") as file:
        for case in cases:
            for letter, values in zip("ab", case.inputs):
                name = f"{case.id}_{letter}"
                referee.write_dataset(file, name, values, dtype)
                inputs[name] = {"file": str(path), "dataset": f"/{name}"}
    return inputs


def run_suite(folder, op, variants, dtype, operator=None, rng=None, **options):
    """Runs all cases by all variants in one job. Returns the cases and the results."""
    cases = cases_of(op, operator, rng, dtype)
    operations = [
        {
            "id": case.id,
            "op": op,
            "inputs": [f"{case.id}_{letter}" for letter, _ in zip("ab", case.inputs)],
            **case.options,
        }
        for case in cases
    ]
    return cases, harness.run_job(
        folder,
        **options,
        timeout=600,  # hundreds of variants on a GPU that the other tests use too
        sync=False,
        inputs=write_inputs(folder / "inputs.h5", cases, dtype),
        defaults={"warmup": 0, "repeat": 1, "store": "all"},
        operations=[
            {**operation, "variants": harness.variant_entries(variants)} for operation in operations
        ],
    )
