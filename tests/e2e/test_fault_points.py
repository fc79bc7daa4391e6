"""Every call that a job makes of the system may fail, one after the other: of files, locks, threads and memory, by the
program and by its libraries. Whichever fails, the job is over within 30 seconds, with a documented exit code and a
message that names the operation or the file, nothing unreadable is left where results go, and --resume gives the bits
of an undisturbed run.

    TILERUN_CASES=100000 TILERUN_SEED=1     all of them (hours); the default takes the first, the last, and some drawn

Where HDF5 or libcrypto lack memory they may crash, and no caller can help it. Such a crash is counted and printed
(`-s`), if the allocation that failed was theirs and so is the code that crashed; any other crash is a failure.
test_faults.py looks closer at what becomes of the output's files."""

import collections
import errno
import os
import random
import re
import shutil
import subprocess

import h5py
import numpy as np
import pytest

import faults
import harness
from harness import DEVICE, IO, OK, RUN, USAGE

CASES = int(os.environ.get("TILERUN_CASES", "5"))
SEED = int(os.environ.get("TILERUN_SEED", "20261"))
INPUTS = {"x.h5", "job.yaml"}
LEFT = {"x.h5", "job.yaml", "out.h5", "made.h5", "count", "where", "where.crash"}
NAMED = re.compile(r"job\.yaml|x\.h5|out\.h5|made\.h5|\b(twice|product|flipped|sums)\b")


def all_operations(folder, device="cpu"):
    """A packed and a plain input, a packed result and one that goes to a file of its own."""
    draw = np.random.default_rng(SEED)
    with h5py.File(folder / "x.h5", "w") as file:
        packed = draw.normal(size=(60, 50)).astype("f4")
        file.create_dataset("packed", data=packed, chunks=(20, 50), compression="gzip")
        file["plain"] = draw.normal(size=(50, 40)).astype("f4")
    operations = [
        {"id": "twice", "op": "scale", "inputs": ["packed"], "alpha": 2, "to": "made.h5:/twice"},
        {"id": "product", "op": "matmul", "inputs": ["twice", "plain"], "compression": "gzip", "chunks": [20, 40]},
        {"id": "flipped", "op": "transpose", "inputs": ["product"]},
        {"id": "sums", "op": "reduce", "inputs": ["flipped"], "operator": "sum", "axis": 0},
    ]
    harness.write_job(
        folder / "job.yaml", device=device, defaults={"warmup": 0, "repeat": 1}, operations=operations,
        inputs={name: {"file": "x.h5", "dataset": name} for name in ("packed", "plain")},
    )  # fmt: skip


def run(folder, *arguments, **options):
    command = ["run", folder / "job.yaml", "-o", folder / "out.h5", "--progress", "none", "--once"]
    return harness.tilerun(*command, *arguments, cwd=folder, timeout=30, **options)


def clear(folder):
    for path in folder.iterdir():
        if path.name not in INPUTS:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def outputs(folder):
    """What can be read of the results, bit by bit."""
    found = {}
    if (folder / "out.h5").exists():
        found = {name: values.tobytes() for name, values in harness.Results(folder / "out.h5").everything().items()}
    if (folder / "made.h5").exists():
        with h5py.File(folder / "made.h5") as file:
            found["made"] = file["twice"][()].tobytes()
    return found


def in_a_library(stack):
    """Was it, beneath libc, in HDF5's or libcrypto's code?"""
    callers = [line for line in stack.splitlines() if "fault_shim" not in line and "libc.so" not in line]
    return bool(callers) and re.search(r"libhdf5|libcrypto", callers[0]) is not None


def text_of(path):
    return path.read_text() if path.exists() else ""


class Points:
    """The calls of one kind that the job makes, and what becomes of it when one of them fails."""

    def __init__(self, folder, environment, program=harness.TILERUN):
        self.folder, self.environment, self.program, self.tally = folder, environment, program, collections.Counter()
        self.clear_and_run(0)
        assert self.done.returncode == OK, self.done.stderr
        self.calls, self.expected = self.count(), outputs(folder)
        assert len(self.expected) == 5  # of them `made` twice: in its file, and copied into the results file

    def count(self):
        return int((self.folder / "count").read_text())

    def clear_and_run(self, nth):
        clear(self.folder)
        more = {"FAULT_NTH": str(nth), "FAULT_WHERE": str(self.folder / "where")}
        self.done = run(self.folder, env=self.environment | more, program=self.program)

    def some(self, first, last, between=CASES):
        """The first and the last, and some between."""
        drawn = random.Random(SEED).sample(range(1, self.calls + 1), min(between, self.calls))
        return [n for n in range(1, self.calls + 1) if n <= first or n > self.calls - last or n in drawn]

    def fail(self, nth, crashes=False):
        """`crashes`: libraries may."""
        self.clear_and_run(nth)
        done, told = self.done, f"call {nth} of {self.calls}: exit {self.done.returncode}, {self.done.stderr}"
        stack, crash = text_of(self.folder / "where"), text_of(self.folder / "where.crash")
        ended = re.search("the HDF5 library crashed|a library ended the process", done.stderr)
        if crashes and in_a_library(stack) and (ended or (done.returncode < 0 and in_a_library(crash))):
            self.tally["crashed in a library"] += 1
        else:
            assert done.returncode in (OK, RUN, USAGE, IO, DEVICE), f"{told}\n{stack}\n{crash}"
            assert done.returncode == OK or NAMED.search(done.stderr + done.stdout), f"{told}\n{stack}"
            self.tally[f"exit {done.returncode}"] += 1
        for name, values in outputs(self.folder).items():
            assert values == self.expected[name], f"{told}: {name}"
        again = run(self.folder, "--resume", program=self.program)
        assert again.returncode == OK, f"{told}\nthen {again.stderr}\n{stack}"
        assert outputs(self.folder) == self.expected, f"{told}\n{stack}"
        assert {path.name for path in self.folder.iterdir()} <= LEFT, told

    def report(self, name):
        print(f"{name}: {sum(self.tally.values())} of {self.calls} calls failed: {dict(sorted(self.tally.items()))}")


