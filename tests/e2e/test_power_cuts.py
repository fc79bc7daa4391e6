"""The power may fail at any moment of any process that works on a job. Whatever the disk has kept by then, which
power.py draws, what lies at the output and in files of a `to` is whole, the older or the new; the same commands with
--resume make the outputs of an undisturbed run, bit for bit, and leave nothing else; and what a process has said is
done, by its exit code, stays done.

TILERUN_CUTS is how often the power fails in all, TILERUN_SEED what is drawn, TILERUN_CASE one case."""

import copy
import os
import random
import re

import h5py
import pytest

import drawn_jobs
import harness
import lives
import power
from harness import IO, OK, USAGE
from shards import bits

CUTS = int(os.environ.get("TILERUN_CUTS", 25))
SEED = int(os.environ.get("TILERUN_SEED", 0))
EACH = 5  # cuts of one drawn job
CASES = [int(os.environ["TILERUN_CASE"])] if "TILERUN_CASE" in os.environ else range(-(-CUTS // EACH))
NAMED = re.compile(r"out\.h5|made\.h5|more\.h5")


def written(folder):
    """What a job writes."""
    return [path for path in folder.iterdir() if path.name not in ("job.yaml", "in.h5", "log")]


def values(path):
    """All of a file that a `to` has written, or the outputs and states of a results file."""
    if path.name == "out.h5":
        rows = harness.Results(path).rows
        return bits(path), [[row[name] for name in ("operation", "variant", "parameters", "status")] for row in rows]
    with h5py.File(path) as file:
        found = {}
        file.visititems(lambda name, item: found.update({name: item[()].tobytes()} if hasattr(item, "shape") else {}))
        return found


def outcome(folder):
    return {path.name: values(path) for path in written(folder) if path.suffix == ".h5"}


def is_linked(folder):
    with h5py.File(folder / "out.h5") as file:
        return "parts" in file.attrs


def draw_moment(draw, records):
    """Often where files get their names, or lose them, and at the end."""
    near = [number for number, record in enumerate(records) if record.kind in ("rename", "sync", "unlink")]
    if not near or draw.randrange(2):
        return min(len(records), draw.randint(0, len(records) * 5 // 4))
    return min(len(records), max(0, draw.choice(near) + draw.randint(-1, 3)))


class Job:
    """A drawn one, in its folder, and the commands that do it."""

    def __init__(self, folder, shim, case, ways=lives.LIVES, sync=True):
        self.folder, self.shim, self.draw = folder, shim, random.Random(SEED * 100_000 + case)
        draw, huge, sides = self.draw, case % 20 == 19, (520,) if case % 10 >= 8 else (24, 24, 200)
        path = drawn_jobs.write(folder, draw, huge, draw.randrange(2) == 0, sides)
        path.write_text(path.read_text().replace("{", '{"sync": %s,' % str(sync).lower(), 1))
        lives.perform(lives.run(folder))
        self.expected = outcome(folder)
        power.remove(written(folder))
        self.life = draw.choice(ways)
        self.commands = self.life(folder, draw)
        self.older = outcome(folder)

    def outputs(self):
        return [str(self.folder / name) for name in self.expected]

    def log(self, commands):
        """Performs them. Returns the disk as it was, the records, and how many there were after each command."""
        disk, log, records, ends = power.Disk(self.folder, written(self.folder)), self.folder / "log", [], []
        for command in commands:
            lives.perform(command, env=power.environment(self.shim, self.folder, log))
            records += power.read_log(log)
            ends.append(len(records))
        return disk, records, ends

    def cut(self, disk, records, ends):
        """Ends it at a drawn moment. Returns the command that was cut short, by its number, and words for the log."""
        moment, disk = draw_moment(self.draw, records), copy.deepcopy(disk)
        for record in records[:moment]:
            disk.do(record)
        power.remove(written(self.folder))
        disk.cut(self.draw)
        number = sum(moment >= end for end in ends[:-1])
        return number, moment, f"{self.life.__name__}: cut after {moment} of {ends}: {self.commands[number][2:]}"

    def look(self, told, done):
        """At what the power cut has left. `done`: the last command was over."""
        linked = self.life in (lives.linked, lives.linked_then_whole)
        for name in self.expected:
            path = self.folder / name
            assert path.exists() or (name not in self.older and not done), told
            if path.exists() and not (linked and not done):  # HDF5 would not say that a part is gone
                found = values(path)
                either = found in [self.expected[name], *([] if done else [self.older.get(name)])]
                assert either or (not done and self.shows_newer(path, found)), told

    def shows_newer(self, path, found):
        """Is it the older output, but for what it shows of a `to` file, which has got its name before the output?"""
        if path.name != "out.h5" or not self.older:
            return False
        (older, rows), (newer, _) = self.older["out.h5"], self.expected["out.h5"]
        with h5py.File(path) as file:
            shown = {name for name in older if file[name].is_virtual}
        allowed = {name: [older[name], *([newer.get(name)] if name in shown else [])] for name in older}
        same = set(found[0]) == set(older) and all(found[0][name] in allowed[name] for name in older)
        return same and found[1] == rows

    def go_on(self, number, told):
        """With the command that was cut short, if it needs no other. It may lack what shards had made, or what they had
        said of themselves. Then with all of them, or with one process that does what is left."""
        if "--shard" not in self.commands[number]:
            done = harness.tilerun(*lives.again(self.commands[number]))
            named = number > 0 and done.returncode in (IO, USAGE) and NAMED.search(done.stderr)
            assert done.returncode == OK or named, f"{told}: {done.stderr}"
        rest = [lives.again(command) for command in self.commands]
        if self.draw.randrange(2):
            rest = [lives.run(self.folder, "--overwrite" if "--overwrite" in self.commands[0] else "--resume")]
        for command in rest:
            done = harness.tilerun(*command)
            assert done.returncode == OK, f"{told}: then {command[2:]}: {done.stderr}"


@pytest.mark.parametrize("case", CASES)
def test_cut_at_any_moment(folder, power_shim, case):
    job = Job(folder, power_shim, case)
    whole = job.log(job.commands)
    assert outcome(folder) == job.expected
    for _ in range(min(EACH, CUTS - case * EACH)):
        number, moment, told = job.cut(*whole)
        told = f"case {case}: {told}"
        job.look(told, moment == len(whole[1]))
        if len(job.commands) == 1 and job.draw.randrange(3) == 0:  # what goes on from there is cut short too
            _, moment, again = job.cut(*job.log([lives.again(job.commands[0])]))
            told = f"{told}, then {again}"
            job.look(told, False)
        job.go_on(number, told)
        assert outcome(folder) == job.expected, told
        left = {path.name for path in written(folder)} - set(job.expected)
        assert left == ({"out.h5.parts"} if is_linked(folder) else set()), told


@pytest.mark.parametrize("case", CASES[::10])
def test_without_sync(folder, power_shim, case):
    """Nothing is lost until the results get their name. Then they may be damaged: --overwrite makes them again."""
    job = Job(folder, power_shim, case, [lives.whole], sync=False)
    disk, records, ends = job.log(job.commands)
    assert not any(record.kind == "sync" for record in records)
    named = next(n for n, record in enumerate(records) if record.kind == "rename" and record.paths[1] in job.outputs())
    for _ in range(EACH):
        _, moment, told = job.cut(disk, records, ends)
        if moment <= named:
            job.go_on(0, told)
        else:
            done = harness.tilerun(*lives.again(job.commands[0]))
            assert done.returncode == OK or NAMED.search(done.stderr), f"{told}: {done.stderr}"
            lives.perform(lives.run(folder, "--overwrite"))
        assert outcome(folder) == job.expected, told
