"""Completion, in the shells themselves: bash, zsh and fish are asked what follows a line. They must offer every
command, every option, the values that there are, and files of the right kind."""

import os
import pty
import re
import select
import shlex
import shutil
import subprocess
import time

import pytest

import commands
import harness

COMMANDS = commands.names()
OPERATIONS = ["map", "matmul", "reduce", "scale", "transpose"]
FILES = ["a.yaml", "b.yml", "results.h5", "with space.yaml", "notes.txt", "$(touch made).yaml"]


@pytest.fixture(scope="module")
def place(memory_folder):
    """A folder with the shells' completion scripts beside another with a few files."""
    folder = memory_folder / "completion"
    (folder / "files/sub").mkdir(parents=True)
    (folder / "home").mkdir()
    (folder / "files/sub/c.yaml").touch()
    for name in FILES:
        (folder / "files" / name).touch()
    for shell in ("bash", "zsh", "fish"):
        done = harness.tilerun("--print-completion", shell)
        assert (done.returncode, done.stderr) == (harness.OK, "")
        (folder / shell).write_text(done.stdout)
    return folder


def needs(shell):
    return pytest.mark.skipif(not shutil.which(shell), reason=f"no {shell}")


@pytest.mark.parametrize("shell", ["", "csh", "BASH"])
def test_other_shells(shell):
    done = harness.tilerun("--print-completion", *([shell] if shell else []))
    assert (done.returncode, done.stdout) == (harness.USAGE, "")
    assert done.stderr == f"tilerun: --print-completion must be bash, zsh or fish, not '{shell}'\n"


# ---- what to expect ------------------------------------------------------------------------------------------------


def choices(option):
    """The values in a description like "how: auto, cpu or cuda:N (...)"."""
    if not option.value:
        return []
    found = re.search(r": ((?:[\w:]+, )*[\w:]+ or [\w:]+)(?:$|[,;.:]| \()", option.text)
    words = re.split(r", | or ", found[1]) if found else []
    return [word for word in words if word == word.lower()]


def expected_options(command):
    return sorted(["--help", *(f"--{option.name}" for option in commands.options(command))])


VALUES = [(c, f"--{o.name}", choices(o)) for c in COMMANDS for o in commands.options(c) if choices(o)]
FILE_VALUES = [(c, f"--{o.name}") for c in COMMANDS for o in commands.options(c) if re.match("FILE", o.value)]


def test_there_are_values():
    assert ("run", "--progress", ["auto", "plain", "none"]) in VALUES
    assert ("run", "--verify", ["auto", "full", "sampled", "none"]) in VALUES
    assert ("run", "--device", ["auto", "cpu", "cuda", "cuda:all"]) in VALUES
    assert ("run", "--output") in FILE_VALUES


# ---- bash ----------------------------------------------------------------------------------------------------------


