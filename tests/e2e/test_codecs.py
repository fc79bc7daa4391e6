"""Chunks under zstd, LZ4, Blosc and bitshuffle are read bit by bit, past HDF5 and by it; what is damaged, or lacks its
library, is refused by name. LZF and zstd are written as others read them."""

import os
import random
import subprocess

import h5py
import numpy as np
import pytest

import h5codecs
import harness
import referee
from harness import IO, OK, USAGE

CASES = int(os.environ.get("TILERUN_CASES", 5))
SEED = int(os.environ.get("TILERUN_SEED", 0))
KINDS = ["zstd", "lz4", "blosc", "bitshuffle", "bitshuffle-lz4", "bitshuffle-zstd"]
OVER = {"bitshuffle": 0, "bitshuffle-lz4": h5codecs.OVER_LZ4, "bitshuffle-zstd": h5codecs.OVER_ZSTD}


def draw_codec(name, draw, size):
    """The filter, what it makes of a chunk's bytes, and its parameters."""
    if name == "zstd":
        level = draw.randint(1, 9)
        return h5codecs.ZSTD, lambda data: h5codecs.zstd(data, level), (level,)
    if name == "lz4":
        block = draw.choice([1 << 30, 1000, 64, 16])
        return h5codecs.LZ4, lambda data: h5codecs.lz4_filter(data, block), (block,)
    if name == "blosc":
        how = {"shuffle": draw.choice([0, 1, 2]), "level": draw.randint(0, 9),
               "codec": draw.choice([b"lz4", b"blosclz", b"zlib", b"zstd"])}  # fmt: skip
        return h5codecs.BLOSC, lambda data: h5codecs.blosc(data, size, **how), (2, 2, size, 0, how["level"])
    elements, over = draw.choice([0, 8, 64, 1024]), OVER[name]
    encode = lambda data: h5codecs.bitshuffle(data, size, elements, over)  # noqa: E731
    return h5codecs.BITSHUFFLE, encode, (0, 4, size, elements, over)


def skip_without(name):
    alone = {"zstd": h5codecs.ZSTD, "lz4": h5codecs.LZ4, "blosc": h5codecs.BLOSC}
    kind = h5codecs.BITSHUFFLE if name in OVER else alone[name]
    if not h5codecs.are_here(kind, OVER.get(name)):
        pytest.skip(f"no library for {name} here")


def draw_values(draw, shape, dtype):
    """Of a few numbers, or of any bits at all, which do not shrink."""
    rng = np.random.default_rng(draw.randrange(10**9))
    few = referee.random_values(rng, (draw.choice([1, 3, 5000]),), dtype)
    return few[rng.integers(0, len(few), shape)]


def job_of(folder, file, rank):
    operation = {"id": "y", "inputs": ["x"], "variants": ["cpu"], "op": "transpose" if rank > 1 else "scale"}
    return harness.write_job(
        folder / "job.yaml",
        device="cpu",
        inputs={"x": {"file": str(file), "dataset": "x"}},
        defaults={"warmup": 0, "repeat": 1, "verify": "none"},
        operations=[operation],
    )


def run(folder, file, x, expect=OK):
    output = folder / "out.h5"
    done = harness.tilerun("run", job_of(folder, file, x.ndim), "-o", output, "--overwrite", expect=expect)
    if done.returncode != OK:
        return done.stderr
    found = harness.Results(output).output("y")
    found = found.swapaxes(-1, -2) if x.ndim > 1 else found
    return None if found.tobytes() == x.astype(x.dtype.newbyteorder("<")).tobytes() else "other values"


@pytest.mark.parametrize("case", range(CASES))
@pytest.mark.parametrize("name", KINDS)
def test_drawn_chunks(folder, name, case):
    skip_without(name)
    draw = random.Random(f"{SEED} {name} {case}")
    dtype = np.dtype(draw.choice([d for d in referee.DTYPES if d != "bfloat16"])).newbyteorder(draw.choice("<>"))
    shape = tuple(draw.choice([1, 3, 8, 17, 64, 301]) for _ in range(draw.randint(1, 3)))
    x = draw_values(draw, shape, dtype.newbyteorder("=").name).astype(dtype)
    chunks = tuple(draw.randint(1, size) for size in shape)
    kind, encode, values = draw_codec(name, draw, x.itemsize)
    h5codecs.write(folder / "data.h5", "x", x, chunks, kind, encode, values, draw.random() < 0.3)
    file = folder / "data.h5"
    if draw.random() < 0.3:  # HDF5 reads it
        layout = h5py.VirtualLayout(shape, dtype)
        layout[...] = h5py.VirtualSource(str(file), "x", shape)
        with h5py.File(folder / "virtual.h5", "w") as virtual:
            virtual.create_virtual_dataset("x", layout)
        file = folder / "virtual.h5"
    assert run(folder, file, x) is None


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint32", "int64"])
@pytest.mark.parametrize("name", OVER)
def test_long_blocks_of_bits(folder, rng, name, dtype):
    """Blocks of several strips of 512 elements, and what is left of them."""
    skip_without(name)
    size = np.dtype(dtype).itemsize
    for count, elements in ((512, 512), (4096, 0), (5003, 1536), (5003, 4096), (1031, 1024)):
        x = rng.integers(0, 256, count * size).astype("u1").view(dtype)
        encode = lambda data: h5codecs.bitshuffle(data, size, elements, OVER[name])  # noqa: E731, B023
        (folder / "data.h5").unlink(missing_ok=True)
        values = (0, 4, size, elements, OVER[name])
        h5codecs.write(folder / "data.h5", "x", x, (count,), h5codecs.BITSHUFFLE, encode, values)
        assert run(folder, folder / "data.h5", x) is None, (count, elements)


