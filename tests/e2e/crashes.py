"""A library that makes calls of HDF5 crash (crash_shim.c)."""

import os
import platform
import re
import shutil
import subprocess

import pytest

import faults
import harness


def imported():
    """The functions of HDF5 that the program calls."""
    symbols = subprocess.run(["nm", "-D", "--undefined-only", harness.TILERUN], capture_output=True, text=True, check=True)
    return sorted(set(re.findall(r"\bU (H5\w+)", symbols.stdout)))


def build_shim(folder):
    if platform.machine() != "x86_64" or not shutil.which("nm"):
        pytest.skip("the library is written for x86-64, and needs nm")
    lines = (f"CRASHING({number}, {name})\n" for number, name in enumerate(imported()))
    (folder / "crash_names.h").write_text("".join(lines))
    return faults.build_shim(folder, "crash_shim", f"-I{folder}")


def environment(shim, count, call="", nth=0, how="here"):
    return {
        **os.environ, "LD_PRELOAD": str(shim), "CRASH_COUNT": str(count), "CRASH_CALL": call, "CRASH_NTH": str(nth),
        "CRASH_HOW": how,
    }  # fmt: skip


def counts(path):
    """How often each function was called."""
    return {name: int(number) for name, number in (line.split() for line in path.read_text().splitlines())}
