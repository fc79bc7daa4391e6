"""On the CPU `auto` is never slower than the plain loop `cpu`: drawn shapes, types and operators, by one thread and
several. What others on the machine disturbed, as the program finds, is not judged."""

import os
import random

import h5py
import pytest

import harness

SEED = int(os.environ.get("TILERUN_SEED", 1))
CASES = int(os.environ.get("TILERUN_CASES", 30))
MARGIN = 0.6  # of `cpu`'s rate, by the least times: memory pages that share cache sets cost up to a third
REDUCTIONS = ["sum", "max", "var", "std", "mean", "norm2", "argmin", "prod", "min"]


def draw(rng, number):
    """An operation with its inputs, of 2,000 to two million elements, often with a side of a few."""
    size = rng.choice([2e3, 2e4, 2e5, 2e6])
    rows = max(1, round(size ** rng.uniform(0, 1)))
    columns = max(1, int(size / rows))
    dtype = rng.choice(["float32", "float64", "float16", "int8", "int32"])
    values = {"low": -1} if dtype.startswith("f") else {"distribution": "integer", "low": 0, "high": 99}
    inputs = {f"a{number}": {"random": {"shape": [rows, columns], "dtype": dtype, **values}}}
    operation = {"id": f"o{number}", "inputs": [f"a{number}"], "variants": ["cpu", "auto"]}
    kind = rng.choice(["transpose", "reduce", "reduce", "matmul"])
    if kind == "reduce":
        operation |= {"op": kind, "operator": rng.choice(REDUCTIONS), "axis": rng.choice([0, 1, "all"])}
    elif kind == "matmul" and dtype.startswith("f"):
        width = max(1, min(int(2 ** rng.uniform(0, 7)), int(3e7 / (rows * columns))))
        inputs[f"b{number}"] = {"random": {"shape": [columns, width], "dtype": dtype, **values}}
        operation |= {"op": kind, "inputs": [f"a{number}", f"b{number}"]}
    else:
        operation["op"] = "transpose"
    return operation, inputs


@pytest.mark.timings
@pytest.mark.parametrize("threads", sorted({1, 2, len(os.sched_getaffinity(0))}))
def test_auto_beside_the_plain_loop(tmp_path, threads):
    rng = random.Random(SEED)
    operations, inputs = [], {}
    for number in range(CASES):
        operation, more = draw(rng, number)
        operations.append(operation)
        inputs |= more
    defaults = {"warmup": 2, "repeat": {"min": 15, "max": 60}, "verify": "none", "store": "none"}
    job = harness.write_job(tmp_path / "job.yaml", operations=operations, inputs=inputs, defaults=defaults)
    slower = {}
    for _ in range(5):  # what is slower is timed again, in other pages of memory
        only = ["--only", ",".join(slower)] if slower else []
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "TILERUN_LOAD": ""}
        harness.tilerun("run", job, "-o", tmp_path / "out.h5", "--overwrite", *only, env=environment, expect=harness.OK)
        with h5py.File(tmp_path / "out.h5") as file:
            rows = [(row["operation"].decode(), row["kernel_min_s"], row["shape"], row["flags"]) for row in file["runs"]]
        pairs = [(cpu, auto) for cpu, auto in zip(rows[::2], rows[1::2]) if b"busy" not in cpu[3] + auto[3]]
        slower = {cpu[0]: (cpu, auto) for cpu, auto in pairs if cpu[1] < MARGIN * auto[1] - 1e-6}
        if not slower:
            break
    assert not slower, f"TILERUN_SEED={SEED}: {slower}"
