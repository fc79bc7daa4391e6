"""tests/bench/pipelines.py and codecs.py at small sizes: what they print, and that they see a wrong value."""

import argparse
import importlib
import re
import subprocess
import sys

import h5codecs
import h5py
import numpy as np
import pytest

import harness

BENCH = harness.ROOT / "tests/bench"
GOALS = {"statistics": 10, "gram": 3, "rewrite": 3}


def bench(script, *arguments, program=harness.TILERUN):
    command = [sys.executable, BENCH / script, program, *map(str, arguments), "--device", "cpu"]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def module(name, monkeypatch):
    monkeypatch.syspath_prepend(BENCH)
    return importlib.import_module(name)


def test_pipelines(folder):
    done = bench("pipelines.py", folder, "--size", "2MB", "--repeats", 1)
    assert done.returncode == harness.OK, done.stdout + done.stderr
    lines = re.findall(r"^(\w+) +([\d.]+) +([\d.]+) +([\d.]+) +(\d+)$", done.stdout, re.M)
    assert {name: int(goal) for name, *_, goal in lines} == GOALS, done.stdout
    for _, ours, theirs, ratio, _ in lines:
        assert float(ratio) == pytest.approx(float(theirs) / float(ours), abs=0.05, rel=0.05)
    assert done.stdout.count(" outside ") == len(GOALS) and "DIFFERENT" not in done.stdout
    assert sorted(path.suffix for path in folder.iterdir()) == [".h5"] * 5 + [".yaml"] * 3  # data and results


def test_a_wrong_value_is_seen(folder, monkeypatch):
    pipelines = module("pipelines", monkeypatch)
    names = {"tilerun": harness.TILERUN, "folder": folder, "size": 2**20, "repeats": 1, "rival_repeats": 1}
    it = pipelines.Pipelines(argparse.Namespace(**names, device="cpu", matmul="auto"))
    values = np.arange(1.0, 25.0).reshape(2, 3, 4)
    for name, ids, dtype in (("statistics", ["mean", "std"], "f8"), ("gram", ["gram"], "f4"), ("rewrite", ["T"], "i2")):
        for other, wrong in ((values, False), (values + (values == 24), True), (values[:1], True)):
            with h5py.File(folder / f"{name}.h5", "w") as ours, h5py.File(folder / "rival.h5", "w") as theirs:
                for number, one in enumerate(ids):
                    ours[f"outputs/{one}"] = values.astype(dtype)
                    theirs[one] = (other if number == len(ids) - 1 else values).astype(dtype)
            difference = it.difference(name, [{"id": one} for one in ids])
            assert bool(difference) == wrong, (name, difference)


def test_codecs(folder, rng):
    """One of the filters that h5py lacks, drawn."""
    kinds = [("lz4", h5codecs.LZ4), ("zstd", h5codecs.ZSTD), ("blosc", h5codecs.BLOSC), ("bitshuffle", None)]
    here = [name for name, kind in kinds if kind is None or h5codecs.are_here(kind)]
    here = ["none", "gzip", str(rng.choice(here))]
    done = bench("codecs.py", folder, "--size", "8MiB", "--repeats", 1, "--only", ",".join(here))
    assert done.returncode == harness.OK, done.stdout + done.stderr
    lines = re.findall(r"^([a-z]\S*) +(counts|field)((?: +[\d.]+){3})  (h5py|one core) +([\d.]+)", done.stdout, re.M)
    assert [line[:2] for line in lines] == [(name, kind) for name in here for kind in ("counts", "field")], done.stdout
    for *_, numbers, _, ratio in lines:
        _, ours, theirs = map(float, numbers.split())
        ratio = float(ratio)  # all are printed with two digits
        assert abs(ratio * theirs - ours) <= 0.01 * ours + 0.006 * (ratio + theirs + 1)
    selections = re.findall(r"::(\d+) +([\d.]+) +([\d.]+) +([\d.]+)$", done.stdout, re.M)
    assert [int(line[0]) for line in selections] == [2, 2, 2, 16]
    for (_, whole, read, least), share in zip(selections, [0.5, 0.5, 1, 0.5]):
        assert read == least and float(read) == pytest.approx(share * float(whole), rel=0.1)


def test_repeated_chunks(folder, monkeypatch):
    """As if h5py had written them all; a chunk that did not shrink lies there as it is."""
    repeated, rng = module("repeated", monkeypatch), np.random.default_rng(1)
    values = rng.integers(0, 2**15, (24, 50)).astype("i2")
    values[8:16] = 7
    for how in ({}, {"compression": "gzip"}, {"compression": "lzf", "shuffle": True}):
        with repeated.packed_by_h5py(values, (8, 50), **how) as packed:
            stored = repeated.write_repeated(folder / "x.h5", packed, 60)
        with h5py.File(folder / "x.h5") as file:
            assert np.array_equal(file["X"], np.tile(values, (3, 1))[:60])
            assert file["X"].compression == how.get("compression")
            assert len(stored) == 8 and sum(stored) == file["X"].id.get_storage_size()


@pytest.mark.parametrize("script", ["pipelines.py", "codecs.py"])
def test_refusals(folder, script):
    done = bench(script, folder, "--size", "20 parsecs")
    assert done.returncode == 2 and "no size, such as 20GB" in done.stderr
    one = "statistics" if script == "pipelines.py" else "gzip"
    done = bench(script, folder, "--size", "2MB", "--repeats", 1, "--only", one, program="/bin/false")
    assert done.returncode != 0 and "Traceback" not in done.stderr
