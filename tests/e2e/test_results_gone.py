"""A result that is gone from a results file, or has another shape or type, is not passed over: `compare` and `reproduce`
name it and exit with 1, `--resume` makes it again."""

import os
import random
import shutil

import h5py
import numpy as np
import pytest

import harness
from harness import OK, RUN

SEED = int(os.environ.get("TILERUN_SEED", "20261125"))
CASES = int(os.environ.get("TILERUN_CASES", "10"))


def scale(name, **more):
    return {"id": name, "op": "scale", "inputs": ["x"], "alpha": 3, "variants": ["cpu"], **more}


OPERATIONS = [
    scale("copy"), scale("half", dtype="float16"), scale("none", store="none"), scale("away", to="away.h5:/away"),
    scale("shown", inputs=["w"], to="shown.h5:/g/shown"),
    {"id": "sum", "op": "reduce", "inputs": ["copy"], "operator": "sum", "axis": "all", "variants": ["cpu", "blocked"]},
    {"id": "swept", "op": "matmul", "inputs": ["r", "r"], "transpose_b": True, "variants": ["cpu", "blocked"], "store": "all"},
]  # fmt: skip


def run(folder, *more):
    return harness.tilerun("run", "job.yaml", "-o", "out.h5", "--progress", "none", *more, cwd=folder)


@pytest.fixture(scope="module")
def whole(memory_folder):
    folder = memory_folder / "whole"
    folder.mkdir()
    harness.write_arrays(folder / "in.h5", x=np.arange(12.0).reshape(3, 4))
    harness.write_job(
        folder / "job.yaml", device="cpu", parameters={"n": [2, 3]},
        inputs={"x": {"file": "in.h5", "dataset": "x"}, "r": {"random": {"shape": ["$n", 5]}}, "w": {"random": {"shape": [200, 100]}}},
        defaults={"warmup": 0, "repeat": 1, "verify": "none"}, operations=OPERATIONS,
    )  # fmt: skip
    assert run(folder).returncode == OK
    shutil.copy(folder / "out.h5", folder / "base.h5")
    assert harness.tilerun("compare", "base.h5", "out.h5", cwd=folder).returncode == OK
    assert harness.tilerun("reproduce", "out.h5", "--threshold", "1000%", cwd=folder).returncode == OK
    return folder


def stored(file):
    """Each path under which an output is stored."""
    found = []

    def visit(group, path):
        for name in group:
            if isinstance(group[name], h5py.Group):
                visit(group[name], f"{path}/{name}")
            else:
                found.append(f"{path}/{name}")

    for top in ("outputs", "variants"):
        visit(file[top], f"/{top}")
    return found


def values(path):
    with h5py.File(path) as file:
        return {name: (file[name].dtype, file[name].shape, file[name][()].tobytes()) for name in stored(file)}


def replaced(file, path, value, attributes):
    held = dict(file[path].attrs) if attributes else {}
    del file[path]
    file[path] = value
    file[path].attrs.update(held)


def damage(path, draw):
    """Takes one output or all away, or puts another in its place. Returns the paths concerned."""
    with h5py.File(path, "a") as file:
        names = stored(file)
        name = draw.choice(names)
        kind = draw.choice(["gone", "shape", "rank", "type", "text", "group", "outputs", "variants", "both", "file"])
        keeps = draw.random() < 0.5  # the attributes, which say of which variant it is
        held = file[name][()]
        if kind == "gone":
            del file[name]
        elif kind == "file":
            (path.parent / "shown.h5").unlink()
            return kind, ["/outputs/shown"]
        elif kind == "shape":
            replaced(file, name, np.zeros((7,) * max(1, np.ndim(held)), held.dtype), keeps)
        elif kind == "rank":
            replaced(file, name, np.asarray(held)[None], keeps)
        elif kind == "type":
            replaced(file, name, np.asarray(held).astype(">i4"), keeps)
        elif kind == "text":
            replaced(file, name, "text", keeps)
        elif kind == "group":
            del file[name]
            file.create_group(name)
        else:
            tops = ["outputs", "variants"] if kind == "both" else [kind]
            for top in tops:
                del file[top]
            return kind, [name for name in names if name.split("/")[1] in tops]
    return kind, [name]


@pytest.mark.parametrize("case", range(CASES))
def test_it_is_found(folder, whole, case):
    shutil.rmtree(folder)
    shutil.copytree(whole, folder)
    draw = random.Random(f"{SEED} {case}")
    kind, names = damage(folder / "out.h5", draw)
    print("seed", SEED, "case", case, kind, names)
    shutil.copy(folder / "out.h5", folder / "damaged.h5")
    read = [name for name in names if not name.startswith("/outputs/n=")]  # `store: all`: /variants hold what is compared
    for command in (
        ("compare", "base.h5", "damaged.h5"), ("compare", "damaged.h5", "base.h5"),
        ("compare", "damaged.h5", "damaged.h5"), ("reproduce", "damaged.h5", "--threshold", "1000%"),
    ):  # fmt: skip
        if not read or (command[1:] == ("damaged.h5", "damaged.h5") and kind in ("shape", "rank", "type")):
            continue  # two files that are alike
        done = harness.tilerun(*command, cwd=folder)
        assert done.returncode == RUN, (command, done.stdout, done.stderr)
        told = done.stdout + done.stderr
        gone = [name for name in read if not name.startswith("/variants")]
        assert kind in ("shape", "rank", "type", "text", "group") or all(name in told for name in gone), told
    done = run(folder, "--resume")
    assert done.returncode == OK and "nothing to do" not in done.stderr, done.stderr
    assert all(name in done.stderr for name in names if name.startswith("/outputs") and "=" not in name), done.stderr
    assert values(folder / "out.h5") == values(folder / "base.h5")
    assert "nothing to do" in run(folder, "--resume").stderr
