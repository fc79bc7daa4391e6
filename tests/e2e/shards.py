"""What tests of jobs done by shards share: the processes, and what the merged file must be."""

import os

import h5py
import numpy as np

import harness
from harness import OK

BATCH = ("SLURM_", "OMPI_", "PMI_")  # variables that `--shard auto` reads


def plain_environment(**more):
    return {name: value for name, value in os.environ.items() if not name.startswith(BATCH)} | more


def arguments(folder, index, count, *more):
    return ["run", folder / "job.yaml", "-o", folder / "out.h5", "--shard", f"{index}/{count}", *more]


def shard(folder, index, count, *more, expect=OK, **variables):
    return harness.tilerun(*arguments(folder, index, count, *more), env=plain_environment(**variables), expect=expect)


def merge(folder, *more, expect=OK, **options):
    return harness.tilerun("merge", folder / "out.h5", *more, expect=expect, **options)


def bits(path):
    """Every stored output: its type, shape, attributes and bytes."""
    with h5py.File(path) as file:
        return {
            name: (str(file[name].dtype), file[name].shape, sorted(file[name].attrs), file[name][()].tobytes())
            for name in harness.dataset_names(file, "outputs", "variants")
        }


IDENTITY = "run operation op variant parameters device dtype shape status error tolerance message".split()


def plain_results(folder, expect=OK):
    harness.tilerun("run", folder / "job.yaml", "-o", folder / "plain.h5", "--overwrite", expect=expect)
    return folder / "plain.h5"


def assert_equals_unsharded(folder, expect=OK):
    plain_results(folder, expect)
    assert bits(folder / "out.h5") == bits(folder / "plain.h5")
    merged, plain = harness.Results(folder / "out.h5"), harness.Results(folder / "plain.h5")
    for found, expected in zip(merged.rows, plain.rows, strict=True):
        for name in IDENTITY:
            if name == "message" and found[name].startswith("computed in "):
                continue  # by panels
            np.testing.assert_equal(found[name], expected[name], err_msg=name)
    with h5py.File(merged.path) as file, h5py.File(plain.path) as other:
        assert file.attrs["status"] == other.attrs["status"]
        names = [{name for name in it["samples"] if "_" not in name} for it in (file, other)]
        assert names[0] == names[1]  # of panels no turns and clocks are kept
    assert not (folder / "out.h5.parts").exists()
