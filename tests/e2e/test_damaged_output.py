"""A results file with a damaged object header whose checksum is right, so that HDF5 believes it: whatever reads the file
ends with a documented exit code and a sentence, never by a signal, and `--resume` never calls it complete without its
outputs."""

import os
import random
import shutil
import struct
import subprocess
import sys

import h5py
import numpy as np
import pytest

import harness
from harness import IO, OK, RUN, USAGE

SEED = int(os.environ.get("TILERUN_SEED", "20261125"))
CASES = int(os.environ.get("TILERUN_CASES", "6"))
COMMANDS = {
    "resume": "run job.yaml -o out.h5 --resume --progress none", "show": "show out.h5", "compare": "compare out.h5 base.h5",
    "report": "report out.h5 -o new.html", "reproduce": "reproduce out.h5 --threshold 1000%", "inspect": "inspect out.h5",
}  # fmt: skip
LOOK = """if True:
    import h5py
    with h5py.File("out.h5") as file:
        for path in ("outputs/a", "outputs/c", "variants/c/cpu"): print(file[path].shape)"""  # where h5py may crash
WORD = (1 << 32) - 1


def rotated(value, bits):
    return (value << bits | value >> (32 - bits)) & WORD


def lookup3(data):
    """HDF5's checksum of metadata: Bob Jenkins' hash of that name."""
    a = b = c = (0xDEADBEEF + len(data)) & WORD
    whole = max(0, (len(data) - 1) // 12)
    for x, y, z in struct.iter_unpack("<III", data[: 12 * whole]):
        a, b, c = (a + x) & WORD, (b + y) & WORD, (c + z) & WORD
        for bits in (4, 6, 8, 16, 19, 4):
            a = (a - c) & WORD ^ rotated(c, bits)
            c = (c + b) & WORD
            a, b, c = b, c, a
    x, y, z = struct.unpack("<III", data[12 * whole :].ljust(12, b"\0"))
    a, b, c = (a + x) & WORD, (b + y) & WORD, (c + z) & WORD
    for bits in (14, 11, 25, 16, 4, 14, 24):
        c = ((c ^ b) - rotated(b, bits)) & WORD
        a, b, c = b, c, a
    return b  # what was c in the last step


def headers(data):
    """Where each object header of version 2 has its messages: begin of what is summed, first byte of these, end."""
    at = -1
    while (at := data.find(b"OHDR", at + 1)) >= 0:
        flags = data[at + 5]
        begin = at + 6 + (16 if flags & 0x20 else 0) + (4 if flags & 0x10 else 0)
        width = 1 << (flags & 3)
        end = begin + width + int.from_bytes(data[begin : begin + width], "little")
        if end + 4 <= len(data) and lookup3(data[at:end]) == struct.unpack_from("<I", data, end)[0]:
            yield at, begin + width, end


def damage(path, draw):
    data = bytearray(path.read_bytes())
    found = list(headers(bytes(data)))
    assert len(found) > 10
    at, begin, end = draw.choice(found)
    place = draw.randrange(begin, end - 8)
    addresses = [i for i in range(begin, end - 8) if 48 <= struct.unpack_from("<Q", data, i)[0] < len(data)]
    if addresses and draw.random() < 0.8:
        place = draw.choice(addresses)
    new = draw.choice([draw.randrange(len(data)), draw.randrange(1 << 64), len(data) - 1, 0, (1 << 64) - 1, at])
    struct.pack_into("<Q", data, place, new)
    struct.pack_into("<I", data, end, lookup3(bytes(data[at:end])))
    path.write_bytes(data)
    return f"header at {at}: {new:#x} at {place}"


@pytest.fixture(scope="module")
def whole(memory_folder):
    folder = memory_folder / "sound"
    folder.mkdir()
    harness.write_arrays(folder / "in.h5", x=np.arange(12.0).reshape(3, 4))
    scale = {"op": "scale", "inputs": ["x"], "alpha": 2, "variants": ["cpu"]}
    harness.write_job(
        folder / "job.yaml", device="cpu", inputs={"x": {"file": "in.h5", "dataset": "x"}},
        defaults={"warmup": 0, "repeat": 2},
        operations=[{"id": "a", **scale}, {"id": "b", **scale, "to": "made.h5:/b"}, {"id": "c", **scale, "store": "all"}],
    )  # fmt: skip
    harness.quiet("run", folder / "job.yaml", "-o", folder / "out.h5", "--progress", "none")
    shutil.copy(folder / "out.h5", folder / "base.h5")
    return folder


@pytest.mark.parametrize("case", range(CASES))
def test_it_ends_with_a_sentence(folder, whole, case):
    draw = random.Random(f"{SEED} {case}")
    shutil.rmtree(folder)
    shutil.copytree(whole, folder)
    what = damage(folder / "out.h5", draw)
    kept = (folder / "out.h5").read_bytes()
    for name, command in COMMANDS.items():
        (folder / "out.h5").write_bytes(kept)
        done = harness.tilerun(*command.split(), cwd=folder)
        told = (SEED, case, what, name, done.returncode, done.stderr[-400:])
        assert done.returncode in (OK, RUN, USAGE, IO), told
        if done.returncode in (USAGE, IO):
            assert done.stderr.splitlines()[-1].startswith("tilerun: "), told
        if name == "resume" and done.returncode == OK:
            looked = subprocess.run([sys.executable, "-c", LOOK], cwd=folder, capture_output=True, text=True)
            assert looked.stdout.split() == ["(3,", "4)"] * 3, (told, looked.stderr[-400:])
