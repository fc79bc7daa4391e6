"""Inputs as people store them: either byte order, chunked, compressed, a band of rows, unusual float types."""

import json
import os
import re
from pathlib import Path

import h5py
import numpy as np
import pytest

import harness
import referee
from harness import OK

SHAPE = (61, 83)


def transposed(folder, **source):
    """Reads the data set /x of data.h5 by way of a transpose; returns the transpose of what was stored."""
    results = harness.run_job(
        folder,
        inputs={"x": {"file": "data.h5", "dataset": "/x", **source}},
        operations=[{"id": "y", "op": "transpose", "inputs": ["x"], "variants": ["cpu"], "repeat": 1, "warmup": 0}],
    )
    with h5py.File(results.path) as file:
        names = file["inputs/x"].attrs["dtype"], file["outputs/y"].attrs["dtype"], results.row("y")["dtype"]
    assert len(set(names)) == 1
    return names[0], results.output("y").swapaxes(-1, -2), results


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("dtype", [d for d in referee.DTYPES if d != "bfloat16"])
def test_byte_order(folder, rng, dtype, order):
    x = referee.random_values(rng, SHAPE, dtype)
    with h5py.File(folder / "data.h5", "w") as file:
        file.create_dataset("x", data=x, dtype=np.dtype(dtype).newbyteorder(order))
    name, found, _ = transposed(folder)
    assert name == dtype
    np.testing.assert_array_equal(found, x)


@pytest.mark.parametrize("big_endian", [False, True])
def test_bfloat16(folder, rng, big_endian):
    bits = referee.random_bits(rng, SHAPE, "bfloat16")
    kind = referee.bfloat16_type()
    if big_endian:
        kind.set_order(h5py.h5t.ORDER_BE)
    with h5py.File(folder / "data.h5", "w") as file:
        dataset = h5py.h5d.create(file.id, b"x", kind, h5py.h5s.create_simple(SHAPE))
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, bits.byteswap() if big_endian else bits, kind)
    name, found, results = transposed(folder)
    assert name == "bfloat16"
    np.testing.assert_array_equal(found, bits)
    with h5py.File(results.path) as file:
        assert referee.dataset_dtype(file["outputs/y"]) == "bfloat16"


@pytest.mark.parametrize(
    "layout",
    [
        {"chunks": (7, 11)},
        {"chunks": (61, 83)},
        {"chunks": (1, 83), "compression": "gzip"},
        {"chunks": (16, 16), "compression": "gzip", "shuffle": True, "fletcher32": True},
        {"chunks": (8, 8), "maxshape": (None, None)},
        {"chunks": (10, 10), "scaleoffset": 0},
    ],
    ids=lambda layout: "-".join(layout),
)
def test_chunks_and_filters(folder, rng, layout):
    x = rng.integers(0, 1000, SHAPE, "int32")
    with h5py.File(folder / "data.h5", "w") as file:
        file.create_dataset("x", data=x, **layout)
    np.testing.assert_array_equal(transposed(folder)[1], x)


@pytest.mark.parametrize("dtype", ["float16", "uint8", "int64", ">f8", ">i2"])
def test_compressed_types(folder, rng, dtype):
    x = rng.integers(0, 100, SHAPE).astype(dtype)
    with h5py.File(folder / "data.h5", "w") as file:
        file.create_dataset("x", data=x, chunks=(7, 83), compression="gzip", shuffle=True, fletcher32=True)
    np.testing.assert_array_equal(transposed(folder)[1], x)


@pytest.mark.parametrize("shape, chunks", [((5003,), (1000,)), ((7, 61, 83), (2, 16, 40)), ((1, 999), (1, 100))])
def test_compressed_ranks(folder, rng, shape, chunks):
    x = rng.integers(0, 100, shape, "int32")
    with h5py.File(folder / "data.h5", "w") as file:
        file.create_dataset("x", data=x, chunks=chunks, compression="gzip", shuffle=True)
    results = harness.run_job(
        folder,
        inputs={"x": {"file": "data.h5", "dataset": "/x"}},
        operations=[{"id": "y", "op": "scale", "inputs": ["x"], "repeat": 1, "warmup": 0}],
    )
    np.testing.assert_array_equal(results.output("y"), x)


def test_user_block(folder, rng):
    x = rng.normal(size=SHAPE)
    for layout in ({}, {"chunks": (8, 8), "compression": "gzip"}):
        with h5py.File(folder / "data.h5", "w", userblock_size=1024) as file:
            file.create_dataset("x", data=x, **layout)
        found = transposed(folder)
        np.testing.assert_array_equal(found[1], x)
        found[2].path.unlink()