@pytest.mark.parametrize("case", range(CASES))
@pytest.mark.parametrize("name", KINDS)
def test_damaged_chunks(folder, name, case):
    """Cut short, with other bytes, or both: refused with the chunk's place, or read; never more than that."""
    skip_without(name)
    draw = random.Random(f"damaged {SEED} {name} {case}")
    x = draw_values(draw, (40, 30), "int32")
    kind, encode, values = draw_codec(name, draw, 4)

    def damage(data):
        stored = bytearray(encode(data))
        for _ in range(draw.choice([0, 1, 1, 5])):
            at = draw.choice([draw.randrange(len(stored)), draw.randrange(min(16, len(stored)))])
            stored[at] = draw.randrange(256)
        return bytes(stored[: draw.choice([len(stored), draw.randint(1, len(stored))])])

    h5codecs.write(folder / "data.h5", "x", x, (16, 30), kind, damage, values)
    said = run(folder, folder / "data.h5", x, expect=(OK, IO))
    assert said in (None, "other values") or "chunk at [" in said


@pytest.mark.parametrize("name", KINDS)
def test_without_its_library(folder, name, without_codecs):
    """A program that cannot open the library names it; bitshuffle over nothing needs none."""
    skip_without(name)
    draw = random.Random(0)
    kind, encode, values = draw_codec(name, draw, 4)
    x = draw_values(draw, (40, 30), "int32")
    h5codecs.write(folder / "data.h5", "x", x, (16, 30), kind, encode, values)
    job = job_of(folder, folder / "data.h5", 2)
    done = harness.tilerun("run", job, "-o", folder / "out.h5", env=without_codecs)
    assert done.returncode == (OK if name == "bitshuffle" else USAGE), done.stderr
    if name == "bitshuffle":
        assert harness.Results(folder / "out.h5").output("y").T.tobytes() == x.tobytes()
        return
    library = {"zstd": "libzstd.so.1 (Debian's libzstd1)", "lz4": "liblz4.so.1 (Debian's liblz4-1)",
               "blosc": "libblosc.so.1 (Debian's libblosc1)"}[name.removeprefix("bitshuffle-")]  # fmt: skip
    words = f"'x' is compressed by HDF5 filter {kind} ({h5codecs.NAMES[kind]}), which is not installed here: {library}"
    assert f"{words}, or `pip install hdf5plugin`, then `export HDF5_PLUGIN_PATH=" in done.stderr.replace("'/x'", "'x'")


@pytest.mark.parametrize("virtual", [False, True])
def test_a_filter_that_only_a_late_chunk_needs(folder, virtual):
    """Looking for it in all chunks would take minutes: the runs that do not reach that chunk are kept."""
    x = np.arange(400 * 64, dtype="float32").reshape(400, 64)
    with h5py.File(folder / "data.h5", "w") as file:
        creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        creation.set_chunk((1, 64))
        creation.set_filter(32999, h5py.h5z.FLAG_OPTIONAL, (1,))
        space = h5py.h5s.create_simple(x.shape)
        dataset = h5py.h5d.create(file.id, b"stored", h5py.h5t.IEEE_F32LE, space, creation)
        for row in range(400):
            dataset.write_direct_chunk((row, 0), x[row].tobytes(), filter_mask=int(row < 300))
        layout = h5py.VirtualLayout(x.shape, "f4")
        layout[:] = h5py.VirtualSource(file["stored"])
        file.create_virtual_dataset("shown", layout)
    data = {"file": "data.h5", "dataset": "shown" if virtual else "stored"}
    operations = [{"id": name, "op": "scale", "inputs": ["in_" + name], "beta": 1} for name in ("all", "few")]
    inputs = {"in_all": data, "in_few": {**data, "rows": [0, 300]}}
    harness.write_job(folder / "job.yaml", device="cpu", inputs=inputs, operations=operations)
    words = ("run", folder / "job.yaml", "-o", folder / "out.h5")
    said = harness.tilerun(*words, expect=IO).stderr
    assert ("filter that is not installed here;" if virtual else "filter 32999, which is not installed here: ") in said
    assert "few cpu: ok" in said and "1 of 2 runs are missing, the others are kept" in said
    harness.tilerun(*words, "--resume", "--only", "few", expect=OK)
    assert (harness.Results(folder / "out.h5").output("few") == x[:300] + 1).all()


