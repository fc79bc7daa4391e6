"""Writes small files as other programs lay them out, with h5py alone: names, types, attributes and links are those that
netCDF4, h5netcdf, PyTables, pandas, anndata, 10x Genomics, MATLAB, Eiger's detector, NWB, openPMD and NeXus write;
test_inspect_real.py compares them with what the libraries write, where these are installed."""

import h5py
import numpy as np

PLACEHOLDER = "This is a netCDF dimension but not a netCDF variable."


def text(value):
    """A text attribute of fixed length, as C programs write it."""
    return np.bytes_(value)


# ---- netCDF ----------------------------------------------------------------------------------------------------------


def dimensions(file, sizes, variables):
    """Dimension scales: of a name in `variables` with its values, else a placeholder. Returns them by name."""
    scales = {}
    for number, (name, size) in enumerate(sizes.items()):
        if name in variables:
            scale = file.create_dataset(name, data=variables[name])
            scale.make_scale(name)
        else:
            scale = file.create_dataset(name, (size,), ">f4")
            scale.make_scale(f"{PLACEHOLDER}{size:10}")
        scale.attrs["_Netcdf4Dimid"] = np.int32(number)
        scales[name] = scale
    return scales


def variable(file, scales, name, axes, values, fill=None, **options):
    made = file.create_dataset(name, data=values, fillvalue=fill, **options)
    for axis, of in enumerate(axes):
        made.dims[axis].attach_scale(scales[of])
    numbers = [scales[of].attrs["_Netcdf4Dimid"] for of in axes]
    made.attrs["_Netcdf4Coordinates"] = np.array(numbers, "i4")
    if fill is not None:
        made.attrs["_FillValue"] = np.array([fill], made.dtype)
    return made


def netcdf4(path, draw, times=12):
    """A packed variable over time, its bounds, a scalar with the map projection. Returns the unpacked values."""
    with h5py.File(path, "w") as file:
        file.attrs["_NCProperties"] = text("version=2,netcdf=4.9.0,hdf5=1.12.2")
        axes = {"lat": np.linspace(-60, 60, 5, dtype="f4"), "lon": np.arange(6, dtype="f4")}
        axes["time"] = np.arange(times, dtype="f8")
        scales = dimensions(file, {"time": times, "lat": 5, "lon": 6, "nv": 2}, axes)
        scales["time"].attrs["units"] = text("days since 2000-01-01")
        stored = draw.integers(-1000, 1000, (times, 5, 6)).astype("i2")
        stored[draw.random(stored.shape) < 0.1] = -32767
        chunks = {"chunks": (1, 5, 6), "compression": "gzip", "shuffle": True}
        t2m = variable(file, scales, "t2m", ("time", "lat", "lon"), stored, np.int16(-32767), **chunks)
        t2m.attrs["scale_factor"], t2m.attrs["add_offset"] = np.array([0.01]), np.array([273.15])
        t2m.attrs["units"] = text("K")
        variable(file, scales, "time_bnds", ("time", "nv"), np.zeros((times, 2)))
        file.create_dataset("crs", data=np.int32(0)).attrs["grid_mapping_name"] = text("latitude_longitude")
    return np.where(stored == -32767, np.nan, stored * 0.01 + 273.15)


def h5netcdf(path, draw):
    with h5py.File(path, "w") as file:
        file.attrs["_NCProperties"] = text("version=2,h5netcdf=1.8.2,hdf5=1.10.8,h5py=3.7.0")
        scales = dimensions(file, {"t": 4, "x": 5, "y": 6}, {"x": np.arange(5)})
        variable(file, scales, "a", ("t", "x", "y"), draw.random((4, 5, 6)), np.nan)
        variable(file, scales, "b", ("x",), np.arange(5))


# ---- PyTables and pandas ---------------------------------------------------------------------------------------------


def pytables_root(file):
    attributes(file, CLASS="GROUP", PYTABLES_FORMAT_VERSION="2.1", TITLE="", VERSION="1.0")


def attributes(item, **values):
    for name, value in values.items():
        if value == "":
            item.attrs[name] = h5py.Empty("S1")
        else:
            item.attrs[name] = text(value) if isinstance(value, str) else value


def pytables_array(group, name, values, **options):
    made = group.create_dataset(name, data=values, **options)
    if options:
        attributes(made, CLASS="CARRAY", TITLE="", VERSION="1.1")
    else:
        attributes(made, CLASS="ARRAY", FLAVOR="numpy", TITLE="", VERSION="2.4")
    return made


