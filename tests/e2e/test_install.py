"""What `make install` puts where, and `make uninstall` removes: what was built, with no compiler at hand."""

import os
import re
import shutil
import subprocess

import pytest

import harness
import tree as real
from test_build import Tree

pytestmark = pytest.mark.skipif(not shutil.which("make"), reason="no make")

PRINTED = {
    "share/man/man1/tilerun.1": ["--print-manual"],
    "share/bash-completion/completions/tilerun": ["--print-completion", "bash"],
    "share/zsh/site-functions/_tilerun": ["--print-completion", "zsh"],
    "share/fish/vendor_completions.d/tilerun.fish": ["--print-completion", "fish"],
}
PACKAGING = "configs/packaging/README.md"
DOCUMENTS = {"kernels/README.md", "runner/README.md", "tests/README.md", "tests/check.txt", PACKAGING}
OWN = {"bin/tilerun", "share/doc/tilerun/LICENSE", "share/doc/tilerun/README.md", "share/tilerun/installed"}


def make(tree, *words, expect=0, umask="077"):
    environment = {key: value for key, value in os.environ.items() if key[:4] != "MAKE" and key != "MFLAGS"}
    command = ["sh", "-c", f'umask {umask}; exec make "$@"', "make", "BUILD=build", *map(str, words)]
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)
    assert done.returncode == expect, done.stderr
    return done.stderr


def everything(folder):
    """Files with their contents and times, and folders; not the folder itself."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes()) if path.is_file() else None
        for path in folder.rglob("*")
    }


@pytest.fixture
def tree(folder):
    """A tree with a program, and with the user's own results beside the jobs."""
    tree = folder / "tree"
    (tree / "build").mkdir(parents=True)
    shutil.copy2(harness.TILERUN, tree / "build/tilerun")
    for file in ("Makefile", "LICENSE", "README.md"):
        shutil.copy2(harness.ROOT / file, tree)
    for part in ("configs", "data"):
        shutil.copytree(harness.ROOT / part, tree / part, ignore=lambda *_: ["generated"])
    for file in DOCUMENTS - {PACKAGING}:
        (tree / file).parent.mkdir(exist_ok=True)
        shutil.copy2(harness.ROOT / file, tree / file)
    (tree / "data/generated").mkdir()
    for mine in ("data/generated/large.h5", "configs/quickstart.h5", "data/own.h5"):
        (tree / mine).write_text("not to be installed")
    return tree


