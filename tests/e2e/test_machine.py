"""What a run takes of the machine: host memory within its promise, smaller tiles where memory is short, the timeline."""

import json
import os
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

import harness
import tree

MIB = 1 << 20
STAGES = {"read", "inflate", "h2d", "kernel", "d2h", "deflate", "write"}


def write_matrix(path, rows, columns, **layout):
    """Few rows that differ, so that making them and packing them takes little."""
    high, wide = layout.get("chunks", (97, columns))
    few = np.random.default_rng().standard_normal((min(rows, high), columns), np.float32)
    with h5py.File(path, "w") as file:
        x = file.create_dataset("X", (rows, columns), "f4", **layout)
        for row in range(0, rows, high):
            if row == 0 or not layout:
                x[row : row + high] = few[: rows - row]
                file.flush()
                continue
            for column in range(0, columns, wide):
                x.id.write_direct_chunk((row, column), x.id.read_direct_chunk((0, column))[1])
    return np.resize(few, (rows, columns))


def peak_memory(folder, *arguments):
    """The program's largest resident set, in bytes."""
    before = dict(os.environ, OMP_NUM_THREADS="4")
    code = "import resource,subprocess,sys;r=subprocess.run(sys.argv[1:],stdout=subprocess.DEVNULL);" \
           "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss);sys.exit(r.returncode)"
    done = subprocess.run(
        [sys.executable, "-c", code, str(harness.TILERUN), *map(str, arguments)],
        capture_output=True, text=True, env=before, cwd=folder, timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout) * 1024


@pytest.mark.parametrize("layout", [{}, {"chunks": (512, 512), "compression": "gzip", "compression_opts": 1}])
def test_host_memory_does_not_grow_with_the_input(tmp_path, layout):
    """A sum of 400 MiB in a budget of 64 MiB: well under what reading it at once would take."""
    rows = 12800 if not layout else 4096
    values = write_matrix(tmp_path / "x.h5", rows, 8192, **layout)
    job = harness.write_job(
        tmp_path / "job.yaml", device="cpu", memory="64MiB", sync=False,
        inputs={"X": {"file": "x.h5", "dataset": "X"}},
        defaults={"warmup": 0, "repeat": 1},
        operations=[{"id": "sum", "op": "reduce", "operator": "sum", "axis": "all", "inputs": ["X"]}],
    )
    peak = peak_memory(tmp_path, "run", job, "-o", tmp_path / "out.h5", "--progress", "none")
    assert peak < 256 * MIB, f"{peak / MIB:.0f} MiB"
    with h5py.File(tmp_path / "out.h5") as file:
        assert np.isclose(file["outputs/sum"][()], values.sum(dtype=np.float64), rtol=1e-3, atol=1)


def test_host_memory_does_not_grow_with_the_output(tmp_path):
    """400 MiB written through a mapping: its pages do not stay, nor are many made ready ahead."""
    values = write_matrix(tmp_path / "x.h5", 12800, 8192)
    job = harness.write_job(
        tmp_path / "job.yaml", device="cpu", memory="64MiB", sync=False,
        inputs={"X": {"file": "x.h5", "dataset": "X"}},
        defaults={"warmup": 0, "repeat": 1, "checksum": "none", "verify": "none"},
        operations=[{"id": "double", "op": "scale", "alpha": 2, "inputs": ["X"]}],
    )
    peak = peak_memory(tmp_path, "run", job, "-o", tmp_path / "out.h5", "--progress", "none")
    assert peak < 256 * MIB, f"{peak / MIB:.0f} MiB"
    with h5py.File(tmp_path / "out.h5") as file:
        assert np.array_equal(file["outputs/double"][:], 2 * values)


def run_with(limit, folder, job):
    """`limit`: of the data segment, threads' stacks and all."""
    environment = dict(os.environ, OMP_NUM_THREADS="2", OMP_STACKSIZE="1M", MALLOC_ARENA_MAX="2")
    done = harness.tilerun(
        "run", job, "-o", folder / "out.h5", env=environment,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)),
    )
    if "ReserveShadowMemoryRange failed" in done.stderr:
        pytest.skip("AddressSanitizer needs more address space than the limit leaves")
    assert done.returncode == harness.OK, done.stderr
    return done.stderr


