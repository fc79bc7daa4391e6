"""What a machine allows: drawn limits of stacks, files, processes and memory, OpenMP's variables, and CPU quotas."""

import contextlib
import os
import re
import resource
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest

import harness

ENDS = {harness.OK, harness.RUN, harness.USAGE, harness.IO, harness.DEVICE}
LOADER = 127  # the dynamic loader has said why: the program has not begun


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("limits")
    values = np.random.default_rng().integers(0, 9, (300, 300)).astype(np.float32)
    with h5py.File(folder / "x.h5", "w") as file:
        file.create_dataset("x", data=values, chunks=(50, 50), compression="gzip")
    harness.write_job(
        folder / "job.yaml",
        device="cpu",
        sync=False,
        inputs={"x": {"file": "x.h5", "dataset": "x"}},
        defaults={"warmup": 0, "repeat": 1},
        operations=[
            {"id": "product", "op": "matmul", "inputs": ["x", "x"], "variants": ["blocked", "cpu"]},
            {"id": "sum", "op": "reduce", "operator": "sum", "axis": 1, "inputs": ["x"]},
            {"id": "wave", "op": "map", "expression": "exp(x)", "inputs": ["x"]},
        ],
    )
    harness.tilerun("run", folder / "job.yaml", "-o", folder / "before.h5", expect=harness.OK)
    return folder


def under(place, *limits, **environment):
    """Runs, shows and compares under (kind, soft, hard) limits; the exit codes are documented, with a sentence."""
    def lower():
        for kind, soft, hard in limits:
            resource.setrlimit(kind, (soft, hard))

    codes = []
    for words in (
        ["run", "job.yaml", "-o", "out.h5", "--overwrite"],
        ["show", "before.h5"],
        ["compare", "before.h5", "before.h5"],
    ):
        done = harness.tilerun(
            *words, cwd=place, env={**os.environ, **environment}, preexec_fn=lower if limits else None, timeout=120
        )
        if "AddressSanitizer" in done.stderr:
            pytest.skip("AddressSanitizer needs more than the limit leaves")
        assert done.returncode in ENDS or done.returncode == LOADER and "shared" in done.stderr, (words, limits, done)
        assert done.returncode == harness.OK or done.stderr.strip(), (words, limits, environment)
        codes.append(done.returncode)
    return codes


def drawn(least, most, count):
    rng = np.random.default_rng(list(harness.SAMPLE_SEED.encode()))  # all workers of a run must draw the same
    return [int(value) for value in rng.integers(least, most, count)]


@pytest.mark.parametrize("count", ["100000", "1000000", "0", "-1", "text", "9" * 20, "1,2", "", *drawn(1, 10**6, 1)])
@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "OMP_THREAD_LIMIT"])
def test_numbers_of_threads(place, name, count):
    assert under(place, **{name: str(count)})[0] == harness.OK


@pytest.mark.parametrize("size", ["0", "-1", "text", "1B", "16K", "64K", "100G", "1000T", *drawn(1, 512, 2)])
def test_stacks_of_openmp(place, size):
    under(place, OMP_STACKSIZE=str(size))


@pytest.mark.parametrize("size", ["20000B", "20K", " 32 k ", *drawn(16, 511, 3)])
def test_small_stacks_of_openmp_become_larger(place, size):
    assert set(under(place, OMP_STACKSIZE=str(size))) == {harness.OK}


@pytest.mark.parametrize("size", [64, 128, 511, 512, 1024, *drawn(48, 1500, 3)])
def test_stacks(place, size):
    """A hard limit under 512 KiB is said, with code 2; a soft one is raised."""
    codes = under(place, (resource.RLIMIT_STACK, size << 10, size << 10))
    assert set(codes) == {harness.USAGE if size < 512 else harness.OK}
    assert set(under(place, (resource.RLIMIT_STACK, size << 10, resource.getrlimit(resource.RLIMIT_STACK)[1]))) == {0}