def test_lzf(folder, rng):
    """h5py's own filter: read where liblzf was there for the build, or HDF5 finds a plugin; else the refusal names it."""
    x = rng.integers(0, 10, SHAPE, "int32")
    with h5py.File(folder / "data.h5", "w") as file:
        file.create_dataset("x", data=x, compression="lzf")
    job = harness.write_job(
        folder / "job.yaml",
        inputs={"x": {"file": "data.h5", "dataset": "/x"}},
        operations=[{"id": "y", "op": "transpose", "inputs": ["x"]}],
    )
    done = harness.tilerun("run", job, "-o", folder / "results.h5")
    if done.returncode == harness.OK:
        np.testing.assert_array_equal(harness.Results(folder / "results.h5").output("y").T, x)
    else:
        assert done.returncode == harness.USAGE
        assert "filter 32000 (LZF), which is not installed here: a tilerun built with liblzf (Debian's" in done.stderr


def test_storage_of_other_kinds(folder, rng):
    """Compact, external and virtual: HDF5 reads them."""
    x = rng.normal(size=(20, 30))
    x.tofile(folder / "x.raw")
    space = h5py.h5s.create_simple(x.shape)
    with h5py.File(folder / "data.h5", "w") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_layout(h5py.h5d.COMPACT)
        h5py.h5d.create(file.id, b"compact", h5py.h5t.IEEE_F64LE, space, plist).write(h5py.h5s.ALL, h5py.h5s.ALL, x)
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_external(str(folder / "x.raw").encode(), 0, h5py.h5f.UNLIMITED)
        h5py.h5d.create(file.id, b"external", h5py.h5t.IEEE_F64LE, space, plist)
        file["parts/top"], file["parts/bottom"] = x[:7], x[7:]
        virtual = h5py.VirtualLayout(x.shape, x.dtype)
        virtual[:7], virtual[7:] = (h5py.VirtualSource(file[f"parts/{name}"]) for name in ("top", "bottom"))
        file.create_virtual_dataset("virtual", virtual)
    for name in ("compact", "external", "virtual"):
        results = harness.run_job(
            folder,
            inputs={"x": {"file": "data.h5", "dataset": f"/{name}"}},
            operations=[{"id": "y", "op": "transpose", "inputs": ["x"], "repeat": 1, "warmup": 0}],
        )
        np.testing.assert_array_equal(results.output("y").T, x)
        results.path.unlink()


def test_chunk_written_without_its_filters(folder, rng):
    x = rng.integers(0, 10, (20, 30), "int32")
    with h5py.File(folder / "data.h5", "w") as file:
        dataset = file.create_dataset("x", data=x, chunks=(10, 10), compression="gzip", shuffle=True)
        x[10:20, 20:30] = 7
        dataset.id.write_direct_chunk((10, 20), np.full((10, 10), 7, "int32").tobytes(), filter_mask=3)
    np.testing.assert_array_equal(transposed(folder)[1], x)


@pytest.mark.parametrize("others", [[], [1]])
def test_optional_filter_that_no_chunk_has(folder, rng, others):
    """It was missing where the data set was written, so all chunks skip it."""
    x = rng.integers(0, 10, (20, 30), "int32")
    with h5py.File(folder / "data.h5", "w") as file:
        creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        creation.set_chunk((6, 7))
        for number in [*others, 40000]:
            creation.set_filter(number, h5py.h5z.FLAG_OPTIONAL, (3,))
        h5py.h5d.create(file.id, b"x", h5py.h5t.NATIVE_INT32, h5py.h5s.create_simple(x.shape), creation)
        file["x"][...] = x
    np.testing.assert_array_equal(transposed(folder)[1], x)


def test_damaged_chunk(folder, rng):
    x = rng.integers(0, 10, (20, 30), "int32")
    with h5py.File(folder / "data.h5", "w") as file:
        dataset = file.create_dataset("x", data=x, chunks=(10, 10), fletcher32=True)
        address = dataset.id.get_chunk_info_by_coord((10, 20)).byte_offset
    with open(folder / "data.h5", "r+b") as file:
        file.seek(address)
        file.write(b"\x01\x80\x02\x40")  # not 0xffff, which counts for nothing in ones' complement, as 0 does
    job = harness.write_job(
        folder / "job.yaml",
        inputs={"x": {"file": "data.h5", "dataset": "/x"}},
        operations=[{"id": "y", "op": "transpose", "inputs": ["x"]}],
    )
    done = harness.tilerun("run", job, "-o", folder / "results.h5", expect=harness.IO)
    assert "'/x' in" in done.stderr and "chunk at [10, 20]" in done.stderr and "fletcher32" in done.stderr
    assert not (folder / "results.h5").exists()


