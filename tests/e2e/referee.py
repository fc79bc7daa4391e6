"""The independent referee: what NumPy says that every operation must give, and how far a result may be from it.

Arrays are held as stored: NumPy's own types, and bfloat16, which NumPy lacks, as its bits in uint16. `widen` gives
float64 for floats and the array itself for integers. Truths are float64 (or exact integers); bounds come from the
textbook error of a sum, n * eps * sum |x|, with nothing borrowed from the program."""

import h5py
import numpy as np

FLOATS = ["float32", "float64", "float16", "bfloat16"]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
DTYPES = FLOATS + INTEGERS
OPERATORS = ["sum", "prod", "min", "max", "mean", "norm2", "argmin", "argmax"]
EVERY_OPERATOR = [*OPERATORS, "var", "std", "count_nan"]

EPSILON = {"float32": 2.0**-23, "float64": 2.0**-52, "float16": 2.0**-10, "bfloat16": 2.0**-7}
LARGEST = {
    name: 2.0**exponent * (2 - EPSILON[name])
    for name, exponent in {"float32": 127, "float64": 1023, "float16": 15, "bfloat16": 127}.items()
}
LEAST = {"float32": 2.0**-149, "float64": 2.0**-1074, "float16": 2.0**-24, "bfloat16": 2.0**-133}

EXPONENTS = {"float16": (-24, 15), "bfloat16": (-133, 127), "float32": (-149, 127), "float64": (-1074, 1023)}


# ---- types ---------------------------------------------------------------------------------------------------------


def stored_type(dtype):
    return np.dtype("uint16" if dtype == "bfloat16" else dtype)


def bfloat16_bits(values):
    """float64 -> bfloat16, to nearest, ties to even: through a float32 rounded to odd, so that it rounds once."""
    values = np.asarray(values, np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        near = values.astype(np.float32)
        inexact = (near != values) & ~np.isnan(values)
        truncated = np.where(np.abs(near) > np.abs(values), np.nextafter(near, np.float32(0)), near)
    bits = np.asarray(truncated).view(np.uint32) | inexact.astype(np.uint32)
    dropped = np.uint32(16)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> dropped) & np.uint32(1))) >> dropped
    return np.where(np.isnan(values), 0x7FC0, rounded).astype(np.uint16)


