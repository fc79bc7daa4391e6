"""A job of many small runs: what a run costs does not grow with their number."""

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


def seconds_of_cpu(folder, job, *command):
    """The least of three, by this process's own count of its children's time: waiting for a core does not count."""
    path = harness.write_job(folder / "job.yaml", **job)
    times = []
    for _ in range(3):
        process = subprocess.Popen(
            [harness.TILERUN, command[0], path, *command[1:]],
            stdout=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == harness.OK
        times.append(usage.ru_utime + usage.ru_stime)
    return min(times)


@pytest.mark.parametrize("job", [sweep, chain])
def test_cost_of_a_run_does_not_grow(memory_folder, job):
    few, many = 150, 1500
    run = "run", "-o", memory_folder / "out.h5", "--overwrite", "--progress", "none"
    cost_of_few, cost_of_many = (seconds_of_cpu(memory_folder, job(count), *run) / count for count in (few, many))
    print(f"{cost_of_few * 1e3:.2f} and {cost_of_many * 1e3:.2f} ms of processor time a run")
    assert cost_of_many < MOST * cost_of_few


def test_cost_of_a_plan_does_not_grow(memory_folder):
    few, many = 1500, 12000

    def operations_on_one_input(count):
        job = sweep(count // 4)  # a parameter has at most 4096 values
        job["operations"] = [{**job["operations"][0], "id": name} for name in "pqrs"]
        return job

    cost_of_few, cost_of_many = (
        seconds_of_cpu(memory_folder, operations_on_one_input(count), "plan") / count for count in (few, many)
    )
    print(f"{cost_of_few * 1e6:.0f} and {cost_of_many * 1e6:.0f} us of processor time a run")
    assert cost_of_many < MOST * cost_of_few
