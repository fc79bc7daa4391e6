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
