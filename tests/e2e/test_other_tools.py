"""Results files and files of `to`, used by other people's programs as their users do, after both were moved to another
folder and the inputs are gone. What Debian has of these programs `.ci/run` installs; others are skipped, and counted."""

import json
import shutil
import subprocess
import sys

import h5py
import numpy as np
import pytest
from real_layouts import PLACEHOLDER

import harness
from harness import ROOT

TEXTS = {f"note{i}": f"text {i}" for i in range(12)}  # more attributes than HDF5 keeps in a header by itself


def write_input(path, scaled=False):
    """A data set with many texts; with scales and labels, which have them too, as h5netcdf writes them."""
    rng = np.random.default_rng(5)
    with h5py.File(path, "w", libver=("v108", "v110"), track_order=True) as file:
        x = file.create_dataset("x", data=rng.normal(size=(24, 16)).astype("f4"))
        x.attrs.update(TEXTS, units="K", long_name="some quantity")
        y = file.create_dataset("y", data=rng.normal(size=(24, 800)).astype("f4"))
        scales = [("time", 24, [(x, 0), (y, 0)]), ("level", 16, [(x, 1)]), ("place", 800, [(y, 1)])]
        for name, count, ends in scales * scaled:
            scale = file.create_dataset(name, data=np.arange(count) * 0.5)
            scale.make_scale(name)
            scale.attrs.update(TEXTS)
            for of, axis in ends:
                of.dims[axis].attach_scale(scale)
                of.dims[axis].label = name


JOB = {
    "device": "cpu",
    "parameters": {"n": [8, 16]},
    "inputs": {
        "X": {"file": "in.h5", "dataset": "/x"},
        "part": {"file": "in.h5", "dataset": "/x", "rows": [0, "$n"]},
        "R": {"random": {"shape": ["$n", 24], "seed": 3, "dtype": "float64"}},
        "Y": {"file": "in.h5", "dataset": "/y"},
    },
    "defaults": {"warmup": 0, "repeat": 3},
    "operations": [
        {"id": "mean", "op": "reduce", "inputs": ["X"], "operator": "mean", "axis": 0, "variants": ["cpu"]},
        {"id": "most", "op": "reduce", "inputs": ["part"], "operator": "argmax", "axis": 1},
        {"id": "total", "op": "reduce", "inputs": ["X"], "operator": "sum", "axis": "all"},
        {"id": "twice", "op": "scale", "inputs": ["X"], "alpha": 2, "chunks": [8, 16], "compression": "gzip",
         "shuffle": True},
        {"id": "gram", "op": "matmul", "inputs": ["R", "R"], "transpose_b": True, "variants": ["cpu", "blocked"],
         "store": "all"},
    ],
}  # fmt: skip
TO = [
    {"id": "flipped", "op": "transpose", "inputs": ["X"], "to": "made.h5:/g/flipped"},
    {"id": "column", "op": "reduce", "inputs": ["X"], "operator": "max", "axis": 1, "to": "made.h5:/column"},
    {"id": "wide", "op": "transpose", "inputs": ["Y"], "to": "made.h5:/g/wide"},  # too large to be copied
]


def make_quickstart(folder):
    harness.quiet("run", ROOT / "configs/quickstart.yaml", "-o", folder / "out.h5", "--progress", "none")


def make_sweep(folder, scaled=False, operations=()):
    write_input(folder / "in.h5", scaled)
    read = {name for operation in [*JOB["operations"], *operations] for name in operation["inputs"]}
    inputs = {name: it for name, it in JOB["inputs"].items() if name in read}
    job = {**JOB, "inputs": inputs, "operations": [*JOB["operations"], *operations]}
    harness.write_job(folder / "job.yaml", **job)
    harness.quiet("run", folder / "job.yaml", "-o", folder / "out.h5", "--progress", "none")


def make_merge(folder, *flags):
    write_input(folder / "in.h5")
    harness.write_job(folder / "job.yaml", **JOB)
    for shard in ("0/2", "1/2"):
        arguments = ("run", folder / "job.yaml", "-o", folder / "out.h5", "--progress", "none", "--shard", shard)
        assert harness.tilerun(*arguments).returncode == harness.OK
    assert harness.tilerun("merge", folder / "out.h5", *flags).returncode == harness.OK


def make_alone(folder):
    """A results file that was moved without the file of its `to`, of which large results are lost."""
    make_sweep(folder, scaled=True, operations=TO)
    (folder / "made.h5").unlink()
    with h5py.File(folder / "out.h5") as file:
        assert np.isnan(file["outputs/wide"][()]).all() and np.isfinite(file["outputs/flipped"][()]).all()


