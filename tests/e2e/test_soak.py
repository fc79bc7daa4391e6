"""`make soak` for ten seconds; and what it says of a process that leaks."""

import os
import re
import subprocess
import sys

import harness
import pytest

LEAKING = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
int rename(const char *from, const char *to) {
    if (getenv("LEAK_MEMORY")) memset(malloc(8192), 1, 8192);
    if (getenv("LEAK_HANDLES")) open("/dev/null", O_RDONLY);
    return ((int (*)(const char *, const char *))dlsym(RTLD_NEXT, "rename"))(from, to);
}
"""


def soak(*arguments, **variables):
    command = [sys.executable, harness.ROOT / "tests/soak.py", harness.TILERUN, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | variables, timeout=300)


def test_five_seconds():
    done = soak(5 / 3600, os.environ.get("TILERUN_SEED", "1"))
    assert done.returncode == 0, done.stdout + done.stderr
    line = r"soak: \d+ jobs, \d+ runs, 0 failures in \d+ s; most that a run added: memory \S+ bytes, handles \S+, .*\n"
    assert re.fullmatch(line, done.stdout), done.stdout


@pytest.mark.parametrize("what", ["memory", "handles"])
def test_a_leak_is_found(folder, what):
    """A part is renamed once a run."""
    (folder / "leak.c").write_text(LEAKING)
    shim = folder / "leak.so"
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o", shim, folder / "leak.c"], check=True)
    done = soak(0, 1, 0, LD_PRELOAD=str(shim), **{f"LEAK_{what.upper()}": "1"})
    assert done.returncode == 1 and f"SEED=1 ROUND=0 (watched): {what} grows by " in done.stdout, done.stdout
