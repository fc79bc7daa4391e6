"""tests/bench/families.py: the jobs that it draws, and the table that sums them up."""

import importlib
import re
import subprocess
import sys

import h5py
import pytest

import harness

SCRIPT = harness.ROOT / "tests/bench/families.py"
FAMILIES = {
    "shapes": ["squares", "inference", "deepbench", "odd", "skinny", "stacks", "operands"],
    "values": ["normal", "uniform", "softmax", "wide", "one-hot", "sparse", "odd-row", "odd-rows", "nan"],
    "thin": ["vectors", "strips", "tiles", "odd-sides", "rows", "columns", "few-outputs"],
}


def families(*arguments):
    return subprocess.run([sys.executable, SCRIPT, *map(str, arguments)], capture_output=True, text=True)


@pytest.mark.parametrize("job", FAMILIES)
def test_committed_jobs_are_those_of_seed_1(job):
    done = families(job, "--seed", 1)
    assert done.stdout == (harness.ROOT / f"configs/bench/{job}.yaml").read_text(), done.stderr
    assert families(job, "--seed", 2).stdout.splitlines()[12:] != done.stdout.splitlines()[12:]


@pytest.mark.parametrize("job", ["shapes", "thin"])
def test_drawn_jobs_are_good(folder, rng, job):
    for seed in rng.integers(0, 10**6, 2):
        (folder / "job.yaml").write_text(families(job, "--seed", seed).stdout)
        harness.tilerun("check", folder / "job.yaml", expect=harness.OK)


def test_drawn_values_are_good(folder, rng):
    """Beside data sets of the right shapes, which hold nothing yet; the committed job too."""
    sys.path.insert(0, str(SCRIPT.parent))
    script = importlib.import_module("families")
    (folder / "configs/bench").mkdir(parents=True)
    (folder / "data/generated").mkdir(parents=True)
    for seed in [1, *rng.integers(2, 10**6, 3)]:
        with h5py.File(folder / f"data/generated/values-{seed}.h5", "w") as file:
            for name, member in script.draw_members("values", seed, 8, 1):
                m, k, n = member["mkn"]
                file.create_dataset(f"{name}-a", (m, k), "f4")
                file.create_dataset(f"{name}-b", (k, n), "f4")
        (folder / "configs/bench/values.yaml").write_text(families("values", "--seed", seed).stdout)
        harness.tilerun("check", folder / "configs/bench/values.yaml", expect=harness.OK)


@pytest.mark.parametrize("job", FAMILIES)
def test_the_header_has_the_command(rng, job):
    options = ["--seed", rng.integers(0, 10**6), "--count", rng.integers(1, 4), "--device", "cpu", "--shrink", 64]
    options += [] if rng.random() < 0.5 else ["--types", "float32"]
    drawn = families(job, *options).stdout
    command = re.search(r"`tests/bench/families.py (.*?)` wrote", drawn)[1]
    assert families(*command.split()).stdout == drawn
    assert "cuBLAS" not in drawn and "CUB" not in drawn
    assert not {"float16", "bfloat16", "int8"} & set(re.findall(r"\w+", drawn))


@pytest.mark.parametrize("job", ["shapes", "thin"])
def test_only_values_has_data(job):
    done = families(job, "--seed", 987654321, "--data")
    assert done.returncode == 2 and f"--data: {job} reads no files" in done.stderr and not done.stdout
    assert not (harness.ROOT / "data/generated/values-987654321.h5").exists()


def test_a_table_of_nothing(folder):
    def said(results, program=harness.TILERUN):
        done = families("--table", results, "--run", program)
        assert done.returncode == 2 and not done.stdout and done.stderr.startswith("families.py: "), done.stderr
        assert done.stderr.count("\n") == 1
        return done.stderr

    assert "No such file" in said(folder / "none.h5")
    assert "No such file" in said(folder / "none.h5", folder / "no-program")
    (folder / "text.h5").write_text("x")
    said(folder / "text.h5")
    operations = [{"id": "other", "op": "scale", "inputs": ["a"], "variants": ["cpu"]}]
    results = harness.run_job(folder, device="cpu", inputs={"a": {"random": {"shape": [2]}}}, operations=operations)
    assert "holds no member of a family" in said(results.path)


@pytest.mark.parametrize("job", FAMILIES)
def test_every_family_is_summed_up(folder, rng, job):
    if job != "thin" and not any(v.name == "blas" and v.runs_here for v in harness.list_variants()):
        pytest.skip("no BLAS is installed here")
    seed, types = int(rng.integers(0, 10**6)), ["float32", "float64"] if job == "shapes" else ["float32"]
    warm = folder / "tilerun"  # emptying large caches before every launch would take half a minute
    warm.write_text(f'#!/bin/sh\n[ $1 != run ] || sed -i s/cold}}/warm}}/ "$2"\nexec {harness.TILERUN} "$@"\n')
    warm.chmod(0o755)
    arguments = ["--count", 2, "--device", "cpu", "--shrink", 4096, "--types", ",".join(types)]
    done = families(job, "--seed", seed, *arguments, "--run", warm)
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and lines[0].split() == FAMILIES[job], done.stdout + done.stderr
    assert [line.split()[0] for line in lines[1 : 1 + len(types)]] == types
    for line in lines[1 : 1 + len(types)]:
        cells = re.findall(r"(\d+\.\d\d) \((\d+\.\d\d)\)", line)
        assert len(cells) == len(FAMILIES[job]) and all(float(mean) >= float(least) for mean, least in cells), line