def test_install(folder, tree):
    """Into DESTDIR, whatever its name, also where the files that a command wrote must be readable by everybody; no data
    but what is the project's; and all of it goes again."""
    destination = folder / "package of a distribution"
    words = [f"DESTDIR={destination}", "PREFIX=/usr"]

    def installed():
        return {str(path.relative_to(destination / "usr")) for path in destination.rglob("*") if path.is_file()}

    make(tree, *words, "install")
    files = installed()
    for path, arguments in PRINTED.items():
        assert (destination / "usr" / path).read_text() == harness.tilerun(*arguments).stdout != ""
    sources = {path for part in ("configs", "data") for path in (tree / part).rglob("*") if path.is_file()}
    sources = {str(path.relative_to(tree)) for path in sources if "not to be" not in path.read_text("latin1")}
    sources = {path for path in sources if not path.startswith("configs/packaging/")} | DOCUMENTS
    assert files == {f"share/tilerun/{path}" for path in sources} | set(PRINTED) | OWN
    assert {path.stat().st_mode & 0o777 for path in destination.rglob("*") if path.is_dir()} == {0o755}
    programs = {f"share/tilerun/{path}" for path in sources if os.access(tree / path, os.X_OK)}
    assert "share/tilerun/configs/slurm/submit.sh" in programs
    for path in files:
        expected = 0o755 if path in programs | {"bin/tilerun"} else 0o644
        assert (destination / "usr" / path).stat().st_mode & 0o777 == expected
    job = destination / "usr/share/tilerun/configs/quickstart.yaml"
    assert harness.tilerun("check", job, program=destination / "usr/bin/tilerun").returncode == harness.OK
    for page in destination.rglob("*.md"):
        for link in re.findall(r"\]\(([^)#: ]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page}: {link}"
    make(tree, *words, "install")  # over what is there
    assert installed() == files
    (tree / "configs/bench/thin.yaml").unlink()
    make(tree, *words, "install")  # over an earlier version, which had more
    assert installed() == files - {"share/tilerun/configs/bench/thin.yaml"}
    (destination / "usr/share/tilerun/mine.h5").write_text("somebody's")
    make(tree, *words, "uninstall")
    assert installed() == {"share/tilerun/mine.h5"}
    (destination / "usr/share/tilerun/mine.h5").unlink()
    for _ in range(2):
        make(tree, *words, "uninstall")
        assert installed() == set() and not (destination / "usr/share/tilerun").exists()


@pytest.mark.parametrize("staged", [False, True])
def test_what_was_there_stays(folder, tree, staged):
    """Empty folders too, also where the program was installed twice and moved between; those that were made go."""
    place = folder / "stage/opt/tilerun 1"
    words = [f"DESTDIR={folder}/stage", "PREFIX=/opt/tilerun 1"] if staged else [f"PREFIX={place}"]
    make(tree, *words, "install")
    make(tree, *words, "uninstall")
    assert not (folder / "stage").exists()
    for kept in ("share/man/man1", "bin", "lib"):
        (place / kept).mkdir(parents=True)
    (place / "bin/other").write_text("another program")
    before = everything(folder / "stage")
    for _ in range(2):
        make(tree, *words, "install")
    make(tree, *words, "uninstall")
    assert everything(folder / "stage") == before
    make(tree, *words, "install")
    (folder / "stage/opt/tilerun 1").rename(folder / "elsewhere")
    make(tree, f"PREFIX={folder}/elsewhere", "uninstall")
    assert set(everything(folder / "elsewhere")) == {path.removeprefix("opt/tilerun 1/") for path in before} - {
        "opt", "opt/tilerun 1"
    }


def test_a_tilde_is_the_home_folder(folder, tree):
    """zsh and dash leave it to `make`."""
    for words in ["PREFIX=~/own"], ["DESTDIR=~/own", "PREFIX=/"]:
        make(tree, f"HOME={folder}", *words, "install")
        assert (folder / "own/bin/tilerun").exists() and not (tree / "~").exists()
        make(tree, f"HOME={folder}", *words, "uninstall")
        assert not (folder / "own/bin").exists()


def test_without_a_build(folder, tree):
    (tree / "build/tilerun").unlink()
    said = make(tree, f"PREFIX={folder}/there", "install", expect=2)
    assert "build/tilerun" in said and not (folder / "there").exists()


def test_nothing_is_compiled(folder, tmp_path):
    """Whatever the flags and the compilers of who installs are, and with no git of theirs; unless asked for `all`."""
    tree = Tree(tmp_path)
    for part in ("configs", "data"):
        shutil.copytree(harness.ROOT / part, tmp_path / part, ignore=lambda *_: ["generated"])
    for file in ("LICENSE", "README.md"):
        shutil.copy(harness.ROOT / file, tmp_path)
    tree.make({"CUDA": "1"})
    shutil.copy2(harness.TILERUN, tmp_path / "build/tilerun")
    tree.write("bin/git", f"#!/bin/sh\necho git >> {tmp_path}/log\n").chmod(0o755)
    (tmp_path / "runner/main.c").write_text("newer\n")
    (tmp_path / "kernels/core/b.cu").touch()
    before = everything(tmp_path / "build")
    for knobs in ({}, {"CUDA": "0"}, {"CC": "none", "CFLAGS": "-O3", "CUDA_ARCHS": "90"}, {"SANITIZE": "1"}):
        assert tree.make(knobs | {"PREFIX": str(folder / "there")}, "install") == []
        assert everything(tmp_path / "build") == before
        assert (folder / "there/bin/tilerun").read_bytes() == harness.TILERUN.read_bytes()
        assert tree.make({"PREFIX": str(folder / "there")}, "uninstall") == [] and not (folder / "there").exists()
    (tmp_path / "bin/git").unlink()
    assert "runner/main.c.o" in tree.make({"CUDA": "1"})


def test_a_bundle_can_be_moved(folder):
    """With BUNDLE=1 the program finds the libraries beside it, wherever it is, before those of the system."""
    if real.has_cuda():
        pytest.skip("linking with CUDA again takes long; what BUNDLE=1 does is the same")
    copy = real.copy_tree(folder)
    for part in ("configs", "data", "LICENSE", "README.md"):
        (shutil.copytree if (harness.ROOT / part).is_dir() else shutil.copy)(harness.ROOT / part, copy / part)
    done = real.make(copy, "BUNDLE=1")
    assert done.returncode == 0, done.stdout
    make(copy, f"PREFIX={folder}/there", "install")
    (folder / "there").rename(folder / "moved")
    program = folder / "moved/bin/tilerun"
    listed = subprocess.run(["ldd", str(program)], capture_output=True, text=True, env={"LC_ALL": "C"}).stdout
    found = {line.split()[0]: line.split()[2] for line in listed.splitlines() if " => " in line}
    beside = {name for name, path in found.items() if os.path.realpath(path).startswith(f"{folder}/moved/lib/tilerun/")}
    assert any(name.startswith("libhdf5") for name in beside)
    assert {name.split(".")[0] for name in set(found) - beside} <= {"libc", "libm", "libdl", "librt", "libpthread"}
    job = folder / "moved/share/tilerun/configs/quickstart.yaml"
    assert harness.tilerun("run", job, "-o", folder / "out.h5", program=program).returncode == harness.OK
    make(copy, f"PREFIX={folder}/moved", "uninstall")
    assert not (folder / "moved").exists()
