"""submit.sh: a job file becomes jobs that ask for what they need, and a results file; mistakes do not become jobs."""

import json
import re

import h5py
import pytest

from slurm import SCRIPTS, TILERUN, assert_same, shards

SUBMIT = SCRIPTS / "submit.sh"


@pytest.fixture
def job(cluster, request):
    name = re.sub(r"\W+", "-", request.node.name)
    return cluster.write_job(
        name,
        [
            {"id": "flipped", "op": "transpose", "inputs": ["a"], "variants": ["blocked"]},
            {"id": "twice", "op": "scale", "inputs": ["a"], "alpha": 2, "variants": ["cpu"]},
        ],
        inputs={"a": {"random": {"shape": [2000, 1000], "low": -1}}},
        defaults={"warmup": 0, "repeat": 1},
        output=f"out of {name}.h5",
    )


def submit(cluster, *arguments):
    """What it says, and the numbers of the jobs."""
    said = cluster.call(SUBMIT, *arguments)
    return said, re.findall(r"^job (\d+): ", said, re.M)


def test_one_job(cluster, job):
    said, (number,) = submit(cluster, job)
    facts = cluster.records(number)[0]
    cluster.complete(number)
    output = job.parent / f"out of {job.stem}.h5"
    assert_same(output, cluster.plain(job, cluster.folder / f"{job.stem}-plain.h5"))
    assert f"squeue -j {number}\n" in said
    assert "tilerun show %s\n" % str(output).replace(" ", "\\ ") in said
    assert f"{facts['StdOut']}\n" in said


@pytest.mark.parametrize("shards", [None, 2])
def test_asks_for_what_is_predicted(cluster, job, shards):
    job.write_text(job.read_text().replace('"repeat": 1', '"repeat": 1000000'))
    plan = json.loads(cluster.call(TILERUN, "plan", "--device", "cpu", "--json", job))
    split = json.loads(cluster.call(TILERUN, "plan", "--device", "cpu", "--json", "--shards", shards or 1, job))
    seconds = plan["wall_s"] * split["longest_s"] / split["one_process_s"]
    assert 60 < seconds < 20000, "the job tests something that is neither too short nor cut off"
    memory = max(run["memory_bytes"] for run in plan["runs"])

    number = submit(cluster, job, *(["--array", shards] if shards else []), "--", "--hold")[1][0]
    facts = cluster.records(number)[0]
    asked = re.fullmatch(r"(?:(\d)-)?(\d\d):(\d\d):00", facts["TimeLimit"])
    days, hours, minutes = (int(word or 0) for word in asked.groups())
    longest = 120  # minutes that the partition allows
    assert days * 1440 + hours * 60 + minutes == pytest.approx(min((3 * seconds + 600) / 60, longest), abs=1)
    assert int(facts["MinMemoryNode"].removesuffix("M")) == 2 * memory // 2**20 + 1024
    cluster.call("scancel", number)


def test_leaves_the_time_to_the_script_where_it_is_unknown(cluster, job):
    """The plain loop is neither near the machine's limits nor has it a model of its time."""
    job.write_text(job.read_text().replace('"blocked"', '"cpu"'))
    said, numbers = submit(cluster, job, "--", "--hold")
    assert "the time of some runs is unknown" in said
    facts = cluster.records(numbers[0])[0]
    cluster.call("scancel", *numbers)
    assert facts["TimeLimit"] == "01:00:00" and facts["MinMemoryNode"] != "16G"


def test_array_is_merged(cluster, job):
    said, (array, merge) = submit(cluster, job, "--array", 2, "--", "--time=7", "--output", "%A-%a.txt", "-p", "test")
    assert cluster.records(array)[0]["TimeLimit"] == "00:07:00"  # what follows -- wins
    cluster.complete(array)
    cluster.complete(merge)
    output = job.parent / f"out of {job.stem}.h5"
    assert_same(output, cluster.plain(job, cluster.folder / f"{job.stem}-plain.h5"))
    assert sorted(shards(output)) == ["0-of-2", "1-of-2"]
    assert "shards will have nothing to do" not in said
    assert f"squeue -j {array},{merge}\n" in said and f"/{array}-*.txt\n" in said


