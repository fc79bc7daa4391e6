#!/usr/bin/env python3
"""Reads data set X whole by h5py, with hdf5plugin's filters where that is installed, as people do.

    rival_read.py FILE REPEATS      prints the seconds of each repeat; exit code 3: a filter is missing
"""
import sys
import time

import h5py

try:
    import hdf5plugin  # noqa: F401 (registers its filters)
except ImportError:
    pass


def main():
    with h5py.File(sys.argv[1]) as file:
        for _ in range(int(sys.argv[2])):
            begin = time.perf_counter()
            try:
                file["X"][:]
            except OSError as error:
                print(error, file=sys.stderr)
                return 3
            print(time.perf_counter() - begin, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
