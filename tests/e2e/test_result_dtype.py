"""Results stored as another type: `dtype` of an operation. What is stored is NumPy's astype of the right result, what
it loses is counted and said, and operations that read it read it in the new type.

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
from test_views import LAYOUTS, TYPES, cast, create, draw_shape, draw_values, memory_of, same_values

SEED = int(os.environ.get("TILERUN_SEED", 0))
CASES = int(os.environ.get("TILERUN_CASES", 40))
CHOSEN = os.environ.get("TILERUN_CASE")
PER_JOB = 5


def cases():
    if CHOSEN is not None:
        return [int(CHOSEN)]
    return [SEED * 100000 + job for job in range(max(1, CASES // PER_JOB))]


# ---- operations whose results are exact in the type that they are computed in --------------------------------------


def small(rng, shape, dtype):
    return rng.integers(0 if dtype.startswith("u") else -8, 9, shape).astype(dtype)


def draw_transpose(rng):
    shape, dtype = draw_shape(rng), str(rng.choice(TYPES))
    x = draw_values(rng, shape if len(shape) > 1 else (*shape, 3), dtype)
    return {"op": "transpose"}, [x], x.swapaxes(-1, -2)


def draw_scale(rng):
    dtype, alpha = str(rng.choice(["float16", "float32", "float64"])), float(rng.choice([0.25, -0.5, 3, 40, 8000]))
    x = small(rng, draw_shape(rng), dtype)
    with np.errstate(over="ignore"):
        return {"op": "scale", "alpha": alpha}, [x], (x.astype("float64") * alpha + 0.0).astype(dtype)


def draw_reduce(rng):
    dtype = str(rng.choice(["float32", "float64", "int8", "int16", "uint8", "uint32", "int64"]))
    x = small(rng, draw_shape(rng), dtype)
    axis = "all" if rng.random() < 0.3 else int(rng.integers(x.ndim))
    operator = str(rng.choice(["sum", "sum", "max", "argmax"])) if x.size else "sum"
    right = getattr(np, operator)(x, axis=None if axis == "all" else axis)
    if operator == "sum" and dtype in referee.FLOATS:
        right = right.astype(dtype)
    return {"op": "reduce", "operator": operator, "axis": axis}, [x], np.asarray(right)


def draw_product(rng):
    m, n, k = (int(i) for i in rng.integers(1, 90, 3))
    dtype, alpha = str(rng.choice(["float32", "float64"])), float(rng.choice([1, 0.125, 1000]))
    stack = (int(rng.integers(1, 4)),) if rng.random() < 0.3 else ()
    a, b = small(rng, (*stack, m, k), dtype), small(rng, (*stack, k, n), dtype)
    return {"op": "matmul", "alpha": alpha}, [a, b], a @ b * np.array(alpha, dtype) + np.array(0, dtype)


DRAWS = [draw_transpose, draw_scale, draw_reduce, draw_product]


def draw_storage(rng, shape):
    storage = {}
    if shape and np.prod(shape) and rng.random() < 0.5:
        storage["chunks"] = [int(rng.integers(max(1, size // 8), size + 1)) for size in shape]
        storage["compression"] = str(rng.choice(["none", "gzip", "lzf"]))
        storage["shuffle"] = bool(rng.random() < 0.5)
    if rng.random() < 0.4:
        storage["checksum"] = "none"
    return storage


def read_as(rng, name, values, to):
    """An operation that reads the result, and what it must give."""
    if values.ndim < 2 or rng.random() < 0.3:
        return None
    operation = {"id": f"{name}t", "op": "transpose", "inputs": [name], "repeat": 1, "warmup": 0}
    return operation, (values.swapaxes(-1, -2), to)


def draw_job(rng, folder):
    """Keys of a job; by operation what is lost, the values and their type."""
    inputs, operations, expected, losses = {}, [], {}, {}
    with h5py.File(folder / "data.h5", "w") as file:
        for number in range(PER_JOB):
            operation, operands, right = DRAWS[int(rng.integers(len(DRAWS)))](rng)
            name, to = f"y{number}", str(rng.choice(referee.DTYPES))
            names = [f"{'xz'[side]}{number}" for side in range(len(operands))]
            for key, x in zip(names, operands):
                create(rng, file, key, x, str(rng.choice(LAYOUTS)))
                inputs[key] = {"file": "data.h5", "dataset": key}
            rows = np.atleast_1d(right)
            values, losses[name] = cast(rows, to) if str(right.dtype) != to else (rows, (0, 0, 0))
            values = values.reshape(right.shape)
            expected[name] = (values, to)
            how = str(rng.choice(["auto", "full", "sampled"]))
            operations.append({"id": name, "inputs": names, "dtype": to, "repeat": 1, "warmup": 0, "verify": how,
                               **operation, **draw_storage(rng, right.shape)})  # fmt: skip
            if more := read_as(rng, name, values, to):
                operations.append(more[0])
                expected[more[0]["id"]] = more[1]
    keys = {"inputs": inputs, "operations": operations, "memory": str(memory_of(rng))}
    return keys, expected, losses


def check_results(results, expected, losses, words):
    for name, (values, to) in expected.items():
        with h5py.File(results.path) as file:
            dataset = file["outputs"][name]
            assert referee.dataset_dtype(dataset) == to, (name, words)
            assert dataset.shape == values.shape, (name, words)
        same_values(results.output(name), values, to, f"{name} {words}")
        row = results.row(name)
        assert row["status"] == "ok"
        if name in losses:
            assert (row["overflowed"], row["wrapped"], row["truncated"]) == losses[name], (name, words)


@pytest.mark.parametrize("seed", cases())
def test_drawn(folder, seed):
    rng = np.random.default_rng(seed)
    job, expected, losses = draw_job(rng, folder)
    check_results(harness.run_job(folder, **job), expected, losses, str(job))


@pytest.mark.parametrize("seed", cases()[::4])
def test_drawn_by_shards(folder, seed):
    """In panels where that can be; put together by copying, or linked."""
    rng = np.random.default_rng(seed)
    job, expected, losses = draw_job(rng, folder)
    harness.write_job(folder / "job.yaml", **job)
    count = int(rng.integers(2, 4))
    for index in range(count):
        shards.shard(folder, index, count, "--by", "tiles")
    shards.merge(folder, *(["--link"] if rng.random() < 0.5 else []))
    check_results(harness.Results(folder / "out.h5"), expected, losses, str(job))


# ---- results that are rounded --------------------------------------------------------------------------------------


@pytest.mark.parametrize("to", referee.DTYPES)
@pytest.mark.parametrize("verify", ["full", "sampled"])
def test_rounded_products(folder, rng, to, verify):
    """Right within the tolerance, and the rounding or cutting that comes after it; computed in a wider type."""
    a, b = (rng.normal(size=(150, 150)) * 30 for _ in range(2))
    with h5py.File(folder / "data.h5", "w") as file:
        file["a"], file["b"] = a.astype("float32"), b.astype("float32")
    results = harness.run_job(
        folder,
        inputs={name: {"file": "data.h5", "dataset": name} for name in "ab"},
        operations=[
            {"id": name, "op": "matmul", "inputs": ["a", "b"], "repeat": 1, "verify": verify, **more}
            for name, more in (("c", {}), ("d", {"dtype": to}))
        ],
    )
    row = results.row("d")
    assert row["status"] == "ok" and row["error"] <= row["tolerance"]
    if to == "float64":
        value, bound = referee.matmul(a.astype("float32").astype(to), b.astype("float32").astype(to), to)
        assert not referee.difference(results.output("d"), to, value, bound)
        return
    values, losses = cast(results.output("c"), to) if to != "float32" else (results.output("c"), (0, 0, 0))
    same_values(results.output("d"), values, to, to)
    assert (row["overflowed"], row["wrapped"], row["truncated"]) == losses


# ---- the rest ------------------------------------------------------------------------------------------------------


def write_job(folder, **operation):
    with h5py.File(folder / "data.h5", "w") as file:
        file.create_dataset("x", data=np.full((64, 64), 1e6, "float32")).attrs["units"] = "counts"
    return harness.write_job(
        folder / "job.yaml",
        inputs={"x": {"file": "data.h5", "dataset": "x"}},
        operations=[{"id": "y", "op": "scale", "inputs": ["x"], "repeat": 1, **operation}],
    )


def test_losses_are_said_once(folder):
    names = [variant.name for variant in harness.list_variants() if variant.op == "scale" and variant.on_cpu]
    job = write_job(folder, dtype="float16", variants=names)
    done = harness.tilerun("run", job, "-o", folder / "out.h5", expect=harness.OK)
    said = [line for line in done.stderr.splitlines() if "result of" in line]
    assert [line.split(": ", 2)[2] for line in said] == ["4096 of 4096 elements overflowed float16"], said
    with h5py.File(folder / "out.h5") as file:
        assert file["outputs/y"].dtype == np.float16 and file["outputs/y"].attrs["units"] in ("counts", b"counts")
        assert np.isinf(file["outputs/y"][()]).all()


def test_nothing_is_said_of_no_loss(folder):
    done = harness.tilerun("run", write_job(folder, dtype="int32"), "-o", folder / "out.h5")
    assert done.returncode == harness.OK and "elements" not in done.stderr, done.stderr


def test_a_file_of_its_own(folder):
    job = write_job(folder, dtype="int32", to="own.h5:/group/y", chunks=[16, 16], compression="gzip")
    assert harness.tilerun("run", job, "-o", folder / "out.h5").returncode == harness.OK
    with h5py.File(folder / "own.h5") as file, h5py.File(folder / "out.h5") as out:
        assert file["group/y"].dtype == np.int32 and file["group/y"].chunks == (16, 16)
        assert (file["group/y"][()] == 10**6).all() and (out["outputs/y"][()] == 10**6).all()


def test_resume_knows_the_type(folder):
    """With another type the operation is done again; with the same it is kept."""
    job = write_job(folder, dtype="int32")
    run = ["run", job, "-o", folder / "out.h5"]
    assert harness.tilerun(*run).returncode == harness.OK
    harness.tilerun(*run, "--resume", expect=harness.OK)
    write_job(folder, dtype="int64")
    assert harness.tilerun(*run, "--resume").returncode == harness.USAGE
    harness.tilerun(*run, "--overwrite", expect=harness.OK)
    with h5py.File(folder / "out.h5") as file:
        assert file["outputs/y"].dtype == np.int64


def test_swept(folder):
    write_job(folder)
    results = harness.run_job(
        folder,
        parameters={"to": ["float64", "uint8"]},
        inputs={"x": {"file": "data.h5", "dataset": "x"}},
        operations=[{"id": "y", "op": "scale", "inputs": ["x"], "repeat": 1, "dtype": "$to"}],
    )
    assert (results.output("to=float64/y") == 1e6).all()
    assert (results.output("to=uint8/y") == 10**6 % 256).all()
    assert results.row("y", parameters="to=uint8")["wrapped"] == 4096


def test_compared_and_reproduced(folder):
    job = write_job(folder, dtype="float16", alpha=1e-3)
    for name in ("one.h5", "two.h5"):
        assert harness.tilerun("run", job, "-o", folder / name).returncode == harness.OK
    harness.tilerun("compare", folder / "one.h5", folder / "two.h5", expect=harness.OK)
    harness.tilerun("reproduce", folder / "one.h5", "-o", folder / "three.h5", expect=harness.OK)
    with h5py.File(folder / "three.h5") as file:
        assert file["outputs/y"].dtype == np.float16 and (file["outputs/y"][()] == 1000).all()


def test_the_plan_says_what_is_written(folder):
    """In the type that is stored; what is read as another type counts as it lies in the file."""
    for more, bytes_written in (({}, 4), ({"dtype": "int8"}, 1), ({"dtype": "float64"}, 8)):
        done = harness.tilerun("plan", write_job(folder, **more), "--shards", 1, "--json", expect=harness.OK)
        division = json.loads(done.stdout)
        assert (division["write_bytes"], division["read_bytes"]) == (64 * 64 * bytes_written, 64 * 64 * 4)