def asked(cluster, job, *arguments):
    """What submit.sh says, and what the job asks for that it submits; the job is cancelled."""
    said, numbers = submit(cluster, job, *arguments, *(() if "--" in arguments else ("--",)), "--hold")
    facts = cluster.records(numbers[0])[0]
    cluster.call("scancel", *numbers)
    return said, facts


def test_no_more_shards_than_have_work(cluster, job):
    job.write_text(job.read_text().replace("000", ""))  # too small to be divided
    said, facts = asked(cluster, job, "--array", "5%3")
    assert "shards: 2, not 5" in said and facts["ArrayTaskId"] == "0-1%3"
    said, facts = asked(cluster, job, "--array", 1500)
    assert "1001 shards, not 1500" in said and facts["ArrayTaskId"] == "0-1"


def test_what_is_timed_is_not_divided(cluster, job):
    job.write_text(job.read_text().replace('"repeat": 1', '"repeat": 20'))
    assert "shards: 2, not 8" in asked(cluster, job, "--array", 8)[0]
    for more in (["--once"], ["--by", "tiles"], ["--repeat=1"]):
        assert asked(cluster, job, "--array", 8, *more)[1]["ArrayTaskId"] == "0-7"


def test_options_of_run_are_passed_on(cluster, job):
    text = job.read_text().replace('"alpha": 2', '"alpha": "$factor"')
    job.write_text(text.replace("{", '{"parameters": {"factor": 2},', 1))
    output = cluster.folder / "passed on.h5"
    output.write_text("somebody's")
    more = ("--once", "--set", "factor=3")
    number = submit(cluster, job, *more, "-o", output, "--overwrite")[1][0]
    cluster.complete(number)
    assert_same(output, cluster.plain(job, cluster.folder / "passed-plain.h5", *more))
    more = ("--once", "--only=twice", "--overwrite")
    for number in submit(cluster, job, *more, "-o", output, "--wait", 60, "--array=2")[1]:
        cluster.complete(number)
    with h5py.File(output) as file:
        assert {row["operation"] for row in file["runs"]} == {b"twice"}


def test_asks_for_what_the_partition_has(cluster, job):
    job.write_text(job.read_text().replace('"repeat": 1', '"repeat": 60000000'))
    said, facts = asked(cluster, job)
    assert "a turn ends after 120 minutes" in said and facts["TimeLimit"] == "02:00:00"
    said, facts = asked(cluster, job, "--", "-p", "short")
    assert "a turn ends after 5 minutes" in said and facts["TimeLimit"] == "00:05:00"
    assert "a turn ends" not in asked(cluster, job, "--", "-p", "other")[0]
    assert "gpu" not in facts["TRES"]  # of a job on the CPU


def test_memory_is_the_nodes(cluster, job):
    """A job larger than this machine's memory is planned for the compute node's, 64 GiB."""
    text = job.read_text().replace('"warmup"', '"store": "none", "warmup"')
    job.write_text(re.sub(r"\b[12]000\b", "80000", text))
    assert asked(cluster, job)[1]["MinMemoryNode"] == "64G"


@pytest.mark.parametrize(
    "version, reason", [("no CUDA", "was built without CUDA"), ("CUDA 13.0", "partition cpu has no GPU")]
)
def test_gpus_are_looked_for_before_the_job_waits(cluster, job, tmp_path, version, reason):
    """Whatever build is under test, each build's first words are tried."""
    program = tmp_path / "tilerun"
    program.write_text(f'#!/bin/sh\n[ "$1" != --version ] || exec echo "{version}"\nexec {TILERUN} "$@"\n')
    program.chmod(0o755)
    done = cluster.start("env", f"TILERUN={program}", SUBMIT, job, "--device", "cuda", "--", "-p", "cpu")
    assert done.returncode == 2 and reason in done.stderr


def test_merge_goes_where_the_shards_go(cluster, job):
    for place in (("--partition=other",), ("--partition", "other"), ("-p", "other"), ("-pother",)):
        said, (array, merge) = submit(cluster, job, "--array=2", "--", "--hold", *place)
        assert {cluster.records(number)[0]["Partition"] for number in (array, merge)} == {"other"}
        cluster.call("scancel", array, merge)


