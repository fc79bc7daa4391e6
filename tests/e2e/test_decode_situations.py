"""Packed and missing values in situations that users meet: what is decoded, what is said, what is refused."""

import h5py
import numpy as np
import pytest

import harness
import packing
from harness import OK, USAGE

PACKED = {"scale_factor": 0.01, "add_offset": 273.15, "_FillValue": np.int16(-32767), "units": "K"}


def write(path, values=((100, 200), (-32767, 300)), dtype="int16", **attributes):
    with h5py.File(path, "w") as file:
        file["t"] = np.array(values, dtype)
        for name, value in attributes.items():
            file["t"].attrs[name] = value


def mean(**more):
    return {"id": "mean", "op": "reduce", "operator": "mean", "axis": 0, "inputs": ["t"], **more}


def job(folder, *operations, **entry):
    harness.write_job(folder / "job.yaml", inputs={"t": {"file": "t.h5", "dataset": "t", **entry}},
                      operations=operations or [mean(skip_nan=True)], defaults={"warmup": 0, "repeat": 1})  # fmt: skip


def run(folder, *arguments, expect=OK):
    return harness.tilerun("run", folder / "job.yaml", "-o", folder / "out.h5", *arguments, expect=expect).stderr


def output(folder, name="mean"):
    with h5py.File(folder / "out.h5") as file:
        return file["outputs"][name][()], dict(file["outputs"][name].attrs)


def test_packed_with_missing_values(folder):
    write(folder / "t.h5", **PACKED)
    job(folder)
    said = run(folder)
    values, attributes = output(folder)
    np.testing.assert_allclose(values, [274.15, 275.65], rtol=1e-15)
    assert attributes["units"] in ("K", b"K") and "scale_factor" not in attributes and "_FillValue" not in attributes
    assert "'t'" in said and "1 of 4 missing" in said
    with h5py.File(folder / "out.h5") as file:
        assert file["inputs/t"].attrs["missing"] == 1 and "273.15" in file["inputs/t"].attrs["decoded"]
        assert b"1 of 4 missing" in file["runs"]["message"][0]


@pytest.mark.parametrize(
    ["attribute", "value", "is_not"],
    [("scale_factor", [1.0, 2.0], "one number"), ("valid_range", [5], "two numbers"),
     ("missing_value", range(17), "1 to 16 numbers"), ("valid_range", [1, 2, 3], "two numbers")],
)  # fmt: skip
def test_another_count_of_numbers(folder, attribute, value, is_not):
    write(folder / "t.h5", **{attribute: np.array(value)})
    job(folder, mean())
    assert f"'t': attribute {attribute} is not {is_not}, and is ignored\n" in run(folder)
    np.testing.assert_array_equal(output(folder)[0], [-16333.5, 250])


@pytest.mark.parametrize("attribute", ["scale_factor", "add_offset", "_FillValue", "missing_value", "valid_min"])
@pytest.mark.parametrize("dtype, field", [("i2,f4", "f0"), ("i2,f4", "f1"), ("c8", "r")])
def test_attributes_of_a_table(folder, attribute, dtype, field):
    """They belong to no field of it: the numbers are the stored ones, which is said unless `decode: none` asks for it."""
    values = np.zeros((2, 2), dtype)
    with h5py.File(folder / "t.h5", "w") as file:
        file["t"] = values
        file["t"].attrs[attribute] = values[0, 0] if attribute == "_FillValue" else 5
    job(folder, mean(), field=field)
    words = f"input 't': attribute {attribute} belongs to whole elements, and is not applied to their field '{field}'\n"
    assert words in run(folder)
    assert (output(folder)[0] == 0).all()
    job(folder, mean(), field=field, decode="none")
    assert "attribute" not in run(folder, "--overwrite")


def test_missing_values_that_float64_confuses(folder):
    low = -(2**63)
    write(folder / "t.h5", [[low, low + 2]], "int64", _FillValue=np.int64(low), missing_value=np.int64(low + 2))
    job(folder)
    assert f"missing where {low} or {low + 2}; 2 of 2 missing" in run(folder)


