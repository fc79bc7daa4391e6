"""A job whose results go to files of their own, and a full disk, a signal, a failing call, another process: such a file
is there whole or not at all, and what is finished is kept."""

import errno
import os
import re
import shutil
import signal
import subprocess
import time

import faults
import h5py
import numpy as np
import pytest
from to_files import assert_good, edit, leftovers, simple

import harness
from faults import shim  # noqa: F401 (a fixture)
from harness import INTERRUPTED, IO, OK, USAGE, run_folder
from test_signals import wait_until_heeded

DISK = "24m"


def test_a_full_disk(folder, small_disk):
    """Refused before anything is computed; if it becomes full later nothing that was finished is lost."""
    path = simple(folder, rows=1024)
    edit(path, lambda job: job["operations"][0].update(to=f"{small_disk}/made.h5:/g/twice"))
    edit(path, lambda job: job["operations"][1].update(to=f"{small_disk}/made.h5:/sum"))
    block = small_disk / "block"
    block.write_bytes(b"x" * (20 << 20))
    for command in ("check", "plan", "run"):
        done = harness.tilerun(command, path)
        assert done.returncode == USAGE and "that `to` puts into" in done.stderr, done.stderr
    assert sorted(os.listdir(folder)) == ["disk", "in.h5", "job.yaml"]
    block.unlink()
    planned = harness.tilerun("plan", path).stdout
    assert re.search(r"disk: 8.0 MiB needed, 24.0 MiB free in " + str(small_disk), planned), planned
    edit(path, lambda job: job["operations"][2].update(repeat=200))
    process = harness.start("run", path, "-o", folder / "out.h5", "--progress", "plain")
    while ": ok" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGSTOP)  # however long this takes
    block.write_bytes(b"x" * (20 << 20))
    process.send_signal(signal.SIGCONT)
    _, stderr = process.communicate()
    assert process.returncode == IO and "No space left" in stderr, stderr
    assert os.listdir(small_disk) == ["block"] and not (folder / "out.h5").exists()
    block.unlink()
    assert run_folder(folder, "--resume").stderr.count("kept from before") == 3
    assert_good(folder, rows=1024, made=small_disk / "made.h5")


@pytest.mark.parametrize("mode", ["once", "kill"])
def test_any_rename_may_fail(folder, shim, mode):  # noqa: F811
    """The last renames give the file and then the output their names; after any of them the job goes on."""
    simple(folder)
    count = folder / "count"
    environment = faults.environment(shim, count, "rename", 0, "once") | {"FAULT_PATH": "made.h5"}
    run_folder(folder, env=environment)
    seen = int(count.read_text())
    assert seen >= 1
    for nth in range(1, seen + 1):
        for name in ("out.h5", "made.h5"):
            (folder / name).unlink(missing_ok=True)
        environment = faults.environment(shim, count, "rename", nth, mode, errno.EACCES) | {"FAULT_PATH": "made.h5"}
        done = harness.tilerun("run", folder / "job.yaml", "-o", folder / "out.h5", env=environment)
        assert done.returncode in (IO, -signal.SIGKILL), done.stderr
        assert not (folder / "out.h5").exists()
        done = run_folder(folder, "--resume")
        assert done.stderr.count("kept from before") == 3, done.stderr
        assert_good(folder)


