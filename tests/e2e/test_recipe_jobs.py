"""configs/recipes: each job, as committed, on drawn data that lies as its first lines say, against NumPy."""

import os
import re
import shutil

import h5py
import numpy as np
import pytest

import harness
import real_layouts

FOLDER = harness.ROOT / "configs/recipes"
NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml"))
SEED = int(os.environ.get("TILERUN_SEED", 0))
LAYOUTS = [{}, {"compression": "gzip", "shuffle": True}, {"compression": "lzf"}]


@pytest.fixture
def draw():
    return np.random.default_rng([SEED, 77])


def write(draw, path, name, values):
    path.parent.mkdir(exist_ok=True)
    with h5py.File(path, "w") as file:
        file.create_dataset(name, data=values, chunks=True, **LAYOUTS[draw.integers(len(LAYOUTS))])
    return values


def run(folder, name, *options):
    shutil.copy(FOLDER / f"{name}.yaml", folder)
    harness.tilerun("run", f"{name}.yaml", "--device", "cpu", *options, cwd=folder, expect=harness.OK)
    return harness.Results(folder / f"{name}.h5")


def mean_frame(folder, draw):
    frames = draw.normal(1000, 3, (40, 12, 17)).astype("f4")
    frames[draw.random(frames.shape) < 0.01] = np.nan
    write(draw, folder / "frames.h5", "frames", frames)
    results = run(folder, "mean-frame")
    wide = frames.astype("f8")
    np.testing.assert_allclose(results.output("mean"), np.nanmean(wide, 0), rtol=1e-6)
    np.testing.assert_allclose(results.output("std"), np.nanstd(wide, 0, ddof=1), rtol=1e-5)
    assert np.array_equal(results.output("dead"), np.isnan(frames).sum(0))


def gram(folder, draw):
    x = write(draw, folder / "samples.h5", "X", draw.integers(-3000, 3000, (300, 21)).astype("i2"))
    wide = x.astype("f8")
    np.testing.assert_allclose(run(folder, "gram").output("gram"), wide.T @ wide, rtol=1e-4, atol=30)


def rewrite(folder, draw):
    values = write(draw, folder / "table.h5", "values", draw.normal(size=(5000, 23)))
    run(folder, "rewrite")
    with h5py.File(folder / "by-column.h5") as file:
        copy = file["values"]
        assert (copy.chunks, copy.compression, copy.shuffle) == ((16, 4096), "lzf", True)
        assert np.array_equal(copy[...], values.T)


def channels(folder, draw):
    images = write(draw, folder / "images.h5", "images", draw.integers(0, 255, (9, 3, 20, 31)).astype("u1"))
    results = run(folder, "channels")
    np.testing.assert_allclose(results.output("mean"), images.mean((0, 2, 3)), rtol=1e-12)
    np.testing.assert_allclose(results.output("std"), images.std((0, 2, 3)), rtol=1e-12)


def band(folder, draw):
    volume = write(draw, folder / "volume.h5", "volume", draw.normal(size=(9, 230, 310)).astype("f4"))
    results = run(folder, "band")
    part = volume[3, 100:200:2, -50:]
    assert np.array_equal(results.output("largest"), part.max(1))
    assert np.array_equal(results.output("where"), part.argmax(1))
    other = run(folder, "band", "--set", "plane=7", "--overwrite").output("largest")
    assert np.array_equal(other, volume[7, 100:200:2, -50:].max(1))


def many(folder, draw):
    frames = {n: draw.normal(size=(5, 4, 6)) for n in (1, 2, 10)}
    for n, values in frames.items():
        write(draw, folder / f"raw/run-{n}.h5", "frames", values)
    (folder / "means").mkdir()
    run(folder, "many")
    frames[11] = write(draw, folder / "raw/run-11.h5", "frames", draw.normal(size=(5, 4, 6)))
    run(folder, "many", "--resume")
    for n, values in frames.items():
        with h5py.File(folder / f"means/run-{n}.h5") as file:
            np.testing.assert_allclose(file["mean"][...], values.mean(0), rtol=1e-12, atol=1e-15)


