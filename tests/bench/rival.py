#!/usr/bin/env python3
"""What people write today: C = A B from HDF5 to HDF5 with h5py and CuPy, in one warm process.

    rival.py IN.h5 OUT.h5 REPEATS      prints the seconds of each repeat, the first (cold) one left out
"""
import sys
import time

import cupy
import h5py


def multiply(source, target):
    with h5py.File(source, "r") as f:
        a = cupy.asarray(f["A"][:])
        b = cupy.asarray(f["B"][:])
    c = cupy.matmul(a, b).get()
    with h5py.File(target, "w") as f:
        f["C"] = c


def main():
    source, target, repeats = sys.argv[1], sys.argv[2], int(sys.argv[3])
    for i in range(repeats + 1):
        begin = time.perf_counter()
        multiply(source, target)
        if i > 0:
            print(time.perf_counter() - begin, flush=True)


if __name__ == "__main__":
    main()
