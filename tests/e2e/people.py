"""Files that other programs wrote: what of them is numbers, a job of all of it, and whether that comes out right."""

import bisect
import contextlib
import functools
import re
import warnings

import h5py
import numpy as np

import harness
import packing
import referee
from harness import OK, USAGE, tilerun

MOST_BYTES = 8 << 20  # of a data set that is compared
MOST_AXES = 8


def data_sets(path):
    """Every data set of a file, once, that h5py can open, by name; soft and external links at the top levels too."""
    found, seen = {}, set()

    def visit(group, prefix, depth):
        for name in group:
            try:
                item = group[name]
                address = (h5py.h5o.get_info(item.id).fileno, h5py.h5o.get_info(item.id).addr)
            except (KeyError, OSError, RuntimeError, ValueError):
                continue  # a link to nothing, or an object that is too new
            if isinstance(item, h5py.Dataset) and (prefix + name) not in found:
                found[prefix + name] = item
            elif isinstance(item, h5py.Group) and address not in seen and depth < 20:
                seen.add(address)
                visit(item, prefix + name + "/", depth + 1)

    with h5py.File(path) as file:
        visit(file, "/", 0)
        yield from found.items()


def is_number(dataset):
    """Is it an array of what tilerun takes as numbers without more words?"""
    kind = dataset.id.get_type()
    if not isinstance(kind, (h5py.h5t.TypeIntegerID, h5py.h5t.TypeFloatID)) or kind.get_size() > 8:
        return False
    if kind.get_order() not in (h5py.h5t.ORDER_LE, h5py.h5t.ORDER_BE) or dataset.dtype.hasobject:
        return False
    return dataset.shape is not None and 1 <= len(dataset.shape) <= MOST_AXES


def operations_of(number, axes):
    """A copy and a reduction of input x<number>."""
    x = f"x{number}"
    copy = {"id": f"c{number}", "op": "transpose" if axes > 1 else "scale", "inputs": [x], "variants": ["blocked"]}
    if axes < 2:
        copy |= {"alpha": 1, "variants": ["cpu"]}
    mean = {"id": f"r{number}", "op": "reduce", "inputs": [x], "operator": "mean", "variants": ["cpu"]}
    mean["axis"] = 0 if axes else "all"
    return [copy, mean]


def write_job(path, file, names, **options):
    """`names`: of data sets, with how many axes each has."""
    inputs, operations = {}, []
    for number, (name, axes) in enumerate(names.items()):
        inputs[f"x{number}"] = {"file": str(file), "dataset": name.replace("$", "$$"), **options}
        operations += operations_of(number, axes)
    return harness.write_job(path, device="cpu", inputs=inputs, operations=operations)


def refusals(folder, file, names, environment=None, **options):
    """Why `check` refuses data sets as inputs, by name, without the file's folder; those that it passes have no entry.
    It names many at once."""
    refused = {}
    while left := {name: axes for name, axes in names.items() if name not in refused}:
        job = write_job(folder / "check.yaml", file, left, **options)
        done = tilerun("check", job, env=environment)
        if done.returncode == OK:
            break
        assert done.returncode == USAGE, done.stderr
        begins = [i for i, line in enumerate(job.read_text().splitlines(), 1) if re.match(r'  "x\d+": ', line)]
        before = len(refused)
        for line, words in re.findall(r"^\S*check\.yaml:(\d+):\d+: (.*)", done.stderr, re.M):
            of_run = re.match(r"r(\d+): ", words)  # the place is that of an operation
            number = int(of_run[1]) if of_run else bisect.bisect_right(begins, int(line)) - 1
            name, words = list(left)[number], words[of_run.end() if of_run else 0 :]
            refused.setdefault(name, words.replace(f"{file.parent}/", ""))
        assert len(refused) > before, done.stderr
    return refused


def run(folder, file, names, environment=None, **options):
    """Runs the job of all names. Returns (copy, mean) of each; for those that cannot be read, what was said."""
    job, output = write_job(folder / "all.yaml", file, names, **options), folder / "out.h5"
    done = tilerun("run", job, "-o", output, "--once", "--overwrite", "--progress", "none", env=environment)
    if done.returncode != OK and len(names) > 1:
        return {
            name: run(folder, file, {name: axes}, environment, **options)[name] for name, axes in names.items()
        }
    if done.returncode != OK:
        return dict.fromkeys(names, f"exit code {done.returncode}: {done.stderr.strip()}")
    with h5py.File(output) as results:
        outputs = results["outputs"]
        return {name: (outputs[f"c{i}"][()], outputs[f"r{i}"][()]) for i, name in enumerate(names)}


