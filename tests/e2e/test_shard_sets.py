"""Shards of several jobs or divisions leave parts beside one OUTPUT: `merge` joins the last that is whole, or nothing;
never an older one silently, and never half of one."""

import os
import random

import numpy as np
import pytest

import harness
from harness import IO, OK, RUN
from shards import bits, merge, plain_results, shard

CASES = int(os.environ.get("TILERUN_CASES", 8))
SEED = int(os.environ.get("TILERUN_SEED", 0))


def job(folder, alpha=1):
    return harness.write_job(
        folder / "job.yaml",
        device="cpu",
        inputs={"a": {"random": {"shape": [96, 96], "seed": 1}}},
        defaults={"warmup": 0, "repeat": 1},
        operations=[
            {"id": "p", "op": "transpose", "inputs": ["a"], "variants": ["cpu"]},
            {"id": "s", "op": "scale", "inputs": ["a"], "alpha": alpha, "variants": ["cpu"]},
            {"id": "q", "op": "reduce", "inputs": ["a"], "operator": "max", "axis": "all", "variants": ["cpu"]},
        ],
    )


def parts(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.glob("out.h5.parts/shard-*/*.h5")}


@pytest.mark.parametrize("case", range(CASES))
def test_several_sets_of_shards(folder, case):
    """Each set is of one job and division, all of it or some; the flags say that it replaces what was there."""
    draw = random.Random(f"{SEED} {case}")
    whole, last = {}, None
    for _ in range(draw.randint(2, 4)):
        alpha, count = draw.choice([1, 2]), draw.randint(1, 4)
        by = draw.choice([(), ("--by", "runs"), ("--by", "tiles")])
        job(folder, alpha)
        order = draw.sample(range(count), draw.choice([count, draw.randint(1, count)]))
        said = [shard(folder, index, count, *by, "--overwrite").stderr for index in order]
        if not all("has nothing to do" in text for text in said):
            whole[alpha], last = len(order) == count, alpha
    if last is None:
        return
    before = parts(folder)
    done = harness.tilerun("merge", folder / "out.h5", *draw.choice([(), ("--link",)]))
    if whole[last]:
        assert done.returncode == OK, done.stderr
    if done.returncode == OK:
        job(folder, last)
        assert bits(folder / "out.h5") == bits(plain_results(folder))
    else:
        assert done.returncode == IO, done.stderr
        assert parts(folder) == before and not (folder / "out.h5").exists()


def test_a_later_job_that_is_not_done(folder):
    """The first job's shards are all there, but the second's have begun since: neither is thrown away unasked."""
    job(folder, 1)
    for index in range(2):
        shard(folder, index, 2)
    job(folder, 2)
    shard(folder, 0, 3)
    before = parts(folder)
    said = merge(folder, expect=IO).stderr
    assert "out.h5.parts/shard-0-of-3 belongs to another, later job, whose finished runs would be lost" in said
    assert parts(folder) == before
    for index in (1, 2):
        shard(folder, index, 3)
    merge(folder)
    assert bits(folder / "out.h5") == bits(plain_results(folder))


def test_one_shard_of_another_number(folder):
    """It does not matter to those that are all there."""
    job(folder)
    shard(folder, 0, 2)
    for index in range(4):
        shard(folder, index, 4)
    merge(folder)
    assert bits(folder / "out.h5") == bits(plain_results(folder))


@pytest.mark.parametrize("link", [(), ("--link",)], ids=["copied", "linked"])
@pytest.mark.parametrize("index", range(3))
def test_some_panels_of_what_is_done_already(folder, index, link):
    """The operation is in OUTPUT as a whole; a shard makes one panel of it again, and others' are not there."""
    job(folder)
    harness.run_folder(folder, "--only", "p,s")
    before, expected = bits(folder / "out.h5"), bits(plain_results(folder))
    shard(folder, index, 3, "--by", "tiles", "--resume")
    done = harness.tilerun("merge", folder / "out.h5", *link)
    assert done.returncode in (OK, IO), done.stderr
    assert bits(folder / "out.h5") == (expected if done.returncode == OK else before)
    harness.run_folder(folder, "--resume")
    assert bits(folder / "out.h5") == expected


def test_a_partial_output_is_not_called_complete(folder):
    job(folder)
    harness.run_folder(folder, "--only", "p")
    assert "out.h5 is partial, and there are no results of shards beside it" in merge(folder).stderr


@pytest.mark.parametrize("done_by", ["one process", "shards"])
def test_on_error_stop_keeps_what_was_ok(folder, done_by):
    """A run that was ok before stays, although an earlier operation fails and what is not done is left out."""
    harness.write_job(
        folder / "job.yaml",
        device="cpu",
        inputs={"a": {"random": {"shape": [64, 64], "low": -1, "seed": 1}}},
        defaults={"warmup": 0, "repeat": 1, "on_error": "stop"},
        operations=[
            {"id": "bad", "op": "matmul", "inputs": ["a", "a"], "variants": ["cpu"], "tolerance": 1e-30},
            {"id": "f", "op": "transpose", "inputs": ["a"], "variants": ["cpu"]},
            {"id": "g", "op": "scale", "inputs": ["f"], "alpha": 2, "variants": ["cpu"]},
            {"id": "left", "op": "scale", "inputs": ["a"], "alpha": 3, "variants": ["cpu"]},
        ],
    )
    if done_by == "shards":
        for index in range(2):
            shard(folder, index, 2, "--by", "runs", "--only", "f,g")
        merge(folder)
    else:
        harness.run_folder(folder, "--only", "f,g")
    values = harness.Results(folder / "out.h5").output("g")
    done = harness.tilerun("run", folder / "job.yaml", "-o", folder / "out.h5", "--resume")
    assert done.returncode == RUN and done.stderr.count("(kept from before)") == 2, done.stderr
    results = harness.Results(folder / "out.h5")
    assert [row["status"] for row in results.rows] == ["wrong", "ok", "ok", "skipped"]
    np.testing.assert_array_equal(results.output("g"), values)
