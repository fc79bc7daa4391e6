"""A job, its inputs, and files as earlier runs leave them: what the tests of places (test_places*.py) begin with."""

import os
import resource
import shutil
import stat

import h5py
import numpy as np
import pytest

import harness
from harness import IO, OK

X = np.arange(12.0, dtype="f4").reshape(4, 3)
FLAGS = [(), ("--resume",), ("--overwrite",), ("--resume", "--overwrite")]


def write_job(folder, alpha=2):
    """A job and its inputs: `small` is finished and kept where `large` finds no room; X is behind an external link."""
    harness.write_arrays(folder / "far.h5", x=X)
    harness.write_arrays(folder / "in.h5", x=h5py.ExternalLink("far.h5", "x"))
    return harness.write_job(
        folder / "job.yaml",
        device="cpu",
        inputs={
            "x": {"file": "in.h5", "dataset": "x"},
            "r": {"random": {"shape": [200, 300]}},
        },
        defaults={"warmup": 0, "repeat": 1},
        operations=[
            {"id": "small", "op": "scale", "inputs": ["x"], "alpha": alpha, "variants": ["cpu"]},
            {"id": "large", "op": "scale", "inputs": ["r"], "variants": ["cpu"]},
        ],
    )


def run(folder, *arguments, job="job.yaml", **options):
    return harness.tilerun("run", job, "-o", "out.h5", "--progress", "none", *arguments, cwd=folder, **options)


def without_room():
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))


@pytest.fixture(scope="session")
def made(memory_folder):
    """Files as earlier runs leave them: complete results of this job and of another, a finished part, a trace."""
    folder = memory_folder / "places"
    folder.mkdir()
    write_job(folder, alpha=3)
    assert run(folder).returncode == OK
    (folder / "out.h5").rename(folder / "others.h5")
    write_job(folder)
    assert run(folder, preexec_fn=without_room).returncode == IO
    (folder / "out.h5.parts").rename(folder / "parts")
    assert len(list((folder / "parts").iterdir())) == 1
    assert run(folder, "--trace", "trace.json").returncode == OK
    (folder / "out.h5").rename(folder / "own.h5")
    (folder / "truncated.h5").write_bytes((folder / "own.h5").read_bytes()[:3000])
    (folder / "text.txt").write_text("my thesis\n")
    return folder


def snapshot(folder):
    """Every name below a folder: what it is, its mode, what it holds or leads to."""
    found = {}
    for path in sorted(folder.rglob("*")):
        about = path.lstat()
        kind = stat.S_IFMT(about.st_mode)
        holds = path.read_bytes() if kind == stat.S_IFREG else os.readlink(path) if kind == stat.S_IFLNK else None
        found[str(path.relative_to(folder))] = (kind, about.st_mode & 0o7777, holds)
    return found


def two_names(made, path):
    shutil.copy(made / "text.txt", path.parent / "other-name.txt")
    os.link(path.parent / "other-name.txt", path)
