"""What the sampled check of `--once` costs: bytes read and processor seconds beside those of `--once --verify none`, on
drawn stacks: chunks along any axes, any filter, any operation. What `plan` predicts for one processor is compared with
what the pass and the check take of it.

    TILERUN_CASES=20 TILERUN_SEED=1     layouts of 50 MB, whose ratios are printed; one by TILERUN_CASE=7

Bytes are those that the process reads by system calls. Small jobs' processor time is mostly that of starting, and
other tests take the cores: it is compared with a margin there."""

import json
import os
import subprocess

import h5py
import numpy as np
import pytest

import h5codecs
import harness

SEED = int(os.environ.get("TILERUN_SEED", 0))
LARGE = "TILERUN_CASES" in os.environ
CASES = int(os.environ.get("TILERUN_CASES", 8))
CHOSEN = os.environ.get("TILERUN_CASE")
BYTES = 50e6 if LARGE else 2e6
MOST = 2.2  # times what the pass alone costs
NEAR = 2 if LARGE else 3  # times the measured time, either way, and what a pass varies by
NOISE = 0.15
STARTING_BYTES, STARTING_S = 200e3, 0.02 if LARGE else 0.3

CODECS = {
    "zstd": (h5codecs.ZSTD, lambda x: (h5codecs.zstd, (3,))),
    "lz4": (h5codecs.LZ4, lambda x: (h5codecs.lz4_filter, ())),
    "blosc": (h5codecs.BLOSC, lambda x: (lambda data: h5codecs.blosc(data, x.itemsize), (2, 2, x.itemsize, 0, 5))),
    "bitshuffle": (
        h5codecs.BITSHUFFLE,
        lambda x: (lambda data: h5codecs.bitshuffle(data, x.itemsize, 0, 2), (0, 0, x.itemsize, 0, 2)),
    ),
}
HERE = [name for name, (kind, _) in CODECS.items() if h5codecs.are_here(kind, h5codecs.OVER_LZ4)]
FILTERS = {
    "none": {},
    "gzip": {"compression": "gzip", "compression_opts": 1},
    "gzip-shuffle": {"compression": "gzip", "compression_opts": 4, "shuffle": True},
    "fletcher32": {"fletcher32": True},
    "lzf": {"compression": "lzf", "shuffle": True},
    "scaleoffset": {"scaleoffset": 8},  # HDF5 undoes it
}
TYPES = ["int16", "uint16", "float32", "float64"]


# ---- what is drawn -------------------------------------------------------------------------------------------------


def draw_shape(rng, rank, elements):
    sizes = 2.0 ** rng.uniform(0, 3, rank)
    sizes *= (elements / np.prod(sizes)) ** (1 / rank)
    return tuple(max(2, int(np.ceil(size))) for size in sizes)


def draw_chunks(rng, shape, itemsize):
    """Whole, of one element, or a part, along each axis; neither tiny nor enormous."""
    while True:
        part = [int(rng.choice([size, 1, rng.integers(1, size + 1)])) for size in shape]
        if 3e3 < np.prod(part) * itemsize < 8e6 and np.prod(shape) / np.prod(part) < 20000:
            return tuple(part)


def draw_operation(rng, shape, dtype):
    """An operation on x, and its other input's shape (None: it has one)."""
    kinds = ["reduce", "reduce", "transpose", "scale"] + ["matmul"] * (2 if "float" in dtype else 0)
    op = str(rng.choice(kinds))
    operation = {"id": "y", "op": op, "inputs": ["x"]}
    other = None
    if op == "reduce":
        axis = rng.integers(-1, len(shape))
        operation["operator"] = str(rng.choice(["mean", "sum", "max", "std", "argmin", "norm2"]))
        operation["axis"] = "all" if axis < 0 else int(axis)
    elif op == "scale":
        operation.update(alpha=3, beta=1)
    elif op == "matmul":
        columns = int(rng.integers(1, 65))
        if rng.random() < 0.3 and shape[-1] < 600:
            operation["inputs"] = ["x", "x"]
            operation["transpose_a"] = True
        else:
            operation["inputs"] = ["x", "b"]
            other = (*shape[:-2], shape[-1], columns)
    return operation, other


