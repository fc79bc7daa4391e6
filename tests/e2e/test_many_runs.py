"""A job of many small runs: what a run costs does not grow with their number."""

import math
import os
import subprocess

import harness
import pytest

MOST = 1.35  # times; 1.2 is wanted, the rest is for a loaded machine


def sweep(count):
    return {
        "sync": False,
        "parameters": {"a": list(range(1, count + 1))},
        "inputs": {"x": {"random": {"shape": [16, 16], "dtype": "float32"}}},
        "operations": [{"id": "y", "op": "scale", "inputs": ["x"], "alpha": "$a", "variants": ["cpu"], "store": "none"}],
        "defaults": {"repeat": 1, "warmup": 0},
    }


def chain(count):
    return {
        "sync": False,
        "inputs": {"x0": {"random": {"shape": [16, 16], "dtype": "float32"}}},
        "operations": [
            {"id": f"x{i + 1}", "op": "scale", "inputs": [f"x{i}"], "variants": ["cpu"]} for i in range(count)
        ],
        "defaults": {"repeat": 1, "warmup": 0},
    }


def seconds_of_cpu(path, *command):
    """By this process's own count of its children's time: waiting for a core does not count."""
    process = subprocess.Popen(
        [harness.TILERUN, command[0], path, *command[1:]],
        stdout=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == harness.OK
    return usage.ru_utime + usage.ru_stime


def assert_that_cost_does_not_grow(folder, jobs, *command):
    """The least of several measurements of each job, as many as it takes beside others that share caches and cores."""
    costs = dict.fromkeys(jobs, math.inf)
    paths = {count: harness.write_job(folder / f"{count}.yaml", **job) for count, job in jobs.items()}
    few, many = jobs
    for _ in range(10):
        for count, path in paths.items():
            costs[count] = min(costs[count], seconds_of_cpu(path, *command) / count)
        print(f"{costs[few] * 1e6:.0f} and {costs[many] * 1e6:.0f} us of processor time a run")
        if costs[many] < MOST * costs[few]:
            return
    raise AssertionError(costs)


@pytest.mark.parametrize("job", [sweep, chain])
def test_cost_of_a_run_does_not_grow(memory_folder, job):
    run = "run", "-o", memory_folder / "out.h5", "--overwrite", "--progress", "none"
    assert_that_cost_does_not_grow(memory_folder, {count: job(count) for count in (150, 1200)}, *run)


def test_cost_of_a_plan_does_not_grow(memory_folder):
    def operations_on_one_input(count):
        job = sweep(count // 4)  # a parameter has at most 4096 values
        job["operations"] = [{**job["operations"][0], "id": name} for name in "pqrs"]
        return job

    jobs = {count: operations_on_one_input(count) for count in (1500, 12000)}
    assert_that_cost_does_not_grow(memory_folder, jobs, "plan")