MADE = {
    "quickstart": make_quickstart,
    "sweep": make_sweep,
    "scales": lambda folder: make_sweep(folder, scaled=True),
    "to": lambda folder: make_sweep(folder, operations=TO),
    "scaled_to": lambda folder: make_sweep(folder, scaled=True, operations=TO),
    "alone": make_alone,
    "merge": make_merge,
    "link": lambda folder: make_merge(folder, "--link"),
}
FILES = [f"{name}/out.h5" for name in MADE] + ["to/made.h5", "scaled_to/made.h5"]


def values_of(path):
    """Each numeric data set by each of its paths, in the order of its elements. Placeholders hold nothing."""
    found = {}

    def visit(group, path):
        for name, item in group.items():
            if isinstance(item, h5py.Group):
                visit(item, f"{path}/{name}")
            elif item.dtype.kind in "iuf" and not item.attrs.get("NAME", b"").startswith(PLACEHOLDER.encode()):
                found[f"{path}/{name}"] = np.asarray(item[()], float).ravel().tolist()

    with h5py.File(path) as file:
        visit(file, "")
    return found


@pytest.fixture(scope="module")
def moved(memory_folder):
    """The folder that they are in now, and what they held where they were made."""
    made, now = memory_folder / "made", memory_folder / "moved"
    for name, make in MADE.items():
        (made / name).mkdir(parents=True)
        make(made / name)
        for gone in ("in.h5", "job.yaml"):
            (made / name / gone).unlink(missing_ok=True)
    held = {file: values_of(made / file) for file in FILES}
    assert all("/outputs/mean" in held[f] for f in FILES if f.endswith("out.h5") and f != FILES[0])
    made.rename(now)
    yield now, held
    shutil.rmtree(now)


def call(*command, folder, **options):
    done = subprocess.run(list(map(str, command)), cwd=folder, capture_output=True, timeout=300, **options)
    if done.returncode == 77:
        pytest.skip(f"what {command[0]} needs is not here")
    assert done.returncode == 0, (command, done.returncode, done.stderr.decode(errors="replace")[-2000:])
    return done.stdout.decode(errors="replace")


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            pytest.skip(f"{program} is not here")


def look_into(moved, expect, files):
    """A JSON object of files, their data sets and what is in these, beside what they held."""
    now, held = moved
    found = json.loads(expect)
    assert set(found) == set(files)
    for file, values in found.items():
        assert values, file
        for path, numbers in values.items():
            np.testing.assert_array_equal(np.ravel(numbers), held[file][path], f"{file} {path}")
    return found


# ---- HDF5's own tools ------------------------------------------------------------------------------------------------


def same(one, other):
    """Two objects with all that is in them."""
    assert type(one) is type(other) and set(one.attrs) == set(other.attrs), one.name
    for name in one.attrs:
        if not name.endswith(("_LIST",)):  # references, to where they are
            np.testing.assert_array_equal(one.attrs[name], other.attrs[name])
    if isinstance(one, h5py.Dataset):
        assert one.dtype == other.dtype and one[()].tobytes() == other[()].tobytes()
        return
    for name in one:
        if one.get(name, getlink=True).__class__ is h5py.HardLink:
            same(one[name], other[name])


@pytest.mark.parametrize("file", FILES)
def test_h5copy(moved, file):
    need("h5copy")
    path = moved[0] / file
    copy = path.with_name("copy.h5")
    with h5py.File(path) as there:
        for name in there:
            call("h5copy", "-i", path, "-o", copy, "-s", f"/{name}", "-d", f"/{name}", folder=path.parent)
        with h5py.File(copy) as here:
            for name in there:
                same(there[name], here[name])
    copy.unlink()


@pytest.mark.parametrize("file", FILES)
def test_h5repack_and_h5diff(moved, file):
    need("h5repack", "h5diff")
    path = moved[0] / file
    call("h5repack", path, "packed.h5", folder=path.parent)
    call("h5diff", path, "packed.h5", folder=path.parent)
    path.with_name("packed.h5").unlink()


@pytest.mark.parametrize("command", [["h5stat"], ["h5ls", "-r", "-v"], ["h5dump"], ["ncdump"]])
def test_tools_that_print(moved, command):
    need(command[0])
    for file in FILES:
        assert call(*command, file, folder=moved[0])