def test_killed_between_the_two_renames(folder, shim):  # noqa: F811
    simple(folder)
    count = folder / "count"
    run_folder(folder, env=faults.environment(shim, count, "rename", 0))
    renames = int(count.read_text())
    (folder / "out.h5").unlink()
    (folder / "made.h5").unlink()
    done = harness.tilerun(
        "run", folder / "job.yaml", "-o", folder / "out.h5",
        env=faults.environment(shim, count, "rename", renames, "kill"),
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL and not (folder / "out.h5").exists()
    assert (folder / "made.h5").exists()
    assert run_folder(folder, expect=USAGE)
    done = run_folder(folder, "--resume")
    assert done.stderr.count("kept from before") == 3, done.stderr
    assert_good(folder)


@pytest.mark.parametrize("case", range(2))
def test_a_signal_at_any_moment(folder, rng, case):
    path = simple(folder, rows=4096, compression="gzip", level=1)
    began = time.monotonic()
    run_folder(folder)
    seconds = time.monotonic() - began
    for name in ("out.h5", "made.h5"):
        (folder / name).unlink()
    process = harness.start("run", path, "-o", folder / "out.h5")
    wait_until_heeded(process)
    moment = rng.uniform(0.3, 1.05) * seconds
    print(f"after {moment:.3f} of {seconds:.3f} s")
    try:
        process.communicate(timeout=moment)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)
        process.communicate()
    assert process.returncode in (OK, INTERRUPTED)
    assert not leftovers(folder) or process.returncode == INTERRUPTED
    assert not [name for name in os.listdir(folder) if name.startswith(".tilerun")]
    assert run_folder(folder, "--resume")
    assert_good(folder, rows=4096)


@pytest.mark.parametrize("after", ["--resume", "--overwrite", "--shard 0/2 --resume", "--shard 1/2 --overwrite"])
def test_what_a_killed_process_left_goes(folder, shim, after):  # noqa: F811
    """Beside a complete output, too, of which the power cut has kept no parts: then there may be nothing else to do."""
    simple(folder)
    run_folder(folder)
    environment = faults.environment(shim, folder / "count", "rename", 1, "kill") | {"FAULT_PATH": "made.h5"}
    run_folder(folder, "--overwrite", env=environment, expect=-signal.SIGKILL)
    assert [name for name in leftovers(folder) if name.startswith(".tilerun-to-")]
    shutil.rmtree(folder / "out.h5.parts")
    run_folder(folder, *after.split())
    if "--shard" in after:
        assert not [name for name in leftovers(folder) if name.startswith(".tilerun-to-")]
        shutil.rmtree(folder / "out.h5.parts", ignore_errors=True)
    assert_good(folder)


def test_another_process_writes_it_meanwhile(folder):
    path = simple(folder, rows=4096)
    edit(path, lambda job: job["defaults"].update(repeat=40))
    process = harness.start("run", path, "-o", folder / "out.h5", "--progress", "plain")
    while ": ok" not in process.stderr.readline():
        assert process.poll() is None
    (folder / "made.h5").write_text("theirs")
    _, stderr = process.communicate()
    assert process.returncode == IO and "while the job ran" in stderr, stderr
    assert (folder / "made.h5").read_text() == "theirs" and not (folder / "out.h5").exists()
    run_folder(folder, "--resume", "--overwrite")
    assert_good(folder, rows=4096)


# ---- a result of 64 MiB: its part becomes the file -------------------------------------------------------------


def large(folder):
    """Two large results, one of which shares its file with a small one."""
    job = simple(folder)
    edit(job, lambda job: job["inputs"].update(h={"random": {"shape": [4096, 2050], "dtype": "float64"}}))
    edit(job, lambda job: job["operations"].append(
        {"id": "huge", "op": "scale", "inputs": ["h"], "alpha": 2, "to": "made.h5:/huge", "repeat": 3}))  # fmt: skip
    edit(job, lambda job: job["operations"].append(
        {"id": "other", "op": "transpose", "inputs": ["h"], "to": "other.h5:/g/other"}))  # fmt: skip
    return job


def assert_large(folder):
    assert_good(folder)
    with h5py.File(folder / "out.h5") as file, h5py.File(folder / "made.h5") as made:
        assert sorted(made) == ["g", "huge", "sum"] and made.attrs["results"] == 3 and "job_runs" not in made.attrs
        assert made.attrs["schema"] == "tilerun-to"
        np.testing.assert_array_equal(file["outputs/huge"][()], 2 * file["outputs/other"][()].T)
        assert len(file["samples/3"]) == 3
        assert made["huge"].attrs["key"] and file["runs"][3]["status"] == b"ok"


