"""Submits the committed scripts to a Slurm that is up, asks what became of jobs, and reads results."""

import json
import os
import subprocess
import time
from pathlib import Path

import h5py
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "configs/slurm"
CLUSTER = ROOT / "tests/slurm/cluster.sh"
TILERUN = Path(os.environ.get("TILERUN", ROOT / "build/tilerun")).resolve()

LAST = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")
PATIENCE = 1800  # seconds; the tests beside it take the cores


class Cluster:
    def __init__(self, folder):
        self.folder = folder
        self.environment = {
            **os.environ,
            "SLURM_CONF": str(folder / "slurm.conf"),
            "XDG_CACHE_HOME": str(folder / "cache"),  # measured limits: not the user's
            "TILERUN": str(TILERUN),
            "TILERUN_DEVICE": "cpu",
            "TILERUN_ALLOW_SOURCE": "1",
            "OMP_WAIT_POLICY": "passive",
            "OMP_NUM_THREADS": "1",  # a few jobs share the machine
        }

    def start(self, *command):
        """Runs a command to its end, whatever comes of it."""
        words = [str(word) for word in command]
        return subprocess.run(words, env=self.environment, cwd=self.folder, capture_output=True, text=True, timeout=600)

    def call(self, *command):
        done = self.start(*command)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def submit(self, script, *arguments, options=()):
        """Submits one of the scripts and returns the number of the job."""
        resources = ("--mem=1G", "--output=%j.out", *options)
        return self.call("sbatch", "--parsable", *resources, SCRIPTS / script, *arguments).strip()

    def records(self, job):
        """What `scontrol show job` says: of an array a dictionary for each task that has begun, and one of the rest."""
        lines = self.call("scontrol", "--oneliner", "show", "job", job).splitlines()
        return [dict(word.split("=", 1) for word in line.split() if "=" in word) for line in lines if line]

    def tasks(self, array):
        """The tasks of an array that have begun, by their numbers in it."""
        return {int(facts["ArrayTaskId"]): facts for facts in self.records(array) if facts["ArrayTaskId"].isdigit()}

    def until(self, ready, job=None, seconds=PATIENCE):
        """Waits until ready() is true, and returns what it returned."""
        deadline = time.monotonic() + seconds
        while not (found := ready()):
            assert time.monotonic() < deadline, self.story(job) if job else "waited in vain"
            time.sleep(0.2)
        return found

    def wait(self, job, ready, seconds=PATIENCE):
        """Waits until `ready(facts)` of a job, or of each task of an array."""
        self.until(lambda: all(map(ready, self.records(job))), job, seconds)

    def idle(self):
        """Waits until nodes have nothing left of earlier jobs."""
        self.until(lambda: set(self.call("sinfo", "--noheader", "--format=%T").split()) == {"idle"})
        time.sleep(1)

    def ends(self, job, seconds=PATIENCE):
        """Waits for the end of a job and returns its state; of an array: of its tasks."""
        self.wait(job, lambda facts: facts["JobState"] in LAST, seconds)
        records = self.records(job)
        if "ArrayTaskId" in records[0]:
            return [self.tasks(job)[number]["JobState"] for number in sorted(self.tasks(job))]
        return records[0]["JobState"]

    def log(self, job):
        """What a job has said; of an array: what its tasks have."""
        paths = [Path(facts["StdOut"]) for facts in self.records(job)]
        return "".join(path.read_text() for path in paths if path.exists())

    def story(self, job):
        telling = ("JobId", "ArrayTaskId", "JobState", "Reason", "ExitCode", "Restarts", "NodeList")
        told = [" ".join(f"{name}={facts.get(name)}" for name in telling) for facts in self.records(job)]
        return "\n".join([*told, self.log(job)])

    def complete(self, job):
        """Waits for a job, or for all tasks of an array, to end well."""
        states = self.ends(job)
        assert set([states] if isinstance(states, str) else states) == {"COMPLETED"}, self.story(job)

    def release(self, job, *more):
        """Starts a requeued job, which Slurm would hold back for two minutes."""
        self.call("scontrol", "update", f"JobId={job}", "StartTime=now", *more)

    def tilerun(self, *arguments):
        return self.start(TILERUN, *arguments)

    def plain(self, job, output, *more):
        """The results of a job that one process does, without Slurm."""
        done = self.tilerun("run", job, "--device", "cpu", "-o", output, *more)
        assert done.returncode == 0, done.stderr
        return output

    def write_job(self, name, operations, **more):
        path = self.folder / f"{name}.yaml"
        path.write_text(json.dumps({"version": 1, "operations": operations, **more}, indent=1))
        return path


def outputs(path):
    """Every data set under /outputs of a complete file, by its path: type, shape, bytes."""
    found = {}

    def keep(name, item):
        if isinstance(item, h5py.Dataset):
            found[name] = (item.dtype, item.shape, item[()].tobytes())

    with h5py.File(path) as file:
        assert file.attrs["status"] == "complete"
        file["outputs"].visititems(keep)
    return found


def assert_same(path, plain):
    """The same outputs, bit for bit, and nothing left to do."""
    assert outputs(path) == outputs(plain)
    assert not Path(f"{path}.parts").exists()


def shards(path):
    """Where each shard ran, as the merged file says: attributes by the shard's name."""
    with h5py.File(path) as file:
        return {name: {key: str(value) for key, value in group.attrs.items()} for name, group in file["shards"].items()}


def kernel_seconds(path):
    with h5py.File(path) as file:
        return float(np.nansum(file["runs"]["kernel_median_s"]))
