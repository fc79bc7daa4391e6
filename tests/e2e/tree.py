"""Builds a copy of the source tree with a few more kernels in it, reusing the objects of the build under test."""

import os
import re
import shutil
import subprocess

import pytest

from harness import ROOT, TILERUN, tilerun


def has_cuda():
    """Was the program under test built with CUDA?"""
    return "no CUDA" not in tilerun("--version").stdout


def has_gpu():
    return any(line.startswith("cuda:") for line in tilerun("devices").stdout.splitlines())


def copy_tree(folder):
    """The sources and the objects, with their times, so that make finds nothing to do."""
    if not (TILERUN.parent / "kernels/core/registry.c.o").exists():
        pytest.skip("the objects that the program was linked from are not beside it")
    for part in ("runner", "kernels"):
        shutil.copytree(ROOT / part, folder / part)
        shutil.copytree(TILERUN.parent / part, folder / "build" / part)
    shutil.copy2(ROOT / "Makefile", folder)
    return folder


def register(tree, lines, after=None):
    """Adds lines to the copy's table of contents, at the end or after one that is there."""
    path = tree / "kernels/core/registry.def"
    text = path.read_text()
    if after:
        assert after + "\n" in text
        path.write_text(text.replace(after + "\n", after + "\n" + "\n".join(lines) + "\n"))
    else:
        path.write_text(text + "\n".join(lines) + "\n")


def make(tree, *words):
    """Builds what is new and links, with these words for make too."""
    (tree / "build/kernels/core/registry.c.o").unlink(missing_ok=True)
    gpu = re.search(r"compute capability (\d+)\.(\d)", tilerun("devices").stdout)
    words = [*words, f"CUDA={int(has_cuda())}", "BUILD=build", f"CUDA_ARCHS={gpu[1] + gpu[2] if gpu else '80'}"]
    if "sanitize" in TILERUN.parent.name:
        words.append("SANITIZE=1")
    # The other objects do not care that new kernels are built for one architecture, without what `make test` was given.
    old = [word for file in ("build/cc.flags", "build/nvcc.flags") for word in ("-o", file)]
    command = ["make", f"-j{os.cpu_count()}", *old, *words, "build/tilerun"]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MAKE") and key != "MFLAGS"}
    for key in ("HDF5_DIR", "YAML_DIR"):  # as given to the make that runs the tests: relative to the tree
        if environment.get(key):
            environment[key] = str(ROOT / environment[key])
    return subprocess.run(
        command, cwd=tree, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
