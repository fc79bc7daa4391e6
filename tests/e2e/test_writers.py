"""Files that other people's libraries write (writers.py): of each data set tilerun gives the right numbers, or refuses
it with the words of real/refused-VERSION.txt, VERSION being that of the HDF5 library that tilerun uses. Run as a program,
with the Python that `make real` brings, it rewrites that table."""

import collections
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import harness
import people

pytestmark = pytest.mark.packages
for package in ("anndata", "h5netcdf", "hdf5plugin", "netCDF4", "pandas", "scipy", "tables"):
    pytest.importorskip(package, reason=f"no {package}: `make real` brings it")

import h5py  # noqa: E402
import hdf5plugin  # noqa: E402

import writers  # noqa: E402


# What a library cannot read although it wrote it: 1.14.5 no chunk from which scale-offset took nothing.
UNREADABLE = {"1.14": "/layouts/scaleoffset_nothing"}


def version():
    return ".".join(map(str, harness.hdf5_version()))


def table_of_refusals():
    return harness.ROOT / f"tests/real/refused-{version()}.txt"


def read_table(path):
    """{(file, data set): words}; of a file that is refused whole the data set is "/". Below words stand lines of data
    sets, and the files that have them."""
    refused = {}
    for line in path.read_text().splitlines():
        if line.startswith("    "):
            places = line.split()
            files = [place for place in places if place[0] != "/"]
            refused |= {(file, name): words for file in files for name in places[: -len(files)]}
        elif not line.startswith("#"):
            words = line
    return refused


def write_table(path, refused):
    places = collections.defaultdict(lambda: collections.defaultdict(list))
    for (file, name), words in sorted(refused.items()):
        places[words][file].append(name)
    lines = ["# What tilerun says of data sets that test_writers.py's libraries write, and of which: rewrite it by",
             "#     build/real/venv/bin/python tests/e2e/test_writers.py"]  # fmt: skip
    for words, files in sorted(places.items()):
        alike = collections.defaultdict(list)
        for file, names in files.items():
            alike[" ".join(names)].append(file)
        lines += [words, *(f"    {names} {' '.join(files)}" for names, files in alike.items())]
    path.write_text("\n".join(lines) + "\n")


def write(writer, folder):
    """In a process of its own: packages with HDF5 libraries of their own disturb each other, and hdf5plugin 7.1 fails where
    HDF5_PLUGIN_PATH is set."""
    command = [sys.executable, "-W", "ignore", writers.__file__, writer, folder]
    environment = {name: value for name, value in os.environ.items() if name != "HDF5_PLUGIN_PATH"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return sorted(path for path in folder.iterdir() if path.suffix != ".raw")


def look(folder, file):
    """Refusals of a file's data sets, and what is wrong with the numbers of the others."""
    scratch = Path(tempfile.mkdtemp(dir=folder))
    if not h5py.is_hdf5(file):
        return people.refusals(scratch, file, {"/": 2}), {}
    names = {name: dataset.ndim or 0 for name, dataset in people.data_sets(file)}
    refused = people.refusals(scratch, file, names)
    refused = {name: words.replace(f"'{name}'", "'NAME'") for name, words in refused.items()}
    return refused, people.compare(scratch, file, {name: names[name] for name in names if name not in refused})


@pytest.mark.parametrize("writer", writers.WRITERS)
def test_right_or_refused(folder, writer):
    expected, refused, wrong = read_table(table_of_refusals()), {}, {}
    files = write(writer, folder)
    for file in files:
        no, bad = look(folder, file)
        refused |= {(file.name, name): words.replace(file.name, "FILE") for name, words in no.items()}
        wrong |= {f"{file.name}:{name}": words for name, words in bad.items() if name != UNREADABLE.get(version())}
    assert not wrong, "\n".join(f"{name}: {words}" for name, words in wrong.items())
    names = {file.name for file in files}
    assert refused == {place: words for place, words in expected.items() if place[0] in names}


@pytest.mark.parametrize("writer", ["hdf5plugin", "pytables", "pandas"])
def test_plugins_that_are_told(folder, writer):
    """The advice about filters that are missing works: then all are read."""
    environment = os.environ | {"HDF5_PLUGIN_PATH": hdf5plugin.PLUGINS_PATH}
    for file in write(writer, folder):
        names = {name: dataset.ndim for name, dataset in people.data_sets(file) if people.is_number(dataset)}
        assert people.refusals(folder, file, names, environment) == {}
        assert people.compare(folder, file, names, environment) == {}


if __name__ == "__main__":
    everything = {}
    for writer in writers.WRITERS:
        with tempfile.TemporaryDirectory() as place:
            for file in write(writer, Path(place)):
                refused, _ = look(Path(place), file)
                everything |= {(file.name, name): words.replace(file.name, "FILE") for name, words in refused.items()}
    write_table(table_of_refusals(), everything)
    sys.exit(0)
