"""`to`: results in files of their own. Whatever happens, such a file is there whole or not at all, the results file
has a copy of it or shows it, leads to nothing else, and both hold what the results file would have held."""

import os
import random
import re
import resource
import shutil
import signal
import time

import h5py
import numpy as np
import pytest
from real_layouts import PLACEHOLDER
from shards import merge, shard
from to_files import assert_good, edit, leftovers, simple

import drawn_jobs
import harness
from harness import OK, RUN, USAGE, run_folder

CASES = int(os.environ.get("TILERUN_CASES") or 12)
SEED = int(os.environ.get("TILERUN_SEED") or 20283)
OWN = {"key", "to_file", "to_dataset"}  # an attribute that only a file of a `to` has, and those that name it
COPIED = 64 << 10  # bytes; the results file shows what is larger
GROUPS = ["", "/g", "/deep/er/group", "/Größe", "/a b", "/100%b"]


def described(dataset):
    """Values, and all that is said of them but when and by which names."""
    attributes = {
        name: np.asarray(value).tolist()
        for name, value in dataset.attrs.items()
        if name not in OWN | {"DIMENSION_LIST", "REFERENCE_LIST"}
    }
    axes = [
        (axis.label, [(name, scale[()].tolist()) for name, scale in axis.items() if not name.startswith(PLACEHOLDER)])
        for axis in dataset.dims
    ]
    created = dataset.chunks, dataset.compression, dataset.shuffle, dataset.fletcher32
    return str(dataset.dtype), dataset.shape, dataset[()].tobytes(), attributes, axes, created


def places(job):
    return {operation["id"]: operation["to"] for operation in job["operations"] if "to" in operation}


def each(path, visit):
    """All results of a results file, which has no other links than names of objects."""

    def walk(group, name):
        for key in group:
            assert isinstance(group.get(key, getlink=True), h5py.HardLink)
            item = group[key]
            if isinstance(item, h5py.Group):
                walk(item, f"{name}/{key}")
            elif name.split("/")[0] in ("outputs", "variants") and item.attrs.get("CLASS") != b"DIMENSION_SCALE":
                visit(item, f"{name}/{key}")

    with h5py.File(path) as file:
        for top in file:
            if isinstance(file[top], h5py.Group):
                walk(file[top], top)


def results(path):
    """Each result, by the name under which the results file has it, as it is stored in its own file, if it has one."""
    found = {}

    def visit(item, name):
        found[name] = described(item)
        if "to_file" not in item.attrs:
            return
        assert not os.path.isabs(item.attrs["to_file"]), "it moves together with the results file"
        assert item.is_virtual == (item.nbytes > COPIED)
        with h5py.File(path.parent / item.attrs["to_file"]) as file:
            there = described(file[item.attrs["to_dataset"]])
        assert there[:5] == found[name][:5] and (item.is_virtual or there == found[name])
        found[name] = there

    each(path, visit)
    return found


def draw_places(draw, job, folder):
    """Gives some operations a `to`."""
    swept = "parameters" in job
    (folder / "other").mkdir()
    for operation in job["operations"]:
        if draw.random() < 0.3:
            continue
        file = draw.choice(["r.h5", "other/r.h5", "%b%%.h5", "./other/../other/r.h5", f"other/{operation['id']}.h5"])
        if file.startswith("./"):
            file = "other/r.h5"
        name = operation["id"]
        if swept:
            file, name = draw.choice([(file.replace(".h5", "-$factor.h5"), name), (file, f"$factor/{name}")])
        operation["to"] = f"{file}:{draw.choice(GROUPS)}/{name}"
    return job


