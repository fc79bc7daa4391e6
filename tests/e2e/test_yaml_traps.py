"""What YAML takes for something else than was meant is refused, or read as it was meant; the message says how to write
it. A drawn place in a job for each trap."""

import re

import numpy as np
import pytest

import harness
from harness import OK, USAGE

JOB = """\
version: 1
parameters: {{name: one.h5}}
inputs:
  A: {{random: {{shape: [{shape}, 5], seed: {seed}}}}}
  F:
    file: {file}
    dataset: {dataset}
defaults: {{repeat: {repeat}, checksum: {checksum}}}
operations:
  - {{id: total, op: reduce, operator: sum, axis: {axis}, inputs: [A], variants: [cpu], skip_nan: {skip}}}
  - {{id: of_file, op: transpose, inputs: [F], variants: [cpu]}}
"""
RIGHT = {"shape": "4", "seed": "3", "file": "$name", "dataset": "/x", "repeat": "2", "axis": "0", "checksum": "none", "skip": "true"}


@pytest.fixture
def check(folder):
    harness.write_arrays(folder / "one.h5", x=np.ones((3, 4), "f4"))

    def run(text, command="check"):
        (folder / "job.yaml").write_text(text)
        return harness.tilerun(command, "job.yaml", *(["--resolved"] if command == "plan" else []), cwd=folder)

    return run


def place(text, needle):
    """ "job.yaml:LINE:COLUMN:" of the last occurrence of `needle`."""
    at = text.rindex(needle)
    return f"job.yaml:{text.count(chr(10), 0, at) + 1}:{at - text.rfind(chr(10), 0, at)}:"


def test_the_job_itself_is_right(check):
    done = check(JOB.format(**RIGHT))
    assert (done.returncode, done.stderr) == (OK, "")


@pytest.mark.parametrize(
    "key, value, caret, hint",
    [
        ("shape", "${name}", "{name}", 'needs quotes inside { } and [ ]: "${name}"'),
        ("file", "*.h5", ".h5", 'needs quotes: "*.h5"'),
        ("file", "on #1.h5", "on #1", "use quotes to keep it"),
        ("dataset", "/x: y", ": y", "needs quotes"),
        ("seed", "3 #]", None, "' #' begins a comment"),
        ("repeat", '"2"', '"2"', "the quotes make it text"),
        ("seed", "'3'", "'3'", "the quotes make it text"),
        ("shape", "010", "010", "10 in YAML 1.2 and 8 in YAML 1.1"),
        ("repeat", "020", "020", "20 in YAML 1.2 and 16 in YAML 1.1"),
        ("skip", "yes", "yes", "write true"),
        ("skip", "Off", "Off", "write false"),
        ("skip", "n", "n}", "write false"),
        ("skip", '"true"', '"true"', "the quotes make it text"),
        ("repeat", "2.5", "2.5", "must be an integer"),
        ("repeat", "2, repeat: 3", "repeat: 3", "already on line"),
    ],
)
def test_a_value_is_refused(check, key, value, caret, hint):
    text = JOB.format(**RIGHT | {key: value})
    done = check(text)
    assert done.returncode == USAGE and hint in done.stderr, done.stderr
    assert caret is None or place(text, caret) in done.stderr, done.stderr


@pytest.mark.parametrize(
    "text, where, hint",
    [
        (JOB.format(**RIGHT).replace("version: 1", "version:1"), "2:11:", "a space must follow the key's colon"),
        ("version:1\n", "1:1:", "a space must follow the colon"),
        (JOB.format(**RIGHT).replace("version: 1", 'version: "1"'), "1:10:", "the quotes make it text"),
        (JOB.format(**RIGHT).replace("seed: 3", "seed:3"), "4:31:", "'seed: 3'"),
        (JOB.format(**RIGHT) + "---\nversion: 1\n", "12:1:", "a file holds one job"),
        (JOB.format(**RIGHT).replace("    dataset", "\tdataset"), "7:1:", "a tab cannot indent"),
        (JOB.format(**RIGHT).replace("    dataset", "   dataset"), "7:4:", "begins in column 4"),
        (JOB.format(**RIGHT).replace("    dataset", "     dataset"), "7:13:", "further than the key before it"),
        (JOB.format(**RIGHT).replace("  - {id: of_file", "   - {id: of_file"), "11:4:", "from line 10 on in column 3"),
        (JOB.format(**RIGHT).replace("version: 1", " version: 1"), "2:1:", "must begin in one column"),
        (JOB.format(**RIGHT).replace("inputs:\n", "inputs\n"), "4:4:", "': ' must follow the key (begun on line 3)"),
        (JOB.format(**RIGHT).replace("seed: 3}}", "seed: 3}"), "5:3:", "close the bracket, or end the entry"),
        (JOB.format(**RIGHT).replace("seed: 3}}", "seed: 3}}}"), "4:40:", "the value ends before this"),
        (JOB.format(**RIGHT).replace("file: $name", 'file: "x'), "12:1:", "the closing quote is missing"),
        (JOB.format(**RIGHT).replace("file: $name", 'file: "\\d"'), "6:12:", "in '...' \\"),
        (JOB.format(**RIGHT).replace("file: $name", "file: >x"), "6:12:", "begins with '|' or '>' needs quotes"),
        ("version: 1\noperations:\n  -id: z\n   op: scale\n", "4:6:", "a space must follow the '-'"),
    ],
    ids=["no space", "no space at all", "quoted version", "no space in braces", "two documents", "tab", "too far left",
         "too far right", "list", "top level", "no colon", "open brace", "a brace too many", "open quote", "escape",
         "block", "no space after -"],
)  # fmt: skip
def test_a_file_is_refused(check, text, where, hint):
    done = check(text)
    assert done.returncode == USAGE and f"job.yaml:{where}" in done.stderr and hint in done.stderr, done.stderr


