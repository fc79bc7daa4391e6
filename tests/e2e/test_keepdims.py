"""`keepdims: true` of a reduction: its shapes and values are NumPy's, and a map broadcasts the result over the input."""

import itertools

import h5py
import numpy as np
import pytest

import harness
from shards import merge, shard


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("memory", ["64KiB", "1GiB"])
def test_every_axis_of_three(tmp_path, rng, device, memory):
    x = rng.standard_normal((13, 40, 21))
    harness.write_arrays(tmp_path / "data.h5", x=x)
    operations, right = [], {}
    for axes in (axes for count in (1, 2) for axes in itertools.combinations(range(3), count)):
        id = "m" + "".join(map(str, axes))
        given = axes[0] - 3 if len(axes) == 1 else list(axes)
        operations.append({"id": id, "op": "reduce", "inputs": ["x"], "operator": "max", "axis": given, "keepdims": True})
        operations.append({"id": "share_" + id, "op": "map", "inputs": ["x", id], "expression": f"x / {id}"})
        right[id] = x.max(axes, keepdims=True)
        right["share_" + id] = x / right[id]
    spread = {"id": "spread", "op": "reduce", "inputs": ["x", "m12"], "map": "(x - m12) * i0", "operator": "min"}
    operations.append(spread | {"axis": [0, 2], "keepdims": True})
    right["spread"] = ((x - right["m12"]) * np.arange(13)[:, None, None]).min((0, 2), keepdims=True)
    job = {"inputs": {"x": {"file": "data.h5", "dataset": "/x"}}, "operations": operations}
    results = harness.run_job(tmp_path, device=device, memory=memory, **job)
    for id, values in right.items():
        np.testing.assert_array_equal(results.output(id), values, id)


def test_shards_scales_and_mistakes(tmp_path, rng):
    """A kept axis has no scale and no label; a panel of a result of shards has its place among the axes."""
    x = rng.standard_normal((300, 70)).astype("float32")
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["x"], file["t"] = x, np.arange(300.0)
        file["t"].make_scale("t")
        file["x"].dims[0].attach_scale(file["t"])
        file["x"].dims[1].label = "column"
    reduce = {"op": "reduce", "inputs": ["x"], "operator": "min", "keepdims": True, "variants": ["cpu"]}
    operations = [reduce | {"id": "rows", "axis": 1}, reduce | {"id": "columns", "axis": 0}]
    inputs = {"x": {"file": "data.h5", "dataset": "/x"}}
    harness.write_job(tmp_path / "job.yaml", inputs=inputs, operations=operations)
    for number in range(4):
        shard(tmp_path, number, 4, "--by", "tiles")
    merge(tmp_path)
    with h5py.File(tmp_path / "out.h5") as file:
        rows, columns = file["outputs/rows"], file["outputs/columns"]
        np.testing.assert_array_equal(rows[()], x.min(1, keepdims=True))
        np.testing.assert_array_equal(columns[()], x.min(0, keepdims=True))
        np.testing.assert_array_equal(rows.dims[0][0][()], np.arange(300.0))
        assert [rows.dims[1].label, columns.dims[0].label, columns.dims[1].label] == ["", "", "column"]
    wrong = harness.write_job(tmp_path / "wrong.yaml", inputs=inputs, operations=[reduce | {"id": "y", "axis": "all"}])
    done = harness.tilerun("check", wrong)
    assert done.returncode == harness.USAGE and "it is broadcast as it is" in done.stderr, done.stderr
