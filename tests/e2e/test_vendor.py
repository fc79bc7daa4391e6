"""The vendor's variant is no straw man: `cublas` against the same product by PyTorch or CuPy in the same minutes."""

import importlib.util
import json
import subprocess
import sys

import pytest

import harness

SCRIPT = """
import json, sys
shapes, module = json.load(sys.stdin), sys.argv[1]
if module == "torch":
    import torch
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    def draw(rows, columns, dtype): return torch.rand(rows, columns, device="cuda", dtype=getattr(torch, dtype)) - 0.5
    def multiply(a, b, c): torch.mm(a, b, out=c)
    def event(): return torch.cuda.Event(enable_timing=True)
    def elapsed(begin, end): end.synchronize(); return begin.elapsed_time(end)
    empty = lambda m, n, dtype: torch.empty(m, n, device="cuda", dtype=getattr(torch, dtype))
else:
    import cupy
    def draw(rows, columns, dtype): return (cupy.random.random((rows, columns)) - 0.5).astype(dtype)
    def multiply(a, b, c): cupy.matmul(a, b, out=c)
    def event(): return cupy.cuda.Event()
    def elapsed(begin, end): end.synchronize(); return cupy.cuda.get_elapsed_time(begin, end)
    empty = lambda m, n, dtype: cupy.empty((m, n), dtype)

def sample(a, b, c, launches):
    begin, end = event(), event()
    if launches > 1: multiply(a, b, c)  # keeps the queue busy while the events are recorded
    begin.record()
    for _ in range(launches): multiply(a, b, c)
    end.record()
    return elapsed(begin, end) / launches * 1e-3

for m, n, k, dtype, samples in shapes:
    a, b, c = draw(m, k, dtype), draw(k, n, dtype), empty(m, n, dtype)
    for _ in range(5): multiply(a, b, c)
    launches = max(1, min(500, int(2e-3 / sample(a, b, c, 3))))
    times = sorted(sample(a, b, c, launches) for _ in range(samples))
    print(times[samples // 2], flush=True)
"""


def draw_shapes(rng):
    """At least six of each type: squares, long and flat ones, and sizes that no tile divides."""
    shapes = []
    for dtype, most in (("float32", 13), ("float64", 12.5), ("float16", 13), ("bfloat16", 13)):
        for _ in range(6):
            size = [int(2 ** rng.uniform(8, most)) for _ in range(3)]
            shapes.append([*(int(s) // 8 * 8 if rng.random() < 0.7 else int(s) for s in size), dtype])
    return shapes + [[8192, 8192, 8192, "float64"], [4096, 4096, 4096, "float32"]]


@pytest.mark.gpu
@pytest.mark.timings
def test_cublas_is_as_fast_as_elsewhere(folder, rng):
    """Within 2 %, or faster; the better of two turns of either, with as many samples, since a product that draws the
    card's full power slows down within a second. Below 100 us a launch by Python costs it more than one of ours: there
    it is no measure."""
    module = next((name for name in ("torch", "cupy") if importlib.util.find_spec(name)), None)
    if not module:
        pytest.skip("neither PyTorch nor CuPy is here")
    shapes = [shape for shape in draw_shapes(rng) if module == "torch" or shape[3] != "bfloat16"]
    inputs, operations = {}, []
    for i, (m, n, k, dtype) in enumerate(shapes):
        terms = {"dtype": dtype, "low": -0.5, "high": 0.5}
        inputs[f"a{i}"] = {"random": {"shape": [m, k], "seed": i, **terms}}
        inputs[f"b{i}"] = {"random": {"shape": [k, n], "seed": i + 1000, **terms}}
        operations.append({"id": f"p{i}", "op": "matmul", "inputs": [f"a{i}", f"b{i}"], "variants": ["cublas"]})
    harness.write_job(
        folder / "job.yaml", device="cuda", inputs=inputs, operations=operations,
        defaults={"repeat": {"min": 25, "max": 100, "until": "1%"}, "verify": "sampled", "store": "none"},
    )  # fmt: skip

    def here():
        harness.run_folder(folder, "--overwrite")
        return [(row["kernel_median_s"], int(row["repeats"])) for row in harness.Results(folder / "out.h5").rows]

    def elsewhere(repeats):
        words = json.dumps([[*shape, count] for shape, count in zip(shapes, repeats)])
        done = subprocess.run([sys.executable, "-c", SCRIPT, module], input=words, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return [float(line) for line in done.stdout.split()]

    turns = [here()]
    best = elsewhere([repeats for _, repeats in turns[0]])
    turns.append(here())
    best = [min(pair) for pair in zip(best, elsewhere([repeats for _, repeats in turns[1]]))]
    slower = []
    for shape, first, second, seconds in zip(shapes, *turns, best):
        ours = min(first[0], second[0])
        print(f"{shape}: {ours * 1e6:.1f} us, {module} {seconds * 1e6:.1f} us, ratio {ours / seconds:.3f}")
        if seconds > 100e-6 and ours / seconds > 1.02:
            slower.append(f"{shape} {ours / seconds:.3f}")
    assert not slower
