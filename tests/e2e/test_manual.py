"""Help fits a terminal, the manual page is good roff; what `make install` puts where, and `make uninstall` removes.
unit/test_commands.c checks that both hold every option."""

import os
import re
import shutil
import subprocess

import pytest

import commands
import harness

COMMANDS = commands.names()


@pytest.fixture(scope="module")
def manual(memory_folder):
    done = harness.tilerun("--print-manual")
    assert (done.returncode, done.stderr) == (harness.OK, "")
    path = memory_folder / "tilerun.1"
    path.write_text(done.stdout)
    return path


def plain(roff):
    """The text of a piece of the page: without fonts and escapes, on one line."""
    roff = re.sub(r"\\f[BIR]|\\&", "", roff)
    for escape, character in ((r"\-", "-"), (r"\(ga", "`"), (r"\(aq", "'"), (r"\e", "\\")):
        roff = roff.replace(escape, character)
    return " ".join(roff.split())


def test_usage_lists_the_commands():
    """They are those of commands.def, and each says what it is for."""
    table = (harness.ROOT / "runner/commands/commands.def").read_text()
    assert COMMANDS == re.findall(r"^COMMAND\((\w+)\)", table, re.M)
    for command in COMMANDS:
        assert re.match(rf"usage: tilerun {command}\b.*\n\n\S", commands.help_of(command))


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_fits_80_columns(command):
    assert [line for line in commands.help_of(*command.split()).splitlines() if len(line) > 80] == []


def test_manual_says_the_exit_codes(manual):
    codes = re.findall(r"^ +(\d+)  (.*)", commands.help_of().partition("Exit codes:\n")[2], re.M)
    assert {int(code) for code, _ in codes} == {0, 1, 2, 3, 4, 75}
    for code, meaning in codes:
        assert f".TP .B {code} {meaning}" in plain(manual.read_text())


def test_manual_is_good_roff(manual):
    if not (shutil.which("man") and shutil.which("groff")):
        pytest.skip("no man and groff")
    command = ["man", "--warnings", "-E", "UTF-8", "-Tutf8", "-Z", "-l", str(manual)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C", "MANWIDTH": "80"})
    if "ignoring unknown option" in done.stderr or "diverted" in done.stdout + done.stderr:
        pytest.skip("this man is not man-db")
    assert (done.returncode, done.stderr) == (0, "")


def test_manual_is_good_for_mandoc(manual):
    if not shutil.which("mandoc"):
        pytest.skip("no mandoc")
    done = subprocess.run(["mandoc", "-Tlint", "-Wwarning", str(manual)], capture_output=True, text=True)
    complaints = [line for line in (done.stdout + done.stderr).splitlines() if "missing date" not in line]
    assert complaints == []  # there is no date: the page is the same whenever it is made


@pytest.mark.skipif(not shutil.which("make"), reason="no make")
def test_install(folder):
    """Into DESTDIR, whatever its name, also where the files that a command wrote must be readable by everybody; no data
    but what is the project's; and all of it goes again."""
    tree, destination = folder / "tree", folder / "package of a distribution"
    (tree / "build").mkdir(parents=True)
    shutil.copy2(harness.TILERUN, tree / "build/tilerun")
    shutil.copy2(harness.ROOT / "Makefile", tree)
    for part in ("configs", "data"):
        shutil.copytree(harness.ROOT / part, tree / part, ignore=lambda *_: ["generated"])
    (tree / "data/generated").mkdir()
    (tree / "data/generated/large.h5").write_text("not to be installed")

    def make(goal):
        environment = {key: value for key, value in os.environ.items() if key[:4] != "MAKE" and key != "MFLAGS"}
        # -o: the program is there; the tree has no source to make it from.
        words = ["-o", "build/tilerun", "CUDA=0", "BUILD=build", f"DESTDIR={destination}", "PREFIX=/usr", goal]
        command = ["sh", "-c", 'umask 077; exec make "$@"', "make", *words]
        done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    def installed():
        return {str(path.relative_to(destination / "usr")) for path in destination.rglob("*") if path.is_file()}

    make("install")
    files = installed()
    printed = {
        "share/man/man1/tilerun.1": ["--print-manual"],
        "share/bash-completion/completions/tilerun": ["--print-completion", "bash"],
        "share/zsh/site-functions/_tilerun": ["--print-completion", "zsh"],
        "share/fish/vendor_completions.d/tilerun.fish": ["--print-completion", "fish"],
    }
    for path, arguments in printed.items():
        assert (destination / "usr" / path).read_text() == harness.tilerun(*arguments).stdout != ""
        files.remove(path)
    files.remove("bin/tilerun")
    sources = [path for part in ("configs", "data") for path in (tree / part).rglob("*") if path.is_file()]
    assert files == {f"share/tilerun/{path.relative_to(tree)}" for path in sources} - {
        "share/tilerun/data/generated/large.h5"
    }
    assert {path.stat().st_mode & 0o777 for path in destination.rglob("*") if path.is_dir()} == {0o755}
    programs = {f"share/tilerun/{path.relative_to(tree)}" for path in sources if os.access(path, os.X_OK)}
    assert "share/tilerun/configs/slurm/submit.sh" in programs
    for path in installed():
        expected = 0o755 if path in programs | {"bin/tilerun"} else 0o644
        assert (destination / "usr" / path).stat().st_mode & 0o777 == expected
    job = destination / "usr/share/tilerun/configs/quickstart.yaml"
    assert harness.tilerun("check", job, program=destination / "usr/bin/tilerun").returncode == harness.OK
    make("install")  # over what is there
    (destination / "usr/share/tilerun/mine.h5").write_text("somebody's")
    make("uninstall")
    assert installed() == {"share/tilerun/mine.h5"}
    (destination / "usr/share/tilerun/mine.h5").unlink()
    for _ in range(2):
        make("uninstall")
        assert installed() == set() and not (destination / "usr/share/tilerun").exists()