def test_h5py_copies_every_object(moved):
    """In a process of its own: what failed was a crash."""
    script = """if True:
        import h5py, sys
        for file in sys.argv[1:]:
            print(file, file=sys.stderr, flush=True)
            with h5py.File(file) as one, h5py.File("every.h5", "w") as other:
                names = []
                one.visit(names.append)
                for i, name in enumerate(names): one.copy(name, other, name=str(i))
                one.copy("/", other, name="all")
                assert len(other) == len(names) + 1 > 3"""
    call(sys.executable, "-c", script, *FILES, folder=moved[0])
    (moved[0] / "every.h5").unlink()


# ---- programs --------------------------------------------------------------------------------------------------------


def test_gdalinfo(moved):
    need("gdalinfo")
    for file in FILES:
        assert "Driver: HDF5" in call("gdalinfo", file, folder=moved[0])
    for file, path in [("quickstart/out.h5", "outputs/gram"), ("scaled_to/made.h5", "g/flipped")]:
        shown = call("gdalinfo", "-json", "-mm", f'HDF5:"{file}"://{path}', folder=moved[0])
        band = json.loads(shown)["bands"][0]
        values = moved[1][file]["/" + path]
        np.testing.assert_allclose([band["computedMin"], band["computedMax"]], [min(values), max(values)], atol=1e-3)


OCTAVE = """1;
function walk(file, path, item)
  if isstruct(item) && numel(item) == 1
    names = fieldnames(item);
    for i = 1:numel(names) walk(file, [path "/" names{i}], item.(names{i})); end
  elseif isnumeric(item) && isempty(strfind(path, "/samples")) && isempty(strfind(path, "/environment"))
    printf('"%s %s": [', file, path);
    numbers = double(item(:));
    text = sprintf("%.17g, ", numbers);
    printf("%s],\\n", text(1:end-2));
  elseif ischar(item)
    printf('"%s %s": "text",\\n', file, path);
  end
end
printf("{");
for i = 1:numel(argv()) walk(argv(){i}, "", load("-hdf5", argv(){i})); end
printf('"end": 0}\\n');
"""


def test_octave_loads(moved):
    need("octave-cli")
    now, held = moved
    (now / "all.m").write_text(OCTAVE)
    found = json.loads(call("octave-cli", "--no-gui", "-q", "all.m", *FILES, folder=now))
    for file in FILES:
        mine = {key.split()[1]: value for key, value in found.items() if key.startswith(file)}
        if not file.endswith("made.h5"):
            assert mine["/job"] == "text" and "/samples/_0" not in held[file]
        results = {path: held[file][path] for path in held[file] if path.split("/")[1] not in ("samples", "shards")}
        assert results
        for path, values in results.items():  # Octave has n_8 for n=8
            np.testing.assert_array_equal(mine[path.replace("=", "_").replace(",", "_")], values, f"{file} {path}")


R = """
if (!requireNamespace("hdf5r", quietly = TRUE)) quit(status = 77)
suppressMessages(library(hdf5r))
for (path in commandArgs(TRUE)) {
    file <- H5File$new(path, "r")
    h5attributes(file)
    for (name in grep("^/?(samples|shards)/", list.datasets(file), value = TRUE, invert = TRUE)) {
        item <- file[[name]]
        h5attributes(item)
        value <- item$read()
        cat(path, name, if (is.numeric(value)) sprintf("%.17g", value) else class(value)[[1]], "\\n")
    }
    file$close_all()
}
"""


def test_hdf5r_reads(moved, rng):
    """Two files, drawn, since it is slow."""
    need("Rscript")
    now, held = moved
    (now / "all.r").write_text(R)
    seen, files = {}, [file for file in FILES if not file.startswith(("sweep", "merge", "to"))]
    for file in rng.permutation(files)[:2]:
        # In a process of its own: hdf5r breaks off where HDF5 uses an object's number again ("New count is").
        for line in call("Rscript", "all.r", file, folder=now).splitlines():
            _, path, *values = line.split()
            seen[file, "/" + path.lstrip("/")] = values
        results = {path: held[file][path] for path in held[file] if path.split("/")[1] not in ("samples", "shards")}
        for path, values in results.items():
            np.testing.assert_array_equal(np.array(seen[file, path], float), values, f"{file} {path}")
        if not file.endswith("made.h5"):
            assert seen[file, "/runs"] == ["data.frame"] and seen[file, "/job"] == ["character"]


# ---- Python's libraries ----------------------------------------------------------------------------------------------

NUMBERS = """
import json, sys, warnings
warnings.simplefilter("ignore")
import numpy as np
found = {}
def keep(file, path, values):
    values = np.ma.getdata(values)
    if values.dtype.kind in "iuf": found.setdefault(file, {})[path] = np.ravel(values).tolist()
"""

