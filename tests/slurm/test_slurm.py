"""configs/slurm/run.sbatch on a real Slurm: a plain job, one whose time runs out, one that is cancelled."""

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
CLUSTER = ROOT / "tests/slurm/cluster.sh"
SCRIPT = ROOT / "configs/slurm/run.sbatch"
JOB = ROOT / "configs/quickstart.yaml"
TILERUN = Path(os.environ.get("TILERUN", ROOT / "build/tilerun")).resolve()

DAEMONS = ("munged", "slurmctld", "slurmd", "sbatch")
SEARCH = os.environ["PATH"] + ":/usr/sbin:/sbin"

# Slurm looks at time limits every 30 s, and warns at the first look that finds no more than the lead and 30 s left:
# under a limit of one minute with a lead of 20 s that is 10 to 40 s after the start.
LIMIT = ("--time=1", "--signal=B:USR2@20")
WARNED_AFTER = 40  # s, at most
WORK = 50  # s of kernels that the warning is sure to find unfinished


class Cluster:
    def __init__(self, folder):
        self.folder = folder
        self.environment = {
            **os.environ,
            "SLURM_CONF": str(folder / "slurm.conf"),
            "TILERUN": str(TILERUN),
            "TILERUN_DEVICE": "cpu",
        }

    def call(self, *command):
        done = subprocess.run(
            [str(word) for word in command], env=self.environment, cwd=self.folder, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    def submit(self, *arguments, options=()):
        """Submits the quickstart with run.sbatch and returns the number of the job."""
        resources = ("--cpus-per-task=2", "--mem=1G", "--output=%j.out")
        return self.call("sbatch", "--parsable", *resources, *options, SCRIPT, JOB, *arguments).strip()

    def facts(self, job):
        """What `scontrol show job` says, as a dictionary."""
        words = self.call("scontrol", "--oneliner", "show", "job", job).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def wait(self, job, seconds, ready):
        """Waits until `ready(facts)`; returns the facts."""
        deadline = time.monotonic() + seconds
        while not ready(facts := self.facts(job)):
            assert time.monotonic() < deadline, f"{facts}\n{self.log(job)}"
            time.sleep(0.2)
        return facts

    def idle(self, seconds):
        """Waits until the node has nothing left of earlier jobs."""
        deadline = time.monotonic() + seconds
        while (state := self.call("sinfo", "--noheader", "--format=%T").strip()) != "idle":
            assert time.monotonic() < deadline, state
            time.sleep(0.2)
        time.sleep(1)

    def finish(self, job, seconds):
        """Waits for the end of a job and returns its state."""
        last = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")
        return self.wait(job, seconds, lambda facts: facts["JobState"] in last)["JobState"]

    def log(self, job):
        path = self.folder / f"{job}.out"
        return path.read_text() if path.exists() else ""


@pytest.fixture(scope="module")
def cluster():
    if os.geteuid() != 0:
        pytest.skip("a private Slurm needs root")
    missing = [name for name in DAEMONS if not shutil.which(name, path=SEARCH)]
    if missing:
        pytest.skip(f"no {', '.join(missing)} (Debian: slurmctld slurmd munge slurm-client)")
    folder = Path(tempfile.mkdtemp(prefix="tilerun-slurm-"))  # munge wants a folder that everybody may enter
    try:
        subprocess.run([CLUSTER, "up", folder], check=True, timeout=60)
        yield Cluster(folder)
    finally:
        subprocess.run([CLUSTER, "down", folder], check=True, timeout=60)
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def quickstart(cluster):
    """The quickstart's results, made by one job that nothing disturbed."""
    output = cluster.folder / "plain.h5"
    job = cluster.submit("-o", output)
    assert cluster.finish(job, 120) == "COMPLETED", cluster.log(job)
    return output


def outputs(path):
    """Every data set under /outputs, by its path."""
    found = {}
    with h5py.File(path) as file:
        assert file.attrs["status"] == "complete"
        file["outputs"].visititems(lambda name, item: found.update({name: item[()]} if hasattr(item, "shape") else {}))
    return found


def repeats_for(path, seconds):
    """How often every kernel of a job must be timed so that the job takes about that long."""
    with h5py.File(path) as file:
        return int(np.ceil(seconds / np.nansum(file["runs"]["kernel_median_s"])))


def test_runs_to_completion(quickstart):
    assert {"gram", "means"} <= outputs(quickstart).keys()


def test_time_limit_requeues_and_resumes(cluster, quickstart):
    output = cluster.folder / "warned.h5"
    parts = Path(f"{output}.parts")
    repeats = repeats_for(quickstart, WORK)
    job = cluster.submit("-o", output, "--set", f"repeat={repeats}", options=LIMIT)

    cluster.wait(job, WARNED_AFTER + 30, lambda facts: facts["Restarts"] == "1" and facts["JobState"] == "PENDING")
    assert "back into the queue" in cluster.log(job)
    assert not output.exists()
    kept = {part: part.stat().st_mtime_ns for part in parts.glob("*.h5")}
    assert kept, "nothing was finished before the warning"

    # A requeued job is held back for two minutes, which is for its node to clear up after the first turn. The second
    # turn is given time enough to finish.
    cluster.idle(30)
    cluster.call("scontrol", "update", f"JobId={job}", "StartTime=now", "TimeLimit=10")
    cluster.wait(job, 30, lambda facts: facts["JobState"] != "PENDING")
    time.sleep(2)
    again = [part.name for part in kept if part.exists() and part.stat().st_mtime_ns != kept[part]]
    assert not again, "the second turn did finished work again"

    assert cluster.finish(job, 3 * WORK) == "COMPLETED", cluster.log(job)
    expected, resumed = outputs(quickstart), outputs(output)
    assert expected.keys() == resumed.keys()
    for name, values in expected.items():
        assert resumed[name].dtype == values.dtype
        np.testing.assert_array_equal(resumed[name], values, err_msg=name)
    assert not parts.exists()


def test_cancelled_stays_cancelled(cluster, quickstart):
    output = cluster.folder / "cancelled.h5"
    job = cluster.submit("-o", output, "--set", f"repeat={repeats_for(quickstart, WORK)}")
    parts = Path(f"{output}.parts")
    cluster.wait(job, 30, lambda facts: any(parts.glob("*.h5")))
    cluster.call("scancel", job)
    assert cluster.finish(job, 30) == "CANCELLED", cluster.log(job)
    time.sleep(1)
    assert cluster.facts(job)["JobState"] == "CANCELLED"
    assert not output.exists() and any(parts.glob("*.h5"))
