"""Data sets of which a part was written, as h5py's users make them: what was never stored has the fill value, and costs
neither memory nor much time. test_hostile.py has those that claim what nobody can have meant."""

import os

import h5py
import numpy as np
import pytest

import harness
from harness import OK
from test_hostile import tilerun

TYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"]
HOW = [{}, {"compression": "gzip"}, {"compression": "lzf", "shuffle": True}, {"fletcher32": True}]
CASES = int(os.environ.get("TILERUN_CASES", 30))


def draw(rng, file, name):
    """A data set of which some boxes were written; sometimes contiguous and not written at all."""
    shape = tuple(rng.integers(1, 60, rng.integers(2, 4)))
    dtype, how = rng.choice(TYPES), dict(rng.choice(HOW))
    if rng.random() < 0.8:
        how["chunks"] = tuple(int(rng.integers(1, n + 1)) for n in shape)
    elif how:
        how["chunks"] = True
    data = file.create_dataset(name, shape, dtype, fillvalue=rng.choice([0, 3, 100]), **how)
    for _ in range(rng.integers(0, 4) if data.chunks else 0):
        start = [int(rng.integers(0, n)) for n in shape]
        box = tuple(slice(at, int(rng.integers(at, n)) + 1) for at, n in zip(start, shape))
        data[box] = rng.integers(0, 100, data[box].shape)
    return data[()]


def test_what_was_never_stored_is_the_fill_value(folder, rng):
    inputs, wanted = {}, {}
    with h5py.File(folder / "data.h5", "w") as file:
        for i in range(CASES):
            value, dtype = draw(rng, file, f"x{i}"), rng.choice(TYPES)
            inputs[f"x{i}"] = {"file": "data.h5", "dataset": f"x{i}", "dtype": str(dtype)}
            wanted[f"y{i}"] = np.swapaxes(value, -1, -2).astype(dtype)
    results = harness.run_job(
        folder, device="cpu", inputs=inputs, memory=str(rng.choice(["64KiB", "1GiB"])),
        defaults={"warmup": 0, "repeat": 1, "verify": "none"},
        operations=[{"id": f"y{i}", "op": "transpose", "inputs": [f"x{i}"]} for i in range(CASES)],
    )  # fmt: skip
    with h5py.File(results.path) as file:
        for name, value in wanted.items():
            assert np.array_equal(file[f"outputs/{name}"][()], value), name


@pytest.mark.parametrize("chunks", [None, (700,)])
@pytest.mark.parametrize("dtype", ["f4", "g"])
@pytest.mark.parametrize("source", [False, True])
@pytest.mark.parametrize("fill", [0, 9])
def test_what_is_never_filled(folder, chunks, dtype, source, fill):
    """As netCDF's set_fill_off has it: HDF5 leaves memory as it was. Nothing is seen of that."""
    with h5py.File(folder / "data.h5", "w") as file:
        creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        creation.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        creation.set_fill_value(np.array(fill, "f4"))
        if chunks:
            creation.set_chunk(chunks)
        space = h5py.h5s.create_simple((20000,))
        h5py.h5d.create(file.id, b"x", h5py.h5t.py_create(np.dtype(dtype)), space, creation)
        layout = h5py.VirtualLayout((20000,), dtype)
        layout[:] = h5py.VirtualSource(".", "x", (20000,))
        file.create_virtual_dataset("v", layout, fill)
    entry = {"file": "data.h5", "dataset": "v" if source else "x"}
    results = harness.run_job(folder, device="cpu", inputs={"x": entry}, defaults={"warmup": 0, "repeat": 3},
                              operations=[{"id": of, "op": "reduce", "operator": of, "axis": "all", "inputs": ["x"]}
                                          for of in ("max", "min")])  # fmt: skip
    assert results.output("max") == fill == results.output("min")


@pytest.mark.parametrize("shape", [(3, 4), (3000, 4000)])
def test_nothing_was_stored_behind_a_user_block(folder, shape):
    """As in MATLAB's files; the elements are not the file's bytes."""
    with h5py.File(folder / "data.h5", "w", userblock_size=512) as file:
        file.create_dataset("x", shape, "f4", fillvalue=2)
    results = harness.run_job(
        folder, device="cpu", inputs={"x": {"file": "data.h5", "dataset": "x"}},
        operations=[{"id": "y", "op": "reduce", "operator": "max", "axis": 0, "inputs": ["x"]}],
    )  # fmt: skip
    assert (results.output("y") == 2).all()


LARGE = {
    "frames": ((5000, 256, 256), "f4", {"chunks": (64, 256, 256), "compression": "gzip", "fillvalue": 2}, {}),
    "late": ((3 * 10**8,), "f4", {}, {}),
    "terabytes": ((2**20, 2**20), "f8", {"chunks": (1024, 1024), "fillvalue": 2}, {"rows": [0, 144]}),
    "columns": ((2**20, 2**20), "f8", {"chunks": (1024, 1024)}, {"select": [":", "-16:"]}),
}


@pytest.mark.parametrize("kind", LARGE)
def test_large_and_nearly_empty(folder, kind):
    """More than 1 GiB, or as much of more as the job asks for, within what test_hostile.py allows."""
    shape, dtype, how, part = LARGE[kind]
    with h5py.File(folder / "data.h5", "w") as file:
        data = file.create_dataset("x", shape, dtype, **how)
        if kind != "late":
            data[100:140, ..., -16:] = 7
    job = harness.write_job(
        folder / "job.yaml", memory="64MiB", device="cpu", inputs={"x": {"file": "data.h5", "dataset": "x", **part}},
        operations=[{"id": "y", "op": "reduce", "operator": "max", "axis": "all", "inputs": ["x"]}],
    )  # fmt: skip
    done = tilerun("run", job, "--once", "--progress", "none", "-o", "out.h5", cwd=folder)
    assert done.code == OK, done.err
    with h5py.File(folder / "out.h5") as file:
        assert file["outputs/y"][()] == (0 if kind == "late" else 7)
