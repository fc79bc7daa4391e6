"""What timings on this GPU are worth: a bench agrees with itself, a variant that is 5 % slower is found, and `until`
stops where it says. TILERUN_TRIES=20 tries more often than `make test` does."""

import json
import os
import shutil

import pytest

import harness
import tree
from harness import OK, RUN

pytestmark = [pytest.mark.gpu, pytest.mark.timings]
TRIES = int(os.environ.get("TILERUN_TRIES", 3))
SHOWN = ["verdict", "operation", "variant", "parameters", "base_s", "ratio", "ratio_low", "ratio_high", "floor"]
SHOWN += ["base_samples", "base_independent_samples", "new_samples", "new_independent_samples"]
FAULT = harness.ROOT / "tests/faults/transpose_napping.cu"


@pytest.fixture(scope="module")
def napping(memory_folder):
    """The program with a variant that is as much slower as NAP_NS says."""
    folder = memory_folder / "napping"
    folder.mkdir()
    copy = tree.copy_tree(folder)
    shutil.copy(FAULT, copy / "kernels/transpose/napping.cu")
    tree.register(copy, ["CUDA(transpose_napping)"])
    done = tree.make(copy)
    assert done.returncode == 0, done.stdout[-4000:]
    return copy / "build/tilerun"


def write_bench(folder):
    """Thirty runs from microseconds to milliseconds, of each operation."""
    sizes = {"parameters": {"n": [256, 512, 1024, 2048, 4096]}}
    inputs = {name: {"random": {"shape": ["$n", "$n"], "low": -1, "seed": ord(name)}} for name in "ab"}
    inputs["h"] = {"random": {"shape": ["$n", "$n"], "low": -1, "dtype": "bfloat16", "seed": 1}}
    operations = [
        {"id": "float32", "op": "matmul", "inputs": ["a", "b"], "variants": ["cublas", "async"]},
        {"id": "bfloat16", "op": "matmul", "inputs": ["h", "h"], "variants": ["wgmma"]},
        {"id": "sum", "op": "reduce", "inputs": ["a"], "operator": "sum", "axis": "all", "variants": ["stream"]},
        {"id": "flipped", "op": "transpose", "inputs": ["a"], "variants": ["swizzled"]},
        {"id": "scaled", "op": "scale", "inputs": ["a"], "alpha": 3, "variants": ["auto"]},
    ]
    defaults = {"repeat": {"min": 20, "max": 2000, "until": "0.5%"}, "store": "none", "verify": "sampled"}
    return harness.write_job(
        folder / "bench.yaml", device="cuda", inputs=inputs, operations=operations, defaults=defaults, **sizes
    )


def write_transpose(folder, variant, n, **repeat):
    return harness.write_job(
        folder / "transpose.yaml",
        device="cuda",
        inputs={"x": {"random": {"shape": [n, n], "seed": 1}}},
        operations=[{"id": "y", "op": "transpose", "inputs": ["x"], "variants": [variant]}],
        defaults={"repeat": repeat, "store": "none", "verify": "sampled"},
    )


def timed(job, output, **options):
    harness.tilerun("run", job, "-o", output, expect=OK, **options)
    return output


def compared(base, new):
    done = harness.tilerun("compare", "--json", base, new)
    assert done.returncode in (OK, RUN), done.stderr
    (comparison,) = json.loads(done.stdout)["new"]
    return comparison


def test_a_bench_beside_itself(folder):
    """At least 95 % of all runs are the same, at most 5 % are called different."""
    job = write_bench(folder)
    base, counts = timed(job, folder / "0.h5"), {"same": 0, "unsure": 0, "slower": 0, "faster": 0}
    for number in range(1, TRIES + 1):
        base, old = timed(job, folder / f"{number}.h5"), base
        comparison = compared(old, base)
        for pair in comparison["pairs"]:
            if pair["verdict"] != "SAME":
                print(*(pair[key] for key in SHOWN))
        for verdict in counts:
            counts[verdict] += comparison[verdict]
    print(counts)
    runs = sum(counts.values())
    assert runs == 30 * TRIES
    assert counts["same"] >= 0.95 * runs and counts["slower"] + counts["faster"] <= 0.05 * runs


def test_five_percent_slower_is_found(folder, napping):
    """In 19 of 20 tries, whatever the size."""
    found = []
    for number in range(TRIES):
        job = write_transpose(folder, "napping", 2048 << number % 3, min=20, max=300, until="0.5%")
        base = timed(job, folder / f"base{number}.h5", program=napping)
        nap = 0.05 * harness.Results(base).row("y")["kernel_median_s"]
        slowed = {**os.environ, "NAP_NS": str(round(nap * 1e9))}
        new = timed(job, folder / f"new{number}.h5", program=napping, env=slowed)
        (pair,) = compared(base, new)["pairs"]
        print(f"n {2048 << number % 3}: {nap * 1e6:.1f} us slower: ratio {pair['ratio']:.4f} {pair['verdict']}")
        found.append(pair["verdict"] == "SLOWER")
    assert sum(found) >= 0.95 * TRIES


def test_until_stops_near_the_median(folder):
    """Within 1 % of the median of thousands of samples, in 19 of 20 tries."""
    job = write_transpose(folder, "swizzled", 4096, min=3000, max=3000, until="1%")
    median = harness.Results(timed(job, folder / "long.h5")).row("y")["kernel_median_s"]
    job = write_transpose(folder, "swizzled", 4096, min=5, max=3000, until="1%")
    medians = []
    for number in range(TRIES):
        row = harness.Results(timed(job, folder / f"{number}.h5")).row("y")
        medians.append(row["kernel_median_s"])
        print(f"{row['repeats']} samples: {row['kernel_median_s'] / median:.4f} of the median")
    assert sum(abs(value / median - 1) <= 0.01 for value in medians) >= 0.95 * TRIES
