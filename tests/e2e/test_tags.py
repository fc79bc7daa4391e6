"""Tags: attributes of the results file, columns on request in every form, and what compare and report say of them."""

import csv
import io
import json

import h5py
import pytest

import harness
from harness import OK, RUN, USAGE

TAGS = {"experiment": 'shared, "1" é', "card": "h200", "trial": 3, "share": 0.25, "big-one": 9007199254740993}


def run(folder, name, tags):
    folder.mkdir(exist_ok=True)
    operation = {"id": "p", "op": "transpose", "inputs": ["A"], "repeat": 2}
    job = harness.write_job(
        folder / f"{name}.yaml", device="cpu", tags=tags, parameters={"n": [4, 8]},
        inputs={"A": {"random": {"shape": ["$n", 5]}}}, operations=[operation],
    )  # fmt: skip
    harness.tilerun("run", job, "-o", folder / f"{name}.h5", expect=OK)
    return folder / f"{name}.h5"


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return run(tmp_path_factory.mktemp("tags"), "one", TAGS)


def test_columns(results):
    names = [f"tag.{name}" for name in TAGS]
    chosen = ["--columns", ",".join(["n", "status", "kernel_median_s", *names])]
    with h5py.File(results) as file:
        attributes = {f"tag.{name}": file.attrs[name] for name in TAGS}
    for row in json.loads(harness.quiet("show", results, "--json", *chosen)):
        assert {name: row[name] for name in names} == attributes and row["n" if "n" in row else "p_n"] in (4, 8)
        assert row["kernel_median_s"] > 0 and row["status"] == "ok"
    for row in csv.DictReader(io.StringIO(harness.quiet("show", results, "--csv", *chosen))):
        assert {name: type(attributes[name])(row[name]) for name in names} == attributes
    for form in ([], ["--md"]):
        assert "h200" in harness.quiet("show", results, "--columns", "n,tag.card", *form)
    assert "h200" not in harness.quiet("show", results) + harness.quiet("show", results, "--csv")


@pytest.mark.parametrize(
    "condition, count",
    [("tag.card=h200", 2), ("tag.card!=h200", 0), ("tag.trial>=3", 2), ("tag.share<0.2", 0), ("tag.trial=3", 2)],
)
def test_conditions(results, condition, count):
    done = harness.tilerun("show", results, "--json", "--where", condition, "--where", "n>0")
    assert done.returncode == (OK if count else RUN) and len(json.loads(done.stdout)) == count


def test_names_that_are_none(results):
    for arguments in ("--columns tag.crad", "--where tag.=1", "--columns card", "--csv --baseline blocked"):
        assert harness.tilerun("show", results, *arguments.split()).returncode == USAGE


def test_files_that_differ(results, tmp_path):
    other = run(tmp_path, "two", {"card": "h100", "trial": 3})
    said = harness.tilerun("compare", results, other, "--where", "tag.trial=3").stdout
    assert "h200" in said and "h100" in said
    assert harness.tilerun("report", results, other, "-o", tmp_path / "page.html").returncode == OK
    page = (tmp_path / "page.html").read_text()
    assert "h200" in page and "h100" in page


def test_resume_of_a_complete_job_takes_new_tags(tmp_path):
    job = {"inputs": {"A": {"random": {"shape": [4, 5]}}}, "operations": [{"id": "p", "op": "transpose", "inputs": ["A"]}]}
    for more in ({"tags": {"a": 1}, "notes": "one"}, {"tags": {"a": 2, "b": "x"}, "notes": "one"}, {"notes": "two\nlines"}, {}):
        harness.write_job(tmp_path / "job.yaml", **job, **more)
        done = harness.run_folder(tmp_path, "--resume")
        assert ("kept from before" in done.stderr) == (more.get("tags") != {"a": 1})
        with h5py.File(tmp_path / "out.h5") as file:
            attributes = {name: file.attrs[name] for name in ("a", "b", "notes") if name in file.attrs}
            assert attributes == more.get("tags", {}) | {name: more[name] for name in more if name == "notes"}
            assert file["outputs/p"].shape == (5, 4)
    assert "nothing to do" in harness.run_folder(tmp_path, "--resume").stderr
