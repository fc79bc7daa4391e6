"""Every way in which h5py and HDF5 lay a data set out is read bit by bit as h5py reads it, or refused with words that
name the place. What test_layouts.py asks of one layout is asked of all here."""

import zlib

import h5py
import numpy as np
import pytest

import harness
import referee

SHAPES = {1: (5003,), 2: (61, 83), 3: (5, 17, 29)}
CHUNKS = {1: (640,), 2: (16, 30), 3: (2, 7, 29)}
FILTERS = {
    "plain": {},
    "gzip": {"compression": "gzip"},
    "shuffle": {"shuffle": True},
    "gzip-shuffle": {"compression": "gzip", "shuffle": True},
    "fletcher32": {"fletcher32": True},
    "all": {"compression": "gzip", "compression_opts": 9, "shuffle": True, "fletcher32": True},
    "szip": {"compression": "szip"},
    "scaleoffset": {"scaleoffset": 0},
    "lzf": {"compression": "lzf"},
    "lzf-all": {"compression": "lzf", "shuffle": True, "fletcher32": True},
    "lzf-scaleoffset": {"compression": "lzf", "scaleoffset": 0},  # which HDF5 reads
}


def run(folder, shape):
    """Reads /x of data.h5 through a job; returns what came out, in its old order."""
    operation = {"id": "y", "inputs": ["x"], "variants": ["cpu"], "repeat": 1, "warmup": 0}
    operation.update({"op": "scale", "alpha": 1} if len(shape) == 1 else {"op": "transpose"})
    results = harness.run_job(folder, inputs={"x": {"file": "data.h5", "dataset": "/x"}}, operations=[operation])
    found = results.output("y")
    results.path.unlink()
    return found if len(shape) == 1 else found.swapaxes(-1, -2)


@pytest.fixture(scope="module")
def lzf(memory_folder):
    """Can the program read LZF?"""
    path = memory_folder / "lzf.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.zeros(9), compression="lzf")
    job = harness.write_job(
        memory_folder / "lzf.yaml",
        inputs={"x": {"file": str(path), "dataset": "x"}},
        operations=[{"id": "y", "op": "scale", "inputs": ["x"]}],
    )
    return harness.tilerun("check", job).returncode == harness.OK


def values(rng, shape, dtype="int32"):
    """Few values, so that they compress, of full width."""
    few = referee.random_values(rng, (50,), dtype)
    return few[rng.integers(0, len(few), shape)]


def create(folder, x, **layout):
    with h5py.File(folder / "data.h5", "w", **layout.pop("file", {})) as file:
        file.create_dataset("x", data=x, **layout)


def check(folder, x):
    np.testing.assert_array_equal(run(folder, x.shape), x)


@pytest.mark.parametrize("rank", SHAPES)
@pytest.mark.parametrize("name", FILTERS)
def test_filters(folder, rng, name, rank, lzf):
    if "lzf" in name and not lzf:
        pytest.skip("no liblzf in this build")
    if name == "szip" and not h5py.h5z.filter_avail(h5py.h5z.FILTER_SZIP):
        pytest.skip("no szip here")
    x = values(rng, SHAPES[rank], "float32" if name == "szip" or rank == 1 else "int32")
    if "scaleoffset" in name:
        x = rng.integers(0, 1000, SHAPES[rank]).astype("int16" if rank > 1 else "float32")
    create(folder, x, chunks=CHUNKS[rank], **FILTERS[name])
    check(folder, x)


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("dtype", [d for d in referee.DTYPES if d != "bfloat16"])
def test_types(folder, rng, dtype, order):
    x = values(rng, SHAPES[2], dtype)
    create(folder, x, chunks=CHUNKS[2], dtype=np.dtype(dtype).newbyteorder(order), **FILTERS["all"])
    check(folder, x)


@pytest.mark.parametrize("chunks", [None, CHUNKS[2]], ids=["contiguous", "chunked"])
@pytest.mark.parametrize("block", [512, 4096])
def test_user_block(folder, rng, block, chunks):
    x = values(rng, SHAPES[2])
    create(folder, x, file={"userblock_size": block}, chunks=chunks, fletcher32=bool(chunks))
    with open(folder / "data.h5", "r+b") as file:
        file.write(b"not HDF5's" * 50)
    check(folder, x)


# The newest that every HDF5 since 1.10 reads: h5py may bring a newer library than the program has.
LATEST = ("v110", "v110")