@pytest.mark.parametrize(
    "layout",
    [
        {"checksum": "none"},
        {"checksum": "none", "chunks": [7, 11]},
        {"checksum": "none", "chunks": [7, 11], "compression": "gzip", "level": 1},
        {"chunks": [100, 100], "compression": "gzip", "shuffle": True},
        {"compression": "gzip", "level": 9, "shuffle": True, "checksum": "none"},
        {},
    ],
    ids=str,
)
@pytest.mark.parametrize("memory", ["64KiB", "1GiB"])
def test_output_layouts(folder, rng, layout, memory):
    x = rng.normal(size=(157, 311)).astype("float32")
    harness.write_arrays(folder / "data.h5", x=x)
    results = harness.run_job(
        folder,
        memory=memory,
        inputs={"x": {"file": "data.h5", "dataset": "/x"}},
        operations=[{"id": "y", "op": "transpose", "inputs": ["x"], "repeat": 1, "warmup": 0, **layout}],
    )
    with h5py.File(results.path) as file:
        y = file["outputs/y"]
        np.testing.assert_array_equal(y[:], x.T)
        assert bool(y.fletcher32) == ("checksum" not in layout) and y.compression == layout.get("compression")
        assert bool(y.shuffle) == layout.get("shuffle", False)
        if "chunks" in layout:
            assert y.chunks == tuple(min(c, n) for c, n in zip(layout["chunks"], y.shape))


def test_hash_does_not_depend_on_layout(folder, rng):
    x, hashes = rng.normal(size=SHAPE), set()
    for layout in ({}, {"chunks": (5, 7), "compression": "gzip"}, {"dtype": ">f8"}, {"chunks": (61, 1)}):
        with h5py.File(folder / "data.h5", "w") as file:
            file.create_dataset("x", data=x, **layout)
        results = transposed(folder)[2]
        with h5py.File(results.path) as file:
            hashes.add(file["inputs/x"].attrs["xxh3"])
        results.path.unlink()
    assert len(hashes) == 1


def test_missing_chunks_are_the_fill_value(folder):
    with h5py.File(folder / "data.h5", "w") as file:
        file.create_dataset("x", SHAPE, "f4", chunks=(10, 10), fillvalue=2.5)[:10] = 1
    expected = np.full(SHAPE, 2.5, "f4")
    expected[:10] = 1
    np.testing.assert_array_equal(transposed(folder)[1], expected)


@pytest.mark.parametrize("first, count", [(0, 61), (5, 20), (60, 1), (61, 0)])
def test_band_of_rows(folder, rng, first, count):
    x = rng.normal(size=SHAPE)
    with h5py.File(folder / "data.h5", "w") as file:
        file.create_dataset("x", data=x, chunks=(8, 83))
    _, found, results = transposed(folder, rows=[first, count])
    np.testing.assert_array_equal(found, x[first : first + count])
    assert results.row("y")["shape"] == f"{count}x83"


@pytest.mark.parametrize("rows", [[0, 62], [62, 0], [-1, 2], [3]])
def test_band_that_is_not_there(folder, rows):
    harness.write_arrays(folder / "data.h5", x=np.zeros(SHAPE))
    job = harness.write_job(
        folder / "job.yaml",
        inputs={"x": {"file": "data.h5", "dataset": "/x", "rows": rows}},
        operations=[{"id": "y", "op": "transpose", "inputs": ["x"]}],
    )
    done = harness.tilerun("check", job)
    assert done.returncode == harness.USAGE and "rows" in done.stderr and "job.yaml:" in done.stderr


def test_band_of_a_stack(folder, rng):
    x = rng.normal(size=(7, 5, 6))
    harness.write_arrays(folder / "data.h5", x=x)
    np.testing.assert_array_equal(transposed(folder, rows=[2, 3])[1], x[2:5])


def test_links_inside_a_file(folder, rng):
    x = rng.normal(size=SHAPE)
    with h5py.File(folder / "other.h5", "w") as file:
        file["deep/x"] = x
    harness.write_arrays(folder / "data.h5", x=h5py.ExternalLink("other.h5", "/deep/x"))
    np.testing.assert_array_equal(transposed(folder)[1], x)


