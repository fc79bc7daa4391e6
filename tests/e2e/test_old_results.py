"""Results files of earlier releases, in tests/results, are read by every later one: shown, compared, reproduced, used
as inputs. What the file of 0.1.0 holds is written here once and never changed."""

import csv
import io
import json

import h5py
import numpy as np
import pytest

import harness

FILES = sorted((harness.ROOT / "tests/results").glob("v*.h5"))
COLUMNS = {"operation", "variant", "parameters", "shape", "dtype", "device", "status"}
RUNS = [
    *(("product", variant, n) for n in (6, 8) for variant in ("cpu", "blocked")),
    *(("mean", "blocked", n) for n in (6, 8)),
    *((name, "cpu", n) for name in ("turned", "half") for n in (6, 8)),
]


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def old(request, folder):
    """A copy: nothing that reads it may change it."""
    copy = folder / request.param.name
    copy.write_bytes(request.param.read_bytes())
    yield copy
    assert copy.read_bytes() == request.param.read_bytes()


def test_there_are_some():
    assert [path.name for path in FILES][:1] == ["v0.1.0.h5"]


def test_shown(old):
    rows = list(csv.DictReader(io.StringIO(harness.quiet("show", old, "--csv"))))
    assert COLUMNS <= set(rows[0])
    assert [(row["operation"], row["variant"], row["parameters"]) for row in rows] == [
        (name, variant, f"n={n}") for name, variant, n in RUNS
    ]
    assert {row["status"] for row in rows} == {"ok"}
    assert json.loads(harness.quiet("show", old, "--json"))


def test_schema(old):
    """What results.md promises of the file itself, for those who read it with h5py."""
    with h5py.File(old) as file:
        assert COLUMNS <= set(file["runs"].dtype.names)
        assert {"status", "tool_version", "git_commit", "created", "command_line"} <= set(file.attrs)
        for n in (6, 8):
            product = file[f"outputs/n={n}/product"][:]
            assert product.shape == (n, n) and product.dtype == np.float32
            assert (file[f"outputs/n={n}/turned"][:] == product.T).all()
            assert (file[f"outputs/n={n}/half"][:] == product.T * np.float32(0.5)).all()
            assert np.allclose(file[f"outputs/n={n}/mean"][:], product.mean(axis=0), atol=1e-6)


def test_reproduced_and_compared(old, folder):
    """Its job gives the same results. It has one sample a run, so no time can be slower."""
    harness.tilerun("reproduce", old, "-o", folder / "new.h5", expect=harness.OK)
    done = harness.tilerun("compare", old, folder / "new.h5", "--any-device", "--json", expect=harness.OK)
    pairs = json.loads(done.stdout)["new"][0]["pairs"]
    assert len(pairs) == len(RUNS) and not any(pair["worse"] for pair in pairs)


def test_an_input_again(old, folder):
    """Its results and the file itself go on: `inspect` lists them and a job reads them."""
    assert "/outputs/n=8/product" in harness.quiet("inspect", old)
    results = harness.run_job(
        folder,
        inputs={"x": {"file": str(old), "dataset": "/outputs/n=8/product"}},
        operations=[{"id": "again", "op": "transpose", "inputs": ["x"]}],
    )
    with h5py.File(old) as file:
        assert (results.output("again") == file["outputs/n=8/product"][:].T).all()
