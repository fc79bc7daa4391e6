"""Files with scales on some axes only: netCDF4, h5netcdf and xarray read the outputs, with their coordinates."""

import json
import re
import subprocess
import sys

import h5py
import numpy as np
import pytest
from real_layouts import PLACEHOLDER

import harness
from harness import OK
from scales import axes_of

SEED = 20272

# Each prints, for every path, its dimensions, its values and the coordinates of each dimension (null: none).
READERS = {
    "netCDF4": """
import netCDF4
open_file = functools.cache(netCDF4.Dataset)
def scale_of(group, dim):
    while group and dim not in group.dimensions: group = group.parent
    return group.variables[dim][:] if group and dim in group.variables else None
def read(file, parent, name):
    group = open_file(file)[parent] if parent else open_file(file)
    variable = group[name]
    return variable.dimensions, variable[:], [scale_of(group, dim) for dim in variable.dimensions]
""",
    "xarray": """
import xarray, h5netcdf, netCDF4
open_group = functools.cache(xarray.open_dataset)
def read(file, parent, name):
    of_h5netcdf = open_group(file, group=parent or "/", engine="h5netcdf", phony_dims="sort")
    of_netcdf = open_group(file, group=parent or "/", engine="netcdf4")
    one, other = (printed(*known(opened, name)) for opened in (of_h5netcdf, of_netcdf))
    assert one == other or one[1:] == other[1:] and "phony_dim" in str(other[0]), (one, other)
    return known(of_h5netcdf, name)
""",
    "datatree": """
import xarray, h5netcdf
if not hasattr(xarray, "open_datatree"): sys.exit(77)
open_tree = functools.cache(xarray.open_datatree)
def read(file, parent, name):
    return known(open_tree(file, engine="h5netcdf", phony_dims="sort")[parent or "/"].to_dataset(), name)
""",
}
READ = """
import functools, json, sys, warnings
import numpy as np
warnings.simplefilter("ignore")
def plain(values): return None if values is None else np.asarray(values).tolist()
def printed(dims, values, coordinates): return [list(dims), plain(values), [plain(c) for c in coordinates]]
def known(opened, name):
    dims, values = opened[name].dims, opened[name].values
    return dims, values, [opened.coords[dim].values if dim in opened.coords else None for dim in dims]
%s
found = []
for path in sys.argv[1:]:
    file, _, name = path.partition(":")
    parent, _, name = name.rpartition("/")
    found.append(printed(*read(file, parent, name)))
print(json.dumps(found))
"""


def draw_partly_scaled(rng, path):
    """Matrices and stacks with scales on some of their axes; for each its values, and the label and coordinates of each
    axis. A scale of another shape than the axis is none that netCDF can read."""
    drawn, sizes = {}, {"n": 4, "m": 3, "k": 5}
    with h5py.File(path, "w", libver=str(rng.choice(["earliest", "v110"]))) as file:
        scales = {}
        for size, length in sizes.items():
            shapes = {"fit": (length,), "fit2": (length,), "long": (9,), "one": (), "wide": (length, 2)}
            for kind, shape in shapes.items():
                name = f"{kind}_{size}"
                scales[name] = file.create_dataset(name, data=rng.integers(0, 99, shape) / 4)
                scales[name].make_scale(name)
            hollow = file.create_dataset(f"hollow_{size}", shape=(length,), dtype=">f4")
            hollow.make_scale(f"{PLACEHOLDER}{length:10d}")
            scales[f"hollow_{size}"] = hollow
        for number in range(5):
            letters = [str(s) for s in rng.choice(list(sizes), int(rng.integers(1, 4)))]
            data = file.create_dataset(f"g/d{number}", data=rng.integers(-9, 9, [sizes[s] for s in letters]) * 1.0)
            axes = []
            for axis, size in enumerate(letters):
                unusable = str(rng.choice(["long", "one", "wide"]))
                kinds = [["fit"], ["fit"], ["fit", "fit2"], ["hollow"], [], [], [unusable]]
                chosen = [f"{kind}_{size}" for kind in kinds[int(rng.integers(len(kinds)))]]
                for name in chosen:
                    data.dims[axis].attach_scale(scales[name])
                label = str(rng.choice(["", "", "site", "a/b", ".", "Größe"]))
                if label:
                    data.dims[axis].label = label
                usable = [(name, scales[name][()]) for name in chosen if name.startswith(("fit", "hollow"))]
                axes.append((label, usable))
            drawn[f"/g/d{number}"] = data[()], axes
    return drawn


def apply(rng, reads, values):
    """A drawn operation, its options and what it gives; None: it takes no such inputs."""
    op = str(rng.choice(["scale", "transpose", "reduce", "matmul"]))
    x = values[0]
    if op == "scale":
        return op, reads[:1], {"alpha": "$a"}, x
    if op == "transpose":
        return (op, reads[:1], {}, x.swapaxes(-1, -2)) if x.ndim > 1 else None
    if op == "reduce":
        axis = int(rng.integers(0, x.ndim))
        return op, reads[:1], {"operator": "sum", "axis": axis}, x.sum(axis=axis)
    options = {"transpose_a": bool(rng.random() < 0.5), "transpose_b": bool(rng.random() < 0.5)}
    a, b = (v.swapaxes(-1, -2) if t and v.ndim > 1 else v for v, t in zip(values, options.values()))
    if min(a.ndim, b.ndim) < 2 or a.shape[-1] != b.shape[-2] or (a.ndim == b.ndim == 3 and len(a) != len(b)):
        return None
    return op, reads, options, a @ b


