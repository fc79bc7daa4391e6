"""Where `tilerun report` writes its page, and what it does not replace."""

import os
import shutil

import pytest
from test_report import report, results, section  # noqa: F401

import harness
import page
import places
from harness import IO, OK, USAGE


def test_default_name_and_replacement(results, folder):
    """NAME.html in the current folder, which a later report replaces; mode and links stay."""
    (folder / "kept").mkdir()
    shutil.copy(results / "one.h5", folder / "kept/my.results.h5")
    done = harness.tilerun("report", "kept/my.results.h5", cwd=folder)
    assert done.returncode == OK and done.stdout == "" and "my.results.html" in done.stderr
    first = (folder / "my.results.html").read_text()
    page.read(first)
    (folder / "my.results.html").rename(folder / "kept/page.html")
    (folder / "my.results.html").symlink_to("kept/page.html")
    (folder / "kept/page.html").chmod(0o600)
    assert harness.tilerun("report", results / "sweep.h5", "-o", "my.results.html", cwd=folder).returncode == OK
    assert (folder / "my.results.html").is_symlink() and (folder / "kept/page.html").stat().st_mode & 0o777 == 0o600
    assert (folder / "kept/page.html").read_text() != first
    assert sorted(os.listdir(folder)) == ["kept", "my.results.html"]
    assert sorted(os.listdir(folder / "kept")) == ["my.results.h5", "page.html"]


def test_other_files_are_kept(results, folder):
    thesis = folder / "thesis.html"
    thesis.write_text("<!doctype html>\n<html lang=\"en\">\n<p>my thesis\n")
    done = harness.tilerun("report", results / "one.h5", "-o", thesis)
    assert done.returncode == USAGE and "is not a report; --overwrite replaces it" in done.stderr
    assert "my thesis" in thesis.read_text()
    assert harness.tilerun("report", results / "one.h5", "--overwrite", "-o", thesis).returncode == OK
    page.read(thesis.read_text())
    thesis.write_text("")  # an empty file holds nothing
    assert harness.tilerun("report", results / "one.h5", "-o", thesis).returncode == OK


@pytest.mark.parametrize("flags", [(), ("--overwrite",)])
def test_results_are_never_replaced(results, folder, flags):
    shutil.copy(results / "one.h5", folder / "one.h5")
    os.link(folder / "one.h5", folder / "hard.h5")
    (folder / "soft.h5").symlink_to("one.h5")
    before = (folder / "one.h5").read_bytes()
    for name in ("one.h5", "hard.h5", "soft.h5"):
        done = harness.tilerun("report", results / "sweep.h5", "one.h5", "-o", name, *flags, cwd=folder)
        assert done.returncode == USAGE, name
    assert (folder / "one.h5").read_bytes() == before and len(os.listdir(folder)) == 3


def test_unfinished_output(made, folder):
    """Of a job that was interrupted: the runs that are finished; its output's place is kept free."""
    shutil.copytree(made / "parts", folder / "out.h5.parts")
    before = places.snapshot(folder)
    root = report(folder / "out.h5")
    assert len(page.table_rows(root, "Table of runs")) == 1 and "unfinished: 1 of 2 runs are done" in root.text()
    assert not section(root, "job") and not section(root, "facts")
    for name in ("out.h5", "./out.h5"):
        done = harness.tilerun("report", "out.h5", "-o", name, "--overwrite", cwd=folder)
        assert done.returncode == USAGE and "is one of the results files" in done.stderr
    assert places.snapshot(folder) == before


def test_places_that_take_no_file(results, folder):
    for place in ("", "/missing/page.html", "/page.html/"):
        done = harness.tilerun("report", results / "one.h5", "-o", f"{folder}{place}")
        assert done.returncode == USAGE and done.stderr.count("\n") == 1, place
    if os.path.exists("/dev/full"):
        done = harness.tilerun("report", results / "one.h5", "-o", "/dev/full")
        assert done.returncode == IO and "No space left" in done.stderr
    assert not os.listdir(folder)


def test_bad_command_lines(results, folder):
    for arguments, words in (
        (("nothing.h5",), "nothing.h5"),
        ((results / "job.yaml",), "not an HDF5 file"),
        ((results / "one.h5", "nothing.h5"), "nothing.h5"),
    ):
        done = harness.tilerun("report", *arguments, cwd=folder)
        assert done.returncode == USAGE and words in done.stderr, done.stderr
    assert not os.listdir(folder)
