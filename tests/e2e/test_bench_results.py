"""configs/bench/README.md and the results files that it shows: they are of the jobs there, and its figures are theirs."""

import re

import h5py
import pytest

import harness

FOLDER = harness.ROOT / "configs/bench"
PAGE = (FOLDER / "README.md").read_text()


def test_every_job_is_on_the_page():
    named = {name.split("/")[-1] for name in re.findall(r"`([\w/.-]+)\.yaml` \|", PAGE)}
    assert named == {path.stem for path in FOLDER.glob("*.yaml")}


@pytest.mark.parametrize("path", sorted((FOLDER / "results").glob("*.h5")), ids=lambda path: path.stem)
def test_figures_are_those_of_the_file(path):
    with h5py.File(path) as file:
        job = (FOLDER / f"{path.stem.split('-')[0]}.yaml").read_text()
        assert harness.without_comments(file["job"][()].decode()) == harness.without_comments(job), "the job has changed: rerun it"
        assert not file.attrs["git_commit"].endswith("-dirty")
        names = {row["device_name"].decode() for row in file["runs"][:]}
    section = PAGE[PAGE.index(f"`results/{path.name}`") :].split("\n## ")[0]
    assert names == {re.search(r": one (.*?),", section)[1]}
    shown = harness.quiet("show", path, "--columns", "operation,variant,ratio")
    figures = re.findall(r"^\|[^|]*\| `(.*?)` \| `(.*?)` \| ([\d.]+) \|$", section, re.M)
    assert len(figures) >= 5
    for operation, variant, ratio in figures:
        assert re.search(rf"^{operation} +{variant} +{re.escape(ratio)}x$", shown, re.M), (operation, variant, shown)
