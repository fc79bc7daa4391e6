"""submit.sh: a job file becomes jobs that ask for what they need, and a results file; mistakes do not become jobs."""

import json
import re

import pytest

from slurm import SCRIPTS, TILERUN, assert_same, shards

SUBMIT = SCRIPTS / "submit.sh"


@pytest.fixture
def job(cluster, request):
    name = re.sub(r"\W+", "-", request.node.name)
    return cluster.write_job(
        name,
        [
            {"id": "flipped", "op": "transpose", "inputs": ["a"], "variants": ["cpu"]},
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
    assert f"tilerun show {output}\n" in said
    assert f"{facts['StdOut']}\n" in said


@pytest.mark.parametrize("shards", [None, 2])
def test_asks_for_what_is_predicted(cluster, job, shards):
    job.write_text(job.read_text().replace('"repeat": 1', '"repeat": 200000'))
    plan = json.loads(cluster.call(TILERUN, "plan", "--device", "cpu", "--json", job))
    split = json.loads(cluster.call(TILERUN, "plan", "--device", "cpu", "--json", "--shards", shards or 1, job))
    seconds = plan["total_s"] * split["longest_s"] / split["one_process_s"]
    assert 60 < seconds < 20000, "the job tests something that is neither too short nor cut off"
    memory = max(run["memory_bytes"] for run in plan["runs"])

    number = submit(cluster, job, *(["--array", shards] if shards else []), "--", "--hold")[1][0]
    facts = cluster.records(number)[0]
    asked = re.fullmatch(r"(?:(\d)-)?(\d\d):(\d\d):00", facts["TimeLimit"])
    days, hours, minutes = (int(word or 0) for word in asked.groups())
    assert days * 1440 + hours * 60 + minutes == pytest.approx((3 * seconds + 600) / 60, abs=1)
    assert int(facts["MinMemoryNode"].removesuffix("M")) == 2 * memory // 2**20 + 1024
    cluster.call("scancel", number)


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


def test_says_that_shards_are_idle(cluster, job):
    job.write_text(job.read_text().replace("000", ""))  # too small to be divided
    said, numbers = submit(cluster, job, "--array", 5, "--", "--hold")
    assert "3 of 5 shards will have nothing to do" in said
    cluster.call("scancel", *numbers)


def test_merge_goes_where_the_shards_go(cluster, job):
    for place in (("--partition=other",), ("--partition", "other"), ("-p", "other"), ("-pother",)):
        said, (array, merge) = submit(cluster, job, "--array=2", "--", "--hold", *place)
        assert {cluster.records(number)[0]["Partition"] for number in (array, merge)} == {"other"}
        cluster.call("scancel", array, merge)


MISTAKES = [
    ([], "usage: submit.sh JOB.yaml"),
    (["--array", 6], "usage: submit.sh JOB.yaml"),
    (["JOB", "--array"], "--array needs a number of shards"),
    (["JOB", "--array", "0"], "from 1, not '0'"),
    (["JOB", "--array", "0-5"], "from 1, not '0-5'"),
    (["JOB", "JOB"], "one job at a time"),
    (["JOB", "--time=5"], "unknown option --time=5; those of sbatch come after --"),
    (["nowhere.yaml"], "nowhere.yaml: cannot be opened"),
]


@pytest.mark.parametrize("arguments, words", MISTAKES)
def test_mistakes_are_not_submitted(cluster, job, arguments, words):
    before = cluster.call("squeue", "--noheader")
    done = cluster.start(SUBMIT, *(job if word == "JOB" else word for word in arguments))
    assert done.returncode == 2 and words in done.stderr, done.stderr
    assert cluster.call("squeue", "--noheader") == before


def test_job_with_a_mistake(cluster):
    job = cluster.write_job("bad", [{"id": "o", "op": "transpose", "inputs": ["nothing"]}])
    done = cluster.start(SUBMIT, job)
    assert done.returncode == 2 and "nothing" in done.stderr and f"{job} is not submitted" in done.stderr


def test_sbatch_refuses(cluster, job):
    done = cluster.start(SUBMIT, job, "--", "--partition=nowhere")
    assert done.returncode == 1 and "invalid partition" in done.stderr and done.stdout == ""
