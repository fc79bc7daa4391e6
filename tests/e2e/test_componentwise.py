"""Every element of a float32 product by itself, wherever zeros and tiny numbers are: |error| / (|A||B|) of every element
by every variant of full accuracy, whatever the other elements are.

The bound is plain float32's own for n products that are not zero: each is rounded once, to 2^-24 of |A||B| or to half the
least subnormal number. Twice that is allowed, for a tensor core cuts off where arithmetic rounds, and 2^-21 for numbers
of 22 bits, two slices of 11. Neither depends on k."""

import functools
import os
from collections import namedtuple

import h5py
import numpy as np
import pytest

import harness

VARIANTS = [
    v
    for v in harness.list_variants()
    if v.op == "matmul" and "float32" in v.dtypes and v.accuracy == "full" and not v.limit and v.name not in ("blas", "cublas")
]
SEED = int.from_bytes(os.urandom(4), "little")
MIXTURES = 8

Case = namedtuple("Case", "id a b transpose_a transpose_b")


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
    lambda rng, k, column: rng.standard_normal(k) * 2.0**-130,  # subnormal
    lambda rng, k, column: log_uniform(rng, k, column) * 2.0**120,  # near overflow
]


def line_of(rng, k, column):
    kind = KINDS[rng.integers(len(KINDS))]
    if kind is blocks:
        return blocks(rng, k, column, rng.integers(1, 61))
    return kind(rng, k, column) * 2.0 ** rng.integers(-6, 7)


# ---- products ------------------------------------------------------------------------------------------------------


def cases_of(rng):
    def case(name, rows, columns):
        """Either way round in memory."""
        a, b = np.array(rows).astype(np.float32), np.array(columns).T.astype(np.float32)
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
            [line_of(rng, k, False) for _ in range(m)],
            [line_of(rng, k, True) for _ in range(n)],
        )


@pytest.fixture(scope="module")
def products(memory_folder):
    """The cases, and their results by all variants: computed once."""

    @functools.cache
    def run():
        cases = list(cases_of(np.random.default_rng(SEED)))
        folder = memory_folder / "componentwise"
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
                    "variants": harness.variant_entries(VARIANTS),
                }
                for case in cases
            ],
        )

    return run


def complaint(case, c):
    """What is wrong with a product, in words; None: nothing."""
    a, b = case.a.astype(np.float64), case.b.astype(np.float64)
    with np.errstate(invalid="ignore"):
        value, magnitude = a @ b, np.abs(a) @ np.abs(b)
    finite = [np.abs(np.where(np.isfinite(x), x, 0)) for x in (a, b)]
    overflows = finite[0] @ finite[1] >= 2.0**127  # or may, on the way: that is float32's own business
    terms = (a != 0).astype(np.float64) @ (b != 0).astype(np.float64)
    bound = (2 * terms + 8) * 2.0**-24 * magnitude + (terms + 1) * 2.0**-149
    with np.errstate(invalid="ignore"):
        error = np.abs(c.astype(np.float64) - value)
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
    "variant, label", [pytest.param(v, label, id=label) for v in VARIANTS for label in harness.variant_labels(v)]
)
def test_every_element_is_right(products, variant, label):
    if not variant.runs_here:
        pytest.skip("no GPU that can run it")
    cases, results = products()
    rows = {case.id: results.row(case.id, variant.name, label.partition(",")[2]) for case in cases}
    taken = [case for case in cases if rows[case.id]["status"] != "skipped"]
    if not taken:
        pytest.skip("takes none of these shapes")
    found = [complaint(case, results.read(f"variants/{case.id}/{label}")) for case in taken]
    assert not any(found), f"seed {SEED}\n" + "\n".join(filter(None, found))


def test_a_lost_tiny_number_is_noticed(rng):
    """The referee itself: one number of 2^-40 of its line's largest that is taken for zero."""
    case = next(cases_of(rng))
    tiny = np.zeros_like(case.a)
    tiny[39] = np.where(np.abs(case.a[39]) < 1, case.a[39], 0)
    with np.errstate(under="ignore"):
        right = case.a @ case.b
        assert complaint(case, right) is None
        assert "[39, 0]" in complaint(case, (case.a - tiny) @ case.b)
