"""Files and data sets that cannot be read: each is named as what it is, with what to do about it."""

import gzip
import io
import os
import re
import signal
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest

import harness
from harness import OK, said

NEWER = Path(__file__).parent / "newer"


# ---- no HDF5 ---------------------------------------------------------------------------------------------------------


def npy():
    memory = io.BytesIO()
    np.save(memory, np.arange(3))
    return memory.getvalue()


def npz():
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as archive:
        archive.writestr("x.npy", npy())
    return memory.getvalue()


FOREIGN = {
    "netcdf3": (b"CDF\1" + bytes(60), "a netCDF-3 file", "nccopy -k nc4"),
    "netcdf3-64": (b"CDF\2" + bytes(60), "a netCDF-3 file", "nccopy -k nc4"),
    "cdf5": (b"CDF\5" + bytes(60), "CDF-5", "nccopy -k nc4"),
    "hdf4": (b"\x0e\x03\x13\x01" + bytes(60), "an HDF4 file", "h4toh5"),
    "mat5": (b"MATLAB 5.0 MAT-file, Platform: GLNXA64".ljust(124) + b"\0\1IM", "MATLAB file of version 5", "-v7.3"),
    "npy": (npy(), "a NumPy array", "np.load"),
    "npz": (npz(), "a zip archive", "np.load"),
    "gzip": (gzip.compress(b"\x89HDF\r\n\x1a\n" * 9), "gzip-compressed", "gunzip"),
    "bzip2": (b"BZh91AY&SY" + bytes(40), "bzip2-compressed", "bunzip2"),
    "xz": (b"\xfd7zXZ\0" + bytes(40), "xz-compressed", "unxz"),
    "zstd": (b"\x28\xb5\x2f\xfd" + bytes(40), "zstd-compressed", "unzstd"),
    "tar": (b"data/x.h5".ljust(257, b"\0") + b"ustar\0" + bytes(300), "a tar archive", "tar xf"),
    "lfs": (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 9\n", "a pointer of Git LFS", "git lfs pull"),
    "html": (b"\n<!DOCTYPE html>\n<html><body>404</body></html>", "a web page", "download"),
    "page": (b"<HTML><HEAD>Sign in</HEAD>", "a web page", "download"),
    "empty": (b"", "empty", "broken off"),
    "fits": (b"SIMPLE  =                    T".ljust(2880), "a FITS file", "astropy"),
    "tiff": (b"II*\0" + bytes(60), "a TIFF image", "tifffile"),
    "tiff-big-endian": (b"MM\0*" + bytes(60), "a TIFF image", "tifffile"),
    "bigtiff": (b"II+\0" + bytes(60), "a TIFF image", "tifffile"),
    "parquet": (b"PAR1" + bytes(60) + b"PAR1", "a Parquet table", "read_parquet"),
    "csv": (b"a,b\n1,2\n3,4\n", "text", "loadtxt"),
    "text": (("Größe 1,5\n" * 200).encode(), "text", "loadtxt"),
}  # fmt: skip


@pytest.mark.parametrize("kind", FOREIGN)
def test_what_is_no_hdf5_file(folder, kind):
    data, what, remedy = FOREIGN[kind]
    (folder / "data.h5").write_bytes(data)
    text = said("inspect", "data.h5", cwd=folder)
    assert text.startswith("tilerun: data.h5: is not an HDF5 file but ") and what in text and remedy in text, text
    harness.write_job(folder / "job.yaml", inputs={"x": {"file": "data.h5", "dataset": "x"}},
                      operations=[{"id": "y", "op": "transpose", "inputs": ["x"]}])  # fmt: skip
    assert what in said("check", folder / "job.yaml")


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_a_part_of_several_files(folder, libver):
    """What only a driver of HDF5 opens is not truncated or damaged."""
    for driver, name, keys in ("family", "f%d.h5", {"memb_size": 2048}), ("split", "s", {}):
        with h5py.File(folder / name, "w", driver=driver, libver=libver, **keys) as file:
            file["x"] = np.arange(2000.0)
    assert "first file of an HDF5 family: `h5repart -family_to_sec2" in said("inspect", "f0.h5", cwd=folder)
    assert said("inspect", "s-m.h5", cwd=folder).endswith(" h5py from h5py.File(NAME, driver='split')\n")


def test_text_is_cut_where_a_character_is(folder):
    """What is looked at may end within a character of several bytes."""
    for shift in range(4):
        (folder / "data.h5").write_bytes(b"a" * shift + "ö€𝄞".encode() * 100)
        assert "but text: " in said("inspect", "data.h5", cwd=folder), shift
    (folder / "data.h5").write_bytes(b"abc\0def" * 10)
    assert said("inspect", "data.h5", cwd=folder) == "tilerun: data.h5: is not an HDF5 file\n"


@pytest.mark.parametrize("inside", [".zarray", ".zgroup", "zarr.json"])
def test_a_zarr_directory(folder, inside):
    (folder / "x.zarr").mkdir()
    (folder / "x.zarr" / inside).write_text("{}")
    kind = "array" if inside == ".zarray" else "directory"
    assert f"is a zarr {kind}, not an HDF5 file: " in said("inspect", "x.zarr", cwd=folder)


@pytest.mark.packages
@pytest.mark.parametrize("keys", [{}, {"zarr_format": 2}])
def test_zarr_becomes_hdf5_as_is_said(folder, keys):
    zarr = pytest.importorskip("zarr", reason="no zarr: `make real` brings it")
    x = np.arange(12.0).reshape(3, 4)
    zarr.open_group(folder / "x.zarr", mode="w", **keys).create_array("x", data=x)
    remedy = re.search("`python3 (.*)`", said("inspect", "x.zarr", cwd=folder))[1]
    subprocess.run(f"{sys.executable} {remedy.replace('IN', 'x.zarr')}", shell=True, check=True, cwd=folder)
    with h5py.File(folder / "OUT.h5") as file:
        assert (file["x"][...] == x).all()


# ---- a later HDF5 ----------------------------------------------------------------------------------------------------

NEEDS = {
    "filtered": ("2.0", "layout message version 5"),
    "virtual-latest": ("2.0", "list of sources version 1"),
    "virtual-v114": ("1.12", "selection"),
    "table": ("2.0", "datatype message version 5"),
    "complex": ("2.0", "datatype message version 5"),
}


def hdf5_here():
    """The version of the HDF5 that tilerun uses, as it says itself."""
    found = re.search(r"this is (\d+)\.(\d+)\.", said("inspect", NEWER / "filtered.h5", "x"))
    return tuple(map(int, found.groups())) if found else (2, 0)


@pytest.mark.parametrize("name", NEEDS)
def test_files_of_a_later_hdf5(name):
    version, why = NEEDS[name]
    path = NEWER / f"{name}.h5"
    if hdf5_here() >= tuple(map(int, version.split("."))):
        assert harness.tilerun("inspect", path, "x").returncode == OK
        return
    text = said("inspect", path, "x")
    assert text.startswith(f"tilerun: {path}: '/x' needs HDF5 {version} ({why}); this is "), text
    assert "makes a copy it can read" in text and ("h5py's" in text) == (name == "complex")
    listed = said("inspect", path, expect=OK)
    assert re.search(rf"^/x .*no: needs HDF5 {re.escape(version)} \({why}\)$", listed, re.M), listed
    assert re.search(r"^/y .* GB/s$", listed, re.M)


def test_a_link_to_a_later_hdf5_s_data_set(folder):
    (folder / "far.h5").write_bytes((NEWER / "filtered.h5").read_bytes())
    with h5py.File(folder / "data.h5", "w") as file:
        file["x"] = h5py.ExternalLink("far.h5", "/x")
        file["gone"] = h5py.ExternalLink("gone.h5", "/x")
        file["none"] = h5py.ExternalLink("far.h5", "/z")
        file["group"] = h5py.ExternalLink("gone.h5", "/")
    words = {"x": "far.h5, which needs HDF5 2.0 (layout", "gone": "gone.h5, which is not there",
             "none": "far.h5, which has no such object", "group/x": "gone.h5, which is not there"}  # fmt: skip
    for name in words if hdf5_here() < (2, 0) else ("gone", "none", "group/x"):
        assert " is an external link to '/" in (text := said("inspect", "data.h5", name, cwd=folder))
        assert words[name] in text


# ---- being written ---------------------------------------------------------------------------------------------------

WRITER = """
import os, sys, h5py, numpy as np
file = h5py.File(sys.argv[1], "w", libver="latest")
data = file.create_dataset("x", data=np.arange(12.).reshape(4, 3), maxshape=(None, 3), chunks=(2, 3))
if sys.argv[2] == "swmr":
    file.swmr_mode = True
file.flush()
print("ready", flush=True)
for line in sys.stdin:
    data.resize(data.shape[0] + 2, 0)
    data[-2:] = data.shape[0]
    data.flush()
    print("more", flush=True)
"""


class Writer:
    def __init__(self, path, how):
        self.process = subprocess.Popen([sys.executable, "-c", WRITER, path, how], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
        assert self.process.stdout.readline() == "ready\n"

    def more(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "more\n"

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()


MEAN = {"inputs": {"x": {"file": "data.h5", "dataset": "x"}}, "device": "cpu",
        "operations": [{"id": "y", "op": "reduce", "inputs": ["x"], "operator": "sum", "axis": 0}]}  # fmt: skip


@pytest.mark.parametrize("ended", [False, True])
def test_a_file_that_swmr_writes(folder, ended):
    """What it holds when it is opened is read, while its writer lives and after that was killed."""
    with Writer(folder / "data.h5", "swmr") as writer:
        if ended:
            writer.kill()
        assert (harness.run_job(folder, **MEAN).output("y") == [18, 22, 26]).all()
        if not ended:
            writer.more()
            assert (harness.run_job(folder, arguments=["--overwrite"], **MEAN).output("y") == [30, 34, 38]).all()


def test_a_file_that_grows_while_it_is_read(folder):
    """The job reads as many rows as it found first, in each of its operations."""
    job = {**MEAN, "operations": [{**MEAN["operations"][0], "id": f"y{i}"} for i in range(40)]}
    with Writer(folder / "data.h5", "swmr") as writer:
        ends = threading.Event()

        def write():
            while not ends.wait(0.002):
                writer.more()

        thread = threading.Thread(target=write)
        thread.start()
        try:
            results = harness.run_job(folder, **job)
        finally:
            ends.set()
            thread.join()
    total, rows, sums = np.arange(12.0).reshape(4, 3).sum(axis=0), 4, {}
    while rows < 100000 and total.sum() < 1e9:
        sums[tuple(total)] = rows
        total, rows = total + 2 * (rows + 2), rows + 2
    assert len({sums[tuple(results.output(f"y{i}"))] for i in range(40)}) == 1


@pytest.mark.parametrize("ended", [False, True])
def test_a_file_that_is_written_otherwise(folder, ended):
    """h5clear on a file that is still written would destroy it."""
    with Writer(folder / "data.h5", "plain") as writer:
        if ended:
            writer.kill()
        text = said("inspect", "data.h5", cwd=folder)
        assert "another program is writing it" in text and "damaged" not in text
        assert not ended or ("has ended without closing it" in text and "`h5clear -s`" in text and "destroys" in text)


# ---- filters ---------------------------------------------------------------------------------------------------------

FILTERS = {307: "bzip2", 32013: "ZFP", 32017: "SZ", 32018: "JPEG-LS", 32024: "SZ3", 32026: "Blosc2", 32028: "SPERR",
           32033: "HTJ2K", 32012: "JPEG-LS", 32020: "VBZ", 39999: ""}  # fmt: skip
ADVICE = ("`pip install hdf5plugin`, then `export HDF5_PLUGIN_PATH=$(python3 -c 'import hdf5plugin; "
          "print(hdf5plugin.PLUGINS_PATH)')`")  # fmt: skip


@pytest.mark.parametrize("number", FILTERS)
def test_a_filter_that_is_not_here(folder, number):
    with h5py.File(folder / "data.h5", "w") as file:
        creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        creation.set_chunk((2, 2))
        creation.set_filter(number, h5py.h5z.FLAG_OPTIONAL, (1, 2))
        h5py.h5d.create(file.id, b"x", h5py.h5t.NATIVE_FLOAT, h5py.h5s.create_simple((4, 4)), creation)
    text = said("check", harness.write_job(folder / "job.yaml", **MEAN), env={**os.environ, "HDF5_PLUGIN_PATH": "/none"})
    assert f"HDF5 filter {number}" in text and FILTERS[number] in text
    assert (ADVICE in text) == (number not in (32012, 32020, 39999)), text