@pytest.mark.parametrize("key, value, means", [
    ("repeat", "1e1", 10), ("axis", "0e0", 0), ("shape", "1e3", 1000), ("seed", "0x10", 16), ("seed", "0o10", 8), ("repeat", "007", 7),
    ("repeat", "2 # twice", 2),
])  # fmt: skip
def test_a_value_is_read_as_it_was_meant(check, key, value, means):
    text = JOB.format(**RIGHT | {key: value})
    if "#" in value:
        text = text.replace(f"{value}, checksum: none}}", f"{value}\n  , checksum: none}}")
    done, plain = check(text, "plan"), check(JOB.format(**RIGHT | {key: str(means)}), "plan")
    assert done.returncode == OK, done.stderr
    bare = [line.replace(f"{key}: {value}", f"{key}: {means}") for line in done.stdout.splitlines()]
    if key != "shape":
        assert bare == plain.stdout.splitlines()


@pytest.mark.parametrize("text, below, column", [
    ("|\n      A +\n\n       é + 1\n", 3, 8), (">-2\n      -\n       A + A - é +\n      A\n", 2, 16),
    ('"A + \\\n      (A - A) / é"\n', 1, 17), ("A +\n      é\n", 1, 7), ('"A\\t+ é"\n', 0, 23),
])  # fmt: skip
def test_a_mistake_within_lines_of_an_expression(check, text, below, column):
    head = JOB.format(**RIGHT) + "  - id: m\n    op: map\n    inputs: [A]\n"
    done = check(head + "    expression: " + text)
    assert f"job.yaml:{head.count(chr(10)) + 1 + below}:{column}: an operand" in done.stderr, done.stderr


def test_an_input_that_nothing_reads_is_said(check, folder):
    """An operation may be commented out for a while: no mistake."""
    text = JOB.format(**RIGHT).replace("  - {id: of_file", "#  - {id: of_file")
    done = check(text)
    assert done.returncode == OK and done.stderr == "job.yaml:5:3: no operation reads input 'F'\n"
    for command in ("plan", "run"):
        done = harness.tilerun(command, "job.yaml", "--once", cwd=folder)
        assert done.returncode == OK and "no operation reads input 'F'" in done.stderr


@pytest.mark.parametrize("text", [r"st\*r.h5", r'"st\\*r.h5"', r"'st\*r.h5'"])
def test_a_star_in_a_name(check, folder, text):
    harness.write_arrays(folder / "st*r.h5", x=np.ones((3, 4), "f4"))
    harness.write_arrays(folder / "star.h5", x=np.ones((5, 6), "f4"))
    values = RIGHT | {"file": text}
    job = JOB.format(**values).replace("parameters: {name: one.h5}\n", "")
    assert check(job).returncode == OK
    assert "3x4" in harness.tilerun("plan", "job.yaml", cwd=folder).stdout


def test_an_input_that_an_expression_does_not_use_is_said(check):
    operations = """\
  - {id: z, op: map, inputs: [A, F, A], expression: A * 2}
  - {id: index, op: map, inputs: [A, F], expression: i0 + 0 * F}
"""
    head = JOB.format(**RIGHT).replace("[4, 5]", "[3, 4]").replace("defaults", "x-defaults").split("  - {id: total")[0]
    done = check(head + operations)
    said = "job.yaml:10:34: the expression of 'z' uses input 'F' for its shape only\n"
    assert (done.returncode, done.stderr) == (OK, said)


def test_integers_that_are_all_zero_are_said(check):
    """The default range of `uniform`, [0, 1), holds one integer."""
    said = "job.yaml:4:15: integers from 0 to below 1 are all 0: give 'high', or `distribution: integer`\n"
    for more, words in (("", said), (", high: 9", ""), (", distribution: integer", "")):
        done = check(JOB.format(**RIGHT | {"seed": f"3, dtype: int8{more}"}).replace(", skip_nan: true", ""))
        assert (done.returncode, done.stderr) == (OK, words)


def test_a_ddof_that_nothing_uses_is_said(check):
    text = JOB.format(**RIGHT).replace(", skip_nan: true", ", ddof: 1")
    done = check(text)
    assert (done.returncode, done.stderr) == (OK, "job.yaml:10:89: only var and std use 'ddof', not sum\n")
    swept = text.replace("operator: sum", "operator: $how").replace("one.h5}", "one.h5, how: [sum, std]}")
    resolved = text.replace("ddof: 1", "ddof: 0")
    for right in (text.replace("operator: sum", "operator: var"), swept, resolved):
        assert (check(right).returncode, check(right).stderr) == (OK, "")


def test_wrong_values_that_differ_in_a_late_digit(folder):
    """Both are printed with enough digits."""
    inputs = {"x": {"random": {"shape": [31, 99], "dtype": "float64"}}}
    operation = {"id": "y", "op": "reduce", "operator": "mean", "axis": 1, "inputs": ["x"], "tolerance": 0}
    message = harness.run_job(folder, harness.RUN, inputs=inputs, operations=[operation]).row("y")["message"]
    out, right = re.match(r"\[\d+\] is (\S+), should be (\S+)", message).groups()
    assert out != right
