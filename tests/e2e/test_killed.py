"""SIGKILL at any moment of any process that works on a job: whole runs, shards, `merge`, and those that go on after an
earlier kill. What is at the output path can be read all the time, and the same command with --resume then makes the
outputs of an undisturbed run, bit for bit, and leaves nothing else.

TILERUN_KILLS is how many processes are killed in all, TILERUN_SEED what is drawn."""

import os
import random
import shutil
import time

import h5py
import pytest

import drawn_jobs
import faults
import harness
from harness import OK
from lives import LIVES, again, linked, linked_then_whole, perform, run
from shards import bits

KILLS = int(os.environ.get("TILERUN_KILLS", 25))
SEED = int(os.environ.get("TILERUN_SEED", 0))
EACH = 5  # kills of one drawn job


# ---- what is there before and after ---------------------------------------------------------------------------------


def keep(folder, name):
    """Keeps the output and its parts as they are now."""
    (folder / name).mkdir()
    for path in folder.glob("out.h5*"):
        (shutil.copytree if path.is_dir() else shutil.copy2)(path, folder / name / path.name)


def put_back(folder, name):
    for path in folder.glob("out.h5*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.copytree(folder / name, folder, dirs_exist_ok=True)


def assert_readable(path):
    """As h5dump reads it: all of it."""
    with h5py.File(path) as file:
        assert file.attrs["schema"] == "tilerun-results" and "runs" in file
        file.visititems(lambda name, item: item[()] if isinstance(item, h5py.Dataset) else None)


def phase(folder, before):
    """How far the process had got, in words for who reads the log of this test."""
    parts = folder / "out.h5.parts"
    if not parts.exists():
        return "done" if (folder / "out.h5").exists() else "no folder yet"
    if (folder / "out.h5").exists() and (folder / "out.h5").stat().st_ino != before:
        return "cleaning up"
    return "assembling" if any(parts.rglob("assembled.tmp")) else f"{len(list(parts.rglob('?' * 32 + '.h5')))} parts"


# ---- the moment -----------------------------------------------------------------------------------------------------


def kill_once(folder, shim, command, draw, calls, seconds):
    """Kills the command at a drawn moment, often near its end, where it cleans up, or where it puts a file in place.
    Returns when, in words; None: it was done before."""
    call = draw.choice([name for name in ("any", "any", "rename", "time") if calls.get(name, 1) > 0])
    if call != "time":
        nth = draw.randint(draw.choice([1, 1, 1, max(1, calls[call] - 15)]), calls[call])
        done = harness.tilerun(*command, env=faults.environment(shim, folder / "count", call, nth, "kill"))
        moment, code, said = f"{call} {nth} of {calls[call]}", done.returncode, done.stderr
    else:
        after = draw.uniform(0, seconds)
        process = harness.start(*command)
        time.sleep(after)
        process.kill()
        said = process.communicate()[1]
        moment, code = f"after {after:.3f} of {seconds:.3f} s", process.returncode
    assert code in (-9, OK), f"{moment}: {said}"
    return moment if code == -9 else None


@pytest.mark.parametrize("case", range(-(-KILLS // EACH)))
def test_killed_at_any_moment(folder, shim, case):
    draw = random.Random(SEED * 100_000 + case)
    drawn_jobs.write(folder, draw, huge=draw.randrange(4) == 0)
    perform(run(folder))
    expected = bits(folder / "out.h5")
    (folder / "out.h5").unlink()

    life = draw.choice(LIVES)
    commands, measured = life(folder, draw), []
    for number, command in enumerate(commands):
        keep(folder, f"before-{number}")
        calls, began = {}, time.monotonic()
        for call in ("rename", "any"):
            put_back(folder, f"before-{number}")
            perform(command, env=faults.environment(shim, folder / "count", call))
            calls[call] = int((folder / "count").read_text())
        measured.append((calls, (time.monotonic() - began) / 2))
    assert bits(folder / "out.h5") == expected

    kills = min(EACH, KILLS - case * EACH)
    while kills > 0:
        number = draw.randrange(len(commands))
        put_back(folder, f"before-{number}")
        output = folder / "out.h5"
        inode, command = output.stat().st_ino if output.exists() else None, commands[number]
        for _ in range(draw.randint(1, min(3, kills))):
            moment = kill_once(folder, shim, command, draw, *measured[number])
            if moment is None:
                command = again(command)  # changes nothing
                break
            kills -= 1
            print(f"case {case}: {life.__name__}: {command[0]} {command[2:]} killed: {moment}: {phase(folder, inode)}")
            assert output.exists() or inode is None
            if output.exists():
                assert_readable(output)
            if output.exists() and life in (linked, linked_then_whole):  # HDF5 would not say that a part is gone
                assert bits(output).items() <= expected.items()
            command = again(command)
        if "is complete: nothing to do" in perform(command).stderr and "--shard" in command:
            perform(commands[number])  # the older file was this job's, and the shard had not replaced any of it
        for later in commands[number + 1 :]:
            perform(later)
        assert bits(output) == expected
        assert sorted(path.name for path in folder.glob("out.h5*")) == ["out.h5"]
