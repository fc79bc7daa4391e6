"""What `merge`, or a job that keeps its finished panels, reads of inputs that were read already: nothing, unless their
files have changed. The hashes, and what decoding and conversion have found, are those of an undivided run.

    TILERUN_CASES=40 TILERUN_SEED=1     more drawn jobs"""

import os
import shutil
import subprocess
import time

import h5py
import numpy as np
import pytest

import harness
from harness import IO, OK
from shards import assert_equals_unsharded, bits, merge, plain_results, shard

CASES = int(os.environ.get("TILERUN_CASES", 6))
SEED = int(os.environ.get("TILERUN_SEED", 0))
BYTES = 2_000_000
TYPES = ["int16", "uint16", "float32", "float64"]


def draw_input(rng, folder, name, shape, dtype):
    """An input's keys: one file or several, stored in any way, all of it or some, as stored, decoded or converted."""
    file, keys = f"{name}.h5", {"dataset": "d"}
    data = rng.integers(0, 200, shape).astype(dtype)
    how = {}
    if rng.random() < 0.3:
        chunks = tuple(int(rng.integers(max(1, size // 4), size + 1)) for size in shape)
        how = {"chunks": chunks, "compression": "gzip", "compression_opts": 1}
    cut = shape[0] // 3 if rng.random() < 0.3 else 0
    if cut:
        file, keys["concatenate"] = f"{name}-*.h5", 0
    for number, part in enumerate([data[:cut], data[cut:]] if cut else [data]):
        with h5py.File(folder / file.replace("*", str(number)), "w") as to:
            limited = how | {"chunks": tuple(min(*both) for both in zip(how["chunks"], part.shape))} if how else how
            dataset = to.create_dataset("d", data=part, **limited)
            if decoded := name == "x" and rng.random() < 0.3:
                dataset.attrs["_FillValue"] = np.array([7], dtype)
    if not cut and rng.random() < 0.3:
        keys["rows"] = [int(rng.integers(0, 3)), shape[0] - int(rng.integers(0, 3))]
    if "float" in dtype and not decoded and rng.random() < 0.3:
        keys["dtype"] = "float32" if dtype == "float64" else "float16"
    return {"file": file} | keys


def draw_job(rng, folder, **more):
    dtype = str(rng.choice(TYPES))
    rank = int(rng.integers(1, 4))
    shape = 2.0 ** rng.uniform(0, 4, rank)
    shape *= (BYTES / np.dtype(dtype).itemsize / np.prod(shape)) ** (1 / rank)
    shape = tuple(max(20, int(size)) for size in shape)
    inputs = {"x": draw_input(rng, folder, "x", shape, dtype)}
    axis = int(rng.integers(0, rank))
    operations = [
        {"id": "y", "op": "reduce", "inputs": ["x"], "operator": "max", "axis": axis if rank > 1 else "all"},
        {"id": "z", "op": "scale", "inputs": ["x"], "alpha": 2, "beta": 1},
        {"id": "t", "op": "transpose", "inputs": ["x"]},
        {"id": "p", "op": "matmul", "inputs": ["x", "w"]},
    ]
    able = [0, 1] + [2] * (rank > 1) + [3] * (rank == 2 and "float" in dtype)
    chosen = [operations[i] for i in sorted(rng.choice(able, rng.integers(1, len(able) + 1), replace=False))]
    if any(operation["id"] == "p" for operation in chosen):
        chosen = [operations[3]] + [each for each in chosen if each["id"] in "yz"]
        inputs["w"] = draw_input(rng, folder, "w", (shape[1], int(rng.integers(2, 40))), dtype)
        inputs["w"].pop("rows", None)
        inputs["w"].pop("dtype", None)
        if "dtype" in inputs["x"]:
            inputs["w"]["dtype"] = inputs["x"]["dtype"]
    harness.write_job(
        folder / "job.yaml",
        device="cpu",
        inputs=inputs,
        defaults={"warmup": 0, "repeat": 1},
        operations=[each | {"variants": ["cpu"]} | more for each in chosen],
    )
    return sorted(folder.glob("?*.h5"))


def settle(files):
    """Files that were written within a tick of the clock may change once more without a sign of it."""
    time.sleep(0.05)
    return sum(file.stat().st_size for file in files)


def read_bytes(*arguments):
    """Runs tilerun on one thread; the bytes that it reads by system calls. Threads that write rows of the same chunk
    make HDF5 read it back as often as they happen to meet."""
    process = subprocess.Popen(
        [str(harness.TILERUN), *map(str, arguments)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    said = process.stderr.read()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    with open(f"/proc/{process.pid}/io") as io:
        read = int(dict(line.split(": ") for line in io)["rchar"])
    assert process.wait() == OK, said
    process.stderr.close()
    return read


def described(path):
    """What the file says of its inputs."""
    with h5py.File(path) as file:
        return {name: {key: str(value) for key, value in file["inputs"][name].attrs.items()} for name in file["inputs"]}


@pytest.mark.parametrize("case", range(CASES))
def test_merge_reads_no_input(folder, case):
    """Of a touched file it must: so the two differ by that much."""
    rng = np.random.default_rng([SEED, case])
    files = draw_job(rng, folder)
    size = settle(files)
    count, by = int(rng.integers(2, 6)), [("--by", "tiles"), ("--by", "runs"), ()][rng.choice(3, p=[0.6, 0.2, 0.2])]
    for index in range(count):
        shard(folder, index, count, *by)
    shutil.copytree(folder / "out.h5.parts", folder / "kept")
    read = read_bytes("merge", folder / "out.h5")
    assert_equals_unsharded(folder)
    found = described(folder / "out.h5")
    assert found == described(folder / "plain.h5")
    (folder / "kept").rename(folder / "out.h5.parts")
    (folder / "out.h5").unlink()
    for file in files:
        os.utime(file)
    again = read_bytes("merge", folder / "out.h5")
    assert described(folder / "out.h5") == found
    assert again - read > 0.8 * size, (read, again, size)


@pytest.mark.parametrize("case", range(max(2, CASES // 3)))
def test_panels_of_one_process(folder, case):
    """The hash of an input is the sum of those of its bands, also where the job was killed in between."""
    rng = np.random.default_rng([SEED, case, 1])
    settle(draw_job(rng, folder, keep_tiles="always"))
    process = harness.start("run", folder / "job.yaml", "-o", folder / "out.h5", "--progress", "plain")
    while ": ok" not in process.stderr.readline():
        if process.poll() is not None:
            break
    process.kill()
    process.communicate()
    harness.run_folder(folder, "--resume")
    found = described(folder / "out.h5"), bits(folder / "out.h5")
    text = (folder / "job.yaml").read_text()
    assert text.count("always") > 0
    (folder / "job.yaml").write_text(text.replace("always", "never"))
    plain_results(folder)
    assert found == (described(folder / "plain.h5"), bits(folder / "plain.h5"))


@pytest.mark.parametrize("time_of", ["now", "before"])
def test_changed_values_are_seen(folder, time_of):
    """Also where the file's time of change was set back."""
    data = np.arange(600 * 700.0).reshape(600, 700)
    harness.write_arrays(folder / "x.h5", d=data)
    harness.write_job(
        folder / "job.yaml",
        device="cpu",
        inputs={"x": {"file": "x.h5", "dataset": "d"}},
        operations=[{"id": "y", "op": "reduce", "inputs": ["x"], "operator": "max", "axis": 1, "variants": ["cpu"]}],
    )
    settle([])
    for index in range(3):
        shard(folder, index, 3, "--by", "tiles", "--once")
    about = os.stat(folder / "x.h5")
    with h5py.File(folder / "x.h5", "r+") as file:
        file["d"][599, 3] = 1e9
    if time_of == "before":
        os.utime(folder / "x.h5", ns=(about.st_atime_ns, about.st_mtime_ns))
    said = merge(folder, expect=IO).stderr
    assert "shard 2 of 3 has 0 of 1 runs" in said and "shard 0 of 3" not in said.split("refused")[0]
    assert shard(folder, 2, 3, "--by", "tiles", "--once", "--resume")
    merge(folder)
    with h5py.File(folder / "out.h5") as file:
        np.testing.assert_array_equal(file["outputs/y"][()], np.append(data[:-1].max(axis=1), 1e9))


def test_merge_says_why_it_opens_an_input_that_is_gone(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["d"] = np.ones((8, 8))
    read = {"op": "reduce", "inputs": ["x"], "axis": 0, "variants": ["cpu"], "repeat": 1}
    harness.write_job(
        tmp_path / "job.yaml", device="cpu", inputs={"x": {"file": "x.h5", "dataset": "d"}},
        operations=[{"id": name, "operator": name, **read} for name in ("min", "max")],
    )  # fmt: skip
    shard(tmp_path, 0, 2), shard(tmp_path, 1, 2)
    (tmp_path / "x.h5").rename(tmp_path / "away.h5")
    said = merge(tmp_path, expect=harness.USAGE).stderr
    assert "x.h5: No such file" in said and "merge opens the job's inputs, to check" in said, said
    (tmp_path / "away.h5").rename(tmp_path / "x.h5")
    merge(tmp_path)
