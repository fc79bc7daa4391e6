"""The file system fails under a shard or under `merge`: a full disk, a broken one, folders that vanish. That ends with
exit code 3 and a message that names the file and the reason, and loses nothing that was finished: --resume takes it."""

import errno
import os
import random
import re
import shutil
import signal
import subprocess
import time

import pytest

import drawn_jobs
import faults
import harness
import shards
from harness import IO, OK, USAGE

CASES = int(os.environ.get("TILERUN_CASES", 4))
SEED = int(os.environ.get("TILERUN_SEED", 0))
DISK = "400m"


class Job:
    """A job in shards, its results in a folder of their own."""

    def __init__(self, folder, place, count):
        self.path, self.count = folder / "job.yaml", count
        self.output, self.parts = place / "out.h5", place / "out.h5.parts"
        harness.tilerun("run", self.path, "-o", folder / "plain.h5", "--once", "--verify", "full", expect=OK)
        self.expected = shards.bits(folder / "plain.h5")

    def shard_command(self, index, *more):
        return ["run", self.path, "-o", self.output, "--shard", f"{index}/{self.count}", *more]

    def start(self, index, after=0):
        """Starts a shard; returns when it has finished so many runs."""
        process = harness.start(*self.shard_command(index, "--progress", "plain"))
        while after and not (line := process.stderr.readline()).startswith(f"[{after}/"):
            assert line
        return process

    def shard(self, index, *more, **options):
        return harness.tilerun(*self.shard_command(index, *more), **options)

    def merge(self, **options):
        return harness.tilerun("merge", self.output, **options)

    def finished(self):
        """The bytes of all finished parts."""
        return {path: path.read_bytes() for path in self.parts.rglob("?" * 32 + ".h5")}

    def assert_goes_on(self, index):
        """--resume takes what the shard had finished, and the file is right in the end."""
        before = self.finished()
        again = self.shard(index, "--resume")
        assert again.returncode == OK, again.stderr
        assert again.stderr.count("(kept from before)") == len(before)
        assert before.items() <= self.finished().items()
        for other in set(range(self.count)) - {index}:
            assert self.shard(other).returncode == OK
        self.assert_merges()

    def assert_merges(self):
        done = self.merge()
        assert done.returncode == OK, done.stderr
        assert shards.bits(self.output) == self.expected and not self.parts.exists()


def drawn(folder, place, draw, huge=False):
    drawn_jobs.write(folder, draw, huge)
    return Job(folder, place, draw.randint(1, 3))


def slow(folder, place):
    """Shard 0 of 2 has four quick runs, one that takes longer than a test waits, and four more."""
    operations = [{"id": f"s{i}", "op": "scale", "inputs": [f"s{i - 1}" if i else "r"], "beta": i} for i in range(8)]
    product = {"id": "slow", "op": "matmul", "inputs": ["s3", "s3"], "variants": ["cpu"], "repeat": 100}
    other = {"id": "other", "op": "transpose", "inputs": ["r"]}
    harness.write_job(
        folder / "job.yaml", device="cpu", inputs={"r": {"random": {"shape": [160, 160]}}},
        defaults={"warmup": 0, "repeat": 1}, operations=[*operations[:4], product, *operations[4:], other],
    )  # fmt: skip
    return Job(folder, place, 2)


def finish(process):
    """Exit code and the rest of stderr."""
    said = process.stderr.read()
    process.stdout.read()
    return process.wait(timeout=60), said


# ---- a call of the system fails ------------------------------------------------------------------------------------

CALLS = [
    ("write", errno.ENOSPC, "full"), ("write", errno.EIO, "once"), ("write", errno.EDQUOT, "all"),
    ("rename", errno.EACCES, "once"), ("open", errno.ENOSPC, "once"), ("mkdir", errno.ENOSPC, "once"),
    ("truncate", errno.EIO, "once"),
]  # fmt: skip
NAMES = [f"{call}-{errno.errorcode[number]}-{mode}" for call, number, mode in CALLS]


def assert_failed(done, number, told, call=""):
    """What cannot be made when a shard begins is an output that cannot be used."""
    assert done.returncode == IO or (call in ("open", "mkdir") and done.returncode == USAGE), told
    assert re.search(r"out\.h5\S*: .*" + re.escape(os.strerror(number)), done.stderr), told


@pytest.mark.parametrize("call, number, mode", CALLS, ids=NAMES)
def test_any_call_of_a_shard_may_fail(folder, shim, call, number, mode):
    draw = random.Random(f"{SEED} {call} {number}")
    job, counter = drawn(folder, folder, draw), folder / "count"
    done = job.shard(0, env=faults.environment(shim, counter, call))
    assert done.returncode == OK, done.stderr
    calls = int(counter.read_text())
    for nth in sorted(draw.sample(range(1, calls + 1), min(calls, CASES))):
        shutil.rmtree(job.parts)
        job.output.unlink(missing_ok=True)
        done = job.shard(0, env=faults.environment(shim, counter, call, nth, mode, number))
        told = f"{call} {nth} of {calls}: exit {done.returncode}, {done.stderr}"
        if int(counter.read_text()) >= nth:
            assert_failed(done, number, told, call)
        job.assert_goes_on(0)
        job.parts.mkdir()