def widen(stored, dtype):
    with np.errstate(invalid="ignore"):  # of signalling NaNs
        if dtype == "bfloat16":
            return np.asarray(stored.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
        return stored.astype(np.float64) if dtype in FLOATS else stored


def round_to(values, dtype):
    """float64 -> the nearest values of a type, as stored."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bfloat16_bits(values) if dtype == "bfloat16" else np.asarray(values).astype(dtype)


def random_values(rng, shape, dtype):
    """Floats in [-1, 1), integers over all of their range."""
    if dtype in FLOATS:
        return round_to(rng.uniform(-1, 1, shape), dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def random_bits(rng, shape, dtype):
    """Any bit pattern: NaNs with payloads, infinities, subnormals."""
    kind = stored_type(dtype)
    size = int(np.prod(shape)) * kind.itemsize
    return np.frombuffer(rng.bytes(size), np.uint8).view(kind).reshape(shape)


# ---- files ---------------------------------------------------------------------------------------------------------


def bfloat16_type():
    kind = h5py.h5t.IEEE_F32LE.copy()
    kind.set_fields(15, 7, 8, 0, 7)
    kind.set_size(2)
    kind.set_ebias(127)
    return kind


def write_dataset(file, name, stored, dtype):
    if dtype != "bfloat16":
        return file.create_dataset(name, data=stored)
    space = h5py.h5s.create_simple(stored.shape)
    dataset = h5py.h5d.create(file.id, name.encode(), bfloat16_type(), space)
    if stored.size:
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, np.ascontiguousarray(stored), bfloat16_type())
    return h5py.Dataset(dataset)


def dataset_dtype(dataset):
    """The type of a data set by our names."""
    kind = dataset.id.get_type()
    if isinstance(kind, h5py.h5t.TypeFloatID) and kind.get_size() == 2 and kind.get_fields()[2] == 8:
        return "bfloat16"
    return dataset.dtype.name


def read_dataset(dataset):
    if dataset_dtype(dataset) != "bfloat16":
        return dataset[()]
    stored = np.empty(dataset.shape, np.uint16)
    if stored.size:
        dataset.id.read(h5py.h5s.ALL, h5py.h5s.ALL, stored, bfloat16_type())
    return stored


# ---- operations ----------------------------------------------------------------------------------------------------

BITS = "bits"  # as a bound: the value is as stored, and every bit counts, a NaN's too


def result_type(operator, dtype):
    """NumPy's rules for reductions."""
    if operator in ("argmin", "argmax", "count_nan"):
        return "int64"
    if dtype in FLOATS or operator in ("min", "max"):
        return dtype
    if operator in ("mean", "norm2", "var", "std"):
        return "float64"
    return "uint64" if dtype.startswith("u") else "int64"


def accumulator_epsilon(dtype):
    return EPSILON["float64"] if dtype == "float64" else EPSILON["float32"]


def with_rounding(value, dtype, bound):
    """Adds to a bound what rounding the result to its type may cost."""
    with np.errstate(invalid="ignore"):
        return bound + EPSILON[dtype] * np.abs(value) + LEAST[dtype]


# What a variant of a lower accuracy class may add to an element's error, relative to |A||B|: both inputs rounded to 10
# or 7 bits of fraction; tensor cores may cut off instead, which is twice as far.
CLASS_ERROR = {"full": 0, "tf32": 2 * 2.0**-10, "float16": 2 * 2.0**-11, "bfloat16": 2 * 2.0**-8}


def matmul_magnitude(a, b, dtype, transpose_a=False, transpose_b=False, alpha=1.0):
    """|alpha| |A||B|, by which the error of an element is measured."""
    a, b = np.abs(widen(a, dtype)), np.abs(widen(b, dtype))
    with np.errstate(invalid="ignore"):
        return abs(alpha) * ((a.swapaxes(-1, -2) if transpose_a else a) @ (b.swapaxes(-1, -2) if transpose_b else b))


def matmul(a, b, dtype, transpose_a=False, transpose_b=False, alpha=1.0):
    """Truth and bound of alpha * op(a) @ op(b) for stacks and matrices."""
    magnitude = matmul_magnitude(a, b, dtype, transpose_a, transpose_b, alpha)
    a, b = widen(a, dtype), widen(b, dtype)
    a = a.swapaxes(-1, -2) if transpose_a else a
    b = b.swapaxes(-1, -2) if transpose_b else b
    with np.errstate(invalid="ignore"):
        value = alpha * (a @ b)
    terms = a.shape[-1] + 2
    return value, with_rounding(value, dtype, terms * accumulator_epsilon(dtype) * magnitude)


def product(x, axis):
    """Of float64, whatever its partial products: mantissas and exponents apart, halved until one is left."""
    mantissa, exponent = np.frexp(x.reshape(-1) if axis is None else np.moveaxis(x, axis, -1))
    while mantissa.shape[-1] > 1:
        if mantissa.shape[-1] % 2:
            pad = [(0, 0)] * (mantissa.ndim - 1) + [(0, 1)]
            mantissa, exponent = np.pad(mantissa, pad, constant_values=1.0), np.pad(exponent, pad)
        mantissa, more = np.frexp(mantissa[..., 0::2] * mantissa[..., 1::2])
        exponent = exponent[..., 0::2] + exponent[..., 1::2] + more
    if mantissa.shape[-1] == 0:
        return np.ones(mantissa.shape[:-1])
    return np.ldexp(mantissa[..., 0], np.clip(exponent[..., 0], -5000, 5000))


def norm2(x, axis):
    """Of float64, whatever its squares: by the largest element first, as a power of two."""
    finite = np.where(np.isfinite(x), np.abs(x), 0)
    _, exponent = np.frexp(np.max(finite, axis=axis, keepdims=True, initial=0))
    squares = np.sum(np.ldexp(x, -exponent) ** 2, axis=axis, keepdims=True)
    return np.ldexp(np.sqrt(squares), exponent).reshape(np.sum(finite, axis=axis).shape)


def extreme_bits(x, dtype, operator, axis):
    """min or max to the bit: -0 is the less of zeros, and a NaN is the quiet one without sign and payload."""
    greatest = operator == "max"
    values = widen(x, dtype)
    value = np.asarray(getattr(np, operator)(values, axis=axis))
    sought = np.any((values == 0) & (np.signbit(values) != greatest), axis=axis)
    value = np.where((value == 0) & sought, 0.0 if greatest else -0.0, value)
    return round_to(np.where(np.isnan(value), np.nan, value), dtype)


def spread(x, dtype, operator, axis):
    """A variance or its root, by two passes, and how far a right one may be off."""
    wide = x.astype(np.longdouble)
    length = x.size if axis is None else x.shape[axis]
    with np.errstate(invalid="ignore", over="ignore"):
        apart = wide - wide.mean(axis, keepdims=True)
        value = ((apart * apart).sum(axis) - apart.sum(axis) ** 2 / length) / length
        value = (np.sqrt(value) if operator == "std" else value).astype(np.float64)
    return value, with_rounding(value, result_type(operator, dtype), (length + 32) * 2.0**-52 * np.abs(value))


def reduce(x, dtype, operator, axis):
    """Truth and bound (None: exact) of a reduction; `axis` is a number or "all"."""
    axis = None if axis == "all" else axis
    if operator in ("min", "max") and dtype in FLOATS:
        return extreme_bits(x, dtype, operator, axis), BITS
    x = widen(x, dtype)
    length = x.size if axis is None else x.shape[axis]
    out = result_type(operator, dtype)
    if operator == "count_nan":
        return np.isnan(x).sum(axis, dtype=np.int64), None
    if operator in ("var", "std"):
        return spread(x, dtype, operator, axis)
    if operator in ("argmin", "argmax"):
        return getattr(np, operator)(x, axis=axis), None
    if operator in ("min", "max"):
        return getattr(np, operator)(x, axis=axis), None
    if out not in FLOATS:
        return getattr(np, operator)(x, axis=axis, dtype=out), None
    epsilon = (length + 4) * accumulator_epsilon("float64" if dtype in INTEGERS else dtype)
    x = x.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        if operator in ("prod", "norm2"):
            value = {"prod": product, "norm2": norm2}[operator](x, axis)
            magnitude = np.abs(value)
        else:
            value, magnitude = np.sum(x, axis=axis), np.sum(np.abs(x), axis=axis)
        if operator == "mean":
            value, magnitude = value / np.float64(length), magnitude / np.float64(length)
        return value, with_rounding(value, out, epsilon * magnitude)


def scale(x, dtype, alpha, beta):
    """Truth and bound of alpha * x + beta. Computed in float64 and rounded to the type."""
    x = widen(x, dtype)
    if dtype in INTEGERS:
        with np.errstate(over="ignore"):
            wide = x.astype(np.int64) * np.int64(alpha) + np.int64(beta)
        return wide.astype(dtype), None
    value = (alpha * x.astype(np.longdouble) + beta).astype(np.float64)  # rounded once
    return value, with_rounding(value, dtype, 0)


# ---- the verdict ---------------------------------------------------------------------------------------------------


def difference(stored, dtype, value, bound):
    """What is wrong with a result, in words; None: nothing."""
    value = np.asarray(value)
    if stored.shape != value.shape:
        return f"shape {stored.shape}, should be {value.shape}"
    if stored.dtype != stored_type(dtype):
        return f"type {stored.dtype}, should be {dtype}"
    if stored.size == 0:
        return None
    found = stored if bound is BITS else np.asarray(widen(stored, dtype))
    if bound is BITS:
        word = f"u{stored.itemsize}"
        wrong = np.ascontiguousarray(stored).view(word) != np.ascontiguousarray(value).view(word)
        found, wrong = np.asarray(found), wrong.reshape(value.shape)
    elif dtype in INTEGERS:
        wrong = found != value
    else:
        rounded = np.asarray(widen(round_to(value, dtype), dtype))
        largest = LARGEST[dtype]  # stands for an infinity, which is right where an error allowed leads there
        with np.errstate(invalid="ignore", over="ignore"):
            near = np.abs(np.clip(found, -largest, largest) - value) <= (0 if bound is None else bound)
        same = (found == rounded) | (np.isnan(found) & np.isnan(rounded))
        wrong = ~(same | (np.isfinite(value) & near))
    if not np.any(wrong):
        return None
    place = tuple(map(int, np.argwhere(wrong)[0]))
    count = np.count_nonzero(wrong)
    return f"{count} of {stored.size} wrong: {list(place)} is {found[place]}, should be {value[place]}"


# ---- the generator of random inputs --------------------------------------------------------------------------------


def philox(counter, key):
    """Philox4x32-10: four uint32 words for each counter (an array of shape [..., 4]) under one key of two words."""
    mask = np.uint64(0xFFFFFFFF)
    c = [counter[..., i].astype(np.uint64) for i in range(4)]
    k = [np.uint64(key[0]), np.uint64(key[1])]
    for _ in range(10):
        p0, p1 = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(p1 >> np.uint64(32)) ^ c[1] ^ k[0], p1 & mask, (p0 >> np.uint64(32)) ^ c[3] ^ k[1], p0 & mask]
        k = [(k[0] + np.uint64(0x9E3779B9)) & mask, (k[1] + np.uint64(0xBB67AE85)) & mask]
    return np.stack(c, axis=-1)


