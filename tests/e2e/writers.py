"""Files as other people's programs write them, small ones: h5py with each of HDF5's formats, netCDF4, h5netcdf, PyTables,
pandas, anndata, hdf5plugin, MATLAB's layout. Needs `make real`'s packages. Each function of WRITERS is given a folder,
and writes files into it; as a program it runs one."""

import functools
import sys
from pathlib import Path

import anndata
import h5netcdf
import h5py
import hdf5plugin
import netCDF4
import numpy as np
import pandas as pd
import scipy.io
import scipy.sparse
import tables

SHAPE = (23, 17)
INTEGERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]
FLOATS = ["f2", "f4", "f8"]
LIBVERS = ["earliest", "v108", "v110", "v112", "v114", "v200", "latest"]  # of HDF5 2.0


def numbers(dtype="f4", shape=SHAPE, seed=1):
    """Of all of a type's range but for floats, which are smooth, so that codecs that lose something find something."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        return (np.cos(np.arange(np.prod(shape)) / 9) * 100).reshape(shape).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype.newbyteorder("="), endpoint=True).astype(dtype)


# ---- h5py ----------------------------------------------------------------------------------------------------------


def hdf5_types(file):
    for order in "<>":
        for kind in INTEGERS + FLOATS:
            file[f"types/{'le' if order == '<' else 'be'}_{kind}"] = numbers(np.dtype(order + kind))
    file["types/bool"] = numbers("u1") > 100
    file.create_dataset("types/enum", data=numbers("u1") % 3, dtype=h5py.enum_dtype({"a": 0, "b": 1, "c": 2}, "u1"))
    file["types/complex"] = (numbers() + 1j * numbers(seed=2)).astype("c8")
    file["types/longdouble"] = numbers("g")
    file["types/text"] = np.array([b"ab", b"c"])
    file.create_dataset("types/texts", data=["ab", "c"], dtype=h5py.string_dtype())
    file.create_dataset("types/vlen", (2,), h5py.vlen_dtype("f4"))
    file["types/table"] = np.zeros(5, [("a", "i4"), ("b", "f8")])
    file["types/array"] = np.zeros(3, [("m", "f4", (2, 2))])["m"]
    file.create_dataset("types/arrays", (3,), np.dtype(("f4", (2,))))
    file.create_dataset("types/reference", data=[file.ref], dtype=h5py.ref_dtype)
    file.create_dataset("types/date", data=np.arange(5).astype("M8[s]").astype(h5py.opaque_dtype("M8[s]")))
    bits = h5py.h5t.STD_B8LE
    space = h5py.h5s.create_simple(SHAPE)
    h5py.h5d.create(file["types"].id, b"bits", bits, space).write(h5py.h5s.ALL, h5py.h5s.ALL, numbers("u1"), bits)
    for name, size, precision in (("bits12", 2, 12), ("bits24", 4, 24)):
        kind = h5py.h5t.STD_U16LE.copy() if size == 2 else h5py.h5t.STD_U32LE.copy()
        kind.set_precision(precision)
        values = numbers("u2") & 0xFFF
        made = h5py.h5d.create(file["types"].id, name.encode(), kind, space)
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, values.astype("u4"), h5py.h5t.NATIVE_UINT32)
    file.create_dataset("types/empty", data=h5py.Empty("f4"))
    file.create_dataset("types/nothing", (0, 3), "f4")
    file["types/scalar"] = 4.5


def hdf5_layouts(file, folder):
    x = numbers("i4")
    make = functools.partial(file.create_dataset, data=x)
    make("layouts/contiguous")
    make("layouts/gzip", chunks=(5, 17), compression="gzip")
    make("layouts/shuffle", chunks=(7, 4), compression="gzip", shuffle=True, fletcher32=True)
    make("layouts/lzf", chunks=(7, 4), compression="lzf")
    make("layouts/scaleoffset_nothing", chunks=(7, 4), scaleoffset=0)  # of all of the type's range
    file.create_dataset("layouts/scaleoffset", data=x % 1000, chunks=(7, 4), scaleoffset=0)
    make("layouts/fixed", chunks=(7, 4))
    make("layouts/one", chunks=SHAPE)
    make("layouts/one_gzip", chunks=SHAPE, compression="gzip")
    make("layouts/growing", chunks=(7, 4), maxshape=(None, 17))
    make("layouts/growing_gzip", chunks=(7, 4), maxshape=(None, 17), compression="gzip")
    make("layouts/growing_both", chunks=(7, 4), maxshape=(None, None), compression="gzip")
    many = file.create_dataset("layouts/many", (600, 10), "i2", chunks=(1, 10), maxshape=(None, 10))
    many[...] = numbers("i2", (600, 10))
    part = file.create_dataset("layouts/partly", SHAPE, "i4", chunks=(7, 4), fillvalue=-7)
    part[8:12] = x[8:12]
    file.create_dataset("layouts/never", SHAPE, "f4", fillvalue=2.5)
    for name, time in (("early", h5py.h5d.ALLOC_TIME_EARLY), ("compact", None)):
        creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        creation.set_layout(h5py.h5d.CHUNKED if time else h5py.h5d.COMPACT)
        if time:
            creation.set_chunk((7, 4))
            creation.set_alloc_time(time)
        made = h5py.h5d.create(file["layouts"].id, name.encode(), h5py.h5t.STD_I32LE, h5py.h5s.create_simple(SHAPE),
                               creation)
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, x)
    for i in range(40):
        file["layouts/contiguous"].attrs[f"attribute {i}"] = "x" * i
    with h5py.File(folder / f"{file.attrs['name']}-source.h5", "w") as other:
        other["x"] = x
    if file.libver[1] != "v108":  # which has none
        layout = h5py.VirtualLayout((46, 17), "i4")
        layout[:23] = layout[23:] = h5py.VirtualSource(f"{file.attrs['name']}-source.h5", "x", SHAPE)
        file.create_virtual_dataset("layouts/virtual", layout)
    file["layouts/external_link"] = h5py.ExternalLink(f"{file.attrs['name']}-source.h5", "/x")
    file["layouts/soft_link"] = h5py.SoftLink("/layouts/gzip")
    raw = [(f"{file.attrs['name']}.raw", 0, h5py.h5f.UNLIMITED)]
    file.create_dataset("layouts/raw", data=x, external=raw, efile_prefix="${ORIGIN}")


def write_h5py(folder):
    for libver in LIBVERS:
        for track in (False, True):
            bounds = libver if libver == "earliest" else (libver, libver)
            name = f"{libver}{'-tracked' if track else ''}"
            with h5py.File(folder / f"h5py-{name}.h5", "w", libver=bounds, track_order=track) as file:
                file.attrs["name"] = f"h5py-{name}"
                hdf5_types(file)
                hdf5_layouts(file, folder)
    with h5py.File(folder / "h5py-swmr.h5", "w", libver="latest") as file:
        x = file.create_dataset("x", (0, 17), "i4", chunks=(7, 17), maxshape=(None, 17))
        file.swmr_mode = True
        x.resize(SHAPE)
        x[...] = numbers("i4")
        x.flush()
    with h5py.File(folder / "h5py-user-block.h5", "w", userblock_size=1024) as file:
        file["x"] = numbers()
    with h5py.File(folder / "h5py-pages.h5", "w", fs_strategy="page", fs_page_size=4096) as file:
        file.create_dataset("x", data=numbers(), chunks=(5, 5), compression="gzip")


# ---- codecs --------------------------------------------------------------------------------------------------------


def write_hdf5plugin(folder):
    """Every filter, of floats and of what integers it takes."""
    codecs = {
        "bitshuffle": hdf5plugin.Bitshuffle(), "bitshuffle_none": hdf5plugin.Bitshuffle(cname="none"),
        "bitshuffle_zstd": hdf5plugin.Bitshuffle(cname="zstd"), "bzip2": hdf5plugin.BZip2(), "lz4": hdf5plugin.LZ4(),
        "zstd": hdf5plugin.Zstd(), "zfp": hdf5plugin.Zfp(reversible=True), "sperr": hdf5plugin.Sperr(rate=8),
        "sz": hdf5plugin.SZ(absolute=0.01), "sz3": hdf5plugin.SZ3(absolute=0.01),
    }  # fmt: skip
    for codec in ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"):
        for shuffle in range(3):
            codecs[f"blosc_{codec}_{shuffle}"] = hdf5plugin.Blosc(cname=codec, shuffle=shuffle)
    for codec in ("blosclz", "lz4", "lz4hc", "zlib", "zstd"):
        codecs[f"blosc2_{codec}"] = hdf5plugin.Blosc2(cname=codec)
    with h5py.File(folder / "hdf5plugin.h5", "w") as file:
        for name, codec in codecs.items():
            file.create_dataset(name, data=numbers("f4", (64, 48)), chunks=(32, 24), **codec)
            if name not in ("zfp", "sperr", "sz", "sz3"):
                file.create_dataset(f"{name}_i2", data=numbers("i2", (64, 48)), chunks=(32, 24), **codec)
        smooth = np.add.outer(np.arange(64, dtype="u1"), np.arange(64, dtype="u1"))  # noise they would leave as it is
        for name in ("FciDecomp", "Htj2k"):
            file.create_dataset(name.lower(), data=smooth, chunks=(64, 64), **getattr(hdf5plugin, name)())


# ---- netCDF --------------------------------------------------------------------------------------------------------


def netcdf_variables(group):
    for name, size in (("time", None), ("lat", SHAPE[0]), ("lon", SHAPE[1])):
        group.createDimension(name, size)
    group.createDimension("nothing", 4)
    for name, size in (("lat", SHAPE[0]), ("lon", SHAPE[1])):
        group.createVariable(name, "f4", (name,))[:] = np.linspace(0, 90, size)
    group.createVariable("time", "f8", ("time",))[:] = np.arange(5.0)
    plane, stack = ("lat", "lon"), ("time", "lat", "lon")
    group.createVariable("plain", "f8", plane)[:] = numbers("f8")
    group.createVariable("z", "f4", stack, zlib=True, complevel=4)[:] = numbers("f4", (5, *SHAPE))
    group.createVariable("checked", "i4", stack, zlib=True, shuffle=True, fletcher32=True)[:] = numbers("i4", (5, *SHAPE))
    group.createVariable("rounded", "f4", plane, zlib=True, least_significant_digit=2)[:] = numbers()
    packed = group.createVariable("packed", "i2", plane, fill_value=-32767)
    packed.scale_factor, packed.add_offset, packed.units = 0.01, 273.15, "K"
    packed[:] = np.ma.masked_where(numbers() > 50, 273.15 + numbers() / 10)
    missing = group.createVariable("missing", "f4", plane, fill_value=np.float32(-999))
    missing[:] = np.ma.masked_where(numbers() > 50, numbers())
    records = group.createVariable("records", "f4", stack)  # some are never written
    records[3] = numbers()
    group.createVariable("alone", "f4", ())[...] = 4.0
    group.createVariable("characters", "S1", ("lat", "lon"))[:] = b"x"


def write_netcdf4(folder):
    for form in ("NETCDF4", "NETCDF4_CLASSIC", "NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA"):
        with netCDF4.Dataset(folder / f"netcdf-{form.lower()}.nc", "w", format=form) as file:
            netcdf_variables(file)
            if form == "NETCDF4":
                netcdf_variables(file.createGroup("inner/most"))
                file.createVariable("texts", str, ("lat",))[0] = "a"
                for codec in ("zstd", "bzip2", "szip", "blosc_lz", "blosc_lz4", "blosc_zstd"):
                    try:
                        file.createVariable(codec, "f4", ("lat", "lon"), compression=codec)[:] = numbers()
                    except RuntimeError:  # a wheel without this codec
                        continue
                for kind in INTEGERS:
                    file.createVariable(f"of_{kind}", kind, ("lat", "lon"))[:] = numbers(kind)
    with h5netcdf.File(folder / "h5netcdf.nc", "w") as file:
        file.dimensions = {"y": SHAPE[0], "x": SHAPE[1], "t": None}
        file.create_variable("v", ("y", "x"), "f4")[...] = numbers()
        file.create_variable("g/h/w", ("y", "x"), "i2", compression="gzip", chunks=(5, 5))[...] = numbers("i2")
        file.create_variable("x", ("x",), "f8")[...] = np.arange(17.0)
        packed = file.create_variable("packed", ("y", "x"), "i2", fillvalue=-1)
        packed[...] = numbers("i2")
        packed.attrs["scale_factor"] = np.float32(0.5)


# ---- tables --------------------------------------------------------------------------------------------------------


def write_pytables(folder):
    x = numbers()
    with tables.open_file(folder / "pytables.h5", "w") as file:
        for kind in INTEGERS + FLOATS:
            file.create_array("/", f"array_{kind}", numbers(kind))
        file.create_array("/", "array_bool", x > 0)
        file.create_array("/", "array_complex", x.astype("c8"))
        file.create_array("/", "list", [1, 2, 3])
        file.create_array("/", "text", [b"ab", b"c"])
        for level in (0, 5):
            for codec in ("zlib", "lzo", "bzip2", "blosc", "blosc:lz4", "blosc:zlib", "blosc:zstd", "blosc2", "blosc2:lz4",
                          "blosc2:zstd"):  # fmt: skip
                if tables.which_lib_version(codec.split(":")[0]) is None or (level == 0 and codec != "zlib"):
                    continue
                filters = tables.Filters(complevel=level, complib=codec, shuffle=level > 0)
                name = f"{codec.replace(':', '_')}_{level}"
                file.create_carray("/carray", name, obj=x, chunkshape=(8, 8), filters=filters, createparents=True)
                growing = file.create_earray("/earray", name, atom=tables.Float32Atom(), shape=(0, 17), filters=filters,
                                             createparents=True)  # fmt: skip
                growing.append(x)
        filters = tables.Filters(complevel=5, complib="zlib", bitshuffle=False, fletcher32=True)
        file.create_carray("/carray", "checked", obj=x, chunkshape=(8, 8), filters=filters)
        file.create_carray("/carray", "bool", obj=x > 0, chunkshape=(8, 8))
        table = file.create_table("/", "table", {"a": tables.Int32Col(), "b": tables.Float64Col(shape=(2,))})
        table.append([(i, (i, i)) for i in range(10)])
        table.cols.a.create_index()
        rows = file.create_vlarray("/", "vlarray", tables.Int32Atom())
        rows.append([1, 2])


def write_pandas(folder):
    frame = pd.DataFrame({"a": np.arange(9.0), "b": np.arange(9), "c": list("abcdefghi"), "d": np.arange(9) > 4})
    times = pd.date_range("2026-01-01", periods=9)
    with pd.HDFStore(folder / "pandas.h5", "w") as store:
        store.put("fixed", frame[["a", "b", "d"]])
        store.put("numbers", pd.DataFrame(numbers("f8"), columns=[f"c{i}" for i in range(17)]))
        store.put("series", pd.Series(np.arange(9.0), times))
        store.put("table", frame, format="table", data_columns=["b"])
        store.append("appended", frame[["a", "b"]].set_index(times))
    frame.to_hdf(folder / "pandas-blosc.h5", key="x", format="table", complib="blosc", complevel=5)
    frame[["a"]].to_hdf(folder / "pandas-zlib.h5", key="x", complib="zlib", complevel=5)


def write_anndata(folder):
    x = np.abs(numbers())
    obs = pd.DataFrame({"kind": pd.Categorical(["a", "b", "c"] * 7 + ["a", "b"]), "n": np.arange(23)},
                       index=[f"cell{i}" for i in range(23)])  # fmt: skip
    dense = anndata.AnnData(x, obs=obs, layers={"counts": numbers("i4")}, obsm={"pca": numbers("f8", (23, 5))})
    dense.uns["n"], dense.uns["list"] = 4, np.arange(5.0)
    dense.write_h5ad(folder / "anndata-dense.h5ad")
    dense.write_h5ad(folder / "anndata-gzip.h5ad", compression="gzip")
    for form in ("csr", "csc"):
        matrix = scipy.sparse.random(23, 17, 0.2, form, dtype="f4", random_state=1)
        anndata.AnnData(getattr(scipy.sparse, f"{form}_matrix")(matrix)).write_h5ad(folder / f"anndata-{form}.h5ad")


# ---- MATLAB --------------------------------------------------------------------------------------------------------


def write_matlab(folder):
    """What MATLAB's `save -v7.3` writes, and SciPy's older formats."""
    with h5py.File(folder / "matlab.mat", "w", userblock_size=512, libver="earliest") as file:

        def put(name, values, kind, **options):
            made = file.create_dataset(name, data=values, **options)
            made.attrs["MATLAB_class"] = np.bytes_(kind)
            return made

        put("m", numbers("f8"), "double", chunks=(8, 8), compression="gzip")
        put("s", numbers("f4"), "single")
        put("i", numbers("i2"), "int16")
        put("logical", (numbers() > 0).astype("u1"), "logical").attrs["MATLAB_int_decode"] = np.int32(1)
        put("text", np.array([[ord(c)] for c in "text"], "u2"), "char").attrs["MATLAB_int_decode"] = np.int32(2)
        put("empty", np.array([0, 0], "u8"), "double").attrs["MATLAB_empty"] = np.uint8(1)
        put("z", np.zeros((3, 3), [("real", "f8"), ("imag", "f8")]), "double")
        put("#refs#/a", numbers("f8"), "double")
        put("cell", np.array([[file["#refs#/a"].ref]], h5py.ref_dtype), "cell")
        sparse = file.create_group("sparse")
        sparse.attrs["MATLAB_class"], sparse.attrs["MATLAB_sparse"] = np.bytes_("double"), np.uint64(17)
        for name, values in (("data", np.ones(4)), ("ir", np.arange(4, dtype="u8")), ("jc", np.arange(18, dtype="u8"))):
            sparse[name] = values
    with open(folder / "matlab.mat", "r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM")
    scipy.io.savemat(folder / "matlab-v5.mat", {"m": numbers("f8")})
    scipy.io.savemat(folder / "matlab-v4.mat", {"m": numbers("f8")}, format="4")
    np.save(folder / "numpy.npy", numbers())


WRITERS = {
    name.removeprefix("write_"): function for name, function in list(globals().items()) if name.startswith("write_")
}

if __name__ == "__main__":  # writers.py WRITER FOLDER
    WRITERS[sys.argv[1]](Path(sys.argv[2]))
