"""`tilerun inspect` of files as other programs lay them out (real_layouts.py). What is sensible, for any such file:

- what it prints is at most MOST_LINES long;
- a proposed input is no netCDF placeholder, scalar, part of a sparse matrix, text, search index or second link;
- no coordinates are proposed where there is anything else, and indices, codes and ids come behind all else;
- every proposal passes `check` and `run --once`, and its means are NumPy's;
- where nothing is proposed, the exit code is 2 and what the file holds is counted."""

import json
import os
import re

import h5py
import numpy as np
import pytest

import harness
import real_layouts
from harness import OK, USAGE

MOST_LINES = 60
SEED = int(os.environ.get("TILERUN_SEED", 0))
CASES = int(os.environ.get("TILERUN_CASES", 3))

COORDINATES = re.compile(r"/(time|times|timestamps|lat|lon|t|time_bnds|axis\d+|block\d+_items|energy)$")
CODES = re.compile(r"/(id|ids|codes|indices|indptr|.*_index)$")
NO_INPUT = re.compile(r"/_i_|/#refs#/|/(crs|nv|indptr|indices|ir|jc|name|none|identifier|count_time|shape)$")
NOTHING = {"tenx": "part"}  # of which nothing is proposed: a word of the reason


def draw():
    return np.random.default_rng([SEED, 18])


def path_of(folder, name):
    return folder / ("run_master.h5" if name.startswith("eiger") else f"{name}.h5")


def write(folder, name, **options):
    path = path_of(folder, name)
    return path, real_layouts.LAYOUTS[name](path, draw(), **options)


def inspect(*arguments, folder, expect=OK):
    done = harness.tilerun("inspect", *arguments, cwd=folder, expect=expect)
    return done.stdout if expect == OK else done.stderr


def flow(line):
    """A map of YAML in braces."""
    tokens = re.findall(r'"(?:[^"\\]|\\.)*"|[\w.+-]+|[{}\[\],:]', line[: line.rindex("}") + 1])
    plain = re.compile(r'["{}\[\],:]|-?\d+$|true$|false$')
    return json.loads("".join(token if plain.match(token) else json.dumps(token) for token in tokens))


def proposed(path):
    """The job, and the data sets of its inputs in order."""
    job = inspect("--job", path.name, folder=path.parent)
    (path.parent / "job.yaml").write_text(job)
    inputs = {name: flow(line) for name, line in re.findall(r"^  (\w+): (\{file.*)", job, re.M)}
    operations = [flow(line) for line in re.findall(r"^  - (\{id.*)", job, re.M)]
    return {"inputs": inputs, "operations": operations}, [given["dataset"] for given in inputs.values()]


def run(folder):
    assert harness.quiet("check", "job.yaml", cwd=folder) == ""
    harness.tilerun("run", "job.yaml", "--once", "--device", "cpu", cwd=folder, expect=OK)


def decoded(dataset):
    """What xarray and netCDF4 make of it."""
    values = dataset[...].astype("f8")
    if "_FillValue" in dataset.attrs:
        values[dataset[...] == dataset.attrs["_FillValue"]] = np.nan
    return values * dataset.attrs.get("scale_factor", 1) + dataset.attrs.get("add_offset", 0)


