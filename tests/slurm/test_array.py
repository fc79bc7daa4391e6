"""array.sbatch and merge.sbatch: the shards of one job on two nodes, some of which get lost."""

import re
from pathlib import Path

import h5py
import numpy as np
import pytest

from slurm import CLUSTER, SCRIPTS, assert_same, kernel_seconds, shards

ARRAY = "--output=%A_%a.out"
WHOLE = ("--by", "runs")  # else a long operation beside a short one is divided into panels
SECONDS = 5  # of kernels, in which something else is sure to happen


def six_operations(cluster, name):
    """Six operations that need nothing of each other: so many shards can each have some."""
    kinds = [
        {"op": "transpose", "inputs": ["a"], "variants": ["cpu", "blocked"]},
        {"op": "scale", "inputs": ["a"], "alpha": 3, "variants": ["cpu"]},
        {"op": "matmul", "inputs": ["a", "a"], "variants": ["cpu"]},
        {"op": "reduce", "inputs": ["a"], "operator": "sum", "axis": 0, "variants": ["cpu"]},
        {"op": "reduce", "inputs": ["b"], "operator": "max", "axis": 1, "variants": ["cpu"]},
        {"op": "transpose", "inputs": ["b"], "variants": ["cpu"]},
    ]
    return cluster.write_job(
        name,
        [{"id": f"o{i}", **kind} for i, kind in enumerate(kinds)],
        inputs={
            "a": {"random": {"shape": [200, 200], "low": -1}},
            "b": {"random": {"shape": [300, 40], "low": -1, "dtype": "int32", "distribution": "integer", "high": 99}},
        },
        defaults={"warmup": 0, "repeat": 20},
    )


def two_shards(cluster, name):
    """Two products in a shard each, of `first` and `second` samples; and what one process makes of them, by which
    `repeats` is some seconds of samples of either."""
    product = {"op": "matmul", "inputs": ["a", "a"], "variants": ["cpu"]}
    job = cluster.write_job(
        name,
        [{"id": id, **product, "repeat": f"${id}"} for id in ("first", "second")],
        parameters={"first": 1, "second": 1},
        inputs={"a": {"random": {"shape": [400, 400], "low": -1}}},
        defaults={"warmup": 0},
    )
    plain = cluster.plain(job, cluster.folder / f"{name}-plain.h5")
    return job, cluster.folder / f"{name}.h5", plain, int(np.ceil(SECONDS / (kernel_seconds(plain) / 2)))


def begun(output, shard):
    """Has it left its origin, as it does before its first run?"""
    return (output.parent / f"{output.name}.parts" / shard / "shard.h5").exists


def assert_in_order(log):
    """The lines of finished runs, then the table, then where the results are."""
    progress, table, last = (log.index(words) for words in ("\n[1/", "\noperation ", "\ntilerun: shard "))
    assert progress < table < last and "\n[" not in log[table:], log


def test_array_equals_one_process(cluster):
    job, output = six_operations(cluster, "six"), cluster.folder / "six.h5"
    array = cluster.submit("array.sbatch", job, "-o", output, options=("--array=0-5", ARRAY))
    merge = cluster.submit("merge.sbatch", output, options=[f"--dependency=afterany:{array}"])
    cluster.complete(merge)
    cluster.complete(array)
    assert_same(output, cluster.plain(job, cluster.folder / "six-plain.h5"))

    ran = shards(output)
    assert sorted(ran) == [f"{i}-of-6" for i in range(6)]
    tasks = cluster.tasks(array)
    for i in range(6):
        assert ran[f"{i}-of-6"]["slurm_job_nodelist"] == tasks[i]["NodeList"]
        assert ran[f"{i}-of-6"]["place"].endswith(f"job {array}_{i}")
    assert {facts["NodeList"] for facts in tasks.values()} == {"node0", "node1"}
    for i in range(6):
        log = Path(tasks[i]["StdOut"]).read_text()
        begins = rf"tilerun \S+ \(.*\), \d{{4}}-\S+Z, node \S+, job {array}_{i}, .* with \d+ cores?, shard {i} of 6\n"
        assert re.match(begins, log), log
        assert_in_order(log)
        assert ran[f"{i}-of-6"]["log"] == tasks[i]["StdOut"]


