"""Every element of a float32 or float64 product by itself, wherever zeros and tiny numbers are: |error| / (|A||B|) of
every element by every variant of full accuracy and of TF32's, whatever the other elements are.

The bound is plain arithmetic's own for n products that are not zero: each is rounded once, to 2^-24 (float64: 2^-53) of
|A||B| or to half the least subnormal number. Twice that is allowed, for a tensor core cuts off where arithmetic rounds,
and 2^-21 for numbers of 22 bits, two slices of 11. Neither depends on k. TF32's class may lose 2^-9 more, and numbers that are subnormal, so
that an infinity times one is NaN; and it may round one up to infinity."""

import functools
import os
from collections import namedtuple

import h5py
import numpy as np
import pytest

import harness
import referee

VARIANTS = [
    v
    for v in harness.list_variants()
    if v.op == "matmul" and {"float32", "float64"} & set(v.dtypes) and v.accuracy in ("full", "tf32") and not v.limit
    and v.name not in ("blas", "cublas")
]
SEED = int.from_bytes(os.urandom(4), "little")
MIXTURES = 8

Case = namedtuple("Case", "id a b transpose_a transpose_b")
Type = namedtuple("Type", "name unit least largest wide")  # powers of two; one whose own rounding does not show
TYPES = [Type("float32", -24, -149, 127, np.float64), Type("float64", -53, -1074, 1023, np.longdouble)]


# ---- lines: rows of A, columns of B --------------------------------------------------------------------------------


def mantissas(rng, n):
    """+-1 .. 2, of all 24 bits."""
    return rng.uniform(1, 2, n) * rng.choice([-1, 1], n)


def blocks(rng, k, column, exponent):
    """[1 0 s] of a row, [0 1 s] of a column, again and again: the products s s alone are not zero."""
    line = np.zeros(k)
    line[int(column) :: 3] = 1
    line[2::3] = mantissas(rng, len(line[2::3])) * 2.0**-exponent
    return line


def log_uniform(rng, k, column):
    return mantissas(rng, k) * np.exp2(-rng.integers(0, rng.integers(1, 61), k, endpoint=True))


def planted(rng, k, column):
    """A few tiny numbers among normal ones."""
    line, places = rng.standard_normal(k), rng.choice(k, rng.integers(1, 6), replace=False)
    line[places] = mantissas(rng, len(places)) * 2.0 ** -rng.integers(20, 61)
    return line


def halves(rng, k, column):
    """Half of the numbers, one more or one less, are large; those of rows come first, those of columns last, so that
    they hardly meet."""
    many = k // 2 + rng.integers(-1, 2)
    line = mantissas(rng, k) * 2.0 ** -rng.integers(20, 61) * rng.choice([0, 1])
    place = slice(k - many, k) if column else slice(0, many)
    line[place] = mantissas(rng, many)
    return line


def one(rng, k, column):
    line = np.zeros(k)
    line[rng.integers(k)] = mantissas(rng, 1)[0]
    return line


def not_finite(rng, k, column):
    line = rng.standard_normal(k)
    line[rng.integers(k)] = rng.choice([np.inf, -np.inf, np.nan])
    return line


KINDS = [
    blocks,
    log_uniform,
    planted,
    halves,
    one,
    not_finite,
    lambda rng, k, column: rng.standard_normal(k),
    lambda rng, k, column: rng.random(k),
    lambda rng, k, column: log_uniform(rng, k, column) * (rng.random(k) < rng.random() ** 3),  # sparse
    lambda rng, k, column: np.zeros(k),
    lambda rng, k, column: rng.standard_normal(k) * 2.0**-130,
    lambda rng, k, column: rng.integers(-9, 10, k).astype(float),
]
LIMITS = [
    lambda rng, k, column, dtype: rng.standard_normal(k) * 2.0 ** (dtype.least + 19),  # subnormal
    lambda rng, k, column, dtype: log_uniform(rng, k, column) * 2.0 ** (dtype.largest - 7),  # near overflow
]


def line_of(rng, k, column, dtype):
    number = rng.integers(len(KINDS) + len(LIMITS))
    if number >= len(KINDS):
        return LIMITS[number - len(KINDS)](rng, k, column, dtype) * 2.0 ** rng.integers(-6, 7)
    if KINDS[number] is blocks:
        return blocks(rng, k, column, rng.integers(1, 61))
    return KINDS[number](rng, k, column) * 2.0 ** rng.integers(-6, 7)


# ---- products ------------------------------------------------------------------------------------------------------


def cases_of(rng, dtype):
    def case(name, rows, columns):
        """Either way round in memory."""
        a, b = np.array(rows).astype(dtype.name), np.array(columns).T.astype(dtype.name)
        return Case(name, a, b, bool(rng.integers(2)), bool(rng.integers(2)))

    powers = range(1, 61)
    yield case("blocks", [blocks(rng, 96, False, s) for s in powers], [blocks(rng, 96, True, s) for s in powers])
    size = int(rng.integers(64, 200))
    yield case("permutation", np.eye(size)[rng.permutation(size)], [log_uniform(rng, size, True) for _ in range(150)])
    pairs = [np.eye(size) + np.roll(np.eye(size), 1, axis) * 2.0 ** -rng.integers(1, 61, (size, 1)) for axis in (0, 1)]
    yield case("pairs", *(pair * mantissas(rng, pair.shape) for pair in pairs))
    for number in range(MIXTURES):
        k = int(rng.integers(64, 400) if number else 2300)  # the first beyond what one chain of sums takes
        m, n = rng.integers(1, 300, 2)
        yield case(
            f"mixture_{number}",
            [line_of(rng, k, False, dtype) for _ in range(m)],
            [line_of(rng, k, True, dtype) for _ in range(n)],
        )


