#!/usr/bin/env python3
"""Streaming against the machine's limits and a script's best: whole process, streamed sum and transpose, a product in
an eighth of its memory, compressed input. Everything in the page cache, every figure a median.

    streaming.py TILERUN FOLDER [--size N] [--repeats N] [--device D] [--only NAME,...] [--matmul VARIANT]

FOLDER (on a disk with room for about 40 N^2 bytes) gets the data sets and keeps them. Needs h5py; CuPy where there is a
GPU.
"""
import argparse
import concurrent.futures
import ctypes
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import h5py
import numpy as np

BLOCK = 16 << 20


def median(values):
    return statistics.median(values)


class Bench:
    def __init__(self, arguments):
        self.tilerun = os.path.abspath(arguments.tilerun)
        self.folder = pathlib.Path(arguments.folder)
        self.size = arguments.size
        self.repeats = arguments.repeats
        self.device = arguments.device
        self.variant = arguments.matmul
        self.threads = len(os.sched_getaffinity(0))
        self.folder.mkdir(parents=True, exist_ok=True)

    # ---- data ----

    def matrices(self, size=None):
        """A and B, N x N float32, contiguous, N(0,1)."""
        size = size or self.size
        path = self.folder / f"matrices{size}.h5"
        if not path.exists():
            random = np.random.default_rng(1)
            with h5py.File(path, "w") as f:
                for name in "AB":
                    data = f.create_dataset(name, (size, size), "f4")
                    block = random.standard_normal((512, size), dtype=np.float32)
                    for row in range(0, size, 512):
                        data[row : row + 512] = np.roll(block, row // 7, axis=1)
        return path

    def long(self):
        """X, eight times as large as A, contiguous."""
        path = self.folder / "long.h5"
        if not path.exists():
            random = np.random.default_rng(3)
            block = random.standard_normal((512, 4 * self.size), dtype=np.float32)
            with h5py.File(path, "w") as f:
                data = f.create_dataset("X", (2 * self.size, 4 * self.size), "f4")
                for row in range(0, 2 * self.size, 512):
                    data[row : row + 512] = block + np.float32(row)
        return path

    def compressed(self):
        """Z, gzip + shuffle in chunks of 1 MiB: a smooth field with noise, as instruments give."""
        path = self.folder / "compressed.h5"
        if not path.exists():
            side = self.size // 2
            random = np.random.default_rng(2)
            wave = np.sin(np.linspace(0, 40, side, dtype=np.float32))
            with h5py.File(path, "w") as f:
                data = f.create_dataset("Z", (side, side), "f4", chunks=(512, 512), compression=4, shuffle=True)
                noise = random.integers(0, 64, (512, side)).astype(np.float32) / 1024
                for row in range(0, side, 512):
                    data[row : row + 512] = wave[None, :] + wave[row : row + 512, None] + noise
        return path

    # ---- tilerun ----

    def run(self, name, job, *options):
        """Runs a job file; seconds of the whole process and the rows of /runs."""
        path, out = self.folder / f"{name}.yaml", self.folder / f"{name}.h5"
        path.write_text(json.dumps(job))
        out.unlink(missing_ok=True)
        command = [self.tilerun, "run", path, "-o", out, "--progress", "none", "--device", self.device, *options]
        begin = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True)
        seconds = time.perf_counter() - begin
        if done.returncode != 0:
            sys.exit(f"{name}: {done.stderr}")
        with h5py.File(out) as f:
            return seconds, f["runs"][:]

    def job(self, operation, inputs, memory=None, **defaults):
        """Each operation once, nothing verified: what a data processor runs, and what a script does."""
        once = {"warmup": 0, "repeat": 1, "verify": "none", "checksum": "none", **defaults}
        job = {"version": 1, "sync": False, "inputs": inputs, "defaults": once, "operations": [operation]}
        if memory:
            job["memory"] = memory
        return job

    def product(self, memory=None, path=None, **defaults):
        source = {name: {"file": str(path or self.matrices()), "dataset": f"/{name}"} for name in "AB"}
        operation = {"id": "C", "op": "matmul", "inputs": ["A", "B"], "variants": [self.variant]}
        return self.job(operation, source, memory, **defaults)

    # ---- limits ----

    def pread_rate(self, path, bytes_):
        """Bytes a second of all cores reading a cached file."""
        libc = ctypes.CDLL(None, use_errno=True)
        libc.pread.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_long]
        rooms = [np.zeros(BLOCK, np.uint8) for _ in range(self.threads)]

        def read(which):
            for at in range(which * BLOCK, bytes_, self.threads * BLOCK):
                libc.pread(descriptor, rooms[which].ctypes.data, BLOCK, at)

        descriptor = os.open(path, os.O_RDONLY)
        with concurrent.futures.ThreadPoolExecutor(self.threads) as pool:
            times = []
            for _ in range(self.repeats + 1):
                begin = time.perf_counter()
                list(pool.map(read, range(self.threads)))
                times.append(time.perf_counter() - begin)
        os.close(descriptor)
        return bytes_ / median(times[1:])

    def copy_rate(self):
        """Bytes a second from pinned host memory to the GPU; infinite on the CPU."""
        if self.device == "cpu":
            return float("inf")
        import cupy

        bytes_ = 256 << 20
        pinned = np.frombuffer(cupy.cuda.alloc_pinned_memory(bytes_), np.uint8, bytes_)
        there = cupy.empty(bytes_, np.uint8)
        times = []
        for _ in range(self.repeats + 1):
            cupy.cuda.runtime.deviceSynchronize()
            begin = time.perf_counter()
            there.set(pinned)
            cupy.cuda.runtime.deviceSynchronize()
            times.append(time.perf_counter() - begin)
        return bytes_ / median(times[1:])

    def write_rate(self, bytes_):
        """Bytes a second of two threads writing a new, preallocated file."""
        path, block = self.folder / "written", np.ones(BLOCK, np.uint8)
        times = []
        for _ in range(self.repeats):
            begin = time.perf_counter()
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            os.posix_fallocate(descriptor, 0, bytes_)

            def write(which, descriptor=descriptor):
                for at in range(which * BLOCK, bytes_, 2 * BLOCK):
                    os.pwrite(descriptor, block, at)

            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                list(pool.map(write, range(2)))
            os.close(descriptor)
            times.append(time.perf_counter() - begin)
            path.unlink()
        return bytes_ / median(times)

    # ---- benches: each prints its line ----

    def data(self):
        """All data sets, before anything is timed."""
        self.matrices(), self.matrices(2 * self.size), self.long(), self.compressed()

    def process(self):
        source, out = self.matrices(), self.folder / "rival.h5"
        ours = [self.run("process", self.product())[0] for _ in range(self.repeats + 1)][1:]
        os.sync()
        script = pathlib.Path(__file__).with_name("rival.py")
        done = subprocess.run([sys.executable, script, source, out, str(self.repeats)], capture_output=True, text=True)
        rival = [float(line) for line in done.stdout.split()]
        out.unlink(missing_ok=True)
        report("process", f"{self.size}^2 product, HDF5 to HDF5: {median(ours):.3f} s, h5py + CuPy (warm) "
               f"{median(rival):.3f} s", median(rival) / median(ours), "x as fast")

    def sum(self):
        path, bytes_ = self.long(), 8 * self.size**2 * 4
        source = {"X": {"file": str(path), "dataset": "/X"}}
        operation = {"id": "sum", "op": "reduce", "operator": "sum", "axis": "all", "inputs": ["X"]}
        job = self.job(operation, source, str(bytes_ // 4))
        trace = self.folder / "sum.trace.json"
        rows = [self.run("sum", job, "--trace", trace)[1][0] for _ in range(self.repeats + 1)][1:]
        rate = median([bytes_ / float(row["total_s"]) for row in rows])
        pread, copy = self.pread_rate(path, bytes_), self.copy_rate()
        report("sum", f"streamed at {rate / 1e9:.1f} GB/s; pread {pread / 1e9:.1f}, copy {copy / 1e9:.1f}",
               rate / min(pread, copy), "of the slower")
        report("overlap", "of its stages, from the trace", overlap(trace), "of what can be hidden")

    def transpose(self):
        bytes_ = self.size**2 * 4
        source = {"X": {"file": str(self.matrices()), "dataset": "/A"}}
        job = self.job({"id": "T", "op": "transpose", "inputs": ["X"]}, source, str(bytes_ // 4))
        rate = median([bytes_ / self.run("transpose", job)[1][0]["total_s"] for _ in range(self.repeats)])
        write = self.write_rate(bytes_)
        report("transpose", f"streamed at {rate / 1e9:.2f} GB/s; writing alone {write / 1e9:.2f}", rate / write,
               "of writing")

    def product_in_an_eighth(self):
        bytes_, path = 3 * (2 * self.size) ** 2 * 4, self.matrices(2 * self.size)
        small, large = [], []
        for _ in range(self.repeats):
            row = self.run("eighth", self.product(str(bytes_ // 8), path, store="none"))[1][0]
            small.append(float(row["total_s"]))
            row = self.run("whole", self.product(None, path, store="none", repeat=3, warmup=1))[1][0]
            large.append(float(row["kernel_median_s"] + row["h2d_s"] + row["d2h_s"]))
        report("eighth", f"product in {bytes_ / 8 / 2**20:.0f} MiB {median(small):.3f} s; kernel and copies in memory "
               f"{median(large):.3f} s", median(large) / median(small), "of the in-memory speed")

    def inflate(self):
        path = self.compressed()
        source = {"Z": {"file": str(path), "dataset": "/Z"}}
        operation = {"id": "sum", "op": "reduce", "operator": "sum", "axis": "all", "inputs": ["Z"]}
        rows = [self.run("inflate", self.job(operation, source))[1][0] for _ in range(self.repeats)]
        ours, rival = median([float(row["read_s"]) for row in rows]), []
        with h5py.File(path) as f:
            bytes_ = f["Z"].size * 4
            for _ in range(self.repeats):
                begin = time.perf_counter()
                f["Z"][:]
                rival.append(time.perf_counter() - begin)
        report("inflate", f"gzip + shuffle read at {bytes_ / ours / 1e9:.2f} GB/s, h5py {bytes_ / median(rival) / 1e9:.2f} "
               f"({self.threads} cores)", median(rival) / ours, "x as fast")


def overlap(path):
    """Of the busy time that could hide behind the longest stage, the part that does."""
    with open(path) as file:
        events = [e for e in json.load(file)["traceEvents"] if e["ph"] == "X"]
    stages = {}
    for event in events:
        if event["name"] in ("read", "h2d", "kernel", "d2h", "write"):
            stages.setdefault(event["name"], []).append((event["ts"], event["ts"] + event["dur"]))
    busy = {name: union(spans) for name, spans in stages.items()}
    total = union([span for spans in stages.values() for span in spans])
    return (sum(busy.values()) - total) / (sum(busy.values()) - max(busy.values()))


def union(spans):
    covered, end = 0, float("-inf")
    for begin, finish in sorted(spans):
        covered += max(0, finish - max(begin, end))
        end = max(end, finish)
    return covered


def report(name, text, ratio, unit):
    print(f"{name:10} {ratio:6.2f} {unit:24} {text}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tilerun")
    parser.add_argument("folder")
    parser.add_argument("--size", type=int, default=16384)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--matmul", default="auto")
    parser.add_argument("--only", default="data,process,sum,transpose,product_in_an_eighth,inflate")
    arguments = parser.parse_args()
    bench = Bench(arguments)
    for name in arguments.only.split(","):
        os.sync()  # or the disk would still be busy with what the last one wrote
        getattr(bench, name)()


if __name__ == "__main__":
    main()