def test_killed_task_is_done_by_a_second_array(cluster):
    job, output, plain, repeats = two_shards(cluster, "killed")
    options = ("--array=0-1", ARRAY)
    more = (*WHOLE, "--set", f"first={100 * repeats}")
    array = cluster.submit("array.sbatch", job, "-o", output, *more, options=options)
    merge = cluster.submit("merge.sbatch", output, options=[f"--dependency=afterany:{array}"])
    cluster.until(begun(output, "shard-0-of-2"), array)
    cluster.until(lambda: cluster.tasks(array)[1]["JobState"] == "COMPLETED", array)
    cluster.call("scancel", "--signal=KILL", f"{array}_0")
    assert cluster.ends(array)[0] in ("FAILED", "CANCELLED")
    assert cluster.ends(merge) == "FAILED" and cluster.records(merge)[0]["ExitCode"] == "3:0"
    assert "shard 0 of 2 has 0 of 1 runs" in cluster.log(merge)
    assert not output.exists()

    cluster.complete(cluster.submit("array.sbatch", job, "-o", output, *WHOLE, options=options))
    cluster.complete(cluster.submit("merge.sbatch", output))
    assert_same(output, plain)


def test_shard_of_a_lost_node_is_named_and_done_elsewhere(cluster):
    job, output, plain, repeats = two_shards(cluster, "lost")
    options = ("--array=0-1", "--gpus-per-task=2", ARRAY)  # a node each
    array = cluster.submit("array.sbatch", job, "-o", output, *WHOLE, "--set", f"first={repeats}", options=options)
    cluster.until(begun(output, "shard-0-of-2"), array)
    node = cluster.tasks(array)[0]["NodeList"]
    cluster.call(CLUSTER, "lose", cluster.folder, node)
    try:
        cluster.until(lambda: cluster.tasks(array)[0]["JobState"] == "PENDING", array)
        cluster.until(lambda: cluster.tasks(array)[1]["JobState"] == "COMPLETED", array)
        merged = cluster.tilerun("merge", output)
        assert merged.returncode == 3, merged.stderr
        assert "shard 0 of 2 has 0 of 1 runs; it ran on node " in merged.stderr
        assert f", job {array}_0; first missing: 'first cpu'" in merged.stderr
        assert "shard 1 of 2" not in merged.stderr and not output.exists()

        cluster.release(f"{array}_0")
        cluster.complete(array)
        assert cluster.tasks(array)[0]["NodeList"] != node
    finally:
        cluster.call(CLUSTER, "mend", cluster.folder, node)
    cluster.complete(cluster.submit("merge.sbatch", output))
    assert_same(output, plain)


def test_second_array_into_the_same_output_is_refused(cluster):
    job, output, plain, repeats = two_shards(cluster, "twice")
    more = (*WHOLE, "--set", f"first={100 * repeats}", "--set", f"second={100 * repeats}")
    options = ("--array=0-1", ARRAY)
    array = cluster.submit("array.sbatch", job, "-o", output, *more, options=options)
    for shard in range(2):
        cluster.until(begun(output, f"shard-{shard}-of-2"), array)
    second = cluster.submit("array.sbatch", job, "-o", output, *more, options=options)
    assert cluster.ends(second) == ["FAILED", "FAILED"], cluster.story(second)
    assert {facts["ExitCode"] for facts in cluster.records(second)} == {"2:0"}
    for shard in range(2):
        assert f"another tilerun is running shard {shard} of 2" in cluster.log(second)
    assert [facts["JobState"] for facts in cluster.records(array)] == ["RUNNING", "RUNNING"]

    cluster.call("scancel", array)
    cluster.ends(array)
    cluster.idle()
    cluster.complete(cluster.submit("array.sbatch", job, "-o", output, *WHOLE, options=options))
    cluster.complete(cluster.submit("merge.sbatch", output))
    assert_same(output, plain)


