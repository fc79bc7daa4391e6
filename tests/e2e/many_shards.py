"""Simulates a job in many shards on this machine, one after another, with tiny inputs: what each shard asks of the file
system, what it leaves there and how long it takes, and the same of `merge`. tests/bench/shards.py prints it."""

import os
import resource
import time
from collections import namedtuple

import numpy as np

import harness

# `calls`: how many of each kind, as count_shim.c names them. `files`: what is in its folder at the end.
# `cpu`: seconds of all cores, which neighbours on the machine change least.
Process = namedtuple("Process", "calls files seconds cpu")
# `shards`: a Process each, in the order in which they ran.
Simulation = namedtuple("Simulation", "shards merge")

# Each of these is a question to the metadata server of a parallel file system.
METADATA = ["open", "create", "rename", "unlink", "mkdir", "rmdir", "stat", "list", "lock"]


def write_job(folder, operations):
    """As many operations by themselves, all of which read one small file."""
    harness.write_arrays(folder / "in.h5", x=np.arange(64 * 64, dtype="f4").reshape(64, 64))
    return harness.write_job(
        folder / "job.yaml",
        device="cpu",
        parameters={"factor": list(range(1, operations + 1))},
        inputs={"x": {"file": "in.h5", "dataset": "x"}},
        defaults={"warmup": 0, "repeat": 2},
        operations=[{"id": "scaled", "op": "scale", "inputs": ["x"], "alpha": "$factor", "variants": ["cpu"]}],
    )


def cpu_seconds():
    """Of all processes so far that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def call(folder, shim, *arguments, place=None):
    """Runs the program to its end; `place`: the folder whose files are counted then."""
    counts = folder / "counts"
    environment = {**os.environ, "LD_PRELOAD": str(shim), "COUNT_PATH": str(folder), "COUNT_FILE": str(counts)}
    begin, spent = time.perf_counter(), cpu_seconds()
    done = harness.tilerun(*arguments, "--progress", "none", env=environment, timeout=600)
    seconds, cpu = time.perf_counter() - begin, cpu_seconds() - spent
    assert done.returncode == harness.OK, done.stderr
    calls = {name: int(number) for name, number in map(str.split, counts.read_text().splitlines())}
    counts.unlink()
    return Process(calls, len(os.listdir(place)) if place else 0, seconds, cpu)


def simulate(folder, shim, shards):
    """As many shards as the job has operations, each in a process, then `merge`."""
    job, output = write_job(folder, shards), folder / "out.h5"
    done = []
    for i in range(shards):
        place = folder / f"out.h5.parts/shard-{i}-of-{shards}"
        done.append(call(folder, shim, "run", job, "-o", output, "--shard", f"{i}/{shards}", place=place))
    merged = call(folder, shim, "merge", output)
    assert len(harness.Results(output).rows) == shards
    assert sorted(os.listdir(folder)) == ["in.h5", "job.yaml", "out.h5"]
    return Simulation(done, merged)


def metadata(process):
    return sum(process.calls[name] for name in METADATA)
