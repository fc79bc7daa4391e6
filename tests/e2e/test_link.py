"""`merge --link`: the outputs stay in the parts, and the results file has virtual data sets that show them there."""

import os
import random
import shutil
import subprocess

import h5py
import numpy as np
import pytest

import drawn_jobs
import faults
import harness
import many_shards
from harness import IO, OK, USAGE
from shards import assert_equals_unsharded, bits, merge, plain_results, shard
from test_panels import draw_job, product

CASES = int(os.environ.get("TILERUN_CASES", 6))
SEED = int(os.environ.get("TILERUN_SEED", 0))


def virtual(path):
    """Each stored output that could be virtual, and whether it is."""
    with h5py.File(path) as file:
        names = harness.dataset_names(file, "outputs", "variants")
        outputs = [name for name in names if "variant" in file[name].attrs and file[name].shape and file[name].size]
        return {name: file[name].is_virtual for name in outputs}


def contents(folder):
    """Every part, and its bytes."""
    parts = folder / "out.h5.parts"
    return {path.relative_to(parts): path.read_bytes() for path in parts.rglob("?" * 32 + ".h5")}


def tool(*command, cwd=None):
    if not shutil.which(command[0]):
        pytest.skip(f"there is no {command[0]} here")
    done = subprocess.run(list(map(str, command)), capture_output=True, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def linked(folder, count=3, *more):
    """A product in panels, linked."""
    product(folder, **({"size": 96} | dict(more)))
    for index in range(count):
        shard(folder, index, count)
    merge(folder, "--link")
    return folder / "out.h5"


# ---- drawn jobs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", range(CASES))
def test_drawn_jobs(folder, case):
    """Bits and attributes are those of a copying merge, wherever the file is read from and wherever it goes with its
    parts; nothing removes these, and a copying merge can still be made of them."""
    draw = random.Random(SEED * 1000 + case)
    home = folder / "home"
    home.mkdir()
    if panels := draw.randrange(2):
        draw_job(home, draw)
    else:
        drawn_jobs.write(home, draw)
    count = draw.choice([1, 2, 3, 5])
    for index in range(count):
        shard(home, index, count, *(["--by", "tiles"] if panels else []))
    shutil.copytree(home / "out.h5.parts", folder / "kept")
    merge(home)
    expected = bits(home / "out.h5")
    assert expected == bits(plain_results(home)) and not any(virtual(home / "out.h5").values())
    (home / "out.h5").rename(home / "copied.h5")
    shutil.copytree(folder / "kept", home / "out.h5.parts")

    before = contents(home)
    merge(home, "--link")
    assert virtual(home / "out.h5") and all(virtual(home / "out.h5").values())
    assert bits(home / "out.h5") == expected and contents(home) == before
    for again in (["merge", "out.h5"], ["merge", "out.h5", "--link"], ["run", "job.yaml", "-o", "out.h5", "--resume"]):
        done = harness.tilerun(*again, cwd=home)
        assert done.returncode == OK and "nothing to do" in done.stderr, done.stderr
        assert "of another version" not in done.stderr and contents(home) == before
    shard(home, 0, count, "--resume")
    assert contents(home) == before

    away = folder / "away"
    home.rename(away)
    assert bits(away / "out.h5") == expected
    os.symlink("away/out.h5", folder / "link.h5")
    assert bits(folder / "link.h5") == expected
    shown = harness.tilerun("show", "away/out.h5", cwd=folder)
    assert shown.returncode == OK and "holds" not in shown.stdout and "unfinished" not in shown.stdout
    harness.tilerun("compare", "copied.h5", "out.h5", cwd=away, expect=OK)
    for name, where in [("out.h5", away), ("away/out.h5", folder), (away / "out.h5", "/")]:
        assert b"differ" not in tool("h5diff", name, folder / "away/copied.h5", "/outputs", cwd=where)

    away.rename(home)  # `merge` wants the inputs where the shards had them
    merge(home, "--overwrite")
    assert bits(home / "out.h5") == expected and not any(virtual(home / "out.h5").values())
    assert not (home / "out.h5.parts").exists()


@pytest.mark.parametrize("name", ["o%b.h5", "50%.h5", "%%%d.h5", "ä b:c.h5", "${ORIGIN}.h5"])
def test_names(folder, name):
    """HDF5 gives meaning to some characters of a source's name."""
    product(folder)
    for index in range(2):
        harness.tilerun("run", folder / "job.yaml", "-o", folder / name, "--shard", f"{index}/2")
    assert harness.tilerun("merge", folder / name, "--link").returncode == OK
    assert harness.tilerun("show", name, cwd=folder).returncode == OK
    assert all(virtual(folder / name).values()) and bits(folder / name) == bits(plain_results(folder))


def test_h5dump(folder):
    """The HDF5 tools see the values, from another folder too."""
    path = linked(folder)
    tool("h5dump", "-d", "/outputs/product", "-b", "LE", "-o", folder / "dumped", path, cwd="/")
    with h5py.File(plain_results(folder)) as file:
        assert (folder / "dumped").read_bytes() == file["outputs/product"][()].tobytes()


def test_reproduce_and_report(folder):
    linked(folder)
    (folder / "away").mkdir()
    for name in ("out.h5", "out.h5.parts"):
        (folder / name).rename(folder / "away" / name)
    done = harness.tilerun("reproduce", "away/out.h5", cwd=folder)
    assert "outputs: 1 of 1 identical" in done.stdout, done.stdout + done.stderr
    assert harness.tilerun("report", "away/out.h5", "-o", folder / "page.html", cwd=folder).returncode == OK


def test_scales(folder):
    """Dimension scales are copied and attached to the virtual data set."""
    with h5py.File(folder / "in.h5", "w") as file:
        file["x"] = np.arange(96.0 * 40).reshape(96, 40)
        file["time"] = np.arange(96)
        file["time"].make_scale("time")
        file["x"].dims[0].attach_scale(file["time"])
        file["x"].attrs["units"] = "m"
    operations = [{"id": "twice", "op": "scale", "inputs": ["x"], "alpha": 2, "variants": ["cpu"]}]
    inputs = {"x": {"file": "in.h5", "dataset": "x"}}
    harness.write_job(folder / "job.yaml", device="cpu", inputs=inputs, operations=operations)
    for index in range(3):
        shard(folder, index, 3, "--once", "--by", "tiles")
    merge(folder, "--link")
    with h5py.File(folder / "out.h5") as file:
        twice = file["outputs/twice"]
        assert twice.is_virtual and len(twice.virtual_sources()) == 3 and twice.attrs["units"] == "m"
        assert twice.dims[0]["time"][()].tolist() == list(range(96))
        assert (twice[()] == 2 * np.arange(96.0 * 40).reshape(96, 40)).all()


# ---- when parts are gone -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["folder", "one", "cut"])
def test_missing_parts(folder, what):
    """HDF5 mostly shows NaN without a word; tilerun says it."""
    path = linked(folder)
    expected = bits(path)
    part = sorted((folder / "out.h5.parts").rglob("?" * 32 + ".h5"))[1]
    if what == "folder":
        (folder / "out.h5.parts").rename(folder / "gone")
    elif what == "one":
        part.rename(folder / "gone")
    else:
        os.truncate(part, 1000)
    with h5py.File(path) as file:
        try:
            assert np.isnan(file["outputs/product"][()]).sum() == 96 * (96 if what == "folder" else 32)
        except OSError:
            assert what == "cut"  # what HDF5 from 1.14 on says
    reads = {"id": "reads", "op": "scale", "inputs": ["p"], "alpha": 1, "variants": ["cpu"]}
    inputs = {"p": {"file": "out.h5", "dataset": "/outputs/product"}}
    harness.write_job(folder / "reads.yaml", device="cpu", inputs=inputs, operations=[reads])
    job = folder / "job.yaml"
    for command in (
        ["show", path],
        ["show", path, "--csv"],
        ["compare", path, plain_results(folder)],
        ["compare", folder / "plain.h5", path],
        ["reproduce", path],
        ["report", path, "-o", folder / "page.html"],
        ["run", job, "-o", path, "--resume"],
        ["run", folder / "reads.yaml", "-o", folder / "other.h5"],
    ):
        done = harness.tilerun(*command)
        assert done.returncode == USAGE, command
        reads = "reads.yaml" in str(command)
        words = ("is a virtual data set of " if reads else "its parts are missing: ") + "'/output' in "
        words += "out.h5.parts/"
        assert words in done.stderr, done.stderr
    if what != "folder":
        assert "its parts are missing" in merge(folder, expect=USAGE).stderr
        assert "shard " in merge(folder, "--overwrite", expect=IO).stderr
    for index in range(3):
        shard(folder, index, 3, "--resume", "--overwrite")
    merge(folder, "--overwrite", "--link")
    assert bits(path) == expected and all(virtual(path).values())


def test_opened_for_writing(folder):
    """HDF5 opens the parts for writing as well then, and cuts off what follows its own data: their trailers."""
    path = linked(folder)
    expected, before = bits(path), contents(folder)
    with h5py.File(path, "r+") as file:
        file.attrs["note"] = "mine"
        file["outputs/product"][()]
    assert contents(folder) != before  # else this test tests nothing
    assert bits(path) == expected and harness.tilerun("show", path).returncode == OK
    merge(folder, "--overwrite")
    assert bits(path) == expected and not any(virtual(path).values())
    with h5py.File(path) as file:
        assert len(file["panels"]) == 3  # the parts were taken, not what the linked file says of them


@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize("link", [True, False])
def test_parts_are_on_the_disk_before_a_file_names_them(folder, memory_folder, sync, link):
    """Unless the job says that nothing shall be."""
    shim = faults.build_shim(memory_folder, "count_shim")
    job = product(folder)
    job.write_text(job.read_text().replace("{", '{"sync": %s,' % str(sync).lower(), 1))
    for index in range(3):
        shard(folder, index, 3)
    parts = len(contents(folder))
    syncs = many_shards.call(folder, shim, "merge", folder / "out.h5", *["--link"] * link).calls["sync"]
    assert syncs >= (parts + 2 if link else 2) if sync else syncs == 0
    assert all(virtual(folder / "out.h5").values()) if link else not any(virtual(folder / "out.h5").values())


def test_large_part_whose_data_a_power_cut_lost(folder):
    """The checksum of a chunk of zeros, which is zero, would not tell. A part that was not synced is hashed."""
    inputs = {"a": {"random": {"shape": [600, 600]}}}
    operations = [{"id": "large", "op": "scale", "inputs": ["a"], "alpha": 2, "variants": ["cpu"]}]
    harness.write_job(folder / "job.yaml", device="cpu", sync=False, inputs=inputs, operations=operations)
    shard(folder, 0, 1, "--once")
    (part,) = contents(folder)
    with h5py.File(folder / "out.h5.parts" / part) as file:
        output = file["output"].id
        places = [output.get_chunk_info(number)[2:] for number in range(output.get_num_chunks())]
        places = places or [(output.get_offset(), output.get_storage_size())]
    with open(folder / "out.h5.parts" / part, "r+b") as file:
        for offset, size in places:
            file.seek(offset)
            file.write(bytes(size))
    assert "shard 0 of 1 has 0 of 1 runs" in merge(folder, "--link", expect=IO).stderr
    shard(folder, 0, 1, "--once", "--resume")
    merge(folder, "--link")
    assert bits(folder / "out.h5") == bits(plain_results(folder))


# ---- going on ------------------------------------------------------------------------------------------------------


def test_resume_of_a_part_of_the_job(folder):
    """What --only left out is done later: the whole file has copies, and needs no parts."""
    product(folder, size=96)
    text = (folder / "job.yaml").read_text()
    more = ', {"id": "more", "op": "scale", "inputs": ["a"], "alpha": 2, "variants": ["cpu"]}'
    at = text.rindex("]", 0, text.index('"defaults"'))
    (folder / "job.yaml").write_text(text[:at] + more + text[at:])
    for index in range(3):
        shard(folder, index, 3, "--only", "product", "--by", "tiles")
    merge(folder, "--link")
    path = folder / "out.h5"
    assert "only left operations out" in harness.tilerun("show", path).stdout and all(virtual(path).values())
    done = harness.tilerun("run", folder / "job.yaml", "-o", path, "--resume")
    assert done.returncode == OK and "product cpu: ok" in done.stderr, done.stderr
    assert not any(virtual(path).values())
    assert_equals_unsharded(folder)


def test_killed_before_the_copy_is_in_place(folder, shim):
    """A part large enough to become the results file itself does not while another file shows it."""
    inputs = {"a": {"random": {"shape": drawn_jobs.HUGE, "dtype": "float64", "seed": 1}}}
    operations = [{"id": "huge", "op": "scale", "inputs": ["a"], "alpha": 2, "variants": ["cpu"]}]
    harness.write_job(folder / "job.yaml", device="cpu", inputs=inputs, operations=operations)
    shard(folder, 0, 1, "--once")
    merge(folder, "--link")
    expected = bits(folder / "out.h5")
    merge(folder, "--overwrite", expect=-9, env=faults.environment(shim, folder / "count", "rename", 1, "kill"))
    assert bits(folder / "out.h5") == expected and all(virtual(folder / "out.h5").values())
    merge(folder, "--overwrite")
    assert bits(folder / "out.h5") == expected and not (folder / "out.h5.parts").exists()


@pytest.mark.parametrize("whole", [False, True])
def test_overwrite_removes_what_needs_the_parts(folder, whole):
    path = linked(folder)
    command = ["run", folder / "job.yaml", "-o", path, "--overwrite"]
    done = harness.tilerun(*command, *([] if whole else ["--shard", "1/3"]))
    assert done.returncode == OK and "is removed now, because its outputs are in" in done.stderr
    if not whole:
        assert not path.exists() and len(contents(folder)) == 3
        merge(folder)
    assert_equals_unsharded(folder)


def test_nothing_to_link(folder):
    """Nothing that could be virtual: the file is as one of copies, and its parts stay as well."""
    inputs = {"a": {"random": {"shape": [40, 30], "seed": 1}}}
    operations = [
        {"id": "all", "op": "reduce", "inputs": ["a"], "operator": "sum", "axis": "all", "variants": ["cpu"]},
        {"id": "timed", "op": "transpose", "inputs": ["a"], "store": "none", "variants": ["cpu"]},
    ]
    harness.write_job(folder / "job.yaml", device="cpu", inputs=inputs, operations=operations)
    for index in range(2):
        shard(folder, index, 2, "--once")
    merge(folder, "--link")
    assert virtual(folder / "out.h5") == {} and bits(folder / "out.h5") == bits(plain_results(folder))
    merge(folder, "--overwrite")
    assert_equals_unsharded(folder)