def test_a_wrong_run_does_not_stop_the_merge(cluster):
    job, output = six_operations(cluster, "partly"), cluster.folder / "partly.h5"
    job.write_text(job.read_text().replace('"matmul",', '"matmul", "tolerance": 1e-30,'))
    array = cluster.submit("array.sbatch", job, "-o", output, options=("--array=0-5", ARRAY))
    merge = cluster.submit("merge.sbatch", output, options=[f"--dependency=afterany:{array}"])
    assert set(cluster.ends(array)) == {"COMPLETED", "FAILED"}, cluster.story(array)
    assert cluster.ends(merge) == "FAILED" and cluster.records(merge)[0]["ExitCode"] == "1:0", cluster.story(merge)
    with h5py.File(output) as file:
        assert {row["status"].decode() for row in file["runs"]} == {"ok", "wrong"}


@pytest.mark.parametrize("script, options, count", [("node", (), 2), ("node", ("--partition=cpu", "--ntasks=3"), 3), ("multinode", ("--ntasks-per-node=2",), 4)])
def test_ranks_are_shards(cluster, monkeypatch, script, options, count):
    """Also of a job that a task of an array has submitted, whose variables it inherits."""
    for name, value in {"JOB_ID": 1, "TASK_ID": 1, "TASK_MIN": 0, "TASK_COUNT": 2}.items():
        monkeypatch.setitem(cluster.environment, f"SLURM_ARRAY_{name}", str(value))
    name = f"{script}-{count}"
    job, output = six_operations(cluster, name), cluster.folder / f"{name}.h5"
    output.write_text("somebody's")
    cluster.idle()
    cluster.complete(cluster.submit(f"{script}.sbatch", job, output, "--overwrite", options=options))
    assert_same(output, cluster.plain(job, cluster.folder / f"{name}-plain.h5"))
    ran = shards(output)
    assert sorted(ran) == [f"{i}-of-{count}" for i in range(count)]
    for i in range(count):
        assert ran[f"{i}-of-{count}"]["slurm_procid"] == str(i)
    assert {where["slurm_nodeid"] for where in ran.values()} == ({"0"} if script == "node" else {"0", "1"})


def test_a_missing_input_stops_only_what_needs_it(cluster):
    """submit.sh finds it before anything waits. An array whose input is gone by then does the rest, and says so."""
    source, job = cluster.folder / "gone.h5", cluster.write_job(
        "absent",
        [
            {"id": "needs", "op": "transpose", "inputs": ["x"], "variants": ["cpu"]},
            *({"id": f"spared{i}", "op": "scale", "alpha": i, "inputs": ["a"], "variants": ["cpu"]} for i in range(3)),
        ],
        inputs={"x": {"file": "gone.h5", "dataset": "/x"}, "a": {"random": {"shape": [40, 30]}}},
    )
    output = cluster.folder / "absent.h5"
    refused = cluster.start(SCRIPTS / "submit.sh", job, "--array", 2, "-o", output)
    assert refused.returncode == 2 and "gone.h5" in refused.stderr and "is not submitted" in refused.stderr
    array = cluster.submit("array.sbatch", job, "-o", output, options=("--array=0-1", ARRAY))
    merge = cluster.submit("merge.sbatch", output, options=[f"--dependency=afterany:{array}"])
    assert cluster.ends(array) == ["FAILED", "FAILED"], cluster.story(array)
    assert {facts["ExitCode"] for facts in cluster.records(array)} == {"3:0"}
    assert "gone.h5" in cluster.log(f"{array}_0") and "gone.h5" in cluster.log(f"{array}_1")
    assert cluster.ends(merge) == "FAILED" and cluster.records(merge)[0]["ExitCode"] == "3:0"
    assert "gone.h5" in cluster.log(merge) and "--partial" in cluster.log(merge)
    with h5py.File(source, "w") as file:
        file["x"] = np.ones((30, 20), "f4")
    array = cluster.submit("array.sbatch", job, "-o", output, options=("--array=0-1", ARRAY))
    cluster.complete(array)
    assert cluster.log(array).count("kept from before") >= 3
    cluster.complete(cluster.submit("merge.sbatch", output))
    assert_same(output, cluster.plain(job, cluster.folder / "absent-plain.h5"))
