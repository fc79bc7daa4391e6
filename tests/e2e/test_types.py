"""What files hold besides the plain types: bools, bit fields, enumerations, integers of any width and offset, custom
floats, arrays, fields of tables and parts of complex numbers, in every layout, selected and cast.

    TILERUN_CASES=500 TILERUN_SEED=1     other cases, more of them; one by TILERUN_CASE=57
"""

import json
import os
import re

import h5py
import numpy as np
import pytest
from h5py import h5d, h5p, h5s, h5t

import harness
import real_layouts
import referee
from test_views import as_index, cast, draw_select, memory_of, same_values

SEED = int(os.environ.get("TILERUN_SEED", 0))
CASES = int(os.environ.get("TILERUN_CASES", 100))
CHOSEN = os.environ.get("TILERUN_CASE")
PER_JOB = 8
LAYOUTS = ["contiguous", "chunked", "gzip", "lzf", "fletcher32", "compact", "virtual"]


def cases(part=1):
    if CHOSEN is not None:
        return [int(CHOSEN)]
    return [SEED * 100000 + job for job in range(max(1, CASES // PER_JOB // part))]


# ---- numbers -------------------------------------------------------------------------------------------------------

# Each kind draws its type in the file and in memory, numbers as NumPy's type that they are read as, and whether the
# job must say as which.


def whole(size, signed):
    return np.dtype(f"{'i' if signed else 'u'}{1 if size == 1 else 2 if size == 2 else 4 if size < 5 else 8}")


def draw_range(rng, shape, precision, signed):
    low, high = (-(2 ** (precision - 1)), 2 ** (precision - 1)) if signed else (0, 2**precision)
    return rng.integers(low, high - 1, shape, "int64" if signed else "uint64", endpoint=True)


def order(rng, kind):
    kind.set_order(int(rng.choice([h5t.ORDER_LE, h5t.ORDER_BE])))
    return kind


def narrow(rng, kind, size, precision):
    """A type of so many bytes, and as many of their bits, somewhere among them."""
    if size <= 8:
        kind.set_precision(min(precision, 8 * kind.get_size()))
    kind.set_size(size)
    kind.set_precision(precision)
    kind.set_offset(int(rng.integers(0, 8 * size - precision + 1)))
    return order(rng, kind)


def draw_plain(rng, shape):
    dtype = np.dtype(str(rng.choice([name for name in referee.DTYPES if name != "bfloat16"])))
    x = rng.integers(0, 100, shape).astype(dtype)
    return h5t.py_create(dtype.newbyteorder(rng.choice(["<", ">"]))), h5t.py_create(dtype), x, False


def draw_integer(rng, shape):
    size, signed = int(rng.integers(1, 9)), bool(rng.random() < 0.5)
    precision = int(rng.integers(1 + signed, 8 * size + 1))
    kind = narrow(rng, (h5t.STD_I64LE if signed else h5t.STD_U64LE).copy(), size, precision)
    x = draw_range(rng, shape, precision, signed).astype(whole(size, signed))
    return kind, h5t.py_create(x.dtype), x, False


def draw_bits(rng, shape):
    size = int(rng.choice([1, 2, 4, 8]))
    kind = getattr(h5t, f"STD_B{8 * size}{rng.choice(['LE', 'BE'])}")
    x = draw_range(rng, shape, 8 * size, False).astype(f"u{size}")
    return kind, getattr(h5t, f"STD_B{8 * size}LE"), x, False


def draw_bool(rng, shape):
    base = rng.choice([h5t.STD_I8LE, h5t.STD_U8LE, h5t.STD_I32BE])
    kind, memory = h5t.enum_create(base), h5t.enum_create(h5t.NATIVE_UINT8)
    for each in kind, memory:
        for value, name in enumerate([b"FALSE", b"TRUE"] if rng.random() < 0.7 else [b"false", b"true"]):
            each.enum_insert(name, value)
    if h5t.STD_I32BE != base or kind.enum_nameof(0) != memory.enum_nameof(0):
        memory = kind
        x = rng.integers(0, 2, shape).astype("uint8" if base != h5t.STD_I32BE else ">i4")
        return kind, memory, x, False
    return kind, memory, rng.integers(0, 2, shape).astype("uint8"), False


def draw_codes(rng, shape):
    """Names for some numbers; elements have others, too."""
    dtype = np.dtype(str(rng.choice(["int8", "uint8", "int16", "int32", "uint64"]))).newbyteorder(rng.choice(["<", ">"]))
    kind = h5t.py_create(h5py.enum_dtype({"RED": 0, "GREEN": 1, "BLUE": 77}, dtype), logical=True)
    return kind, kind, rng.integers(0, 100, shape).astype(dtype), True


def draw_float(rng, shape):
    """Small whole numbers times powers of two, which it has exactly."""
    size = int(rng.integers(2, 9))
    exponent = int(rng.integers(3, min(11, 8 * size - 4) + 1))
    fraction = int(rng.integers(2, min(52, 8 * size - exponent - 1) + 1))
    kind = h5t.IEEE_F64LE.copy()
    kind.set_fields(exponent + fraction, fraction, exponent, 0, fraction)
    kind.set_precision(exponent + fraction + 1)
    if h5py.version.hdf5_version_tuple >= (1, 14, 4):  # it makes no type of which more than half is unused
        size = min(size, (2 * (exponent + fraction) + 1) // 8)
    kind.set_size(max(size, (exponent + fraction + 8) // 8))
    kind.set_ebias(2 ** (exponent - 1) - 1)
    reach = 2 ** (exponent - 1) - 3
    x = rng.integers(-(2 ** min(fraction, 10)) + 1, 2 ** min(fraction, 10), shape).astype("float64")
    x = np.sign(x) * np.ldexp(np.frexp(np.abs(x))[0], rng.integers(-min(reach, 90), min(reach, 90) + 1, shape))
    single = exponent <= 8 and fraction <= 23
    return order(rng, kind), h5t.NATIVE_DOUBLE, x, "float32" if single else "float64"


NUMBERS = [draw_plain, draw_integer, draw_integer, draw_bits, draw_bool, draw_codes, draw_float]


# ---- tables --------------------------------------------------------------------------------------------------------


def compound(members):
    """Of (name, type): packed, one behind the other."""
    kind = h5t.create(h5t.COMPOUND, sum(of.get_size() for _, of in members))
    at = 0
    for name, of in members:
        kind.insert(name.encode(), at, of)
        at += of.get_size()
    return kind


def draw_elements(rng, shape):
    """A type of elements, its type in memory, what is written, the field, the numbers, the type that they are read as
    and whether it must be named."""
    inner = tuple(int(i) for i in rng.integers(1, 5, int(rng.integers(1, 3)))) if rng.random() < 0.3 else ()
    if len(shape) + len(inner) > 8:
        inner = ()
    kind, memory, x, more = NUMBERS[int(rng.integers(len(NUMBERS)))](rng, shape + inner)
    read_as = np.dtype(more) if isinstance(more, str) else x.dtype.newbyteorder("=")
    if kind.get_class() == h5t.ENUM and more is False:
        read_as = np.dtype("uint8")
    seen, written = x.astype(read_as), x
    if inner:
        kind, memory = (h5t.array_create(each, inner) for each in (kind, memory))
        written = x.reshape(shape + (-1,)).view([("", x.dtype, inner)]).reshape(shape)
    field = None
    for depth in range(int(rng.choice([0, 1, 1, 2]))):
        name = str(rng.choice(["x", "value", "a b", "c/d", "größe"]))
        before, behind = ("p%d" % depth, h5t.STD_I32LE), ("q", h5t.C_S1)
        kind = compound([before, (name, kind), behind])
        memory = compound([(name, memory)])
        field = name if field is None else f"{name}/{field}"
    return kind, memory, np.ascontiguousarray(written), field, seen, bool(more is True)


def create(rng, file, name, shape, kind, memory, data):
    """Writes in a layout; of chunks at times the first part alone: the rest is the fill value. What was not written."""
    layout = str(rng.choice(LAYOUTS))
    creation, space = h5p.create(h5p.DATASET_CREATE), h5s.create_simple(shape)
    if layout == "virtual" and shape[0] > 1 and data.size:
        half = shape[0] // 2
        for number, part in enumerate((slice(0, half), slice(half, shape[0]))):
            source = h5s.create_simple(data[part].shape)
            of = h5d.create(file.id, f"{name}-{number}".encode(), kind, source)
            of.write(h5s.ALL, h5s.ALL, np.ascontiguousarray(data[part]), memory)
            space.select_hyperslab((part.start,) + (0,) * (len(shape) - 1), data[part].shape)
            creation.set_virtual(space, b".", f"{name}-{number}".encode(), source)
        h5d.create(file.id, name.encode(), kind, space, creation)
        return 0
    if layout in ("chunked", "gzip", "lzf", "fletcher32") and data.size:
        chunk = tuple(int(rng.integers(max(1, size // 4), size + 1)) for size in shape)
        creation.set_chunk(chunk)
        if layout == "gzip":
            creation.set_shuffle()
            creation.set_deflate(3)
        if layout == "lzf":
            creation.set_filter(h5py.h5z.FILTER_LZF, h5py.h5z.FLAG_OPTIONAL)
        if layout == "fletcher32":
            creation.set_fletcher32()
    elif layout == "compact" and data.size * kind.get_size() < 30000:
        creation.set_layout(h5d.COMPACT)
    dataset = h5d.create(file.id, name.encode(), kind, space, creation)
    rows = int(rng.integers(0, shape[0])) if layout in ("chunked", "gzip") and rng.random() < 0.3 else shape[0]
    if rows and data.size:
        space.select_hyperslab((0,) * len(shape), (rows,) + shape[1:])
        part = np.ascontiguousarray(data[:rows])
        dataset.write(h5s.create_simple(part.shape), space, part, memory)
    return rows


def draw_input(rng, file, name):
    """An input, and the array that it must be."""
    shape = tuple(int(i) for i in rng.integers(1, 12, int(rng.integers(1, 5))))
    kind, memory, data, field, seen, must = draw_elements(rng, shape)
    rows = create(rng, file, name, shape, kind, memory, data)
    if not file[name].is_virtual:
        seen[rows:] = 0
    keys = {"file": "data.h5", "dataset": name}
    if field is not None:
        keys["field"] = field
    if rng.random() < 0.5 and (select := draw_select(rng, seen.shape, 3)):
        keys["select"] = select
        seen = seen[as_index(select)]
    if must or rng.random() < 0.2:
        to = str(rng.choice(["float32", "int64", "int16", "float64"]))
        keys["dtype"] = to
        seen = (cast(np.atleast_1d(seen), to)[0] if to != str(seen.dtype) else seen).reshape(seen.shape)
    return keys, seen


def identity(name, array):
    """An operation that gives the array, bit for bit."""
    if array.ndim > 1:
        return {"id": f"y{name}", "op": "transpose", "inputs": [name], "repeat": 1, "warmup": 0}
    return {"id": f"y{name}", "op": "scale", "inputs": [name], "repeat": 1, "warmup": 0}


@pytest.mark.parametrize("seed", cases())
def test_drawn(folder, seed):
    rng = np.random.default_rng(seed)
    inputs, expected = {}, {}
    with h5py.File(folder / "data.h5", "w") as file:
        for number in range(PER_JOB):
            name = f"x{number}"
            inputs[name], expected[name] = draw_input(rng, file, name)
    operations = [identity(name, array) for name, array in expected.items()]
    results = harness.run_job(folder, inputs=inputs, operations=operations, memory=str(memory_of(rng)))
    for name, array in expected.items():
        right = array.swapaxes(-1, -2) if array.ndim > 1 else array
        found = results.output(f"y{name}")
        assert found.dtype == right.dtype and found.shape == right.shape, (seed, name, inputs[name])
        same_values(found, right, str(right.dtype), (seed, name, inputs[name]))


@pytest.mark.parametrize("seed", cases(4))
def test_concatenated(folder, seed):
    """Files of one type, each in a layout of its own."""
    rng = np.random.default_rng(seed)
    width, count = int(rng.integers(1, 9)), int(rng.integers(2, 5))
    state, parts = rng.bit_generator.state, []
    for number in range(count):
        kinds = np.random.default_rng(seed)  # the same draws each time
        kinds.bit_generator.state = state
        kind, memory, data, field, seen, must = draw_elements(kinds, (5, width))
        with h5py.File(folder / f"part{number}.h5", "w") as file:
            if create(rng, file, "x", (5, width), kind, memory, data) != 5 and not file["x"].is_virtual:
                return  # a part of it is not written: test_drawn has that
        parts.append(seen)
    keys = {"file": "part*.h5", "dataset": "x", "concatenate": 0}
    keys |= {"field": field} if field is not None else {}
    keys |= {"dtype": "float64"} if must else {}
    right = np.concatenate(parts).astype("float64" if must else parts[0].dtype)
    results = harness.run_job(folder, inputs={"x": keys}, operations=[identity("x", right)])
    same_values(results.output("yx"), right.swapaxes(-1, -2), str(right.dtype), (seed, keys))


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_signs_of_narrow_big_endian_integers(folder, size):
    """HDF5 1.10's own conversion to as many little-endian bytes loses them."""
    x = np.array([[-4, -1, 0], [3, 2, -2]])
    kind = h5t.STD_I64BE.copy()
    kind.set_precision(5)
    kind.set_size(size)
    with h5py.File(folder / "data.h5", "w") as file:
        for name, of in ("x", kind), ("array", h5t.array_create(kind, (3,))):
            shape = x.shape if name == "x" else (2,)
            if h5py.version.hdf5_version_tuple >= (1, 14, 4) and size > 1:
                pytest.skip("it makes no type of which more than half is unused")
            memory = h5t.NATIVE_INT64 if name == "x" else h5t.array_create(h5t.NATIVE_INT64, (3,))
            made = h5d.create(file.id, name.encode(), of, h5s.create_simple(shape))
            made.write(h5s.ALL, h5s.ALL, x, memory)
    inputs = {name: {"file": "data.h5", "dataset": name} for name in ("x", "array")}
    results = harness.run_job(folder, inputs=inputs, operations=[identity(name, x) for name in inputs])
    assert (results.output("yx") == x.T).all() and (results.output("yarray") == x.T).all()


def test_parts_of_complex_numbers(folder, rng):
    x = rng.normal(size=(40, 30)) + 1j * rng.normal(size=(40, 30))
    with h5py.File(folder / "data.h5", "w") as file:
        file.create_dataset("z", data=x, chunks=(16, 16), compression="gzip")
    parts = {name: {"file": "data.h5", "dataset": "z", "field": name} for name in "ri"}
    results = harness.run_job(folder, inputs=parts, operations=[identity(name, x) for name in "ri"])
    assert (results.output("yr") == x.real.T).all() and (results.output("yi") == x.imag.T).all()
    with h5py.File(results.path) as file:
        assert harness.text(file["inputs/i"].attrs["field"]) == "i"


@pytest.mark.parametrize("filters", [{}, {"shuffle": True, "fletcher32": True}])
@pytest.mark.parametrize("compression", ["gzip", "lzf"])
def test_fields_beside_texts_of_varying_length(folder, compression, filters):
    """Whose size in memory is not that in the file."""
    text, sequence = h5py.string_dtype(), h5py.vlen_dtype("f4")
    kind = np.dtype([("a", "i4"), ("s", text), ("v", sequence), ("n", [("s", text), ("y", "f4")], (3,)), ("b", "f8")])
    table = np.zeros(50, kind)
    table["a"], table["b"], table["s"] = np.arange(50), np.arange(50) / 2, [str(i) for i in range(50)]
    table["n"]["s"] = "t"
    for i in range(50):
        table["v"][i] = np.zeros(i % 3, "f4")
    for size in (8, 4):
        creation = h5py.h5p.create(h5py.h5p.FILE_CREATE)
        creation.set_sizes(size, 8)
        with h5py.File(h5py.h5f.create(b"%s/data.h5" % os.fsencode(folder), fcpl=creation)) as file:
            file.create_dataset("x", data=table, chunks=(7,), compression=compression, **filters)
        keys = {"file": "data.h5", "dataset": "x"}
        results = harness.run_job(
            folder,
            inputs={name: keys | {"field": name} for name in "ab"},
            operations=[identity(name, table["a"]) for name in "ab"],
            arguments=["--overwrite"],
        )
        assert (results.output("ya") == table["a"]).all() and (results.output("yb") == table["b"]).all()


@pytest.mark.parametrize("text", [{}, {"s": h5py.string_dtype()}])
def test_fields_of_large_elements_in_chunks_never_stored(folder, text):
    kind = np.dtype([("a", "i4"), *text.items(), ("more", "f8", (500,))])
    fill, rows = np.zeros((), kind), np.zeros(4, kind)
    fill["a"], rows["a"] = 7, range(4)
    if text:
        fill["s"], rows["s"] = "text", "other text"
    with h5py.File(folder / "data.h5", "w") as file:
        table = file.create_dataset("x", (40,), kind, chunks=(4,), compression="gzip", fillvalue=fill)
        table[8:12] = rows
        expected = table["a"]
    keys = {"file": "data.h5", "dataset": "x", "field": "a"}
    results = harness.run_job(folder, inputs={"a": keys}, operations=[identity("a", expected)])
    assert (results.output("ya") == expected).all()


# ---- refused -------------------------------------------------------------------------------------------------------


DIMENSION = {"CLASS": np.bytes_("DIMENSION_SCALE"), "NAME": np.bytes_(f"{real_layouts.PLACEHOLDER}         3")}
STAND_INS = {  # data sets that hold no elements of the array that they stand for
    "dimension": DIMENSION,
    "hidden": DIMENSION,
    "time": {"MATLAB_class": np.bytes_("datetime"), "MATLAB_object_decode": np.int32(3)},
    "frame": {"value_type": np.bytes_("float64"), "shape": np.bytes_("(I0\ntp0\n.")},
}


def write_refused(file):
    """Data sets, by name what a refusal must say of them."""
    table = np.dtype([("mass", "f4"), ("label", "S4"), ("at", [("x", "f8"), ("y", "i2")])])
    file["table"] = np.zeros(5, table)
    file["texts"] = np.zeros(5, [("label", "S4")])
    file["complex"] = np.zeros((2, 3), "complex64")
    file["codes"] = np.zeros((2, 3), h5py.enum_dtype({"RED": 0, "BLUE": 3}, "i2"))
    file["string"] = np.array([b"a", b"b"])
    file.create_dataset("text", data=["a", "b"], dtype=h5py.string_dtype())
    file.create_dataset("sequence", (3,), dtype=h5py.vlen_dtype("i4"))
    file.create_dataset("reference", (3,), dtype=h5py.ref_dtype)
    file["opaque"] = np.zeros(3, "V3")
    file["plain"] = np.zeros((2, 3))
    for name, marks in STAND_INS.items():
        file.create_dataset(name, data=np.zeros(3)).attrs.update(marks)
    file["_nc4_non_coord_hidden"] = np.zeros(3)
    file["octave/value"] = [0, 3]
    file.create_group("mass").attrs.update({"value": 9.1, "shape": [100]})
    kind = h5t.IEEE_F64LE.copy()
    kind.set_norm(h5t.NORM_MSBSET)
    h5d.create(file.id, b"explicit bit", kind, h5s.create_simple((3,)))
    file["octave"].attrs["OCTAVE_EMPTY_MATRIX"] = np.uint8(1)
    return {
        ("dimension", None): ["is a netCDF dimension without a variable: it has a length, no elements"],
        ("hidden", None): ["is a netCDF dimension; its variable 'hidden' is in '_nc4_non_coord_hidden'"],
        ("time", None): ["is a MATLAB object"],
        ("frame", None): ["is an empty array of pandas"],
        ("octave/value", None): ["is an empty Octave array"],
        ("octave", None): ["is a group, not a data set; `tilerun inspect` lists what it holds"],
        ("mass", None): ["is a constant record of openPMD", "attribute 'value'"],
        ("explicit bit", None): ["of a type that this HDF5 library does not know"],
        ("table", None): ["a table", "`field: NAME`", "mass, at/x, at/y"],
        ("texts", None): ["a table without numeric fields"],
        ("complex", None): ["complex numbers", "`field: r`", "`field: i`"],
        ("codes", None): ["an enumeration", "`dtype: int16`"],
        ("string", None): ["strings;"],
        ("text", None): ["strings;"],
        ("sequence", None): ["varying length;"],
        ("reference", None): ["references;"],
        ("opaque", None): ["opaque bytes;"],
        ("plain", "x"): ["is not a table"],
        ("table", "label"): ["no numeric field 'label'", "mass, at/x, at/y"],
        ("table", "maas"): ["did you mean 'mass'"],
        ("table", "at"): ["no numeric field 'at'", "at/x"],
        ("table", "at/z"): ["no numeric field 'at/z'"],
    }


def test_refusals(folder):
    with h5py.File(folder / "data.h5", "w") as file:
        words = write_refused(file)
    for (name, field), parts in words.items():
        keys = {"file": "data.h5", "dataset": name} | ({"field": field} if field else {})
        harness.write_job(folder / "job.yaml", inputs={"x": keys}, operations=[identity("x", np.zeros((2, 3)))])
        done = harness.tilerun("check", folder / "job.yaml")
        first = done.stderr.splitlines()[0]
        assert done.returncode == harness.USAGE and all(part in first for part in parts), (name, field, done.stderr)
        assert "damaged" not in done.stderr
        line, column = map(int, re.search(r":(\d+):(\d+): ", first).groups())
        place = (folder / "job.yaml").read_text().splitlines()[line - 1][column - 1 :].rstrip(",")
        assert place == json.dumps(field or name), first
    shown = harness.tilerun("inspect", folder / "data.h5").stdout
    assert "table: mass, at/x, at/y" in shown and "complex" in shown and "enumeration of int16" in shown, shown


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_squares_have_the_bits_of_a_product(tmp_path, rng, dtype):
    """As in NumPy, whose `x ** 2` is x * x and `x ** 0.5` sqrt(x): pow() would round some elements otherwise."""
    x = (rng.standard_normal((100, 999)) * 1000).astype(dtype)
    harness.write_arrays(tmp_path / "data.h5", x=x)
    texts = ["x ** 2", "abs(x) ** 0.5", "x ** 2.0"]
    operations = [{"id": f"o{i}", "op": "map", "inputs": ["x"], "expression": text} for i, text in enumerate(texts)]
    results = harness.run_job(tmp_path, inputs={"x": {"file": "data.h5", "dataset": "/x"}}, operations=operations)
    real = x if dtype != "int32" else x.astype("float64")
    for number, right in enumerate((x * x, np.sqrt(abs(real)), real * real)):
        np.testing.assert_array_equal(results.output(f"o{number}"), right, texts[number])