INDEXES = {
    "single": {"chunks": SHAPES[2]},
    "fixed": {"chunks": CHUNKS[2]},
    "extensible": {"chunks": CHUNKS[2], "maxshape": (None, SHAPES[2][1])},
    "tree2": {"chunks": CHUNKS[2], "maxshape": (None, None)},
}


@pytest.mark.parametrize("filters", ["plain", "all"])
@pytest.mark.parametrize("name", INDEXES)
def test_chunk_indexes_of_the_latest_format(folder, rng, name, filters):
    x = values(rng, SHAPES[2])
    create(folder, x, file={"libver": LATEST}, **INDEXES[name], **FILTERS[filters])
    check(folder, x)


@pytest.mark.parametrize("libver", ["earliest", LATEST], ids=["earliest", "latest"])
def test_implicit_index(folder, rng, libver):
    """Chunks that are all allocated at the start; with the latest format they have no index at all."""
    x = values(rng, SHAPES[2])
    with h5py.File(folder / "data.h5", "w", libver=libver) as file:
        creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        creation.set_chunk(CHUNKS[2])
        creation.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        space = h5py.h5s.create_simple(x.shape)
        dataset = h5py.h5d.create(file.id, b"x", h5py.h5t.STD_I32LE, space, creation)
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, x)
    check(folder, x)


@pytest.mark.parametrize("filters", ["plain", "gzip-shuffle", "all"])
@pytest.mark.parametrize("fill", [None, -7])
@pytest.mark.parametrize("written", [0, 1, 33])
def test_chunks_that_are_not_there(folder, rng, written, fill, filters):
    x = np.full(SHAPES[2], fill or 0, "int32")
    x[:written] = values(rng, SHAPES[2])[:written]
    with h5py.File(folder / "data.h5", "w") as file:
        dataset = file.create_dataset("x", x.shape, "i4", chunks=CHUNKS[2], fillvalue=fill, **FILTERS[filters])
        if written:
            dataset[:written] = x[:written]
    check(folder, x)


@pytest.mark.parametrize("order", "<>")
def test_fill_value_of_either_order(folder, order):
    with h5py.File(folder / "data.h5", "w") as file:
        file.create_dataset("x", SHAPES[2], order + "i4", chunks=CHUNKS[2], fillvalue=0x01020304)
    check(folder, np.full(SHAPES[2], 0x01020304, "int32"))


@pytest.mark.parametrize("chunks", [None, CHUNKS[2]], ids=["contiguous", "chunked"])
def test_data_set_that_was_never_written(folder, chunks):
    with h5py.File(folder / "data.h5", "w") as file:
        file.create_dataset("x", SHAPES[2], "f8", chunks=chunks, fillvalue=1.5)
    check(folder, np.full(SHAPES[2], 1.5))


@pytest.mark.parametrize("filters", ["plain", "gzip-shuffle"])
def test_data_set_that_grew_and_shrank(folder, rng, filters):
    """Later chunks lie after other data, and rewritten ones have moved."""
    x = values(rng, (100, 100))
    with h5py.File(folder / "data.h5", "w") as file:
        dataset = file.create_dataset(
            "x", (20, 20), "i4", chunks=(16, 16), maxshape=(None, None), **FILTERS[filters]
        )
        dataset[:] = 0
        for size in (60, 120, 100):
            file[f"other{size}"] = rng.integers(0, 9, 3000)
            dataset.resize((size, size))
            dataset[:] = rng.integers(0, 1 << 30, (size, size))
        dataset[:] = x
    check(folder, x)


@pytest.mark.parametrize("mask", range(4))
def test_filter_masks(folder, rng, mask):
    """A chunk that was stored without some of its filters: here written so by hand, compressed by zlib."""
    x = values(rng, (32, 30), "uint16")
    create(folder, x, chunks=(16, 30), **{**FILTERS["all"], "fletcher32": False})
    part = np.ascontiguousarray(x[16:])
    shuffled = part.tobytes() if mask & 1 else part.view("u1").reshape(-1, 2).T.tobytes()
    stored = shuffled if mask & 2 else zlib.compress(shuffled, 3)
    with h5py.File(folder / "data.h5", "r+") as file:
        file["x"].id.write_direct_chunk((16, 0), stored, filter_mask=mask)
    check(folder, x)