def test_notes_name_the_combination(folder):
    for name in ("a.h5", "b.h5"):
        write(folder / name, **PACKED)
    harness.write_job(folder / "job.yaml", parameters={"f": ["a.h5", "b.h5"]}, operations=[mean()],
                      inputs={"t": {"file": "$f", "dataset": "t", "dtype": "float16"}})  # fmt: skip
    said = run(folder, "--once")
    for name in ("a.h5", "b.h5"):
        assert said.count(f"input 't f={name}': decoded as CF says") == 1, said


def test_a_missing_code_of_an_enumeration(folder):
    """As netCDF writes it: the attribute is of the enumeration's type."""
    kind = h5py.enum_dtype({"CLEAR": 0, "NONE": 255}, "u1")
    write(folder / "t.h5", [[0, 255]], kind)
    with h5py.File(folder / "t.h5", "a") as file:
        file["t"].attrs.create("_FillValue", 255, dtype=kind)
    job(folder, dtype="float32")
    assert "missing where 255; 1 of 2 missing" in run(folder)


def test_stored_numbers_on_purpose(folder):
    write(folder / "t.h5", **PACKED)
    job(folder, mean(), decode="none")
    assert "decoded" not in run(folder)
    values, attributes = output(folder)
    np.testing.assert_array_equal(values, [-16333.5, 250])
    assert "units" not in attributes  # they are no kelvins


def test_missing_by_the_job(folder):
    write(folder / "t.h5", [[1, 2], [9999, 3]], "float32", units="m")
    job(folder, missing=9999)
    run(folder)
    np.testing.assert_array_equal(output(folder)[0], [1, 2.5])


@pytest.mark.parametrize("least, most", [(np.int16(150), 275.5), (274.5, np.int16(230))])
def test_bounds_each_in_units_of_its_own(folder, least, most):
    """One in stored units, one of a wider type in decoded units."""
    bounds = {"valid_min": least, "valid_max": most}
    write(folder / "t.h5", [[100, 200], [240, 300]], scale_factor=0.01, add_offset=273.15, **bounds)
    job(folder, {"id": "same", "op": "scale", "inputs": ["t"]})
    run(folder)
    np.testing.assert_allclose(output(folder, "same")[0], [[np.nan, 275.15], [np.nan, np.nan]])


@pytest.mark.parametrize("attribute, value, is_said", [("conversion", 1e-6, True), ("conversion", 1.0, False),
                         ("offset", 3, True), ("offset", "left", False), ("ScaleFactor", 0.1, True)])  # fmt: skip
def test_factors_of_other_conventions(folder, attribute, value, is_said):
    """They are not applied, which is said where it matters, unless the job wants stored numbers."""
    write(folder / "t.h5", **{attribute: value})
    job(folder, mean())
    assert (f"input 't': attribute {attribute}, {value}, is not applied; `map` can do it\n" in run(folder)) == is_said
    np.testing.assert_array_equal(output(folder)[0], [-16333.5, 250])
    job(folder, mean(), decode="none")
    assert "attribute" not in run(folder, "--overwrite")


@pytest.mark.parametrize("entry", [{}, {"decode": "none"}])
def test_integers_have_no_nan_to_skip(folder, entry):
    write(folder / "t.h5", units="m")
    job(folder, **entry)
    done = harness.tilerun("check", folder / "job.yaml")
    assert done.returncode == USAGE and "skip_nan" in done.stderr and "job.yaml:" in done.stderr


def write_netcdf(path, marked, fill_value=None):
    """As netCDF's library does it: two records, of which the second was never written."""
    with h5py.File(path, "w") as file:
        if marked:
            file.attrs["_NCProperties"] = "version=2,netcdf=4.9.0,hdf5=1.12.2"
        values = file.create_dataset("t", (2, 3), "f4", chunks=(1, 3), maxshape=(None, 3),
                                     fillvalue=np.float32(packing.DEFAULTS["f4"]))  # fmt: skip
        values[0] = [1, 2, 3]
        if fill_value is not None:
            values.attrs["_FillValue"] = np.float32(fill_value)
        time = file.create_dataset("time", (2,), "f4")
        time.make_scale("time" if marked is None else "This is a netCDF dimension but not a netCDF variable.         2")
        values.dims[0].attach_scale(time)


