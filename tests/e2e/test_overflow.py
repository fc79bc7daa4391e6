"""Results that overflow the type that they are computed in: elements that are infinite although nothing that they
depend on is are counted and said, however a job is divided; and an operation whose `dtype` is wider computes in that.

    TILERUN_CASES=500 TILERUN_SEED=1     other cases, more of them; one by TILERUN_CASE=57
"""

import json
import os

import h5py
import numpy as np
import pytest

import harness
import referee
import shards

SEED = int(os.environ.get("TILERUN_SEED", 0))
CASES = int(os.environ.get("TILERUN_CASES", 6))
CHOSEN = os.environ.get("TILERUN_CASE")
COMPUTING = [name for name in referee.EVERY_OPERATOR if name not in ("argmin", "argmax", "count_nan")]


def cases():
    return [int(CHOSEN)] if CHOSEN is not None else [SEED * 100000 + case for case in range(CASES)]


# ---- what is drawn -------------------------------------------------------------------------------------------------


def draw_values(rng, shape, dtype):
    """Some near the type's largest number, some moderate; here and there a row with infinities or NaNs."""
    if dtype in referee.INTEGERS:
        return referee.random_values(rng, shape, dtype)
    high = referee.EXPONENTS[dtype][1]
    x = np.ldexp(rng.uniform(0.5, 1, shape), rng.integers(-4, 5, shape)) * rng.choice([1, -1, 1], shape)
    rows = rng.random((*shape[:-1], 1)) < 0.5
    x = np.where(rows, np.ldexp(np.abs(x), high - int(rng.choice([4, 5, high // 2]))), x)
    odd = (rng.random((*shape[:-1], 1)) < 0.2) & (rng.random(shape) < 0.2)
    return referee.round_to(np.where(odd, rng.choice([np.inf, -np.inf, np.nan], shape), x), dtype)


def draw_operation(rng, dtype):
    """Its keys, and the shapes of its operands."""
    shape = tuple(int(i) for i in rng.integers(1, 40, int(rng.integers(2, 4))))
    kind = rng.choice(["reduce", "reduce", "scale"] + ["matmul"] * (dtype in referee.FLOATS))
    if kind == "reduce":
        axis = "all" if rng.random() < 0.2 else int(rng.integers(len(shape)))
        return {"op": "reduce", "operator": str(rng.choice(COMPUTING)), "axis": axis}, [shape]
    if kind == "scale":
        return {"op": "scale", "alpha": int(rng.choice([1, 3, 100])), "beta": int(rng.choice([0, 5]))}, [shape]
    m, n, k = (int(i) for i in rng.integers(1, 50, 3))
    stack = (int(rng.integers(1, 4)),) if rng.random() < 0.3 else ()
    return {"op": "matmul", "alpha": float(rng.choice([1, 1, 0.5, 8]))}, [(*stack, m, k), (*stack, k, n)]


def variants_of(operation, dtype):
    """Without the vendor's: CUB takes an extreme of NaNs for a number, and both want much memory."""
    name = operation.get("operator")
    return [
        variant.name
        for variant in harness.list_variants()
        if variant.op == operation["op"] and variant.runs_here and not variant.limit and variant.accuracy == "full"
        if variant.name not in ("cub", "cublas") and dtype in variant.dtypes and (name is None or name in variant.operators)
    ]


def depends_on_infinities(operation, operands, dtype):
    """For each element of the result: is an element that it depends on infinite?"""
    odd = [np.isinf(referee.widen(x, dtype)) if dtype in referee.FLOATS else np.zeros(x.shape, bool) for x in operands]
    if operation["op"] == "matmul":
        return odd[0].any(-1)[..., :, None] | odd[1].any(-2)[..., None, :]
    if operation["op"] == "scale":
        return odd[0]
    return odd[0].any(None if operation["axis"] == "all" else operation["axis"])


def write_inputs(folder, number, operands, dtype, inputs):
    names = [f"{'xz'[side]}{number}" for side in range(len(operands))]
    with h5py.File(folder / "in.h5", "a") as file:
        for name, x in zip(names, operands):
            referee.write_dataset(file, name, x, dtype)
            inputs[name] = {"file": "in.h5", "dataset": name}
    return names


# ---- counting ------------------------------------------------------------------------------------------------------


def draw_job(rng, folder):
    """Keys of a job; for each operation the type of its inputs and where they have infinities."""
    inputs, operations, known = {}, [], {}
    for number in range(4):
        dtype = str(rng.choice(referee.FLOATS))
        operation, shapes = draw_operation(rng, dtype)
        operands = [draw_values(rng, shape, dtype) for shape in shapes]
        name = f"y{number}"
        known[name] = dtype, depends_on_infinities(operation, operands, dtype)
        more = {"dtype": str(rng.choice(referee.FLOATS))} if rng.random() < 0.3 else {}
        names = write_inputs(folder, number, operands, dtype, inputs)
        operations.append({"id": name, "inputs": names, "variants": variants_of(operation, dtype), "repeat": 1,
                           "warmup": 0, "store": "all", "verify": "full", **operation, **more})  # fmt: skip
    memory = str(rng.choice(["64KiB", "128KiB", "1MiB", "100MiB"]))
    return {"inputs": inputs, "operations": operations, "memory": memory}, known


def check_counts(results, known, words):
    stored = results.everything()
    for row in results.rows:
        if row["status"] == "skipped":
            continue
        assert row["status"] == "ok", (words, row)
        name = row["operation"]
        path = f"variants/{name}/{row['variant']}" if f"variants/{name}/{row['variant']}" in stored else f"outputs/{name}"
        with h5py.File(results.path) as file:
            kind = referee.dataset_dtype(file[path])
        infinite = np.isinf(referee.widen(stored[path], kind))
        assert row["overflowed"] == np.count_nonzero(infinite & ~known[name][1]), (words, row)


@pytest.mark.parametrize("seed", cases())
def test_infinities_are_counted(folder, seed):
    rng = np.random.default_rng(seed)
    job, known = draw_job(rng, folder)
    results = harness.run_job(folder, **job)
    check_counts(results, known, json.dumps(job))
    harness.tilerun("run", folder / "job.yaml", "-o", folder / "results.h5", "--resume", expect=harness.OK)
    check_counts(harness.Results(folder / "results.h5"), known, json.dumps(job))


@pytest.mark.parametrize("seed", cases()[::3])
def test_shards_and_panels_count_the_same(folder, seed):
    rng = np.random.default_rng(seed)
    job, known = draw_job(rng, folder)
    harness.write_job(folder / "job.yaml", **job)
    count = int(rng.integers(2, 4))
    for index in range(count):
        shards.shard(folder, index, count, "--by", "tiles")
    shards.merge(folder)
    check_counts(harness.Results(folder / "out.h5"), known, json.dumps(job))


def test_what_is_said(folder):
    harness.write_arrays(folder / "in.h5", x=np.full((4, 100), 1000, "float16"), y=np.full((4, 100), 1e308))
    inputs = {name: {"file": "in.h5", "dataset": name} for name in "xy"}
    sum_of = {"op": "reduce", "operator": "sum", "axis": 1, "repeat": 1}
    operations = [{"id": f"{name}s", "inputs": [name], "variants": ["cpu", "blocked"], **sum_of} for name in "xy"]
    operations.append({"id": "zs", "op": "map", "inputs": ["x"], "expression": "1 / (x - 1000)"})
    harness.write_job(folder / "job.yaml", inputs=inputs, operations=operations)
    done = harness.tilerun("run", folder / "job.yaml", "-o", folder / "out.h5")
    said = [line.split(": ", 1)[1] for line in done.stderr.splitlines() if "overflow" in line]
    assert done.returncode == harness.OK and len(said) == 3, done.stderr
    assert said[0].startswith("result of 'xs': 4 of 4 elements overflowed float16") and "dtype: float32" in said[0]
    assert said[1].startswith("result of 'ys': 4 of 4 elements overflowed float64") and "dtype" not in said[1]
    assert said[2].startswith("result of 'zs': 400 of 400 elements are infinite by the expression itself")


# ---- computing in a wider type -------------------------------------------------------------------------------------


def truth(operation, operands, dtype):
    """In long double, and the sum of the sizes of what is added."""
    wide = [np.asarray(referee.widen(x, dtype)).astype(np.longdouble) for x in operands]
    with np.errstate(all="ignore"):
        if operation["op"] == "matmul":
            alpha = np.longdouble(operation["alpha"])
            return alpha * (wide[0] @ wide[1]), abs(alpha) * (np.abs(wide[0]) @ np.abs(wide[1]))
        if operation["op"] == "scale":
            value = operation["alpha"] * wide[0] + operation["beta"]
            return value, np.abs(operation["alpha"] * wide[0]) + operation["beta"]
        axis = None if operation["axis"] == "all" else operation["axis"]
        x, operator = wide[0], operation["operator"]
        if operator == "norm2":
            value = np.sqrt((x * x).sum(axis))
            return value, value
        value = getattr(np, operator)(x, axis=axis)
        if operator in ("sum", "mean"):
            return value, getattr(np, operator)(np.abs(x), axis=axis)
        return value, np.abs(value)


def right_is_a_product(operations, name):
    return any(it["id"] == name and it["op"] == "matmul" for it in operations)


@pytest.mark.parametrize("seed", cases())
def test_a_wider_type_is_computed_in(folder, seed):
    """Once rounded: where the result of the inputs' own type overflows, wraps around or loses bits it does not."""
    rng = np.random.default_rng(seed)
    inputs, operations, right = {}, [], {}
    for number in range(6):
        dtype = str(rng.choice(["float16", "float16", *(name for name in referee.DTYPES if name != "float64")]))
        to = "float64" if dtype == "float32" else str(rng.choice(["float32", "float64"]))
        operation, shapes = draw_operation(rng, "float32" if rng.random() < 0.7 else dtype)
        operands = [draw_values(rng, shape, dtype) for shape in shapes]
        right[f"y{number}"] = truth(operation, operands, dtype), dtype, to
        names = write_inputs(folder, number, operands, dtype, inputs)
        types = [to, "float64"] + ([dtype] if operation["op"] == "reduce" else [])
        variants = set.intersection(*(set(variants_of(operation, name)) for name in types))
        operations.append({"id": f"y{number}", "inputs": names, "dtype": to, "repeat": 1, "warmup": 0, "store": "all",
                           "variants": sorted(variants), **operation})  # fmt: skip
    results = harness.run_job(folder, inputs=inputs, operations=operations)
    for path, stored in results.everything().items():
        name = path.split("/")[1]
        (value, size), dtype, to = right[name]
        assert stored.dtype == to, (seed, path)
        value, size = np.asarray(value), np.asarray(size)
        with np.errstate(all="ignore"):
            rounded = value.astype(to)
            near = np.abs(stored - value) <= 60 * np.finfo(to).eps * size + 4 * np.finfo(to).tiny
        same = (stored == rounded) | (np.isnan(stored) & np.isnan(rounded)) | (near & np.isfinite(stored))
        edge = np.abs(size) > np.finfo(to).max / 4  # the accumulator's own business, beside infinite inputs, too
        edge &= np.isfinite(value) | (right_is_a_product(operations, name))
        wrong = np.argwhere(~(same | edge))
        assert len(wrong) == 0, (seed, path, dtype, to, stored[tuple(wrong[0])], value[tuple(wrong[0])], operations)
    bad = [row for row in results.rows if row["status"] not in ("ok", "skipped")]
    assert not bad, [(row["variant"], row["message"]) for row in bad]


def test_a_variant_without_the_wider_type_computes_in_its_own(folder, monkeypatch):
    """float64 is more than such a variant has: nothing is refused that was not refused before."""
    harness.write_arrays(folder / "in.h5", a=np.full((8, 8), 1e30, "float32"))
    named = {"op": "matmul", "inputs": ["a", "a"], "dtype": "float64", "repeat": 1}
    found = [v for v in harness.list_variants() if v.op == "matmul" and v.runs_here and "float64" not in v.dtypes]
    names = [v.name for v in found if "float32" in v.dtypes and v.accuracy == "full"]
    if not names:
        pytest.skip("every variant here takes float64")
    operations = [{"id": "own", "variants": names, **named}, {"id": "wide", **named}]
    results = harness.run_job(folder, inputs={"a": {"file": "in.h5", "dataset": "a"}}, operations=operations)
    assert np.isinf(results.output("own")).all() and results.row("own", names[0])["overflowed"] == 64
    assert (results.output("wide") == 8 * np.float64(np.float32(1e30)) ** 2).all()


def test_a_reduction_of_which_all_is_nan(folder):
    """Once an operation, and only where `skip_nan` would help."""
    harness.write_arrays(folder / "x.h5", x=np.where(np.arange(12) == 3, np.nan, np.ones((5, 12))).astype("f4"))
    reduce = {"op": "reduce", "inputs": ["x"], "axis": 1}
    operations = [
        reduce | {"id": "greatest", "operator": "max", "variants": ["cpu", "blocked"]},
        reduce | {"id": "columns", "operator": "sum", "axis": 0},
        reduce | {"id": "skipped", "operator": "mean", "skip_nan": True},
        reduce | {"id": "none_left", "operator": "var", "ddof": 12},
    ]
    job = {"inputs": {"x": {"file": "x.h5", "dataset": "/x"}}, "operations": operations, "device": "cpu"}
    harness.write_job(folder / "job.yaml", **job)
    done = harness.tilerun("run", folder / "job.yaml", "-o", folder / "out.h5", expect=harness.OK)
    words = "tilerun: result of 'greatest': 5 of 5 results are NaN; `skip_nan: true` leaves missing values out\n"
    assert words in done.stderr and done.stderr.count("NaN") == 1
