"""The variants that round once: every bit is that of Python's fractions, in any memory and by any shards."""

import functools
import os
import random
import re
from fractions import Fraction

import h5py
import numpy as np
import pytest

import harness
from shards import merge, shard

SEED = int(os.environ.get("TILERUN_SEED", 0))
BUDGETS = int(os.environ.get("TILERUN_CASES", 4))
SHAPE = (3, 80, 240)
UNIT = 2**1074
VARIANTS = [v for v in harness.list_variants() if v.op == "reduce" and v.name.startswith("exact") and v.runs_here]
NAMES = [v.name for v in VARIANTS]
AXES = [0, 1, 2, "all"]


def rounded(value, dtype):
    """The nearest number of a type to a fraction; of two, the one with an even last bit."""
    dtype = np.dtype(dtype)
    largest, least = Fraction(float(np.finfo(dtype).max)), Fraction(float(np.finfo(dtype).smallest_subnormal))
    digits = np.finfo(dtype).nmant + 1
    exponent = abs(value.numerator).bit_length() - value.denominator.bit_length() - digits - 1
    unit = max(least, Fraction(2) ** exponent)
    while abs(value) >= unit * 2**digits:
        unit *= 2
    result = round(value / unit) * unit  # Python's rounds halves to even
    if abs(result) > largest:
        return dtype.type(np.inf if result > 0 else -np.inf)
    return dtype.type(-0.0 if result == 0 and value < 0 else float(result))


