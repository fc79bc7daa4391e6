"""`tilerun inspect`: what it says of files that h5py writes is what h5py says of them, and its job runs."""

import os
import random
import re

import h5py
import numpy as np
import pytest

import harness
from harness import OK, USAGE

CASES = int(os.environ.get("TILERUN_CASES", 8))
SEED = int(os.environ.get("TILERUN_SEED", 0))

NUMBERS = "float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()
# What they are called, and whether their elements lie elsewhere in the file.
OTHERS = [
    ("string", h5py.string_dtype(), True),
    ("string", h5py.string_dtype(length=5), False),
    ("enumeration of int16", h5py.enum_dtype({"RED": 0, "BLUE": 5}, "i2"), False),
    ("complex", np.dtype(complex), False),
    ("table: n", np.dtype([("n", "i4"), ("text", h5py.string_dtype())]), True),
    ("table: n", np.dtype([("n", "i4"), ("texts", h5py.string_dtype(), (2, 3))]), True),
    ("table: n, in/m", np.dtype([("n", "i4"), ("in", [("list", h5py.vlen_dtype("f8")), ("m", "u1")])]), True),
    ("table: n", np.dtype([("n", "i4"), ("texts", "S3", (2,))]), False),
    ("sequence", h5py.vlen_dtype(np.int32), True),
    ("reference", h5py.ref_dtype, False),
]
FILTERS = [
    ({}, ""),
    ({"compression": "gzip", "compression_opts": 6}, "gzip 6"),
    ({"shuffle": True, "compression": "lzf"}, "shuffle, LZF"),
    ({"shuffle": True, "compression": "gzip", "fletcher32": True}, "shuffle, gzip 4, fletcher32"),
    ({"fletcher32": True}, "fletcher32"),
]


def inspect(*arguments, expect=OK, **options):
    done = harness.tilerun("inspect", *arguments, expect=expect, **options)
    return done.stdout if expect == OK else done.stderr


def size_text(size):
    units = ["B", "KiB", "MiB"]
    unit = 0
    while size >= 1024 and unit < 2:
        size, unit = size / 1024, unit + 1
    return f"{size:.1f} {units[unit]}" if unit else f"{size:.0f} B"


def times(sizes):
    return "x".join(map(str, sizes))


def table(text):
    """Rows by the data set's name, as dictionaries. Columns lie between places that are blank in all lines."""
    sections = [section for section in text.split("\n\n") if section.startswith("data set ")]
    if not sections:
        return {}
    lines = sections[0].splitlines()
    width = max(map(len, lines))
    blank = [all(line.ljust(width)[at] == " " for line in lines) for at in range(width)]
    begins = [at for at in range(width) if not blank[at] and (at == 0 or blank[at - 1] and blank[at - 2])]
    rows = [[line[a:b].strip() for a, b in zip(begins, [*begins[1:], width])] for line in lines]
    return {row[0]: dict(zip(rows[0], row)) for row in rows[1:]}


def draw_numbers(draw, shape, dtype):
    values = np.random.default_rng(draw.randrange(10**6)).integers(0, 100, shape)
    return values.astype(dtype)


def write(path, draw):
    """Returns for each data set what is to be said of it, and of those that are inputs their values."""
    said, values = {}, {}
    with h5py.File(path, "w") as file:
        for i in range(draw.randint(1, 12)):
            name = draw.choice(["", "raw/", "a b/", "x/y/"]) + draw.choice(["d", "größe ", 'q"', "$n", "per%cent "])
            name += str(i)
            rank = draw.choice([0, 1, 1, 2, 2, 3, 3, 4, 5])
            shape = tuple(draw.choice([0, 1, 2, 5, 17]) for _ in range(rank))
            other = draw.random() < 0.25
            kind, dtype, elsewhere = draw.choice(OTHERS) if other else (draw.choice(NUMBERS), None, False)
            big = not other and draw.random() < 0.3
            dtype = dtype or np.dtype(kind).newbyteorder(">" if big else "<")
            chunked = rank > 0 and 0 not in shape and not elsewhere and draw.random() < 0.6
            options, filters = draw.choice(FILTERS) if chunked else ({}, "")
            chunks = tuple(draw.randint(1, size) for size in shape) if chunked else None
            data = None if other else draw_numbers(draw, shape, dtype)
            made = file.create_dataset(name, shape, dtype, chunks=chunks, data=data, **options)
            file.flush()
            itemsize = 0 if elsewhere else made.id.get_type().get_size()
            size = itemsize * int(np.prod(shape, dtype=int))
            stored = made.id.get_storage_size()
            said["/" + name] = {
                "shape": times(shape) if rank else "scalar",
                "type": kind + (" big-endian" if big and dtype.itemsize > 1 else ""),
                "layout": f"chunks {times(chunks)}" if chunked else "contiguous",
                "filters": filters,
                "in memory": size_text(size) if size else "",
                "on disk": size_text(stored) if stored else "",
            }
            if not other:
                values["/" + name] = data
    return said, values