def climatology(folder, draw):
    decoded = real_layouts.netcdf4(folder / "era.nc", draw)
    results = run(folder, "climatology")
    np.testing.assert_allclose(results.output("mean"), np.nanmean(decoded, 0), rtol=1e-12)
    np.testing.assert_allclose(results.output("std"), np.nanstd(decoded, 0), rtol=1e-9)


def dark_frame(folder, draw):
    frames = real_layouts.eiger(folder / "dark_master.h5", draw).astype("f8")
    results = run(folder, "dark-frame")
    np.testing.assert_allclose(results.output("dark"), frames.mean(0), rtol=1e-12)
    np.testing.assert_allclose(results.output("noise"), frames.std(0, ddof=1), rtol=1e-10)


def anndata_gram(folder, draw):
    x = real_layouts.anndata_dense(folder / "cells.h5ad", draw).astype("f8")
    results = run(folder, "anndata-gram")
    np.testing.assert_allclose(results.output("gram"), x.T @ x, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(results.output("mean"), x.mean(0), rtol=1e-9, atol=1e-12)


def column_means(folder, draw):
    values = real_layouts.pytables(folder / "table.h5", draw)
    results = run(folder, "column-means")
    np.testing.assert_allclose(results.output("mean"), values.mean(0), rtol=1e-9, atol=1e-12)
    assert np.array_equal(results.output("least"), values.min(0))
    assert np.array_equal(results.output("largest"), values.max(0))


def matlab_copy(folder, draw):
    shown = real_layouts.matlab(folder / "matrix.mat", draw)
    run(folder, "matlab-copy")
    with h5py.File(folder / "matrix-in-order.h5") as file:
        assert np.array_equal(file["A"][...], shown)


def corrected_frames(folder, draw):
    raw = write(draw, folder / "frames.h5", "raw", draw.integers(80, 4000, (9, 12, 17)).astype("u2"))
    dark, flat = draw.normal(80, 3, (12, 17)), draw.normal(1, 0.5, (12, 17))
    with h5py.File(folder / "calibration.h5", "w") as file:
        file["dark"], file["flat"] = dark, flat
    results = run(folder, "corrected-frames")
    raw, dark, flat = (array.astype("f4") for array in (raw, dark, flat))
    right = np.where(flat > np.float32(0.1), (raw - dark) / flat, np.float32("nan"))
    assert np.array_equal(results.output("corrected"), right, equal_nan=True)
    np.testing.assert_allclose(results.output("mean"), right.astype("f8").mean(0), rtol=1e-6, equal_nan=True)


def difference(folder, draw):
    before = draw.normal(size=(30, 40))
    after = before * np.where(draw.random(before.shape) < 0.2, 1 + 1e-3, 1)
    for name, values in (("before", before), ("after", after)):
        with h5py.File(folder / f"{name}.h5", "w") as file:
            file["outputs/product"] = values
    results = run(folder, "difference")
    assert results.output("largest") == np.abs(before - after).max()
    np.testing.assert_allclose(results.output("mean"), np.abs(before - after).mean(), rtol=1e-12)
    assert results.output("count") == (before != after).sum()


RECIPES = {
    "corrected-frames": corrected_frames,
    "difference": difference,
    "mean-frame": mean_frame,
    "gram": gram,
    "rewrite": rewrite,
    "channels": channels,
    "band": band,
    "many": many,
    "climatology": climatology,
    "dark-frame": dark_frame,
    "anndata-gram": anndata_gram,
    "column-means": column_means,
    "matlab-copy": matlab_copy,
}


def test_all_are_here():
    text = (harness.ROOT / "configs/README.md").read_text()
    assert NAMES == sorted(RECIPES)
    assert sorted(re.findall(r"\(recipes/([a-z-]+)\.yaml\)", text)) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_recipe(folder, draw, name):
    RECIPES[name](folder, draw)
