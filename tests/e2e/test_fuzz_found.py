"""What fuzzing has found (tests/fuzz/found): each file is read or refused, with a documented exit code and one sentence,
within the memory and the time of hostile.py."""

import os
import random
import shutil
import subprocess

import h5py
import numpy as np
import pytest

import crashes
import faults
import harness
import hostile
from harness import IO, OK, RUN, USAGE

SEED = int(os.environ.get("TILERUN_SEED", "20261"))
CASES = int(os.environ.get("TILERUN_CASES", "8"))
FOUND = sorted((harness.ROOT / "tests/fuzz/found").glob("*/*"))


@pytest.mark.parametrize("path", FOUND, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_found(folder, path):
    command = {"input": ["inspect"], "results": ["report", "-o", "report.html"], "job": ["check"]}[path.parent.name]
    done = hostile.tilerun(*command, path, cwd=folder)
    said = done.err.decode()
    assert done.code in (OK, USAGE, IO), said
    lines = [line for line in said.splitlines() if not line.startswith("*** ")]  # of the C library
    if path.parent.name == "job":
        lines = [line for line in lines if line.startswith(str(path))]  # below each the place in the file is shown
        assert bool(lines) == (done.code != OK), said
    else:
        assert len(lines) == (done.code != OK), said


@pytest.fixture(scope="module")
def crash_shim(memory_folder):
    return crashes.build_shim(memory_folder)


def test_a_crash_names_the_file(folder, crash_shim):
    """A library that crashes while it reads: here one that does so on purpose, in HDF5's place."""
    with h5py.File(folder / "in.h5", "w") as file:
        file["x"] = [1.0]
        file["x"].attrs["units"] = "m"
    done = harness.tilerun("inspect", "in.h5", cwd=folder, env=crashes.environment(crash_shim, "count", "H5Aread", 1))
    words = "tilerun: in.h5: the HDF5 library crashed reading this file, which is damaged or malicious\n"
    assert (done.returncode, done.stderr) == (IO, words)


@pytest.fixture(scope="module")
def left(memory_folder, shim):
    """Results of all kinds: whole, linked to another file, of some operations, in parts, and of shards."""
    folder = memory_folder / "left"
    folder.mkdir()
    harness.write_arrays(folder / "x.h5", x=np.random.default_rng(SEED).normal(size=(9, 8)).astype("f4"))
    harness.write_job(
        folder / "job.yaml", device="cpu", inputs={"x": {"file": "x.h5", "dataset": "x"}},
        defaults={"warmup": 0, "repeat": 1},
        operations=[
            {"id": "flipped", "op": "transpose", "inputs": ["x"], "variants": ["blocked"]},
            {"id": "product", "op": "matmul", "inputs": ["x", "flipped"], "to": "product.h5:/p", "variants": ["blocked"]},
            {"id": "sum", "op": "reduce", "inputs": ["product"], "operator": "sum", "axis": "all", "variants": ["blocked", "exact"]},
        ],
    )  # fmt: skip

    def run(output, *arguments, expect=OK, **options):
        harness.tilerun("run", "job.yaml", "-o", output, *arguments, cwd=folder, expect=expect, **options)

    run("some.h5", "--only", "flipped")
    run("out.h5", env=faults.environment(shim, folder / "count", "rename", 3, "kill"), expect=-9)
    for i in range(2):
        run("shards.h5", "--shard", f"{i}/2")
    run("whole.h5")
    return folder


READING = {
    "show": "show whole.h5", "show parts": "show out.h5", "show shards": "show shards.h5",
    "report": "report whole.h5 some.h5 -o new.html", "compare": "compare whole.h5 some.h5",
    "reproduce": "reproduce whole.h5", "inspect": "inspect whole.h5", "resume parts": "run job.yaml -o out.h5 --resume",
    "resume some": "run job.yaml -o some.h5 --resume", "resume whole": "run job.yaml -o whole.h5 --resume",
    "merge": "merge shards.h5", "link": "merge shards.h5 --link",
}  # fmt: skip


@pytest.mark.parametrize("call", ["H5Aread", "H5Dread", "H5Aiterate2", "H5Ocopy"])
@pytest.mark.parametrize("command", READING.values(), ids=READING)
def test_a_crash_is_a_refusal(folder, left, crash_shim, command, call):
    """Whatever reads results, and wherever in them the library crashes."""

    def crash(nth):
        place = folder / f"at-{nth}"
        shutil.copytree(left, place)
        environment = crashes.environment(crash_shim, folder / "count", call, nth)
        done = harness.tilerun(*command.split(), cwd=place, env=environment, timeout=60)
        shutil.rmtree(place)
        return done

    done = crash(0)
    assert done.returncode in (OK, RUN), done.stderr
    calls = crashes.counts(folder / "count").get(call, 0)
    draw = random.Random(f"{SEED} {command} {call}")
    for nth in sorted(draw.sample(range(1, calls + 1), min(calls, CASES))):
        done = crash(nth)
        assert done.returncode == IO, f"{call} {nth} of {calls}: {done.returncode} {done.stderr}"
        assert "the HDF5 library crashed" in done.stderr.splitlines()[-1]
