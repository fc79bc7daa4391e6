"""What `tilerun plan` predicts from measured limits, against what `tilerun run` then measures: every built-in variant
of a device whose time it says to know, on drawn shapes of moderate size.

Predictions are meant to be within a factor of 2, which the median ratio of a variant over its shapes must be on a GPU.
On a CPU it must be within 3, in one of four tries: this machine may be busy with other tests, more so in one moment
than in another. What never was measured without them, as the program finds, is not judged in the end."""

import json
import os
import statistics

import h5py
import pytest

import harness

SHAPES = 6


def planned(folder, device):
    done = harness.tilerun("plan", "--json", "--device", device, folder / "job.yaml")
    assert done.returncode == harness.OK and done.stderr == "", done.stderr
    return json.loads(done.stdout)


def drawn_operand(rng, variant, device):
    """(shape of a matrix, data type) with moderate work for the variant: on a CPU a few milliseconds to some tens."""
    dtype = str(rng.choice(variant.dtypes))
    gpu = device == "cuda"
    if variant.op == "matmul":
        most = 260 if variant.name == "cpu" else 4097 if gpu else 700
        return [int(n) // 16 * 16 if gpu else int(n) for n in rng.integers(most // 8, most, 3)], dtype
    rows = int(2 ** rng.uniform(5, 14 if gpu else 11))
    return [rows, int(2 ** rng.uniform(*((22, 27) if gpu else (17, 21.5))) / rows)], dtype


def drawn_operations(rng, variants, device):
    """Inputs and operations of a job with SHAPES operations for each variant."""
    inputs, operations = {}, []
    for variant in variants:
        for number in range(SHAPES):
            shape, dtype = drawn_operand(rng, variant, device)
            name = f"{variant.op}_{variant.name}_{number}"
            random = {"dtype": dtype} if "int" not in dtype else {"dtype": dtype, "low": 0, "high": 100}
            operation = {"id": name, "op": variant.op, "variants": [variant.name], "inputs": [f"a_{name}"]}
            inputs[f"a_{name}"] = {"random": {"shape": shape[:2], **random}}
            if variant.op == "matmul":
                inputs[f"b_{name}"] = {"random": {"shape": shape[1:], **random}}
                operation["inputs"].append(f"b_{name}")
            elif variant.op == "reduce":
                operation["operator"] = str(rng.choice(variant.operators))
                operation["axis"] = [0, 1, "all"][int(rng.integers(3))]
            elif variant.op == "scale":
                operation["alpha"] = 3
            operations.append(operation)
    return {
        "inputs": inputs,
        "operations": operations,
        "defaults": {"warmup": 1, "repeat": 5, "verify": "none", "store": "none"},
    }


def ratios_now(folder, rng, variants, device):
    """Measures limits, runs a drawn job and compares: (op, variant) -> predicted over measured kernel times; and which
    of them others disturbed."""
    harness.tilerun("devices", "--measure", expect=harness.OK)
    job = drawn_operations(rng, variants, device)
    results = harness.run_job(folder, arguments=["--overwrite"], device=device, **job)
    predicted = planned(folder, device)
    assert predicted["limits"] == "measured"
    ratios, busy = {}, set()
    for run, row in zip(predicted["runs"], results.rows):
        assert (run["operation"], run["variant"]) == (row["operation"], row["variant"])
        if row["status"] == "skipped" or run["kernel_s"] is None:  # a shape that it does not take; unknown
            continue
        busy |= {(row["op"], row["variant"])} if "busy" in row["flags"] else set()
        ratios.setdefault((row["op"], row["variant"]), []).append(run["kernel_s"] / row["kernel_median_s"])
    print("predicted over measured kernel time:")
    for (op, variant), of in ratios.items():
        print(f"  {op:9} {variant:8} median {statistics.median(of):5.2f}  " + " ".join(f"{r:.2f}" for r in sorted(of)))
    return ratios, busy


@pytest.mark.parametrize(
    "device, margin, tries",
    [("cpu", 3, 4), pytest.param("cuda", 2, 2, marks=[pytest.mark.gpu, pytest.mark.timings])],
)
def test_predictions(folder, rng, monkeypatch, device, margin, tries):
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    monkeypatch.delenv("TILERUN_LOAD")
    # The time of a map depends on its expression; it is predicted as that of a copy.
    left = [v for v in harness.list_variants() if v.runs_here and not v.limit and v.op != "map"]
    left = [v for v in left if v.on_cpu == (device == "cpu")]
    ops, calm = {v.op for v in left}, set()
    for turn in range(tries):
        ratios, busy = ratios_now(folder, rng, left, device)
        assert turn > 0 or {op for op, _ in ratios} == ops
        calm |= set(ratios) - busy
        left = [v for v in left if (v.op, v.name) in ratios]
        left = [v for v in left if not 1 / margin < statistics.median(ratios[v.op, v.name]) < margin]
        if not left:
            return
    left = [(v.op, v.name) for v in left if (v.op, v.name) in calm]
    assert not left, f"not within a factor of {margin} in {tries} tries: {left}"


@pytest.mark.parametrize("case", range(2))
def test_tiny_chunks_are_foretold(folder, rng, case):
    """Each costs more than its bytes. Processor time, because others may have the cores: what one thread and all threads
    do of the pass is between one and `threads` times its length."""
    shape = (int(rng.integers(150, 250)), int(rng.integers(150, 250)))
    chunks = (1, int(rng.integers(1, 4)))
    options = [{}, {"fletcher32": True}][case]
    with h5py.File(folder / "x.h5", "w") as file:
        file.create_dataset("x", data=rng.random(shape, "float32"), chunks=chunks, **options)
    operation = {"id": "y", "op": "reduce", "operator": "mean", "axis": 0, "inputs": ["x"]}
    inputs = {"x": {"file": str(folder / "x.h5"), "dataset": "x"}}
    job = harness.write_job(folder / "job.yaml", inputs=inputs, operations=[operation])
    empty = {"x": {"random": {"shape": [10, 10]}}}
    none = harness.write_job(folder / "none.yaml", inputs=empty, operations=[operation])
    predicted = planned(folder, "cpu")["runs"][0]["pass_s"]
    used = []
    for path in (job, none):
        before = os.times()
        harness.tilerun(
            "run", path, "-o", folder / "results.h5", "--overwrite", "--once", "--verify", "none", expect=harness.OK
        )
        after = os.times()
        used.append(after.children_user - before.children_user + after.children_system - before.children_system)
    measured = used[0] - used[1]
    print(f"{shape} in chunks of {chunks}: predicted {predicted:.3f} s, {measured:.3f} s of the processor")
    assert measured / 2 / len(os.sched_getaffinity(0)) < predicted < 2 * measured + 0.05
