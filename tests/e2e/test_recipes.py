"""The examples of configs/results.md, "Reading results": each is run as printed, and says what the file holds."""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys

import h5py
import pytest

import harness

pytestmark = pytest.mark.xdist_group("recipes")  # they share two results files

TEXT = (harness.ROOT / "configs/results.md").read_text()
SECTION = re.search(r"^## Reading results\n(.*?)^## ", TEXT, re.M | re.S)[1]
LINES = [line for block in re.findall(r"```sh\n(.*?)```", SECTION, re.S) for line in block.splitlines()]
SCRIPTS = re.findall(r"```python\n(.*?)```", SECTION, re.S)


@pytest.fixture(scope="module")
def place(memory_folder):
    folder = memory_folder / "recipes"
    folder.mkdir()
    for name in ("quickstart.h5", "again.h5"):
        job = harness.ROOT / "configs/quickstart.yaml"
        harness.tilerun("run", job, "--set", "repeat=2", "--device", "cpu", "-o", name, cwd=folder, expect=harness.OK)
    return folder


@pytest.fixture
def results(place):
    return harness.Results(place / "quickstart.h5")


def run(place, command):
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C.UTF-8"})
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout


def near(values, said, rel=1e-4, **tolerance):
    """Are these numbers what was printed?"""
    return [float(word) for word in said] == pytest.approx([float(value) for value in values], rel, **tolerance)


def test_all_are_found():
    assert len(LINES) == 6 and len(SCRIPTS) == 3
    assert {line.split()[0] for line in LINES} == {"h5ls", "h5dump", "h5diff"}
    assert [re.match(r"# (\w+)", script)[1] for script in SCRIPTS] == ["h5py", "pandas", "xarray"]


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.split("  ")[0])
def test_tool(place, results, line):
    words = shlex.split(line, comments=True)
    if not shutil.which(words[0]):
        pytest.skip(f"no {words[0]} (Debian: hdf5-tools)")
    said = run(place, words)
    if words[0] == "h5ls":
        with h5py.File(results.path) as file:
            for name in ["runs", "job", *harness.dataset_names(file, "outputs", "samples")]:
                assert re.search(rf"^/{name} +Dataset", said, re.M), name
    elif "/runs" in words:
        for row in results.rows:
            assert re.search(rf'\({row["run"]}\): {{\s+{row["run"]},\s+"{row["operation"]}[^"]*",', said)
    elif "/status" in words:
        assert '(0): "complete"' in said
    elif words[0] == "h5dump":
        values = re.findall(r"\(\d+,\d+\): (.*?),?\n", said)
        assert near(results.output("gram")[9:11, 9:13].ravel(), ", ".join(values).split(", "))
    else:
        assert set(re.findall(r"^(\d+) differences", said, re.M)) == ({"0"} if "-r" in words else set())


def test_h5diff_finds_a_difference(place, folder):
    if not shutil.which("h5diff"):
        pytest.skip("no h5diff (Debian: hdf5-tools)")
    for name in ("quickstart.h5", "again.h5"):
        shutil.copy(place / name, folder)
    with h5py.File(folder / "again.h5", "r+") as file:
        file["outputs/gram"][9, 9] += 1
    for line in LINES:
        if line.startswith("h5diff"):
            done = subprocess.run(shlex.split(line, comments=True), cwd=folder, capture_output=True, text=True)
            assert done.returncode == 1
            assert "-r" not in line or "[ 9 9 ]" in done.stdout


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.split()[1].strip(":,"))
def test_script(place, results, script):
    for module in re.findall(r"^import (\w+)", script, re.M):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"no {module}")
    said = run(place, [sys.executable, "-c", script])
    ok = [row for row in results.rows if row["status"] == "ok"]
    corner = results.output("gram")[9, 9:13]
    if script.startswith("# pandas"):
        for row in ok:
            assert row["variant"] in said and row["operation"] in said
            numbers = re.findall(r"\d[\d.e-]+", said)  # pandas prints six digits behind the point
            assert any(near([row["kernel_median_s"]], [number], abs=1e-6) for number in numbers), row
        return
    assert near(corner, re.search(r"\[(.*?)\] cpu", said)[1].split())
    if script.startswith("# h5py"):
        for row, line in zip(ok, said.splitlines()):
            assert line.split()[:2] == [row["operation"], row["variant"]]
            assert near([row["kernel_min_s"]], line.split()[2:])
