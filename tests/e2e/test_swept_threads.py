"""`threads`: each number makes runs of its own, with that many threads, the same bits, and keys that --resume knows."""

import json
import os

import numpy as np
import pytest

import harness
from harness import USAGE

FOUR = os.environ | {"OMP_NUM_THREADS": "4"}
INPUTS = {"A": {"random": {"shape": [300, 200]}}, "B": {"random": {"shape": [200, 300], "seed": 1}}}
MOST = len(os.sched_getaffinity(0))


def threads_of(path, operation):
    rows = [row for row in harness.Results(path).rows if row["operation"] == operation and row["status"] == "ok"]
    return [(row["variant"], row["threads"]) for row in rows]


def test_where_it_stands(tmp_path):
    """In the variant, the operation, the defaults; the nearest one counts, and GPU variants have none."""
    most = min(MOST, 2)
    product = {"id": "product", "op": "matmul", "inputs": ["A", "B"]}
    total = {"id": "total", "op": "reduce", "inputs": ["A"], "operator": "sum", "axis": "all"}
    results = harness.run_job(
        tmp_path, device="cpu", inputs=INPUTS, parameters={"t": [1, most][:most]},
        defaults={"threads": [1, most][:most], "repeat": 2},
        operations=[
            product | {"variants": ["blocked", {"name": "cpu", "threads": most}, "naive"]},
            total | {"threads": most},
            total | {"id": "each", "threads": "$t", "variants": ["blocked"]},
            total | {"id": "own", "variants": [{"name": "blocked", "threads": [most]}], "threads": 1},
        ],
    )  # fmt: skip
    swept = list(range(1, most + 1))
    assert threads_of(results.path, "product") == [(f"blocked,threads={n}", n) for n in swept] + [
        (f"cpu,threads={most}", most)
    ]
    assert threads_of(results.path, "total") == [(f"blocked,threads={most}", most)]
    assert threads_of(results.path, "each") == [(f"blocked,threads={n}", n) for n in swept]
    assert threads_of(results.path, "own") == [(f"blocked,threads={most}", most)]
    assert {row["parameters"] for row in results.rows if row["operation"] == "each"} == {f"t={n}" for n in swept}


@pytest.mark.skipif(MOST < 2, reason="one processor")
def test_same_bits_and_resume(tmp_path):
    """A number that is added is run, the others are kept."""

    def run(threads, *arguments):
        product = {"id": "p", "op": "matmul", "inputs": ["A", "B"], "variants": ["blocked"], "store": "all"}
        path = harness.write_job(
            tmp_path / "job.yaml", device="cpu", inputs=INPUTS, operations=[product], defaults={"threads": threads}
        )
        done = harness.tilerun("run", path, "-o", tmp_path / "out.h5", *arguments, expect=harness.OK)
        return done.stderr.count("kept from before")

    assert run([1]) == 0 and run([1, 2], "--resume") == 1
    one, two = (harness.Results(tmp_path / "out.h5").read(f"variants/p/blocked,threads={n}") for n in (1, 2))
    assert np.array_equal(one, two)


def test_too_many(tmp_path):
    """A mistake at the number, not a cap; within what OMP_NUM_THREADS allows."""
    job = tmp_path / "job.yaml"
    job.write_text(
        "version: 1\ninputs: {x: {random: {shape: [8]}}}\noperations:\n"
        "  - {id: a, op: scale, inputs: [x], threads: [1, 5000]}\n"
    )
    for threads in ({"OMP_NUM_THREADS": "4"}, {}):
        done = harness.tilerun("check", job, env=os.environ | threads)
        assert done.returncode == USAGE and f"{job}:4:50: " in done.stderr + done.stdout


@pytest.mark.skipif(MOST < 2, reason="one processor")
def test_predictions(tmp_path):
    """One thread is predicted to take twice as long as two, by the same tiles."""
    product = {"id": "p", "op": "matmul", "inputs": ["A", "B"], "variants": ["blocked"], "threads": [1, 2]}
    path = harness.write_job(tmp_path / "job.yaml", device="cpu", inputs=INPUTS, operations=[product])
    done = harness.tilerun("plan", "--json", path)
    one, two = json.loads(done.stdout)["runs"]
    assert one["kernel_s"] == pytest.approx(2 * two["kernel_s"]) and one["steps"] == two["steps"]
