#!/usr/bin/env python3
"""How fast compressed data are read: tilerun on all cores, beside h5py with its own filters or hdf5plugin's; where h5py
cannot read them here, beside tilerun on one core. Files in the page cache; of several repeats the median.

    codecs.py TILERUN FOLDER [--size 1GiB] [--repeats N] [--device cuda|cpu] [--only lzf,zstd,...]

counts  int16 of little entropy, as a detector counts
field   float32, smooth with noise; shuffled before LZF, gzip, zstd and LZ4

Then what a selection of rows asks of the file, beside the least it can: the rows, or the chunks that hold them.
FOLDER, with room for SIZE bytes, gets one data set after the other. Exit code 1: a sum is wrong, or more was read.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
from pipelines import bytes_of
from repeated import counts, packed_by_h5py, write_repeated
from streaming import Bench, median

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
import h5codecs  # noqa: E402

CHUNK, KNOWN = 1 << 20, 8  # bytes; different ones
GOALS = {"none": "", "gzip": 20, "lzf": 8, "zstd": 8, "blosc": 8, "lz4": "", "bitshuffle": "", "bitshuffle-lz4": ""}
GOALS["bitshuffle-zstd"] = ""
ROW = 1 << 16  # bytes
SELECTIONS = [(None, 2), (1, 2), (8, 2), (8, 16)]  # rows of a chunk, step


def field(shape):
    random = np.random.default_rng(1)
    wave = np.sin(np.linspace(0, 40, shape[1], dtype="f4"))
    slow = np.sin(np.linspace(0, 1, shape[0], dtype="f4"))
    return slow[:, None] + wave + random.integers(0, 64, shape).astype("f4") / 1024


def filter_of(name, size):
    """Of those that h5py does not write: number, what it makes of a chunk, parameters."""
    if name == "zstd":
        return h5codecs.ZSTD, h5codecs.zstd, (3,)
    if name == "lz4":
        return h5codecs.LZ4, h5codecs.lz4_filter, (0,)
    if name == "blosc":
        return h5codecs.BLOSC, lambda data: h5codecs.blosc(data, size), (2, 2, size, CHUNK, 5, 1, 1)
    over = {"bitshuffle": 0, "bitshuffle-lz4": h5codecs.OVER_LZ4, "bitshuffle-zstd": h5codecs.OVER_ZSTD}[name]
    return h5codecs.BITSHUFFLE, lambda data: h5codecs.bitshuffle(data, size, 0, over), (0, 4, size, 0, over)


def is_here(name):
    kinds = {"zstd": h5codecs.ZSTD, "lz4": h5codecs.LZ4, "blosc": h5codecs.BLOSC, "bitshuffle": h5codecs.BITSHUFFLE,
             "bitshuffle-lz4": h5codecs.LZ4, "bitshuffle-zstd": h5codecs.ZSTD}  # fmt: skip
    return name not in kinds or h5codecs.are_here(kinds[name], 0)


class Codecs(Bench):
    def sum(self, source, *options):
        """Seconds of reading, the sum, bytes asked for."""
        operation = {"id": "sum", "op": "reduce", "operator": "sum", "axis": "all", "inputs": ["X"]}
        _, rows = self.run("codecs", self.job(operation, {"X": source}), *options)
        with h5py.File(self.folder / "codecs.h5") as file:
            return float(rows[0]["read_s"]), file["outputs/sum"][()], int(rows[0]["file_bytes"])

    def by_h5py(self, path):
        """Seconds of each repeat, by another process: hdf5plugin changes how filters are written. None: it cannot."""
        script = Path(__file__).with_name("rival_read.py")
        done = subprocess.run([sys.executable, script, path, str(self.repeats)], capture_output=True, text=True)
        if done.returncode not in (0, 3):
            sys.exit(f"rival_read.py: {done.stderr}")
        return [float(line) for line in done.stdout.split()] if done.returncode == 0 else None

    def on_one_core(self, source):
        cores = os.sched_getaffinity(0)
        os.sched_setaffinity(0, [min(cores)])
        try:
            return self.sum(source)[0]
        finally:
            os.sched_setaffinity(0, cores)

    def write(self, path, name, values, length):
        chunks, shuffle = (KNOWN and len(values) // KNOWN, values.shape[1]), values.dtype == "f4"
        if name in ("none", "gzip", "lzf"):
            how = {} if name == "none" else {"compression": name, "shuffle": shuffle}
            with packed_by_h5py(values, chunks, **how) as packed:
                return write_repeated(path, packed, length)
        own = name.startswith("b")  # these shuffle by themselves
        kind, encode, parameters = filter_of(name, values.itemsize)
        small = path.with_suffix(".small")
        small.unlink(missing_ok=True)
        h5codecs.write(small, "X", values, chunks, kind, encode, parameters, shuffle and not own)
        with h5py.File(small) as file:
            stored = write_repeated(path, file["X"], length)
        small.unlink()
        return stored

    def measure(self, name, kind):
        values = counts((KNOWN * 512, CHUNK // 1024)) if kind == "counts" else field((KNOWN * 256, CHUNK // 1024))
        rounds = max(1, self.size // values.nbytes)
        bytes_, path = rounds * values.nbytes, self.folder / "packed.h5"
        stored = sum(self.write(path, name, values, rounds * len(values)))
        source = {"file": str(path.absolute()), "dataset": "/X"}
        runs = [self.sum(source) for _ in range(self.repeats + 1)][1:]
        ours, base, theirs = median([run[0] for run in runs]), "h5py", self.by_h5py(path)
        if not theirs:
            base, theirs = "one core", [self.on_one_core(source) for _ in range(self.repeats)]
        path.unlink()
        right = np.isclose(runs[-1][1], rounds * float(values.sum(dtype="f8")), rtol=1e-5)
        rates = f"{bytes_ / ours / 1e9:10.2f}{bytes_ / median(theirs) / 1e9:10.2f}"
        ratio = f"{median(theirs) / ours:7.2f}{GOALS[name]:>6}{'' if right else '  WRONG'}"
        print(f"{name:16}{kind:8}{bytes_ / stored:7.2f}{rates}  {base:10}{ratio}", flush=True)
        return bool(right)

    def select(self, chunk, step):
        rows, path = max(8 * KNOWN, self.size // ROW // 128 * 128), self.folder / "rows.h5"
        values = counts((8 * KNOWN, ROW // 2))
        if chunk:
            with packed_by_h5py(values, (chunk, ROW // 2), compression="gzip") as packed:
                stored = write_repeated(path, packed, rows)
            first_rows = range(0, rows, chunk)  # a chunk holds a selected row if the next one is not behind it
            least = sum(size for first, size in zip(first_rows, stored) if -first % step < chunk)
            asked = sum(stored)
        else:
            with h5py.File(path, "w") as file:
                data = file.create_dataset("X", (rows, ROW // 2), "i2")
                for row in range(0, rows, len(values)):
                    data[row : row + len(values)] = values
            asked, least = rows * ROW, len(range(0, rows, step)) * ROW
        _, total, read = self.sum({"file": str(path.absolute()), "dataset": "/X", "select": [f"::{step}", ":"]})
        path.unlink()
        right = total == rows // len(values) * int(values[::step].sum(dtype="i8")) and read <= least
        name = f"gzip, {chunk} a chunk" if chunk else "contiguous"
        numbers = "".join(f"{number / 1e6:10.2f}" for number in (asked, read, least))
        print(f"{name:18}::{step:<6}{numbers}{'' if right else '  WRONG'}", flush=True)
        return right


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tilerun")
    parser.add_argument("folder")
    parser.add_argument("--size", type=bytes_of, default="1GiB")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--only", default=",".join(GOALS))
    parser.set_defaults(matmul="auto")
    arguments = parser.parse_args()
    bench, good = Codecs(arguments), True
    print(f"{bench.size / 1e9:.3g} GB, {bench.threads} cores; GB/s of decoded data\n{'':24}{'shrunk':>7}{'tilerun':>10}"
          f"{'other':>10}  {'which is':10}{'ratio':>7}{'goal':>6}", flush=True)
    for name in arguments.only.split(","):
        if not is_here(name):
            print(f"{name:16}its library is not installed here", flush=True)
            continue
        for kind in ("counts", "field"):
            good = bench.measure(name, kind) and good
    print(f"\n{'rows of 64 KiB':18}{'select':8}{'MB: all':>10}{'read':>10}{'least':>10}", flush=True)
    for chunk, step in SELECTIONS:
        good = bench.select(chunk, step) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