PYTHON = {
    "netCDF4": """
import netCDF4
def walk(file, path, group):
    for name in group.ncattrs(): group.getncattr(name)
    for name, variable in group.variables.items():
        for attribute in variable.ncattrs(): variable.getncattr(attribute)
        if variable.dtype is str: assert len(variable[...]) > 0
        elif variable.dtype.kind != "V": keep(file, path + "/" + name, variable[...])
    for name, inner in group.groups.items(): walk(file, path + "/" + name, inner)
for file in sys.argv[1:]:
    with netCDF4.Dataset(file) as opened: walk(file, "", opened)
""",
    "h5netcdf": """
import h5netcdf
def walk(file, path, group):
    dict(group.attrs)
    for name, variable in group.variables.items():
        dict(variable.attrs)
        keep(file, path + "/" + name, variable[...])
    for name, inner in group.groups.items(): walk(file, path + "/" + name, inner)
for file in sys.argv[1:]:
    with h5netcdf.File(file, "r", phony_dims="sort") as opened: walk(file, "", opened)
""",
    "xarray": """
import xarray, h5netcdf, h5py
for file in sys.argv[1:]:
    groups = ["/"]
    with h5py.File(file) as opened:
        opened.visititems(lambda name, item: groups.append("/" + name) if isinstance(item, h5py.Group) and name[:3] in ("out", "g") else None)
    for group in groups:
        with xarray.open_dataset(file, group=group, engine="h5netcdf", phony_dims="sort", decode_cf=False) as opened:
            for name, variable in opened.load().variables.items():
                keep(file, group.rstrip("/") + "/" + name, variable.values)
""",
    "datatree": """
import xarray, h5netcdf
if not hasattr(xarray, "open_datatree"): sys.exit(77)
for file in sys.argv[1:]:
    tree = xarray.open_datatree(file, engine="h5netcdf", phony_dims="sort", decode_cf=False).load()
    for path in tree.groups:
        for name, variable in tree[path].to_dataset(inherit=False).variables.items():
            keep(file, path.rstrip("/") + "/" + name, variable.values)
""",
    "tables": """
import tables
for file in sys.argv[1:]:
    with tables.open_file(file) as opened:
        for node in opened.walk_nodes("/"):
            {name: node._v_attrs[name] for name in node._v_attrs._f_list("all")}
            if isinstance(node, tables.Table): assert len(node.read_where("run >= 0")) == node.nrows > 0
            elif isinstance(node, tables.Array): keep(file, node._v_pathname, np.asarray(node.read()))
""",
    "pandas": """
import pandas, h5py
for file in sys.argv[1:]:
    with h5py.File(file) as opened:
        if "runs" in opened:
            frame = pandas.DataFrame.from_records(opened["runs"][:])
            assert len(frame) == len(opened["runs"]) and set(frame.status) <= {b"ok", b"skipped"}
            assert {str(text) for text in frame.operation.str.decode("utf-8")}
        opened.visititems(lambda name, item: keep(file, "/" + name, pandas.DataFrame(item[()]).to_numpy())
                          if isinstance(item, h5py.Dataset) and item.ndim == 2 else None)
""",
}
NEEDED = {"xarray": ["xarray", "h5netcdf"], "datatree": ["xarray", "h5netcdf"]}


@pytest.mark.parametrize("library", PYTHON)
def test_pythons_libraries(moved, library):
    """In processes of their own, with an HDF5 library of theirs."""
    imports = f"try: import {', '.join(NEEDED.get(library, [library]))}\nexcept ImportError: raise SystemExit(78)\n"
    script = imports + NUMBERS + PYTHON[library] + "print(json.dumps(found))"
    unread = ("scale", "alone") if library == "tables" else ()  # it opens no file with scales
    files = [file for file in FILES if not file.startswith(unread)]
    done = subprocess.run([sys.executable, "-c", script, *files], cwd=moved[0], capture_output=True, timeout=300)
    if done.returncode == 78:
        pytest.skip(f"{library} is not here")
    if done.returncode == 77:
        pytest.skip("this xarray has no open_datatree")
    assert done.returncode == 0, (done.returncode, done.stderr.decode(errors="replace")[-3000:])
    found = look_into(moved, done.stdout, files)
    if library != "pandas":
        for file in files:
            here = {path for path in moved[1][file] if "/outputs" in path or file.endswith("made.h5")}
            assert here <= set(found[file]), here - set(found[file])
