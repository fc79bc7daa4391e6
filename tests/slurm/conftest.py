"""A Slurm of three nodes for all tests in this folder, which are skipped where it cannot be."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from slurm import CLUSTER, Cluster

DAEMONS = ("munged", "slurmctld", "slurmd", "sbatch")
SEARCH = os.environ["PATH"] + ":/usr/sbin:/sbin"


@pytest.fixture(scope="session")
def cluster():
    if os.geteuid() != 0:
        pytest.skip("a private Slurm needs root")
    missing = [name for name in DAEMONS if not shutil.which(name, path=SEARCH)]
    if missing:
        pytest.skip(f"no {', '.join(missing)} (Debian: slurmctld slurmd munge slurm-client)")
    folder = Path(tempfile.mkdtemp(prefix="tilerun-slurm-"))  # munge wants a folder that everybody may enter
    try:
        subprocess.run([CLUSTER, "up", folder], check=True, timeout=600)
        cluster = Cluster(folder)
        cluster.tilerun("devices", "--measure")  # else each shard would
        yield cluster
    finally:
        subprocess.run([CLUSTER, "down", folder], check=True, timeout=600)
        shutil.rmtree(folder)
