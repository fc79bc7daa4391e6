"""Several devices of one process share a run: `device: cuda:all` and lists. CPU devices stand in for GPUs."""

import json
import os
import random

import h5py
import pytest

import harness
from harness import DEVICE, OK, RUN
from shards import bits
from test_panels import draw_job

CASES = int(os.environ.get("TILERUN_CASES", 12))
SEED = int(os.environ.get("TILERUN_SEED", 0))


def run(folder, name, devices, *more, expect=OK):
    """With so many CPU devices."""
    environment = os.environ | {"TILERUN_CPU_DEVICES": str(devices)}
    harness.tilerun("run", folder / "job.yaml", "-o", folder / name, *more, env=environment, expect=expect)
    return harness.Results(folder / name)


@pytest.mark.parametrize("case", range(CASES))
def test_drawn_jobs(folder, case):
    """Bit for bit what one device gives, whatever operation, type, layout and memory."""
    draw = random.Random(SEED * 1000 + case)
    draw_job(folder, draw)
    job = json.loads((folder / "job.yaml").read_text())
    job.pop("device")
    (folder / "job.yaml").write_text(json.dumps(job))
    alone = run(folder, "alone.h5", 1, "--device", "cpu")
    devices = draw.randint(2, 5)
    team = run(folder, "team.h5", devices, "--device", "cpu")
    assert bits(team.path) == bits(alone.path)
    names = {"cpu", *(f"cpu x {count}" for count in range(2, devices + 1))}
    assert {row["device"] for row in alone.rows} == {"cpu"} and {row["device"] for row in team.rows} <= names
    with h5py.File(team.path) as file, h5py.File(alone.path) as other:
        for dataset in other["inputs"]:
            attributes = [repr(sorted(it["inputs"][dataset].attrs.items())) for it in (file, other)]
            assert attributes[0] == attributes[1]  # hashes too


def test_the_table_says_which_devices_did_what(folder):
    """A sum of everything is not divided, nor a result of one row."""
    random_ = {"random": {"shape": [256, 64]}}
    operations = [
        {"id": "product", "op": "matmul", "inputs": ["a", "a"], "transpose_b": True, "variants": ["blocked"]},
        {"id": "all", "op": "reduce", "operator": "sum", "axis": "all", "inputs": ["a"], "variants": ["blocked"]},
        {"id": "rows", "op": "reduce", "operator": "sum", "axis": 1, "inputs": ["a"], "variants": ["blocked"]},
    ]
    harness.write_job(folder / "job.yaml", device="cpu", inputs={"a": random_}, operations=operations)
    rows = run(folder, "team.h5", 3).rows
    assert [row["device"] for row in rows] == ["cpu x 3", "cpu", "cpu x 3"]
    assert [row["status"] for row in rows] == ["ok"] * 3
    times = [row["kernel_median_s"] for row in rows]
    assert all(time > 0 for time in times)


def test_a_job_goes_on_with_other_devices(folder):
    """Parts do not depend on how many devices made them."""
    draw_job(folder, random.Random(3))
    run(folder, "out.h5", 3)
    done = harness.tilerun("run", folder / "job.yaml", "-o", folder / "out.h5", "--resume")
    assert done.returncode == OK and "is complete: nothing to do" in done.stderr


def test_without_gpus(folder, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    harness.write_job(
        folder / "job.yaml",
        inputs={"a": {"random": {"shape": [8, 8]}}},
        operations=[{"id": "t", "op": "transpose", "inputs": ["a"]}],
    )
    for device in ("cuda:all", "cuda:0,cuda:1", "cuda:3"):
        done = harness.tilerun("run", folder / "job.yaml", "--device", device, "-o", folder / "out.h5")
        assert done.returncode == DEVICE and "the job demands a CUDA GPU" in done.stderr, done.stderr
        harness.tilerun("plan", folder / "job.yaml", "--device", device, expect=OK)


def gpus():
    return sum(line.startswith("cuda:") for line in harness.tilerun("devices").stdout.splitlines())


@pytest.mark.gpu
def test_all_variants_on_all_gpus(folder):
    """Every variant gives the bits of one GPU, or is not shared."""
    if gpus() < 2:
        pytest.skip("needs two GPUs")
    inputs, operations = {}, []
    for variant in harness.list_variants():
        if not variant.runs_here or variant.on_cpu or variant.limit or not variant.same_bits:
            continue
        for number, dtype in enumerate(variant.dtypes[:3]):
            name = f"{variant.op}_{variant.name}_{number}"
            low = 0 if "int" in dtype else -1
            terms = {"dtype": dtype, "low": low, "high": 99 if "int" in dtype else 1}
            if "int" in dtype:
                terms["distribution"] = "integer"
            inputs[f"a_{name}"] = {"random": {"shape": [1040, 528], "seed": 1, **terms}}
            operation = {"id": name, "op": variant.op, "inputs": [f"a_{name}"], "variants": [variant.name]}
            if variant.op == "matmul":
                inputs[f"b_{name}"] = {"random": {"shape": [528, 784], "seed": 2, **terms}}
                operation["inputs"].append(f"b_{name}")
            if variant.op == "reduce":
                operation |= {"operator": "sum" if "sum" in variant.operators else variant.operators[0], "axis": number % 2}
            if variant.op == "scale":
                operation["alpha"] = 3
            operations.append(operation)
    harness.write_job(folder / "job.yaml", inputs=inputs, operations=operations, defaults={"warmup": 0, "repeat": 2})
    for memory in ("16GiB", "1MiB"):
        results = {}
        for device in ("cuda:0", "cuda:all"):
            output = folder / f"{device[5:]}-{memory}.h5"
            done = harness.tilerun(
                "run", folder / "job.yaml", "--device", device, "--memory", memory, "-o", output
            )
            assert done.returncode in (OK, RUN), done.stderr[-3000:]
            results[device] = harness.Results(output)
        one, team = (bits(results[device].path) for device in ("cuda:0", "cuda:all"))
        assert one.keys() == team.keys()
        assert [name for name in one if one[name] != team[name]] == []
        rows = results["cuda:all"].rows
        print(memory, {row["device"] for row in rows}, sum(row["device"] == "cuda:0" for row in rows), "not shared")
        assert [row["status"] for row in rows] == [row["status"] for row in results["cuda:0"].rows]
        assert any(row["device"] == "cuda:0,1" for row in rows)
