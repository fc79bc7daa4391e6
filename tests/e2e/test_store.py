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
        operations=[
            {"id": f"p{n}", "op": "matmul", "inputs": ["a", "a"], "variants": ["cpu"], **more} for n in range(count)
        ],
    )


def wait_for_lock(path):
    """Until another process has it."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        with open(path) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return
        time.sleep(0.005)
    raise AssertionError("nobody took the lock")


def wait_for_file(path):
    end = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < end
        time.sleep(0.01)


def finished(folder):
    """Every part, and its bytes."""
    return {path.name: path.read_bytes() for path in (folder / "out.h5.parts").rglob("?" * 32 + ".h5")}


# ---- 5: columns -----------------------------------------------------------------------------------------------------

SAME = "operation op variant parameters device dtype shape status repeats flops bytes tolerance".split()
SAME += "overflowed wrapped truncated threads".split()


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


# ---- 1: another number of shards ------------------------------------------------------------------------------------


def kept(done):
    return done.stderr.count("(kept from before)")


@pytest.mark.parametrize("by", ["runs", "tiles"])
@pytest.mark.parametrize("then", ["more shards", "fewer shards", "one task of an array", "one process"])
def test_units_are_reused_by_another_number_of_shards(folder, by, then):
    """Whatever number they were made under, none is done again."""
    products(folder, count=3)
    first = [shard(folder, index, 3, "--by", by) for index in (0, 2)]
    before = finished(folder)
    assert len(before) == (2 if by == "runs" else 6) and not any(map(kept, first))
    if then == "one process":
        done = harness.tilerun("run", folder / "job.yaml", "-o", folder / "out.h5", "--resume", "--progress", "plain")
        assert done.returncode == OK and kept(done) == len(before), done.stderr
    else:
        count = {"more shards": 4, "fewer shards": 2, "one task of an array": 1}[then]
        flags = ["--resume", "--progress", "plain"] + (["--by", by] if then == "more shards" else [])
        again = [shard(folder, index, count, *flags) for index in range(count)]
        assert sum(map(kept, again)) == len(before)
        assert finished(folder).items() >= before.items()
        merge(folder)
    assert bits(folder / "out.h5") == bits(plain_results(folder))


def test_a_part_of_an_array(folder):
    """Its numbers have gaps: nothing runs, and the reason is said."""
    products(folder, count=3)
    shard(folder, 0, 3)
    before = finished(folder)
    command = ["run", folder / "job.yaml", "-o", folder / "out.h5", "--shard", "auto", "--resume"]
    array = {"SLURM_ARRAY_TASK_MIN": "4", "SLURM_ARRAY_TASK_COUNT": "3"}
    for more in ({}, {"SLURM_ARRAY_TASK_MAX": "15"}, {"SLURM_ARRAY_TASK_MAX": "15", "SLURM_ARRAY_TASK_ID": "4"}):
        done = harness.tilerun(*command, env=plain_environment(**array | {"SLURM_ARRAY_TASK_ID": "15"} | more))
        assert done.returncode == USAGE and "shards are numbered without gaps" in done.stderr
        assert finished(folder) == before


# ---- 3: merge of what is there --------------------------------------------------------------------------------------


@pytest.mark.parametrize("link", [(), ("--link",)], ids=["copied", "linked"])
@pytest.mark.parametrize("by", ["runs", "tiles"])
def test_merge_partial(folder, by, link):
    """What is missing is named by shard, and what is there is published; the shards go on, and merge joins the rest."""
    products(folder, count=3)
    shard(folder, 0, 3, "--by", by), shard(folder, 1, 3, "--by", by)
    said = merge(folder, *link, expect=IO).stderr
    assert "shard 2 of 3 has 0 of " in said and "it has not begun" in said and "--partial" in said
    assert not (folder / "out.h5").exists()
    before = finished(folder)
    said = merge(folder, "--partial", *link).stderr
    assert "shard 2 of 3 has 0 of " in said and finished(folder) == before
    rows = harness.Results(folder / "out.h5").rows
    with h5py.File(folder / "out.h5") as file:
        assert file.attrs["status"] == "partial"
        done = [row["operation"] for row in rows if row["status"] == "ok"]
        assert sorted(file["outputs"]) == sorted(done) and len(done) == (2 if by == "runs" else 0)
        assert {row["status"] for row in rows} - {"ok"} == {"interrupted"}
    assert "then run `tilerun merge" in harness.quiet("show", folder / "out.h5")
    if by == "runs":
        (lacking,) = (row for row in rows if row["status"] == "interrupted")
        assert lacking["message"] == "no shard has finished it, or all of its panels"
    shard(folder, 2, 3, "--by", by, "--resume")
    merge(folder, *(("--overwrite",) if link else ()))
    assert bits(folder / "out.h5") == bits(plain_results(folder)) and not (folder / "out.h5.parts").exists()


# ---- 7: an interrupted merge ----------------------------------------------------------------------------------------


def test_an_interrupted_merge_resumes(folder):
    """And it says how. Most of its time goes to the hash of an input, whose file was touched since it was known."""
    with h5py.File(folder / "in.h5", "w") as file:
        file.create_dataset("x", (24_000_000,), "f4", fillvalue=1)
    harness.write_job(
        folder / "job.yaml",
        device="cpu",
        inputs={"x": {"file": "in.h5", "dataset": "x"}},
        defaults={"warmup": 0, "repeat": 1, "verify": "none"},
        operations=[
            {"id": n, "op": "reduce", "inputs": ["x"], "operator": n, "axis": "all", "variants": ["cpu"]}
            for n in ("max", "min")
        ],
    )
    for index in range(2):
        shard(folder, index, 2, "--by", "runs")
    before = finished(folder)
    os.utime(folder / "in.h5")
    process = harness.start("merge", folder / "out.h5")
    wait_for_lock(folder / "out.h5.parts/lock")
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == INTERRUPTED and "the same command continues" in said, said
    assert finished(folder) == before and not (folder / "out.h5").exists()
    merge(folder)
    assert harness.Results(folder / "out.h5").output("max") == 1 and not (folder / "out.h5.parts").exists()


# ---- 2: show before the merge ---------------------------------------------------------------------------------------


def test_show_before_the_merge(folder):
    """Every row that exists, also of what is wrong or cannot run, and what each shard lacks, where, in which log."""
    variants = {"q": ["cpu"], "r": ["tiled", "cpu"]}
    path = products(folder, count=1)
    job = json.loads(path.read_text())
    job["operations"] += [{"id": n, "op": "matmul", "inputs": ["a", "a"], "variants": v} for n, v in variants.items()]
    job["operations"][1]["tolerance"] = 0
    path.write_text(json.dumps(job))

    def show():
        done = harness.tilerun("show", folder / "out.h5", "--json", expect=OK)
        rows = {(row["operation"], row["variant"]): row["status"] for row in json.loads(done.stdout)}
        return rows, done.stderr

    every = {("p0", "cpu"): "ok", ("q", "cpu"): "wrong", ("r", "tiled"): "skipped", ("r", "cpu"): "ok"}
    seen = {}
    for index in range(3):
        with open(folder / f"log-{index}", "w") as log:
            environment = plain_environment(SLURM_JOB_ID=f"7{index}")
            command = [harness.TILERUN, *arguments(folder, index, 3, "--by", "runs")]
            subprocess.run(list(map(str, command)), stderr=log, stdout=log, env=environment)
        rows, said = show()
        assert rows.items() > seen.items() and rows.items() <= every.items()
        seen = rows
        not_begun = [f"shard {other} of 3 has not begun" in said for other in range(3)]
        assert not_begun == [other > index for other in range(3)]
        assert ("not merged" in said) == (index == 2), said
    assert seen == every
    part = next((folder / "out.h5.parts/shard-1-of-3").glob("?" * 32 + ".h5"))
    whole = part.read_bytes()
    part.write_bytes(whole[:-1])
    rows, said = show()
    node = socket.gethostname()
    assert f"it ran on node {node}, job 71; log: {folder}/log-1\n" in said and "not merged" not in said
    assert "shard 1 of 3 lacks 1 of " in said and len(rows) == 3
    merge(folder, expect=IO)
    part.write_bytes(whole)
    assert "not merged" in show()[1]
    merge(folder, expect=RUN)


def test_show_names_a_shard_at_work(folder):
    products(folder, count=2, repeat=100_000)
    process = harness.start(*arguments(folder, 0, 2, "--by", "runs", "--progress", "plain"), env=plain_environment())
    wait_for_file(folder / "out.h5.parts/shard-0-of-2/shard.h5")
    said = harness.quiet("show", folder / "out.h5")
    process.kill()
    process.communicate()
    assert "shard 0 of 2 lacks 1 of 1 runs; it is running on node " in said, said
    assert "it ran on node" in harness.quiet("show", folder / "out.h5")


# ---- 4: a lock of another machine -----------------------------------------------------------------------------------


def hold(folder, text="tilerun: held on node other, job 99\n"):
    """The lock, as a process on another machine has it."""
    (folder / "out.h5.parts").mkdir()
    lock = open(folder / "out.h5.parts/lock", "w+")
    lock.write(text)
    lock.flush()
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


@pytest.mark.parametrize("what", ["job", "shard"])
def test_a_lock_of_another_machine_is_waited_for(folder, what):
    products(folder)
    command = ["run", folder / "job.yaml", "-o", folder / "out.h5", *(["--shard", "0/1"] if what == "shard" else [])]
    with hold(folder):
        done = harness.tilerun(*command, env=plain_environment())
        assert done.returncode == USAGE and "another tilerun is writing it (node other, job 99)" in done.stderr
        process = harness.start(*command, env=plain_environment(SLURM_JOB_ID="100"))
        said = process.stderr.readline()
        assert "waits up to 300 s for node other, job 99, which has held the lock for " in said, said
    _, said = process.communicate(timeout=60)
    assert process.returncode == OK, said


def test_the_wait_for_a_lock_is_bounded(folder):
    products(folder)
    with hold(folder):
        done = shard(folder, 0, 1, "--wait", 1, expect=INTERRUPTED, SLURM_JOB_ID="100")
        assert "has waited 1 s for node other, job 99, which has held the lock for " in done.stderr, done.stderr
    (folder / "out.h5.parts").mkdir(exist_ok=True)
    (folder / "out.h5.parts/lock").write_text("my own notes")
    done = shard(folder, 0, 1, expect=USAGE)
    assert "has a name of tilerun's but is not its lock" in done.stderr
    assert (folder / "out.h5.parts/lock").read_text() == "my own notes"


def test_who_holds_the_lock_is_said(folder):
    """On this machine: at once, also under Slurm."""
    products(folder, repeat=100_000)
    variables = plain_environment(SLURM_JOB_ID="5")
    process = harness.start("run", folder / "job.yaml", "-o", folder / "out.h5", env=variables)
    wait_for_file(folder / "out.h5.parts/lock")
    wait_for_lock(folder / "out.h5.parts/lock")
    done = harness.tilerun(
        "run", folder / "job.yaml", "-o", folder / "out.h5", "--resume", env=plain_environment(SLURM_JOB_ID="6")
    )
    process.kill()
    process.communicate()
    assert done.returncode == USAGE
    assert f"another tilerun is writing it (node {socket.gethostname()}, job 5)" in done.stderr, done.stderr
