"""The tutorials' experiments, configs/seeds: each job says what it shows, is good, and runs without a GPU; what it must
show holds where that concerns the CPU; and the committed results come out again. (Traffic, which needs a GPU to be
planned for, is in test_traffic.py.)"""

import re
import shutil

import h5py
import numpy as np
import pytest

import harness

FOLDER = harness.ROOT / "configs/seeds"
SEEDS = sorted(path.stem for path in FOLDER.glob("*.yaml"))
# Smaller than the tutorials', so that all of them together take a second.
SMALL = {"s1": ["n=64"], "s2": ["width=64", "m=33", "n=43", "k=70"], "s4": ["n=256"], "s5": ["n=256"], "s6": ["n=64"]}


def run(folder, seed, *arguments):
    sets = [word for assignment in SMALL.get(seed, []) for word in ("--set", assignment)]
    output = folder / f"{seed}.h5"
    harness.tilerun(
        "run", FOLDER / f"{seed}.yaml", *sets, "--device", "cpu", "-o", output, *arguments, expect=harness.OK
    )
    return harness.Results(output)


def test_all_are_there():
    assert SEEDS == ["s1", "s2", "s3", "s4", "s5", "s6", "s7"]
    rows = re.findall(r"^\| `(\w+)\.yaml` \|", (FOLDER / "README.md").read_text(), re.M)
    assert rows == SEEDS


@pytest.mark.parametrize("seed", SEEDS)
def test_says_what_it_shows(seed):
    """In the comment that it opens with, in this order: the subject, the tutorial's figures, the relation, ours."""
    comment = re.match(r"(?:#.*\n)+", (FOLDER / f"{seed}.yaml").read_text())[0]
    paragraphs = [rf"\A# {seed.upper()}: ", r"^# The tutorial", r"^# Must show: "]
    if seed != "s7":
        paragraphs.append(r"^# Measured on an H200")
    places = [re.search(paragraph, comment, re.M) for paragraph in paragraphs]
    assert None not in places, comment
    assert [place.start() for place in places] == sorted(place.start() for place in places)


@pytest.mark.parametrize("seed", SEEDS)
def test_is_good(seed):
    done = harness.tilerun("check", FOLDER / f"{seed}.yaml")
    assert (done.returncode, done.stdout, done.stderr) == (harness.OK, "", "")


@pytest.mark.parametrize("seed", SEEDS)
def test_runs_without_a_gpu(folder, seed):
    """Every operation gives a result, and what needs a GPU is skipped, for that reason."""
    results = run(folder, seed, "--once")
    assert {row["status"] for row in results.rows} <= {"ok", "skipped"}
    for row in results.rows:
        assert (row["status"] == "ok") == (row["variant"] in ("cpu", "blocked")), row
        assert row["status"] == "ok" or re.search("CUDA|GPU|cpu", row["message"]), row
    for row in results.rows:
        done = [r for r in results.rows if (r["operation"], r["parameters"]) == (row["operation"], row["parameters"])]
        assert any(r["status"] == "ok" for r in done)


def least_s(results, operation, variant):
    """The least of the times: other programs on this machine do not make it less."""
    return results.row(operation, variant)["kernel_min_s"]


def test_s1_blocks_and_vectors_beat_the_triple_loop(folder):
    """About 200 times at 256 x 256; a tenth of what that leaves is asked for."""
    results = run(folder, "s1", "--set", "n=256", "--repeat", "5")
    assert least_s(results, "product", "cpu") > 3 * least_s(results, "product", "blocked")


def test_s2_edges(folder):
    """Of shapes that no tile divides, every element is compared."""
    results = run(folder, "s2", "--verify", "full")
    assert results.row("rectangular", "blocked")["shape"] == "33x70x43"
    assert results.output("rectangular").shape == (33, 70)


def test_s3_vectors_beat_one_after_the_other(folder):
    results = run(folder, "s3", "--repeat", "30")
    assert least_s(results, "total", "cpu") > least_s(results, "total", "blocked")
    assert results.output("total") == pytest.approx(500_000, rel=1e-2)


def test_s7_every_integer_is_right(folder):
    output = run(folder, "s7").output("incremented")
    assert output.dtype == np.int32
    assert np.array_equal(output, np.arange(1, 100_001))


# ---- configs/seeds/results -----------------------------------------------------------------------------------------

RESULTS = sorted((FOLDER / "results").glob("*.h5"))


def test_results_are_small_and_of_the_jobs():
    assert [path.stem for path in RESULTS] == ["s1-cpu", "s3-cpu", "s4-h200", "s5-h200", "s7-cpu"]
    assert sum(path.stat().st_size for path in RESULTS) < 300_000
    for path in RESULTS:
        with h5py.File(path) as file:
            job = (FOLDER / f"{path.stem.split('-')[0]}.yaml").read_text()
            assert harness.without_comments(file["job"][()].decode()) == harness.without_comments(job), "the job has changed: rerun it"
            assert file.attrs["status"] == "complete" and not file.attrs["git_commit"].endswith("-dirty")


ON_A_GPU = [pytest.param(path, marks=[pytest.mark.gpu] * ("h200" in path.stem), id=path.stem) for path in RESULTS]


@pytest.mark.parametrize("path", ON_A_GPU)
def test_results_are_reproduced(folder, path):
    """Every output, to the bit or, on another kind of machine, within the tolerances. Times are not a matter of right
    and wrong here: whoever reads this shares the machine with other tests."""
    copy = folder / path.name
    shutil.copy(path, copy)
    done = harness.tilerun("reproduce", copy, *([] if "h200" in path.stem else ["--device", "cpu"]))
    assert done.returncode in (harness.OK, harness.RUN), done.stderr
    totals = re.search(r"^outputs: (\d+) of (\d+) identical(?:, (\d+) within tolerance)?; times: ", done.stdout, re.M)
    assert totals, done.stdout
    assert int(totals[1]) + int(totals[3] or 0) == int(totals[2]) == (0 if path.stem.startswith("s4") else 1)
    assert sorted(folder.iterdir()) == [copy]


def test_a_changed_result_is_not_reproduced(folder):
    copy = folder / "s7.h5"
    shutil.copy(FOLDER / "results/s7-cpu.h5", copy)
    with h5py.File(copy, "r+") as file:
        file["outputs/incremented"][13] += 1
    done = harness.tilerun("reproduce", copy, "--device", "cpu", expect=harness.RUN)
    assert "outputs: 0 of 1 identical, 1 differ" in done.stdout, done.stdout
