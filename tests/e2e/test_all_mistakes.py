"""All mistakes of a job are reported at once, each at its line and column, and nothing that only follows from them."""

import os
import random
import re
import subprocess

import h5py
import numpy as np
import pytest

import harness

CASES = int(os.environ.get("TILERUN_CASES", "60"))
SEED = int(os.environ.get("TILERUN_SEED", random.randrange(1 << 30)))
OTHER = os.environ.get("TILERUN_OTHER")  # a program of another build, with or without CUDA

JOB = """\
version: 1
name: right
memory: 1GiB
parameters: {n: [6, 8], low: -1}
inputs:
  A: {random: {shape: [$n, 5], low: $low, seed: 3}}
  B: {random: {shape: [5, 7]}}
  I: {random: {shape: [5, 4], dtype: int32, distribution: integer, high: 9}}
  F: {file: "alpha.h5", dataset: /group/first}
  G: {file: "beta.h5", dataset: /second, select: ["0:3", ":"]}
  C: {file: "part-*.h5", dataset: /part, concatenate: 0}
defaults: {warmup: 1}
operations:
  - {id: product, op: matmul, inputs: [A, B], variants: [naive, blocked]}
  - {id: flipped, op: transpose, inputs: [product], chunks: [2, 2], repeat: 5}
  - {id: total, op: reduce, inputs: [flipped], operator: sum, axis: [0, 1], verify: full}
  - {id: sums, op: reduce, inputs: [I], operator: sum, axis: 1, dtype: float64}
  - {id: first, op: reduce, inputs: [F], operator: mean, axis: -1, store: all}
  - {id: second, op: transpose, inputs: [G], axes: [1, 0], compression: gzip}
  - {id: whole, op: scale, inputs: [C], alpha: 2, beta: 1}
  - {id: both, op: matmul, inputs: [G, F], transpose_a: true, transpose_b: true}
  - {id: tiles, op: matmul, inputs: [B, A], transpose_a: true, transpose_b: true, variants: [{name: tiled, tile: 16}]}
"""

