"""Random inputs are what NumPy computes from the documented generator, whatever type, tiling and distribution."""

import numpy as np
import pytest

import harness
import referee

SEED = 0x123456789ABCDEF  # uses both words of the key
SHAPE = [37, 53]


def generate(folder, shape=SHAPE, arguments=(), **terms):
    """The values of a random input, by way of its double transpose, which changes no bit."""
    results = harness.run_job(
        folder,
        arguments=arguments,
        sync=False,
        inputs={"x": {"random": {"shape": shape, **terms}}},
        defaults={"warmup": 0, "repeat": 1},
        operations=[
            {"id": "t", "op": "transpose", "inputs": ["x"], "variants": ["cpu"]},
            {"id": "y", "op": "transpose", "inputs": ["t"], "variants": ["cpu"]},
        ],
    )
    return results.output("y")


def indices(shape=SHAPE):
    return np.arange(np.prod(shape), dtype=np.uint64).reshape(shape)


@pytest.mark.parametrize("dtype", referee.FLOATS)
def test_uniform(folder, dtype):
    found = generate(folder, dtype=dtype, distribution="uniform", low=-3, high=5, seed=SEED)
    np.testing.assert_array_equal(found, referee.random_uniform(indices(), SEED, -3, 5, dtype))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_uniform_never_reaches_high(folder, dtype):
    """Rounded to a narrow type, values just below `high` would become `high`."""
    shape = [500, 600]
    found = generate(folder, shape, dtype=dtype, distribution="uniform", low=0, high=1, seed=3)
    exact = referee.unit(referee.random_words(indices(shape), 3))
    assert (referee.widen(referee.round_to(exact, dtype), dtype) == 1).any(), "this seed does not test the rounding"
    assert (referee.widen(found, dtype) < 1).all()
    np.testing.assert_array_equal(found, referee.random_uniform(indices(shape), 3, 0, 1, dtype))


@pytest.mark.parametrize("dtype", referee.FLOATS)
def test_normal(folder, dtype):
    found = referee.widen(generate(folder, dtype=dtype, distribution="normal", mean=10, std=2.5, seed=SEED), dtype)
    expected = referee.random_normal(indices(), SEED, 10, 2.5)
    np.testing.assert_allclose(found, expected, rtol=referee.EPSILON[dtype], atol=1e-13)


@pytest.mark.parametrize("dtype", referee.DTYPES)
def test_integer(folder, dtype):
    low, high = (0, 100) if dtype.startswith("u") else (-100, 27)
    found = generate(folder, dtype=dtype, distribution="integer", low=low, high=high, seed=SEED)
    expected = referee.random_integer(indices(), SEED, low, high)
    np.testing.assert_array_equal(referee.widen(found, dtype), expected)
    assert expected.min() == low and expected.max() == high, "both ends are included"


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int64", "uint16"])
def test_constant(folder, dtype):
    found = generate(folder, dtype=dtype, distribution="constant", value=7)
    np.testing.assert_array_equal(referee.widen(found, dtype), np.full(SHAPE, 7))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "uint8"])
def test_index(folder, dtype):
    found = generate(folder, dtype=dtype, distribution="index")
    linear = np.arange(np.prod(SHAPE)).reshape(SHAPE)
    expected = linear.astype(dtype) if dtype in referee.INTEGERS else referee.round_to(linear.astype(np.float64), dtype)
    np.testing.assert_array_equal(found, expected)


def test_default_is_uniform_float32_from_seed_0(folder):
    np.testing.assert_array_equal(generate(folder), referee.random_uniform(indices(), 0, 0, 1, "float32"))


def test_tiling_does_not_change_values(folder):
    shape = [301, 517]  # 600 kB: many tiles of 64 KiB, none of which begins where a pair of elements does
    tiled = generate(folder, shape, ["--memory", "64KiB"], distribution="normal", seed=5)
    expected = referee.random_normal(indices(shape), 5, 0, 1)
    np.testing.assert_allclose(tiled, expected, rtol=1e-6, atol=1e-7)
    (folder / "results.h5").unlink()
    whole = generate(folder, shape, distribution="normal", seed=5)
    np.testing.assert_array_equal(tiled, whole)