def bash(place, *words):
    """What bash offers for the last of the words."""
    script = """
        source "$1" && shift || exit
        [[ $(complete -p tilerun) == 'complete -F _tilerun tilerun' ]] || exit
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=${#COMP_LINE}
        _tilerun tilerun "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}" || exit
        ((${#COMPREPLY[@]} == 0)) || printf '%s\\n' "${COMPREPLY[@]}"
    """
    command = ["bash", "--norc", "-uc", script, "bash", str(place / "bash"), "tilerun", *words]
    done = subprocess.run(command, cwd=place / "files", capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return sorted(done.stdout.splitlines())


@needs("bash")
class TestBash:
    def test_commands(self, place):
        assert bash(place, "") == sorted([*COMMANDS, "help"])
        assert bash(place, "sho") == ["show"] and bash(place, "zzz") == []
        assert bash(place, "--") == ["--help", "--version"]
        assert bash(place, "help", "") == sorted(COMMANDS)
        assert bash(place, "nonsense", "") == []

    @pytest.mark.parametrize("command", COMMANDS)
    def test_options(self, place, command):
        assert [word for word in bash(place, command, "-") if word.startswith("--")] == expected_options(command)
        letters = sorted(f"-{option.letter}" for option in commands.options(command) if option.letter)
        assert [word for word in bash(place, command, "-") if len(word) == 2] == letters

    @pytest.mark.parametrize("command, option, values", VALUES)
    def test_values(self, place, command, option, values):
        assert bash(place, command, option, "") == sorted(values)
        assert bash(place, command, option, values[0][:2]) == [v for v in values if v.startswith(values[0][:2])]
        assert bash(place, command, option, "=", values[0]) == [values[0]]
        assert bash(place, command, option, "=") == sorted(values)

    @pytest.mark.parametrize("command, option", FILE_VALUES)
    def test_files_of_options(self, place, command, option):
        assert bash(place, command, option, "") == sorted([*FILES, "sub"])

    def test_files(self, place):
        jobs = ["$(touch made).yaml", "a.yaml", "b.yml", "sub", "with space.yaml"]
        for command in ("run", "check", "plan"):
            assert bash(place, command, "") == jobs
            assert bash(place, command, "--set", "n=1", "--", "") == jobs
            assert bash(place, command, "with sp") == ["with space.yaml"]
            assert bash(place, command, "sub/") == ["sub/c.yaml"]
        assert bash(place, "check", "a.yaml", "b") == ["b.yml"]
        assert bash(place, "show", "") == ["results.h5", "sub"]
        assert bash(place, "list", "") == OPERATIONS and bash(place, "list", "t") == ["transpose"]
        assert bash(place, "devices", "") == [] and bash(place, "run", "--set", "") == []
        assert bash(place, "run", "--", "-") == []  # an option no more
        assert not (place / "files/made").exists()

    @pytest.mark.skipif(not shutil.which("shellcheck"), reason="no shellcheck")
    def test_shellcheck(self, place):
        done = subprocess.run(["shellcheck", "-s", "bash", str(place / "bash")], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


# ---- zsh -----------------------------------------------------------------------------------------------------------


class Terminal:
    """An interactive zsh with our completion."""

    PROMPT, DONE = "@ready@", "@done@"

    def __init__(self, place):
        self.master, slave = pty.openpty()
        environment = {**os.environ, "TERM": "dumb", "LC_ALL": "C"}
        ends = {"stdin": slave, "stdout": slave, "stderr": slave, "start_new_session": True}
        self.process = subprocess.Popen(["zsh", "-f", "-i"], cwd=place / "files", env=environment, **ends)
        os.close(slave)
        source = shlex.quote(str(place / "zsh"))
        os.write(
            self.master,
            "unsetopt BEEP; LISTMAX=10000; stty cols 300 rows 1000; autoload -Uz compinit; compinit -D -u; "
            f"source {source}; PS1={self.PROMPT[:3]}''{self.PROMPT[3:]}\n".encode(),
        )
        self.until(self.PROMPT)

    def until(self, *marks):
        """What appears until the marks have, one after the other."""
        seen, limit = "", time.monotonic() + 60
        while not re.search(".*".join(marks), seen, re.S):
            assert time.monotonic() < limit, f"{marks} did not come:\n{seen}"
            if select.select([self.master], [], [], 1)[0]:
                seen += os.read(self.master, 65536).decode(errors="replace")
        return seen

    def offers(self, line):
        """The words listed for a line. The prompt is there, so that the editor takes the keys: Ctrl-D lists, Ctrl-U
        clears the line."""
        done = f"print {self.DONE[:3]}''{self.DONE[3:]}"
        os.write(self.master, f"{line}\x04\x15{done}\n".encode())
        seen = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", self.until(self.DONE, self.PROMPT))
        return set(seen.replace("\r", "\n").split()) - {*line.split(), *done.split()}

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.master)


@pytest.fixture(scope="module")
def zsh(place):
    terminal = Terminal(place)
    yield terminal
    terminal.close()


@needs("zsh")
class TestZsh:
    def test_syntax(self, place):
        done = subprocess.run(["zsh", "-f", "-n", str(place / "zsh")], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")

    def test_commands(self, zsh):
        assert {*COMMANDS, "help"} <= zsh.offers("tilerun ")
        assert set(COMMANDS) <= zsh.offers("tilerun help ")

    @pytest.mark.parametrize("command", COMMANDS)
    def test_options(self, zsh, command):
        offered = {word for word in zsh.offers(f"tilerun {command} --") if word.startswith("--")}
        described = {word for word in offered if not re.fullmatch(r"--[\w-]*\w", word)}  # `--`, and words behind it
        assert sorted(offered - described) == expected_options(command)

    @pytest.mark.parametrize("command, option, values", VALUES)
    def test_values(self, zsh, command, option, values):
        assert set(values) <= zsh.offers(f"tilerun {command} {option} ")

    def test_files(self, zsh):
        offered = zsh.offers("tilerun run ")
        assert {"a.yaml", "b.yml", "sub/"} <= offered and not {"results.h5", "notes.txt"} & offered
        offered = zsh.offers("tilerun show ")
        assert {"results.h5", "sub/"} <= offered and not {"a.yaml", "notes.txt"} & offered
        assert {"a.yaml", "results.h5", "notes.txt"} <= zsh.offers("tilerun run -o ")
        assert set(OPERATIONS) <= zsh.offers("tilerun list ")


# ---- fish ----------------------------------------------------------------------------------------------------------


def fish(place, line):
    script = f"source {shlex.quote(str(place / 'fish'))}; complete -C {shlex.quote(line)}"
    home = {name: str(place / "home") for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")}
    command = ["fish", "-c", script]
    done = subprocess.run(
        command, cwd=place / "files", capture_output=True, text=True, env={**os.environ, **home, "LC_ALL": "C.UTF-8"}
    )
    assert (done.returncode, done.stderr) == (0, "")
    return sorted({offered.split("\t")[0] for offered in done.stdout.splitlines()})


@needs("fish")
class TestFish:
    def test_commands(self, place):
        assert fish(place, "tilerun ") == sorted([*COMMANDS, "help"])
        assert fish(place, "tilerun help ") == sorted(COMMANDS)

    @pytest.mark.parametrize("command", COMMANDS)
    def test_options(self, place, command):
        assert fish(place, f"tilerun {command} --") == expected_options(command)

    @pytest.mark.parametrize("command, option, values", VALUES)
    def test_values(self, place, command, option, values):
        assert fish(place, f"tilerun {command} {option} ") == sorted(values)

    def test_files(self, place):
        assert {"a.yaml", "b.yml", "sub/"} <= set(fish(place, "tilerun run "))
        assert {"results.h5", "sub/"} <= set(fish(place, "tilerun show "))
        assert {"a.yaml", "results.h5", "notes.txt"} <= set(fish(place, "tilerun run -o "))
        assert fish(place, "tilerun list ") == OPERATIONS
        assert fish(place, "tilerun devices ") == []