@pytest.mark.parametrize("case", range(CASES))
def test_files_that_h5py_writes(folder, case):
    draw = random.Random(f"{SEED} {case}")
    said, values = write(folder / "a.h5", draw)
    text = inspect("--all", "a.h5", cwd=folder)
    inputs = [name for name, data in values.items() if data.ndim > 0]
    assert text.startswith(f"a.h5: {len(said)} data set")
    tables = [name for name in said if re.match("table|complex", said[name]["type"]) and said[name]["shape"] != "scalar"]
    assert f"; {len(inputs) + len(tables)} can be inputs of a job\n" in text
    found = table(text)
    assert list(found) == sorted(said, key=str.encode)
    for name, cells in found.items():
        assert {key: cells.get(key, "") for key in said[name]} == said[name], name
        assert bool(re.fullmatch(r"[\d.]+ GB/s", cells["as an input"])) == (name in inputs), cells
        assert name in inputs or cells["as an input"].startswith("by field: " if name in tables else "no: ")
    scalars = [name for name in said if said[name]["shape"] == "scalar"]
    briefly = inspect("a.h5", cwd=folder)
    assert list(table(briefly)) == [name for name in found if name not in scalars]
    assert sum(map(int, re.findall(r": (\d+) scalars?$", briefly, re.M))) == len(scalars)