def plain(values):
    """In this machine's byte order, as a type that tilerun has."""
    kind = values.dtype.newbyteorder("=")
    kind = {"bool": np.dtype("uint8"), "float128": np.dtype("float64")}.get(kind.name, kind)
    return np.ascontiguousarray(values, kind).reshape(values.shape)


def meaning(dataset):
    """What its stored numbers mean."""
    values = plain(dataset[()])
    attributes = packing.attributes_of(dataset)
    if values.dtype.kind not in "iuf" or not (attributes or packing.is_netcdf(dataset)):
        return values
    return packing.decode(values, attributes, netcdf=packing.is_netcdf(dataset))[0]


def wrong(stored, values, copy, mean, axes):
    """What is wrong with the outputs of an array; None: nothing. `values`: what the stored numbers mean; `axes`: those of
    its data set, without those of arrays in its elements. What is transposed stays as it is stored."""
    moved = stored.swapaxes(-1, -2) if axes > 1 else values
    if said := referee.difference(copy, moved.dtype.name, moved, referee.BITS if axes > 1 else None):
        return f"copy: {said}"
    dtype = values.dtype.name
    value, bound = referee.reduce(values, dtype, "mean", 0 if values.ndim else "all")
    if said := referee.difference(np.asarray(mean), referee.result_type("mean", dtype), value, bound):
        return f"mean: {said}"
    return None


@contextlib.contextmanager
def netcdf_readers(file):
    """What netCDF4-python and xarray make of a variable, by its name, as functions; none where it is no netCDF file."""
    import netCDF4
    import xarray

    def by_netcdf4(name):
        group, _, variable = name[1:].rpartition("/")
        place = opened[group] if group else opened
        return place.variables[variable][...] if variable in place.variables else None

    @functools.cache
    def group_of_xarray(group):
        return xarray.open_dataset(file, group=group or None, engine="netcdf4", decode_times=False, decode_coords=False)

    def by_xarray(name):
        group, _, variable = name[1:].rpartition("/")
        found = group_of_xarray(group).variables
        try:
            return found[variable].values if variable in found else None
        except TypeError:  # attributes that are no numbers
            return None

    with h5py.File(file) as source:
        marked = "_NCProperties" in source.attrs or file.suffix in (".nc", ".nc4", ".cdf")
    if not marked:
        yield ()
        return
    with netCDF4.Dataset(file) as opened:
        yield by_netcdf4, by_xarray


def compare(folder, file, names, environment=None, **options):
    """What is wrong with data sets that are inputs, by name. Of netCDF files netCDF4-python or xarray must agree."""
    found, outputs = {}, run(folder, file, names, environment, **options) if names else {}
    access = h5py.h5p.create(h5py.h5p.DATASET_ACCESS)
    access.set_efile_prefix(b"${ORIGIN}")  # raw files lie beside the file
    with h5py.File(file) as source, netcdf_readers(file) as readers:
        for name, output in outputs.items():
            if isinstance(output, str):
                found[name] = output
                continue
            dataset = source[name]
            if dataset.external:
                del dataset  # HDF5 opens it with one prefix at a time
                dataset = h5py.Dataset(h5py.h5d.open(source.id, name.encode(), access))
            decoded = meaning(dataset)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                theirs = [values for reader in readers if np.ndim(values := reader(name)) == decoded.ndim > 0]
            if said := wrong(plain(dataset[()]), decoded, *output, names[name]):
                found[name] = said
            elif theirs and not any(agree(decoded, values) for values in theirs):
                found[name] = "netCDF4-python and xarray take it otherwise"
    return found


def agree(ours, theirs):
    """`theirs` may go on behind the end of ours: records that another variable has and this one lacks."""
    ours, theirs = np.asarray(ours, np.float64), np.ma.filled(np.ma.asarray(theirs).astype(np.float64), np.nan)
    theirs = theirs[tuple(slice(size) for size in ours.shape)]
    return ours.shape == theirs.shape and np.allclose(ours, theirs, rtol=1e-6, atol=0, equal_nan=True)