def test_short_of_memory_means_smaller_tiles(tmp_path):
    """The budget says 4 GiB, the system gives less: the run goes on in smaller tiles and says so."""
    values = np.resize(np.random.default_rng().integers(0, 256, (97, 16384), dtype=np.uint8), (16384, 16384))
    harness.write_arrays(tmp_path / "x.h5", X=values)
    job = harness.write_job(
        tmp_path / "job.yaml", device="cpu", memory="4GiB", sync=False,
        inputs={"X": {"file": "x.h5", "dataset": "X"}},
        defaults={"warmup": 1, "repeat": 2, "verify": "sampled"},
        operations=[{"id": "flipped", "op": "transpose", "inputs": ["X"], "variants": ["blocked"]}],
    )
    said = run_with(450 * MIB, tmp_path, job)  # less than the 512 MiB of one step
    cuts = re.findall(r"cpu is short of memory; smaller tiles: (\d+) bytes instead of (\d+)", said)
    sizes = [cuts[0][1], *(smaller for smaller, _ in cuts)] if cuts else []
    assert 1 <= len(cuts) <= 3 and cuts == list(zip(sizes[1:], sizes)), said  # each goes on from the one before
    assert all(int(smaller) < int(larger) for smaller, larger in cuts), said
    with h5py.File(tmp_path / "out.h5") as file:
        assert np.array_equal(file["outputs/flipped"][:], values.T)


def test_a_variant_that_waits_gives_way_before_tiles_get_smaller(tmp_path):
    """By the budget there is room for both of a task, each of 208 MiB, of which they share 16; in fact for one."""
    job = harness.write_job(
        tmp_path / "job.yaml", device="cpu", memory="4GiB", sync=False,
        inputs={"X": {"random": {"shape": [2, 8 * MIB], "dtype": "uint8", "distribution": "constant", "value": 3}}},
        defaults={"warmup": 0, "repeat": 2, "verify": "sampled", "store": "none"},
        operations=[
            {"id": "s", "op": "reduce", "operator": "sum", "axis": 0, "inputs": ["X"], "variants": ["blocked", "cpu"]}
        ],
    )
    said = run_with(380 * MIB, tmp_path, job)
    assert "short of memory" not in said
    first, second = harness.Results(tmp_path / "out.h5").rows
    assert first["status"] == second["status"] == "ok"
    assert second["read_s"] > 0  # the first has given up what it had read


# ---- the largest part becomes the results file --------------------------------------------------------------------


def test_a_large_output_is_not_copied(tmp_path):
    """Its part becomes the file: the job must leave the same file as one that copies, and nothing else."""
    values = write_matrix(tmp_path / "x.h5", 4500, 4500)
    results = harness.run_job(
        tmp_path, device="cpu", sync=False,
        inputs={"X": {"file": "x.h5", "dataset": "X"}},
        defaults={"warmup": 0, "repeat": 1, "verify": "sampled"},
        operations=[
            {"id": "flipped", "op": "transpose", "inputs": ["X"], "variants": ["blocked", "cpu"]},
            {"id": "double", "op": "scale", "alpha": 2, "inputs": ["flipped"], "store": "all"},
            {"id": "sum", "op": "reduce", "operator": "sum", "axis": 0, "inputs": ["double"], "store": "none"},
        ],
    )
    with h5py.File(results.path) as file:
        assert set(file) == {"job", "job_resolved", "environment", "inputs", "outputs", "samples", "runs", "variants"}
        assert set(file["outputs"]) == {"flipped", "double"}
        assert sorted(file["samples"]) == ["0", "1", "2", "3"]
        assert file.attrs["schema"] == "tilerun-results" and "key" not in file.attrs
        assert np.array_equal(file["outputs/flipped"][:], values.T)
        assert np.array_equal(file["outputs/double"][:], values.T * 2)
        assert file["outputs/double"] == file["variants/double/cpu"]
        assert file["outputs/flipped"].attrs["variant"] == "blocked"
    assert not (tmp_path / "results.h5.parts").exists()
    again = harness.tilerun("run", tmp_path / "job.yaml", "-o", results.path, "--resume")
    assert again.returncode == harness.OK and "is complete" in again.stderr


# ---- the trace -----------------------------------------------------------------------------------------------------