# What is replaced, its replacement, what in the replacement the caret points at (the last one), and a word of the
# message. The text that is replaced occurs once, and the replacements are independent of each other.
MISTAKES = [
    ("memory: 1GiB", "memory: 4G", "4G", "did you mean 4GiB"),
    ("name: right", "nmae: right", "nmae", "did you mean 'name'"),
    ("low: -1}", "low: -1, spare: 3}", "spare", "nothing uses"),
    ("low: $low, seed", "low: $loww, seed", "$loww", "did you mean '$low'"),
    ("seed: 3}", "sede: 3}", "sede", "did you mean 'seed'"),
    ("dtype: int32, d", "dtype: int23, d", "int23", "did you mean"),
    ('"alpha.h5"', '"alhpa.h5"', '"alhpa.h5"', "did you mean 'alpha.h5'"),
    ('"alpha.h5"', '"alpha-${nope}.h5"', "${nope}", "parameter 'nope' is not set"),
    ("/group/first", "/group/frist", "/group/frist", "did you mean '/group/first'"),
    ('file: "beta.h5"', 'flie: "beta.h5"', "flie", "did you mean 'file'"),
    ('["0:3", ":"]', '["0:300", ":"]', '"0:300"', "reaches beyond"),
    ('"part-*.h5"', '"prat-*.h5"', '"prat-*.h5"', "0 files match"),
    ("concatenate: 0", "concatenate: 4", "4", "cannot be concatenated"),
    ("warmup: 1", "warmup: -1", "-1", "at least 0"),
    ("variants: [naive, blocked]", "variants: [naive, bloked]", "bloked", "did you mean 'blocked'"),
    ("variants: [naive, blocked]", "variants: [naive, naive]", "naive", "listed twice"),
    ("chunks: [2, 2]", "chunks: [2, 2, 2]", "[2, 2, 2]", "'chunks' has 3"),
    ("repeat: 5", "repeat: 0", "0", "at least 1"),
    ("axis: [0, 1]", "axis: [0, 5]", "5", "no axis 5"),
    ("verify: full", "verify: ful", "ful", "did you mean 'full'"),
    ("inputs: [I], operator: sum", "inputs: [I], operator: summ", "summ", "did you mean 'sum'"),
    ("axis: 1, dtype", "axis: 2, dtype", "2", "no axis 2"),
    ("dtype: float64", "dtype: float46", "float46", "did you mean"),
    ("store: all", "store: al", "al", "unknown value of 'store': 'al'"),
    ("axes: [1, 0]", "axes: [1, 1]", "1", "once"),
    ("compression: gzip", "compresion: gzip", "compresion", "did you mean 'compression'"),
    ("op: scale", "op: sclae", "sclae", "did you mean 'scale'"),
    ("beta: 1}", "beta: x}", "x", "a number"),
    ("tile: 16", "tile: 17", "17", "tile of variant 'tiled'"),
    ("tile: 16", "tlie: 16", "tlie", "no parameter 'tlie'"),
    ("inputs: [A, B], v", "inputs: [A, BB], v", "BB", "unknown input 'BB'"),
    ("inputs: [A, B], v", "inputs: [A, I], v", "I", "matmul takes"),
    ("inputs: [B, A]", "inputs: [B, B]", "B", "inner dimensions differ"),
    ("version: 1", "version: 2", "2", "must be 1"),
]
# Pairs of which one hides the other: what is unknown cannot be judged.
HIDES = [
    ("alhpa.h5", "/group/frist"), ("alpha-", "/group/frist"),
    ("prat-*", "concatenate: 4"),
    ("$loww", "I], v"),
    ("[A, BB]", "chunks: [2, 2, 2]"), ("[A, BB]", "[0, 5]"), ("[A, I]", "chunks: [2, 2, 2]"), ("[A, I]", "[0, 5]"),
    ("$loww", "chunks: [2, 2, 2]"), ("$loww", "[0, 5]"), ("$loww", "inputs: [B, B]"),
    ("int23", "axis: 2, dtype"), ("int23", "[A, I]"),
    ("[1, 1]", "0:300"),
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mistakes")
    with h5py.File(folder / "alpha.h5", "w") as file:
        file["group/first"] = np.ones((7, 3), "f4")
    harness.write_arrays(folder / "beta.h5", second=np.ones((9, 4), "f4"))
    for i in range(2):
        harness.write_arrays(folder / f"part-{i}.h5", part=np.ones((2, 4), "f4"))
    return folder


def hidden(one, other):
    texts = one[1], other[1]
    return any(a in texts[i] and b in texts[1 - i] for a, b in HIDES for i in (0, 1))


def apart(one, other):
    """Are the texts that they replace apart from each other?"""
    (a, b), (c, d) = ((at := JOB.index(text), at + len(text)) for text in (one[0], other[0]))
    return b < c or d < a


def draw(rng):
    """A job with mistakes, and for each its line, column and word."""
    chosen = []
    for mistake in rng.sample(MISTAKES, rng.randint(1, 9)):
        if all(apart(mistake, other) and not hidden(mistake, other) for other in chosen):
            chosen.append(mistake)
    text, places = JOB, []
    for before, after, *_ in chosen:
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    for _, after, at, word in chosen:
        assert text.count(after) == 1, after
        place = text.index(after) + after.rindex(at)
        places.append((text.count("\n", 0, place) + 1, place - text.rfind("\n", 0, place), word))
    return text, sorted(places)


def test_right_job(folder):
    (folder / "job.yaml").write_text(JOB)
    done = harness.tilerun("check", "job.yaml", cwd=folder)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr


@pytest.mark.parametrize("mistake", range(len(MISTAKES)))
def test_one_mistake(folder, mistake):
    class One:
        randint = staticmethod(lambda low, high: 1)
        sample = staticmethod(lambda of, count: [of[mistake]])

    check(folder, *draw(One), "check")


def check(folder, text, places, command):
    (folder / "job.yaml").write_text(text)
    done = harness.tilerun(command, "job.yaml", *(["-o", "out.h5"] if command == "run" else []), cwd=folder)
    found = [(int(line), int(column)) for line, column in re.findall(r"^job\.yaml:(\d+):(\d+): ", done.stderr, re.M)]
    assert done.returncode == 2 and found == [place[:2] for place in places], f"{places}\n{done.stderr}{text}"
    messages = re.findall(r"^job\.yaml:.*", done.stderr, re.M)
    for message, (_, column, word) in zip(messages, places):
        assert word in message, (word, done.stderr)
    carets = [len(line) - len("      | ") for line in done.stderr.splitlines() if re.match(r"      \| *\^$", line)]
    assert carets == [place[1] for place in places], done.stderr
    count = len(places)
    assert done.stderr.splitlines()[-1] == f"{count} mistake{'s' if count > 1 else ''} in job.yaml", done.stderr
    assert not (folder / "out.h5").exists()


TRAPS = [
    ("A: {file: *.h5, dataset: /x}", 14, "needs quotes"),
    ("A: {file: ${x}.h5, dataset: /x}", 14, "write $name"),
    ("A: {random: {shape: [${n}, 4]}}", 25, "write $name"),
    ("A: {file: @x.h5, dataset: /x}", 13, "needs quotes"),
    ("A: {file: `x.h5`, dataset: /x}", 13, "needs quotes"),
    ("A: {random:{shape: [3, 4]}}", 13, "a space must follow a key's colon"),
    ("A: {random: {shape: ['3', 4]}}", 24, "the quotes make it text"),
    ('A: {random: {shape: [3, 4], seed: "7"}}', 37, "the quotes make it text"),
    ("A: {random: {shape: [3, 1e1]}, dataset: 1.5e1, seed: 2}", 34, "'dataset' does not apply"),
    ("A: {random: {shape: [3, 1.5]}}", 27, "an integer, not '1.5'"),
]


@pytest.mark.parametrize("line, column, words", TRAPS)
def test_traps_of_yaml(folder, line, column, words):
    text = f"version: 1\ninputs:\n  {line}\noperations:\n  - {{id: y, op: scale, inputs: [A]}}\n"
    (folder / "job.yaml").write_text(text)
    done = harness.tilerun("check", "job.yaml", cwd=folder)
    first = done.stderr.splitlines()[0]
    assert done.returncode == 2 and first.startswith(f"job.yaml:3:{column}: ") and words in first, done.stderr


def test_no_space_behind_a_colon(folder):
    (folder / "job.yaml").write_text("version:1\nname: x\n")
    done = harness.tilerun("check", "job.yaml", cwd=folder)
    assert done.returncode == 2 and "on the line before, a space must follow" in done.stderr, done.stderr


def test_whole_numbers_and_escaped_wildcards(folder):
    """1e1 is 10, and a backslash makes a wildcard plain, also where files match it as a wildcard."""
    for name in ("st*r.h5", "star.h5", "a[1]?.h5"):
        harness.write_arrays(folder / name, x=np.zeros((3, 4) if name == "star.h5" else (5, 6), "f4"))
    for written in (r"st\*r.h5", r"'st\*r.h5'", r"'a\[1\]\?.h5'"):
        text = f"""version: 1
inputs:
  A: {{file: {written}, dataset: /x}}
  B: {{random: {{shape: [6, 1e1]}}}}
operations: [{{id: y, op: matmul, inputs: [A, B], repeat: 2e0}}]
"""
        (folder / "job.yaml").write_text(text)
        done = harness.tilerun("plan", "job.yaml", "--json", cwd=folder)
        assert done.returncode == 0, done.stderr + text


def test_all_mistakes_are_told_at_once(folder):
    print("seed", SEED)
    rng = random.Random(SEED)
    for _ in range(CASES):
        text, places = draw(rng)
        check(folder, text, places, rng.choice(["check", "run", "plan"]))


@pytest.mark.skipif(not OTHER, reason="needs a program of another build: TILERUN_OTHER=PROGRAM")
def test_builds_say_the_same(folder):
    rng = random.Random(SEED)
    for number in range(200):
        text = JOB if number % 10 == 0 else draw(rng)[0]
        (folder / "job.yaml").write_text(text)
        one, other = (
            subprocess.run([program, "check", "job.yaml"], cwd=folder, capture_output=True, text=True)
            for program in (str(harness.TILERUN), OTHER)
        )
        assert (one.returncode, one.stderr) == (other.returncode, other.stderr), f"seed {SEED}\n{text}"


def test_a_missing_gpu_hides_no_mistake(folder):
    """`run` of a job for a GPU that is not there: mistakes first, exit 2; without any, exit 4."""
    text = """\
version: 1
device: cuda
inputs: {B: {random: {shape: [3, 4]}}}
operations:
  - {id: sums, op: reduce, operator: sum, axis: 7, inputs: [B], variants: [cpu]}
"""
    codes = []
    for axis in (7, 1):
        (folder / "job.yaml").write_text(text.replace("7", str(axis)))
        done = harness.tilerun("run", "job.yaml", cwd=folder, env=os.environ | {"CUDA_VISIBLE_DEVICES": ""})
        assert ("job.yaml:5:49: " in done.stderr) == (axis == 7), done.stderr
        codes.append(done.returncode)
    assert codes == [harness.USAGE, harness.DEVICE]


SWEEP = """\
version: 1
parameters: {rows: [4, 5, 6], cols: [7, 8, 7], k: 2, t: float32}
zip: [[rows, cols]]
where: $rows < 6 and $cols > $k
inputs:
  A: {random: {shape: [$rows, $cols], dtype: $t}}
operations:
  - {id: b, op: map, inputs: [A], expression: "A * $k", repeat: {min: 2, max: 3}}
  - {id: c, op: matmul, inputs: [b, A], transpose_a: true}
"""
FOLLOWED = [
    ("[4, 5, 6]", "[4, 5]"), ("[4, 5, 6]", "[4, ~, 6]"), ("[4, 5, 6]", "[4, $9, 6]"), ("zip: [[rows, cols]]", "zip: rows"),
    ("[[rows, cols]]", "[[rows, clos]]"), ("k: 2", "~: 2"), ("k: 2", "2k: 2"), ("A: {", "$A: {"), ("inputs:\n", "other: 1\n"),
    ("id: b", "id: ~"), ("id: b", "id: 1"), ("id: b, ", ""), ("[A],", "A,"), ("[A],", "[],"), ("[A],", "[$A],"),
    ("* $k", "* $2"), ("max: 3", "max: {a: 1}"), ("transpose_a", "hello"), ("expression", "hello"), ("op: map", "op: map, op: map"),
    ("where", "zip"), ("* $k", "* k"), ("dtype: $t", "dtype: t"), ("min: 2", "xyz: 2"), ("shape", "hello"),
    ("rows: [4, 5, 6], ", ""), ("cols: [7, 8, 7], ", ""), ("5, 6]", "five, 6]"), ("[4, 5", '["4", "5"'), ("k: 2", "k: two"),
]  # fmt: skip


@pytest.mark.parametrize("before, after", FOLLOWED)
def test_nothing_follows_from_a_mistake(folder, before, after):
    (folder / "job.yaml").write_text(SWEEP)
    harness.quiet("check", "job.yaml", cwd=folder)
    assert before in SWEEP
    (folder / "job.yaml").write_text(SWEEP.replace(before, after, 1))
    assert harness.said("check", "job.yaml", cwd=folder).endswith("\n1 mistake in job.yaml\n")


SHARED = """\
version: 1
parameters:
  n: [16, 24]
  k: 8
  kind: float32
inputs:
  A: {random: {shape: [$n, $k], dtype: $kind, seed: 1}}
  B: {random: {shape: [$k, $n], dtype: $kind, seed: 2}}
operations:
  - {id: product, op: matmul, inputs: [A, B], variants: [cpu]}
  - {id: tiles, op: matmul, inputs: [A, B], variants: [{name: tiled, tile: [16, 32]}, cpu]}
  - {id: sum, op: map, inputs: [product, tiles], expression: "product + $k * tiles"}
"""
CAUSES = [
    ("  n: [16, 24]\n", "", "parameter 'n' is not set"), ("  k: 8\n", "", "parameter 'k' is not set"),
    ("  kind: float32\n", "", "parameter 'kind' is not set"), ("  A: {r", "  C: {r", "unknown input 'A'"),
    ("  - {id: product, op: matmul, inputs: [A, B], variants: [cpu]}\n", "", "unknown input 'product'"),
    ("[16, 24]", "[16, abc]", "'shape[0]' must be an integer, not 'abc' (with n=abc)"), ("[16, 24]", "[16, 2.5]", "not '2.5'"),
    ("[16, 24]", "[16, -1]", "at least 0, not -1"), ("k: 8", "k: eight", "not 'eight'"), ("float32", "flot32", "'flot32'"),
    ("float32", "[float32, int3]", "'int3'"), ("tile:", "tle:", "no parameter 'tle'"), ("tile:", "block:", "parameter 'block'"),
    ("id: tiles", "id: 7d", "'7d' is not an id"), ("id: tiles", "id: a b", "'a b' is not an id"), ("id: tiles", "id: $k", "not an id"),
    ("id: tiles", "id: product", "already the name"), ("id: tiles", "id: A", "already the name"),
]  # fmt: skip


@pytest.mark.parametrize("before, after, said", CAUSES)
def test_one_message_for_each_cause(folder, before, after, said):
    """However many places it shows in."""
    assert before in SHARED
    (folder / "job.yaml").write_text(SHARED.replace(before, after, 1))
    told = harness.said("check", "job.yaml", cwd=folder)
    assert said in told and told.endswith("\n1 mistake in job.yaml\n"), told


def test_set_breaks_a_zip(folder):
    (folder / "job.yaml").write_text(SWEEP)
    said = harness.said("check", "job.yaml", "--set", "rows=4", cwd=folder)
    assert "'cols' has 3 values" in said and said.endswith("\n1 mistake in job.yaml\n")
