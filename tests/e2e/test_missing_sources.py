"""Virtual data sets and external storage that lack something: what a job sees of them must be there,
else `check` names what is not; with `sources: fill` what is there is right, and what is not is fill values, counted.

A drawn data set is a tree of files: plain ones, and virtual ones of bands, of numbered files, of sources that grow.
Beside each the referee keeps in NumPy what it holds and which of it is missing."""

import os
import resource

import h5py
import numpy as np
import pytest

import harness
from harness import OK, USAGE, said

CASES = int(os.environ.get("TILERUN_CASES", 12))
TYPES = ["f4", "f8", "i2", "u1", ">i4", ">f8"]

OLD = "HDF5 1.10" in harness.tilerun("--version").stdout


class Tree:
    """Makes data sets in files of its own. Each `make` returns (file, data set, values, missing)."""

    def __init__(self, rng, folder, odds):
        self.rng, self.folder, self.odds, self.count = rng, folder, odds, 0

    def chance(self, odds):
        return self.rng.random() < odds

    def new(self):
        self.count += 1
        return f"{'sub/' if self.chance(0.2) else ''}s{self.count}{'%' if self.chance(0.1) else ''}.h5"

    def open(self, name):
        (self.folder / "sub").mkdir(exist_ok=True)
        return h5py.File(self.folder / name, "a", libver=("v110", "v110"))

    def plain(self, shape, dtype, name, dataset, grows=False):
        values = self.rng.integers(0, 100, shape).astype(dtype)
        how = {"chunks": tuple(max(1, n // 2) for n in shape)} if min(shape) and self.chance(0.5) else {}
        if how and self.chance(0.5):
            how["compression"] = "gzip"
        if grows:
            how = {"maxshape": (None, *shape[1:]), "chunks": tuple(max(1, n) for n in shape)}
        with self.open(name) as file:
            file.create_dataset(dataset, data=values, **how)
        return values, np.zeros(shape, bool)

    def make(self, depth, shape, dtype, name, dataset):
        if depth == 0 or self.chance(0.3):
            return self.plain(shape, dtype, name, dataset)
        return self.bands(depth, shape, dtype, name, dataset)

    def spoil(self, name, dataset, endless=False):
        """Makes a source unreadable."""
        path = self.folder / name
        how = self.rng.choice(["absent", "cut", "garbage", "empty", "no data set", "group"])
        if endless and not OLD:
            how = "absent"  # of others HDF5 tells no shape
        if how == "absent":
            path.unlink()
        elif how == "cut":
            os.truncate(path, path.stat().st_size // 2)
        elif how in ("garbage", "empty"):
            path.write_bytes(b"garbage\0" * 20 if how == "garbage" else b"")
        else:
            with h5py.File(path, "a", libver=("earliest", "v110")) as file:
                del file[dataset]
                if how == "group":
                    file.create_group(dataset)

    def relative(self, name, source):
        """How a file is named in the virtual data set in `name`; a % is doubled there."""
        up = "../" if "/" in name and not source.startswith("sub/") else ""
        return (up + source.removeprefix("sub/") if "/" in name else source).replace("%", "%%")

    def source_of(self, depth, shape, dtype, name):
        """A source for a place of `shape`: (file name, shape that is mapped, index in it, values, missing)."""
        step = int(self.rng.integers(1, 3)) if self.chance(0.3) else 1
        corner = [int(self.rng.integers(0, 3)) if step > 1 or self.chance(0.3) else 0 for _ in shape]
        mapped = tuple(c + (n - 1) * step + 1 + int(self.chance(0.3)) for c, n in zip(corner, shape))
        index = tuple(slice(c, c + (n - 1) * step + 1, step) for c, n in zip(corner, shape))
        if self.chance(0.4):
            mapped, index = tuple(shape), tuple(slice(0, n) for n in shape)
        actual = mapped
        if self.chance(self.odds / 2):  # smaller than it was
            actual = tuple(max(1, n - int(self.rng.integers(0, 3))) for n in mapped)
        elif self.chance(0.1):  # larger
            actual = tuple(n + int(self.rng.integers(0, 2)) for n in mapped)
        file = self.new()
        while "/" in name and "/" not in file:  # links lead down, not out of the folder
            file = "sub/" + file
        values, missing = self.make(depth - 1, actual, dtype, file, "d")
        spoiled = self.chance(self.odds)
        if spoiled:
            self.spoil(file, "d")
        whole, lost = np.zeros(mapped, dtype), np.ones(mapped, bool)
        both = tuple(slice(0, min(a, m)) for a, m in zip(actual, mapped))
        whole[both], lost[both] = values[both], missing[both] | spoiled
        known = np.zeros(mapped, bool)
        known[both] = not spoiled
        return file, mapped, index, whole[index], lost[index], known[index]

    def bands(self, depth, shape, dtype, name, dataset):
        """A virtual data set of bands along an axis, some of them not mapped."""
        axis, at = int(self.rng.integers(0, len(shape))), 0
        fill = int(self.rng.integers(1, 50))
        values, missing = np.full(shape, fill, dtype), np.zeros(shape, bool)
        layout = h5py.VirtualLayout(shape, dtype)
        while at < shape[axis]:
            size = int(self.rng.integers(1, shape[axis] - at + 1))
            place = tuple(slice(at, at + size) if a == axis else slice(0, n) for a, n in enumerate(shape))
            at += size
            if self.chance(0.15):
                continue
            file, mapped, index, part, lost, known = self.source_of(depth, values[place].shape, dtype, name)
            source = h5py.VirtualSource(self.relative(name, file), "d", mapped, dtype)
            layout[place] = source if all(i == slice(0, n) for i, n in zip(index, mapped)) else source[index]
            values[place] = np.where(known, part, np.asarray(fill, dtype))
            missing[place] = lost
        with self.open(name) as file:
            file.create_virtual_dataset(dataset, layout, fillvalue=fill)
        return values, missing

    def low_level(self, name, shape, dtype, fill, mappings):
        """mappings: (start, stride, block, file, data set, source's shape, whether it is endless)."""
        rank, endless = len(shape), h5py.h5s.UNLIMITED
        creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        creation.set_fill_value(np.asarray(fill, dtype))
        for start, stride, block, file, dataset, size, grows in mappings:
            space = h5py.h5s.create_simple((0, *shape[1:]), (endless, *shape[1:]))
            space.select_hyperslab((start,) + (0,) * (rank - 1), (endless,) + (1,) * (rank - 1),
                                   (stride,) + (1,) * (rank - 1), (block, *shape[1:]))  # fmt: skip
            of = h5py.h5s.create_simple(size, (endless, *size[1:]) if grows else size)
            if grows:
                of.select_hyperslab((0,) * rank, (1,) * rank, (1,) * rank, (endless, *size[1:]))
            creation.set_virtual(space, file.encode(), dataset.encode(), of)
        with self.open(name) as file:
            space = h5py.h5s.create_simple((0, *shape[1:]), (endless, *shape[1:]))
            h5py.h5d.create(file.id, b"x", h5py.h5t.py_create(np.dtype(dtype)), space, creation)

    def numbered(self, shape, dtype, name):
        """A virtual data set of numbered files, or of numbered data sets of one, with gaps."""
        in_file, fill = self.chance(0.3), 7
        blocks = int(self.rng.integers(1, 6))
        size, stride = (shape[0], *shape[1:]), shape[0] + int(self.rng.integers(0, 2))
        length = stride * (blocks - 1) + shape[0]
        values, missing = np.full((length, *shape[1:]), fill, dtype), np.zeros((length, *shape[1:]), bool)
        for i in range(blocks):
            band = slice(i * stride, i * stride + shape[0])
            if i < blocks - 1 and self.chance(self.odds):
                missing[band] = True
                continue
            file, dataset = ("all.h5", f"d{i}") if in_file else (f"run-{i}.h5", "d")
            values[band], missing[band] = self.plain(size, dtype, file, dataset)
        (self.folder / "run-007.h5").write_bytes(b"not a block: its number would be written 7")
        file, dataset = ("all.h5", "d%b") if in_file else ("run-%b.h5", "d")
        self.low_level(name, values.shape, dtype, fill, [(0, stride, shape[0], file, dataset, size, False)])
        return values, missing

    def growing(self, shape, dtype, name):
        """A virtual data set that interleaves sources without an end, of which some have come further."""
        count, fill = int(self.rng.integers(1, 4)), 9
        sizes = [int(self.rng.integers(1, 5)) for _ in range(count)]
        if not self.chance(2 * self.odds):
            sizes = [max(sizes)] * count
        gone = [self.chance(self.odds) and i > 0 for i in range(count)]
        length = max((n - 1) * count + i + 1 for i, n in enumerate(sizes) if not gone[i])
        values, missing = np.full((length, *shape[1:]), fill, dtype), np.zeros((length, *shape[1:]), bool)
        for i, n in enumerate(sizes):
            of, _ = self.plain((n, *shape[1:]), dtype, f"g{i}.h5", "d", grows=True)
            rows = len(range(i, length, count))
            there = 0 if gone[i] else min(n, rows)
            values[i::count][:there] = of[:there]
            missing[i::count][there:] = True
            if gone[i]:
                self.spoil(f"g{i}.h5", "d", endless=True)
        maps = [(i, count, 1, f"g{i}.h5", "d", (1, *shape[1:]), True) for i in range(count)]
        self.low_level(name, values.shape, dtype, fill, maps)
        return values, missing


def draw_select(rng, shape):
    """An entry of `select` for each axis, and the index that it is; at least two axes stay."""
    texts, index, kept = [], [], len(shape)
    for n in shape:
        kind = rng.choice(["all", "part", "step", "one"], p=[0.4, 0.3, 0.2, 0.1])
        first, end = sorted(int(v) for v in rng.choice(n + 1, 2, replace=False))
        if kind == "one" and kept > 2:
            kept -= 1
            texts.append(first)
            index.append(first)
        elif kind in ("part", "step"):
            step = 2 if kind == "step" else 1
            texts.append(f"{first}:{end}:{step}")
            index.append(slice(first, end, step))
        else:
            texts.append(":")
            index.append(slice(None))
    return texts, tuple(index)


def job_of(folder, select=None, **more):
    source = {"file": "whole.h5", "dataset": "x", **more}
    if select:
        source["select"] = select
    return dict(inputs={"x": source}, device="cpu", defaults={"warmup": 0, "repeat": 1},
                operations=[{"id": "y", "op": "transpose", "inputs": ["x"]}])  # fmt: skip


def check(folder, values, missing, select, index):
    seen, lost = values[index], missing[index]
    wanted = np.swapaxes(seen, -1, -2)
    job = job_of(folder, select)
    if lost.any():
        text = said("check", harness.write_job(folder / "job.yaml", **job))
        assert "`sources: fill` of the input reads fill values instead" in text and "is a virtual data set of '" in text, text
    else:
        results = harness.run_job(folder, **job, arguments=["--overwrite"])
        assert np.array_equal(results.output("y"), wanted)
    results = harness.run_job(folder, **job_of(folder, select, sources="fill"), arguments=["--overwrite"])
    assert np.array_equal(results.output("y"), wanted)
    with h5py.File(results.path) as file:
        about = dict(file["inputs/x"].attrs)
    assert about["missing_source_elements"] == lost.sum()
    assert (about["missing_sources"] > 0) == lost.any() == ("missing_source" in about)
    assert (f"lacks {about['missing_sources']} source" in results.rows[0]["message"]) == bool(lost.any())


@pytest.mark.parametrize("case", range(CASES))
def test_drawn(folder, case):
    seed = int(os.environ.get("TILERUN_SEED", np.random.SeedSequence().entropy % 2**32))
    print(f"TILERUN_SEED={seed}, case {case}")
    rng = np.random.default_rng([seed, case])
    tree = Tree(rng, folder, float(rng.choice([0, 0.1, 0.3])))
    shape = tuple(int(n) for n in rng.integers(1, 7, rng.integers(2, 4)))
    dtype, kind = str(rng.choice(TYPES)), rng.choice(["bands", "numbered", "growing"], p=[0.6, 0.2, 0.2])
    if kind == "bands":
        values, missing = tree.bands(int(rng.integers(1, 4)), shape, dtype, "whole.h5", "x")
    else:
        values, missing = getattr(tree, kind)(shape, dtype, "whole.h5")
    select, index = draw_select(rng, values.shape) if rng.random() < 0.5 else (None, ())
    check(folder, values, missing, select, index)


# ---- one by one ------------------------------------------------------------------------------------------------------


def whole_of(folder, files, shape=(2, 3), at="whole.h5"):
    """A virtual data set of `d` in each of the files, one behind the other."""
    layout = h5py.VirtualLayout((len(files) * shape[0], *shape[1:]), "f4")
    for i, name in enumerate(files):
        layout[i * shape[0] : (i + 1) * shape[0]] = h5py.VirtualSource(name, "d", shape, "f4")
    with h5py.File(folder / at, "w", libver=("v110", "v110")) as file:
        file.create_virtual_dataset("x", layout, fillvalue=-9)


def write(folder, name, value, shape=(2, 3), dtype="f4"):
    with h5py.File(folder / name, "w", libver=("earliest", "v110")) as file:
        file["d"] = np.full(shape, value, dtype)


def refusal(folder, *select, cwd=None, **more):
    job = job_of(folder, list(select) or None, **more)
    return said("check", harness.write_job(folder / "job.yaml", **job), cwd=cwd)


def numbered_of(folder):
    """The same of p-0.h5, p-1.h5 and so on."""
    maps = [(0, 2, 2, "p-%b.h5", "d", (2, 3), False)]
    Tree(np.random.default_rng(0), folder, 0).low_level("whole.h5", (0, 3), "f4", -9, maps)


FAULTS = {
    "absent": (lambda path: path.unlink(), "which is not there"),
    "cut": (lambda path: os.truncate(path, 900), "which is a truncated HDF5 file"),
    "no_data_set": (lambda path: write(path.parent, path.name, 0) or rename(path), "which has no such data set"),
    "smaller": (lambda path: write(path.parent, path.name, 2, (1, 3)), "which is only 1x3"),
    "text": (lambda path: path.write_text("a,b\n"), "which is not an HDF5 file but text"),
}


def rename(path):
    with h5py.File(path, "a", libver=("earliest", "v110")) as file:
        file.move("d", "e")


@pytest.mark.parametrize("fault", FAULTS)
def test_a_source_that_is_missing(folder, fault):
    for i in range(2):
        write(folder, f"{i}.h5", i)
    whole_of(folder, ["0.h5", "1.h5"])
    spoil, why = FAULTS[fault]
    spoil(folder / "1.h5")
    text = refusal(folder)
    assert f"whole.h5: 'x' is a virtual data set of 'd' in 1.h5, {why}" in text.replace("'/", "'"), text
    assert f"of 'd' in 1.h5, {why}" in said("inspect", folder / "whole.h5", "x", expect=OK)
    assert (harness.run_job(folder, **job_of(folder, ["0:2", ":"])).output("y") == 0).all()


def test_a_file_that_is_moved_without_its_sources(folder):
    (folder / "a").mkdir()
    write(folder / "a", "0.h5", 1)
    whole_of(folder / "a", ["0.h5"])
    (folder / "a/whole.h5").rename(folder / "whole.h5")
    assert "'d' in 0.h5, which is not there" in refusal(folder)


def test_numbered_files_of_which_none_is_there(folder):
    numbered_of(folder)
    assert "'d' in p-%b.h5, which is not there under any number" in refusal(folder)


@pytest.mark.parametrize("path", ["whole.h5", "./whole.h5", "././whole.h5"])
def test_a_file_of_the_current_folder(folder, path):
    """HDF5 compares the spellings of the folder in which the data set of a source is open."""
    tree = Tree(np.random.default_rng(0), folder, 0)
    tree.plain((3, 4), "f4", "a.h5", "d", grows=True)
    tree.low_level("whole.h5", (3, 4), "f4", -9, [(0, 1, 1, "a.h5", "d", (1, 4), True)])
    assert "virtual data set of" not in said("inspect", path, expect=OK, cwd=folder)


def test_a_growing_source_with_a_percent_sign_in_its_name(folder):
    """HDF5 reads "%%" as "%" also in the names of unlimited mappings."""
    tree = Tree(np.random.default_rng(0), folder, 0)
    values, missing = tree.plain((3, 4), "f4", "a%b.h5", "d%", grows=True)
    tree.low_level("whole.h5", values.shape, "f4", -9, [(0, 1, 1, "a%%b.h5", "d%%", (1, 4), True)])
    check(folder, values, missing, None, ())


def test_the_last_of_numbered_files_cannot_be_read(folder):
    """HDF5 counts those before it alone; later than 1.10 it tells no shape then."""
    for i in range(3):
        write(folder, f"p-{i}.h5", i)
    numbered_of(folder)
    assert harness.run_job(folder, **job_of(folder)).output("y").shape == (3, 6)
    os.truncate(folder / "p-2.h5", 900)
    assert "'d' in p-2.h5, which is a truncated HDF5 file" in refusal(folder)
    if OLD:
        results = harness.run_job(folder, arguments=["--overwrite"], **job_of(folder, ["0:2", ":"]))
        assert results.output("y").shape == (3, 2)
    else:
        done = harness.tilerun("check", harness.write_job(folder / "job.yaml", **job_of(folder, ["0:2", ":"])))
        assert done.returncode == USAGE and "'d' in p-2.h5, which is a truncated HDF5 file" in done.stderr


@pytest.mark.parametrize("what", ["strings", "filter"])
def test_a_source_that_hdf5_cannot_convert_or_decode(folder, what):
    write(folder, "0.h5", 0)
    with h5py.File(folder / "1.h5", "w", libver=("earliest", "v110")) as file:
        if what == "strings":
            file["d"] = np.array([[b"abc"] * 3] * 2)
        else:
            creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            creation.set_chunk((2, 3))
            creation.set_filter(32028, h5py.h5z.FLAG_OPTIONAL, ())
            h5py.h5d.create(file.id, b"d", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((2, 3)), creation)
    whole_of(folder, ["0.h5", "1.h5"])
    words = {"strings": "whose elements are not numbers", "filter": "which is compressed by HDF5 filter 32028 (SPERR)"}
    for more in ({}, {"sources": "fill"}):
        assert "shows '/d' in " in (text := refusal(folder, **more)) and words[what] in text


def test_sources_that_come_and_go_between_runs(folder):
    """--resume does not take the result of what was missing for that of what is there."""
    write(folder, "0.h5", 1)
    whole_of(folder, ["0.h5", "1.h5"])
    job = job_of(folder, sources="fill")
    assert (harness.run_job(folder, **job).output("y")[:, 2:] == -9).all()
    write(folder, "1.h5", 2)
    done = harness.tilerun("run", folder / "job.yaml", "-o", folder / "results.h5", "--resume")
    assert done.returncode == USAGE and "had other values in its inputs" in done.stderr
    assert (harness.run_job(folder, arguments=["--overwrite"], **job).output("y")[:, 2:] == 2).all()


@pytest.mark.parametrize("more", [{}, {"sources": "fill"}])
def test_more_files_than_may_be_open(folder, more):
    count = 150
    for i in range(count):
        write(folder, f"{i}.h5", i, (1, 3))
    whole_of(folder, [f"{i}.h5" for i in range(count)], (1, 3))

    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))

    job = harness.write_job(folder / "job.yaml", **job_of(folder, **more))
    harness.tilerun("run", job, "-o", folder / "out.h5", preexec_fn=few, expect=OK)
    assert (harness.Results(folder / "out.h5").output("y") == np.arange(count)).all()


def test_joined_files_lack_only_what_is_seen(folder):
    """Each file of a concatenated input is one of its own."""
    for i in range(2):
        write(folder, f"s{i}.h5", i)
        whole_of(folder, [f"s{i}.h5", f"t{i}.h5"], at=f"w{i}.h5")
    write(folder, "t0.h5", 5)
    more = {"file": "w*.h5", "concatenate": 0}
    assert "w1.h5: 'x' is a virtual data set of 'd' in t1.h5" in refusal(folder, **more).replace("'/", "'")
    assert (harness.run_job(folder, **job_of(folder, ["0:6", ":"], **more)).output("y") == [0, 0, 5, 5, 1, 1]).all()
    results = harness.run_job(folder, arguments=["--overwrite"], **job_of(folder, sources="fill", **more))
    assert (results.output("y") == [0, 0, 5, 5, 1, 1, -9, -9]).all()


# ---- external storage ------------------------------------------------------------------------------------------------


@pytest.fixture
def stored(folder):
    """8 rows of 3 in two raw files, and a virtual data set of them in another file."""
    values = np.arange(24, dtype="f4").reshape(8, 3)
    (folder / "data").mkdir()
    (folder / "data/a.raw").write_bytes(b"head" + values[:4].tobytes())
    (folder / "data/b.raw").write_bytes(values[4:].tobytes())
    with h5py.File(folder / "data/d.h5", "w") as file:
        creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        creation.set_external(b"a.raw", 4, 48)
        creation.set_external(b"b.raw", 0, h5py.h5f.UNLIMITED)
        h5py.h5d.create(file.id, b"d", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((8, 3)), creation)
    whole_of(folder, ["data/d.h5"], (8, 3))
    return values


@pytest.mark.parametrize("where, name", [("data/d.h5", "d"), ("whole.h5", "x")])
def test_raw_files_lie_beside_their_file(folder, stored, where, name):
    """Whatever the current directory is, and whatever lies there under their names."""
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere/a.raw").write_bytes(bytes(100))
    harness.write_job(folder / "job.yaml", **job_of(folder, file=where, dataset=name))
    for i, cwd in enumerate((folder, folder / "data", folder / "elsewhere")):
        harness.tilerun("run", folder / "job.yaml", "-o", folder / f"{i}.h5", cwd=cwd)
        assert (harness.Results(folder / f"{i}.h5").output("y").T == stored).all()


@pytest.mark.parametrize("where, name", [("data/d.h5", "d"), ("whole.h5", "x")])
@pytest.mark.parametrize("more", [{}, {"sources": "fill"}])
def test_raw_files_that_are_missing_or_too_short(folder, stored, where, name, more):
    more = {"file": where, "dataset": name, **more}
    os.truncate(folder / "data/b.raw", 40)
    assert "b.raw, which has 40 bytes of the 48 that are needed" in refusal(folder, **more)
    assert (harness.run_job(folder, **job_of(folder, ["0:7", ":"], **more)).output("y").T == stored[:7]).all()
    (folder / "data/b.raw").unlink()
    assert "b.raw, which is not there" in refusal(folder, **more)
    job = job_of(folder, ["0:4", ":"], **more)
    assert (harness.run_job(folder, arguments=["--overwrite"], **job).output("y").T == stored[:4]).all()
