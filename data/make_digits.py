#!/usr/bin/env python3
"""Writes digits.h5 from the copy of the UCI optical digits that scikit-learn's package carries.

    python3 data/make_digits.py          needs h5py and scikit-learn; the same bytes every time
"""
from pathlib import Path

import h5py
import numpy as np
from sklearn.datasets import load_digits

SOURCE = ("Alpaydin, E. and Kaynak, C. (1998). Optical Recognition of Handwritten Digits [test set]. "
          "UCI Machine Learning Repository. https://doi.org/10.24432/C50P49")
LICENCE = "CC BY 4.0, https://creativecommons.org/licenses/by/4.0/"

digits = load_digits()
pixels = digits.data.astype("<f4")
labels = digits.target.astype("u1")
assert pixels.shape == (1797, 64) and pixels.min() == 0 and pixels.max() == 16
assert labels.shape == (1797,) and set(np.unique(labels)) == set(range(10))

with h5py.File(Path(__file__).with_name("digits.h5"), "w") as file:
    file.attrs["title"] = "Optical Recognition of Handwritten Digits"
    file.attrs["source"] = SOURCE
    file.attrs["licence"] = LICENCE

    dataset = file.create_dataset("pixels", data=pixels, track_times=False)
    dataset.attrs["description"] = "one 8x8 image a row, row by row: ink in each 4x4 block of a 32x32 bitmap"
    dataset.attrs["units"] = "set bits of 16"

    dataset = file.create_dataset("labels", data=labels, track_times=False)
    dataset.attrs["description"] = "the digit that each image shows"
    dataset.attrs["units"] = "1"