def draw(folder, seed):
    """Writes a job without and one with `to`."""
    rng = random.Random(seed)
    plain = drawn_jobs.write(folder, rng)
    job = harness.json.loads(plain.read_text())
    for operation in job["operations"]:
        if operation["op"] == "scale" and "parameters" in job:
            operation["alpha"] = "$factor"
    with h5py.File(folder / "in.h5", "a") as file:
        file["b"].attrs["units"] = "m"
        file["b"].attrs["long_name"] = "length"
        file["time"] = np.arange(file["b"].shape[0]) * 0.5
        file["time"].make_scale("time")
        file["b"].dims[0].attach_scale(file["time"])
        file["b"].dims[1].label = "across"
    (folder / "plain").mkdir()
    shutil.copy(folder / "in.h5", folder / "plain")
    plain.rename(folder / "plain/job.yaml")
    del job["version"]
    if "parameters" in job:  # what does not depend on the parameter would, if it were in its `to`
        keep = {operation["id"] for operation in job["operations"] if operation["op"] == "scale"}
        grown = True
        while grown:
            more = {o["id"] for o in job["operations"] if keep & set(o["inputs"])} - keep
            keep |= more
            grown = bool(more)
        marked = {**job, "operations": [o for o in job["operations"] if o["id"] in keep]}
        draw_places(rng, marked, folder)
    else:
        draw_places(rng, job, folder)
    harness.write_job(folder / "job.yaml", **job)
    return rng, job


def check(folder):
    """All that a run without any `to` makes is there, the same bits; each `to` is a file with what it shall have."""
    if not (folder / "plain/out.h5").exists():
        run_folder(folder / "plain")
    assert results(folder / "out.h5") == results(folder / "plain/out.h5")
    assert not leftovers(folder)
    written = set()

    def visit(item, _):
        if "to_file" in item.attrs:
            written.add((os.path.normpath(folder / item.attrs["to_file"]), item.attrs["to_dataset"]))

    each(folder / "out.h5", visit)
    return written


@pytest.mark.parametrize("case", range(CASES))
def test_drawn_jobs(folder, case):
    rng, job = draw(folder, SEED * 1000 + case)
    way = rng.choice(["whole", "whole", "panels", "shards", "link", "signal"])
    if way == "panels":
        harness.write_job(folder / "job.yaml", **job | {"defaults": job["defaults"] | {"keep_tiles": "always"}})
        path = folder / "plain/job.yaml"
        plain = harness.json.loads(path.read_text())
        path.write_text(harness.json.dumps(plain | {"defaults": plain["defaults"] | {"keep_tiles": "always"}}))
    if way in ("whole", "panels"):
        run_folder(folder)
    elif way == "signal":
        process = harness.start("run", folder / "job.yaml", "-o", folder / "out.h5")
        time.sleep(rng.uniform(0, 0.15))
        process.send_signal(signal.SIGTERM)
        process.communicate()
        if process.returncode != OK:
            run_folder(folder, "--resume")
    else:
        count = rng.choice([1, 2, 3])
        for index in range(count):
            shard(folder, index, count)
        merge(folder, *(["--link"] if way == "link" else []))
        if way == "link":
            merge(folder, "--overwrite")
    written = check(folder)
    expected = sum("to" in operation for operation in job["operations"])
    assert bool(written) == bool(expected) and len(written) >= expected
    for path, name in written:
        with h5py.File(path) as file:
            assert file.attrs["schema"] == "tilerun-to" and name in file
            counted = []
            scale = b"DIMENSION_SCALE"
            file.visititems(
                lambda key, item, to=counted: to.append(key)
                if isinstance(item, h5py.Dataset) and item.attrs.get("CLASS") != scale
                else None
            )
            assert file.attrs["results"] == len(counted) == sum(path == other for other, _ in written)

    before = {path: os.stat(path).st_mtime_ns for path, _ in written}
    assert "nothing to do" in run_folder(folder, "--resume").stderr
    assert before == {path: os.stat(path).st_mtime_ns for path, _ in written}
    if written:  # a file that is gone is made again, with those runs alone
        gone, _ = rng.choice(sorted(written))
        os.unlink(gone)
        again = run_folder(folder, "--resume").stderr
        assert "nothing to do" not in again
        check(folder)
        path, _ = rng.choice(sorted(written))
        refused = run_folder(folder, "-o", folder / "second.h5", expect=USAGE).stderr
        assert "exists; --overwrite replaces it" in refused and not (folder / "second.h5").exists()
        run_folder(folder, "--overwrite")
        check(folder)
        reproduced = harness.tilerun("reproduce", folder / "out.h5")
        assert "identical" in reproduced.stdout, reproduced.stderr
        check(folder)


# ---- one job, and what may befall it -----------------------------------------------------------------------------


