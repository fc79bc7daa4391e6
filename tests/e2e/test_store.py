"""What must hold of the units of a job, however it was divided, submitted and interrupted: none that is done is lost or
hidden, each that is missing is named, and its columns are those of one process. (A result that is gone:
test_results_gone.py. Filters of parts: test_fresh_process.py.)"""

import fcntl
import json
import os
import signal
import socket
import subprocess
import time

import h5py
import numpy as np
import pytest

import harness
from harness import INTERRUPTED, IO, OK, RUN, USAGE
from shards import arguments, bits, merge, plain_environment, plain_results, shard


def products(folder, count=1, **more):
    """Products of one shape, which shards divide into panels where they are fewer."""
    return harness.write_job(
        folder / "job.yaml",
        device="cpu",
        inputs={"a": {"random": {"shape": [96, 96], "low": -1, "seed": 1}}},
        defaults={"warmup": 0, "repeat": 2},
        operations=[{"id": f"p{n}", "op": "matmul", "inputs": ["a", "a"], "variants": ["cpu"], **more} for n in range(count)],
    )


def finished(folder):
    """Every part, and its bytes."""
    return {path.name: path.read_bytes() for path in (folder / "out.h5.parts").rglob("?" * 32 + ".h5")}


# ---- 5: columns -----------------------------------------------------------------------------------------------------

SAME = "operation op variant parameters device dtype shape status repeats flops bytes tolerance overflowed wrapped truncated threads".split()


@pytest.mark.parametrize("way", ["shards", "panels of one process", "interrupted"])
def test_columns_do_not_depend_on_the_division(folder, way):
    """Nor does what conversions lose: an input that all panels read is counted once."""
    with h5py.File(folder / "in.h5", "w") as file:
        file["a"] = np.where(np.arange(96 * 96).reshape(96, 96) % 7, 1.5, 1e9)
        file["b"] = np.where(np.arange(96 * 96).reshape(96, 96) % 5, 2.25, 1e7)
    inputs = {name: {"file": "in.h5", "dataset": name, "dtype": "float16"} for name in "ab"}
    inputs["c"] = {"file": "in.h5", "dataset": "b", "dtype": "int16"}
    operations = [
        {"id": "product", "op": "matmul", "inputs": ["a", "b"], "variants": ["cpu"], "verify": "full"},
        {"id": "flipped", "op": "transpose", "inputs": ["c"], "variants": ["cpu", "blocked"], "dtype": "int8"},
    ]
    for operation in operations:
        operation["keep_tiles"] = "always" if way == "panels of one process" else "never"
    harness.write_job(
        folder / "job.yaml", device="cpu", inputs=inputs, operations=operations, defaults={"warmup": 0, "repeat": 3}
    )
    if way == "shards":
        for index in range(3):
            shard(folder, index, 3, "--by", "tiles")
        merge(folder)
    elif way == "interrupted":
        process = harness.start("run", folder / "job.yaml", "-o", folder / "out.h5", "--progress", "plain")
        while ": ok" not in process.stderr.readline():
            assert process.poll() is None
        process.kill()
        process.communicate()
        assert harness.tilerun("run", folder / "job.yaml", "-o", folder / "out.h5", "--resume").returncode == OK
    else:
        assert harness.tilerun("run", folder / "job.yaml", "-o", folder / "out.h5").returncode == OK
    if way == "panels of one process":
        with h5py.File(folder / "out.h5") as file:
            assert len(file["panels"]) > 3
    harness.write_job(
        folder / "job.yaml",
        device="cpu",
        inputs=inputs,
        operations=[operation | {"keep_tiles": "never"} for operation in operations],
        defaults={"warmup": 0, "repeat": 3},
    )
    expected, found = harness.Results(plain_results(folder)).rows, harness.Results(folder / "out.h5").rows
    assert sum(row["overflowed"] + row["wrapped"] + row["truncated"] for row in expected) > 0
    for one, other in zip(found, expected, strict=True):
        assert {name: one[name] for name in SAME} == {name: other[name] for name in SAME}