@pytest.mark.parametrize("case", range(-(-CASES // 2)))
def test_the_job_runs(folder, case):
    """It has the largest data sets, and is right where it was printed."""
    draw = random.Random(f"job {SEED} {case}")
    said, values = write(folder / "a.h5", draw)
    wanted = {name: data for name, data in values.items() if data.ndim > 0 and data.size > 0}
    if not wanted and any(cells["type"].startswith("table") for cells in said.values()):
        return  # its numeric fields are proposed: test_inspect_real.py
    if not wanted:
        alone = len(said) == 1 and not values  # then it says what is wrong with it
        words = "'" + next(iter(said)) + "' " if alone else "contains no data set"
        assert inspect("--job", "a.h5", expect=USAGE, cwd=folder).startswith(f"tilerun: a.h5: {words}")
        return
    (folder / "job.yaml").write_text(inspect("--job", "a.h5", cwd=folder))
    harness.tilerun("run", "job.yaml", "--device", "cpu", cwd=folder, expect=OK)
    with h5py.File(folder / "mean-of-a.h5") as file:
        done = [row["operation"].decode() for row in file["runs"]]
        sources = {name.removeprefix("mean_of_") for name in done if name.startswith("mean_of_")}
        assert len(sources) == min(len(wanted), 8)
        for name in sources:
            dataset = file[f"inputs/{name}"].attrs["dataset"]
            mean = wanted.pop(dataset).mean(axis=0, dtype=np.float64)
            np.testing.assert_allclose(file[f"outputs/mean_of_{name}"][()], mean, rtol=2e-3)


def test_one_data_set(folder):
    with h5py.File(folder / "a.h5", "w") as file:
        frames = file.create_dataset("raw/frames", data=np.zeros((4, 6), "i2"), chunks=(2, 6), compression="gzip")
        frames.attrs["units"], frames.attrs["long_name"] = "counts", "what was counted"
        frames.dims[0].label = "time"
        file["raw/names"] = ["a", "b"]
    lines = [line.split(None, 1) for line in inspect("a.h5", "raw/frames", cwd=folder).splitlines()]
    assert lines[0] == ["/raw/frames", "in a.h5"]
    said = dict(lines[1:])
    assert said["type"] == "int16" and said["shape"] == "4x6" and said["layout"] == "chunks 2x6"
    assert said["filters"] == "gzip 4" and said["units"] == "counts" and said["long_name"] == "what was counted"
    assert said["named"] == "axes 0 (time)" and said["reading"].startswith("on all cores, about ")
    assert "no input   holds strings; write" in inspect("a.h5", "/raw/names", cwd=folder)
    assert list(table(inspect("a.h5", "/raw/", cwd=folder))) == ["/raw/frames", "/raw/names"]
    refused = inspect("a.h5", "raw/names", "--job", expect=USAGE, cwd=folder)
    assert refused.startswith("tilerun: a.h5: '/raw/names' holds strings")


def odd_types():
    """Seldom types of the file format: what each is called, and why it is refused; "": it is not."""
    narrow, moved = h5py.h5t.STD_I32LE.copy(), h5py.h5t.STD_I32LE.copy()
    narrow.set_precision(24)
    moved.set_precision(16)
    moved.set_offset(8)
    wide = h5py.h5t.STD_U64LE.copy()
    wide.set_size(16)
    biased = h5py.h5t.IEEE_F32LE.copy()
    biased.set_ebias(100)
    return {
        "array": (h5py.h5t.array_create(h5py.h5t.IEEE_F32LE, (3,)), "float32 in arrays", ""),
        "bits": (h5py.h5t.STD_B16LE, "uint16 (bit field)", ""),
        "opaque": (h5py.h5t.create(h5py.h5t.OPAQUE, 5), "opaque", "opaque bytes"),
        "time": (h5py.h5t.UNIX_D32LE, "time", "times"),
        "narrow": (narrow, "int32 (24 bits)", ""),
        "moved": (moved, "int32 (16 bits)", ""),
        "wide": (wide, "uint64 (64 bits)", ""),
        "biased": (biased, "float64 (32 bits)", ""),
    }


@pytest.mark.parametrize("name", odd_types())
def test_odd_types(folder, name):
    kind, called, refused = odd_types()[name]
    with h5py.File(folder / "a.h5", "w") as file:
        h5py.h5d.create(file.id, name.encode(), kind, h5py.h5s.create_simple((4,)))
    assert table(inspect("a.h5", cwd=folder))["/" + name]["type"] == called
    said = inspect("a.h5", "--job", expect=USAGE if refused else OK, cwd=folder)
    assert not refused or said.startswith(f"tilerun: a.h5: '/{name}' holds {refused}")


def test_a_type_with_a_name_and_a_compact_data_set(folder):
    with h5py.File(folder / "a.h5", "w") as file:
        file["kind"] = np.dtype("f4")
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_layout(h5py.h5d.COMPACT)
        h5py.h5d.create(file.id, b"small", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((4, 2)), properties)
        file["small"][:] = 1
    words = "tilerun: a.h5: '/kind' is a named data type, not a data set\n"
    assert inspect("a.h5", "/kind", expect=USAGE, cwd=folder) == words
    assert table(inspect("a.h5", cwd=folder))["/small"]["layout"] == "compact"


def test_a_name_that_no_job_file_can_have(folder):
    name = os.fsdecode(b"caf\xe9.h5")
    harness.write_arrays(folder / "a.h5", x=np.zeros((3, 4)))
    (folder / "a.h5").rename(folder / name)
    said = inspect(name, "--job", expect=USAGE, cwd=folder, errors="surrogateescape")
    assert said == "tilerun: caf?.h5: no job file can name this file: rename it in UTF-8\n"


@pytest.mark.parametrize("count", [1, 3])
def test_links_that_lead_out_of_the_folder(folder, count):
    (folder / "in").mkdir()
    harness.write_arrays(folder / "other.h5", x=np.zeros(3))
    with h5py.File(folder / "in/a.h5", "w") as file:
        for i in range(count):
            file[f"out{i}"] = h5py.ExternalLink("../other.h5", "/x")
    text = inspect("in/a.h5", cwd=folder)
    one = "a link that leads out of the file's folder is not followed: /out0\n"
    assert (one if count == 1 else "3 links that lead out of the file's folder are not followed, such as /out") in text
    assert "/out0" not in table(text)


def test_links_and_files_that_are_not_there(folder):
    harness.write_arrays(folder / "other.h5", x=np.zeros(3))
    with h5py.File(folder / "a.h5", "w") as file:
        file["frames"] = np.zeros(3)
        file["soft"] = h5py.SoftLink("/frames")
        file["out"] = h5py.ExternalLink("other.h5", "/x")
        file["gone"] = h5py.SoftLink("/no")
        file["away"] = h5py.ExternalLink("none.h5", "/x")
        file.create_group("g")["loop"] = h5py.SoftLink("/g")
    text = inspect("a.h5", cwd=folder)
    assert list(table(text)) == ["/frames", "/out"] and "\n  /soft is /frames\n" in text
    assert "\n2 links lead nowhere, such as /" in text
    assert "has no data set '/frame' (did you mean '/frames'?)" in inspect("a.h5", "frame", expect=USAGE, cwd=folder)
    said = inspect("b.h5", expect=USAGE, cwd=folder)
    assert said == "tilerun: b.h5: No such file or directory (did you mean 'a.h5'?)\n"
    for path in ("a.h5:/g/x", "a.h5/g/x"):
        words = "(the file is 'a.h5'; name its data set '/g/x' separately)"
        assert words in inspect(path, expect=USAGE, cwd=folder)
    for path in ("https://a.org/a.h5", "s3://a/a.h5"):
        assert "(it is a URL: download the file)" in inspect(path, expect=USAGE, cwd=folder)
    (folder / "c.h5").write_text("no HDF5")
    assert inspect("c.h5", expect=USAGE, cwd=folder).startswith("tilerun: c.h5: is not an HDF5 file but text: ")
    with h5py.File(folder / "d.h5", "w"):
        pass
    assert inspect("d.h5", cwd=folder).startswith("d.h5: 0 data sets")
    assert "contains no data set" in inspect("d.h5", "--job", expect=USAGE, cwd=folder)


def test_names_do_not_reach_the_terminal_as_they_are(folder):
    with h5py.File(folder / "a.h5", "w") as file:
        file["red\x1b[31m"] = np.zeros(3)
        file["gone\x1b[31m"] = h5py.SoftLink("/no")
    for arguments in (["a.h5"], ["a.h5", "red\x1b[31m"], ["a.h5", "--job"]):
        text = inspect(*arguments, cwd=folder)
        assert "red" in text and "\x1b" not in text
    assert "a link leads nowhere: /gone?[31m" in inspect("a.h5", cwd=folder)


def test_filters_that_are_not_here(folder):
    with h5py.File(folder / "a.h5", "w") as file:
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk((4,))
        properties.set_filter(32013, h5py.h5z.FLAG_OPTIONAL, (3,))
        h5py.h5d.create(file.id, b"x", h5py.h5t.NATIVE_INT16, h5py.h5s.create_simple((8,)), properties)
    row = table(inspect("a.h5", cwd=folder))["/x"]
    assert row["filters"] == "ZFP (not installed)"
    assert row["as an input"].startswith("no: is compressed by HDF5 filter 32013 (ZFP)")


@pytest.mark.parametrize("name, stem", [("run.2024.01.h5", "run.2024.01"), ("plain", "plain"), ("a.nc", "a")])
def test_the_proposed_output_keeps_all_but_the_last_extension(folder, name, stem):
    harness.write_arrays(folder / name, x=np.ones((4, 3)))
    assert f"mean-of-{stem}.h5" in harness.tilerun("inspect", "--job", folder / name).stdout


@pytest.mark.parametrize("what", ["bad", "group"])
@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_a_damaged_object_does_not_hide_the_others(tmp_path, what, libver):
    path = tmp_path / "in.h5"
    with h5py.File(path, "w", libver=libver) as file:
        file["good"], file["bad"], file["group/in"] = np.ones((8, 8)), np.ones((9, 9)), np.ones((5, 5))
        at = h5py.h5o.get_info(file[what].id).addr
    data = bytearray(path.read_bytes())
    data[at] ^= 0x5A
    path.write_bytes(data)
    done = harness.tilerun("inspect", path)
    assert done.returncode == harness.IO and f"in.h5: '/{what}' is damaged: " in done.stderr, done.stderr
    listed = [line.split()[0] for line in done.stdout.splitlines() if line.startswith("/") and "in.h5" not in line]
    assert listed == sorted({"/good", "/bad"} | ({"/group/in"} if what == "bad" else {"/group"}))
    harness.quiet("inspect", path, "good")
