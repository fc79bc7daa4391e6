"""What a job takes from outside its file: included files, environment variables, the home directory, standard input;
and what it writes into the results file of its own: tags, notes, recorded variables."""

import json
import os
import random
import re

import h5py
import pytest

import harness

CASES = int(os.environ.get("TILERUN_CASES", 40))
SEED = int(os.environ.get("TILERUN_SEED", 0)) or random.randrange(1 << 30)
TAIL = "operations: [{id: t, op: transpose, inputs: [A]}]\n"
INPUT = "inputs: {A: {random: {shape: [2, 3]}}}\n"


def merged(own, more):
    """Maps key by key: `own` wins, and what only `more` has stands first."""
    result = {**more, **own}
    for key in own:
        if isinstance(own[key], dict) and isinstance(more.get(key), dict):
            result[key] = merged(own[key], more[key])
    return result


def drawn_files(rng, folder, name, depth):
    """Writes a file, and the files that it includes; returns what it stands for."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {}
    if rng.random() < 0.8:
        content["parameters"] = {p: rng.randint(1, 9) for p in rng.sample("abcd", rng.randint(1, 3))}
    if rng.random() < 0.6:
        content["defaults"] = {k: rng.randint(1, 3) for k in rng.sample(["repeat", "warmup"], rng.randint(1, 2))}
    if rng.random() < 0.4:
        content["name"] = rng.choice("xyz")
    includes = []
    for number in range(rng.randrange(3) if depth else 0):
        below = rng.choice(["", "sub/"]) + f"{path.stem}{number}.yaml"
        includes.append((below, drawn_files(rng, path.parent, below, depth - 1)))
    whole = {}
    for _, included in includes:
        whole = merged(included, whole)
    lines = [f"{key}: {json.dumps(value)}" for key, value in content.items()]
    paths = [below for below, _ in includes]
    lines += [f"include: {json.dumps(paths if len(paths) > 1 or rng.random() < 0.5 else paths[0])}"] if paths else []
    rng.shuffle(lines)
    path.write_text("\n".join(lines or ["{}"]) + "\n")
    return merged(content, whole)


def test_includes(tmp_path):
    """Drawn trees of included files give what merging them in Python gives."""
    rng = random.Random(SEED)
    for number in range(CASES):
        folder = tmp_path / str(number)
        content = drawn_files(rng, folder, "job.yaml", 3)
        uses = "x " + " ".join(f"${name}" for name in content.get("parameters", {}))
        text = (folder / "job.yaml").read_text().replace("{}\n", "")
        (folder / "job.yaml").write_text(text + f'version: 1\ndescription: "{uses}"\n{INPUT}{TAIL}')
        done = harness.tilerun("plan", "--resolved", folder / "job.yaml")
        assert done.returncode == harness.OK, f"seed {SEED} {number}: {done.stderr}"
        shown = done.stdout
        read = dict(re.findall(r"^  (\w): (.*)$", shown.split("inputs:")[0], re.M))
        assert read == {k: str(v) for k, v in content.get("parameters", {}).items()}, f"seed {SEED}"
        assert f'name: "{content.get("name", "job")}"' in shown, f"seed {SEED}"
        for key, value in content.get("defaults", {}).items():
            assert f"{key}: {value}" in shown, f"seed {SEED}"


def test_errors_in_included_files(tmp_path):
    """They name the file that they are in, its line and its column, in the order of the files."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "job.yaml").write_text(f"include: [sub/a.yaml, missing.yaml]\nnmae: x\nversion: 1\n{TAIL}")
    (tmp_path / "sub/a.yaml").write_text("include: b.yaml\nparameters: {n: 2, k: $n / 0}\n")
    (tmp_path / "sub/b.yaml").write_text("inputs:\n  A: {random: {shape: [$n, $k], sede: 1}}\n")
    done = harness.tilerun("check", "job.yaml", cwd=tmp_path)
    places = re.findall(r"^(\S+?):(\d+):(\d+): ", done.stderr, re.M)
    assert done.returncode == harness.USAGE
    own = {("job.yaml", "1", "23"), ("job.yaml", "2", "1")}
    inner = {("sub/a.yaml", "2", "26"), ("sub/b.yaml", "2", "33")}
    assert set(places) == own | inner
    assert [name for name, _, _ in places] == sorted((name for name, _, _ in places))


@pytest.mark.parametrize("broken", ["[1, 2]", "a: b: c", "\tx: 1", ""])
def test_included_file_that_is_no_map(tmp_path, broken):
    (tmp_path / "job.yaml").write_text(f"version: 1\ninclude: other.yaml\n{INPUT}{TAIL}")
    (tmp_path / "other.yaml").write_text(broken)
    done = harness.tilerun("check", "job.yaml", cwd=tmp_path)
    assert done.returncode == harness.USAGE and "other.yaml" in done.stderr


@pytest.mark.parametrize("length", [1, 2, 5, 15, 17])
def test_cycles(tmp_path, length):
    """Files that include each other in a circle are an error at the include that closes it; a long chain is one too."""
    for i in range(length):
        rest = f"version: 1\n{INPUT}{TAIL}" if i == 0 else ""
        (tmp_path / f"{i}.yaml").write_text(f"include: {(i + 1) % length}.yaml\n{rest}")
    done = harness.tilerun("check", "0.yaml", cwd=tmp_path, timeout=20, expect=harness.USAGE)
    last = min(length, 16) - 1
    assert re.search(rf"^{last}\.yaml:1:10: ", done.stderr, re.M), done.stderr


