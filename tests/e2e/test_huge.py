"""More than 2^31 elements, within 64 MiB: every count, position and offset needs 64 bits. Closed forms are the referee.

On the CPU, where the plan, the stream, the generator and the file are the same as beside a GPU."""

import shutil

import h5py
import numpy as np
import pytest

import harness

BEYOND = 2**31
MEMORY = ["--memory", "64MiB", "--device", "cpu"]
ONCE = {"warmup": 0, "repeat": 1, "verify": "none", "checksum": "none"}
GIB = 2**30


def test_reduce(folder):
    """Element i of an int8 is i mod 256 less 256 from 128 on: 256 in a row sum to -128. Float32 rounds i to 24 bits."""
    results = harness.run_job(
        folder,
        arguments=MEMORY,
        inputs={
            "bytes": {"random": {"shape": [BEYOND + 5], "dtype": "int8", "distribution": "index"}},
            "floats": {"random": {"shape": [BEYOND + 2000], "dtype": "float32", "distribution": "index"}},
        },
        defaults=ONCE,
        operations=[
            {"id": "total", "op": "reduce", "inputs": ["bytes"], "operator": "sum", "axis": "all"},
            {"id": "last", "op": "reduce", "inputs": ["floats"], "operator": "argmax", "axis": "all"},
        ],
    )
    assert results.output("total") == BEYOND // 256 * -128 + (0 + 1 + 2 + 3 + 4)
    assert results.output("last") == BEYOND + 2048 - 128  # the first that is rounded to the largest


def test_transpose(folder):
    if shutil.disk_usage(folder).free < 6 * GIB:
        pytest.skip("less than 6 GiB for the results")
    rows, columns = 3, BEYOND // 3 + 1000
    results = harness.run_job(
        folder,
        arguments=MEMORY,
        sync=False,
        inputs={"x": {"random": {"shape": [rows, columns], "dtype": "uint8", "distribution": "index"}}},
        defaults=ONCE,
        operations=[{"id": "y", "op": "transpose", "inputs": ["x"]}],
    )
    with h5py.File(results.path) as file:
        y = file["outputs/y"]
        assert y.shape == (columns, rows) and y.size > BEYOND
        step = 1 << 22  # a multiple of 256, with which values begin anew
        counting = np.arange(step).astype(np.uint8)[:, None]
        expected = counting + np.array([row * columns % 256 for row in range(rows)], np.uint8)
        for start in range(0, columns, step):
            part = y[start : start + step]
            assert np.array_equal(part, expected[: len(part)]), start