@pytest.mark.parametrize("marked", [True, False, None])
def test_records_of_netcdf_that_were_never_written(folder, marked):
    """None: neither the file nor its scales are netCDF's."""
    write_netcdf(folder / "t.h5", marked)
    job(folder, mean(skip_nan=True), {"id": "turned", "op": "transpose", "inputs": ["t"]})
    said = run(folder)
    assert ("3 of 6 missing" in said) == (marked is not None)
    filled = np.float64(np.float32(packing.DEFAULTS["f4"]))
    right = [1, 2, 3] if marked is not None else (np.array([1, 2, 3]) + filled) / 2
    np.testing.assert_allclose(output(folder)[0], right, rtol=1e-6)
    assert ("_FillValue" in output(folder, "turned")[1]) == (marked is not None)


def test_another_fill_value_replaces_the_default(folder):
    write_netcdf(folder / "t.h5", True, fill_value=2)
    job(folder, mean())
    run(folder)
    values = output(folder)[0]
    assert values[0] > 1e36 and np.isnan(values[1])


@pytest.mark.parametrize("said, gone", [("true", 0), ("false", 1)])
def test_unsigned_numbers_have_no_default_fill_value(folder, said, gone):
    """netCDF4-python and xarray find none."""
    with h5py.File(folder / "t.h5", "w") as file:
        file.attrs["_NCProperties"] = "version=2,netcdf=4.9.0,hdf5=1.12.2"
        file["t"] = np.array([[packing.DEFAULTS["i2"], -1, 7]], "i2")
        file["t"].attrs["_Unsigned"] = said
    job(folder, mean())
    run(folder)
    values = output(folder)[0]
    assert np.isnan(values).sum() == gone and values[1] == (-1 if gone else 65535)


def test_unsigned_integers_of_three_bytes(folder):
    kind = h5py.h5t.STD_I32LE.copy()
    kind.set_size(3)
    kind.set_precision(24)
    with h5py.File(folder / "t.h5", "w") as file:
        space = h5py.h5s.create_simple((1, 2))
        h5py.h5d.create(file.id, b"t", kind, space).write(space, space, np.array([[-1, 7]], "i4"))
        file["t"].attrs["_Unsigned"] = "true"
    job(folder, mean())
    assert "'t': attribute _Unsigned is not of plain integers, and is ignored\n" in run(folder)
    np.testing.assert_array_equal(output(folder)[0], [-1, 7])


def test_attributes_that_change_nothing_are_not_mentioned(folder):
    write(folder / "t.h5", [[1, 2], [3, 4]], "float32", scale_factor=1.0, add_offset=0.0, _FillValue=np.float32("nan"),
          valid_min=np.float32("-inf"))  # fmt: skip
    job(folder, mean())
    assert "'t'" not in run(folder)
    assert output(folder)[0].dtype == "float32"


@pytest.mark.parametrize("attributes", [{"_FillValue": "n/a"}, {"_FillValue": 1e20}, {"scale_factor": "0.01"},
                                        {"valid_range": np.arange(3)}])  # fmt: skip
def test_attributes_that_cannot_be_applied_are_named(folder, attributes):
    write(folder / "t.h5", **attributes)
    job(folder, mean())
    name = next(iter(attributes))
    assert "'t': " in (said := run(folder)) and name in said
    np.testing.assert_array_equal(output(folder)[0], [-16333.5, 250])
    assert name in harness.tilerun("plan", "--detail", folder / "job.yaml").stdout


