"""Measured limits: one record for each host and part of it, whatever the build; runs that are faster raise them."""

import os
import re
import shutil

import pytest
import xxhash

import harness
import tree
from harness import OK


@pytest.fixture
def cache(folder, monkeypatch):
    """A cache without limits."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    return folder / "cache/tilerun"


@pytest.fixture
def job(folder):
    inputs = {"a": {"random": {"shape": [200, 200], "low": -1}}}
    operations = [{"id": "p", "op": "matmul", "inputs": ["a", "a"], "variants": ["blocked"]}]
    return harness.write_job(folder / "job.yaml", device="cpu", inputs=inputs, operations=operations,
                             defaults={"repeat": {"min": 50, "max": 500, "until": "5%"}})  # fmt: skip


def run(job, *words, **options):
    done = harness.tilerun("run", job, "-o", job.parent / "out.h5", "--overwrite", *words, expect=OK, **options)
    return done.stderr, harness.Results(job.parent / "out.h5").row("p")


def slow_down(path, factor):
    """Changes a record as if its product had been measured on a machine that was busy with other things."""
    text = re.sub(r"^float32 (\S+)$", lambda line: f"float32 {float(line[1]) / factor:.9g}", path.read_text(), flags=re.M)
    text = text[: text.index("checksum ")]
    path.write_text(text + f"checksum {xxhash.xxh3_64_hexdigest(text.encode())}\n")


def float32_roof(path):
    return float(re.search(r"^float32 (\S+)$", path.read_text(), re.M)[1])


def test_a_run_above_a_roof_raises_it(cache, job):
    assert "measuring the limits of cpu" in run(job)[0]
    (record,) = cache.iterdir()
    slow_down(record, 50)
    low = float32_roof(record)
    said, row = run(job, "--verify", "none")  # what nobody has verified proves nothing
    assert "too low" not in said and float32_roof(record) == low and row["percent_of_bound"] > 105
    said, row = run(job)
    line = re.search(r"^tilerun: the measured roof of cpu was too low: raised to float32 (\S+) GFLOP/s, .*", said, re.M)
    assert line, said
    assert float(line[1]) == pytest.approx(row["gflops"], rel=0.01)
    assert float32_roof(record) == pytest.approx(row["gflops"] * 1e9) and float32_roof(record) > 1.05 * low
    assert row["percent_of_bound"] == pytest.approx(100)
    assert list(cache.iterdir()) == [record]
    assert "measuring" not in run(job)[0]


def test_rows_of_one_job_have_one_roof(cache, job):
    """Also those that were measured before a later run raised it."""
    run(job)
    slow_down(next(cache.iterdir()), 50)
    product = {"op": "matmul", "inputs": ["a", "a"]}
    inputs = {"a": {"random": {"shape": [200, 200], "low": -1}}}
    harness.write_job(job, device="cpu", inputs=inputs, defaults={"repeat": 50},
                      operations=[{"id": "slow", "variants": ["cpu"]} | product,
                                  {"id": "p", "variants": ["blocked"]} | product])  # fmt: skip
    said, fast = run(job)
    slow = harness.Results(job.parent / "out.h5").row("slow")
    assert "too low" in said
    assert slow["gflops"] / slow["percent_of_bound"] == pytest.approx(fast["gflops"] / fast["percent_of_bound"])


def test_a_record_for_each_part_of_the_machine(cache, job):
    """Taken alone and together, two CPUs have a record each, which stay."""
    cpus = sorted(os.sched_getaffinity(0))[:2]
    if len(cpus) < 2 or not shutil.which("taskset"):
        pytest.skip("one CPU, or no taskset")
    both, one = f"taskset -c {cpus[0]},{cpus[1]}".split(), f"taskset -c {cpus[0]}".split()
    for turn in range(2):
        for words in (both, one):
            command = [*words[1:], harness.TILERUN, "run", job, "-o", job.parent / "o.h5", "--overwrite"]
            done = harness.tilerun(*command, program=words[0], expect=OK)
            assert ("measuring the limits" in done.stderr) == (turn == 0)
    assert len(list(cache.iterdir())) == 2


def test_another_build_measures_anew_only_with_other_kernels(cache, job, folder):
    copy = tree.copy_tree(folder)
    for part, measures in [("runner/main.c", True), ("runner/commands/list.c", False), ("kernels/matmul/cpu.c", True)]:
        with open(copy / part, "a") as source:
            source.write("\n/* another build */\n")
        done = tree.make(copy)
        assert done.returncode == OK, done.stdout[-3000:]
        said, _ = run(job, program=copy / "build/tilerun")
        assert ("measuring the limits" in said) == measures, part
    assert len(list(cache.iterdir())) == 2


def test_one_process_measures_for_all(cache, job):
    """Those that start at once wait for it, since they would halve each other's limits."""
    started = [harness.start("run", job, "-o", job.parent / f"{i}.h5") for i in range(4)]
    said = [process.communicate()[1] for process in started]
    assert [process.returncode for process in started] == [OK] * 4, said
    assert sum("measuring the limits" in text for text in said) == 1, said
