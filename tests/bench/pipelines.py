#!/usr/bin/env python3
"""Three pipelines from file to file, by tilerun (the whole process, nothing repeated or verified) and by the script
that people write with h5py and CuPy (rival_pipelines.py; warm). Files in the page cache; of several repeats the median.

    pipelines.py TILERUN FOLDER [--size 20GB] [--repeats N] [--rival-repeats N] [--device cuda|cpu] [--only NAME,...]

    statistics  mean and std over axis 0 of a stack of int16 frames, SIZE bytes of them, gzip as h5py's default has it
    gram        X^T X of a contiguous int16 matrix of a quarter of SIZE, as float32
    rewrite     a quarter of the stack with time as its last axis: other chunks, gzip of level 1, shuffle

FOLDER, with room for about SIZE bytes, gets the data and keeps them. Needs h5py; CuPy unless the device is `cpu`. Exit
code 1: values differ. Below each line: how long the stages of tilerun's operations were busy, and the time outside of
their passes.
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
from repeated import counts, packed_by_h5py, write_repeated
from streaming import Bench, median

GOALS = {"statistics": 10, "gram": 3, "rewrite": 3}
UNITS = {"": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
STAGES = ["read", "h2d", "kernel", "d2h", "write"]


def bytes_of(text):
    match = re.fullmatch(r"(\d+)\s*(\w*)", text)
    if not match or match[2] not in UNITS:
        raise argparse.ArgumentTypeError(f"'{text}' is no size, such as 20GB or 512MiB")
    return int(match[1]) * UNITS[match[2]]


class Pipelines(Bench):
    def __init__(self, arguments):
        super().__init__(arguments)
        self.rival_repeats = arguments.rival_repeats
        self.side = 1024
        while self.side > 16 and self.size < 2 * 128 * self.side**2:
            self.side //= 2
        self.frames = max(8, self.size // (2 * self.side**2))
        self.columns = 2048
        while self.columns > 64 and self.size // 8 < 16 * self.columns**2:
            self.columns //= 2

    # ---- data ----

    def stack(self):
        path = self.folder / f"stack{self.size}.h5"
        if not path.exists():
            shape = (min(64, self.frames), self.side, self.side)
            with packed_by_h5py(counts(shape), (1, *shape[1:]), compression="gzip") as packed:
                write_repeated(path, packed, self.frames)
        return path

    def matrix(self):
        path, rows = self.folder / f"matrix{self.size}.h5", max(8, self.size // 8 // self.columns)
        if not path.exists():
            with h5py.File(path, "w") as file:
                data = file.create_dataset("X", (rows, self.columns), "i2")
                block = counts((min(rows, 4096), self.columns), seed=2)
                for row in range(0, rows, len(block)):
                    data[row : row + len(block)] = np.roll(block, row // 7, axis=1)[: rows - row]
        return path

    # ---- pipelines: operations, the input, how much of its first axis, chunks of the rewritten array ----

    def statistics(self):
        both = [{"id": name, "op": "reduce", "operator": name, "axis": 0, "inputs": ["X"]} for name in ("mean", "std")]
        return both, {"file": str(self.stack().absolute()), "dataset": "/X"}, self.frames, [1]

    def gram(self):
        path = self.matrix()
        with h5py.File(path) as file:
            rows = len(file["X"])
        source = {"file": str(path.absolute()), "dataset": "/X", "dtype": "float32"}
        product = {"id": "gram", "op": "matmul", "inputs": ["X", "X"], "transpose_a": True, "variants": [self.variant]}
        return [product], source, rows, [1]

    def rewrite(self):
        frames = max(1, self.frames // 4)
        source = {"file": str(self.stack().absolute()), "dataset": "/X", "rows": [0, frames]}
        chunks = [1, min(64, self.side), frames]
        how = {"to": "rewritten.h5:/T", "chunks": chunks, "compression": "gzip", "level": 1, "shuffle": True}
        return [{"id": "T", "op": "transpose", "axes": [1, 2, 0], "inputs": ["X"], **how}], source, frames, chunks

    # ---- timing ----

    def ours(self, name, operations, source):
        """Seconds of each repeat but the first, and the rows of the last."""
        job = self.job(operations[0], {"X": source})
        job["operations"] = operations
        seconds = []
        for _ in range(self.repeats + 1):
            (self.folder / "rewritten.h5").unlink(missing_ok=True)
            os.sync()  # or the disk would still be busy with what the last one wrote
            took, rows = self.run(name, job)
            seconds.append(took)
        return seconds[1:], rows

    def rival(self, name, source, length, chunks):
        os.sync()
        words = [name, self.device, self.rival_repeats, source["file"], self.folder / "rival.h5", length]
        words += [",".join(map(str, chunks))]
        script = Path(__file__).with_name("rival_pipelines.py")
        done = subprocess.run([sys.executable, script, *map(str, words)], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"rival_pipelines.py {name}: {done.stderr}")
        return [float(line) for line in done.stdout.split()]

    def difference(self, name, operations):
        """The largest, relative to the largest value; of the rewritten array in eight planes. None: shape and type are
        the same, and it is what sums of that length may differ by."""
        worst = 0
        with h5py.File(self.folder / f"{name}.h5") as ours, h5py.File(self.folder / "rival.h5") as theirs:
            for operation in operations:
                a, b = ours[f"outputs/{operation['id']}"], theirs[operation["id"]]
                if a.shape != b.shape or a.dtype != b.dtype:
                    return f"{a.shape} {a.dtype}, and the rival's {b.shape} {b.dtype}"
                planes = sorted({(len(a) - 1) * i // 7 for i in range(8)}) if name == "rewrite" else [slice(None)]
                for plane in planes:
                    x, y = a[plane].astype("f8"), b[plane].astype("f8")
                    worst = max(worst, np.abs(x - y).max() / np.abs(y).max())
        allowed = {"statistics": 1e-9, "gram": 1e-4, "rewrite": 0}[name]
        return None if worst <= allowed else f"{worst:.1e} of the largest value, {allowed:.0e} allowed"

    def measure(self, name):
        """Prints a line of the table; false: values differ."""
        operations, source, length, chunks = getattr(self, name)()
        theirs = median(self.rival(name, source, length, chunks))
        seconds, rows = self.ours(name, operations, source)
        ours = median(seconds)
        print(f"{name:12}{ours:10.3f}{theirs:12.3f}{theirs / ours:9.2f}{GOALS[name]:7}", flush=True)
        busy = dict.fromkeys(STAGES, 0.0)
        for row in rows:
            for stage in STAGES:
                busy[stage] += np.nan_to_num(float(row["kernel_median_s" if stage == "kernel" else f"{stage}_s"]))
        inside = sum(float(row["total_s"]) for row in rows)
        busy |= {"passes": inside, "outside": max(0, seconds[-1] - inside)}
        gigabytes = sum(float(row["file_bytes"]) for row in rows) / 1e9
        stages = ", ".join(f"{stage} {took:.3f}" for stage, took in busy.items())
        print(f"    {stages}; {gigabytes:.3f} GB asked of files", flush=True)
        differs = self.difference(name, operations)
        if differs:
            print(f"    DIFFERENT: {differs}", flush=True)
        (self.folder / "rival.h5").unlink()
        (self.folder / "rewritten.h5").unlink(missing_ok=True)
        return not differs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tilerun")
    parser.add_argument("folder")
    parser.add_argument("--size", type=bytes_of, default="20GB")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rival-repeats", type=int, default=1)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--matmul", default="auto")
    parser.add_argument("--only", default=",".join(GOALS))
    arguments = parser.parse_args()
    bench = Pipelines(arguments)
    with_what = "NumPy" if bench.device == "cpu" else "CuPy"
    print(f"{bench.size / 1e9:.3g} GB, {bench.threads} cores\n{'':12}{'tilerun':>10}{f'h5py+{with_what}':>12}", end="")
    print(f"{'ratio':>9}{'goal':>7}", flush=True)
    return 0 if all([bench.measure(name) for name in arguments.only.split(",")]) else 1


if __name__ == "__main__":
    sys.exit(main())