def test_what_is_moved_is_decoded_where_it_is_computed_with(folder):
    """By other programs too: it has all attributes, and the fill value has its type."""
    write(folder / "t.h5", **PACKED, standard_name="air_temperature", coordinates="lat lon")
    turned = {"id": "turned", "op": "transpose", "inputs": ["t"], "to": "turned.h5:/t"}
    job(folder, turned, mean(inputs=["turned"], skip_nan=True), mean(id="wide", skip_nan=True),
        {"id": "wider", "op": "transpose", "inputs": ["t"], "dtype": "int32"},
        *[{"id": to, "op": "transpose", "inputs": ["t"], "dtype": to} for to in ("float16", "float64")])  # fmt: skip
    run(folder)
    np.testing.assert_allclose(output(folder)[0], [274.65, 276.15], rtol=1e-15)
    np.testing.assert_allclose(output(folder, "wide")[0], [274.15, 275.65], rtol=1e-15)
    for name, kind in (("turned", "int16"), ("wider", "int32")):
        values, attributes = output(folder, name)
        assert values.tolist() == [[100, -32767], [200, 300]] and values.dtype == kind
        assert attributes["_FillValue"] == -32767 and attributes["_FillValue"].dtype == kind
        assert (attributes["scale_factor"], attributes["add_offset"]) == (0.01, 273.15)
        assert attributes["units"] in ("K", b"K") and attributes["coordinates"] in ("lat lon", b"lat lon")
    for name in ("float16", "float64"):  # who asks for floats wants decoded values
        values, attributes = output(folder, name)
        np.testing.assert_allclose(values, np.array([[274.15, np.nan], [275.15, 276.15]]).astype(name), rtol=1e-15)
        assert "scale_factor" not in attributes and "coordinates" in attributes


@pytest.mark.parametrize("name", ["_FillValue", "missing_value"])
def test_what_is_moved_misses_numbers_of_the_other_sign(folder, name):
    """The number has the type that _Unsigned says, the result that of the elements."""
    write(folder / "t.h5", [[-1, 300]], _Unsigned="true", **{name: np.uint16(65535)})
    job(folder, {"id": "turned", "op": "transpose", "inputs": ["t"]})
    run(folder)
    with h5py.File(folder / "out.h5") as file:
        turned = file["outputs/turned"]
        values = packing.decode(turned[()], packing.attributes_of(turned))[0]
    np.testing.assert_array_equal(values, [[np.nan], [300]])


def test_a_cast_result_has_no_sign_of_another_type(folder):
    write(folder / "t.h5", [[40000, 5]], "int32", _Unsigned="false")
    job(folder, {"id": "turned", "op": "transpose", "inputs": ["t"], "dtype": "uint16"})
    run(folder)
    values, attributes = output(folder, "turned")
    assert values.tolist() == [[40000], [5]] and "_Unsigned" not in attributes


@pytest.mark.parametrize(["kind", "missing"], [("f4", 1e20), ("f4", -999.9), ("f2", 0.1), ("f8", 0.1)])
def test_a_number_of_the_job_is_one_of_the_elements(folder, kind, missing):
    write(folder / "t.h5", [[missing, 2], [3, 4]], kind)
    job(folder, missing=missing)
    assert "1 of 4 missing" in run(folder)
    np.testing.assert_array_equal(output(folder)[0], [3, 3])


@pytest.mark.parametrize("change", [{"scale_factor": 0.02}, {"_FillValue": np.int16(300)}, {}])
def test_another_attribute_is_another_run(folder, change):
    write(folder / "t.h5", **PACKED)
    job(folder, mean(skip_nan=True), {"id": "turned", "op": "transpose", "inputs": ["t"]})
    run(folder)
    write(folder / "t.h5", **PACKED | change)
    said = run(folder, "--resume", *["--overwrite"] * bool(change))
    assert ("nothing to do" in said) == (not change)
    right, _ = packing.decode(np.array([[100, 200], [-32767, 300]], "int16"), PACKED | change)
    np.testing.assert_allclose(output(folder)[0], np.nanmean(right, 0), rtol=1e-15)


@pytest.mark.parametrize("entry", [{"missing": [200]}, {"decode": "none"}])
def test_another_key_is_another_run(folder, entry):
    write(folder / "t.h5", **PACKED)
    job(folder, mean())
    run(folder)
    before = output(folder)[0]
    job(folder, mean(), **entry)
    assert "nothing to do" not in run(folder, "--resume", "--overwrite")
    assert not np.array_equal(output(folder)[0], before, equal_nan=True)


def test_inspect_prints_what_numbers_mean(folder):
    write(folder / "t.h5", **PACKED, valid_range=np.array([0, 400], "int16"), conversion=2.0, unitSI=1e-3)
    said = harness.quiet("inspect", folder / "t.h5", "t")
    for words in ["0.01 float64", "273.15", "-32767 int16", "0, 400", "conversion", "unitSI", "float64", "K"]:
        assert words in said, words
