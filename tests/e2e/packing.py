"""The referee of packed and missing values: what NumPy makes of stored numbers and the attributes of the CF conventions,
with nothing borrowed from the program."""

import numpy as np

PACKING = ["scale_factor", "add_offset", "_FillValue", "missing_value", "valid_min", "valid_max", "valid_range",
           "_Unsigned"]  # fmt: skip
DEFAULTS = {"i2": -32767, "u2": 65535, "i4": -2147483647, "u4": 4294967295, "i8": -9223372036854775806,
            "u8": 18446744073709551614, "f4": 9.9692099683868690e36, "f8": 9.9692099683868690e36}  # fmt: skip


def within(number, dtype):
    limits = np.iinfo(dtype)
    return float(number).is_integer() and limits.min <= int(number) <= limits.max


def in_type(number, stored, kind):
    """A number of an attribute among elements of type `kind`, whose bits are stored as `stored`; None: in neither."""
    number = np.asarray(number).item()
    if kind.kind == "f":
        return np.float64(number)
    if not np.isfinite(number):
        return None
    if within(number, stored):
        return np.array(int(number), stored).view(kind)[()]
    return kind.type(int(number)) if within(number, kind) else None


def equals(x, number, stored):
    """Which elements are the number: integers exactly, what has a fraction as float64."""
    same = in_type(number, stored, x.dtype)
    if same is None:
        return np.zeros(x.shape, bool)
    if x.dtype.kind == "f":
        return x.astype("float64") == same
    if np.asarray(number).dtype.kind == "f" and x.dtype == stored:
        return x.astype("float64") == float(number)
    return x == same


def scaling_type(attributes, kind):
    """The type of the decoded values of scaled ones."""
    types = [np.asarray(attributes[name]).dtype for name in ("scale_factor", "add_offset") if name in attributes]
    double = any(t.kind != "f" or t.itemsize > 4 for t in types)
    if kind.kind == "f":
        return np.promote_types(kind, "f8" if double else "f4")
    return np.dtype("f8" if double else "f4")


def is_scaled(attributes):
    return float(attributes.get("scale_factor", 1)) != 1 or float(attributes.get("add_offset", 0)) != 0


def bounds(attributes):
    if "valid_range" in attributes:
        return attributes["valid_range"]
    return attributes.get("valid_min"), attributes.get("valid_max")


def is_unpacked(bound, kind):
    own = np.asarray(bound).dtype
    return own.kind == "f" and (kind.kind != "f" or own.itemsize > kind.itemsize)


def outside(x, values, attributes, stored):
    """What lies out of the valid range, in packed or unpacked units."""
    out = np.zeros(x.shape, bool)
    for bound, least in zip(bounds(attributes), (True, False)):
        if bound is None:
            continue
        if is_scaled(attributes) and is_unpacked(bound, x.dtype):
            kind = np.float32 if "f4" in (np.asarray(bound).dtype.str[1:], values.dtype.str[1:]) else np.float64
            left, right = values.astype(kind), kind(bound)
        else:
            same = in_type(bound, stored, x.dtype)
            same = None if x.dtype.kind == "f" else same
            left, right = (x, same) if same is not None else (x.astype("float64"), np.float64(bound))
        out |= left < right if least else left > right
    return out


def decode(x, attributes, missing=(), netcdf=False):
    """The decoded values, and which elements became missing."""
    x = x.astype(x.dtype.newbyteorder("="))
    stored, sign = x.dtype, attributes.get("_Unsigned")
    if stored.kind == "i" and sign == "true":
        x = x.view(stored.str.replace("i", "u"))
    if stored.kind == "u" and sign == "false":
        x = x.view(stored.str.replace("u", "i"))
    numbers = [*np.ravel(attributes.get("missing_value", [])), *missing]
    if "_FillValue" in attributes:
        numbers.append(attributes["_FillValue"])
    elif netcdf and stored.str[1:] in DEFAULTS and x.dtype == stored:
        numbers.append(np.array(DEFAULTS[stored.str[1:]], stored)[()])
    numbers = [n for n in numbers if not np.isnan(n)]
    values, gone = x, np.zeros(x.shape, bool)
    if is_scaled(attributes):
        result = scaling_type(attributes, x.dtype)
        narrow = result.itemsize < 8 and not (x.dtype.kind in "iu" and x.dtype.itemsize > 2)
        values = x.astype(np.float32 if narrow else np.float64)
        for name, operation in (("scale_factor", np.multiply), ("add_offset", np.add)):
            if name in attributes:
                values = operation(values, values.dtype.type(attributes[name]))
        values = values.astype(result)
    for number in numbers:
        gone |= equals(x, number, stored)
    gone |= outside(x, values, attributes, stored)
    possible = any(could_equal(x.dtype, stored, n) for n in numbers) or limits_something(attributes, x.dtype, stored)
    if values.dtype.kind != "f" and possible:
        values = values.astype(np.float64)
    if values.dtype.kind == "f":
        values = np.where(gone, values.dtype.type(np.nan), values)
    return values, gone


def could_equal(kind, stored, number):
    if kind.kind == "f":
        with np.errstate(over="ignore"):
            return float(kind.type(number)) == float(number)
    return in_type(number, stored, kind) is not None


def limits_something(attributes, kind, stored):
    """Does a bound exclude any number of an integer type?"""
    if kind.kind == "f":
        return False
    for bound, least in zip(bounds(attributes), (True, False)):
        if bound is None or not np.isfinite(bound):
            continue
        same = in_type(bound, stored, kind)
        number = float(bound) if same is None else int(same)
        limits = np.iinfo(kind)
        if number > limits.min if least else number < limits.max:
            return True
    return False


def is_netcdf(dataset):
    """Does it lie in a netCDF-4 file?"""
    scales = [scale for axis in dataset.dims for scale in axis.values()]
    marks = [name in item.attrs for item in [dataset, *scales] for name in ("_Netcdf4Dimid", "_Netcdf4Coordinates")]
    names = [scale.attrs.get("NAME", b"") for scale in scales]
    marks += [(n.encode() if isinstance(n, str) else n).startswith(b"This is a netCDF dimension") for n in names]
    return "_NCProperties" in dataset.file.attrs or any(marks)


def attributes_of(dataset):
    """Those that say what the numbers mean, as NumPy's scalars, and _Unsigned's text."""
    found = {}
    for name in PACKING:
        if name not in dataset.attrs:
            continue
        value = dataset.attrs[name]
        if isinstance(value, bytes):
            value = value.decode()
        value = value if isinstance(value, str) or np.size(value) > 1 else np.ravel(value)[0]
        if (name == "_Unsigned") == isinstance(value, (str, np.str_)):
            found[name] = value
    return found
