"""What an input says of its axes goes with its values: their labels and dimension scales."""

import shutil

import h5py
import numpy as np
import pytest
from real_layouts import PLACEHOLDER

import harness
from harness import OK
from scales import axes_of, check_links, described, scales_of

SEED = 20272
NAMES = ["time", "x", "Größe", "a b", "längengrad/λ", "t0"]


def run(folder, inputs, operations, output="out.h5", arguments=(), lost=0, **job):
    job = {"device": "cpu", "defaults": {"warmup": 0, "repeat": 1}, **job}
    path = harness.write_job(folder / "job.yaml", inputs=inputs, operations=operations, **job)
    done = harness.tilerun("run", path, "-o", folder / output, *arguments, expect=OK)
    assert done.stderr.count("dimension scale") == lost, done.stderr
    return folder / output


def draw_scale(rng, file, name, length):
    """A scale of some type and layout, its NAME and its attributes."""
    kind = str(rng.choice(["f8", ">f4", "i2", ">u8", "strings", "bytes", "compound", "bool", "complex"]))
    if kind == "strings":
        values = np.array([f"ü{i}" * int(rng.integers(0, 4)) for i in range(length)], dtype=object)
        kwargs = {"dtype": h5py.string_dtype()}
    elif kind == "bytes":
        values, kwargs = np.array([b"a%d" % i for i in range(length)], dtype="S5"), {}
    elif kind == "compound":
        values, kwargs = np.zeros(length, dtype=[("lo", "f4"), ("hi", "i8")]), {}
        values["lo"], values["hi"] = rng.normal(size=length), np.arange(length)
    elif kind == "bool":
        values, kwargs = rng.random(length) < 0.5, {}
    elif kind == "complex":
        values, kwargs = rng.normal(size=length) + 1j, {}
    else:
        values, kwargs = rng.integers(0, 100, length).astype(kind), {}
    if rng.random() < 0.4 and length:
        kwargs |= {"chunks": (max(1, length // 2),), "compression": "gzip"}
    scale = file.create_dataset(name, data=values, **kwargs)
    scale.make_scale(str(rng.choice([name, "", f"{name} name"])))
    if rng.random() < 0.6:
        scale.attrs["units"] = "days since 2000-01-01"
    if rng.random() < 0.4:
        scale.attrs["long_name"], scale.attrs["valid_range"] = "Länge", [1.5, 2.5]
    for i in range(int(rng.integers(0, 12)) if rng.random() < 0.2 else 0):
        scale.attrs[f"more {i}"] = f"text {i}"
    return scale


@pytest.mark.parametrize("trial", range(12))
def test_drawn(folder, trial):
    """Files, inputs and operations are drawn; what each output says of its axes follows from NumPy's rules."""
    rng = np.random.default_rng([SEED, trial])
    sizes = {"n": 5, "m": 7}
    sources, inputs, shapes, axes = {}, {}, {}, {}
    for number in range(2):
        with h5py.File(folder / f"f{number}.h5", "w", libver=str(rng.choice(["earliest", "v110"]))) as file:
            scales = {
                size: [draw_scale(rng, file, f"{name}_{size}", length) for name in rng.permutation(NAMES)[:2]]
                for size, length in sizes.items()
            }
            for name in ("A", "B"):
                letters = [str(s) for s in rng.choice(list(sizes), int(rng.integers(1, 4)))]
                data = file.create_dataset(f"group/{name}", data=rng.normal(size=[sizes[s] for s in letters]))
                for axis, size in enumerate(letters):
                    for scale in scales[size]:
                        if rng.random() < 0.5:
                            data.dims[axis].attach_scale(scale)
                    if rng.random() < 0.4:
                        data.dims[axis].label = str(rng.choice(NAMES))
                whole = described(data)
                sources[f"{name}{number}"] = (f"f{number}.h5", f"/group/{name}", whole, data.shape)
    for name, (path, dataset, whole, shape) in sources.items():
        inputs[name] = {"file": path, "dataset": dataset}
        shapes[name], axes[name] = shape, whole
        if rng.random() < 0.5:
            first = int(rng.integers(0, shape[0]))
            count = int(rng.integers(1, shape[0] - first + 1))
            band = f"{name}_band"
            inputs[band] = {**inputs[name], "rows": [first, count]}
            shapes[band] = (count, *shape[1:])
            label, listed = whole[0]
            cut = [(scale, values[first : first + count], more) for scale, values, more in listed]
            axes[band] = [(label, cut), *whole[1:]]
    inputs["R"] = {"random": {"shape": [5, 7], "dtype": "float64"}}
    shapes["R"], axes["R"] = (5, 7), [None, None]

    operations = []
    while len(operations) < 14:
        op = str(rng.choice(["scale", "transpose", "reduce", "matmul"]))
        reads = [str(n) for n in rng.choice(list(shapes), 2 if op == "matmul" else 1)]
        options, values = {}, [np.zeros(shapes[n]) for n in reads]
        if op == "reduce":
            options = {"operator": "sum", "axis": "all" if rng.random() < 0.2 else int(rng.integers(0, values[0].ndim))}
            value = values[0].sum(axis=None if options["axis"] == "all" else options["axis"])
        elif op == "matmul":
            options = {"transpose_a": bool(rng.random() < 0.5), "transpose_b": bool(rng.random() < 0.5)}
            a, b = (v.swapaxes(-1, -2) if t and v.ndim > 1 else v for v, t in zip(values, options.values()))
            if min(a.ndim, b.ndim) < 2 or a.shape[-1] != b.shape[-2] or (a.ndim == b.ndim == 3 and len(a) != len(b)):
                continue
            value = a @ b
        else:
            if op == "transpose" and values[0].ndim < 2:
                continue
            value = values[0].swapaxes(-1, -2) if op == "transpose" else values[0]
        name = str(rng.choice(["o", "time_n_", "n"])) + str(len(operations))
        store = str(rng.choice(["first", "all", "none"]))
        operations.append({"id": name, "op": op, "inputs": reads, "store": store, **options})
        if value.ndim:
            shapes[name] = value.shape
        axes[name] = axes_of(op, options, [axes[n] for n in reads])
    with h5py.File(run(folder, inputs, operations)) as file:
        for operation in operations:
            if operation["store"] == "none":
                continue
            dataset = file[f"outputs/{operation['id']}"]
            wanted = [axis or ("", []) for axis in axes[operation["id"]]]
            assert described(dataset) == wanted, operation
            assert ("DIMENSION_LABELS" in dataset.attrs) == any(label for label, _ in wanted)
        check_links(file)


def simple_input(folder, name="x.h5", size=4, **attrs):
    with h5py.File(folder / name, "w") as file:
        data = file.create_dataset("x", data=np.arange(size * 3.0).reshape(size, 3))
        data.attrs.update(attrs)
        file["time"] = np.arange(float(size)) / 4
        file["time"].attrs["units"] = "s"
        file["time"].make_scale("time")
        data.dims[0].attach_scale(file["time"])
        data.dims[1].label = "site"
    return {"x": {"file": name, "dataset": "x"}}


TIME = ("time", [0, 0.25, 0.5, 0.75], {"units": "s", "CLASS": b"DIMENSION_SCALE", "NAME": b"time"})
EXPECTED = [("", [TIME]), ("site", [])]


def test_one_copy_and_names_that_are_taken(folder):
    """A scale is stored once, however many outputs have it; an operation's name is not taken from it."""
    inputs = simple_input(folder)
    shutil.copy(folder / "x.h5", folder / "y.h5")
    inputs["y"] = {"file": "y.h5", "dataset": "x"}
    inputs["again"] = {"file": "./x.h5", "dataset": "/x"}
    inputs["band"] = {"file": "x.h5", "dataset": "/x", "rows": [1, 2]}
    operations = [{"id": i, "op": "scale", "inputs": [n], "alpha": "$a"} for i, n in zip(["o", "p", "q", "b"], inputs)]
    operations += [{"id": "time", "op": "scale", "inputs": ["x"], "store": "none"}]
    with h5py.File(run(folder, inputs, operations, parameters={"a": [1, 2, 3]})) as file:
        assert sorted(check_links(file)) == ["outputs/site", "outputs/time_2", "outputs/time_3", "outputs/time_4"]
        for name, scale in {"o": "time_2", "p": "time_3", "q": "time_2", "b": "time_4"}.items():
            for a in (1, 2, 3):
                assert file[f"outputs/a={a}/{name}"].dims[0][0].name == f"/outputs/{scale}"
        assert file["outputs/time_4"][:].tolist() == [0.25, 0.5]
        assert described(file["outputs/a=1/o"]) == described(file["outputs/a=3/q"]) == EXPECTED


@pytest.mark.parametrize("to, name", [
    ("/y", "time"), ("/time", "time_2"), ("/time/y", "time_2"), ("/time/in/y", "time_2"), ("/timely/y", "time"),
    ("/tim/y", "time"), ("/in/time", "time"),
])  # fmt: skip
def test_copies_in_a_file_of_to(folder, to, name):
    """None has the name of a result there, nor of a group that holds one, whatever is written first."""
    inputs = simple_input(folder)
    operations = [{"id": "a", "op": "scale", "inputs": ["x"], "to": "to.h5:/first"}]
    operations += [{"id": "y", "op": "scale", "inputs": ["x"], "to": f"to.h5:{to}"}]
    run(folder, inputs, operations).unlink()
    with h5py.File(folder / "to.h5") as file:
        assert [file[path].dims[0][0].name for path in ("/first", to)] == [f"/{name}"] * 2


def test_as_netcdf_writes_them(folder):
    """Dimensions without coordinates, which have no data, coordinates of two dimensions, which cannot be copied, and
    numbers of dimensions."""
    phony = f"{PLACEHOLDER}         4"
    with h5py.File(folder / "x.h5", "w", track_order=True) as file:
        data = file.create_dataset("x", data=np.ones((4, 3)))
        for number, (name, size) in enumerate((("row", 4), ("col", 3))):
            dim = file.create_dataset(name, shape=(size,), dtype=">f4")
            dim.make_scale(phony)
            dim.attrs["_Netcdf4Dimid"] = np.int32(number)
            data.dims[number].attach_scale(dim)
        wide = file.create_dataset("both", data=np.arange(12).reshape(4, 3))
        wide.make_scale("both")
        wide.attrs["_Netcdf4Coordinates"] = np.array([0, 1], "i4")
        data.dims[0].attach_scale(wide)
        data.attrs["_Netcdf4Dimid"] = np.int32(0)
    inputs = {"x": {"file": "x.h5", "dataset": "x"}, "band": {"file": "x.h5", "dataset": "x", "rows": [1, 2]}}
    operations = [{"id": "y", "op": "transpose", "inputs": ["x"]}, {"id": "z", "op": "scale", "inputs": ["band"]}]
    with h5py.File(run(folder, inputs, operations, lost=2)) as file:
        columns, rows = map(scales_of, file["outputs/y"].dims)
        assert [(name, values) for name, values, _ in columns] == [(phony, [0, 0, 0])]
        assert [(name, values) for name, values, _ in rows] == [(phony, [0, 0, 0, 0])]
        assert file["outputs/row"].id.get_storage_size() == 0 and file["outputs/row"].dtype == ">f4"
        assert [values for _, values, _ in scales_of(file["outputs/z"].dims[0])] == [[0, 0]]
        assert not any("_Netcdf4" in key for scale in check_links(file).values() for key in scale.attrs)


def test_scales_that_lie_elsewhere(folder):
    """A virtual scale, one in an external file; an input behind a link. One longer than its axis and a scalar cannot be
    copied."""
    harness.write_arrays(folder / "far.h5", values=np.arange(4.0))
    with h5py.File(folder / "x.h5", "w") as file:
        data = file.create_dataset("x", data=np.ones((4, 3)))
        layout = h5py.VirtualLayout(shape=(4,), dtype="f8")
        layout[:] = h5py.VirtualSource(folder / "far.h5", "values", shape=(4,))
        file.create_virtual_dataset("virtual", layout)
        outside = file.create_dataset("outside", data=np.arange(4, dtype="i4"), external=[(str(folder / "raw"), 0, 16)])
        file["longer"], file["one"] = np.arange(9), np.float32(7)
        for scale in (file["virtual"], outside, file["longer"], file["one"]):
            scale.make_scale(scale.name[1:])
            data.dims[0].attach_scale(scale)
    harness.write_arrays(folder / "link.h5", x=h5py.ExternalLink("x.h5", "x"))
    inputs = {"x": {"file": "x.h5", "dataset": "x"}, "l": {"file": "link.h5", "dataset": "x", "rows": [2, 1]}}
    operations = [{"id": n, "op": "reduce", "operator": "sum", "axis": 1, "inputs": [n[0]]} for n in ("x1", "l1")]
    output = run(folder, inputs, operations, lost=4)
    (folder / "far.h5").unlink()
    (folder / "raw").unlink()
    with h5py.File(output) as file:
        check_links(file)
        whole, band = (described(file[f"outputs/{name}"])[0][1] for name in ("x1", "l1"))
        assert [(n, v) for n, v, _ in whole] == [("virtual", [0, 1, 2, 3]), ("outside", [0, 1, 2, 3])]
        assert [v for _, v, _ in band] == [[2], [2]]


def test_elements_larger_than_a_piece(folder):
    """Of which one at a time is read."""
    texts = np.array([letter * (2**20 + 5) for letter in "abc"], dtype="S")
    with h5py.File(folder / "x.h5", "w") as file:
        data, file["texts"] = file.create_dataset("x", data=np.ones((3, 2))), texts
        file["texts"].make_scale("texts")
        data.dims[0].attach_scale(file["texts"])
    inputs = {"x": {"file": "x.h5", "dataset": "x", "rows": [1, 2]}}
    output = run(folder, inputs, [{"id": "y", "op": "reduce", "operator": "sum", "axis": 1, "inputs": ["x"]}])
    with h5py.File(output) as file:
        np.testing.assert_array_equal(file["outputs/y"].dims[0][0][()], texts[1:])


def test_results_are_inputs_again(folder):
    """A results file as an input gives the same once more."""
    run(folder, simple_input(folder, units="K", long_name="load"), [{"id": "y", "op": "transpose", "inputs": ["x"]}])
    inputs = {"y": {"file": "out.h5", "dataset": "/outputs/y"}}
    with h5py.File(run(folder, inputs, [{"id": "z", "op": "transpose", "inputs": ["y"]}], "again.h5")) as file:
        assert described(file["outputs/z"]) == EXPECTED
        assert file["outputs/z"].attrs["long_name"] == "load" and file["outputs/z"].attrs["units"] == "K"


def test_scale_keeps_the_unit_unless_it_adds(folder):
    """A factor is a number; an addend makes another quantity, such as degrees Celsius of K."""
    factors = {"same": {}, "twice": {"alpha": 2}, "celsius": {"beta": -273.15}}
    operations = [{"id": name, "op": "scale", "inputs": ["x"], **of} for name, of in factors.items()]
    with h5py.File(run(folder, simple_input(folder, units="K"), operations)) as file:
        units = {name: file["outputs"][name].attrs.get("units") for name in factors}
    assert units == {"same": "K", "twice": "K", "celsius": None}


@pytest.mark.parametrize("names", ["_ARRAY_DIMENSIONS", "axisLabels", "axes"])
def test_names_of_axes_in_attributes_stay_with_their_axes(folder, names):
    """xarray's, openPMD's and those of older NeXus files: no output has those of another order."""
    with h5py.File(folder / "in.h5", "w") as file:
        file["x"] = np.zeros((3, 4))
        file["x"].attrs.update({names: ["row", "column"], "source": "a"})
    output = run(folder, {"x": {"file": "in.h5", "dataset": "x"}}, [{"id": "t", "op": "transpose", "inputs": ["x"]}])
    with h5py.File(output) as file:
        assert names not in file["outputs/t"].attrs and file["outputs/t"].attrs["source"] == "a"


def test_placeholders_do_not_make_a_number_missing(folder):
    """In netCDF-4 files, which have such scales, this one is the default fill value."""
    with h5py.File(folder / "x.h5", "w") as file:
        data = file.create_dataset("x", data=np.array([[-2147483647, 1], [2, 3]], "i4"))
        file["time"] = [0.5, 1.5]
        file["time"].make_scale("time")
        data.dims[0].attach_scale(file["time"])
    inputs = {"x": {"file": "x.h5", "dataset": "x"}}
    run(folder, inputs, [{"id": "y", "op": "transpose", "inputs": ["x"], "to": "to.h5:/y"}])
    for path, name in (("out.h5", "/outputs/y"), ("to.h5", "/y")):
        inputs = {"y": {"file": path, "dataset": name}}
        operations = [{"id": "z", "op": "reduce", "operator": "sum", "axis": 1, "inputs": ["y"]}]
        with h5py.File(run(folder, inputs, operations, "again.h5", ["--overwrite"])) as file:
            assert file["outputs/z"][:].tolist() == [-2147483645, 4]


def test_an_unlimited_dimension_without_a_variable(folder):
    """netCDF's stand-in for it has no elements, however many records there are."""
    with h5py.File(folder / "x.h5", "w") as file:
        file["x"] = np.arange(12.0).reshape(4, 3)
        file.create_dataset("t", (0,), "f4", maxshape=(None,))
        file["t"].make_scale(f"{PLACEHOLDER}         0")
        file["x"].dims[0].attach_scale(file["t"])
    output = run(folder, {"x": {"file": "x.h5", "dataset": "x"}}, [{"id": "y", "op": "scale", "inputs": ["x"]}])
    with h5py.File(output) as file:
        assert file["outputs/y"].dims[0][0].shape == (4,) and "t" in file["outputs"]


def test_what_makes_no_sense_is_left_out(folder):
    """Attributes with these names, but not with what they ought to hold: no crash, and the results are there."""
    strings, references = h5py.string_dtype(), h5py.vlen_dtype(h5py.ref_dtype)
    with h5py.File(folder / "x.h5", "w") as file:
        gone = file.create_dataset("gone", data=np.ones(3))
        refs = {"null": h5py.Reference(), "root": file.ref, "dangling": gone.ref, "self": None}
        for name in ("text", "number", "short", "long", "matrix", "empty", "labels", "label_number", "fixed", *refs):
            file[name] = np.ones((3, 3))
        file["text"].attrs["DIMENSION_LIST"] = "time"
        file["number"].attrs["DIMENSION_LIST"] = [1, 2]
        for name, shape in (("short", (1,)), ("long", (5,)), ("matrix", (2, 1))):
            lists = np.empty(shape, dtype=object)
            for at in np.ndindex(shape):
                lists[at] = np.array([file.ref], dtype=h5py.ref_dtype)
            file[name].attrs.create("DIMENSION_LIST", lists, shape, references)
        file["empty"].attrs["DIMENSION_LIST"] = h5py.Empty("f4")
        file["labels"].attrs.create("DIMENSION_LABELS", ["a"], dtype=strings)
        file["label_number"].attrs["DIMENSION_LABELS"] = [1.5, 2]
        file["fixed"].attrs["DIMENSION_LABELS"] = np.array([b"rows", b"\xb5"])
        for name, ref in refs.items():
            lists = np.empty(2, dtype=object)
            lists[0] = np.array([file["self"].ref if ref is None else ref], dtype=h5py.ref_dtype)
            lists[1] = np.array([], dtype=h5py.ref_dtype)
            file[name].attrs.create("DIMENSION_LIST", lists, (2,), references)
        del file["gone"], gone
        names = list(file)
    inputs = {name: {"file": "x.h5", "dataset": name} for name in names}
    operations = [{"id": f"of_{name}", "op": "scale", "inputs": [name]} for name in names]
    with h5py.File(run(folder, inputs, operations, lost=1)) as file:
        for name in names:
            found = described(file[f"outputs/of_{name}"])
            assert [label for label, _ in found] == (["rows", ""] if name == "fixed" else ["", ""]), name
            assert "DIMENSION_LIST" not in file[f"outputs/of_{name}"].attrs, name


def test_a_scale_that_cannot_be_copied_is_said_to_be_missing(folder):
    inputs = simple_input(folder)
    with h5py.File(folder / "x.h5", "r+") as file:
        file.create_dataset("refs", data=np.array([file.ref] * 4, dtype=h5py.ref_dtype)).make_scale("refs")
        file["x"].dims[0].attach_scale(file["refs"])
    path = harness.write_job(folder / "job.yaml", device="cpu", inputs=inputs,
                             operations=[{"id": "y", "op": "scale", "inputs": ["x"]}])  # fmt: skip
    done = harness.tilerun("run", path, "-o", folder / "out.h5", expect=OK)
    said = "input 'x': the results lack a dimension scale of axis 0, which cannot be copied: it holds references"
    assert said in done.stderr
    with h5py.File(folder / "out.h5") as file:
        assert described(file["outputs/y"]) == EXPECTED and sorted(file["outputs"]) == ["site", "time", "y"]


def versions():
    """HDF5's here: the program's, and the one that h5py writes files with."""
    return harness.hdf5_version(), h5py.version.hdf5_version_tuple[:2]


@pytest.mark.skipif(not (versions()[0] < (1, 12) and versions()[1] >= (2, 0)), reason="h5py writes nothing too new")
@pytest.mark.parametrize("more", [0, 5, 9, 20])
def test_what_a_later_hdf5_wrote_is_left_out(folder, rng, more):
    """HDF5 1.10 can neither open a complex scale of 2.0's own kind nor read attributes beside a compound one."""
    with h5py.File(folder / "x.h5", "w", libver="latest") as file:
        data = file.create_dataset("x", data=rng.normal(size=(4, 3)))
        file["site"] = np.arange(3) + 1j
        file["time"] = np.arange(4.0)
        for name in rng.permutation([f"more {i}" for i in range(more)]):
            file["time"].attrs[name] = "text"
        for axis, name in enumerate(["time", "site"]):
            file[name].make_scale(name)
            data.dims[axis].attach_scale(file[name])
    path = harness.write_job(
        folder / "job.yaml", device="cpu", inputs={"x": {"file": "x.h5", "dataset": "x"}},
        operations=[{"id": "y", "op": "scale", "inputs": ["x"]}],
    )  # fmt: skip
    done = harness.tilerun("run", path, "-o", folder / "out.h5", expect=OK)
    missing = "tilerun: input 'x': the results lack a dimension scale of axis {}, which cannot be copied: this HDF5 cannot "
    assert missing.format(0) + "read its attributes, which a later one has written\n" in done.stderr
    assert missing.format(1) + "open it\n" in done.stderr
    with h5py.File(folder / "out.h5") as file:
        assert described(file["outputs/y"]) == [("", []), ("", [])]


def test_an_input_that_goes_before_the_end(folder):
    """Its scales are copied at last; if it can no longer be read then, the results are still there."""
    inputs = simple_input(folder) | {"r": {"random": {"shape": [160, 160]}}}
    product = {"op": "matmul", "inputs": ["r", "r"], "variants": ["cpu"], "repeat": 30, "verify": "none"}
    path = harness.write_job(
        folder / "job.yaml", device="cpu", inputs=inputs, defaults={"warmup": 0, "repeat": 1},
        operations=[{"id": "y", "op": "scale", "inputs": ["x"]}, {"id": "p", **product}, {"id": "q", **product}],
    )  # fmt: skip
    process = harness.start("run", path, "-o", folder / "out.h5", "--progress", "plain")
    while not process.stderr.readline().startswith("[2/"):
        pass
    (folder / "x.h5").unlink()  # it was closed when the second run began
    said, _ = process.stderr.read(), process.stdout.read()
    assert process.wait(timeout=60) == OK, said
    with h5py.File(folder / "out.h5") as file:
        assert file["outputs/y"].shape == (4, 3)
        there = described(file["outputs/y"]) == EXPECTED  # a slow machine: it was removed after the end
        assert there or "input 'x': the results lack a dimension scale of axis 0" in said


# ---- kept runs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("store", ["first", "all"])
@pytest.mark.parametrize("way", ["parts", "former"])
def test_resumed_runs_have_the_scales_of_now(folder, way, store):
    """Values make a run's key, descriptions do not: what is kept, as a part or in an earlier OUTPUT, gets what the
    input says at last, and nothing of what it said before."""
    inputs = simple_input(folder, units="K", long_name="load") | {"r": {"random": {"shape": [160, 160]}}}
    with h5py.File(folder / "x.h5", "r+") as file:
        for i in range(10):
            file["time"].attrs[f"more {i}"] = "text"
    operations = [
        {"id": "y", "op": "transpose", "inputs": ["x"], "variants": ["cpu", "blocked"], "store": store},
        {"id": "z", "op": "matmul", "inputs": ["r", "r"], "variants": ["cpu"], "verify": "none",
         "repeat": 150 if way == "parts" else 1},  # long enough to be killed in
    ]
    job = {"device": "cpu", "inputs": inputs, "operations": operations, "defaults": {"warmup": 0, "repeat": 1}}
    path, out = harness.write_job(folder / "job.yaml", **job), folder / "out.h5"
    if way == "parts":
        process = harness.start("run", path, "-o", out, "--progress", "plain")
        while not process.stderr.readline().startswith("[2/"):
            pass
        process.kill()
        process.communicate()
    else:
        assert harness.tilerun("run", path, "-o", out, "--only", "y").returncode == OK
        with h5py.File(out) as file:
            assert [name for name, _, _ in described(file["outputs/y"])[1][1]] == ["time"]
    with h5py.File(folder / "x.h5", "r+") as file:
        del file["x"].attrs["units"], file["x"].attrs["long_name"]
        file["x"].dims[0].detach_scale(file["time"])
        file["x"].dims[1].label = ""
        file["other"] = np.array([b"a", b"b", b"c"])
        file["other"].make_scale("other")
        file["x"].dims[1].attach_scale(file["other"])
    done = harness.tilerun("run", path, "-o", out, "--resume")
    assert done.returncode == OK and done.stderr.count("(kept from before)") == 2, done.stderr
    with h5py.File(out) as file:
        check_links(file)
        for name in ["outputs/y", *([f"variants/y/{v}" for v in ("cpu", "blocked")] if store == "all" else [])]:
            other = ("other", [b"a", b"b", b"c"], {"CLASS": b"DIMENSION_SCALE", "NAME": b"other"})
            assert described(file[name]) == [("", [other]), ("", [])]
            assert "units" not in file[name].attrs and "long_name" not in file[name].attrs
        assert "time" not in file["outputs"]


def test_the_part_that_becomes_the_file(folder):
    """A large output's part becomes the results file; its scales are added to it."""
    with h5py.File(folder / "x.h5", "w") as file:
        data = file.create_dataset("x", data=np.ones((5000, 3600), "f4"))  # 69 MiB
        file["time"] = np.arange(5000)
        file["time"].make_scale("time")
        data.dims[0].attach_scale(file["time"])
        data.dims[1].label = "site"
    inputs = {"x": {"file": "x.h5", "dataset": "x"}}
    operations = [
        {"id": "y", "op": "transpose", "inputs": ["x"], "verify": "none"},
        {"id": "z", "op": "reduce", "operator": "sum", "axis": 1, "inputs": ["x"]},
    ]
    with h5py.File(run(folder, inputs, operations)) as file:
        check_links(file)
        site, time = described(file["outputs/y"])
        assert site == ("site", []) and time[0] == "" and [name for name, _, _ in time[1]] == ["time"]
        assert time[1][0][1] == list(range(5000))
        assert file["outputs/z"].dims[0][0].id == file["outputs/y"].dims[1][0].id
