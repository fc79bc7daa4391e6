"""Variants of an operation are timed in turns, and what is stored of it."""

import re

import h5py
import numpy as np
import pytest

import harness
from harness import IO

DISK = "6m"


def run(folder, shape, repeat=9, **more):
    """A transpose by two variants, what reads it, and a product by two."""
    harness.write_job(
        folder / "job.yaml",
        device="cpu",
        inputs={"a": {"random": {"shape": shape, "seed": 3}}},
        defaults={"warmup": 1, "repeat": repeat, **more.pop("defaults", {})},
        operations=[
            {"id": "t", "op": "transpose", "inputs": ["a"], "variants": ["cpu", "blocked"]},
            {"id": "s", "op": "scale", "inputs": ["t"], "alpha": 2, "variants": ["cpu"]},
            {"id": "p", "op": "matmul", "inputs": ["a", "t"], "variants": ["blocked", "cpu"]},
        ],
        **more,
    )
    harness.run_folder(folder, "--overwrite")
    return harness.Results(folder / "out.h5")


@pytest.mark.parametrize("defaults", [{}, {"store": "all"}, {"store": "none"}, {"verify": "none"}, {"cache": "cold"}])
def test_turns_are_stored_with_the_samples(folder, rng, defaults):
    shape = [int(rng.integers(40, 80)), int(rng.integers(40, 80))]  # a thousand launches last longer than 50 us
    results = run(folder, shape, defaults=defaults)
    assert [row["variant"] for row in results.rows] == ["cpu", "blocked", "cpu", "blocked", "cpu"]
    with h5py.File(results.path) as file:
        a = np.asarray(file["outputs/s"]) / 2 if "s" in file["outputs"] else None
        for row in results.rows:
            turn, marks = file[f"samples/{row['run']}_turn"][:], file[f"samples/{row['run']}_marks"][:]
            assert len(turn) == len(marks) == row["repeats"] == 9
            assert turn[0] <= 1 and set(np.diff(turn)) <= {0, 1} and np.bincount(turn).max() <= 3
            assert marks.dtype == np.uint8 and set(marks) <= {0, 8}
            assert row["kernel_min_s"] <= row["kernel_ci_low_s"] <= row["kernel_ci_high_s"] <= row["kernel_max_s"]
            assert row["verify"] == ("none" if defaults.get("verify") == "none" else "full")
            assert row["status"] == ("unchecked" if defaults.get("verify") == "none" else "ok")
            assert ("below_resolution" in row["flags"]) == ("cache" in defaults and row["kernel_min_s"] < 50e-6)
        if defaults.get("store") == "none":
            assert len(file["outputs"]) == 0
        else:
            assert file["outputs/t"].attrs["variant"] == "cpu" and file["outputs/p"].attrs["variant"] == "blocked"
            np.testing.assert_array_equal(file["outputs/t"][:], a)
        if defaults.get("store") == "all":
            assert set(file["variants/p"]) == {"cpu", "blocked"}


def test_where_memory_is_short_they_do_not_wait(folder):
    """Both give the same values: with room for all variants at once, and with room for one, or for less."""
    plenty = run(folder, [120, 90]).everything()
    for memory in ("150kB", "100kB", "70kB"):
        found = run(folder, [120, 90], memory=memory).everything()
        assert found.keys() == plenty.keys()
        for name, values in plenty.items():  # sums are cut elsewhere
            np.testing.assert_allclose(found[name], values, rtol=1e-5)


def test_one_sample_has_no_turns(folder):
    results = run(folder, [20, 30], repeat=1, defaults={"warmup": 0})
    with h5py.File(results.path) as file:
        assert sorted(file["samples"]) == list("01234")
    assert all(row["flags"] == "cold" and np.isnan(row["kernel_ci_low_s"]) for row in results.rows)
    shown = harness.tilerun("show", results.path).stdout  # a first launch is compared with nothing
    assert "cold (c): 5 runs: " in shown and not re.search(r"\d\.\d\dx ", shown), shown


def test_a_full_disk_while_a_variant_waits(small_disk):
    """It is not timed and finished, so that nothing of it is left (nor in memory, as a sanitizer sees)."""
    harness.write_job(
        small_disk / "job.yaml",
        device="cpu",
        inputs={"a": {"random": {"shape": [1000, 1000]}}},
        defaults={"warmup": 0, "repeat": 2, "store": "all", "compression": "gzip"},  # how small is not known before
        operations=[{"id": "t", "op": "transpose", "inputs": ["a"], "variants": ["blocked", "cpu"]}],
    )
    done = harness.tilerun("run", small_disk / "job.yaml", "-o", small_disk / "out.h5")
    assert done.returncode == IO and "run-1.tmp: cannot be written: No space left" in done.stderr, done.stderr
    assert [path.name for path in small_disk.iterdir()] == ["job.yaml"]