def test_an_existing_file_is_refused_before_anything_is_computed(folder):
    path = simple(folder)
    (folder / "made.h5").write_text("mine")
    for arguments in ([], ["--resume"], ["--shard", "0/2"]):
        done = run_folder(folder, *arguments, expect=USAGE)
        assert re.search(r"file \S*made.h5: exists.*--overwrite replaces it", done.stderr), done.stderr
        assert sorted(os.listdir(folder)) == ["in.h5", "job.yaml", "made.h5"]
    assert (folder / "made.h5").read_text() == "mine"
    os.chmod(folder / "made.h5", 0o640)
    run_folder(folder, "--overwrite")
    assert_good(folder)
    assert os.stat(folder / "made.h5").st_mode & 0o777 == 0o640
    assert path.exists()


@pytest.mark.parametrize("schema", ["tilerun-results", "", None])
def test_only_a_file_of_this_schema_is_replaced(folder, schema):
    """All results in it may be this job's."""
    simple(folder)
    run_folder(folder)
    with h5py.File(folder / "made.h5", "r+") as file:
        del file.attrs["schema"]
        if schema is not None:
            file.attrs["schema"] = schema
    before = (folder / "made.h5").read_bytes()
    said = run_folder(folder, "--resume", expect=USAGE).stderr
    assert re.search(r"file \S*made.h5: exists and was not made by this version of the job", said), said
    assert (folder / "made.h5").read_bytes() == before


def test_who_has_the_former_file_open_keeps_it(folder):
    simple(folder)
    run_folder(folder)
    with h5py.File(folder / "made.h5") as held:
        node = os.stat(folder / "made.h5").st_ino
        run_folder(folder, "--overwrite")
        assert os.stat(folder / "made.h5").st_ino != node
        assert held["sum"].shape == (64,) and held["g/twice"][1, 0] == 2048


@pytest.mark.parametrize(
    "place, words",
    [
        ("in.h5", "is the job's input 'x'"),
        ("job.yaml", "is the job file itself"),
        ("out.h5", "is the output itself"),
        ("out.h5.parts", "is for finished runs"),
        ("link.h5", "is the job's input 'x'"),
        (".", "is a directory"),
        ("nowhere/a.h5", "No such file or directory"),
        ("pipe", "is not a regular file"),
    ],
)
def test_places_that_clash(folder, place, words):
    path = simple(folder)
    os.symlink("in.h5", folder / "link.h5")
    os.mkfifo(folder / "pipe")
    edit(path, lambda job: job["operations"][0].update(to=f"{place}:/x"))
    before = sorted(os.listdir(folder))
    kept = (folder / "in.h5").read_bytes()
    for arguments in (["--overwrite"], ["--overwrite", "--resume"]):
        done = run_folder(folder, *arguments, expect=USAGE)
        assert words in done.stderr, done.stderr
        assert sorted(os.listdir(folder)) == before and (folder / "in.h5").read_bytes() == kept
    if words.startswith("is the job"):
        done = harness.tilerun("check", path)
        assert done.returncode == USAGE and words in done.stderr


def test_two_names_of_one_file(folder):
    path = simple(folder)
    (folder / "sub").mkdir()
    os.symlink("../made.h5", folder / "sub/other.h5")
    edit(path, lambda job: job["operations"][1].update(to="sub/other.h5:/sum"))
    run_folder(folder)
    assert_good(folder)
    assert os.path.islink(folder / "sub/other.h5")
    edit(path, lambda job: job["operations"][1].update(to="sub/other.h5:/g"))
    done = run_folder(folder, "--overwrite", expect=USAGE)
    assert "/g is the result of 'sum', so it cannot be the group of /g/twice" in done.stderr, done.stderr


def test_a_trace_does_not_go_there(folder):
    simple(folder)
    done = run_folder(folder, "--trace", folder / "made.h5", expect=USAGE)
    assert "the result of 'twice' goes there" in done.stderr


