"""A job by shards: N processes do disjoint parts of it, and `merge` makes the file that one process would have made."""

import fcntl
import os
import random
import re
import shlex
import signal
from pathlib import Path

import h5py
import numpy as np
import pytest

import drawn_jobs
import harness
from harness import INTERRUPTED, IO, OK, RUN, USAGE
from shards import arguments, assert_equals_unsharded, bits, merge, plain_environment, plain_results, shard

CASES = int(os.environ.get("TILERUN_CASES", 8))
SEED = int(os.environ.get("TILERUN_SEED", 0))


# ---- drawn jobs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", range(CASES))
def test_drawn_jobs(folder, case):
    draw = random.Random(SEED * 1000 + case)
    drawn_jobs.write(folder, draw)
    count = draw.randint(1, 6)
    order = list(range(count))  # a shard may wait for those of lower numbers
    while order:
        beside = [order.pop(0) for _ in range(min(len(order), draw.randint(1, 3)))]
        processes = [harness.start(*arguments(folder, index, count), env=plain_environment()) for index in beside]
        for process in processes:
            _, said = process.communicate(timeout=60)
            assert process.returncode == OK, said
    merge(folder)
    assert_equals_unsharded(folder)


# ---- a job of three groups -----------------------------------------------------------------------------------------


def job(folder, repeat=20, seed=1, **more):
    """One long chain, most of whose time its product takes, and two operations by themselves."""
    return harness.write_job(
        folder / "job.yaml",
        device="cpu",
        inputs={
            "a": {"random": {"shape": [160, 160], "low": -1, "seed": seed}},
            "b": {"random": {"shape": [30, 40], "low": -1, "seed": 2}},
        },
        defaults={"warmup": 0, "repeat": 1},
        operations=[
            {"id": "flipped", "op": "transpose", "inputs": ["a"], "variants": ["cpu", "blocked"]},
            {"id": "product", "op": "matmul", "inputs": ["flipped", "a"], "variants": ["cpu"], "repeat": repeat},
            {"id": "total", "op": "reduce", "inputs": ["product"], "operator": "sum", "axis": 0, "variants": ["cpu"]},
            {"id": "side", "op": "transpose", "inputs": ["b"], "variants": ["cpu"]},
            {"id": "most", "op": "reduce", "inputs": ["b"], "operator": "max", "axis": 1, "variants": ["cpu"]},
        ],
        **more,
    )


def operations_of(done):
    """Which operations a process says that it has done."""
    return set(re.findall(r"^\[\d+/\d+\] (\w+) ", done.stderr, re.M))


def test_connected_operations_stay_together(folder):
    job(folder)
    shares = [operations_of(shard(folder, index, 3)) for index in range(3)]
    assert shares[0] == {"flipped", "product", "total"}  # the longest is dealt out first
    assert sorted(map(sorted, shares[1:])) == [["most"], ["side"]]
    merge(folder)
    assert_equals_unsharded(folder)


def test_more_shards_than_groups(folder):
    job(folder)
    said = [shard(folder, index, 5, "--by", "runs").stderr for index in range(5)]
    assert ["has nothing to do" in text for text in said] == [False] * 3 + [True] * 2
    merge(folder)
    assert_equals_unsharded(folder)


@pytest.mark.parametrize("by", ["runs", "tiles"])
def test_show_says_how_far_shards_are(folder, by):
    """And which commands go on. A run that made no result is done, too."""
    product = {"op": "matmul", "inputs": ["a", "a"], "variants": ["cpu"]}
    harness.write_job(
        folder / "job.yaml",
        device="cpu",
        inputs={"a": {"random": {"shape": [160, 160]}}},
        defaults={"warmup": 0, "repeat": 1},
        operations=[{"id": "right", **product}, {"id": "wrong", "tolerance": 0, **product}],
    )
    what = "runs and panels" if by == "tiles" else "runs"
    for index in range(2):
        done = harness.tilerun(*arguments(folder, index, 2, "--by", by), env=plain_environment())
        assert done.returncode in (OK, RUN), done.stderr
        said = harness.tilerun("show", folder / "out.h5").stdout.splitlines()[0]
        merges = f"`tilerun merge {folder / 'out.h5'}`"
        if index == 0:
            left = f"{what}; repeat each shard's command with --resume, then run {merges}"
            assert re.fullmatch(rf"unfinished: shards have done \d+ of \d+ {re.escape(left)}", said), said
        else:
            assert re.fullmatch(rf"not merged: shards have done all \d+ {what}; {re.escape(merges)} joins them", said), said
            assert f"out.h5: {said}" in harness.said("reproduce", folder / "out.h5")
    merge(folder, expect=RUN)