# ---- writing ------------------------------------------------------------------------------------------------------------


def written(folder, draw, options):
    """A transposed array that tilerun wrote with these options, and what it should hold."""
    shape = tuple(draw.choice([1, 3, 17, 64, 301]) for _ in range(2))
    x = draw_values(draw, shape, draw.choice([d for d in referee.DTYPES if d != "bfloat16"]))
    harness.write_arrays(folder / "data.h5", x=x)
    operation = {"id": "y", "inputs": ["x"], "variants": ["cpu"], "op": "transpose", **options}
    if draw.random() < 0.5:
        operation["chunks"] = [draw.randint(1, size) for size in shape[::-1]]
    job = {"device": "cpu", "inputs": {"x": {"file": "data.h5", "dataset": "x"}}, "operations": [operation]}
    harness.write_job(folder / "job.yaml", memory=draw.choice(["64KiB", "1GiB"]), **job)
    harness.run_folder(folder)
    return x.T


@pytest.mark.parametrize("case", range(CASES))
@pytest.mark.parametrize("name", ["lzf", "zstd"])
def test_written(folder, name, case):
    """h5py reads LZF with its own filter; zstd is undone chunk by chunk; tilerun reads both again."""
    draw = random.Random(f"written {SEED} {name} {case}")
    if name == "zstd":
        skip_without(name)
    options = {"compression": name, "level": draw.randint(0, 9), "shuffle": draw.random() < 0.5}
    options["checksum"] = draw.choice(["none", "fletcher32"])
    x = written(folder, draw, options)
    with h5py.File(folder / "out.h5") as file:
        y = file["outputs/y"]
        filters = [y.id.get_create_plist().get_filter(i) for i in range(y.id.get_create_plist().get_nfilters())]
        values = h5codecs.read_zstd(y) if name == "zstd" else y[...]
        assert values.tobytes() == x.tobytes()
        given = next(f[2] for f in filters if f[0] == (h5codecs.ZSTD if name == "zstd" else h5py.h5z.FILTER_LZF))
        with h5py.File(folder / "own.h5", "w") as own:
            like = own.create_dataset("y", y.shape, y.dtype, chunks=y.chunks, compression="lzf")
            assert given == ((options["level"],) if name == "zstd" else like.id.get_create_plist().get_filter(0)[2])
    inspected = harness.tilerun("inspect", folder / "out.h5", "outputs/y")
    assert ("LZF" if name == "lzf" else "zstd") in inspected.stdout, inspected.stdout
    again = {"id": "z", "inputs": ["y"], "variants": ["cpu"], "op": "transpose"}
    inputs = {"y": {"file": "out.h5", "dataset": "outputs/y"}}
    harness.write_job(folder / "again.yaml", device="cpu", inputs=inputs, operations=[again])
    harness.tilerun("run", folder / "again.yaml", "-o", folder / "again.h5", expect=OK)
    assert harness.Results(folder / "again.h5").output("z").tobytes() == x.T.tobytes()


def test_written_without_its_library(folder, without_codecs):
    operation = {"id": "y", "inputs": ["x"], "op": "transpose", "compression": "zstd"}
    inputs = {"x": {"random": {"shape": [9, 5]}}}
    harness.write_job(folder / "job.yaml", device="cpu", inputs=inputs, operations=[operation])
    done = harness.tilerun("run", folder / "job.yaml", "-o", folder / "out.h5", env=without_codecs)
    assert done.returncode == USAGE and not (folder / "out.h5").exists()
    assert "y: zstd cannot be written here: libzstd.so.1 (Debian's libzstd1) is missing" in done.stderr
    assert "job.yaml:" in done.stderr


@pytest.fixture(scope="module")
def without_codecs(memory_folder):
    """dlopen finds no library of a codec."""
    source, shim = memory_folder / "hide.c", memory_folder / "hide.so"
    source.write_text(
        "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <string.h>\n"
        "void *dlopen(const char *name, int mode) {\n"
        '    void *(*real)(const char *, int) = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");\n'
        '    return name && (strstr(name, "lz4") || strstr(name, "zstd") || strstr(name, "blosc"))\n'
        "        ? 0 : real(name, mode);\n"
        "}\n"
    )
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o", shim, source, "-ldl"], check=True)
    return {**os.environ, "LD_PRELOAD": str(shim)}
