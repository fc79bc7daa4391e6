"""The worked examples of kernels/README.md: one file and one line make a variant. They are built as printed."""

import re

import numpy as np
import pytest

import harness
import suites
import tree

pytestmark = pytest.mark.xdist_group("readme")  # they share a build


def test_first_variant_on_the_cpu(folder):
    text = (harness.ROOT / "kernels/README.md").read_text()
    saved = dict(re.findall(r"Save this as `([\w/.]+\.(?:c|yaml))`:\n\n```\w+\n(.*?)```", text, re.S))
    (line,) = re.findall(r"^```c\n(CPU\(\w+\))\n```", text, re.M)
    (after,) = re.findall(r"after `(CPU\(\w+\))`", text)
    copy = tree.copy_tree(folder)
    for path, content in saved.items():
        (copy / path).write_text(content)
    tree.register(copy, [line], after=after)
    done = tree.make(copy)
    assert done.returncode == 0, done.stdout[-4000:]
    harness.tilerun("run", "gather.yaml", cwd=copy, program=copy / "build/tilerun", expect=harness.OK)
    assert [(row["variant"], row["status"]) for row in harness.Results(copy / "gather.h5").rows] == [
        ("cpu", "ok"),
        ("gather", "ok"),
    ]
    wrong = saved["kernels/transpose/gather.c"].replace("+ c) * args->rows", "+ c) * args->cols")
    (copy / "kernels/transpose/gather.c").write_text(wrong)
    assert tree.make(copy).returncode == 0
    done = harness.tilerun("run", "gather.yaml", "--overwrite", cwd=copy, program=copy / "build/tilerun")
    assert done.returncode == harness.RUN and "wrong" in done.stdout


@pytest.fixture(scope="module")
def example():
    """The example's path, its source, its line and the line that it goes after."""
    text = (harness.ROOT / "kernels/README.md").read_text()
    found = re.search(
        r"Save this as `(?P<path>kernels/\w+/\w+\.cu)`:\n\n```cuda\n(?P<source>.*?)```\n\n"
        r"and add after `(?P<after>\w+\(\w+\))`:\n\n```c\n(?P<line>.*?)\n```",
        text,
        re.S,
    )
    assert found, "the worked example is not where this test looks for it"
    if not tree.has_cuda():
        pytest.skip("this build has no CUDA")
    return found


@pytest.fixture(scope="module")
def program(example, memory_folder):
    folder = memory_folder / "readme"
    folder.mkdir()
    copy = tree.copy_tree(folder)
    (copy / example["path"]).write_text(example["source"])
    tree.register(copy, [example["line"]], after=example["after"])
    done = tree.make(copy)
    assert done.returncode == 0, done.stdout[-4000:]
    return copy / "build/tilerun"


def test_is_listed(example, program):
    name = re.search(r'\.name = "(\w+)"', example["source"])[1]
    before = re.match(r"CUDA\(transpose_(\w+)\)", example["after"])[1]
    listed = re.findall(r"^  (\w+) ", harness.tilerun("list", "transpose", program=program).stdout, re.M)
    assert listed.index(name) == listed.index(before) + 1


def test_forgotten_line_does_not_build(example, folder):
    copy = tree.copy_tree(folder)
    (copy / example["path"]).write_text(example["source"])
    done = tree.make(copy)
    words = f"{example['path']}: add {example['line']} to kernels/core/registry.def"
    assert done.returncode != 0 and words in done.stdout.splitlines(), done.stdout[-2000:]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8", "bfloat16"])
def test_is_right(example, program, folder, rng, dtype):
    name = re.search(r'\.name = "(\w+)"', example["source"])[1]
    variant = harness.Variant("transpose", name, [dtype], [], {}, True)
    cases, results = suites.run_suite(folder, "transpose", [variant], dtype, rng=rng, program=program)
    for case in cases:
        np.testing.assert_array_equal(results.output(case.id), case.value)
