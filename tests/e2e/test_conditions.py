"""What a run was measured on belongs to its row; a resumed job that mixes conditions says so."""

import csv
import os
import re
import subprocess

import h5py
import numpy as np
import pytest

import harness
from harness import OK

ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "SLURM_CPUS_PER_TASK"}
THREADS = int(re.search(r"(\d+) threads", harness.tilerun("devices", env=ENVIRONMENT).stdout)[1])

needs_two = pytest.mark.skipif(THREADS < 2, reason="one processor")


def job(folder, runs=3, repeat=150):
    scales = [{"id": f"s{i}", "op": "scale", "inputs": ["r"], "beta": i} for i in range(runs)]
    slow = {"id": "slow", "op": "matmul", "inputs": ["r", "r"], "variants": ["cpu"], "repeat": repeat}
    return harness.write_job(
        folder / "job.yaml", device="cpu", inputs={"r": {"random": {"shape": [160, 160]}}},
        defaults={"warmup": 0, "repeat": 1}, operations=[*scales, slow],
    )  # fmt: skip


def killed_after(folder, path, runs, environment):
    process = harness.start("run", path, "-o", folder / "out.h5", "--progress", "plain", "--resume", env=environment)
    for line in process.stderr:
        if line.startswith(f"[{runs}/"):
            break
    process.kill()
    process.communicate()


def test_columns_of_a_row(folder):
    results = harness.run_job(
        folder, device="cpu", inputs={"r": {"random": {"shape": [4, 4]}}},
        operations=[{"id": "y", "op": "scale", "inputs": ["r"], "variants": ["cpu"]}],
    )  # fmt: skip
    row = results.row("y")
    with h5py.File(results.path) as file:
        assert row["device_name"] == file["environment"].attrs.get("cpu", "CPU")
        assert "mixed_conditions" not in file.attrs
    assert row["threads"] == THREADS and np.isnan(row["sm_clock_mhz"])


@pytest.mark.gpu
def test_columns_of_a_row_on_a_gpu(folder):
    results = harness.run_job(
        folder, device="cuda", inputs={"r": {"random": {"shape": [512, 512]}}},
        operations=[{"id": "y", "op": "transpose", "inputs": ["r"], "variants": ["auto", "cpu"]}],
    )  # fmt: skip
    gpu, cpu = results.rows
    with h5py.File(results.path) as file:
        assert gpu["device_name"] == file["environment"].attrs["gpu_name"]
        assert cpu["device_name"] == file["environment"].attrs.get("cpu", "CPU")
        assert "mixed_conditions" not in file.attrs, "a CPU beside a GPU is no mix"
    assert gpu["threads"] == cpu["threads"] and not gpu["sm_clock_mhz"] <= 0


@needs_two
@pytest.mark.parametrize("done", [1, 2, 3])
def test_other_threads_after_resuming(folder, done):
    path = job(folder)
    killed_after(folder, path, done, ENVIRONMENT | {"SLURM_CPUS_PER_TASK": "1"})
    again = harness.tilerun("run", path, "-o", folder / "out.h5", "--resume", env=ENVIRONMENT, expect=OK)
    kept = again.stderr.count("(kept from before)")
    assert done <= kept < 4  # a short run may finish before the signal comes
    assert [row["threads"] for row in harness.Results(folder / "out.h5").rows] == [1] * kept + [THREADS] * (4 - kept)
    with h5py.File(folder / "out.h5") as file:
        mixed = file.attrs["mixed_conditions"]
    assert re.fullmatch(rf"(.+) with 1 thread; \1 with {THREADS} threads", mixed)
    assert f"measured under different conditions (columns of /runs): {mixed}\n" in again.stderr


@needs_two
def test_same_threads_after_resuming(folder):
    path = job(folder)
    killed_after(folder, path, 2, ENVIRONMENT)
    again = harness.tilerun("run", path, "-o", folder / "out.h5", "--resume", env=ENVIRONMENT)
    assert again.returncode == OK and "different conditions" not in again.stderr, again.stderr
    with h5py.File(folder / "out.h5") as file:
        assert "mixed_conditions" not in file.attrs


@pytest.mark.parametrize("fewer", [["device_name", "threads", "sm_clock_mhz"], ["threads"], ["sm_clock_mhz"]])
def test_files_with_fewer_columns_are_read(folder, fewer):
    """Those that an earlier version wrote."""
    path = job(folder, repeat=1)
    assert harness.tilerun("run", path, "-o", folder / "out.h5").returncode == OK
    shown = harness.tilerun("show", folder / "out.h5").stdout
    with h5py.File(folder / "out.h5", "r+") as file:
        table = file["runs"][:]
        del file["runs"]
        file["runs"] = table[[name for name in table.dtype.names if name not in fewer]]
    assert harness.tilerun("show", folder / "out.h5").stdout == shown
    done = subprocess.run(
        [harness.TILERUN, "show", folder / "out.h5", "--csv"], capture_output=True, text=True, check=True
    )
    for row in csv.DictReader(done.stdout.splitlines()):
        assert row["sm_clock_mhz"] == "" and row["status"] == "ok"
        assert row["threads"] == ("0" if "threads" in fewer else str(THREADS))
        assert (row["device_name"] == "") == ("device_name" in fewer)
    resumed = harness.tilerun("run", path, "-o", folder / "out.h5", "--resume")
    assert resumed.returncode == OK and "nothing to do" in resumed.stderr
