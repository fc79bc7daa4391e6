"""Makes the files of this folder anew, with an h5py over HDF5 2.0 or later: `python3 make.py FOLDER`.

tests/e2e/test_newer_files.py reads them with whatever HDF5 tilerun has; what they hold is stated there.
"""

import sys

import h5py
import numpy as np

X = np.arange(24, dtype="f4").reshape(4, 6)


def create(folder, name, bound="latest"):
    return h5py.File(f"{folder}/{name}.h5", "w", libver=(bound, bound))


def make(folder):
    with create(folder, "filtered") as file:  # layout message version 5
        file.create_dataset("x", data=X, chunks=(2, 6), compression="gzip")
        file["y"] = X
        file.create_group("g").create_dataset("x", data=X, chunks=(2, 6), shuffle=True)
    for bound in ("v114", "latest"):  # a selection of version 3; a list of sources of version 1
        with create(folder, f"virtual-{bound}", bound) as file:
            file["y"] = X
            layout = h5py.VirtualLayout(X.shape, X.dtype)
            layout[:2] = h5py.VirtualSource(file["y"])[2:]
            file.create_virtual_dataset("x", layout)
    with create(folder, "table") as file:  # data type message version 5
        file["x"] = np.zeros(3, dtype=[("a", "f8"), ("b", "i4")])
        file["y"] = X
    with h5py.File(f"{folder}/complex.h5", "w") as file:  # data type message version 5, of class 11
        kind = h5py.h5t.COMPLEX_IEEE_F32LE
        h5py.h5d.create(file.id, b"x", kind, h5py.h5s.create_simple((3,)))
        file["y"] = X


if __name__ == "__main__":
    make(sys.argv[1])
