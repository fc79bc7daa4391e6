"""What the end-to-end tests share: the program must be there, GPU tests are skipped without one, folders are quick."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest

import harness
from faults import shim  # noqa: F401 (a fixture)
from places import made  # noqa: F401 (a fixture)
from power import power_shim  # noqa: F401 (a fixture)


def pytest_configure(config):
    # Hundreds of runs of microseconds: threads that spin while they wait would take the cores from those that work.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("TILERUN_LOAD", "ignore")  # the tests beside it are load: test_busy.py sets this back
    os.environ["COLUMNS"] = ""  # the C library's, which os.environ may not know: readline sets it behind Python's back
    del os.environ["COLUMNS"]  # tables then are as a pipe gets them
    config.addinivalue_line("markers", "gpu: needs a CUDA GPU that the program can use")
    config.addinivalue_line("markers", "timings: needs the GPU to itself; `make test` runs these last, one at a time")
    config.addinivalue_line("markers", "packages: needs other people's packages or files, which `make real` brings")
    config.addinivalue_line("markers", "xdist_group: on one worker, where pytest-xdist runs tests with --dist loadgroup")
    if not harness.TILERUN.exists():
        pytest.exit(f"{harness.TILERUN} is not there: `make` first, or set TILERUN", returncode=4)
    keep_limits_here(config)


def keep_limits_here(config):
    """Measured limits belong to the session: the user's are not touched, and one measurement serves all tests. Workers
    of pytest-xdist inherit them."""
    if hasattr(config, "workerinput"):
        return
    folder = tempfile.mkdtemp(prefix="tilerun-cache-")
    os.environ["XDG_CACHE_HOME"] = folder
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    harness.tilerun("devices", "--measure")


HOST_ONLY = {
    "test_bad_input",
    "test_cli",
    "test_layouts",
    "test_log_lines",
    "test_old_results",
    "test_plan_predictions",
    "test_plan_shards",
    "test_plan_table",
    "test_random",
    "test_rawread_layouts",
    "test_small_work",
    "test_swept_threads",
}  # but for tests marked `gpu`: half a second a process without a GPU to open


@pytest.fixture(autouse=True)
def no_gpu_where_none_is_tested(request, monkeypatch):
    if request.module.__name__ in HOST_ONLY and not request.node.get_closest_marker("gpu"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: not item.get_closest_marker("xdist_group"))  # a group has one worker: none is the last
    if not any(item.get_closest_marker("gpu") for item in items):
        return
    if any(line.startswith("cuda:") for line in harness.tilerun("devices").stdout.splitlines()):
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="no GPU"))


@pytest.fixture(scope="session")
def memory_folder():
    """A folder in memory where there is one, for jobs of hundreds of runs, each of which writes a file."""
    parent = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="tilerun-", dir=parent if os.access(parent, os.W_OK) else None))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def folder(memory_folder):
    """A fresh one for each test."""
    path = Path(tempfile.mkdtemp(dir=memory_folder))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def mount(folder):
    """Mounts as the command line says, for one test; skipped where nothing can be mounted."""
    mounted = []

    def do(*arguments):
        command = ["mount", *map(str, arguments)]
        if os.geteuid() != 0 or not shutil.which("mount") or subprocess.run(command, capture_output=True).returncode:
            pytest.skip("nothing can be mounted here")
        mounted.append(arguments[-1])

    yield do
    for path in reversed(mounted):
        subprocess.run(["umount", "-l", str(path)], check=True)


@pytest.fixture
def small_disk(folder, mount, request):
    """A file system of its own in memory, as large as the module's DISK says."""
    path = folder / "disk"
    path.mkdir()
    mount("-t", "tmpfs", "-o", f"size={request.module.DISK}", "tilerun-test", path)
    return path


@pytest.fixture
def rng():
    """Fresh data every time; pytest prints the seed of a test that fails, and TILERUN_SEED repeats it."""
    seed = int(os.environ.get("TILERUN_SEED") or int.from_bytes(os.urandom(4), "little"))
    print(f"seed {seed}")
    return np.random.default_rng(seed)
