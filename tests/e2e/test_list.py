"""`list` tells what this build offers, `devices` what this machine has."""

import re

import harness
import tree
from harness import OK, quiet

GIB = 1 << 30


def test_list():
    everything = quiet("list")
    parts = [quiet("list", op) for op in ("matmul", "reduce", "transpose", "scale", "map")]
    assert everything == "".join(parts)
    assert {v.op for v in harness.list_variants()} == {"matmul", "reduce", "transpose", "scale", "map"}


def test_list_describes_what_is_not_in_this_build():
    """GPU variants of a build without CUDA: with types and parameters, as any build has them."""
    registry = (harness.ROOT / "kernels/core/registry.def").read_text()
    registered = re.findall(r"^(CPU|CUDA)\(([a-z]+)_(\w+)\)$", registry, re.M)
    for op in ("matmul", "reduce", "transpose", "scale", "map"):
        listed = re.findall(r"^  (\w+) +\S.*\n(?: {12}.*\n)*? {12}(cannot run here: .*|runs here.*)$", quiet("list", op), re.M)
        assert [name for name, _ in listed] == [name for _, of, name in registered if of == op]
        for name, words in listed:
            left_out = ("CUDA", op, name) in registered and not tree.has_cuda()
            assert (words == "cannot run here: this build has no CUDA") == left_out, name
    tiled = re.search(r"^  tiled .*\n +types: (.*?);.*\n +(tile: 32 16 8) ", quiet("list", "matmul"), re.M)
    assert tiled and "bfloat16" in tiled[1]


def test_a_parameter_is_checked_without_its_code(folder):
    """Of a variant that is not in this build, as on a login node without nvcc."""
    for variant, at in [({"name": "tiled", "tile": 17}, "must be one of 32, 16, 8"), ({"name": "tiled", "banana": 3}, "no parameter 'banana'")]:
        operation = {"id": "y", "op": "matmul", "inputs": ["x", "x"], "variants": [variant]}
        job = harness.write_job(folder / "job.yaml", inputs={"x": {"random": {"shape": [4, 4]}}}, operations=[operation])
        done = harness.tilerun("check", job)
        assert done.returncode == harness.USAGE and at in done.stderr, done.stderr


def size(text):
    number, unit = text.split()
    return float(number) * 1024 ** ["B", "KiB", "MiB", "GiB", "TiB"].index(unit)


def test_devices(folder, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))  # no limits that another test has measured
    done = harness.tilerun("devices", "--measure")
    assert done.returncode == OK and re.match(r"cpu  \S.*\n    \d+ threads\n", done.stdout)
    assert ("no CUDA GPU here" in done.stderr) == ("\ncuda:0" not in done.stdout)
    measured = r"^    measured limits   memory (.+?), float32 \S+ \SFLOP/s.*\n.*a launch \S+ us"
    memory = re.search(measured, done.stdout, re.M)[1]
    free = size(re.search(r"^    memory .*, (\S+ \SiB) free$", done.stdout, re.M)[1])
    cache = size(re.search(r"^    last-level cache  (\S+ \SiB)$", done.stdout, re.M)[1])
    if 1.5 * cache < 0.9 * min(GIB, free / 8):  # operands of that size go beyond the cache
        assert re.fullmatch(r"\S+ GB/s", memory) and 0.1 < float(memory.split()[0]) < 1e5
    else:
        assert re.fullmatch(r"unknown|\S+ GB/s", memory)