CALLS = [
    ("open", errno.EMFILE, "once"), ("read", errno.EIO, "once"), ("read", errno.EIO, "short"),
    ("write", errno.ENOSPC, "once"), ("write", errno.EDQUOT, "all"), ("fsync", errno.EIO, "once"),
    ("rename", errno.EACCES, "once"), ("truncate", errno.EIO, "once"), ("flock", errno.ENOLCK, "once"),
    ("mkdir", errno.ENOSPC, "once"), ("unlink", errno.EACCES, "once"), ("thread", errno.EAGAIN, "once"),
]  # fmt: skip


@pytest.mark.parametrize("call, number, mode", CALLS, ids=[f"{c[0]}-{errno.errorcode[c[1]]}-{c[2]}" for c in CALLS])
def test_any_call_of_a_whole_job_may_fail(folder, shim, call, number, mode):
    all_operations(folder)
    environment = faults.environment(shim, folder / "count", call, 0, mode, number) | {"FAULT_PATH": str(folder)}
    points = Points(folder, environment)
    if points.calls == 0 and call == "truncate":
        pytest.skip("HDF5 has cut no file of this job: each ends where its last block does")
    assert points.calls > 0
    for nth in points.some(2, 2):
        points.fail(nth)
        assert mode != "short" or points.done.returncode == OK, points.done.stderr  # the rest is asked for
    points.report(f"{call} {errno.errorcode[number]} {mode}")


def test_any_allocation_may_fail(folder, shim):
    """Malloc and its like, of the program and of the libraries."""
    all_operations(folder)
    points = Points(folder, faults.environment(shim, folder / "count", "malloc", 0, "once", errno.ENOMEM))
    for nth in points.some(200 if CASES > 200 else 0, 0, 3 * CASES):
        points.fail(nth, crashes=True)
    points.report("malloc")


def test_any_own_allocation_may_fail(folder, shim):
    """The program's own: none of them may crash it."""
    all_operations(folder)
    environment = faults.environment(shim, folder / "count", "own", 0, "once", errno.ENOMEM)
    points = Points(folder, environment)
    for nth in points.some(2, 2):
        points.fail(nth)
    points.report("own malloc")


# ---- the device ----------------------------------------------------------------------------------------------------

OUT_OF_MEMORY, INVALID_VALUE, LAUNCH_FAILURE = 2, 1, 719  # of enum cudaError


@pytest.fixture(scope="module")
def shared_program(memory_folder):
    """The program under test, linked with the CUDA runtime as a shared library, which a shim can come before."""
    flags = harness.TILERUN.parent / "link.flags"
    words = flags.read_text() if flags.exists() else ""
    if "-lcudart_static" not in words:
        pytest.skip("not a build with CUDA whose object files are there")
    folder = re.search(r"-L(\S+) -lcudart_static", words)[1]
    program = memory_folder / "tilerun-shared-cuda"
    words = words.replace("-lcudart_static", "-lcudart").split(" # ")[0]
    command = f"{words} -Wl,-rpath,{folder} -o {program}"
    done = subprocess.run(command, shell=True, cwd=harness.ROOT, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"cannot be linked with a shared CUDA runtime: {done.stderr[-300:]}")
    yield program
    program.unlink()


DEVICE_CALLS = [
    ("allocate", OUT_OF_MEMORY), ("copy", INVALID_VALUE), ("launch", LAUNCH_FAILURE), ("event", LAUNCH_FAILURE),
]  # fmt: skip


@pytest.mark.gpu
@pytest.mark.parametrize("call, number", DEVICE_CALLS, ids=[call for call, _ in DEVICE_CALLS])
def test_any_call_of_the_device_may_fail(folder, shim, shared_program, call, number):
    all_operations(folder, device="cuda")
    points = Points(folder, faults.environment(shim, folder / "count", call, 0, "once", number), shared_program)
    assert points.calls > 0
    for nth in points.some(4, 2):
        points.fail(nth)
        assert points.done.returncode in (OK, RUN, DEVICE), points.done.stderr
    points.report(call)
