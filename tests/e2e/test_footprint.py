"""The columns that say what a CUDA variant's compiled code takes of the device; a CPU's runs have none."""

import math

import pytest

import harness

NAMES = ("registers", "spill_bytes", "shared_bytes", "occupancy")


def run(folder, device, variants):
    return harness.run_job(
        folder,
        device=device,
        inputs={"a": {"random": {"shape": [256, 256]}}},
        defaults={"warmup": 1, "repeat": 3},
        operations=[
            {"id": "product", "op": "matmul", "inputs": ["a", "a"], "variants": variants},
            {"id": "flipped", "op": "transpose", "inputs": ["a"], "variants": ["cpu" if device == "cpu" else "tiled"]},
        ],
    )


def test_on_the_cpu(folder):
    for row in run(folder, "cpu", ["cpu", "blocked"]).rows:
        assert all(math.isnan(row[name]) for name in NAMES)
    shown = harness.quiet("show", folder / "results.h5", "--columns", "variant," + ",".join(NAMES))
    assert "registers" in shown and "occupancy" in shown


def test_on_the_gpu(folder):
    if not any(variant.runs_here and not variant.on_cpu for variant in harness.list_variants()):
        pytest.skip("needs a GPU")
    results = run(folder, "cuda", ["naive", "tiled", "cublas"])
    for row in results.rows:
        if row["status"] != "ok" or row["variant"].startswith("cublas"):
            continue
        assert 1 <= row["registers"] <= 255 and row["spill_bytes"] == 0 and 0 < row["occupancy"] <= 1, row
    products = [row for row in results.rows if row["operation"] == "product"]
    shared = {row["variant"].split(",")[0]: row["shared_bytes"] for row in products}
    assert shared["naive"] == 0 and shared["tiled"] >= 2 * 8 * 8 * 4


@pytest.mark.gpu
def test_kernels_that_are_compiled_at_run_time(folder):
    """Of an expression, of a fused reduction, and of the job's own source."""
    harness.tilerun("new-kernel", "transpose", folder / "mine.cu", expect=harness.OK)
    own = {"source": "mine.cu", "block": [32, 8], "grid": ["ceil(cols / 32)", "ceil(rows / 8)", "batch"]}
    results = harness.run_job(
        folder,
        arguments=["--allow-source"],
        device="cuda",
        inputs={"a": {"random": {"shape": [256, 256]}}},
        operations=[
            {"id": "map", "op": "map", "inputs": ["a"], "expression": "a * 2", "variants": ["compiled"]},
            {"id": "sum", "op": "reduce", "operator": "sum", "axis": 1, "inputs": ["a"], "map": "a * 2", "variants": ["fused"]},
            {"id": "flipped", "op": "transpose", "inputs": ["a"], "variants": [own]},
        ],
    )
    assert len(results.rows) == 3
    for row in results.rows:
        assert 1 <= row["registers"] <= 255 and row["spill_bytes"] == 0 and 0 < row["occupancy"] <= 1, row
