"""Makes a system call of the program fail, or kills the program there: fault_shim.c."""

import os
import shutil
import subprocess

import pytest

from harness import ROOT


def build_shim(folder, name, *flags):
    """A library to be preloaded, or opened."""
    if not shutil.which("cc"):
        pytest.skip("no C compiler")
    library = folder / f"{name}.so"
    source = ROOT / f"tests/e2e/{name}.c"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", *flags, "-o", library, source, "-ldl"], check=True)
    return library


@pytest.fixture(scope="session")
def shim(memory_folder):
    return build_shim(memory_folder, "fault_shim")


def environment(shim, count, call="any", nth=0, mode="once", number=0):
    """For a process whose nth such call on the output or its parts fails, with errno `number`, or kills it; the file
    `count` gets how many there were."""
    return os.environ | {
        "LD_PRELOAD": str(shim), "FAULT_CALL": call, "FAULT_NTH": str(nth), "FAULT_ERRNO": str(number),
        "FAULT_MODE": mode, "FAULT_PATH": "out.h5", "FAULT_COUNT": str(count),
    }  # fmt: skip