@pytest.mark.parametrize("huge", [False, True])
@pytest.mark.parametrize("call, number, mode", CALLS[:4], ids=NAMES[:4])
def test_any_call_of_merge_may_fail(folder, shim, call, number, mode, huge):
    """No part is lost: merge could not make it again."""
    draw = random.Random(f"{SEED} {call} {number} {huge}")
    job, counter = drawn(folder, folder, draw, huge), folder / "count"
    for index in range(job.count):
        assert job.shard(index).returncode == OK
    before, saved = job.finished(), folder / "saved"
    shutil.copytree(job.parts, saved)
    assert job.merge(env=faults.environment(shim, counter, call)).returncode == OK
    calls = int(counter.read_text())
    for nth in sorted(draw.sample(range(1, calls + 1), min(calls, -(-CASES // 4) if huge else CASES))):
        job.output.unlink()
        shutil.copytree(saved, job.parts)
        done = job.merge(env=faults.environment(shim, counter, call, nth, mode, number))
        told = f"{call} {nth} of {calls}: exit {done.returncode}, {done.stderr}"
        assert_failed(done, number, told)
        assert job.finished() == before and not job.output.exists(), told
        job.assert_merges()


# ---- a disk that is full -------------------------------------------------------------------------------------------


def leave_room(disk, pages):
    """Makes the disk so small that so many pages are free. A program that writes meanwhile may need more than was just
    counted, which the system refuses."""
    for _ in range(1000):
        used = -(-shutil.disk_usage(disk).used // 4096)
        command = ["mount", "-o", f"remount,size={4 * (used + pages)}k", str(disk)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode == 0:
            return
    pytest.fail(done.stderr)


@pytest.mark.parametrize("case", range(-(-CASES // 2)))
def test_disk_that_fills_under_a_shard(folder, small_disk, case):
    """Some of the runs that come last find no room."""
    job = slow(folder, small_disk)
    process = job.start(0, after=4)
    process.send_signal(signal.SIGSTOP)  # however long this takes
    leave_room(small_disk, random.Random(f"{SEED} {case}").randint(0, 90))  # each of four takes 25 pages, and its row
    process.send_signal(signal.SIGCONT)
    code, said = finish(process)
    assert code == IO and re.search(r"out\.h5\S*: .*(No space left|needs .* are free)", said), said
    assert len(job.finished()) >= 4
    leave_room(small_disk, 10_000)
    job.assert_goes_on(0)


@pytest.mark.parametrize("by", ["runs", "tiles"])
@pytest.mark.parametrize("huge", [False, True])
def test_disk_that_is_full_under_merge(folder, small_disk, huge, by):
    """It needs room for copies of all parts. Nightly: TILERUN_CASES=20."""
    job, failures = drawn(folder, small_disk, random.Random(f"{SEED} merge"), huge), 0
    for index in range(job.count):
        assert job.shard(index, "--by", by).returncode == OK
    before = job.finished()
    needed = sum(map(len, before.values())) // 4096
    for pages in range(0, 2 * needed + 1200, 1 + (needed + 600) // (5 * CASES)):
        leave_room(small_disk, pages)
        done = job.merge()
        if done.returncode == OK:
            break
        refused = done.returncode == USAGE and re.search(r"out\.h5: needs .* are free", done.stderr)
        failed = done.returncode == IO and re.search(r"out\.h5\S*: .*No space left", done.stderr)
        assert refused or failed, f"exit {done.returncode}: {done.stderr}"
        assert job.finished() == before and not job.output.exists()
        failures += bool(failed)
    assert failures > 0 and done.returncode == OK, done.stderr
    assert shards.bits(job.output) == job.expected and not job.parts.exists()


# ---- folders that vanish -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("removed", [False, True], ids=["moved", "removed"])
@pytest.mark.parametrize("what", ["the shard's", "of parts", "of the output"])
@pytest.mark.parametrize("case", range(-(-CASES // 4)))
def test_folder_that_vanishes(folder, case, what, removed):
    draw = random.Random(f"{SEED} {case} {what} {removed}")
    place = folder / "place"
    place.mkdir()
    job = slow(folder, place)
    target = {"the shard's": job.parts / "shard-0-of-2", "of parts": job.parts, "of the output": place}[what]
    after = draw.randint(0, 4)
    process = job.start(0, after)
    while not target.exists():
        assert process.poll() is None
    time.sleep(draw.uniform(0, 0.02))
    target.rename(folder / "away")
    code, said = finish(process)
    assert code == IO or (after == 0 and code == USAGE), said  # before it has begun it is an output like any other
    assert re.search(r"out\.h5\S*: .*No such file or directory", said), said
    if removed:
        shutil.rmtree(folder / "away")
        place.mkdir(exist_ok=True)
    else:
        shutil.rmtree(target, ignore_errors=True)
        (folder / "away").rename(target)
        assert len(job.finished()) >= after
    job.assert_goes_on(0)


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOTSUP, 524])
def test_file_systems_without_locks(folder, shim, number):
    """Some Lustre and NFS mounts have none: merge and --resume find what shards have made without HDF5's. (What reads a
    file of another program says which variable helps.)"""
    operations = [{"id": f"s{i}", "op": "scale", "inputs": ["r"], "beta": i, "variants": ["cpu"]} for i in range(4)]
    harness.write_job(
        folder / "job.yaml", device="cpu", inputs={"r": {"random": {"shape": [60, 60]}}},
        defaults={"warmup": 0, "repeat": 1}, operations=operations,
    )  # fmt: skip
    job = Job(folder, folder, 2)
    environment = faults.environment(shim, folder / "count", "flock", 1, "all", number)
    for more in ([], ["--resume"]):
        for index in range(2):
            done = job.shard(index, *more, env=environment)
            assert done.returncode == OK, done.stderr
    assert job.merge(env=environment).returncode == OK
    assert shards.bits(job.output) == job.expected