MISTAKES = [
    ([], "usage: submit.sh JOB.yaml"),
    (["--array", 6], "usage: submit.sh JOB.yaml"),
    (["JOB", "--array"], "--array needs a value"),
    (["JOB", "--array", "0"], "not '0'"),
    (["JOB", "--array", "0-5"], "not '0-5'"),
    (["JOB", "--array", "3%"], "not '3%'"),
    (["JOB", "--array", "3", "--", "--array=0-2"], "--array=0-2 would change it"),
    (["JOB", "--array", "3", "--", "-a", "0-2"], "-a 0-2 would change it"),
    (["JOB", "--shard", "0/2"], "--array N sets how many"),
    (["JOB", "--array", "2", "--pin", "x.yaml"], "--pin needs all runs"),
    (["JOB", "--by", "runs"], "--array N sets how many"),
    (["JOB", "--set", "n=5"], "no parameter 'n'"),
    (["JOB", "-o"], "-o needs a value"),
    (["JOB", "JOB"], "one job at a time"),
    (["JOB", "--time=5"], "unknown option --time; options of sbatch follow --"),
    (["nowhere.yaml"], "nowhere.yaml: cannot be opened"),
]


@pytest.mark.parametrize("arguments, words", MISTAKES)
def test_mistakes_are_not_submitted(cluster, job, arguments, words):
    before = cluster.call("squeue", "--noheader")
    done = cluster.start(SUBMIT, *(job if word == "JOB" else word for word in arguments))
    assert done.returncode == 2 and words in done.stderr, done.stderr
    assert cluster.call("squeue", "--noheader") == before


def test_every_option_of_run_is_known(cluster):
    options = re.findall(r"^ +(?:-., )?(--[a-z-]+)( [A-Z|a-z]+)?", cluster.tilerun("run", "--help").stdout, re.MULTILINE)
    assert len(options) > 15
    for option, value in options:
        done = cluster.start(SUBMIT, "nowhere.yaml", option, *(["1"] if value.strip() else []))
        assert "unknown option" not in done.stderr


def test_job_with_a_mistake(cluster):
    job = cluster.write_job("bad", [{"id": "o", "op": "transpose", "inputs": ["nothing"]}])
    done = cluster.start(SUBMIT, job)
    assert done.returncode == 2 and "nothing" in done.stderr and f"{job} is not submitted" in done.stderr


def test_sbatch_refuses(cluster, job):
    done = cluster.start(SUBMIT, job, "--", "--partition=nowhere")
    assert done.returncode == 1 and "invalid partition" in done.stderr and done.stdout == ""


def test_predicts_for_the_cores_of_the_job(cluster, job, tmp_path):
    """Not for those of the machine that submits."""
    asks = tmp_path / "asks"
    program = tmp_path / "tilerun"
    program.write_text(f'#!/bin/sh\n[ "$1" != plan ] || echo "$OMP_NUM_THREADS $*" >> {asks}\nexec {TILERUN} "$@"\n')
    program.chmod(0o755)
    for options, cores in (((), "4"), (("-c", "3"), "3"), (("--cpus-per-task=2",), "2")):
        asks.write_text("")
        environment = ("env", "-u", "OMP_NUM_THREADS", f"TILERUN={program}")
        done = cluster.start(*environment, SUBMIT, job, "--array=2", "--", "--hold", *options)
        assert done.returncode == 0, done.stderr
        cluster.call("scancel", *re.findall(r"^job (\d+): ", done.stdout, re.M))
        predictions = [line for line in asks.read_text().splitlines() if "--json" in line]
        assert len(predictions) >= 2 and {line.split()[0] for line in predictions} == {cores}, predictions


def test_the_merge_has_time_for_what_is_written(cluster, job):
    minutes = []
    for rows in (20, 10000):
        job.write_text(re.sub(r"\[\s*\d+,\s*\d+\s*\]", f"[{rows}, 20000]", job.read_text()))
        split = json.loads(cluster.call(TILERUN, "plan", "--device", "cpu", "--json", "--shards", 2, job))
        said, numbers = submit(cluster, job, "--array=2", "--", "--hold")
        asked = re.search(r"merge.sbatch --time=(\d+),", said)
        cluster.call("scancel", *numbers)
        minutes.append(int(asked[1]))
        assert minutes[-1] == int((2 * split["write_bytes"] / 100e6 + 600 + 59) / 60)
    assert minutes[1] > minutes[0]
