"""Packed and missing values: what a job reads of drawn files with the attributes of the CF conventions is what NumPy,
netCDF4-python and xarray make of them; what it moves is decoded by them to the same.

    TILERUN_CASES=500 TILERUN_SEED=1     other cases, more of them; four, one job, by TILERUN_CASE=57

netCDF4 and xarray are asked where they are installed: where the two agree, so must the program, bit for bit."""

import os
import warnings

import h5py
import numpy as np
import pytest
import shards
from test_views import as_index, cast, create, draw_select

import harness
import packing

try:
    import netCDF4
    import xarray
except ImportError:
    netCDF4 = xarray = None

SEED = int(os.environ.get("TILERUN_SEED", 0))
CASES = int(os.environ.get("TILERUN_CASES", 40))
CHOSEN = os.environ.get("TILERUN_CASE")
PER_JOB = 4
LAYOUTS = ["contiguous", "chunked", "gzip-shuffle", "virtual", "compact"]  # those that netCDF4 reads
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
TYPES = ["int16"] * 8 + INTEGERS + ["float32", "float64", "float16"]


def cases():
    if CHOSEN is not None:
        return [int(CHOSEN)]
    return [SEED * 100000 + case for case in range(max(1, CASES // PER_JOB))]


# ---- what is drawn -------------------------------------------------------------------------------------------------


def draw_number(rng, dtype):
    """A number that elements of the type have at times."""
    if dtype.kind == "f":
        return dtype.type(rng.choice([-999, 0, 3.5, 1e4, -9.5]))
    limits = np.iinfo(dtype)
    numbers = [limits.min, limits.min + 1, limits.max, limits.max - 1, 0, 7, 99]
    return dtype.type(numbers[int(rng.integers(len(numbers)))])


def draw_scaling(rng):
    kinds = [["f4", "f4"], ["f8", "f8"], ["f4", "f8"], ["f8", "f4"], ["f8", "i2"]]
    first, second = kinds[int(rng.choice(5, p=[0.3, 0.5, 0.08, 0.08, 0.04]))]
    attributes, which = {}, rng.random()
    if which < 0.7:
        attributes["scale_factor"] = np.dtype(first).type(rng.choice([0.01, 1, -1.4e-5, 2, 0.1, 1000, 1 / 3]))
    if which > 0.4:
        attributes["add_offset"] = np.dtype(second).type(rng.choice([273.15, 0, -40, 0.1, 1e4]))
    return attributes


def draw_bounds(rng, dtype, scaling):
    if scaling and rng.random() < 0.4:
        kind = np.promote_types(*[np.asarray(value).dtype for value in [*scaling.values()] * 2][:2])
        kind = kind if kind.kind == "f" else np.dtype("f8")
        numbers = sorted(rng.uniform(-300, 600, 2).astype(kind))
    else:
        numbers = sorted(draw_number(rng, dtype) for _ in range(2))
    low, high = (np.asarray(number)[()] for number in numbers)
    form = rng.random()
    if rng.random() < 0.2:  # each in units of its own
        return {"valid_min": draw_number(rng, dtype), "valid_max": np.float64(rng.uniform(-300, 600))}
    if form < 0.4:
        return {"valid_range": np.array([low, high])}
    return {"valid_min": low} if form < 0.6 else {"valid_max": high} if form < 0.8 else {"valid_min": low, "valid_max": high}


def draw_attributes(rng, dtype):
    attributes = draw_scaling(rng) if rng.random() < 0.6 else {}
    if rng.random() < 0.6:
        attributes["_FillValue"] = draw_number(rng, dtype)
        other = rng.random()
        if other < 0.1 and dtype.itemsize < 8:
            attributes["_FillValue"] = np.float64(attributes["_FillValue"])
        elif other < 0.15 and dtype.itemsize < 8:
            attributes["_FillValue"] = np.float64(1e20)
        elif other < 0.3 and dtype.kind == "f":
            attributes["_FillValue"] = dtype.type(np.nan)
    if rng.random() < 0.25:
        count = int(rng.integers(1, 4))
        numbers = np.array([draw_number(rng, dtype) for _ in range(count)])
        attributes["missing_value"] = numbers[0] if count == 1 else numbers
    if rng.random() < 0.3:
        attributes.update(draw_bounds(rng, dtype, attributes))
    if dtype.kind in "iu" and rng.random() < 0.2:
        attributes["_Unsigned"] = "true" if dtype.kind == "i" else "false"
    return attributes


def draw_stored(rng, shape, dtype, attributes):
    """Numbers among which are those of the attributes."""
    if dtype.kind == "f":
        x = rng.normal(0, 1000, shape).astype(dtype)
    else:
        limits = np.iinfo(dtype)
        x = rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
        x = np.where(rng.random(shape) < 0.5, x, (x % 100).astype(dtype))
    marks = [draw_number(rng, dtype) for _ in range(3)]
    for name, value in attributes.items():
        for number in np.ravel(value) if name not in ("_Unsigned", "scale_factor", "add_offset") else []:
            if np.isfinite(number) and (dtype.kind == "f" or packing.within(number, dtype)):
                marks.append(dtype.type(number))
    return np.where(rng.random(shape) < 0.4, np.array(marks, dtype)[rng.integers(0, len(marks), shape)], x).astype(dtype)


def draw_shape(rng):
    rank = int(rng.integers(1, 4))
    return tuple(int(n) for n in rng.integers(1, [2000, 60, 14][rank - 1], rank, endpoint=True))


class Drawn:
    """An input, the operations on it, and what they must give."""

    def __init__(self, rng, name, file, path):
        self.name, self.dtype = name, np.dtype(str(rng.choice(TYPES)))
        self.attributes = draw_attributes(rng, self.dtype)
        x = draw_stored(rng, draw_shape(rng), self.dtype, self.attributes)
        self.whole, self.path = x, path
        create(rng, file, name, x, str(rng.choice(LAYOUTS)))
        for key, value in self.attributes.items():
            file[name].attrs[key] = value
        file[name].attrs["units"], file[name].attrs["standard_name"] = "K", "air_temperature"
        self.entry = {"file": path.name, "dataset": name}
        self.view, self.missing, self.none = (), [], rng.random() < 0.1
        self.to = str(rng.choice(["float32", "float64", "float16"])) if rng.random() < 0.15 else None
        if self.to:
            self.entry["dtype"] = self.to
        if self.none:
            self.entry["decode"] = "none"
        if rng.random() < 0.2:
            self.missing = [draw_number(rng, self.dtype) for _ in range(int(rng.integers(1, 3)))]
            self.missing = [m for m in self.missing if abs(float(m)) < 2**53]
        if self.missing:
            self.entry["missing"] = [m.item() for m in self.missing]
        self.draw_view(rng, x)
        said = {} if self.none else self.attributes
        self.stored = x[self.view]
        self.values, self.gone = packing.decode(self.stored, said, self.missing)
        self.decodes = self.values.dtype != self.dtype or self.gone.any()
        if self.to:
            self.values = cast(np.atleast_1d(self.values), self.to)[0].reshape(self.values.shape)

    def draw_view(self, rng, x):
        if rng.random() < 0.25:
            select = draw_select(rng, x.shape, x.ndim)
            if select and x[as_index(select)].ndim and x[as_index(select)].size:
                self.entry["select"], self.view = select, as_index(select)
        elif rng.random() < 0.2:
            first = int(rng.integers(x.shape[0]))
            count = int(rng.integers(1, x.shape[0] - first + 1))
            self.entry["rows"], self.view = [first, count], np.s_[first : first + count]

    def operations(self, rng):
        axis = int(rng.integers(self.stored.ndim))
        floats = self.values.dtype.kind == "f"
        operators = ["max", "min", "argmax", "mean"] + ["count_nan"] * floats
        operator = str(rng.choice(operators))
        skip = bool(floats and operator != "count_nan" and rng.random() < 0.5)
        self.reduced = (operator, axis, skip)
        found = [{"id": f"{self.name}_copy", "op": "scale", "inputs": [self.name]},
                 {"id": f"{self.name}_r", "op": "reduce", "operator": operator, "axis": axis, "skip_nan": skip,
                  "inputs": [self.name]}]  # fmt: skip
        if self.stored.ndim > 1:
            found += [{"id": f"{self.name}_t", "op": "transpose", "inputs": [self.name],
                       "to": f"moved.h5:/{self.name}"},
                      {"id": f"{self.name}_tr", "op": "reduce", "operator": "max", "axis": 0, "skip_nan": skip,
                       "inputs": [f"{self.name}_t"]}]  # fmt: skip
        order = rng.permutation(len(found))
        if self.stored.ndim > 1:
            order = sorted(order, key=lambda i: i == 3)  # what reads a result comes behind it
        return [found[i] for i in order]


def reduce(values, operator, axis, skip):
    """NumPy's, over the first axis that is said; of NaNs alone the position -1."""
    wide = values.astype("float64") if values.dtype.kind == "f" else values
    if operator == "count_nan":
        return np.isnan(wide).sum(axis)
    if skip and operator == "argmax":
        none = np.isnan(wide).all(axis)
        return np.where(none, -1, np.argmax(np.where(np.isnan(wide), -np.inf, wide), axis))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(np, ("nan" if skip else "") + operator)(wide, axis=axis)


def check(drawn, results, words):
    np.testing.assert_array_equal(results.output(f"{drawn.name}_copy"), drawn.values, words)
    assert results.output(f"{drawn.name}_copy").dtype == drawn.values.dtype, words
    operator, axis, skip = drawn.reduced
    found, right = results.output(f"{drawn.name}_r"), reduce(drawn.values, *drawn.reduced)
    if operator == "mean":
        with np.errstate(invalid="ignore", over="ignore"):
            size = np.nanmax(np.abs(drawn.values.astype("float64")), initial=0)
        epsilon = np.finfo(found.dtype).eps if found.dtype.kind == "f" else 2.0**-52
        close = np.abs(found - right) <= (4 + drawn.stored.shape[axis] ** 0.5) * epsilon * size
        assert np.all(close | (np.isnan(found) & np.isnan(right)) | (found == right)), words
    else:
        np.testing.assert_array_equal(found, right, words)
    if drawn.stored.ndim > 1:
        right = reduce(np.swapaxes(drawn.values, -1, -2), "max", 0, skip)
        np.testing.assert_array_equal(results.output(f"{drawn.name}_tr"), right, words)


def check_moved(drawn, folder, words):
    """The result that was moved has the stored numbers where these have a meaning of their own, and all attributes."""
    with h5py.File(folder / "moved.h5") as file:
        moved = file[drawn.name]
        attributes, values = packing.attributes_of(moved), moved[()]
        assert moved.attrs["standard_name"] in ("air_temperature", b"air_temperature"), words
    stays = (not drawn.to or (drawn.none and drawn.to == drawn.dtype)) and (not drawn.none or not drawn.decodes)
    if stays:
        np.testing.assert_array_equal(values, np.swapaxes(drawn.stored, -1, -2), words)
        assert values.dtype == drawn.dtype, words
        if "_FillValue" in attributes:
            assert np.asarray(attributes["_FillValue"]).dtype == drawn.dtype or not drawn.decodes, words
        values, _ = packing.decode(values, {} if drawn.none else attributes)
    elif drawn.decodes or drawn.none:
        assert not attributes, words
    else:
        values, _ = packing.decode(values, attributes)
    np.testing.assert_array_equal(values, np.swapaxes(drawn.values, -1, -2), words)


# ---- other people's decoders -----------------------------------------------------------------------------------------


def by_netcdf4(path, name):
    with warnings.catch_warnings(), netCDF4.Dataset(path) as file, np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        values = file[name][...]
        if np.ma.is_masked(values) and values.dtype.kind != "f":
            values = values.astype("float64")
        return np.ma.filled(values, np.nan) if np.ma.is_masked(values) else np.ma.getdata(values)


def by_xarray(path, name):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        with xarray.open_dataset(path, engine="h5netcdf", phony_dims="sort", decode_times=False) as file:
            return file[name].values


agreements = {"both": 0, "netCDF4 alone": 0, "they differ": 0}


@pytest.fixture(autouse=True, scope="module")
def say_how_often_the_others_were_asked():
    yield
    print(f"\n{'netCDF4 and xarray: ' + str(agreements) if netCDF4 else 'without netCDF4 and xarray'}")


def check_with_others(drawn, folder, words):
    """xarray knows no valid range; netCDF4 takes each as packed, knows no `_Unsigned = "false"`, and has default fill
    values in files that are not netCDF's, too."""
    if not netCDF4 or drawn.dtype == "float16" or drawn.missing or drawn.none:
        return
    right = packing.decode(drawn.whole, drawn.attributes)[0]
    attributes = drawn.attributes
    theirs = by_netcdf4(drawn.path, drawn.name).astype(right.dtype)
    ranged = [value for value in packing.bounds(attributes) if value is not None]
    if ranged:
        default = packing.DEFAULTS.get(drawn.dtype.str[1:])
        if any(np.asarray(value).dtype != drawn.dtype for value in ranged) or attributes.get("_Unsigned") == "false":
            return
        if default is not None and packing.equals(drawn.whole, drawn.dtype.type(default), drawn.dtype).any():
            return
        same_scaling = scaling_of_one_type(attributes)
    others = theirs if ranged else by_xarray(drawn.path, drawn.name).astype(right.dtype)
    if not np.array_equal(theirs, others, equal_nan=True) or (ranged and not same_scaling):
        agreements["they differ"] += 1
        return
    np.testing.assert_array_equal(right, theirs, words)
    agreements["netCDF4 alone" if ranged else "both"] += 1
    if drawn.stored.ndim > 1 and not drawn.to and not drawn.view and could_all_equal(drawn):
        moved = np.swapaxes(by_netcdf4(folder / "moved.h5", drawn.name), -1, -2).astype(right.dtype)
        np.testing.assert_array_equal(moved, theirs, words)
        if not ranged:
            moved = np.swapaxes(by_xarray(folder / "moved.h5", drawn.name), -1, -2).astype(right.dtype)
            np.testing.assert_array_equal(moved, theirs, words)


def scaling_of_one_type(attributes):
    return len({np.asarray(attributes[n]).dtype for n in ("scale_factor", "add_offset") if n in attributes}) <= 1


def could_all_equal(drawn):
    """Could elements equal the fill value? What could not is not in the result."""
    fill = drawn.attributes.get("_FillValue")
    return fill is None or np.isnan(fill) or packing.could_equal(drawn.dtype, drawn.dtype, fill)


# ---- drawn jobs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", cases())
def test_drawn(folder, seed):
    rng = np.random.default_rng(seed)
    with h5py.File(folder / "data.h5", "w", track_order=True) as file:
        inputs = [Drawn(rng, f"x{number}", file, folder / "data.h5") for number in range(PER_JOB)]
    operations = [operation for drawn in inputs for operation in drawn.operations(rng)]
    job = {"inputs": {drawn.name: drawn.entry for drawn in inputs}, "operations": operations,
           "memory": str(rng.choice(["64KiB", "1MiB", "90%"])), "sync": False,
           "defaults": {"warmup": 0, "repeat": 1, "verify": str(rng.choice(["auto", "full"]))}}  # fmt: skip
    if rng.random() < 0.25:
        harness.write_job(folder / "job.yaml", **job, output="out.h5")
        count = int(rng.integers(2, 4))
        for index in range(count):
            shards.shard(folder, index, count, "--by", "tiles")
        shards.merge(folder)
        results = harness.Results(folder / "out.h5")
    else:
        results = harness.run_job(folder, **job)
    for drawn in inputs:
        words = f"{drawn.entry} {drawn.dtype} {drawn.attributes}"
        check(drawn, results, words)
        if drawn.stored.ndim > 1:
            check_moved(drawn, folder, words)
        check_with_others(drawn, folder, words)
        with h5py.File(results.path) as file:
            said = file["inputs"][drawn.name].attrs
            if "missing" in said:
                assert said["missing"] == drawn.gone.sum(), words


# ---- several files, each with attributes of its own ------------------------------------------------------------------


@pytest.mark.parametrize("seed", cases()[::3])
def test_files_with_attributes_of_their_own(folder, seed):
    rng = np.random.default_rng([seed, 1])
    dtype, axis = np.dtype(str(rng.choice(["int16", "int16", "uint8", "int32", "float32"]))), int(rng.integers(2))
    shape, parts, same = [int(n) for n in rng.integers(1, 40, 2)], [], rng.random() < 0.3
    attributes = draw_attributes(rng, dtype)
    for number in range(int(rng.integers(1, 5))):
        attributes = attributes if same else draw_attributes(rng, dtype) if rng.random() < 0.7 else {}
        shape[axis] = int(rng.integers(1, 40))
        x = draw_stored(rng, shape, dtype, attributes)
        with h5py.File(folder / f"part-{number}.h5", "w") as file:
            create(rng, file, "x", x, str(rng.choice(LAYOUTS)))
            for key, value in attributes.items():
                file["x"].attrs[key] = value
        parts.append((x, *packing.decode(x, attributes)))
    kinds = {values.dtype for _, values, _ in parts}
    result = kinds.pop() if len(kinds) == 1 else np.dtype("float64")
    values = np.concatenate([values.astype(result) for _, values, _ in parts], axis)
    results = harness.run_job(
        folder,
        inputs={"x": {"file": "part-*.h5", "dataset": "x", "concatenate": axis}},
        memory=str(rng.choice(["64KiB", "90%"])),
        defaults={"warmup": 0, "repeat": 1},
        operations=[{"id": "copy", "op": "scale", "inputs": ["x"]}, {"id": "t", "op": "transpose", "inputs": ["x"]},
                    {"id": "r", "op": "reduce", "operator": "max", "axis": 0, "inputs": ["t"]}],
    )  # fmt: skip
    np.testing.assert_array_equal(results.output("copy"), values)
    np.testing.assert_array_equal(results.output("r"), values.max(1))
    with h5py.File(results.path) as file:
        moved = packing.decode(file["outputs/t"][()], packing.attributes_of(file["outputs/t"]))[0]
    np.testing.assert_array_equal(moved.T, values)


@pytest.mark.parametrize("other", [0.1, 0.5])
def test_stored_numbers_of_files_that_pack_otherwise(folder, other):
    """What moves them keeps the attributes that are true of all of them."""
    for name, factor in (("part-0.h5", 0.1), ("part-1.h5", other)):
        with h5py.File(folder / name, "w") as file:
            file["x"] = np.ones((2, 3), "int16")
            file["x"].attrs["scale_factor"] = factor
    source = {"file": "part-*.h5", "dataset": "x", "concatenate": 0, "decode": "none"}
    moved = {"id": "t", "op": "transpose", "inputs": ["x"]}
    results = harness.run_job(folder, inputs={"x": source}, operations=[moved])
    with h5py.File(results.path) as file:
        assert packing.attributes_of(file["outputs/t"]) == ({"scale_factor": 0.1} if other == 0.1 else {})


@pytest.mark.parametrize("dtype, values, rounded", [
    ("int64", [2**53 + 1, 2**53 + 2, -(2**53) - 1, 2**63 - 1, -(2**63)], 3),
    ("uint64", [2**53 + 1, 2**53 + 2, 2**63, 2**63 + 1, 2**64 - 1], 3),
])  # fmt: skip
def test_integers_that_float64_cannot_hold_are_counted(folder, dtype, values, rounded):
    x = np.array([[*values, 7, 9], [0, 1, 2, 3, 4, 5, 9]], dtype)
    with h5py.File(folder / "data.h5", "w") as file:
        file["x"] = x
        file["x"].attrs["_FillValue"] = x.dtype.type(9)
    source, copy = {"file": "data.h5", "dataset": "x"}, {"id": "copy", "op": "scale", "inputs": ["x"]}
    for more, said in (({}, True), ({"decode": "none"}, False), ({"dtype": "float32"}, False)):
        path = harness.write_job(folder / "job.yaml", device="cpu", inputs={"x": source | more}, operations=[copy])
        done = harness.tilerun("run", path, "-o", folder / "out.h5", "--once", "--overwrite", expect=harness.OK)
        lost = f"{rounded} of 14 elements lost digits beyond 2^53 in the conversion to float64"
        assert (lost in done.stderr, f"of 14 missing, {rounded} rounded" in done.stderr) == (said, said), done.stderr