def drawn_number(rng, whole):
    """Near and at the limits of the data types, and ordinary ones."""
    value = rng.choice([0.0, 0.5, 1, 127, 128, 255, 256, 32767, 65504, 65520, 2**31, 2**32, 2**53, 2**63, 2**64, 3.3e38, 1e308])
    value = value * rng.choice([1, -1, 0.5, 1 + 2**-20]) + rng.choice([0, 0, 1, -1, 0.25])
    return int(value) if whole and abs(value) < 2**62 else float(np.clip(value, -1.7e308, 1.7e308))


def drawn_terms(rng, dtype):
    distribution = str(rng.choice(["uniform", "normal", "integer", "constant", "index"]))
    whole = distribution == "integer" or (dtype in referee.INTEGERS and rng.random() < 0.8)
    one, two = sorted(drawn_number(rng, whole) for _ in range(2))
    if distribution in ("uniform", "integer"):
        return {"distribution": distribution, "low": one, "high": two}
    if distribution == "normal":
        return {"distribution": distribution, "mean": one, "std": abs(two)}
    return {"distribution": distribution, **({"value": one} if distribution == "constant" else {})}


def holds(dtype, value):
    if dtype in referee.INTEGERS:
        return np.iinfo(dtype).min <= value <= np.iinfo(dtype).max
    return abs(value) <= (2 - referee.EPSILON[dtype]) * 2.0 ** referee.EXPONENTS[dtype][1]


def is_right(values, terms, dtype):
    """Are the values what the terms say, whatever the bits?"""
    wide = [int(v) if dtype in referee.INTEGERS else float(v) for v in referee.widen(values, dtype).flat]
    slack = 0 if dtype in referee.INTEGERS else referee.EPSILON[dtype]
    if terms["distribution"] == "constant":
        return all(abs(v - terms["value"]) <= slack * abs(terms["value"]) for v in wide)
    if terms["distribution"] == "integer":
        return all(terms["low"] <= v <= terms["high"] and v == int(v) for v in wide)
    if terms["distribution"] == "uniform":
        low, high = terms["low"], terms["high"]
        about = max(abs(low), abs(high)) * slack + (0.5 if dtype in referee.INTEGERS else 0)
        return all(low - about <= v <= high and holds(dtype, v) for v in wide)
    if terms["distribution"] == "normal":
        return all(abs(v - terms["mean"]) <= 8.6 * terms["std"] * (1 + slack) + slack * abs(terms["mean"]) + 0.5 for v in wide)
    return True


@pytest.mark.parametrize("dtype", referee.DTYPES)
def test_drawn_terms_are_right_or_refused(folder, rng, dtype):
    """Terms at, below and above what a type holds: the values are in their range, or `check` refuses and says which."""
    sure = [{"distribution": "constant", "value": 1}, {"distribution": "uniform", "low": 2, "high": 2}]  # right, refused
    refused, good = 0, {}
    for number, terms in enumerate(sure + [drawn_terms(rng, dtype) for _ in range(25)]):
        inputs = {f"x{number}": {"random": {"shape": [5, 7], "dtype": dtype, "seed": number, **terms}}}
        operations = [{"id": f"y{number}", "op": "transpose", "inputs": [*inputs], "variants": ["cpu"], "repeat": 1}]
        done = harness.tilerun("check", harness.write_job(folder / "check.yaml", inputs=inputs, operations=operations))
        if done.returncode == harness.OK:
            good[f"y{number}"] = terms, inputs, operations
            continue
        refused += 1
        assert done.returncode == harness.USAGE and "check.yaml:" in done.stderr, (terms, done.stderr)
        ends = [terms[name] for name in ("low", "high", "value") if name in terms]
        assert any(word in done.stderr for word in ("holds", "must", "no value", "rounds", "float64", "drawn")), done.stderr
        if terms["distribution"] == "integer" and max(map(abs, ends)) < 2**53 and ends[0] <= ends[1]:
            kept = [float(referee.widen(referee.round_to(np.array(float(end)), dtype), dtype)) for end in ends]
            inside = ends[0] <= kept[0] and kept[1] <= ends[1]
            assert not (inside and all(holds(dtype, end) for end in ends)), (terms, done.stderr)
    assert 0 < refused < 27
    inputs = {name: entry for _, its, _ in good.values() for name, entry in its.items()}
    job = {"inputs": inputs, "operations": [operation for *_, its in good.values() for operation in its]}
    results = harness.run_job(folder, sync=False, **job)
    for name, (terms, *_) in good.items():
        assert is_right(results.output(name), terms, dtype), terms
