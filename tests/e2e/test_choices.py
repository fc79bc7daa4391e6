"""tests/bench/choices.py, and what `auto` chooses on a GPU."""

import importlib
import subprocess
import sys

import pytest

import harness

SCRIPT = harness.ROOT / "tests/bench/choices.py"
TABLE = """operation,shape,variant,status,kernel_median_s
squares-0,9x9x9,cublas,unchecked,2e-6
squares-0,9x9x9,wgmma,unchecked,4e-6
squares-0,9x9x9,"wgmma,tile=256x64,pieces=1",unchecked,1e-6
squares-0,9x9x9,"wgmma,tile=256x64,pieces=2",skipped,
odd-1,1x2x3,cublas,unchecked,3e-6
odd-1,1x2x3,mma,unchecked,2e-6
odd-1,1x2x3,"mma,tile=64",unchecked,2e-6
"""


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
def test_drawn_jobs_are_good(folder, rng, monkeypatch, dtype):
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    text = importlib.import_module("choices").job_text(dtype, int(rng.integers(0, 10**6)), 3)
    (folder / "job.yaml").write_text(text)
    harness.tilerun("check", folder / "job.yaml", expect=harness.OK)


def test_table(folder):
    (folder / "table.csv").write_text(TABLE)
    program = folder / "shows"
    program.write_text(f"#!/bin/sh\ncat '{folder}/table.csv'\n")
    program.chmod(0o755)
    done = subprocess.run([sys.executable, SCRIPT, program, "--table", "any.h5"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [" ".join(line.split()) for line in done.stdout.splitlines()] == [
        "squares best over auto 0.25 (0.25), 0% within 5 %; vendor over auto 0.50 (0.50), 0% within 5 %",
        "odd best over auto 1.00 (1.00), 100% within 5 %; vendor over auto 1.50 (1.50), 100% within 5 %",
        "0.25 (vendor 0.50) squares-0 9x9x9: wgmma,tile=256x64,pieces=1",
        "1.00 (vendor 1.50) odd-1 1x2x3: auto",
    ]


def test_no_results(folder):
    done = subprocess.run(
        [sys.executable, SCRIPT, harness.TILERUN, "--table", folder / "none.h5"], capture_output=True, text=True
    )
    assert done.returncode == 1 and done.stderr.startswith("choices.py: ") and done.stderr.count("\n") == 1, done.stderr


@pytest.mark.gpu
@pytest.mark.parametrize(
    "dtype,a,b,expected",
    [
        ("float32", [5, 7168], [7168, 7168], "skinny"),
        ("float32", [20000, 16, 16], [20000, 16, 16], "stacks"),
        ("float64", [20000, 16, 16], [20000, 16, 16], "stacks"),
        ("float64", [722, 88, 88], [722, 88, 88], "ring"),
        ("float64", [2000, 2000], [2000, 2000], "dmma"),
        ("bfloat16", [2000, 2000], [2000, 2000], "multicast"),
        ("bfloat16", [2431, 59], [59, 135], "multicast"),
        ("float32", [2137, 19], [19, 2109], "outer"),
        ("float64", [2137, 19], [19, 2109], "outer"),
        ("float64", [14, 1033], [1033, 1804], "dmma"),
    ],
)
def test_auto_on_an_h200(folder, dtype, a, b, expected):
    """Where no other choice would do: each of these was the fastest by far when it was measured."""
    if "H200" not in harness.tilerun("devices").stdout:
        pytest.skip("needs an H200")
    if not any(it.name == expected and it.runs_here for it in harness.list_variants()):
        pytest.skip("compiled for other GPUs")
    inputs = {n: {"random": {"shape": shape, "dtype": dtype}} for n, shape in (("a", a), ("b", b))}
    operation = {"id": "c", "op": "matmul", "inputs": ["a", "b"], "variants": ["auto"]}
    harness.write_job(folder / "job.yaml", device="cuda", inputs=inputs, operations=[operation])
    done = harness.tilerun("plan", folder / "job.yaml", expect=harness.OK)
    assert next(line for line in done.stdout.splitlines() if line.startswith("c ")).split()[1] == expected, done.stdout