@pytest.fixture(scope="module")
def partly_scaled(memory_folder):
    """Outputs of drawn jobs in results files and files of `to`: [path, values, label and coordinates of each axis]."""
    expected = []
    for trial in range(6):
        rng = np.random.default_rng([SEED, 1, trial])
        folder = memory_folder / str(trial)
        folder.mkdir()
        inputs, values, axes = {}, {"R": None}, {"R": [None, None]}
        for path, (whole, described) in draw_partly_scaled(rng, folder / "in.h5").items():
            name = path[-2:]
            inputs[name], values[name], axes[name] = {"file": "in.h5", "dataset": path}, whole, described
            first, step = int(rng.integers(0, 2)), int(rng.integers(1, 3))
            cut = slice(first, None, step)
            select = {"select": [f"{first}:{len(whole)}:{step}"] + [":"] * (whole.ndim - 1)}
            inputs[f"{name}r"] = inputs[name] | (select if step > 1 else {"rows": [first, len(whole) - first]})
            values[f"{name}r"] = whole[cut]
            label, scales = described[0]
            axes[f"{name}r"] = [(label, [(name, scale[cut]) for name, scale in scales]), *described[1:]]
        del values["R"], axes["R"]
        operations = []
        while len(operations) < 16:
            reads = [str(n) for n in rng.choice(list(values), 2)]
            drawn = apply(rng, reads, [values[n] for n in reads])
            if drawn is None:
                continue
            op, reads, options, value = drawn
            name, number = f"o{len(operations)}", len(operations)
            place = str(rng.choice(["first", "all", "to", "to"]))
            operation = {"id": name, "op": op, "inputs": reads, "variants": ["cpu"], **options}
            swept = "a=1/" if op == "scale" else ""
            if place == "to":
                operation["to"] = f"to{'$a' if swept else ''}.h5:/{'g/' * (number % 2)}{name}"
            else:
                operation["store"] = place
            operations.append(operation)
            of = axes_of(op, options, [axes[n] for n in reads])
            paths = [f"out.h5:/outputs/{swept}{name}"]
            paths += [f"out.h5:/variants/{swept}{name}/cpu"] * (place == "all")
            paths += [operation["to"].replace("$a", "1")] if place == "to" else []
            expected += [(f"{folder}/{path}", value, [axis or ("", []) for axis in of]) for path in paths]
        path = harness.write_job(folder / "job.yaml", device="cpu", inputs=inputs, operations=operations,
                                 parameters={"a": [1, 2]}, defaults={"warmup": 0, "repeat": 1})  # fmt: skip
        harness.tilerun("run", path, "-o", folder / "out.h5", expect=OK)
    return expected


@pytest.mark.parametrize("reader", READERS)
def test_other_programs_read_them(partly_scaled, reader):
    """netCDF refuses data sets with scales on some axes, of another shape than the axis, or in no group above; an axis
    without a scale it gives the coordinates of one of the same length."""
    needs = {"netCDF4": "netCDF4"}.get(reader, "xarray, h5netcdf, netCDF4")
    imports = f"try: import {needs}\nexcept ImportError: raise SystemExit(78)\n"
    paths = [path for path, _, _ in partly_scaled]
    done = subprocess.run([sys.executable, "-c", imports + READ % READERS[reader], *paths], capture_output=True, timeout=300)
    if done.returncode == 78:
        pytest.skip(f"{needs}: not here")
    if done.returncode == 77:
        pytest.skip("this xarray has no open_datatree")
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    scaled = {path.partition(":")[0] for path, _, axes in partly_scaled if any(scales for _, scales in axes)}
    seen = set()
    for (path, values, axes), (dims, found, coordinates) in zip(partly_scaled, json.loads(done.stdout)):
        np.testing.assert_array_equal(found, values, path)
        seen.add(tuple(bool(scales) for _, scales in axes))
        # xarray's open_dataset gives a group the coordinates that lie in it.
        near = reader != "xarray" or path.count("/", path.index(":")) == (2 if "/out.h5" in path else 1)
        for number, (dim, coordinate, (label, scales)) in enumerate(zip(dims, coordinates, axes)):
            where = f"{path} axis {number}: {dim}"
            if scales:
                name, expected = scales[-1]
                assert re.fullmatch(rf"{name}(_\d+)?", dim), where
                if name.startswith("hollow"):
                    assert coordinate is None, where
                elif near:
                    assert coordinate == expected.tolist(), where
            else:
                named = label if label not in ("", ".", "a/b") else f"axis_{number}"
                pattern = rf"{named}(_\d+)?" if path.partition(":")[0] in scaled else r"phony_dim_\d+"
                assert re.fullmatch(pattern, dim), where
                assert coordinate is None, where
    assert {(True, False), (False, True), (True, True), (False, False)} <= seen