def test_one_shard_is_the_job(folder):
    job(folder)
    shard(folder, 0, 1)
    assert not (folder / "out.h5").exists()
    merge(folder)
    assert_equals_unsharded(folder)


def test_printed_commands_can_be_copied(folder):
    """Each `tilerun merge` in a message names the output as a shell reads it; none is printed after the merge."""
    folder = folder / "it's here"
    folder.mkdir()
    job(folder)
    said = [merge(folder, expect=USAGE).stderr]
    for index in range(2):
        said.append(shard(folder, index, 2).stderr)
        said.append(harness.tilerun("show", folder / "out.h5", expect=OK).stdout)
    merge(folder)
    for text in said:
        command = shlex.split(re.search("`tilerun (.*?)`", text)[1])
        assert str(folder / "out.h5") in command and command[0] == ("run" if text is said[0] else "merge"), text
    again = shard(folder, 0, 2, "--resume").stderr
    assert "is complete: nothing to do" in again and "joins them" not in again


def test_missing_shard_is_named(folder):
    job(folder)
    shard(folder, 1, 3, SLURM_JOB_ID="1237", SLURM_ARRAY_JOB_ID="1234", SLURM_ARRAY_TASK_ID="3")
    part = next((folder / "out.h5.parts/shard-1-of-3").glob("*.h5"))
    said = merge(folder, expect=IO).stderr
    assert "shard 0 of 3 has 0 of 4 runs; it has not begun; first missing: 'flipped cpu'" in said
    assert "shard 1 of 3" not in said and "shard 2 of 3 has 0 of 1 runs" in said
    assert not (folder / "out.h5").exists() and part.exists()
    shard(folder, 0, 3), shard(folder, 2, 3)
    with open(part, "r+b") as file:
        file.write(b"damaged")
    said = merge(folder, expect=IO).stderr
    node = os.uname().nodename
    assert f"shard 1 of 3 has 0 of 1 runs; it ran on node {node}, job 1234_3; first missing: '" in said
    shard(folder, 1, 3, "--resume")
    merge(folder)
    assert_equals_unsharded(folder)


def test_nothing_to_merge(folder):
    job(folder)
    assert "holds no results of shards" in merge(folder, expect=USAGE).stderr
    assert not (folder / "out.h5.parts").exists()
    said = harness.tilerun("merge", folder / "job.yaml")  # the job instead of the results
    assert said.returncode == USAGE and "job.yaml: is not an HDF5 file" in said.stderr


def test_merge_needs_neither_job_file_nor_its_options(folder):
    """All that the shards were told is in their parts: merge runs where the job file is gone, from another folder."""
    job(folder, parameters={"axis": [0, 1]})
    text = (folder / "job.yaml").read_text()
    (folder / "job.yaml").write_text(text.replace('"axis": 1', '"axis": "$axis"'))
    options = ["--set", "axis=1", "--memory", "1MiB", "--repeat", "2", "--only", "most,total"]
    harness.tilerun("run", folder / "job.yaml", "-o", folder / "plain.h5", *options, expect=OK)
    for index in range(2):
        shard(folder, index, 2, *options)
    (folder / "job.yaml").rename(folder / "gone.yaml")
    harness.tilerun("merge", "out.h5", cwd=folder, expect=OK)
    assert bits(folder / "out.h5") == bits(folder / "plain.h5")
    with h5py.File(folder / "out.h5") as file, h5py.File(folder / "plain.h5") as other:
        assert file["job"][()] == other["job"][()] and dict(file["job"].attrs) == dict(other["job"].attrs)
        assert file["job_resolved"][()] == other["job_resolved"][()].replace(b"plain.h5", b"out.h5")
        assert file["job_resolved"].attrs["key"] == other["job_resolved"].attrs["key"]
        assert file.attrs["status"] == other.attrs["status"] == "partial"