def random_words(indices, seed):
    """The 64 random bits of each element."""
    pair = np.asarray(indices, np.uint64) // np.uint64(2)
    zero = np.zeros_like(pair)
    mask = np.uint64(0xFFFFFFFF)
    words = philox(np.stack([pair & mask, pair >> np.uint64(32), zero, zero], axis=-1), (seed & 0xFFFFFFFF, seed >> 32))
    odd = np.asarray(indices, np.uint64) % np.uint64(2) == 1
    low, high = np.where(odd, words[..., 2], words[..., 0]), np.where(odd, words[..., 3], words[..., 1])
    return low | (high << np.uint64(32))


def unit(words):
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


def random_uniform(indices, seed, low, high, dtype):
    """As stored: what rounding would raise to `high` (positive here) becomes the largest value below it."""
    stored = round_to(low + (high - low) * unit(random_words(indices, seed)), dtype)
    limit = round_to(np.float64(high), dtype)
    word = f"u{limit.itemsize}"
    below = (np.asarray(limit).view(word) - np.array(1, word)).view(limit.dtype)
    return np.where(widen(stored, dtype) >= high, below, stored)


def random_normal(indices, seed, mean, std):
    indices = np.asarray(indices, np.uint64)
    even = indices - indices % np.uint64(2)
    u = unit(random_words(even, seed)) + 2.0**-53
    angle = 2 * np.pi * unit(random_words(even + np.uint64(1), seed))
    z = np.sqrt(-2 * np.log(u)) * np.where(indices % np.uint64(2) == 1, np.sin(angle), np.cos(angle))
    return mean + std * z


def random_integer(indices, seed, low, high):
    """As 64-bit integers; `low` and `high` are both reached."""
    return (random_words(indices, seed) % np.uint64(high - low + 1)).astype(np.int64) + np.int64(low)
