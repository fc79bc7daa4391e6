"""`make lint` refuses an #include that goes up, or across from one operation to another."""

import os
import shutil
import subprocess

import pytest

import harness

HEADERS = {"runner/commands": "commands/command.h", "runner/execute": "execute/execute.h",
           "runner/report": "report/report.h", "runner/compare": "compare/compare.h", "runner/show": "show/result_file.h",
           "runner/store": "store/store.h", "runner/record": "record/row.h", "runner/verify": "verify/verify.h",
           "runner/limits": "limits/limits_file.h", "runner/stream": "stream/stream.h",
           "runner/divide": "divide/shard.h", "runner/plan": "plan/plan.h", "runner/storage": "storage/array.h",
           "runner/storage/raw": "storage/raw/rawread.h", "runner/storage/untrusted": "storage/untrusted/h5open.h",
           "runner/storage/h5": "storage/h5/h5io.h", "runner/storage/elements": "storage/elements/layout.h",
           "runner/job": "job/job.h", "runner/base": "base/fail.h",
           "kernels/reduce/tuned": "../kernels/reduce/tuned/exact.h", "kernels/reduce": "../kernels/reduce/state.h",
           "kernels/core": "../kernels/core/kernel.h"}
LAYERS = ["runner/main.c", *HEADERS]


@pytest.fixture
def copy(folder):
    for part in ("runner", "kernels"):
        shutil.copytree(harness.ROOT / part, folder / part)
    return folder


def check(tree):
    return subprocess.run([harness.ROOT / "tests/layers.sh", tree], capture_output=True, text=True)


def plant(tree, layer, header):
    """Adds a file to a layer that includes a header."""
    place = layer if layer == "runner/main.c" else None
    path = tree / (place or f"{layer}/planted.c")
    to_runner = "" if place else os.path.relpath("runner", layer) + "/"
    text = path.read_text() if place else ""
    path.write_text(text + f'/* planted */\n#include "{to_runner}{header}"\n')
    return f"{path.relative_to(tree)}:{len(text.splitlines()) + 2}: includes "


def test_the_tree_is_in_order(copy):
    done = check(copy)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_any_wrong_include_is_refused(copy, rng):
    for above, below in [(i, j) for i in range(1, len(LAYERS)) for j in range(i + 1, len(LAYERS))]:
        if rng.random() < 0.8:
            continue
        with_planted = copy.parent / f"{copy.name}-{above}-{below}"
        shutil.copytree(copy, with_planted)
        where = plant(with_planted, LAYERS[below], HEADERS[LAYERS[above]])
        done = check(with_planted)
        shutil.rmtree(with_planted)
        assert done.returncode == 1 and done.stdout.startswith(where), done.stdout
        assert f"{LAYERS[below]} is below {LAYERS[above]}: move what is needed down" in done.stdout


def test_down_is_allowed(copy):
    for above in range(len(LAYERS)):
        for below in range(above + 1, len(LAYERS)):
            plant(copy, LAYERS[above], HEADERS[LAYERS[below]])
    assert check(copy).returncode == 0


def test_operations_stand_apart(copy):
    for planted in ("scale/planted.cuh", "matmul/tuned/planted.cuh"):
        where = copy / "kernels" / planted
        where.write_text(f'#include "{os.path.relpath(copy / "kernels/reduce/state.h", where.parent)}"\n')
        done = check(copy)
        assert done.returncode == 1 and "operations share only what is in kernels/core" in done.stdout
        where.unlink()


def test_a_new_folder_has_to_be_named(copy):
    (copy / "runner/cellar").mkdir()
    (copy / "runner/cellar/wine.c").write_text('#include "../base/fail.h"\n')
    done = check(copy)
    assert done.returncode == 1 and "runner/cellar is in none of the layers" in done.stdout