@pytest.mark.gpu
def test_merge_without_the_gpu(folder):
    """`auto` means what it meant where the shards ran."""
    operations = [{"id": f"o{n}", "op": "transpose", "inputs": ["a"], "variants": ["auto", "cpu"]} for n in range(3)]
    inputs = {"a": {"random": {"shape": [70, 50], "seed": 1}}}
    harness.write_job(folder / "job.yaml", inputs=inputs, operations=operations)
    for index in range(2):
        shard(folder, index, 2, "--once")
    harness.tilerun("merge", folder / "out.h5", env=plain_environment(CUDA_VISIBLE_DEVICES=""), expect=OK)
    assert {row["device"] for row in harness.Results(folder / "out.h5").rows} == {"cuda:0", "cpu"}


def test_shards_say_where_they_ran(folder):
    job(folder)
    for index in range(3):
        shard(folder, index, 3, SLURM_JOB_ID=f"12{index}", SLURM_RESTART_COUNT="1")
    merge(folder)
    with h5py.File(folder / "out.h5") as file:
        assert sorted(file["shards"]) == ["0-of-3", "1-of-3", "2-of-3"]
        for index in range(3):
            group = file[f"shards/{index}-of-3"]
            assert group.attrs["slurm_job_id"] == f"12{index}" and group.attrs["slurm_restart_count"] == "1"
            assert group.attrs["hostname"] == os.uname().nodename and f"job 12{index}" in group.attrs["place"]
            assert f"--shard {index}/3" in group.attrs["command_line"] and "created" in group.attrs
        runs = [file[f"shards/{index}-of-3/runs"][()].tolist() for index in range(3)]
        assert runs[0] == [0, 1, 2, 3] and sorted(runs[1] + runs[2]) == [4, 5]
    assert "shards" not in h5py.File(plain_results(folder))


def test_same_shard_twice_is_refused(folder):
    job(folder, repeat=2000)
    first = harness.start(*arguments(folder, 0, 3, "--progress", "plain"), env=plain_environment())
    assert first.stderr.readline().startswith("[1/")
    for more in [(), ("--resume",), ("--overwrite",)]:
        said = shard(folder, 0, 3, *more, expect=USAGE).stderr
        assert "another tilerun is running shard 0 of 3" in said
    shard(folder, 1, 3)  # another one does not mind
    assert "shard 0 of 3 (node " in merge(folder, expect=USAGE).stderr
    whole = harness.tilerun("run", folder / "job.yaml", "-o", folder / "out.h5", "--resume")
    assert whole.returncode == USAGE and "shard 0 of 3" in whole.stderr and "is still running" in whole.stderr
    first.send_signal(signal.SIGTERM)
    first.communicate(timeout=60)
    assert first.returncode == INTERRUPTED


def test_shard_beside_the_whole_job_is_refused(folder):
    job(folder, repeat=2000)
    whole = harness.start("run", folder / "job.yaml", "-o", folder / "out.h5", "--progress", "plain")
    assert whole.stderr.readline().startswith("[1/")
    assert "another tilerun is writing it" in shard(folder, 0, 3, "--resume", expect=USAGE).stderr
    whole.kill()
    whole.communicate()