@pytest.mark.parametrize("disk", ["one", "two"])
def test_a_large_result(folder, mount, disk):
    path = large(folder)
    if disk == "two":
        (folder / "second").mkdir()
        mount("-t", "tmpfs", "-o", "size=200m", "tilerun-test", folder / "second")
        for name in ("in.h5", "job.yaml"):
            shutil.copy(folder / name, folder / "second")
        path = folder / "second/job.yaml"
    harness.tilerun("run", path, "-o", folder / "out.h5", expect=OK)
    if disk == "one":
        assert_large(folder)
        assert "nothing to do" in run_folder(folder, "--resume").stderr
        (folder / "made.h5").unlink()
        # The results file has a copy of `sum`.
        assert run_folder(folder, "--resume").stderr.count("kept from before") == 3
        run_folder(folder, "--overwrite")
        assert_large(folder)
    else:
        with h5py.File(folder / "out.h5") as file:
            np.testing.assert_array_equal(file["outputs/huge"][()], 2 * file["outputs/other"][()].T)


def test_a_large_result_and_a_signal(folder, rng):
    path = large(folder)
    began = time.monotonic()
    run_folder(folder)
    seconds = time.monotonic() - began
    for _ in range(2):
        for name in ("out.h5", "made.h5", "other.h5"):
            (folder / name).unlink()
        process = harness.start("run", path, "-o", folder / "out.h5")
        try:
            process.communicate(timeout=rng.uniform(0.5, 1.05) * seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(rng.choice([signal.SIGTERM, signal.SIGKILL]))
            process.communicate()
        run_folder(folder, "--resume")
        assert_large(folder)
        assert not [name for name in os.listdir(folder) if name.startswith(".tilerun")]


@pytest.mark.parametrize("call", ["rename", "write"])
def test_a_large_result_and_any_failure_of_the_end(folder, shim, call):  # noqa: F811
    """Whatever fails, nothing that was finished is done again, but for the result that was becoming the file."""
    large(folder)
    count, ends = folder / "count", ("out.h5", "made.h5", "other.h5")

    def begin(call, nth, mode="once", *arguments, number=errno.ENOSPC):
        environment = faults.environment(shim, count, call, nth, mode, number) | {"FAULT_PATH": str(folder)}
        return harness.tilerun("run", folder / "job.yaml", "-o", folder / "out.h5", *arguments, env=environment)

    assert begin("rename", 0).returncode == OK
    for name in ends:
        (folder / name).unlink()
    assert begin("fsync", 1, "all", number=errno.EIO).returncode == IO  # all runs are done, no file has its name
    assert not any((folder / name).exists() for name in ends)
    shutil.copytree(folder / "out.h5.parts", folder / "kept")
    assert begin(call, 0, "once", "--resume").returncode == OK
    calls = int(count.read_text())
    assert_large(folder)
    for nth in range(1, calls + 1, max(1, calls // 4)):
        for mode in (["once", "kill"][nth % 2],):
            for name in ends:
                (folder / name).unlink(missing_ok=True)
            shutil.copytree(folder / "kept", folder / "out.h5.parts")
            done = begin(call, nth, mode, "--resume")
            assert done.returncode in (IO, OK, -signal.SIGKILL), done.stderr
            if not (folder / "out.h5").exists():
                kept = run_folder(folder, "--resume").stderr.count("kept from before")
                assert kept >= 4, (nth, mode)
            with h5py.File(folder / "out.h5") as file, h5py.File(folder / "made.h5") as made:
                assert np.array_equal(made["huge"][:9], 2 * file["outputs/other"][:, :9].T)
            assert harness.tilerun("run", folder / "job.yaml", "-o", folder / "out.h5", "--resume").returncode == OK
            assert not (folder / "out.h5.parts").exists()