@pytest.fixture(scope="module")
def products(memory_folder):
    """The cases, and their results by all variants: computed once."""

    @functools.cache
    def run(dtype):
        cases = list(cases_of(np.random.default_rng(SEED), dtype))
        folder = memory_folder / f"componentwise_{dtype.name}"
        folder.mkdir()
        with h5py.File(folder / "inputs.h5", "w") as file:
            for case in cases:
                file[f"{case.id}_a"] = case.a.T if case.transpose_a else case.a
                file[f"{case.id}_b"] = case.b.T if case.transpose_b else case.b
        names = [f"{case.id}_{letter}" for case in cases for letter in "ab"]
        return cases, harness.run_job(
            folder,
            inputs={name: {"file": str(folder / "inputs.h5"), "dataset": f"/{name}"} for name in names},
            sync=False,
            defaults={"warmup": 0, "repeat": 1, "store": "all", "verify": "none"},
            operations=[
                {
                    "id": case.id,
                    "op": "matmul",
                    "inputs": [f"{case.id}_a", f"{case.id}_b"],
                    "transpose_a": case.transpose_a,
                    "transpose_b": case.transpose_b,
                    "variants": harness.variant_entries([v for v in VARIANTS if dtype.name in v.dtypes]),
                }
                for case in cases
            ],
        )

    return run


def complaint(case, c, dtype, accuracy="full"):
    """What is wrong with a product of an accuracy class, in words; None: nothing."""
    a, b = case.a.astype(dtype.wide), case.b.astype(dtype.wide)
    with np.errstate(invalid="ignore"):
        value, magnitude = a @ b, np.abs(a) @ np.abs(b)
    finite = [np.abs(np.where(np.isfinite(x), x, 0)) for x in (a, b)]
    overflows = finite[0] @ finite[1] >= 2.0**dtype.largest  # or may, on the way: that is the type's own business
    terms = (a != 0).astype(np.float64) @ (b != 0).astype(np.float64)
    bound = (2 * terms + 8) * 2.0**dtype.unit * magnitude + (terms + 1) * 2.0**dtype.least
    if accuracy != "full":
        subnormal = [np.where(x < 2.0**-126, x, 0) for x in finite]
        lost = subnormal[0] @ finite[1] + finite[0] @ subnormal[1]
        bound += referee.CLASS_ERROR[accuracy] * np.where(np.isfinite(magnitude), magnitude, 0) + lost
        large = [x >= (2 - 2.0**-10) * 2.0**127 for x in finite]
        overflows |= large[0].any(1)[:, None] | large[1].any(0)[None, :]
        infinite, small = [np.isinf(x) * 1.0 for x in (a, b)], [(x > 0) * 1.0 for x in subnormal]
        overflows |= infinite[0] @ small[1] + small[0] @ infinite[1] > 0
    with np.errstate(invalid="ignore"):
        error = np.abs(c.astype(dtype.wide) - value)
        right = np.where(np.isfinite(value), error <= bound, (c == value) | (np.isnan(c) & np.isnan(value)))
    wrong = np.argwhere(~right & ~overflows)
    if len(wrong) == 0:
        return None
    i, j = wrong[0]
    return (
        f"{case.id} {a.shape} x {b.shape}, transposed {case.transpose_a} {case.transpose_b}: {len(wrong)} wrong, "
        f"[{i}, {j}] is {c[i, j]}, should be {value[i, j]} +- {bound[i, j]}"
    )


@pytest.mark.parametrize(
    "variant, label, dtype",
    [
        pytest.param(v, label, dtype, id=f"{label}-{dtype.name}")
        for v in VARIANTS
        for label in harness.variant_labels(v)
        for dtype in TYPES
        if dtype.name in v.dtypes
    ],
)
def test_every_element_is_right(products, variant, label, dtype):
    if not variant.runs_here:
        pytest.skip("no GPU that can run it")
    cases, results = products(dtype)
    rows = {case.id: results.row(case.id, label) for case in cases}
    taken = [case for case in cases if rows[case.id]["status"] != "skipped"]
    if not taken:
        pytest.skip("takes none of these shapes")
    found = [complaint(case, results.read(f"variants/{case.id}/{label}"), dtype, variant.accuracy) for case in taken]
    assert not any(found), f"seed {SEED}\n" + "\n".join(filter(None, found))


@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: dtype.name)
def test_a_lost_tiny_number_is_noticed(rng, dtype):
    """The referee itself: one number of 2^-40 of its line's largest that is taken for zero."""
    case = next(cases_of(rng, dtype))
    tiny = np.zeros_like(case.a)
    tiny[39] = np.where(np.abs(case.a[39]) < 1, case.a[39], 0)
    with np.errstate(under="ignore"):
        right = case.a @ case.b
        assert complaint(case, right, dtype) is None
        assert "[39, 0]" in complaint(case, (case.a - tiny) @ case.b, dtype)
