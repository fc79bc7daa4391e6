"""What is printed of committed results and jobs, in full: tests/printed/NAME holds a command and its words, which
`make goldens` rewrites for review. Of a page it is the body up to the footer, which tells the version.
tests/printed/mistakes holds many commands, each after `$`, with its exit code and what it prints on stderr."""

import os
import shlex

import pytest

import harness
from harness import OK, RUN

PRINTED = harness.ROOT / "tests/printed"


def printed(command):
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    done = harness.tilerun(*shlex.split(command), cwd=harness.ROOT, env=environment)
    assert done.returncode in (OK, RUN), done.stderr
    words = done.stdout
    if words.startswith("<!"):
        words = words[words.index("<body>") : words.index("<footer>")]
    return words


def refused(command):
    done = harness.tilerun(*shlex.split(command), cwd=harness.ROOT)
    assert done.stdout == ""
    return f"$ {command}\nexit {done.returncode}\n{done.stderr}"


def test_mistakes():
    expected = (PRINTED / "mistakes").read_text()
    words = "".join(refused(line[2:]) for line in expected.splitlines() if line.startswith("$ "))
    if os.environ.get("TILERUN_GOLDENS"):
        (PRINTED / "mistakes").write_text(words)
    else:
        assert words == expected


@pytest.mark.parametrize("name", sorted({*os.listdir(PRINTED)} - {"mistakes"}))
def test_words(name):
    command, expected = (PRINTED / name).read_text().split("\n", 1)
    words = printed(command)
    if os.environ.get("TILERUN_GOLDENS"):
        (PRINTED / name).write_text(f"{command}\n{words}")
    else:
        assert words == expected
