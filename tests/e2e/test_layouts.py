"""Inputs as people store them: either byte order, chunked, compressed, a band of rows, unusual float types."""

import h5py
import numpy as np
import pytest

import harness
import referee

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
    with h5py.File(folder / "data.h5", "w") as file:
        file["x"] = np.zeros(SHAPE)
    job = harness.write_job(
        folder / "job.yaml",
        inputs={"x": {"file": "data.h5", "dataset": "/x", "rows": rows}},
        operations=[{"id": "y", "op": "transpose", "inputs": ["x"]}],
    )
    done = harness.tilerun("check", job)
    assert done.returncode == harness.USAGE and "rows" in done.stderr and "job.yaml:" in done.stderr


def test_band_of_a_stack(folder, rng):
    x = rng.normal(size=(7, 5, 6))
    with h5py.File(folder / "data.h5", "w") as file:
        file["x"] = x
    np.testing.assert_array_equal(transposed(folder, rows=[2, 3])[1], x[2:5])


def test_links_inside_a_file(folder, rng):
    x = rng.normal(size=SHAPE)
    with h5py.File(folder / "other.h5", "w") as file:
        file["deep/x"] = x
    with h5py.File(folder / "data.h5", "w") as file:
        file["x"] = h5py.ExternalLink("other.h5", "/deep/x")
    np.testing.assert_array_equal(transposed(folder)[1], x)