def pytables_table(group, name, values):
    made = group.create_dataset(name, data=values, chunks=(max(1, len(values)),), maxshape=(None,))
    attributes(made, CLASS="TABLE", TITLE="", VERSION="2.7", NROWS=np.int64(len(values)))
    for number, field in enumerate(values.dtype.names):
        attributes(made, **{f"FIELD_{number}_NAME": field})
        made.attrs[f"FIELD_{number}_FILL"] = np.zeros(1, values.dtype[field])[0]
    return made


def search_index(group, table, column, type_="f8"):
    index = group.create_group(f"_i_{table}")
    attributes(index, CLASS="TINDEX", TITLE=f"Indexes container for table /{table}", VERSION="1.0")
    of = index.create_group(column)
    attributes(of, CLASS="INDEX", TITLE="Index for a column", VERSION="2.1", DIRTY=np.int32(0))
    for name, shape, kind in [
        ("abounds", (0,), "EARRAY"),
        ("bounds", (0, 127), "CACHEARRAY"),
        ("indices", (0, 1024), "INDEXARRAY"),
        ("indicesLR", (1024,), "LASTROWARRAY"),
        ("sorted", (0, 1024), "INDEXARRAY"),
        ("sortedLR", (1153,), "LASTROWARRAY"),
    ]:
        made = of.create_dataset(name, shape, "u4" if "indices" in name else type_, chunks=(1, *shape[1:]), maxshape=(None, *shape[1:]))
        attributes(made, CLASS=kind, TITLE=name, VERSION="1.1")


def pytables(path, draw):
    """An array, a table and its index. Returns the array's values."""
    values = draw.normal(size=(400, 7))
    with h5py.File(path, "w") as file:
        pytables_root(file)
        pytables_array(file, "arr", values, chunks=(100, 7), compression="gzip", shuffle=True)
        pytables_array(file, "plain", np.arange(10))
        table = np.zeros(300, [("a", "f8"), ("b", "i4")])
        pytables_table(file, "tab", table)
        search_index(file, "tab", "a")
    return values


def pandas_group(file, kind, **more):
    pytables_root(file)
    group = file.create_group("df")
    attributes(group, CLASS="GROUP", TITLE="", VERSION="1.0", encoding="UTF-8", errors="strict", pandas_type=kind)
    attributes(group, pandas_version="0.15.2", **more)
    return group


def pandas_fixed(path, draw):
    with h5py.File(path, "w") as file:
        group = pandas_group(file, "frame", ndim=np.int64(2), nblocks=np.int64(2))
        pytables_array(group, "axis0", np.array([b"a", b"b"]))
        pytables_array(group, "axis1", np.arange(1000))
        pytables_array(group, "block0_items", np.array([b"a"]))
        pytables_array(group, "block0_values", draw.random((1000, 1))).attrs["transposed"] = np.uint8(1)
        pytables_array(group, "block1_items", np.array([7]))
        pytables_array(group, "block1_values", np.arange(1000)[:, None]).attrs["transposed"] = np.uint8(1)


def pandas_table(path, draw):
    with h5py.File(path, "w") as file:
        group = pandas_group(file, "frame_table", table_type="appendable_frame", levels=np.int64(1))
        rows = np.zeros(50, [("index", "i8"), ("values_block_0", "f8", (2,)), ("a", "f8")])
        rows["a"] = draw.random(50)
        pytables_table(group, "table", rows)
        search_index(group, "table", "index", "i8")


# ---- anndata and 10x Genomics ----------------------------------------------------------------------------------------


def encoding(item, kind, version="0.2.0"):
    item.attrs["encoding-type"], item.attrs["encoding-version"] = kind, version
    return item


def sparse(group, name, rows, columns, draw, form="csr_matrix"):
    made = encoding(group.create_group(name), form, "0.1.0")
    made.attrs["shape"] = np.array([rows, columns])
    lines = rows if form == "csr_matrix" else columns
    count = 3 * lines
    made["data"] = draw.random(count).astype("f4")
    made["indices"] = draw.integers(0, min(rows, columns), count).astype("i4")
    made["indptr"] = np.arange(0, count + 1, 3, dtype="i4")


def frame(file, name, rows, draw):
    group = encoding(file.create_group(name), "dataframe")
    group.attrs["_index"] = "_index"
    group.attrs["column-order"] = np.array(["kind", "n"], h5py.string_dtype())
    encoding(group.create_dataset("_index", data=[f"c{i}" for i in range(rows)]), "string-array")
    kind = encoding(group.create_group("kind"), "categorical")
    kind.attrs["ordered"] = False
    encoding(kind.create_dataset("categories", data=["a", "b"]), "string-array")
    encoding(kind.create_dataset("codes", data=draw.integers(0, 2, rows).astype("i1")), "array")
    encoding(group.create_dataset("n", data=draw.random(rows)), "array")


