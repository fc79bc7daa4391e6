"""The threads of a run: all processors that the process may use, whatever OpenMP binds, and though the set changes."""

import os
import random
import re
import time

import h5py
import numpy as np
import pytest

import harness

BINDINGS = [
    {"OMP_PROC_BIND": "true"},
    {"OMP_PROC_BIND": "spread"},
    {"OMP_PROC_BIND": "close", "OMP_PLACES": "cores"},
    {"OMP_PLACES": "threads"},
]
several = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor")


def threads_of(environment):
    done = harness.tilerun("devices", env={**os.environ, "CUDA_VISIBLE_DEVICES": "", **environment}, expect=harness.OK)
    return int(re.search(r"(\d+) threads?$", done.stdout, re.M)[1])


def allowed(pid):
    """The processors of each thread of a process."""
    sets = []
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            sets.append(os.sched_getaffinity(int(task)))
        except ProcessLookupError:  # it has ended
            pass
    return sets


def big_job(folder):
    """Some seconds of reading chunks on all threads, hashing and verifying."""
    values = np.random.default_rng(3).integers(0, 100, (2048, 2048)).astype(np.float32)
    with h5py.File(folder / "x.h5", "w") as file:
        file.create_dataset("x", data=values, chunks=(128, 128), compression="gzip", compression_opts=1)
    sums = {"op": "reduce", "operator": "sum", "inputs": ["x"], "variants": ["blocked"]}
    return values, harness.write_job(
        folder / "job.yaml",
        device="cpu",
        memory="1MiB",
        sync=False,
        inputs={"x": {"file": "x.h5", "dataset": "x"}},
        defaults={"warmup": 0, "repeat": 1},
        operations=[{"id": f"s{i}", "axis": i % 2, **sums} for i in range(6)],
    )


@several
@pytest.mark.parametrize("binding", BINDINGS, ids=lambda binding: " ".join(binding.values()))
def test_openmp_may_bind_its_threads(binding):
    assert threads_of(binding) == threads_of({}) == len(os.sched_getaffinity(0))


def test_places_are_a_limit():
    assert threads_of({"OMP_PLACES": "{%d}" % min(os.sched_getaffinity(0))}) == 1


@pytest.mark.parametrize("name", ["SLURM_CPUS_PER_TASK", "OMP_NUM_THREADS"])
def test_limits_are_respected(name):
    assert threads_of({name: "1"}) == 1
    assert threads_of({name: "1000"}) == len(os.sched_getaffinity(0))


@several
def test_workers_are_not_bound_to_one_place(folder):
    """OpenMP's own threads sit each at its place; the pool's may go anywhere."""
    _, job = big_job(folder)
    environment = {**os.environ, "OMP_PROC_BIND": "true", "OMP_WAIT_POLICY": "passive"}
    process = harness.start("run", job, "-o", folder / "out.h5", env=environment)
    widest = 0
    while process.poll() is None and widest < len(os.sched_getaffinity(0)):
        time.sleep(0.01)
        widest = max((len(one) for one in allowed(process.pid)), default=widest)
    process.communicate(timeout=120)
    assert process.returncode == harness.OK
    assert widest == len(os.sched_getaffinity(0))


@several
@pytest.mark.parametrize("first", ["one", "all"])
def test_processors_come_and_go(folder, first):
    """As `taskset -ap` and live cpusets change them: the results are right, and nothing is written out of bounds."""
    values, job = big_job(folder)
    everything = os.sched_getaffinity(0)
    start = {min(everything)} if first == "one" else everything
    process = harness.start(
        "run", job, "-o", folder / "out.h5", "--progress", "none", preexec_fn=lambda: os.sched_setaffinity(0, start)
    )
    while process.poll() is None:
        some = set(random.sample(sorted(everything), random.randint(1, len(everything))))
        for task in os.listdir(f"/proc/{process.pid}/task") if process.poll() is None else []:
            try:
                os.sched_setaffinity(int(task), some)
            except ProcessLookupError:
                pass
        time.sleep(0.005)
    _, words = process.communicate(timeout=120)
    assert process.returncode == harness.OK, words
    results = harness.Results(folder / "out.h5")
    for i in range(6):
        np.testing.assert_array_equal(results.output(f"s{i}"), values.sum(axis=i % 2, dtype=np.float64).astype(np.float32))