@pytest.mark.skipif(not shutil.which("readelf"), reason="no readelf")
def test_stacks_with_musl():
    """musl reads the size of threads' stacks in the program; the kernels overflow its default of 128 KiB."""
    headers = harness.quiet("-lW", harness.TILERUN, program="readelf")
    assert int(re.search(r"GNU_STACK +(\S+ +){4}(\S+)", headers)[2], 16) == 8 << 20


@pytest.mark.parametrize("files", [3, 4, 5, 6, 7, *drawn(8, 21, 3)])
def test_open_files(place, files):
    under(place, (resource.RLIMIT_NOFILE, files, files))


@pytest.mark.parametrize("mebibytes", sorted(drawn(30, 800, 5)))
def test_address_space(place, mebibytes):
    if mebibytes << 20 < harness.TILERUN.stat().st_size + (16 << 20):
        pytest.skip("the program's file is as large: the kernel ends it before it begins")
    under(place, (resource.RLIMIT_AS, mebibytes << 20, mebibytes << 20))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may start any number of processes")
@pytest.mark.parametrize("processes", [0, 1, 2, 3, 4, 5, 8, 16])
def test_processes(place, processes):
    under(place, (resource.RLIMIT_NPROC, processes, processes))


@contextlib.contextmanager
def group(controller, **limits):
    """A control group of version 1 with limits; what makes a process join one inside it."""
    outer = Path(f"/sys/fs/cgroup/{controller}/tilerun-{os.getpid()}")
    if not (outer.parent / "cgroup.procs").exists():
        pytest.skip("no control groups of version 1")
    try:
        (outer / "inner").mkdir(parents=True)
    except OSError as error:
        pytest.skip(f"no control group can be made: {error}")
    try:
        for name, value in limits.items():
            (outer / f"{controller}.{name}").write_text(str(value))
        yield lambda: (outer / "inner/cgroup.procs").write_text(str(os.getpid()))
    finally:
        (outer / "inner").rmdir()
        outer.rmdir()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor")
def test_quotas_count_like_processors():
    """A quota of the parent of the program's control group (v1; test_host.c has both versions)."""
    with group("cpu", cfs_quota_us=100000) as join:
        done = harness.tilerun("devices", env={**os.environ, "CUDA_VISIBLE_DEVICES": ""}, preexec_fn=join)
        assert re.search(r"(\d+) threads?$", done.stdout, re.M)[1] == "1", done.stdout


@pytest.mark.parametrize("mebibytes", [40, 60, 100, 150])
def test_a_small_control_group_does_not_end_a_job(tmp_path, mebibytes):
    harness.write_job(
        tmp_path / "job.yaml", device="cpu", sync=False, defaults={"warmup": 0, "repeat": 1, "compression": "gzip"},
        inputs={"x": {"random": {"shape": [3000, 4000]}}}, operations=[{"id": "t", "op": "transpose", "inputs": ["x"]}],
    )
    with group("memory", limit_in_bytes=mebibytes << 20) as join:
        done = harness.run_folder(tmp_path, expect=(harness.OK, harness.RUN, harness.IO), preexec_fn=join)
    assert done.returncode == harness.OK or "memory" in done.stderr


def test_a_current_folder_whose_name_hdf5_cannot_hold(tmp_path, monkeypatch):
    """HDF5 has room for 1,023 bytes of it."""
    monkeypatch.chdir(tmp_path)
    for _ in range(5):
        os.mkdir("long" * 60)
        os.chdir("long" * 60)
    harness.write_arrays("x.h5", x=np.ones((3, 4)))
    assert "/x" in harness.quiet("inspect", "x.h5")
    total = {"id": "total", "op": "reduce", "inputs": ["x"], "operator": "sum", "axis": "all"}
    job = harness.write_job(Path("job.yaml"), inputs={"x": {"file": "x.h5", "dataset": "x"}}, operations=[total])
    harness.tilerun("run", job, "-o", "out.h5", expect=harness.OK)
    assert harness.Results("out.h5").output("total") == 12