def whole(number):
    """A float64 as a multiple of the least one: integers add faster than fractions."""
    numerator, denominator = number.as_integer_ratio()
    return numerator * (UNIT // denominator)


def reduced(x, operator, axis):
    """The exact sums or means of an array, each rounded once."""
    rows = x.reshape(1, -1) if axis == "all" else np.moveaxis(x, axis, -1).reshape(-1, x.shape[axis])
    results = []
    for row in rows:
        odd = row[~np.isfinite(row)].astype(float)
        if len(odd):
            with np.errstate(invalid="ignore"):
                results.append(x.dtype.type(odd.sum()))
            continue
        total = Fraction(sum(map(whole, row.astype(float).tolist())), UNIT)
        results.append(rounded(total / (len(row) if operator == "mean" else 1), x.dtype))
    shape = () if axis == "all" else x.shape[:axis] + x.shape[axis + 1 :]
    return np.array(results, x.dtype).reshape(shape)


@functools.cache
def known(data, dtype, operator, axis):
    return reduced(np.frombuffer(data, dtype).reshape(SHAPE), operator, axis)


def difficult(rng, dtype):
    """Numbers of all exponents; in places they cancel, overflow on the way, are infinite."""
    info = np.finfo(dtype)
    bits = rng.integers(0, 2 ** (8 * np.dtype(dtype).itemsize), SHAPE, dtype=f"u{np.dtype(dtype).itemsize}")
    x = bits.view(dtype)
    x[~np.isfinite(x)] = info.max
    x[:, ::3, :] = rng.normal(size=x[:, ::3, :].shape)
    x[:, 1::3, 1::2] = -x[:, 1::3, ::2]
    x[0, :, 3::4] = info.max * rng.choice([-1, 1], x[0, :, 3::4].shape)
    x[1, :, ::5] = info.smallest_subnormal * rng.integers(-3, 4, x[1, :, ::5].shape)
    return x


def write(folder, x):
    with h5py.File(folder / "x.h5", "w") as file:
        file.create_dataset("x", data=x, chunks=(1, 50, 90) if x.ndim == 3 else None)
    return {"x": {"file": str(folder / "x.h5"), "dataset": "/x"}}


def operations(axes):
    shared = {"op": "reduce", "inputs": ["x"], "variants": NAMES}
    return [
        {"id": f"{operator}_{axis}", "operator": operator, "axis": axis} | shared
        for operator in ("sum", "mean")
        for axis in axes
    ]


PLAIN = {"warmup": 0, "repeat": 1, "store": "all"}


def assert_exact(path, x, axes, names=NAMES):
    with h5py.File(path) as file:
        for operator in ("sum", "mean"):
            for axis in axes:
                expected = known(x.tobytes(), x.dtype, operator, axis)
                for name in names:
                    found = file[f"variants/{operator}_{axis}/{name}"][()]
                    assert found.tobytes() == expected.tobytes(), f"{name} {operator} {axis} seed {SEED}"


@pytest.fixture(params=["float32", "float64", "float16"])
def x(request):
    return difficult(np.random.default_rng(SEED), request.param)


def test_same_bits_in_any_memory(folder, x):
    draw = random.Random(SEED)
    found, cuts = set(), set()
    for number in range(BUDGETS):
        memory = max(64 << 10, int(x.nbytes * 2 ** draw.uniform(-2.5, 1)))
        (folder / "results.h5").unlink(missing_ok=True)
        results = harness.run_job(
            folder,
            inputs=write(folder, x),
            memory=memory,
            defaults=PLAIN | {"verify": "none"},
            operations=operations(AXES),
        )
        if number == 0:
            assert_exact(results.path, x, AXES)
        found.add(tuple((name, bits.tobytes()) for name, bits in sorted(results.everything().items())))
        plan = harness.tilerun("plan", "--detail", folder / "job.yaml").stdout
        cuts |= {tuple(re.findall("^ *tiles .*", plan, re.M))}
    assert len(found) == 1
    assert len(cuts) > BUDGETS // 3, cuts  # the budgets did cut other tiles


def test_same_bits_by_shards(folder, x):
    axes = [0, 1, 2]
    harness.write_job(folder / "job.yaml", inputs=write(folder, x), defaults=PLAIN, operations=operations(axes))
    for index in range(3):
        shard(folder, index, 3, "--by", "tiles")
    merge(folder)
    assert_exact(folder / "out.h5", x, axes)


def several():
    """Devices that share a run, what the environment must say, and how the results begin to name them."""
    gpus = sum(line.startswith("cuda:") for line in harness.tilerun("devices").stdout.splitlines())
    return [("cpu", {"TILERUN_CPU_DEVICES": "3"}, "cpu x ")] + [("cuda:all", {}, "cuda:0,")] * (gpus > 1)


@pytest.mark.parametrize("device, words, among", several(), ids=lambda value: value if isinstance(value, str) else "")
def test_same_bits_by_several_devices(folder, x, device, words, among):
    """In any memory: tiles differ, and who has which."""
    draw = random.Random(SEED)
    on = [v.name for v in VARIANTS if v.on_cpu == (device == "cpu")]
    for _ in range(max(1, BUDGETS // 4)):
        memory = max(64 << 10, int(x.nbytes * 2 ** draw.uniform(-2.5, 1)))
        wanted = [one | {"variants": on} for one in operations([0, 1, 2])]
        inputs = write(folder, x)
        harness.write_job(folder / "job.yaml", inputs=inputs, memory=memory, defaults=PLAIN, operations=wanted)
        command = ["run", folder / "job.yaml", "--device", device, "--overwrite", "-o", folder / "out.h5"]
        harness.tilerun(*command, env=os.environ | words, expect=harness.OK)
        assert any(row["device"].startswith(among) for row in harness.Results(folder / "out.h5").rows)
        assert_exact(folder / "out.h5", x, [0, 1, 2], on)


@pytest.mark.parametrize(
    "numbers, total",
    [
        ([3e38, 3e38, -3e38], 3e38),
        ([3e38, 3e38, -3e38, -3e38], 0.0),
        ([3.4028234663852886e38, 2.0**103], np.inf),
        ([3.4028234663852886e38, 2.0**103, -(2.0**-149)], 3.4028234663852886e38),
        ([2.0**100, 1, -(2.0**100)], 1.0),
        ([-0.0, -0.0], 0.0),
        ([1, -1], 0.0),
        ([np.inf, 1], np.inf),
        ([np.inf, -np.inf], np.nan),
        ([np.nan, 1], np.nan),
    ],
)
def test_known_sums(folder, numbers, total):
    x = np.array(numbers, "float32")
    results = harness.run_job(folder, inputs=write(folder, x), defaults=PLAIN, operations=operations(["all"]))
    for name in NAMES:
        found = results.read(f"variants/sum_all/{name}")
        assert found.tobytes() == np.float32(total).tobytes(), (name, found)


def test_truth_of_a_sum_near_the_largest(folder):
    """-a + b is in range, and the number that two-sum subtracts from it is not."""
    x = np.repeat([[-3.1002188122281206e307], [1.7976931348623157e308]], 2, axis=1)
    operation = {"id": "y", "op": "reduce", "inputs": ["x"], "operator": "sum", "axis": 0}
    results = harness.run_job(folder, inputs=write(folder, x), operations=[operation | {"variants": ["cpu", *NAMES]}])
    assert [row["status"] for row in results.rows] == ["ok"] * (1 + len(NAMES))


def test_auto_does_not_take_them(folder):
    inputs = {"x": {"random": {"shape": [9, 9]}}}
    operation = {"id": "y", "op": "reduce", "inputs": ["x"], "operator": "sum", "axis": 0}
    results = harness.run_job(folder, inputs=inputs, operations=[operation])
    assert [row["variant"] for row in results.rows if row["variant"].startswith("exact")] == []
