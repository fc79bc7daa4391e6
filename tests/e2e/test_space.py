"""A job whose files cannot fit is refused before anything is computed, by check, plan and run alike."""

import os
import re
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest

import harness

UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def job_of(folder, operations, rows, columns, **more):
    return harness.write_job(
        folder / "job.yaml",
        device="cpu",
        sync=False,
        inputs={"x": {"random": {"shape": [rows, columns], "dtype": "uint8", "distribution": "index"}}},
        operations=operations,
        output=str(folder / "out.h5"),
        **more,
    )


def told(words):
    """Bytes needed and free, as the message has them."""
    found = re.search(r"needs ([\d.]+) (\w+) in (\S+), but only ([\d.]+) (\w+) are free", words)
    assert found, words
    return float(found[1]) * UNITS[found[2]], float(found[4]) * UNITS[found[5]], found[3]


def transposes(count, **options):
    return [
        {"id": f"t{i}", "op": "transpose", "inputs": [f"t{i - 1}" if i else "x"], "variants": ["blocked"], **options}
        for i in range(count)
    ]


@pytest.mark.parametrize("command", ["check", "plan", "run"])
def test_too_large_is_refused(folder, command):
    free = shutil.disk_usage(folder).free
    job = job_of(folder, transposes(1), 2**20, 3 * free // 2**20)
    done = harness.tilerun(command, job, expect=harness.USAGE)
    needed, available, place = told(done.stderr)
    assert Path(place) == folder
    assert 2.9 * free < needed < 3.1 * free and 0.5 * free < available < 2 * free
    assert sorted(os.listdir(folder)) == ["job.yaml"]


# What a job of n outputs of one size takes at most, in outputs: those kept, and the copies of all but the largest.
SHAPES = {
    "one": (transposes(1), 1),
    "chain of three": (transposes(3), 3 + 2),
    "two variants, first": (transposes(1, variants=["cpu", "blocked"]), 2),
    "two variants, all": (transposes(1, variants=["cpu", "blocked"], store="all"), 2 + 1),
    "a skipped variant, all": (transposes(1, variants=["cpu", "padded"], store="all"), 1),
    "a skipped variant, then two, all": (transposes(1, variants=["padded", "cpu", "blocked"], store="all"), 2 + 1),
    "not stored, verified": (transposes(1, store="none"), 1),
    "not stored, not read, not verified": (transposes(1, store="none", verify="none"), 0),
    "not stored, read": (transposes(2, store="none"), 2),
    "compressed": (transposes(1, compression="gzip"), 1 / 1032),
    "in other folders of the disk": ([one | {"to": f"{one['id']}/own.h5:/t"} for one in transposes(3)], 3 + 2),
}


@pytest.mark.parametrize("name", SHAPES)
def test_the_sum_is_right(folder, name):
    """Refused with that much more than is free, accepted with that much less."""
    operations, outputs = SHAPES[name]
    for i in range(3):
        (folder / f"t{i}").mkdir()
    free = shutil.disk_usage(folder).free
    rows = 2**12
    if outputs:
        done = harness.tilerun("check", job_of(folder, operations, rows, int(1.5 * free / outputs / rows)))
        assert done.returncode == harness.USAGE, name
        needed, _, _ = told(done.stderr)
        assert 1.4 * free < needed < 1.6 * free
    harness.tilerun(
        "check", job_of(folder, operations, rows, int(0.6 * free / max(outputs, 0.01) / rows)), expect=harness.OK
    )


def test_results_on_another_disk(folder, tmp_path):
    """What `to` writes to another file system needs room there too: of two files there the sum."""
    large, small = sorted((folder, tmp_path), key=lambda place: -shutil.disk_usage(place).free)
    free = shutil.disk_usage(small).free
    if os.stat(large).st_dev == os.stat(small).st_dev or shutil.disk_usage(large).free < 1.3 * free:
        pytest.skip("one file system, or two of a size")
    operations = [{"id": name, "op": "transpose", "inputs": ["x"], "to": f"{small}/{name}.h5:/t"} for name in "ab"]
    for share, expected in ((0.53, harness.USAGE), (0.4, harness.OK)):
        done = harness.tilerun("check", job_of(large, operations, 2**12, int(share * free / 2**12)))
        assert done.returncode == expected, done.stderr
        if expected == harness.OK:
            continue
        found = re.search(r"results that `to` puts into (\S+) need ([\d.]+) (\w+), ", done.stderr)
        assert found and Path(found[1]) == small, done.stderr
        assert free < float(found[2]) * UNITS[found[3]] < 1.15 * free


DISK = "48m"


def test_a_disk_that_fills_in_the_middle(small_disk):
    """Something else takes the room after the job has begun: exit 3, and what was finished is kept for --resume."""
    operations = [
        {"id": "small", "op": "transpose", "inputs": ["x"], "variants": ["blocked"]},
        {"id": "slow", "op": "scale", "inputs": ["x"], "variants": ["cpu"], "repeat": 300, "store": "none"},
        {"id": "large", "op": "transpose", "inputs": ["x"], "variants": ["blocked"]},
    ]
    job = job_of(small_disk, operations, 2**12, 2**11, defaults={"warmup": 0, "repeat": 1, "verify": "none"})
    process = harness.start("run", job)
    while not list(small_disk.glob("out.h5.parts/*.h5")):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGSTOP)  # however long this takes
    (small_disk / "other").write_bytes(b"x" * (36 << 20))
    process.send_signal(signal.SIGCONT)
    words = process.communicate(timeout=120)[1]
    assert process.returncode == harness.IO, words
    assert "large blocked needs 8.0 MiB" in words
    (small_disk / "other").unlink()
    done = harness.tilerun("run", job, "--resume", expect=harness.OK)
    assert done.stderr.count("kept from before") == 2
    expected = np.arange(2**12 * 2**11).astype(np.uint8).reshape(2**12, -1).T
    np.testing.assert_array_equal(harness.Results(small_disk / "out.h5").output("large"), expected)


def test_parts_that_are_there_count(small_disk):
    """A job that just fits is not refused when it resumes."""
    job = job_of(small_disk, transposes(2), 2**12, 2700, defaults={"warmup": 0, "repeat": 1})
    assert harness.tilerun("run", job, "--only", "t0").returncode == harness.OK
    (small_disk / "out.h5").unlink()
    parts = small_disk / "out.h5.parts"
    parts.mkdir(exist_ok=True)
    (parts / ("0" * 32 + ".h5")).write_bytes(b"x" * (12 << 20))
    (small_disk / "other").write_bytes(b"x" * (4 << 20))
    assert harness.tilerun("check", job).returncode == harness.OK


def test_what_shards_have_written_counts(small_disk):
    """A job that just fits is refused to none of its shards, however many have written already, nor to `merge`."""
    operations = [{"id": f"t{i}", "op": "transpose", "inputs": ["x"], "variants": ["blocked"]} for i in range(5)]
    job = job_of(small_disk, operations, 2**12, 2**10, defaults={"warmup": 0, "repeat": 1})
    for index in range(5):
        harness.tilerun("run", job, "--shard", f"{index}/5", expect=harness.OK)
    harness.tilerun("merge", small_disk / "out.h5", expect=harness.OK)
    assert len(harness.Results(small_disk / "out.h5").rows) == 5
