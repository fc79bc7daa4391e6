"""TF32's accuracy class: the program's own tolerance for it, which `verify` judges by, holds for variants that round
float32 to 11 bits, whatever the data; and these are as near to the truth as rounding is. Data of every family of
configs/bench/values.yaml, and what float16's range, or a scale from a sample of each line, may fail at."""

import importlib.util

import h5py
import numpy as np
import pytest

import harness
import referee

SPEC = importlib.util.spec_from_file_location("families", harness.ROOT / "tests/bench/families.py")
families = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(families)

VARIANTS = [v for v in harness.list_variants() if v.op == "matmul" and v.accuracy == "tf32" and v.runs_here]
OWN = {"scaled16"}  # numbers that TF32 has as zero, where a whole line is so small
ROUNDED = 2.0**-10  # of |A||B|: both inputs to the nearest of 11 bits


def normal(rng, shape):
    return rng.standard_normal(shape)


def opposite(rng, m, k, n):
    """Both span 2^80 along k, in opposite order: products are ordinary, and a line's largest numbers meet the least."""
    grade = np.linspace(-40, 40, k)
    return normal(rng, (m, k)) * np.exp2(grade)[None, :], normal(rng, (k, n)) * np.exp2(-grade)[:, None]


def apart(rng, m, k, n):
    """Large numbers of a line meet zeros of the other's; what is left is 2^-30 of them."""
    a, b = normal(rng, (m, k)) * 2.0**-30, normal(rng, (k, n)) * 2.0**-30
    a[:, ::3], b[1::3] = normal(rng, a[:, ::3].shape), normal(rng, b[1::3].shape)
    a[:, 1::3] = 0
    b[::3] = 0
    return a, b


def spikes(rng, m, k, n):
    """One number of each line is far larger than what a sample of it is likely to hold."""
    a, b = normal(rng, (m, k)), normal(rng, (k, n))
    a[range(m), rng.integers(0, k, m)] *= np.exp2(rng.integers(0, 40, m))
    b[rng.integers(0, k, n), range(n)] *= np.exp2(rng.integers(0, 40, n))
    return a, b


def few(rng, m, k, n):
    """Lines that are zero nearly everywhere."""
    return normal(rng, (m, k)) * (rng.random((m, k)) < 3 / k), normal(rng, (k, n)) * (rng.random((k, n)) < 0.1)


def not_finite(rng, m, k, n):
    a, b = opposite(rng, m, k, n)
    for x in (a, b):
        for value in (np.inf, -np.inf, np.nan):
            x[rng.integers(x.shape[0]), rng.integers(x.shape[1])] = value
    return a, b


ADVERSARIAL = {
    "opposite": opposite,
    "apart": apart,
    "spikes": spikes,
    "few": few,
    "not finite": not_finite,
    "both wide": lambda rng, m, k, n: (families.VALUES["wide"](rng, (m, k)), families.VALUES["wide"](rng, (k, n))),
    "huge": lambda rng, m, k, n: (normal(rng, (m, k)) * 2.0**100, normal(rng, (k, n)) * 2.0**-90),
    "small": lambda rng, m, k, n: (normal(rng, (m, k)) * 2.0**-70, normal(rng, (k, n)) * 2.0**-60),
    "lines": lambda rng, m, k, n: (
        normal(rng, (m, k)) * np.exp2(rng.integers(-60, 61, (m, 1))),
        normal(rng, (k, n)) * np.exp2(rng.integers(-60, 61, (1, n))),
    ),
    "subnormal": lambda rng, m, k, n: (normal(rng, (m, k)) * 2.0**-135, normal(rng, (k, n)) * 2.0**100),
    "constant": lambda rng, m, k, n: (np.full((m, k), 1 + 2.0**-11 + 2.0**-12), np.full((k, n), -1.0)),
}
DATA = {
    **{
        name: lambda rng, m, k, n, of=of: (of(rng, (m, k)), normal(rng, (k, n)))
        for name, of in families.VALUES.items()
    },
    **ADVERSARIAL,
}


def worst(a, b, c):
    """The largest |error| / (|A||B|) of an element whose truth is finite, and the Frobenius error of these."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        value, magnitude = a @ b, np.abs(a) @ np.abs(b)
        judged = np.isfinite(value) & (magnitude > 2.0**-100) & (magnitude < 2.0**127)
        error, value = np.abs(c - value)[judged], value[judged]
        norm = np.linalg.norm(value)
        return np.max(error / magnitude[judged], initial=0), np.linalg.norm(error) / norm if norm else 0


@pytest.mark.gpu
def test_every_kind_of_data_is_within_the_class(folder, rng):
    if not VARIANTS:
        pytest.skip("no variant of this class runs here")
    sizes = {name: (*map(int, rng.integers(1, 600, 2)), int(rng.integers(64, 3000))) for name in DATA}
    options = {name: {f"transpose_{x}": bool(rng.integers(2)) for x in "ab"} for name in DATA}
    inputs = {}
    with h5py.File(folder / "inputs.h5", "w") as file:
        for name, make in DATA.items():
            m, n, k = sizes[name]
            with np.errstate(over="ignore", under="ignore"):
                inputs[name] = [x.astype(np.float32) for x in make(rng, m, k, n)]
            for letter, x in zip("ab", inputs[name]):
                file[f"{name}-{letter}".replace(" ", "-")] = x.T if options[name][f"transpose_{letter}"] else x
        names = list(file)
    results = harness.run_job(
        folder,
        expect=(harness.OK, harness.RUN),
        inputs={name: {"file": str(folder / "inputs.h5"), "dataset": name} for name in names},
        sync=False,
        defaults={"warmup": 0, "repeat": 1, "store": "all", "verify": "full"},
        operations=[
            {
                "id": name.replace(" ", "-"),
                "op": "matmul",
                "inputs": [f"{name}-{letter}".replace(" ", "-") for letter in "ab"],
                "variants": harness.variant_entries(VARIANTS),
                **options[name],
            }
            for name in DATA
        ],
    )
    wrong = []
    for name in DATA:
        for variant in VARIANTS:
            if name == "subnormal" and variant.name not in OWN:
                continue
            for label in harness.variant_labels(variant):
                row = results.row(name.replace(" ", "-"), label)
                if row["status"] != "ok":
                    wrong.append(f"{name} {sizes[name]} {options[name]} {label}: {row['status']} {row['message']}")
                    continue
                c = results.read(f"variants/{name.replace(' ', '-')}/{label}")
                largest, frobenius = worst(*inputs[name], c)
                print(f"{name:12} {sizes[name]!s:18} {label:22} {largest:.2e} {frobenius:.2e}")
                if largest > ROUNDED * 1.1 + (sizes[name][2] + 2) * referee.EPSILON["float32"]:
                    wrong.append(f"{name} {sizes[name]} {options[name]} {label}: error {largest:.3e}")
    assert not wrong, "\n".join(wrong)
