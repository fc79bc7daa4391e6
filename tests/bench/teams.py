#!/usr/bin/env python3
"""One GPU against all of them: a product, a streamed sum of rows and a streamed transpose, whose results must have the
same bits. Everything in the page cache; of each stage the best of some runs.

    teams.py TILERUN FOLDER [--size N] [--repeats N] [--only product,sum,transpose]

FOLDER (on a disk, or in memory, with room for about 24 N^2 bytes) gets the data sets and keeps them. Needs h5py.
"""

import argparse

import h5py
import numpy as np
from streaming import Bench

STAGES = ["read", "h2d", "kernel", "d2h", "write", "total"]


def job_of(bench, name):
    inputs = {"A": {"file": str(bench.matrices()), "dataset": "/A"}}
    if name == "product":
        return bench.product(repeat=3, warmup=1)
    operation = {"id": "C", "op": "transpose", "inputs": ["A"]}
    if name == "sum":
        operation = {"id": "C", "op": "reduce", "operator": "sum", "axis": 1, "inputs": ["A"]}
    return bench.job(operation, inputs, memory="2GiB")


def measure(bench, name, device):
    """The least seconds of each stage, the kernel's repeats, and the devices that took part."""
    rows = []
    for _ in range(bench.repeats):
        rows.append(bench.run(f"{name}-{device[5:]}", job_of(bench, name), "--device", device)[1][0])
    least = {stage: min(row[f"{stage}_s"] for row in rows) for stage in STAGES if stage != "kernel"}
    return least | {"kernel": min(row["kernel_median_s"] for row in rows)}, rows[0]["device"].decode()


def same_bits(bench, name):
    with h5py.File(bench.folder / f"{name}-0.h5") as one, h5py.File(bench.folder / f"{name}-all.h5") as other:
        a, b = one["outputs/C"], other["outputs/C"]
        step = max(1, (256 << 20) // (a[:1].nbytes or 1))
        blocks = range(0, a.shape[0], step)
        return all(np.array_equal(a[i : i + step].view("u1"), b[i : i + step].view("u1")) for i in blocks)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tilerun")
    parser.add_argument("folder")
    parser.add_argument("--size", type=int, default=32768)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="product,sum,transpose")
    parser.set_defaults(device="cuda:0", matmul="auto")
    arguments = parser.parse_args()
    bench = Bench(arguments)
    for name in arguments.only.split(","):
        (one, _), (team, devices) = measure(bench, name, "cuda:0"), measure(bench, name, "cuda:all")
        print(f"{name}, {arguments.size} x {arguments.size} float32, {devices} against one:", flush=True)
        for stage in STAGES:
            print(f"    {stage:7} {one[stage] * 1e3:9.1f} ms {team[stage] * 1e3:9.1f} ms")
        both = [sum(times[stage] for stage in ("h2d", "kernel", "d2h")) for times in (one, team)]
        print(f"    kernel and copies {both[0] / both[1]:.3f} times one, kernel {one['kernel'] / team['kernel']:.3f}")
        print(f"    bits: {'the same' if same_bits(bench, name) else 'DIFFERENT'}", flush=True)


if __name__ == "__main__":
    main()