def anndata(path, draw, is_sparse, rows=120, columns=20):
    """Returns X, or None where it is sparse."""
    values = None
    with h5py.File(path, "w") as file:
        encoding(file, "anndata", "0.1.0")
        if is_sparse:
            sparse(file, "X", rows, columns, draw)
        else:
            values = draw.normal(size=(rows, columns)).astype("f4")
            encoding(file.create_dataset("X", data=values), "array")
        frame(file, "obs", rows, draw)
        frame(file, "var", columns, draw)
        for name in ("layers", "obsm", "obsp", "uns", "varm", "varp"):
            encoding(file.create_group(name), "dict", "0.1.0")
        sparse(file["layers"], "counts", rows, columns, draw, "csc_matrix")
        if not is_sparse:
            encoding(file["obsm"].create_dataset("X_pca", data=draw.random((rows, 5))), "array")
    return values


def anndata_dense(path, draw):
    return anndata(path, draw, False)


def anndata_sparse(path, draw):
    anndata(path, draw, True)


def tenx(path, draw):
    """A matrix of 10x Genomics: its shape is a data set."""
    with h5py.File(path, "w") as file:
        group = file.create_group("matrix")
        group["barcodes"] = np.array([b"AAAC-1"] * 9)
        group["data"] = draw.integers(1, 9, 27).astype("i4")
        group["indices"] = draw.integers(0, 30, 27)
        group["indptr"] = np.arange(0, 28, 3)
        group["shape"] = np.array([30, 9], "i4")


# ---- MATLAB ----------------------------------------------------------------------------------------------------------


def matlab_dataset(group, name, values, kind, decode=None, **options):
    made = group.create_dataset(name, data=values, **options)
    made.attrs["MATLAB_class"] = text(kind)
    if decode is not None:
        made.attrs["MATLAB_int_decode"] = np.int32(decode)
    return made


def matlab(path, draw):
    """v7.3: a user block, axes in reverse order, logicals and texts as numbers, a cell, a struct, a sparse matrix. Returns
    the matrix as MATLAB shows it."""
    shown = draw.normal(size=(30, 8))
    with h5py.File(path, "w", userblock_size=512) as file:
        matlab_dataset(file, "A", shown.T, "double", chunks=(8, 30), compression="gzip")
        matlab_dataset(file, "mask", (shown.T > 0).astype("u1"), "logical", 1)
        matlab_dataset(file, "name", np.frombuffer(b"m\0y\0", "u2")[:, None], "char", 2)
        matlab_dataset(file, "n", np.array([[3.0]]), "double")
        matlab_dataset(file, "none", np.array([0, 0], "u8"), "double").attrs["MATLAB_empty"] = np.uint8(1)
        refs = file.create_group("#refs#")
        for member in "abcdef":
            matlab_dataset(refs, member, draw.random((40, 50)), "double")
        cell = np.array([[refs[member].ref] for member in "abcdef"], h5py.ref_dtype)
        matlab_dataset(file, "cells", cell, "cell")
        struct = file.create_group("S")
        struct.attrs["MATLAB_class"] = text("struct")
        matlab_dataset(struct, "t", np.arange(30.0)[None], "double")
        matrix = file.create_group("sparse")
        matrix.attrs["MATLAB_class"], matrix.attrs["MATLAB_sparse"] = text("double"), np.uint64(30)
        matrix["data"], matrix["ir"] = draw.random(900), np.arange(900, dtype="u8") % 30
        matrix["jc"] = np.arange(0, 901, 30, dtype="u8")
    with open(path, "r+b") as file:
        head = b"MATLAB 7.3 MAT-file, Platform: GLNXA64, Created on: Mon Jan  1 00:00:00 2024 HDF5 schema 1.00 ."
        file.write(head.ljust(116) + bytes(8) + b"\x00\x02IM")
    return shown


# ---- detectors -------------------------------------------------------------------------------------------------------


