"""The commands and their options, as the program's help states them."""

import re
from collections import namedtuple

import harness

# `value`: the word for what the option takes; "" if it takes nothing.
Option = namedtuple("Option", "letter name value text")


def help_of(*command):
    done = harness.tilerun(*command, "--help")
    assert (done.returncode, done.stderr) == (harness.OK, "")
    return done.stdout


def names():
    """Of all commands, in the order of `tilerun --help`."""
    commands = help_of().split("\n\n")[2]
    return re.findall(r"^  ([\w-]+) ", commands, re.M)


def options(command):
    found = []
    for line in help_of(command).splitlines():
        if option := re.match(r"  (?:-(\w), )?--([\w-]+)(?: (\S+))?(?:  +(.*))?$", line):
            found.append(Option(option[1] or "", option[2], option[3] or "", option[4] or ""))
        elif found and re.match(r" {5,}\S", line):
            found[-1] = found[-1]._replace(text=f"{found[-1].text} {line.strip()}".strip())
    return found
