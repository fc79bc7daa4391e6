#!/usr/bin/env python3
"""What people write today with h5py and CuPy for the three pipelines of pipelines.py, in one warm process.

    rival_pipelines.py PIPELINE DEVICE REPEATS IN.h5 OUT.h5 LENGTH CHUNKS

Takes the first LENGTH of data set X's first axis. Prints the seconds of each repeat. To warm up it does the same with
an eighth of the data before. Device `cpu`: NumPy in CuPy's place. CHUNKS, as 1,64,2000: of the rewritten array.
"""
import sys
import time

import h5py
import numpy

FRAMES = 64  # at once


def statistics(xp, host, stack, out, length, _):
    """Mean and standard deviation over axis 0, block by block, for the whole may be larger than memory."""
    total, squares = xp.zeros(stack.shape[1:], "f8"), xp.zeros(stack.shape[1:], "f8")
    for first in range(0, length, FRAMES):
        block = xp.asarray(stack[first : min(first + FRAMES, length)])
        total += block.sum(axis=0, dtype="f8")
        squares += xp.square(block, dtype="f8").sum(axis=0)
    mean = total / length
    out["mean"] = host(mean)
    out["std"] = host(xp.sqrt(xp.maximum(squares / length - mean * mean, 0)))


def gram(xp, host, matrix, out, length, _):
    x = xp.asarray(matrix[:length]).astype("f4")
    out["gram"] = host(x.T @ x)


def rewrite(xp, host, stack, out, length, chunks):
    t = xp.ascontiguousarray(xp.asarray(stack[:length]).transpose(1, 2, 0))
    chunks = tuple(min(c, n) for c, n in zip(chunks, t.shape))
    out.create_dataset("T", data=host(t), chunks=chunks, compression="gzip", compression_opts=1, shuffle=True)


def main():
    name, device, repeats, source, target, length, chunks = sys.argv[1:]
    pipeline = {"statistics": statistics, "gram": gram, "rewrite": rewrite}[name]
    xp, host = numpy, numpy.asarray
    if device != "cpu":
        import cupy

        xp, host = cupy, cupy.asnumpy
    length, chunks = int(length), [int(n) for n in chunks.split(",")]
    for part in [max(1, length // 8)] + [length] * int(repeats):
        begin = time.perf_counter()
        with h5py.File(source) as file, h5py.File(target, "w") as out:
            pipeline(xp, host, file["X"], out, part, chunks)
        if part == length:
            print(time.perf_counter() - begin, flush=True)


if __name__ == "__main__":
    main()