@pytest.mark.parametrize(
    ["memory", "operation"],
    [("64MiB", {"op": "transpose", "axes": [2, 1, 0]}), ("8MiB", {"op": "reduce", "operator": "max", "axis": [0, 2]})],
)
def test_each_chunk_is_decoded_once(folder, rng, memory, operation):
    """Also where the operation wants the axes in another order, and a chunk has a little of each of its tiles."""
    x = rng.integers(0, 9, (30, 200, 300)).astype("f4")
    with h5py.File(folder / "data.h5", "w") as file:
        file.create_dataset("x", data=x, chunks=(1, 200, 300), compression="gzip", compression_opts=1)
    job = harness.write_job(folder / "job.yaml", device="cpu", memory=memory, defaults={"verify": "none"},
                            inputs={"x": {"file": "data.h5", "dataset": "x"}},
                            operations=[{"id": "y", "inputs": ["x"], **operation}])  # fmt: skip
    harness.tilerun("run", job, "--once", "-o", folder / "out.h5", "--trace", folder / "trace.json", expect=OK)
    trace = json.loads((folder / "trace.json").read_text())
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    assert sum(event["name"] == "inflate" for event in events) == len(x)
    with h5py.File(folder / "out.h5") as file:
        expected = x.transpose(2, 1, 0) if operation["op"] == "transpose" else x.max((0, 2))
        np.testing.assert_array_equal(file["outputs/y"], expected)


@pytest.mark.parametrize(
    ["shape", "chunks", "axes", "verify"],
    [((128, 32, 64, 300), (128, 8, 64, 256), [3, 0, 2, 1], "none"),  # rows of chunks longer than what is hashed at a time
     ((32, 32, 128, 64), (1, 32, 128, 64), [2, 3, 0, 1], "sampled")],  # samples that are many boxes of the result
)  # fmt: skip
def test_chunks_are_read_once_for_each_purpose(folder, shape, chunks, axes, verify):
    """Bytes: of the pass, the hash and the samples, and the result, which is copied into the results file."""
    x = np.broadcast_to(np.arange(shape[-1]).astype("u1"), shape)
    with h5py.File(folder / "data.h5", "w") as file:
        file.create_dataset("x", data=x, chunks=chunks, fletcher32=True)
    harness.write_job(folder / "job.yaml", device="cpu", sync=False, defaults={"verify": verify},
                      inputs={"x": {"file": "data.h5", "dataset": "x"}},
                      operations=[{"id": "y", "inputs": ["x"], "op": "transpose", "axes": axes}])  # fmt: skip
    process = harness.start("run", folder / "job.yaml", "--once", "-o", folder / "out.h5", "--progress", "none")
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    read = int(re.search(r"rchar: (\d+)", Path(f"/proc/{process.pid}/io").read_text())[1])
    assert process.wait() == OK
    assert read < 4 * (folder / "data.h5").stat().st_size
    with h5py.File(folder / "out.h5") as file:
        np.testing.assert_array_equal(file["outputs/y"][::100, 5], x.transpose(axes)[::100, 5])
        assert file["outputs/y"].id.get_storage_size() < 1.1 * x.size


def test_swept_paths_name_one_group_each(folder, rng):
    """A label holds a swept value, which may be a path or hold the mark between parameters: still one group deep."""
    values = {name: referee.random_values(rng, (3, 2), "int16") for name in ("/a/b", "c,d", "two\nlines")}
    harness.write_arrays(folder / "inputs.h5", **values)
    results = harness.run_job(
        folder,
        parameters={"which": list(values), "f": [1, 2]},
        inputs={"X": {"file": "inputs.h5", "dataset": "$which"}},
        operations=[{"id": "y", "op": "scale", "inputs": ["X"], "alpha": "$f", "variants": ["cpu"], "store": "all"}],
    )
    for label, value in zip(("_a_b", "c_d", "two_lines"), values.values()):
        for factor in (1, 2):
            parameters = f"which={label},f={factor}"
            assert results.row("y", parameters=parameters)["status"] == "ok"
            assert (results.output(f"{parameters}/y") == value * factor).all()
            assert (results.read(f"variants/{parameters}/y/cpu") == value * factor).all()
    with h5py.File(results.path) as file:
        assert len(file["outputs"]) == 6 and len(file["inputs"]) == 3