def test_order_of_filters(folder, rng):
    """Checksum first, or between the others, as other programs have it."""
    x = values(rng, SHAPES[2])
    for order in ("fsd", "sfd", "dsf", "ds", "fds", "fsdf", "dd", "dfsd", "fffff"):
        create_by_letters(folder, x, (16, 31), order)
        check(folder, x)


def create_by_letters(folder, x, chunk, filters, order="<"):
    """Filters in any order and number: f(letcher32), s(huffle), d(eflate), l(zf)."""
    with h5py.File(folder / "data.h5", "w") as file:
        creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        creation.set_chunk(chunk)
        add = {
            "f": creation.set_fletcher32,
            "s": creation.set_shuffle,
            "d": lambda: creation.set_deflate(4),
            "l": lambda: creation.set_filter(h5py.h5z.FILTER_LZF, h5py.h5z.FLAG_OPTIONAL),
        }
        for letter in filters:
            add[letter]()
        stored = h5py.h5t.py_create(x.dtype.newbyteorder(order))
        dataset = h5py.h5d.create(file.id, b"x", stored, h5py.h5s.create_simple(x.shape), creation)
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, x)


def draw_file(folder, rng, lzf):
    """A file of any shape, type, byte order, chunk and filters, whose chunks compress well, badly or not at all."""
    rank = int(rng.integers(1, 4))
    shape = tuple(int(n) for n in rng.integers(1, {1: 5000, 2: 90, 3: 24}[rank], rank))
    chunk = tuple(int(rng.integers(1, n + 1)) for n in shape)
    chunk = tuple(max(c, -(-n // 20)) for c, n in zip(chunk, shape))
    dtype = str(rng.choice([name for name in referee.DTYPES if name != "bfloat16"]))
    x = values(rng, shape, dtype)
    noisy = rng.random(shape) < rng.choice([0, 0.1, 1])
    x[noisy] = referee.random_bits(rng, shape, dtype)[noisy]
    filters = "".join(rng.choice(list("fsdl" if lzf else "fsd"), rng.integers(0, 6)))
    create_by_letters(folder, x, chunk, filters, str(rng.choice(["<", ">"])))
    print(shape, chunk, dtype, filters)
    return x, filters


def check_bits(found, x):
    """A transpose keeps the bits; a vector was scaled by 1, which makes signalling NaNs quiet ones."""
    np.testing.assert_array_equal(found, x)
    assert x.ndim == 1 or found.tobytes() == x.tobytes()


@pytest.mark.parametrize("part", range(3))
def test_drawn_layouts(folder, rng, lzf, part):
    for _ in range(10):
        x, _ = draw_file(folder, rng, lzf)
        check_bits(run(folder, x.shape), x)


@pytest.mark.parametrize("values_", [(), (4,), (4, 0x0105, 0), (4, 0x0105, 1), (4, 0x0105, 0x7FFFFFFF)])
@pytest.mark.parametrize("virtual", [False, True])
def test_lzf_with_other_notes(folder, rng, lzf, values_, virtual):
    """h5py notes the bytes of a chunk beside the filter. They may be missing or wrong; also where HDF5 reads."""
    if not lzf:
        pytest.skip("no liblzf in this build")
    x = values(rng, (40, 30))
    create(folder, x, chunks=(16, 30), compression="lzf")
    path = folder / "data.h5"
    with h5py.File(path) as file:
        (_, _, noted, _) = file["x"].id.get_create_plist().get_filter(0)
    stored = b"".join(value.to_bytes(4, "little") for value in noted[:3])
    content = path.read_bytes()
    assert content.count(stored) == 1
    wanted = (*values_, *[0] * 3)[:3]
    path.write_bytes(content.replace(stored, b"".join(value.to_bytes(4, "little") for value in wanted)))
    if virtual:
        path.rename(folder / "part.h5")
        layout = h5py.VirtualLayout(x.shape, "i4", filename=str(path))
        layout[:] = h5py.VirtualSource(str(folder / "part.h5"), "x", x.shape)
        with h5py.File(path, "w", libver=LATEST) as file:
            file.create_virtual_dataset("x", layout)
    check(folder, x)


def test_virtual(folder, rng):
    x = values(rng, SHAPES[2])
    layout = h5py.VirtualLayout(x.shape, "i4", filename=str(folder / "data.h5"))
    for number, (first, end) in enumerate([(0, 30), (30, 61)]):
        harness.write_arrays(folder / f"part{number}.h5", x=x[first:end])
        layout[first:end] = h5py.VirtualSource(str(folder / f"part{number}.h5"), "x", (end - first, x.shape[1]))
    with h5py.File(folder / "data.h5", "w", libver=LATEST) as file:
        file.create_virtual_dataset("x", layout)
    check(folder, x)


# ---- somewhere else, and nowhere -----------------------------------------------------------------------------------


@pytest.mark.parametrize("chunks", [None, CHUNKS[2]], ids=["contiguous", "chunked"])
def test_external_link(folder, rng, chunks):
    """The file whose bytes are read is the one that holds the data, not the one that was named."""
    x = values(rng, SHAPES[2])
    (folder / "below").mkdir()
    with h5py.File(folder / "below/other.h5", "w", userblock_size=1024) as file:
        file.create_dataset("deep/x", data=x, chunks=chunks, shuffle=bool(chunks))
    harness.write_arrays(folder / "data.h5", decoy=np.zeros(100000), x=h5py.ExternalLink("below/other.h5", "/deep/x"))
    check(folder, x)


@pytest.mark.parametrize("chunked", [False, True])
def test_no_rows(folder, chunked):
    with h5py.File(folder / "data.h5", "w") as file:
        file.create_dataset("x", (0, 7), "f4", maxshape=(None, 7) if chunked else None, chunks=chunked or None)
    assert run(folder, (0, 7)).shape == (0, 7)


def hurt(folder, corner, bytes_):
    """Overwrites the middle of a stored chunk."""
    with h5py.File(folder / "data.h5") as file:
        info = file["x"].id.get_chunk_info_by_coord(corner)
    with open(folder / "data.h5", "r+b") as file:
        file.seek(info.byte_offset + info.size // 2)
        file.write(bytes_)


@pytest.mark.parametrize(
    "filters, why",
    [("fletcher32", "fletcher32 checksum"), ("gzip-shuffle", "inflated"), ("all", "fletcher32 checksum")],
)
def test_damaged_chunk(folder, rng, filters, why):
    create(folder, rng.normal(size=SHAPES[2]), chunks=CHUNKS[2], **FILTERS[filters])
    hurt(folder, (32, 60), b"\xff\xff\xff\xff\xff\xff")
    job = harness.write_job(
        folder / "job.yaml",
        inputs={"x": {"file": "data.h5", "dataset": "/x"}},
        operations=[{"id": "y", "op": "transpose", "inputs": ["x"], "variants": ["cpu"]}],
    )
    done = harness.tilerun("run", job, "-o", folder / "results.h5", expect=harness.IO)
    assert f"'/x' in {folder}/data.h5: chunk at [32, 60] cannot be read" in done.stderr and why in done.stderr
    assert not (folder / "results.h5").exists()


@pytest.mark.parametrize("part", range(3))
def test_drawn_damage(folder, rng, lzf, part):
    """Bytes of chunks that are changed or cut: refused at their place, or read as h5py reads them. A checksum over what is
    stored lets none pass."""
    for _ in range(10):
        x, filters = draw_file(folder, rng, lzf)
        with h5py.File(folder / "data.h5") as file:
            dataset = file["x"].id
            chunks = [dataset.get_chunk_info(i) for i in range(dataset.get_num_chunks())]
        with open(folder / "data.h5", "r+b") as file:
            for _ in range(rng.integers(1, 9)):
                chunk = chunks[rng.integers(len(chunks))]
                file.seek(chunk.byte_offset + int(rng.integers(chunk.size)))
                file.write(bytes([rng.integers(256)]) * int(rng.integers(1, 4)))
        operation = {"op": "scale", "alpha": 1} if x.ndim == 1 else {"op": "transpose"}
        job = harness.write_job(
            folder / "job.yaml",
            inputs={"x": {"file": "data.h5", "dataset": "/x"}},
            operations=[{"id": "y", "inputs": ["x"], "variants": ["cpu"], "repeat": 1, "warmup": 0, **operation}],
        )
        done = harness.tilerun("run", job, "-o", folder / "results.h5", "--overwrite")
        if done.returncode == harness.IO:
            assert f"'/x' in {folder}/data.h5: chunk at [" in done.stderr and "] cannot be read: " in done.stderr
            continue
        assert done.returncode == harness.OK, done.stderr
        found = harness.Results(folder / "results.h5").output("y")
        with h5py.File(folder / "data.h5") as file:
            check_bits(found if x.ndim == 1 else found.swapaxes(-1, -2), file["x"][:].astype(x.dtype))