def test_files_that_multiply(tmp_path):
    """Each file includes the next one twice: the files that are read are counted, and the error comes at once."""
    for i in range(15):
        rest = f"version: 1\n{INPUT}{TAIL}" if i == 0 else ""
        (tmp_path / f"{i}.yaml").write_text((f"include: [{i + 1}.yaml, {i + 1}.yaml]\n" if i < 14 else "{}\n") + rest)
    done = harness.tilerun("check", "0.yaml", cwd=tmp_path, timeout=20)
    assert done.returncode == harness.USAGE and "more than 256 files" in done.stderr


def test_environment_variables(tmp_path):
    """They are replaced everywhere, keep their dollars, take the type of their text, and are recorded."""
    (tmp_path / "job.yaml").write_text(
        'version: 1\noutput: "${env:WHERE}/out.h5"\nparameters: {n: "${env:N}"}\n'
        'environment: ["SOME_*", NOT_SET]\n'
        'tags: {experiment: "${env:SOME_A}", card: 3, share: 0.5, literal: "$${env:N}"}\n'
        f'notes: "cost $$5"\ninputs: {{A: {{random: {{shape: [$n, "${{env:N}}"]}}}}}}\n{TAIL}'
    )
    environment = {**os.environ, "WHERE": str(tmp_path), "N": "4", "SOME_A": "a$n", "SOME_B": "1234"}
    harness.tilerun("run", tmp_path / "job.yaml", "--once", env=environment, expect=harness.OK)
    with h5py.File(tmp_path / "out.h5") as file:
        attributes = dict(file.attrs)
        recorded = {k: v for k, v in file["environment"].attrs.items() if k.isupper()}
        assert file["outputs/t"].shape == (4, 4)
    assert recorded == {k: environment[k] for k in ("WHERE", "N", "SOME_A", "SOME_B")}
    assert (attributes["experiment"], attributes["literal"]) == ("a$n", "${env:N}")
    assert attributes["notes"] == "cost $5"
    assert attributes["card"] == 3 and attributes["share"] == 0.5
    harness.tilerun("check", tmp_path / "job.yaml", env={**environment, "WHERE": ""} | {"N": "4"}, expect=harness.OK)
    environment.pop("N")
    done = harness.tilerun("check", tmp_path / "job.yaml", env=environment)
    assert done.returncode == harness.USAGE and "job.yaml:3:18: " in done.stderr and "job.yaml:7:" in done.stderr
    harness.tilerun("reproduce", tmp_path / "out.h5", "-o", tmp_path / "again.h5", env=environment, expect=harness.OK)


def test_reserved_tags(tmp_path):
    (tmp_path / "job.yaml").write_text(f"version: 1\ntags: {{schema: x, 1a: y, good: [1]}}\n{INPUT}{TAIL}")
    done = harness.tilerun("check", tmp_path / "job.yaml", expect=harness.USAGE)
    assert set(re.findall(r"job\.yaml:(\d+:\d+): ", done.stderr)) == {"2:8", "2:19", "2:32"}


def test_home(tmp_path):
    (tmp_path / "data").mkdir()
    harness.write_arrays(tmp_path / "data/x.h5", x=[[1.0, 2.0]])
    path = tmp_path / "job.yaml"
    path.write_text(
        "version: 1\nparameters: {folder: ~/data}\ninputs: {A: {file: $folder/x.h5, dataset: x}}\n"
        "operations: [{id: t, op: transpose, inputs: [A], to: '~/data/t.h5:/t'}]\n"
    )
    environment = {**os.environ, "HOME": str(tmp_path)}
    done = harness.tilerun("run", path, "-o", tmp_path / "out.h5", "--once", env=environment)
    assert done.returncode == harness.OK and (tmp_path / "data/t.h5").exists(), done.stderr
    environment.pop("HOME")
    done = harness.tilerun("check", path, env=environment)
    assert done.returncode == harness.USAGE and "job.yaml:2:22: " in done.stderr and "job.yaml:4:" in done.stderr


def test_standard_input(tmp_path):
    """`run -` reads the job from stdin; its paths are relative to the current directory."""
    harness.write_arrays(tmp_path / "x.h5", x=[[1.0, 2.0]])
    text = f"version: 1\ninputs: {{A: {{file: x.h5, dataset: x}}}}\n{TAIL}"
    harness.tilerun("run", "-", "--once", input=text, cwd=tmp_path, expect=harness.OK)
    with h5py.File(tmp_path / "stdin.h5") as file:
        assert file["outputs/t"].shape == (2, 1) and file["job"][()].decode() == text
    done = harness.tilerun("check", "-", input=text.replace("x.h5", "y.h5"), cwd=tmp_path)
    assert done.returncode == harness.USAGE and "<stdin>:2:" in done.stderr
    harness.tilerun("reproduce", "stdin.h5", "-o", "again.h5", cwd=tmp_path, expect=harness.OK)
