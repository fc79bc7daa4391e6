"""What a program is built from is known without git too: in what `make dist` packs, also where that is unpacked inside
another repository."""

import re
import shutil
import subprocess

import pytest

import harness


def git(folder, *arguments):
    done = subprocess.run(
        ["git", "-c", "user.name=x", "-c", "user.email=x@x", *arguments], cwd=folder, capture_output=True, timeout=60
    )
    return done.stdout if done.returncode == 0 else None


def built_in(folder):
    """The commit and the hash of the sources that a build in the folder would hold."""
    done = subprocess.run(["make", "-pn", "help", "CUDA=0"], cwd=folder, capture_output=True, text=True, timeout=120)
    lines = dict(line.split(" := ", 1) for line in done.stdout.splitlines() if " := " in line)
    return lines["COMMIT"], lines["CONTENT"]


@pytest.fixture
def archive(folder):
    """The tarball of the last commit, unpacked inside another repository."""
    top = shutil.which("git") and git(harness.ROOT, "rev-parse", "--show-toplevel")
    if not top or top.decode().strip() != str(harness.ROOT.resolve()):
        pytest.skip("the sources are no git checkout")
    clone = folder / "clone"
    assert git(folder, "clone", "-q", harness.ROOT, clone) is not None
    subprocess.run(["make", "dist"], cwd=clone, check=True, capture_output=True, timeout=120)
    version = re.match(r"tilerun (\S+) ", harness.tilerun("--version").stdout)[1]
    inside = folder / "other" / f"tilerun-{version}"
    inside.parent.mkdir()
    subprocess.run(["tar", "xf", clone / f"tilerun-{version}.tar.gz"], cwd=inside.parent, check=True)
    assert git(inside.parent, "init", "-q") is not None
    (inside.parent / "file").write_text("another project")
    assert git(inside.parent, "add", "file") is not None and git(inside.parent, "commit", "-qm", "x") is not None
    return inside


def test_an_archive_knows_its_commit(archive):
    commit = git(harness.ROOT, "rev-parse", "HEAD").decode()[:12]
    assert built_in(archive)[0] == commit
    clean = not git(harness.ROOT, "status", "--porcelain", "--", "runner", "kernels", "Makefile")
    if clean:
        assert built_in(harness.ROOT)[1] == built_in(archive)[1]


def test_no_tarball_outside_a_checkout(archive):
    """The archive lies in another repository, which does not track it."""
    done = subprocess.run(["make", "dist"], cwd=archive, capture_output=True, timeout=120)
    assert done.returncode == 2 and not list(archive.glob("*.tar.gz"))


def test_changed_sources_are_another_program(archive):
    commit, sources = built_in(archive)
    with open(archive / "runner/main.c", "a") as file:
        file.write("\n")
    assert built_in(archive)[0] == commit and built_in(archive)[1] != sources


def test_sources_without_an_archive_and_git(archive):
    """Another repository's commit is none of tilerun's."""
    made = (archive / "Makefile").read_text()
    commit = built_in(archive)[0]
    assert f"# archived: {commit}" in made
    (archive / "Makefile").write_text(made.replace(f"# archived: {commit}", "# archived: $Format:"))
    assert built_in(archive)[0] == "unknown"