def run_traced(folder, device, **options):
    write_matrix(folder / "x.h5", 3000, 2000)
    trace = folder / "trace.json"
    results = harness.run_job(
        folder, arguments=["--trace", trace], device=device, memory="4MiB", sync=False,
        inputs={"X": {"file": "x.h5", "dataset": "X"}},
        defaults={"warmup": 0, "repeat": 1, "verify": "none", **options},
        operations=[
            {"id": "flipped", "op": "transpose", "inputs": ["X"]},
            {"id": "sums", "op": "reduce", "operator": "sum", "axis": 1, "inputs": ["flipped"]},
        ],
    )
    return results, json.loads(trace.read_text())


def check_trace(results, trace, stages):
    """The fields that Perfetto and chrome://tracing read, and sums that are those of /runs."""
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    named = {
        event["pid"]: event["args"]["name"]
        for event in trace["traceEvents"]
        if event["ph"] == "M" and event["name"] == "process_name"
    }
    for event in events:
        assert event["name"] in STAGES and event["dur"] >= 0 and event["ts"] >= 0
        assert event["pid"] in named and isinstance(event["tid"], int)
        assert event["args"].get("step", 0) >= 0 and event["args"]["bytes"] >= 0
    for row in results.rows:
        (run,) = [pid for pid, name in named.items() if name.startswith(row["operation"])]
        for stage in stages:
            busy = sum(event["dur"] for event in events if event["pid"] == run and event["name"] == stage) * 1e-6
            column = "kernel_median_s" if stage == "kernel" else f"{stage}_s"
            assert busy == pytest.approx(row[column], rel=0.02, abs=1e-5), (row["operation"], stage)
        seen = {event["name"] for event in events if event["pid"] == run}
        assert set(stages) <= seen


def test_trace_on_the_cpu(tmp_path):
    results, trace = run_traced(tmp_path, "cpu")
    check_trace(results, trace, ["read", "kernel", "write"])


@pytest.mark.gpu
def test_trace_on_the_gpu(tmp_path):
    results, trace = run_traced(tmp_path, "cuda")
    check_trace(results, trace, ["read", "h2d", "kernel", "d2h", "write"])


def heard_ranges(folder, device):
    """The NVTX ranges of a run, by name, as a tool that listens hears them."""
    cuda = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    listener, heard = folder / "listener.so", folder / "heard"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-isystem", Path(cuda).resolve().parents[1] / "include", "-o", listener,
         Path(__file__).with_name("nvtx_listener.c")],
        check=True,
    )
    environment = dict(os.environ, NVTX_INJECTION64_PATH=str(listener), NVTX_LOG=str(heard))
    write_matrix(folder / "x.h5", 3000, 2000)
    job = harness.write_job(
        folder / "job.yaml", device=device, memory="4MiB",
        inputs={"X": {"file": "x.h5", "dataset": "X"}},
        defaults={"warmup": 0, "repeat": 1, "verify": "none", "compression": "gzip"},
        operations=[
            {"id": "flipped", "op": "transpose", "inputs": ["X"]},
            {"id": "sums", "op": "reduce", "operator": "sum", "axis": 1, "inputs": ["flipped"]},
        ],
    )
    harness.tilerun("run", job, "-o", folder / "out.h5", env=environment, expect=harness.OK)
    lines = heard.read_text().splitlines()
    assert lines.count("-") == len(lines) - lines.count("-")
    return {line[2:] for line in lines if line != "-"}


@pytest.mark.skipif(not tree.has_cuda(), reason="this build has no CUDA")
def test_nvtx_ranges_on_the_cpu(tmp_path):
    assert heard_ranges(tmp_path, "cpu") == {"read", "inflate", "kernel", "deflate", "write"}


@pytest.mark.gpu
def test_nvtx_ranges_on_the_gpu(tmp_path):
    assert heard_ranges(tmp_path, "cuda") == {"read", "inflate", "h2d", "kernel", "d2h", "deflate", "write"}


def test_trace_that_cannot_be_written(tmp_path):
    write_matrix(tmp_path / "x.h5", 30, 20)
    job = harness.write_job(
        tmp_path / "job.yaml", device="cpu", inputs={"X": {"file": "x.h5", "dataset": "X"}},
        operations=[{"id": "flipped", "op": "transpose", "inputs": ["X"]}],
    )
    done = harness.tilerun(
        "run", job, "-o", tmp_path / "out.h5", "--trace", tmp_path / "nowhere/trace.json", expect=harness.USAGE
    )
    assert f"nowhere/trace.json: folder {tmp_path}/nowhere: No such file" in done.stderr
    assert not (tmp_path / "out.h5").exists()
