"""What tests of `to` share: a job whose results lie in files of their own, and what it must leave."""

import os

import h5py
import numpy as np

import harness


def leftovers(folder):
    return [name for _, _, files in os.walk(folder) for name in files if name.endswith(".tmp") or ".parts" in name]


def simple(folder, rows=64, **more):
    """A copy of an input of its own, and its sum, in one file."""
    harness.write_arrays(folder / "in.h5", x=np.arange(rows * 1024.0).reshape(rows, 1024))
    operations = [
        {"id": "twice", "op": "scale", "inputs": ["x"], "alpha": 2, "to": "made.h5:/g/twice", **more},
        {"id": "sum", "op": "reduce", "inputs": ["twice"], "operator": "sum", "axis": 1, "to": "made.h5:/sum"},
        {"id": "inside", "op": "scale", "inputs": ["x"], "alpha": 3},
    ]
    return harness.write_job(
        folder / "job.yaml",
        device="cpu",
        inputs={"x": {"file": "in.h5", "dataset": "x"}},
        defaults={"warmup": 0, "repeat": 1},
        operations=operations,
    )


def edit(path, deed):
    job = harness.json.loads(path.read_text())
    deed(job)
    path.write_text(harness.json.dumps(job))


def assert_good(folder, rows=64, made="made.h5"):
    expected = np.arange(rows * 1024.0).reshape(rows, 1024)
    with h5py.File(folder / "out.h5") as file, h5py.File(folder / made) as other:
        assert file.attrs["status"] == "complete"
        np.testing.assert_array_equal(file["outputs/twice"][()], 2 * expected)
        np.testing.assert_array_equal(other["g/twice"][()], 2 * expected)
        np.testing.assert_array_equal(other["sum"][()], 2 * expected.sum(1))
        np.testing.assert_array_equal(file["outputs/inside"][()], 3 * expected)
    assert not leftovers(folder)
