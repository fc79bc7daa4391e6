"""Help fits a terminal, and the manual page is good roff. unit/test_commands.c checks that both hold every option."""

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
    assert COMMANDS == [name.replace("_", "-") for name in re.findall(r"^COMMAND\((\w+)\)", table, re.M)]
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


def sources():
    paths = [path for part in ("runner", "kernels") for path in (harness.ROOT / part).rglob("*") if path.is_file()]
    return {path: path.read_text() for path in paths if path.suffix in (".c", ".h", ".cu", ".cuh")}


def variables_read():
    """The names in the sources that getenv gets: literally, from a table of its file, or from a caller elsewhere."""
    literal, read = r'"([A-Z][A-Z0-9]+(?:_[A-Z0-9]+)*)"', set()
    for path, text in sources().items():
        calls = re.findall(r"\bgetenv\(([^)]*)\)", text)
        read |= {match[1] for call in calls if (match := re.fullmatch(literal, call))}
        if any('"' not in call for call in calls):
            read |= set(re.findall(literal, text))
        read |= set(re.findall(rf"h5_names_of\([^;]*{literal}\)", text))
    return read - {"PRETTY_NAME"}  # a key of /etc/os-release


def test_manual_names_the_environment(manual):
    """Every variable that the program reads, and no other; so no table can go stale."""
    section = manual.read_text().partition(".SH ENVIRONMENT\n")[2].partition("\n.SH ")[0]
    names = {name for line in re.findall(r"^\.B (.*)", section, re.M) for name in line.split(", ")}
    assert len(names) > 30 and names == variables_read()
    others = [text for path, text in sources().items() if path.name != "manual.c"]
    assert [name for name in names if not any(f'"{name}"' in text for text in others)] == []


def test_manual_names_files(manual, folder):
    """Those that a run makes are there: its results, and in the cache folder the limits."""
    section = plain(manual.read_text().partition(".SH FILES\n")[2].partition("\n.SH ")[0])
    job = harness.write_job(
        folder / "name.yaml",
        inputs={"a": {"random": {"shape": [8, 8]}}},
        operations=[{"id": "o", "op": "scale", "inputs": ["a"], "variants": ["cpu"]}],
    )
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    harness.tilerun("run", job, "--device", "cpu", cwd=folder, env=environment, expect=harness.OK)
    assert (folder / "name.h5").exists() and ".B NAME.h5 " in section
    (limits,) = (folder / "cache").rglob("*.limits")
    assert limits.parent == folder / "cache/tilerun" and ".B $XDG_CACHE_HOME/tilerun/*.limits" in section


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