def test_a_result_that_is_not_there(folder):
    """The file is not written as long as one of its results is not there; the output has the others until then."""
    path = simple(folder)
    product = {"id": "product", "op": "matmul", "inputs": ["r", "r"], "tolerance": 0, "to": "made.h5:/product"}
    edit(path, lambda job: job["inputs"].update(r={"random": {"shape": [64, 64]}}))
    edit(path, lambda job: job["operations"].append(product))
    done = run_folder(folder, expect=RUN)
    assert "made.h5 is not written, because 'product' has no result" in done.stderr, done.stderr
    assert not (folder / "made.h5").exists()
    with h5py.File(folder / "out.h5") as file:
        assert file.attrs["status"] == "failed"
        assert not file["outputs/twice"].is_virtual and "to_file" not in file["outputs/twice"].attrs
    run_folder(folder, "--resume", expect=RUN)
    edit(path, lambda job: job["operations"][3].pop("tolerance"))
    shutil.copy(folder / "out.h5", folder / "kept.h5")
    assert run_folder(folder, "--resume", expect=USAGE)  # it is another job
    edit(path, lambda job: job["operations"].pop())
    edit(path, lambda job: job["inputs"].pop("r"))
    run_folder(folder, "--overwrite")
    assert_good(folder)


def test_only_a_part_of_the_job(folder):
    simple(folder)
    run_folder(folder, "--only", "twice")
    with h5py.File(folder / "made.h5") as file:
        assert file.attrs["results"] == 1 and "sum" not in file
    done = run_folder(folder, "--resume")
    assert done.stderr.count("kept from before") == 1
    assert_good(folder)


def test_another_place(folder):
    """A `to` that is edited, or taken away, costs no run."""
    path = simple(folder)
    run_folder(folder)
    for number, name in enumerate(["/g/twice", "/sum"]):
        edit(path, lambda job, i=number, to=name: job["operations"][i].update(to=f"moved.h5:{to}"))
    assert run_folder(folder, "--resume").stderr.count("kept from before") == 3
    assert_good(folder, made="moved.h5")
    (folder / "made.h5").unlink()
    assert_good(folder, made="moved.h5")
    edit(path, lambda job: [job["operations"][i].pop("to") for i in (0, 1)])
    assert run_folder(folder, "--resume").stderr.count("kept from before") == 3
    (folder / "moved.h5").unlink()
    with h5py.File(folder / "out.h5") as file:
        assert not any("to_file" in item.attrs or item.is_virtual for item in file["outputs"].values())
    for places in ([], ["made.h5:/g/twice"], ["made.h5:/g/twice", "made.h5:/sum"]):  # and back again
        for number, to in enumerate(places):
            edit(path, lambda job, i=number, to=to: job["operations"][i].update(to=to))
        again = run_folder(folder, "--resume").stderr
        assert "nothing to do" in again if not places else again.count("kept from before") == 3
    assert_good(folder)


def test_a_file_that_is_gone_is_named(folder):
    simple(folder)
    run_folder(folder)
    (folder / "made.h5").rename(folder / "away.h5")
    for command in (["compare", folder / "out.h5", folder / "out.h5"], ["reproduce", folder / "out.h5"]):
        done = harness.tilerun(*command)
        words = "/outputs/twice in out.h5 shows '/g/twice' in made.h5, which is not there".split()
        assert done.returncode == RUN and set(words) <= set(done.stdout.replace(f"{folder}/", "").split()), done.stdout
    assert harness.tilerun("show", folder / "out.h5").returncode == OK
    assert harness.tilerun("report", folder / "out.h5", "-o", folder / "r.html").returncode == OK
    run_folder(folder, "--resume")
    assert_good(folder)


def test_a_results_file_that_is_moved_alone(folder):
    """It opens, and says of a large result what it lacks; small ones it has. A job that reads it is told so."""
    simple(folder)
    run_folder(folder)
    (folder / "away").mkdir()
    moved = folder / "away/out.h5"
    (folder / "out.h5").rename(moved)
    with h5py.File(moved) as file:
        assert np.isnan(file["outputs/twice"][()]).all()
        np.testing.assert_array_equal(file["outputs/sum"][()], 2 * np.arange(64 * 1024.0).reshape(64, 1024).sum(1))
    lack = "'/g/twice' in made.h5, which is not there"
    for name, expect in (("twice", USAGE), ("sum", OK)):
        job = harness.write_job(
            folder / "next.yaml", device="cpu", inputs={"x": {"file": "away/out.h5", "dataset": f"/outputs/{name}"}},
            defaults={"warmup": 0, "repeat": 1}, operations=[{"id": "y", "op": "scale", "inputs": ["x"], "alpha": 1}],
        )  # fmt: skip
        done = harness.tilerun("run", job, "-o", folder / "next.h5", "--overwrite")
        assert done.returncode == expect and (lack in done.stderr) == (expect == USAGE), done.stderr
    for command in ("compare", moved, moved), ("reproduce", moved, "--threshold", "1000%"):
        done = harness.tilerun(*command)
        assert done.returncode == RUN and "/outputs/twice" in done.stdout and lack.split(",")[0] in done.stdout
    assert harness.tilerun("show", moved).returncode == OK
    done = run_folder(folder, "--resume", "-o", moved)
    assert done.stderr.count("kept from before") == 2, done.stderr
    with h5py.File(moved) as file:
        np.testing.assert_array_equal(file["outputs/twice"][()], 2 * np.arange(64 * 1024.0).reshape(64, 1024))


