"""What `tilerun compare` says first: in which attributes and lines of the job two files differ."""

import pytest

import results_edit as edit
from test_compare import base, compare, new, original  # noqa: F401 (fixtures)


@pytest.mark.parametrize("width", range(77, 84))
def test_a_difference_of_any_width(base, new, width):
    """On one line of at most 80 columns, or on several."""
    edit.set_attribute(base, "environment", "driver_version", "550")
    edit.set_attribute(new, "environment", "driver_version", "")
    line = "  driver_version: 550 -> "
    text = "5" * (width - len(line))
    edit.set_attribute(new, "environment", "driver_version", text)
    words = f"{line}{text}\n" if width <= 80 else f"  driver_version:\n    550\n  ->\n    {text}\n"
    assert words in compare(base, new).stdout


@pytest.mark.parametrize("one, other", [("3", "3.5"), ("13", "23"), ("1", "21"), ("17", "1"), ("121", "1212")])
@pytest.mark.parametrize("line, said", [
    ("zeal: {a: [V, 2], b: 1}", "{a: [V, 2], b: 1}"),
    ("zeal: {a: V, b: 1}", "a: V"),
    ("zeal: {b: 1, a: V, c: 1}", "a: V"),
    ("zeal: {b: 1, a: V}", "a: V"),
    ("zeal: V", "V"),
])  # fmt: skip
def test_whole_values_are_shown(base, new, line, said, one, other):
    """Of a line of the job what differs, from one comma or brace to another, and no part of a value."""
    for path, value in ((base, one), (new, other)):
        edit.change_job(path, lambda text: text + line.replace("V", value) + "\n")
    words = [said.replace("V", value) for value in (one, other)]
    if "[" in line:
        words = [f"a: [{one}", f"a: [{other}"]
    assert f"job, zeal: {words[0]} -> {words[1]}\n" in compare(base, new).stdout


ROOT = ["tool_version", "git_commit", "program_hash", "status"]
ENVIRONMENT = ["hostname", "os", "cpu", "gpu_name", "compute_capability", "driver_version", "cuda_runtime", "compiler",
               "hdf5_version", "gpu_uuid"]  # fmt: skip


@pytest.mark.parametrize("name", ROOT + ENVIRONMENT)
def test_each_text_that_differs(base, new, name):
    assert f"  {name}: " not in compare(base, new).stdout
    for path, text in ((base, "one"), (new, "another")):
        edit.set_attribute(path, "/" if name in ROOT else "environment", name, text)
    assert f"  {name}: one -> another\n" in compare(base, new, "--any-device").stdout