def check_sensible(path):
    text = inspect(path.name, folder=path.parent)
    assert text.count("\n") <= MOST_LINES
    job, datasets = proposed(path)
    assert not [given for given in datasets if NO_INPUT.search(given)]
    kinds = ["coordinate" if COORDINATES.search(of) else "code" if CODES.search(of) else "values" for of in datasets]
    assert kinds == sorted(kinds, reverse=True) and ("coordinate" not in kinds or set(kinds) == {"coordinate"})
    run(path.parent)
    stem = path.name.partition(".")[0]
    with h5py.File(path.parent / f"mean-of-{stem}.h5") as results, h5py.File(path) as file:
        for operation in job["operations"]:
            given = job["inputs"][operation["inputs"][0]]
            if operation.get("operator") != "mean" or "concatenate" in given:
                continue
            dataset = file[given["dataset"]]
            values = dataset[given["field"]] if "field" in given else decoded(dataset)
            mean = np.nanmean if operation.get("skip_nan") else np.mean
            expected = mean(values, axis=operation["axis"])
            np.testing.assert_allclose(results[f"outputs/{operation['id']}"][()], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", [name for name in real_layouts.LAYOUTS if name not in NOTHING])
def test_sensible(folder, name):
    check_sensible(write(folder, name)[0])


@pytest.mark.parametrize("name", NOTHING)
def test_nothing_to_propose(folder, name):
    path, _ = write(folder, name)
    said = inspect("--job", path.name, folder=folder, expect=USAGE)
    assert re.search(r"\(\d+ \w+", said) and NOTHING[name] in said


@pytest.mark.parametrize("case", range(CASES))
def test_several_layouts_in_one_file(folder, case):
    """As groups of one file; what the libraries find by references or at the root is left out."""
    random = np.random.default_rng([SEED, 19, case])
    names = [name for name in real_layouts.LAYOUTS if name not in ("matlab", "netcdf4", "h5netcdf")]
    chosen = random.choice(names, random.integers(2, 5), replace=False)
    print("seed", SEED, "case", case, "of", *chosen)
    with h5py.File(folder / "all.h5", "w") as file:
        file["last"] = random.random((30, 40))  # so that there is something to propose
        for name in chosen:
            path = path_of(folder, name)
            real_layouts.LAYOUTS[name](path, random)
            with h5py.File(path) as of:
                file.copy(of["/"], name)
    check_sensible(folder / "all.h5")


# ---- what is said ----------------------------------------------------------------------------------------------------


def test_axes_have_their_names(folder):
    for name, row in [
        ("netcdf4", "/t2m .*12x5x6 +time, lat, lon "),
        ("h5netcdf", "/a .*4x5x6 +t, x, y "),
        ("openpmd", "/data/100/fields/E/x +6x5x4 +z, y, x "),
        ("nexus", "/entry/data/counts +40x6 +time, energy "),
    ]:
        path, _ = write(folder, name)
        assert re.search(row, inspect(path.name, folder=folder)), name
    path, _ = write(folder, "netcdf4")
    assert "named axes 0 (time), 1 (lat), 2 (lon)\n" in inspect(path.name, "t2m", folder=folder)
    with h5py.File(folder / "labels.h5", "w") as file:
        file["x"] = np.zeros((3, 4))
        file["x"].dims[1].label = "energy"
        file["y"] = np.zeros((3, 4))
        file["y"].attrs["_ARRAY_DIMENSIONS"] = ["row", "column"]
    text = inspect("labels.h5", folder=folder)
    assert re.search("/x +3x4 +-, energy ", text) and re.search("/y +3x4 +row, column ", text)


def test_octave_sparse(folder):
    parts = {"nr": 2, "nc": 2, "nz": 2, "cidx": [[0], [1], [2]], "ridx": [[0], [1]], "data": [[1.0], [2.0]]}
    harness.write_arrays(folder / "o.h5", **{f"s/value/{name}": value for name, value in parts.items()})
    text = harness.tilerun("inspect", folder / "o.h5", expect=OK).stdout
    assert "/s/value is a sparse matrix (csc, 2 elements stored)" in text and "/s/value/data " not in text


def test_what_is_no_input_takes_a_line(folder):
    path, _ = write(folder, "netcdf4")
    text = inspect(path.name, folder=folder)
    assert "7 data sets" in text and "5 can be inputs" in text
    assert "  /: 1 scalar\n  /: 1 netCDF dimension without a variable\n" in text and "/nv" not in text
    assert "/nv" in inspect("--all", path.name, folder=folder)
    path, _ = write(folder, "pytables")
    assert "  /_i_tab: 6 data sets of PyTables' search index\n" in inspect(path.name, folder=folder)
    path, _ = write(folder, "matlab")
    text = inspect(path.name, folder=folder)
    assert "  /#refs#: 6 data sets that MATLAB refers to\n" in text
    assert "1 MATLAB text\n" in text and "1 empty MATLAB array\n" in text
    assert re.search("/mask +8x30 +uint8 +logical ", text) and "in MATLAB /A is 30x8\n" in text
    assert "/sparse is a sparse matrix (csc, 30x30, 900 elements stored)" in text
    total = {"id": "m", "op": "reduce", "operator": "mean", "axis": "all", "inputs": ["x"]}
    job = harness.write_job(
        folder / "job.yaml", inputs={"x": {"file": path.name, "dataset": "/none"}}, operations=[total]
    )
    done = harness.tilerun("check", job)
    assert done.returncode == harness.USAGE and "'/none' is an empty MATLAB array" in done.stderr
    path, _ = write(folder, "anndata_sparse")
    text = inspect(path.name, folder=folder)
    assert "/X is a sparse matrix (csr, 120x20, 360 elements stored)" in text and "/X/" not in text
    assert "/layers/counts is a sparse matrix (csc, " in text


def test_a_data_set_of_several_links_counts_once(folder):
    path, _ = write(folder, "nexus")
    text = inspect(path.name, folder=folder)
    assert "3 data sets" in text and "3 can be inputs" in text
    assert "  /entry/instrument/detector/counts is /entry/data/counts\n" in text


def test_reasons_are_counted(folder):
    with h5py.File(folder / "a.h5", "w") as file:
        for i in range(12):
            file[f"names/{i}"] = ["a", "b"]
        for i in range(3):
            properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            properties.set_chunk((4,))
            properties.set_filter(32013, h5py.h5z.FLAG_OPTIONAL, (3,))
            space = h5py.h5s.create_simple((8,))
            h5py.h5d.create(file.id, f"x{i}".encode(), h5py.h5t.NATIVE_INT16, space, properties)
    assert "\n(12 strings, 3 missing filters)\n" in inspect("a.h5", folder=folder)
    said = inspect("--job", "a.h5", folder=folder, expect=USAGE)
    assert "(12 strings, 3 missing filters)" in said


def test_long_lists_are_folded(folder):
    path, _ = write(folder, "many")
    text = inspect(path.name, folder=folder)
    assert text.count("\n") < 15 and "118 like /cells/" in text and "38 like /frames/" in text
    assert "120 scalars in 120 groups" in text and "/summary" in text
    assert inspect("--all", path.name, folder=folder).count("\n") > 280
    with h5py.File(folder / "alike.h5", "w") as file:  # names of one group that nothing joins
        for i in range(120):
            file[chr(97 + i // 26) + chr(97 + i % 26)] = np.zeros(i % 50 + 2, "f4")
    assert inspect("alike.h5", folder=folder).count("\n") <= MOST_LINES


def test_tiny_chunks(folder):
    path, _ = write(folder, "tiny_chunks")
    words = "/x: 2,000 chunks of 4 bytes: slow to read; h5repack -l x:CHUNK=40x50 tiny_chunks.h5 COPY.h5\n"
    assert words in inspect(path.name, folder=folder)


# ---- what is proposed ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("virtual", [False, True])
def test_a_master_file_is_one_input(folder, virtual):
    path, frames = write(folder, "eiger", virtual=virtual)
    job, datasets = proposed(path)
    data = next(iter(job["inputs"].values()))
    assert data["dataset"] == "/entry/data/data" and data["concatenate"] == 0 and "*" not in data["file"]
    assert len([given for given in datasets if given.startswith("/entry/data")]) == 1
    run(folder)
    results = harness.Results(folder / "mean-of-run_master.h5")
    np.testing.assert_allclose(results.output("mean_of_data"), frames.mean(0), rtol=1e-12)
    np.testing.assert_allclose(results.output("std_of_data"), frames.std(0), rtol=1e-10)


def test_files_beside_a_master_that_it_does_not_name_are_not_read(folder):
    path, frames = write(folder, "eiger")
    with h5py.File(folder / "run_data_000077.h5", "w") as file:
        file["entry/data/data"] = np.zeros((3, 8, 9), "u2")
    job, _ = proposed(path)
    assert not [given for given in job["inputs"].values() if "concatenate" in given]
    run(folder)


def test_what_each_file_is_for(folder):
    for name, operation in [
        ("netcdf4", {"op": "reduce", "operator": "mean", "axis": 0}),
        ("anndata_dense", {"op": "matmul", "transpose_a": True}),
        ("pytables", {"op": "reduce", "operator": "mean", "axis": 0}),
        ("pandas_table", {"inputs": ["a"], "operator": "mean"}),
        ("matlab", {"op": "transpose", "to": "matlab-in-order.h5:/A"}),
    ]:
        path, _ = write(folder, name)
        operations = proposed(path)[0]["operations"]
        assert any(operation.items() <= given.items() for given in operations[:3]), name


def test_the_copy_is_as_matlab_shows_it(folder):
    path, shown = write(folder, "matlab")
    proposed(path)
    run(folder)
    with h5py.File(folder / "matlab-in-order.h5") as file:
        assert np.array_equal(file["A"][...], shown)


def complex_of(real, imaginary):
    return np.zeros((4, 5), [(real, "f4"), (imaginary, "f4")])


TABLE, INNER = np.zeros(5, [("id", "i4"), ("x", "f4"), ("time", "f8")]), [("a", "f4")]
PROPOSED = {  # data sets of a file, and what is proposed of it: data sets and fields
    "a table beside a single element": ({"events": TABLE, "n": [3.0]}, ["/events x", "/n"]),
    "a table beside codes": ({"events": TABLE, "frame_id": np.arange(5)}, ["/events x"]),
    "more fields than a line shows": ({"t": np.zeros(4, [(f"c{i}_id", "i4") for i in range(13)] + INNER)}, ["/t a"]),
    "commas in names": ({"t": np.zeros(4, [("a, b", "f4"), ("b", "f4")])}, ["/t a, b", "/t b"]),
    "arrays of tables": ({"t": np.zeros(4, [("of", INNER, (3,)), ("z", "c8", (2,))])}, ["/t of/a", "/t z/r", "/t z/i"]),
    "complex numbers of Octave": ({"z": complex_of("real", "imag")}, ["/z real", "/z imag"]),
    "complex numbers of Julia": ({"z": complex_of("re", "im")}, ["/z re", "/z im"]),
    "names that are no texts": ({"null": np.ones((2, 2)), "True": np.ones((2, 2))}, ["/True", "/null"]),
    "masks": ({"im": np.ones((4, 5)), "a_mask": np.zeros((4, 5), "u4"), "mask": np.zeros((4, 5), "?")}, ["/im"]),
    "masks alone": ({"mask": np.zeros((4, 5), "?")}, ["/mask"]),
}


@pytest.mark.parametrize("what", PROPOSED)
def test_what_is_proposed(folder, what):
    data_sets, expected = PROPOSED[what]
    harness.write_arrays(folder / "a.h5", **data_sets)
    job, _ = proposed(folder / "a.h5")
    found = [f"{given['dataset']} {given.get('field', '')}".strip() for given in job["inputs"].values()]
    assert found == expected
    run(folder)


@pytest.mark.parametrize("layout, why", [("virtual", "in gone.h5, which is not there"), ("unwritten", "file holds 0 B")])
def test_no_field_that_cannot_be_read_is_proposed(folder, layout, why):
    with h5py.File(folder / "a.h5", "w", libver="latest") as file:
        if layout == "virtual":
            virtual = h5py.VirtualLayout((5,), TABLE.dtype)
            virtual[:] = h5py.VirtualSource("gone.h5", "t", (5,), TABLE.dtype)
            file.create_virtual_dataset("t", virtual)
        else:
            file.create_dataset("t", (1 << 36,), TABLE.dtype, chunks=(1 << 16,))
    assert why in inspect("--job", "a.h5", folder=folder, expect=USAGE)


# ---- the layouts are the real ones -----------------------------------------------------------------------------------


def described(path, ignored=()):
    """Of each object its kind, and its attributes but for their values' sizes."""
    found = {}

    def visit(name, item):
        kind = ("group",) if isinstance(item, h5py.Group) else (item.ndim, item.dtype.kind)
        attributes = {key: item.attrs.get_id(key).dtype.kind for key in item.attrs if key not in ignored}
        found[name] = (*kind, attributes)

    with h5py.File(path) as file:
        visit("/", file)
        file.visititems(visit)
    return found


def agrees(ours, real, names):
    """The objects of these names are of one kind, and what ours have of attributes the real ones have too."""
    for mine, theirs in names.items():
        *kind, attributes = ours[mine]
        *their_kind, their_attributes = real[theirs]
        assert kind == their_kind and attributes.items() <= their_attributes.items(), mine


def test_netcdf4_writes_so(folder):
    netcdf = pytest.importorskip("netCDF4")
    write(folder, "netcdf4")
    with netcdf.Dataset(folder / "real.nc", "w") as file:
        for name, size in {"time": None, "lat": 5, "lon": 6, "nv": 2}.items():
            file.createDimension(name, size)
        for name, kind in {"time": "f8", "lat": "f4", "lon": "f4"}.items():
            file.createVariable(name, kind, (name,))
        file["time"].units = "days since 2000-01-01"
        t2m = file.createVariable("t2m", "i2", ("time", "lat", "lon"), zlib=True, fill_value=-32767)
        t2m.scale_factor, t2m.add_offset, t2m.units = 0.01, 273.15, "K"
        file.createVariable("time_bnds", "f8", ("time", "nv"))
        file.createVariable("crs", "i4").grid_mapping_name = "latitude_longitude"
    ours, real = described(folder / "netcdf4.h5"), described(folder / "real.nc", ["_NCProperties"])
    ours["/"][1].pop("_NCProperties")
    agrees(ours, real, {name: name for name in ours})
    assert set(ours) == set(real)


def test_pytables_writes_so(folder):
    tables = pytest.importorskip("tables")
    write(folder, "pytables")
    with tables.open_file(folder / "real.h5", "w") as file:
        file.create_carray("/", "arr", obj=np.zeros((400, 7)))
        file.create_array("/", "plain", obj=np.arange(10))
        table = file.create_table("/", "tab", np.dtype([("a", "f8"), ("b", "i4")]))
        table.append(np.zeros(300, table.dtype))
        table.cols.a.create_index()
    ours, real = described(folder / "pytables.h5"), described(folder / "real.h5")
    agrees(ours, real, {name: name for name in ours})


def test_pandas_writes_so(folder):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("tables")
    write(folder, "pandas_fixed")
    write(folder, "pandas_table")
    frame = pandas.DataFrame({"a": np.arange(5.0), "b": np.arange(5)})
    frame.to_hdf(folder / "fixed.h5", key="df", format="fixed")
    frame.astype("f8").to_hdf(folder / "table.h5", key="df", format="table", data_columns=["a"])
    ours, real = described(folder / "pandas_fixed.h5"), described(folder / "fixed.h5")
    ours["df/block1_items"] = real["df/block1_items"]  # ours is of numbers
    agrees(ours, real, {name: name for name in ours})
    ours, real = described(folder / "pandas_table.h5"), described(folder / "table.h5")
    agrees(ours, real, {name: name for name in ours})


def test_anndata_writes_so(folder):
    anndata, sparse = pytest.importorskip("anndata"), pytest.importorskip("scipy.sparse")
    pandas = pytest.importorskip("pandas")
    for name, x in {"anndata_dense": np.zeros((120, 20), "f4"), "anndata_sparse": sparse.eye(120, 20, format="csr")}.items():
        write(folder, name)
        obs = pandas.DataFrame({"kind": pandas.Categorical(["a", "b"] * 60), "n": np.arange(120.0)})
        obs.index = [f"c{i}" for i in range(120)]
        real = anndata.AnnData(x.astype("f4"), obs, obs[:20].set_axis([f"v{i}" for i in range(20)]))
        real.layers["counts"] = sparse.eye(120, 20, format="csc").astype("f4")
        if name == "anndata_dense":
            real.obsm["X_pca"] = np.zeros((120, 5))
        real.write_h5ad(folder / "real.h5ad")
        agrees(described(folder / f"{name}.h5"), real := described(folder / "real.h5ad"), {each: each for each in real})
