"""Inputs by pattern: each match a value of a sweep, or all of them one array."""

import os
import random
import re
import shutil

import h5py
import numpy as np
import pytest
from shards import merge, shard

import harness
from harness import IO, OK, USAGE, run_folder

CASES = int(os.environ.get("TILERUN_CASES") or 24)
SEED = int(os.environ.get("TILERUN_SEED") or 20284)
TYPES = ["float32", "float64", "float16", "int16", "uint8", "int64", ">f4", ">i2"]
LAYOUTS = [
    {},
    {"chunks": True},
    {"compression": "gzip", "shuffle": True},
    {"compression": "lzf"},
    {"fletcher32": True},
    {"compression": "gzip", "scaleoffset": 0},  # read by HDF5
]


def natural(name):
    return [(0, int(part), part) if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", name) if part]


def write(path, values, **layout):
    with h5py.File(path, "w") as file:
        if 0 in values.shape or (layout.get("scaleoffset") is not None and values.dtype.kind == "f"):
            layout = {}
        file.create_dataset("group/x", data=values, **layout)


def job_of(folder, inputs, operations, **more):
    more = {"device": "cpu", "defaults": {"warmup": 0, "repeat": 1}} | more
    return harness.write_job(folder / "job.yaml", inputs=inputs, operations=operations, **more)


def draw_names(draw, count):
    """Names whose natural order is not that of their bytes."""
    numbers = draw.sample(range(1, 200), count)
    return [draw.choice([f"run-{n}.h5", f"run-{n:04}.h5", f"run-{n}a.h5"]) for n in numbers]


# ---- one array of all files ------------------------------------------------------------------------------------------


def draw_files(draw, folder, sides=(1, 2, 7, 30, 65)):
    """Writes files and returns what they are together: the array, and the axis."""
    rng = np.random.default_rng(draw.randrange(10**6))
    rank = draw.choice([1, 2, 2, 3])
    axis = draw.randrange(rank)
    shape = [draw.choice(sides) for _ in range(rank)]
    dtype = np.dtype(draw.choice(TYPES))
    layouts = draw.sample(LAYOUTS, 2)
    arrays = []
    names = sorted(draw_names(draw, draw.choice([1, 2, 5, 20])), key=natural)
    for name in names:
        shape[axis] = draw.choice([0, 1, 3, 20, 100]) if len(names) > 1 else 20
        values = rng.integers(0, 100, shape).astype(dtype)
        write(folder / name, values, **draw.choice(layouts))
        arrays.append(values)
    if sum(array.shape[axis] for array in arrays) == 0:
        arrays[0] = np.ones([*shape[:axis], 4, *shape[axis + 1 :]], dtype)
        write(folder / names[0], arrays[0])
    return np.concatenate(arrays, axis), axis


@pytest.mark.parametrize("case", range(CASES))
def test_drawn_files_as_one_array(folder, case):
    draw = random.Random(SEED * 1000 + case)
    (folder / "data").mkdir()
    whole, axis = draw_files(draw, folder / "data")
    entry = {"file": "data/run-*.h5", "dataset": "group/x", "concatenate": axis}
    if draw.random() < 0.4:
        first = draw.randrange(whole.shape[0])
        entry["rows"] = [first, draw.randrange(whole.shape[0] - first + 1)]
        whole = whole[first : first + entry["rows"][1]]
    along = draw.randrange(whole.ndim)
    operations = [
        {"id": "copy", "op": "scale", "inputs": ["x"], "alpha": 1, "store": "first"},
        {"id": "sum", "op": "reduce", "inputs": ["x"], "operator": "max", "axis": along},
        {"id": "flipped", "op": "transpose", "inputs": ["x"], "variants": draw.choice([["cpu"], ["blocked"]])},
    ]
    if whole.ndim == 1:
        operations.pop()
    if whole.shape[along] == 0:
        operations.pop(1)
    job_of(folder, {"x": entry}, operations, memory=draw.choice(["64KiB", "1MiB", "90%"]))
    if draw.random() < 0.4:
        count = draw.choice([1, 2, 3])
        for index in range(count):
            shard(folder, index, count, "--by", "tiles")
        merge(folder)
    else:
        run_folder(folder)
    with h5py.File(folder / "out.h5") as file:
        native = whole.astype(whole.dtype.newbyteorder("="))
        np.testing.assert_array_equal(file["outputs/copy"][()], native)
        if "sum" in file["outputs"]:
            np.testing.assert_array_equal(file["outputs/sum"][()], native.max(along))
        if "flipped" in file["outputs"]:
            np.testing.assert_array_equal(file["outputs/flipped"][()], native.swapaxes(-1, -2))
        joined = file["inputs/x"].attrs["xxh3"]
        assert file["inputs/x"].attrs["concatenate"] == axis
        assert file["inputs/x"].attrs["files"] == len(list((folder / "data").iterdir()))

    # the hash, and so the keys of runs, is that of the same values in one file
    write(folder / "one.h5", whole)
    job_of(folder, {"x": {"file": "one.h5", "dataset": "group/x"}}, operations)
    (folder / "out.h5").unlink()
    run_folder(folder)
    with h5py.File(folder / "out.h5") as file:
        assert file["inputs/x"].attrs["xxh3"] == joined


def three(folder, along=0):
    for number, name in enumerate(["run-2.h5", "run-10.h5", "run-1.h5"]):
        write(folder / name, np.full((4, 6), number * 1.0))
    entry = {"file": "run-*.h5", "dataset": "group/x", "concatenate": along}
    return job_of(folder, {"x": entry}, [{"id": "y", "op": "scale", "inputs": ["x"], "alpha": 2}])


@pytest.mark.parametrize("axis, shape", [(0, (12, 6)), (1, (4, 18))])
def test_order(folder, axis, shape):
    three(folder, axis)
    run_folder(folder)
    result = harness.Results(folder / "out.h5").output("y")
    assert result.shape == shape
    assert (result[0, 0], result[-1, -1]) == (4, 2)


@pytest.mark.parametrize(
    "other, words",
    [
        (np.zeros((4, 7)), "is float64 4x7, but float64 4x6 in"),
        (np.zeros((4, 6), "f4"), "is float32 4x6, but float64 4x6 in"),
        (np.zeros((4, 6, 1)), "is float64 4x6x1, but float64 4x6 in"),
        (np.zeros(6), "is float64 6, but float64 4x6 in"),
    ],
)
def test_a_file_that_differs_is_named(folder, other, words):
    job = three(folder)
    write(folder / "run-7.h5", other)
    for command in ("check", "run"):
        done = harness.tilerun(command, job)
        assert done.returncode == USAGE and re.search(rf"run-7.h5: 'group/x' {words} \S*run-1.h5", done.stderr)


def test_a_file_that_cannot_be_read_is_named(folder):
    job = three(folder)
    (folder / "run-7.h5").write_text("text")
    done = harness.tilerun("check", job)
    assert done.returncode == USAGE and "run-7.h5: is not an HDF5 file" in done.stderr, done.stderr
    with h5py.File(folder / "run-7.h5", "w") as file:
        file["group/y"] = 1
    done = harness.tilerun("check", job)
    assert done.returncode == USAGE and "run-7.h5: has no data set 'group/x'" in done.stderr


def test_an_axis_that_is_not_there(folder):
    job = three(folder, 2)
    done = harness.tilerun("check", job)
    assert done.returncode == USAGE and "has 2 axes, and cannot be concatenated along axis 2" in done.stderr


@pytest.mark.parametrize("said", ["length", None])
def test_what_goes_with_the_values(folder, said):
    """What all files say alike; labels and scales of the axes that they have in common."""
    three(folder)
    for name in ("run-1.h5", "run-2.h5", "run-10.h5"):
        with h5py.File(folder / name, "a") as file:
            x = file["group/x"]
            x.attrs["units"] = "m"
            x.attrs["long_name"] = said or name
            file["t"], file["f"] = np.arange(4.0), np.arange(6.0) * 3
            for axis, scale in enumerate("tf"):
                file[scale].make_scale(scale)
                x.dims[axis].attach_scale(file[scale])
            x.dims[1].label = "frequency"
    run_folder(folder)
    with h5py.File(folder / "out.h5") as file:
        y = file["outputs/y"]
        assert y.attrs["units"] == "m" and y.attrs.get("long_name") == said
        assert y.dims[0][0].name == "/outputs/axis_0" and y.dims[1].label == "frequency"
        np.testing.assert_array_equal(y.dims[1][0][()], np.arange(6.0) * 3)


def test_units_that_differ_are_named(folder):
    """Times since another day, kelvins and degrees: one array of them is no quantity."""
    three(folder)
    for name, units in (("run-1.h5", "d since 2000"), ("run-2.h5", "d since 2000"), ("run-10.h5", "d since 2001")):
        with h5py.File(folder / name, "a") as file:
            file["group/x"].attrs["units"] = units
    words = "input 'x': units differ: 'd since 2000' in run-1.h5, 'd since 2001' in run-10.h5"
    assert words in run_folder(folder).stderr.replace(f"{folder}/", "")
    with h5py.File(folder / "out.h5") as file:
        assert "units" not in file["outputs/y"].attrs


@pytest.mark.parametrize("last, differ", [(90, False), (90 + 1e-6, False), (-90, True)])
def test_coordinates_that_differ_are_named(folder, last, differ):
    """Tiles of another region, latitudes in the other order: one array of them has no coordinates."""
    three(folder)
    for number, name in enumerate(("run-1.h5", "run-2.h5", "run-10.h5")):
        with h5py.File(folder / name, "a") as file:
            file["lat"] = np.linspace(0, last if number == 2 else 90, 6).astype("f8" if number else "f4")
            file["lat"].make_scale("lat")
            file["group/x"].dims[1].attach_scale(file["lat"])
    words = "input 'x': coordinates of axis 1 differ in run-1.h5 and run-10.h5, and are left out"
    assert (words in run_folder(folder).stderr.replace(f"{folder}/", "")) == differ
    with h5py.File(folder / "out.h5") as file:
        assert len(file["outputs/y"].dims[1]) == (not differ)


# y = x, once there is a file of this name.
WAIT = """#include "tilerun.h"
#include <unistd.h>
int wait(const struct launch *launch) {
    const struct scale_args *args = &launch->args.scale;
    while (access("%s", F_OK) != 0) usleep(1000);
    for (int64_t i = 0; i < args->count; i++) ((T *)args->y)[i] = ((const T *)args->x)[i];
    return 0;
}
"""


@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
@pytest.mark.parametrize("deed", ["replaced", "gone", "changed"])
def test_a_file_that_changes_while_the_job_runs(folder, deed):
    """More files than are open at a time."""
    for number in range(40):
        write(folder / f"run-{number}.h5", np.full((64, 512), number * 1.0))
    entry = {"file": "run-*.h5", "dataset": "group/x", "concatenate": 0}
    operations = [
        {"id": "s", "op": "reduce", "inputs": ["x"], "operator": "sum", "axis": 0, "repeat": 3},
        {"id": "wait", "op": "scale", "inputs": ["one"], "variants": [{"source": "wait.c"}]},
        {"id": "y", "op": "scale", "inputs": ["x"], "alpha": 2},
    ]
    (folder / "wait.c").write_text(WAIT % str(folder / "changed"))
    job = job_of(folder, {"x": entry, "one": {"random": {"shape": [1]}}}, operations, memory="64KiB")
    process = harness.start("run", job, "-o", folder / "out.h5", "--progress", "plain", "--allow-source")
    while ": ok" not in (line := process.stderr.readline()):
        assert process.poll() is None, line
    if deed == "changed":
        with h5py.File(folder / "run-7.h5", "a") as file:
            file["group/x"][0, 0] = 5
    else:
        (folder / "run-7.h5").unlink()
    if deed == "replaced":
        write(folder / "run-7.h5", np.full((64, 512), 6.0))
    (folder / "changed").touch()
    _, stderr = process.communicate()
    assert process.returncode == IO and "run-7.h5" in stderr, stderr
    assert not (folder / "out.h5").exists()
    harness.tilerun("run", job, "-o", folder / "out.h5", "--resume", "--allow-source", expect=OK)
    total = harness.Results(folder / "out.h5").output("s")
    assert total[5] == sum(64 * n for n in range(40) if n != 7) + 64 * {"replaced": 6, "gone": 0, "changed": 7}[deed]


def test_reproduced_elsewhere(folder):
    three(folder)
    run_folder(folder)
    done = harness.tilerun("reproduce", folder / "out.h5")
    assert done.returncode == OK and "1 of 1 identical" in done.stdout, done.stderr
    (folder / "moved").mkdir()
    for name in ("run-1.h5", "run-2.h5", "run-10.h5"):
        (folder / name).rename(folder / "moved" / name)
    done = harness.tilerun("reproduce", folder / "out.h5")
    assert done.returncode == USAGE and "was not found" in done.stderr
    done = harness.tilerun("reproduce", folder / "out.h5", "--inputs", folder / "moved")
    assert done.returncode == OK and "1 of 1 identical" in done.stdout, done.stderr
    shutil.copy(folder / "moved/run-1.h5", folder / "moved/run-3.h5")
    done = harness.tilerun("reproduce", folder / "out.h5", "--inputs", folder / "moved")
    assert done.returncode == 1 and "have changed" in done.stderr


def test_none_of_them_is_overwritten(folder):
    job = three(folder)
    for name in ("run-1.h5", "run-10.h5"):
        done = harness.tilerun("run", job, "-o", folder / name, "--overwrite")
        assert done.returncode == USAGE and "is the job's input 'x'" in done.stderr, done.stderr


# ---- a sweep -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", range(CASES // 4))
def test_drawn_sweeps(folder, case):
    """Each file by itself, in natural order; $x in other places is its name."""
    draw = random.Random(SEED * 2000 + case)
    (folder / "data [1]").mkdir()
    (folder / "made").mkdir()
    names = draw_names(draw, draw.choice([1, 3, 12]))
    arrays = {}
    for name in names:
        arrays[name[:-3]] = np.random.default_rng(len(arrays)).random((5, 3))
        write(folder / "data [1]" / name, arrays[name[:-3]])
    (folder / "data [1]/run-999.h5").mkdir()  # a folder does not match
    harness.write_job(
        folder / "data [1]/job.yaml",
        device="cpu",
        parameters={"which": "run", "factor": [1, 2]},
        inputs={"x": {"file": "$which-*.h5", "dataset": "group/x"}},
        defaults={"warmup": 0, "repeat": 1},
        operations=[{"id": "y", "op": "scale", "inputs": ["x"], "alpha": "$factor", "to": "../made/$x-$factor.h5:/y"}],
    )
    output = folder / "out.h5"
    harness.tilerun("run", folder / "data [1]/job.yaml", "-o", output, expect=OK)
    ordered = sorted(arrays, key=natural)
    results = harness.Results(output)
    assert [row["parameters"] for row in results.rows] == [f"factor={f},x={name}" for f in (1, 2) for name in ordered]
    assert [row["p_x"] for row in results.rows] == ordered * 2
    for name, values in arrays.items():
        with h5py.File(folder / f"made/{name}-2.h5") as file:
            np.testing.assert_array_equal(file["y"][()], 2 * values)
    one = draw.choice(ordered)
    chosen = ["--set", f"x={one}", "--overwrite"]
    harness.tilerun("run", folder / "data [1]/job.yaml", "-o", folder / "one.h5", *chosen, expect=OK)
    assert {row["p_x"] for row in harness.Results(folder / "one.h5").rows} == {one}
    harness.tilerun("reproduce", output, expect=OK)


def test_a_new_file_costs_its_own_runs_alone(folder):
    for n in (1, 3):
        write(folder / f"run-{n}.h5", np.full((4, 6), n * 1.0))
    job_of(folder, {"x": {"file": "run-*.h5", "dataset": "group/x"}}, [{"id": "y", "op": "scale", "inputs": ["x"]}])
    run_folder(folder)
    write(folder / "run-2.h5", np.full((4, 6), 2.0))
    assert run_folder(folder, "--resume").stderr.count("kept from before") == 2
    assert [row["p_x"] for row in harness.Results(folder / "out.h5").rows] == ["run-1", "run-2", "run-3"]


def test_a_name_that_is_a_file_is_no_pattern(folder):
    write(folder / "x[1].h5", np.ones((2, 2)))
    write(folder / "x1.h5", np.zeros((2, 2)))
    operations = [{"id": "y", "op": "scale", "inputs": ["x"], "alpha": 2}]
    job_of(folder, {"x": {"file": "x[1].h5", "dataset": "group/x"}}, operations)
    (folder / "other").mkdir()
    harness.tilerun("run", folder / "job.yaml", "-o", folder / "other/out.h5", expect=OK)
    assert harness.Results(folder / "other/out.h5").output("y")[0, 0] == 2
    assert harness.tilerun("reproduce", folder / "other/out.h5").returncode != USAGE
    job_of(folder, {"x": {"file": "x\\[?].h5", "dataset": "group/x"}}, operations)
    run_folder(folder)
    assert harness.Results(folder / "out.h5").row("y", parameters="x=x[1]")


def test_a_file_that_is_missing_in_a_folder_with_wildcards(folder):
    place = folder / "data [1]"
    place.mkdir()
    path = job_of(place, {"x": {"file": "x.h5", "dataset": "x"}}, [{"id": "y", "op": "scale", "inputs": ["x"]}])
    assert f"{place}/x.h5: No such file or directory" in harness.said("check", path)


@pytest.mark.parametrize(
    "pattern, words",
    [
        ("rum-*.h5", "0 files match rum-*.h5; ./ has run-1.h5, run-2.h5, run-10.h5, run-11.h5 and 2 more"),
        ("other/run-*.h5", "0 files match other/run-*.h5; other/ cannot be read as a folder"),
        ("empty/*.h5", "0 files match empty/*.h5; empty/ has no file with a similar name"),
        ("Run-*.H5", "./ has run-1.h5, run-2.h5"),
    ],
)
@pytest.mark.parametrize("concatenate", [False, True])
def test_no_match(folder, pattern, words, concatenate):
    for n in (1, 2, 10, 11, 12, 13):
        write(folder / f"run-{n}.h5", np.zeros((2, 2)))
    (folder / "notes.txt").write_text("")
    (folder / "empty").mkdir()
    entry = {"file": pattern, "dataset": "group/x"} | ({"concatenate": 0} if concatenate else {})
    job_of(folder, {"x": entry}, [{"id": "y", "op": "scale", "inputs": ["x"], "to": "y-$x.h5:/y"}])
    if concatenate:
        job_of(folder, {"x": entry}, [{"id": "y", "op": "scale", "inputs": ["x"]}])
    done = harness.tilerun("check", "job.yaml", cwd=folder)
    assert done.returncode == USAGE and words in done.stderr, done.stderr
    assert "not set" not in done.stderr


def test_the_example_of_the_readme(folder):
    text = (harness.ROOT / "configs/README.md").read_text()
    section = re.search(r"^## Inputs by pattern\n(.*?)^## ", text, re.M | re.S)[1]
    (folder / "job.yaml").write_text(re.search(r"```yaml\n(.*?)```", section, re.S)[1])
    frames = {n: np.random.default_rng(n).random((6, 4, 5)) for n in (1, 2, 10)}
    for place, factor in [("raw", 1), ("dark", 0.125)]:
        (folder / place).mkdir()
        for n, values in frames.items():
            harness.write_arrays(folder / place / f"run-{n}.h5", frames=values * factor)
    run_folder(folder, "--device", "cpu", "--once")
    for n, values in frames.items():
        with h5py.File(folder / f"run-{n}.mean.h5") as file:
            np.testing.assert_allclose(file["mean"][()], values.mean(0))
            np.testing.assert_allclose(file["offset"][()], values.mean(0) / 8)
    overall = harness.Results(folder / "out.h5").output("overall")
    np.testing.assert_allclose(overall, np.concatenate([frames[1], frames[2]]).mean(0))