def eiger(path, draw, files=(7, 7, 4), virtual=False):
    """A master file, whose links lead to files of frames beside it. Returns all frames."""
    frames = draw.integers(0, 50, (sum(files), 8, 9)).astype("u2")
    stem, first = path.name.removesuffix("_master.h5"), 0
    with h5py.File(path, "w") as master:
        entry = master.create_group("entry")
        entry.attrs["NX_class"] = text("NXentry")
        data = entry.create_group("data")
        data.attrs["NX_class"] = text("NXdata")
        for number, count in enumerate(files, 1):
            name = f"{stem}_data_{number:06}.h5"
            with h5py.File(path.parent / name, "w") as file:
                of = file.create_dataset("entry/data/data", data=frames[first : first + count], chunks=(1, 8, 9))
                of.attrs["image_nr_low"], of.attrs["image_nr_high"] = np.int32(first + 1), np.int32(first + count)
            data[f"data_{number:06}"] = h5py.ExternalLink(name, "/entry/data/data")
            first += count
        data["data_000099"] = h5py.ExternalLink(f"{stem}_data_000099.h5", "/entry/data/data")  # never written
        detector = entry.create_group("instrument/detector")
        detector.attrs["NX_class"] = text("NXdetector")
        detector["bit_depth_image"], detector["count_time"] = np.uint32(16), np.float32(0.1)
        detector["description"] = text("Dectris Eiger 1M")
        detector["detectorSpecific/pixel_mask"] = np.zeros((8, 9), "u4")
        if virtual:
            layout, first = h5py.VirtualLayout(frames.shape, "u2"), 0
            for number, count in enumerate(files, 1):
                source = h5py.VirtualSource(f"{stem}_data_{number:06}.h5", "entry/data/data", (count, 8, 9))
                layout[first : first + count] = source
                first += count
            data.create_virtual_dataset("data", layout)
    return frames


def nexus(path, draw):
    """The axes are named by their group, and the detector's data have two names."""
    with h5py.File(path, "w") as file:
        data = file.create_group("entry/data")
        data.attrs["NX_class"], data.attrs["signal"] = "NXdata", "counts"
        data.attrs["axes"] = np.array(["time", "energy"], h5py.string_dtype())
        data["counts"] = draw.random((40, 6))
        data["time"], data["energy"] = np.arange(40.0), np.arange(6.0)
        file["entry/instrument/detector/counts"] = data["counts"]
        file["entry/shortcut"] = h5py.SoftLink("/entry/data/counts")


# ---- neurons, particles ----------------------------------------------------------------------------------------------


def nwb(path, draw):
    with h5py.File(path, "w") as file:
        file.attrs["neurodata_type"], file.attrs["nwb_version"] = "NWBFile", "2.6.0"
        file["identifier"], file["session_description"] = "a", "b"
        series = file.create_group("acquisition/ElectricalSeries")
        series.attrs["neurodata_type"] = "ElectricalSeries"
        data = series.create_dataset("data", data=draw.integers(-500, 500, (600, 4)).astype("i2"), chunks=(100, 4))
        data.attrs["conversion"], data.attrs["offset"], data.attrs["unit"] = 1e-6, 0.0, "volts"
        series["timestamps"] = np.arange(6000) / 100
        series["timestamps"].attrs["unit"] = "seconds"
        units = file.create_group("units")
        units.attrs["colnames"] = np.array(["spike_times"], h5py.string_dtype())
        units["id"] = np.arange(3000)
        units["spike_times"], units["spike_times_index"] = np.sort(draw.random(300)), np.array([100, 200, 300])


def openpmd(path, draw):
    with h5py.File(path, "w") as file:
        file.attrs["openPMD"], file.attrs["basePath"] = text("1.1.0"), text("/data/%T/")
        step = file.create_group("data/100")
        step.attrs["time"], step.attrs["dt"] = 1.0, 0.1
        mesh = step.create_group("fields/E")
        mesh.attrs["axisLabels"], mesh.attrs["dataOrder"] = np.array([b"z", b"y", b"x"]), text("C")
        for part in "xyz":
            mesh.create_dataset(part, data=draw.random((6, 5, 4))).attrs["unitSI"] = 1.0
        electrons = step.create_group("particles/electrons")
        for record in ("position", "momentum"):
            for part in "xyz":
                electrons.create_dataset(f"{record}/{part}", data=draw.random(500)).attrs["unitSI"] = 1.0
        electrons["id"] = np.arange(500, dtype="u8")
        electrons["weighting"] = draw.random(500)


# ---- files that are hard to read -------------------------------------------------------------------------------------


def many(path, draw, count=120):
    """Cells by barcode, frames by number, each with scalars."""
    with h5py.File(path, "w") as file:
        file["summary"] = draw.random((50, 6))
        for number in range(count):
            cell = file.create_group(f"cells/{draw.integers(1 << 60):016x}")
            cell["image"] = np.zeros((3, 4), "f4")
            cell["area"] = 1.0
            if number % 3 == 0:
                file[f"frames/frame_{number:04}"] = np.zeros(5, "i2")


def tiny_chunks(path, draw):
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=draw.random((40, 50)).astype("f4"), chunks=(1, 1))


LAYOUTS = {
    function.__name__: function
    for function in (
        netcdf4, h5netcdf, pytables, pandas_fixed, pandas_table, anndata_dense, anndata_sparse, tenx, matlab, eiger,
        nexus, nwb, openpmd, many, tiny_chunks,
    )
}  # fmt: skip
