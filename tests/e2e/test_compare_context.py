"""What `tilerun compare` says first: in which attributes and lines of the job two files differ."""

import re

import numpy as np
import pytest

import harness
import results_edit as edit
from test_compare import base, compare, new, original, steady  # noqa: F401 (fixtures)


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
    ("zeal: {a: [V, 2], b: 1}", "a: [V, 2]"),
    ("zeal: {b: 1, a: [2, V], c: 1}", "a: [2, V]"),
    ("zeal: {a: \"f(2, V, x)\", c: 1}", "a: \"f(2, V, x)\""),
    ("zeal: {a: V, b: 1}", "a: V"),
    ("zeal: {b: 1, a: V, c: 1}", "a: V"),
    ("zeal: {b: 1, a: V}", "a: V"),
    ("zeal: V", "V"),
])  # fmt: skip
def test_whole_values_are_shown(base, new, line, said, one, other):
    """Of a line of the job the entries that differ, and no part of a value."""
    for path, value in ((base, one), (new, other)):
        edit.change_job(path, lambda text: text + line.replace("V", value) + "\n")
    words = [said.replace("V", value) for value in (one, other)]
    assert f"job, zeal: {words[0]} -> {words[1]}\n" in compare(base, new).stdout


def test_lines_of_one_name_are_told_apart(base, new):
    """An input by pattern and its parameter have one name, in different sections of the job."""
    for path, value in ((base, 2), (new, 3)):
        edit.change_job(path, lambda text: f"{text}before:\n  zeal: 1\nafter:\n  zeal: {value}\n")
    assert "zeal" not in compare(base, base).stdout
    shown = compare(base, new).stdout
    assert "job, zeal: 2 -> 3\n" in shown and shown.count("zeal") == 1


ROOT = ["tool_version", "git_commit", "program_hash", "status"]
ENVIRONMENT = ["hostname", "os", "cpu", "gpu_name", "compute_capability", "driver_version", "cuda_runtime", "compiler",
               "hdf5_version", "library_blas", "library_cublas", "gpu_uuid"]  # fmt: skip


@pytest.mark.parametrize("name", ROOT + ENVIRONMENT)
def test_each_text_that_differs(base, new, name):
    assert f"  {name}: " not in compare(base, new).stdout
    for path, text in ((base, "one"), (new, "another")):
        edit.set_attribute(path, "/" if name in ROOT else "environment", name, text)
    assert f"  {name}: one -> another\n" in compare(base, new, "--any-device").stdout


def test_the_command_line_is_no_difference(base, new):
    edit.set_attribute(base, "/", "command_line", "tilerun run a.yaml -o a.h5")
    edit.set_attribute(new, "/", "command_line", "tilerun run b.yaml -o b.h5")
    shown = compare(base, new).stdout
    assert "command_line" not in shown and "b.yaml" not in shown


def test_the_geometric_mean_of_each_operation(folder, rng):
    """Of drawn ratios of operations at several sizes."""
    job = harness.write_job(
        folder / "job.yaml",
        parameters={"n": [3, 5, 8, 13]},
        inputs={"a": {"random": {"shape": ["$n", "$n"]}}},
        defaults={"warmup": 0, "repeat": 3},
        operations=[{"id": "p", "op": "matmul", "inputs": ["a", "a"], "variants": ["cpu", "blocked"]},
                    {"id": "t", "op": "transpose", "inputs": ["a"], "variants": ["cpu"]}],
    )  # fmt: skip
    assert harness.tilerun("run", job, "--device", "cpu", "-o", folder / "base.h5").returncode == harness.OK
    other = edit.copy(folder / "base.h5", folder, "new.h5")
    ratios = rng.uniform(0.5, 3, len(edit.rows(other)))
    edit.set_all_samples(folder / "base.h5", steady)
    edit.set_all_samples(other, lambda run: steady(run) * ratios[run])
    shown = compare(folder / "base.h5", other, expect=(harness.OK, harness.RUN)).stdout
    for name in ("p", "t"):
        own = [ratios[row["run"]] for row in edit.rows(other) if row["operation"] == name.encode()]
        found = re.search(rf"geometric mean of ratios: .*\b{name} (\S+) of {len(own)} runs", shown)
        assert float(found[1]) == pytest.approx(np.exp(np.mean(np.log(own))), rel=2e-3), shown


def test_in_markdown_only_the_pairs_are_rows(base, new):
    edit.set_rows(new, edit.rows(new)[:-2])
    for news in ([new], [new, base]):
        parts = compare(base, *news, "--md").stdout.split("```\n")
        assert len(parts) == 5 and parts[0] == parts[4] == "" and "0 slower" in parts[3] and "only in" in parts[3]
        assert all(line.startswith("| ") for line in parts[2].splitlines())


def test_a_lost_result_fails_a_strict_gate(base, new):
    edit.set_rows(new, edit.rows(new)[1:])
    compare(base, new)
    assert "1 result of" in compare(base, new, "--strict", expect=harness.RUN).stderr
    compare(new, base, "--strict")  # a new one does not
    compare(base, new, "--strict", "--where", "operation!=s0")
    edit.set_row(base, 0, status=b"skipped")  # nor one that was none
    compare(base, new, "--strict")
