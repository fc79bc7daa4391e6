"""What fuzzing has found (tests/fuzz/found): each file is read or refused, with a documented exit code and one sentence."""

import os
import subprocess

import h5py
import pytest

import harness
from harness import IO, OK, USAGE

FOUND = sorted((harness.ROOT / "tests/fuzz/found").glob("*/*"))


@pytest.mark.parametrize("path", FOUND, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_found(folder, path):
    command = {"input": ["inspect"], "results": ["show"], "job": ["check"]}[path.parent.name]
    done = harness.tilerun(*command, path, cwd=folder, timeout=50)
    assert done.returncode in (OK, USAGE, IO), done.stderr
    lines = [line for line in done.stderr.splitlines() if not line.startswith("*** ")]  # of the C library
    if path.parent.name == "job":
        lines = [line for line in lines if line.startswith(str(path))]  # below each the place in the file is shown
        assert bool(lines) == (done.returncode != OK), done.stderr
    else:
        assert len(lines) == (done.returncode != OK), done.stderr


CRASHING = """
int H5Lvisit(long group, int index, int order, void *each, void *to) {
    (void)group, (void)index, (void)order, (void)each, (void)to;
    *(volatile int *)8 = 0;
    return 0;
}
"""


def test_a_crash_names_the_file(folder):
    """A library that crashes while it reads: here one that does so on purpose, in HDF5's place."""
    (folder / "crash.c").write_text(CRASHING)
    shim = folder / "crash.so"
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o", shim, folder / "crash.c"], check=True)
    with h5py.File(folder / "in.h5", "w") as file:
        file["x"] = [1.0]
    done = harness.tilerun("inspect", "in.h5", cwd=folder, env={**os.environ, "LD_PRELOAD": str(shim)})
    words = "tilerun: in.h5: the HDF5 library crashed reading this file, which is damaged or made to do harm\n"
    assert (done.returncode, done.stderr) == (IO, words)