def draw(rng, folder):
    """A job and what it is, in words."""
    dtype = str(rng.choice(TYPES))
    itemsize = np.dtype(dtype).itemsize
    shape = draw_shape(rng, int(rng.integers(2, 5)), BYTES / itemsize)
    chunks = draw_chunks(rng, shape, itemsize)
    kind = str(rng.choice([*FILTERS, *HERE]))
    if kind == "scaleoffset" and "float" in dtype:
        kind = "gzip"
    operation, other = draw_operation(rng, shape, dtype)
    x = rng.integers(0, 200, shape, "uint8").astype(dtype)
    path = folder / "x.h5"
    with h5py.File(path, "w") as file:
        if kind in CODECS:
            encode, values = CODECS[kind][1](x)
            h5codecs.add(file, "x", x, chunks, CODECS[kind][0], encode, values)
        else:
            file.create_dataset("x", data=x, chunks=chunks, **FILTERS[kind])
        if other:
            file["b"] = rng.integers(0, 9, other).astype(dtype)
    inputs = {name: {"file": str(path), "dataset": name} for name in dict.fromkeys(operation["inputs"])}
    what = " ".join(str(operation[key]) for key in ("op", "operator", "axis", "inputs") if key in operation)
    words = f"{dtype} {'x'.join(map(str, shape))} chunks {'x'.join(map(str, chunks))} {kind}: {what}"
    return harness.write_job(folder / "job.yaml", inputs=inputs, operations=[operation]), words


# ---- what it costs -------------------------------------------------------------------------------------------------


def cost(folder, job, *arguments):
    """Bytes that the process reads, its processor seconds, its row."""
    output = folder / "results.h5"
    command = [str(harness.TILERUN), "run", str(job), "-o", str(output), "--overwrite", "--once", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    said = process.stderr.read()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    with open(f"/proc/{process.pid}/io") as io:
        read = dict(line.split(": ") for line in io)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == harness.OK, said
    return int(read["rchar"]), used.ru_utime + used.ru_stime, harness.Results(output).rows[0]


def predict(job):
    """Seconds of the pass and of the check, by one processor."""
    one = min(os.sched_getaffinity(0))
    command = [str(harness.TILERUN), "plan", str(job), "--once", "--json"]
    said = subprocess.run(command, capture_output=True, check=True, preexec_fn=lambda: os.sched_setaffinity(0, {one}))
    run = json.loads(said.stdout)["runs"][0]
    return run["pass_s"], run["verify_s"]


def least(costs):
    return [min(figures) for figures in zip(*[each[:2] for each in costs])]


def test_chunks_along_the_outer_axes_are_decoded_once(folder):
    """All axes are one to this reduction, and each chunk reaches from its beginning to its end."""
    x = np.random.default_rng(SEED).integers(0, 9, (140, 30, 60, 50), "uint8")
    with h5py.File(folder / "x.h5", "w") as file:
        file.create_dataset("x", data=x, chunks=(140, 28, 1, 1), compression="gzip", compression_opts=1)
    inputs = {"x": {"file": str(folder / "x.h5"), "dataset": "x"}}
    operation = {"id": "y", "op": "reduce", "operator": "sum", "inputs": ["x"], "axis": "all"}
    job = harness.write_job(folder / "job.yaml", inputs=inputs, operations=[operation])
    size = os.path.getsize(folder / "x.h5")
    read, _, _ = cost(folder, job, "--verify", "none")
    assert read < size + 6e6  # the program itself
    assert int(harness.Results(folder / "results.h5").output("y")) == x.sum()


@pytest.mark.parametrize("case", range(CASES) if CHOSEN is None else [int(CHOSEN)])
def test_a_sampled_check_reads_little_more_than_the_pass(folder, case):
    rng = np.random.default_rng([SEED, case])
    job, words = draw(rng, folder)
    tries = 3 if LARGE else 1
    alone, checked = [], []
    for _ in range(tries):
        alone.append(cost(folder, job, "--verify", "none"))
        checked.append(cost(folder, job))
    assert checked[0][2]["status"] == "ok"
    (bytes_alone, cpu_alone), (bytes_checked, cpu_checked) = least(alone), least(checked)
    pass_s, verify_s = predict(job)
    took = cpu_checked - cpu_alone
    print(
        f"{words}\n    bytes {bytes_checked / bytes_alone:5.2f} ({bytes_alone / 1e6:.1f} MB)"
        f"   processor {cpu_checked / cpu_alone:5.2f} ({cpu_alone:.3f} s)   {checked[0][2]['verify']}"
        f"   check {took:.3f} s, predicted {verify_s:.3f}   pass predicted {pass_s:.3f}"
    )
    assert bytes_checked <= MOST * bytes_alone + STARTING_BYTES
    assert cpu_checked <= MOST * cpu_alone + STARTING_S
    assert verify_s <= NEAR * took + NOISE * cpu_alone + STARTING_S
    assert took <= NEAR * verify_s + NOISE * cpu_alone + STARTING_S