def test_a_shard_without_parts_leaves_nothing(folder):
    """No folder of its own, and none of all shards where no other is at work."""
    read = {"op": "transpose", "inputs": ["product"], "variants": ["cpu"], "repeat": 60}
    harness.write_job(
        folder / "job.yaml",
        device="cpu",
        inputs={"a": {"random": {"shape": [64, 64]}}},
        operations=[{"id": "product", "op": "matmul", "inputs": ["a", "a"], "variants": ["cpu"]}]
        + [{"id": name, **read} for name in ("left", "right")],
    )
    alone = ("--by", "runs", "--wait", 0)
    shard(folder, 1, 2, *alone, expect=INTERRUPTED)
    assert os.listdir(folder) == ["job.yaml"]
    (folder / "out.h5.parts").mkdir()
    with open(folder / "out.h5.parts/lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)  # as another shard's
        shard(folder, 1, 2, *alone, expect=INTERRUPTED)
        assert os.listdir(folder / "out.h5.parts") == ["lock"]
    shard(folder, 1, 2, *alone, expect=INTERRUPTED)
    assert os.listdir(folder) == ["job.yaml"]


@pytest.mark.parametrize("what", ["job", "input"])
def test_parts_of_another_are_refused_by_name(folder, what):
    """Two of three shards did one job, the last another: the one that most have is joined."""
    job(folder, name="first") if what == "job" else job(folder, seed=5)
    shard(folder, 1, 3), shard(folder, 2, 3)
    if what == "job":
        text = (folder / "job.yaml").read_text()
        (folder / "job.yaml").write_text(text.replace('"first"', '"second"').replace('"sum"', '"max"'))
    else:
        job(folder, seed=6)
    shard(folder, 0, 3)
    said = merge(folder, expect=IO).stderr
    refused = [line for line in said.splitlines() if ": refused: " in line]
    assert all("another job, or an earlier version of this one" in line for line in refused)
    assert len(refused) == (4 if what == "input" else 1), said
    if what == "job":
        assert "'total cpu' of job 'second'" in refused[0]
        assert '(`operator: "max"` there, `operator: "sum"` here)' in refused[0]
        assert "shard 0 of 3 has 3 of 4 runs" in said and "first missing: 'total cpu'" in said
    job(folder, name="first") if what == "job" else job(folder, seed=5)
    shard(folder, 0, 3, "--resume")
    merge(folder)
    assert_equals_unsharded(folder)


@pytest.mark.parametrize("rows, words", [([0], "'total cpu'"), ([], "a run"), ([0, 0], "a run")])
def test_a_part_of_another_number_of_runs_is_refused(folder, rows, words):
    """Whoever made it has sealed it as a part."""
    xxhash = pytest.importorskip("xxhash")
    job(folder, name="first")
    shard(folder, 1, 3), shard(folder, 2, 3)
    text = (folder / "job.yaml").read_text()
    (folder / "job.yaml").write_text(text.replace('"first"', '"second"').replace('"sum"', '"max"'))
    shard(folder, 0, 3)
    (folder / "job.yaml").write_text(text)
    said = merge(folder, expect=IO).stderr
    path = re.search(r"(\S+): refused: it holds 'total cpu' of job 'second'", said)[1]
    with h5py.File(path, "r+") as file:
        table = file["runs"][:][rows]
        del file["runs"]
        file["runs"] = table
    data = Path(path).read_bytes()
    low, high = (xxhash.xxh3_128_intdigest(data) >> shift & (1 << 64) - 1 for shift in (0, 64))
    digits = xxhash.xxh3_128_hexdigest(low.to_bytes(8, "little") + high.to_bytes(8, "little"))
    with open(path, "ab") as file:
        file.write(f"tilerun-part-xxh3:{digits}{'':13}\n".encode())
    assert f"refused: it holds {words} of job 'second', which is" in merge(folder, expect=IO).stderr


def test_changed_values_of_an_input(folder):
    harness.write_arrays(folder / "in.h5", x=np.arange(12.0).reshape(3, 4))
    operations = [
        {"id": "down", "op": "reduce", "inputs": ["x"], "operator": "sum", "axis": 0, "variants": ["cpu"]},
        {"id": "across", "op": "reduce", "inputs": ["x"], "operator": "sum", "axis": 1, "variants": ["cpu"]},
    ]
    inputs = {"x": {"file": "in.h5", "dataset": "x"}}
    harness.write_job(folder / "job.yaml", device="cpu", inputs=inputs, operations=operations)
    shard(folder, 0, 2, "--once")
    with h5py.File(folder / "in.h5", "r+") as file:
        file["x"][0, 0] = 7
    shard(folder, 1, 2, "--once")
    said = merge(folder, expect=IO).stderr
    assert "had other values in its inputs" in said and "shard 0 of 2 has 0 of 1 runs" in said


# ---- what is not done, or not well ---------------------------------------------------------------------------------


def test_what_cannot_run_here(folder):
    """A skipped run is no failure, and its row is in the file. (What fails or is wrong: test_wrong_variant.py.)"""
    harness.write_job(
        folder / "job.yaml",
        device="cpu",
        inputs={"a": {"random": {"shape": [8, 8], "seed": 1}}},
        defaults={"warmup": 0, "repeat": 1},
        operations=[
            {"id": "some", "op": "transpose", "inputs": ["a"], "variants": ["tiled", "cpu"]},
            {"id": "well", "op": "scale", "inputs": ["a"], "alpha": 2, "variants": ["cpu"]},
        ],
    )
    shard(folder, 0, 2), shard(folder, 1, 2)
    merge(folder)
    assert [row["status"] for row in harness.Results(folder / "out.h5").rows] == ["skipped", "ok", "ok"]
    assert_equals_unsharded(folder)


def test_signal_then_resume(folder):
    number = random.choice([signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2])
    job(folder, repeat=500)
    process = harness.start(*arguments(folder, 0, 3, "--progress", "plain"), env=plain_environment())
    assert process.stderr.readline().startswith("[1/4] ")
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == INTERRUPTED and "of 4 runs are done" in said, said
    job(folder, repeat=500)
    assert "holds" in shard(folder, 0, 3, expect=USAGE).stderr  # finished runs are not thrown away unasked
    again = shard(folder, 0, 3, "--resume")
    assert "flipped cpu: ok" in again.stderr and "(kept from before)" in again.stderr


def test_whole_job_takes_what_shards_have_done(folder):
    job(folder)
    shard(folder, 0, 3)
    plain = harness.tilerun("run", folder / "job.yaml", "-o", folder / "out.h5")
    assert plain.returncode == USAGE and "4 finished runs" in plain.stderr
    done = harness.tilerun("run", folder / "job.yaml", "-o", folder / "out.h5", "--resume")
    assert done.returncode == OK and done.stderr.count("(kept from before)") == 4
    assert_equals_unsharded(folder)


def test_overwrite_throws_shards_away(folder):
    job(folder)
    shard(folder, 0, 3)
    done = harness.tilerun("run", folder / "job.yaml", "-o", folder / "out.h5", "--overwrite")
    assert done.returncode == OK and "kept from before" not in done.stderr
    assert_equals_unsharded(folder)


def test_merge_again(folder):
    job(folder)
    for index in range(3):
        shard(folder, index, 3)
    merge(folder)
    assert "nothing to do" in merge(folder).stderr
    before = harness.Results(folder / "out.h5").rows
    assert "exists" in shard(folder, 0, 3, expect=USAGE).stderr
    for index in range(3):
        shard(folder, index, 3, "--overwrite")
    assert "--overwrite replaces it" in merge(folder, expect=USAGE).stderr
    merge(folder, "--overwrite")
    assert [row["total_s"] for row in harness.Results(folder / "out.h5").rows] != [row["total_s"] for row in before]
    assert_equals_unsharded(folder)


def test_shards_of_two_divisions(folder):
    """Parts count, whoever made them."""
    job(folder)
    shard(folder, 0, 2)
    shard(folder, 1, 3), shard(folder, 2, 3)
    merge(folder)
    assert_equals_unsharded(folder)


def test_unfinished_output_is_shown(folder):
    job(folder)
    shard(folder, 0, 3)
    done = harness.tilerun("show", folder / "out.h5")
    assert done.returncode == OK and "4 of 6 runs" in done.stderr + done.stdout
    part = sorted(path for path in folder.glob("out.h5.parts/**/*.h5") if len(path.stem) == 32)[0]
    whole = part.read_bytes()
    for damaged in (whole[:-1], whole[: len(whole) // 2], b"", whole[:2000] + b"\x00\xff" + whole[2002:]):
        part.write_bytes(damaged)  # it is done again, and not counted
        assert "3 of 6 runs" in harness.quiet("show", folder / "out.h5")
    part.write_bytes(whole)
    done = harness.tilerun("compare", folder / "out.h5", folder / "out.h5", expect=OK)
    assert done.stdout.startswith(f"base  {folder}/out.h5, unfinished\n")
    said = harness.tilerun("merge", f"{folder}/out.h5.parts/").stderr  # as a shell completes the name
    assert f"output {folder}/out.h5: 2 of 6 runs are missing; `merge --partial` publishes the others\n" in said
    for part in folder.glob("out.h5.parts/**/*.h5"):
        part.write_bytes(b"" if len(part.stem) == 32 else part.read_bytes())
    assert merge(folder, expect=IO).stderr.endswith(": 6 of 6 runs are missing\n")


def test_foreign_files_stay(folder):
    job(folder)
    shard(folder, 0, 3)
    (folder / "out.h5.parts/shard-0-of-3/mine.txt").write_text("mine")
    (folder / "out.h5.parts/shard-9-of-3").write_text("no such shard")
    shard(folder, 1, 3), shard(folder, 2, 3)
    merge(folder)
    assert (folder / "out.h5.parts/shard-0-of-3/mine.txt").read_text() == "mine"
    assert (folder / "out.h5.parts/shard-9-of-3").exists()
    assert not list((folder / "out.h5.parts").rglob("*.h5"))


# ---- the command line ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value, words",
    [
        ("4/4", "the last of 4 is 3/4"),
        ("-1/3", "I/N, such as 0/4, or auto, not '-1/3'"),
        ("x", "not 'x'"),
        ("", "not ''"),
        ("1/2/3", "not '1/2/3'"),
        ("1/", "not '1/'"),
        ("0/0", "from 1 to"),
        ("0/1000000", "from 1 to"),
        ("99999999999/3", "not '99999999999/3'"),
        ("auto", "SLURM_ARRAY_TASK_ID"),
    ],
)
def test_bad_values(folder, value, words):
    job(folder)
    done = harness.tilerun(
        "run", folder / "job.yaml", "-o", folder / "out.h5", "--shard", value, env=plain_environment()
    )
    assert done.returncode == USAGE and words in done.stderr, done.stderr
    assert not (folder / "out.h5.parts").exists()


@pytest.mark.parametrize(
    "variables",
    [
        {"SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_TASK_MIN": "2", "SLURM_ARRAY_TASK_COUNT": "3"},
        {"SLURM_ARRAY_TASK_ID": "7", "SLURM_ARRAY_TASK_MIN": "5", "SLURM_ARRAY_TASK_COUNT": "3"}
        | {"SLURM_ARRAY_TASK_MAX": "10", "SLURM_ARRAY_TASK_STEP": "2", "SLURM_PROCID": "0", "SLURM_NTASKS": "1"},
        {"SLURM_PROCID": "1", "SLURM_NTASKS": "3", "PMI_RANK": "2", "PMI_SIZE": "3"},
        {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "3"},
        {"PMI_RANK": "1", "PMI_SIZE": "3"},
    ],
)
def test_auto(folder, variables):
    job(folder)
    done = harness.tilerun(
        "run", folder / "job.yaml", "-o", folder / "out.h5", "--shard", "auto", env=plain_environment(**variables)
    )
    assert done.returncode == OK and "shard 1 of 3 has done" in done.stderr, done.stderr


def test_auto_with_a_gap(folder):
    job(folder)
    variables = {"SLURM_ARRAY_TASK_ID": "9", "SLURM_ARRAY_TASK_MIN": "0", "SLURM_ARRAY_TASK_COUNT": "3"}
    done = harness.tilerun("run", folder / "job.yaml", "--shard", "auto", env=plain_environment(**variables))
    assert done.returncode == USAGE and "SLURM_ARRAY_TASK_ID makes this shard 9 of 3" in done.stderr