def test_another_job_has_replaced_the_file(folder):
    """What lies there has the same names, type and shape, but other values."""
    path = simple(folder)
    run_folder(folder)
    text = path.read_text()
    edit(path, lambda job: job["operations"][0].update(alpha=5))
    run_folder(folder, "-o", folder / "other.h5", "--overwrite")
    path.write_text(text)
    assert run_folder(folder, "--resume", expect=USAGE)
    assert run_folder(folder, "--resume", "--overwrite").stderr.count("kept from before") == 2
    assert_good(folder)


def test_many_files_of_one_sweep(folder):
    """More files than descriptors."""
    count = 300
    harness.write_job(
        folder / "job.yaml",
        device="cpu",
        parameters={"n": list(range(count))},
        inputs={"x": {"random": {"shape": [8], "seed": "$n"}}},
        defaults={"warmup": 0, "repeat": 1},
        operations=[
            {"id": "y", "op": "scale", "inputs": ["x"], "alpha": "$n", "to": "y-$n.h5:/y"},
            {"id": "z", "op": "scale", "inputs": ["y"], "alpha": 2, "to": "z.h5:/$n/z"},
        ],
    )
    run_folder(folder, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100)))
    with h5py.File(folder / "out.h5") as file, h5py.File(folder / "z.h5") as all_of_them:
        for n in (0, 7, count - 1):
            np.testing.assert_array_equal(2 * file[f"outputs/n={n}/y"][()], all_of_them[f"{n}/z"][()])
    assert len(list(folder.glob("y-*.h5"))) == count


def test_store_all(folder):
    """The result goes there, the other variants' outputs lie in the results file."""
    path = simple(folder)
    edit(path, lambda job: job["operations"][0].update(store="all", variants=["cpu", "blocked"], op="transpose"))
    edit(path, lambda job: job["operations"][0].pop("alpha"))
    run_folder(folder)
    with h5py.File(folder / "out.h5") as file:
        assert file["variants/twice/cpu"].is_virtual and not file["variants/twice/blocked"].is_virtual
        assert file["outputs/twice"] == file["variants/twice/cpu"]
        np.testing.assert_array_equal(file["variants/twice/cpu"][()], file["variants/twice/blocked"][()])


def test_moved_together(folder):
    home = folder / "home"
    home.mkdir()
    simple(home)
    run_folder(home)
    home.rename(folder / "away")
    assert_good(folder / "away")


def test_the_example_of_the_readme(folder):
    text = (harness.ROOT / "configs/README.md").read_text()
    section = re.search(r"^## Results in files of their own\n(.*?)^## ", text, re.M | re.S)[1]
    (folder / "job.yaml").write_text(re.search(r"```yaml\n(.*?)```", section, re.S)[1])
    shutil.copy(harness.ROOT / "data/digits.h5", folder)
    run_folder(folder, "--device", "cpu", "--once")
    with h5py.File(folder / "digits.h5") as file:
        pixels = file["pixels"][()]
    with h5py.File(folder / "processed.h5") as file, h5py.File(folder / "out.h5") as results_file:
        np.testing.assert_allclose(file["stack/mean"][()], pixels.mean(0))
        np.testing.assert_array_equal(file["stack/by_pixel"][()], pixels.T)
        assert file["stack/by_pixel"].chunks == (8, 1797) and file["stack/by_pixel"].compression == "gzip"
        np.testing.assert_array_equal(results_file["outputs/mean"][()], file["stack/mean"][()])
    for n in (600, 1200):
        with h5py.File(folder / f"first-{n}.h5") as file:
            np.testing.assert_allclose(file["mean"][()], pixels[:n].mean(0))
