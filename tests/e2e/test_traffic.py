"""Modelled global-memory traffic: what `tilerun list` says in words and `tilerun plan --detail` in bytes."""

import re

import pytest

import harness
import tree

S6 = harness.ROOT / "configs/seeds/s6.yaml"
UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def planned_bytes():
    """Of each run of the seed job: (operation, variant) -> bytes."""
    done = harness.tilerun("plan", "--detail", S6, expect=harness.OK)
    found = {}
    for run in done.stdout.split("\nrun "):
        names = re.search(r"\d+  (\w+) .* (\w+(?:,\w+=\w+)?)  \S+  on cuda", run)
        bytes_ = re.search(r"traffic +(\S+) (\w+) between kernel and device memory", run)
        found[names[1], names[2]] = float(bytes_[1]) * UNITS[bytes_[2]]
    return found


@pytest.mark.gpu
def test_tiles_save_their_side():
    found = planned_bytes()
    naive = found["product", "naive"]
    assert naive == pytest.approx(2 * 1024**3 * 4, rel=0.02)
    for tile in (8, 16, 32):
        assert naive / found["product", f"tiled,tile={tile}"] == pytest.approx(tile, rel=0.05)


@pytest.mark.gpu
def test_reductions_read_once():
    found = planned_bytes()
    assert found["total", "tree"] == found["total", "shuffle"] == pytest.approx(2**22, rel=0.03)
    assert found["total", "atomic"] == pytest.approx(5 * 2**22, rel=0.03)


def test_list_says_it_in_words():
    if not tree.has_cuda():
        pytest.skip("this build has no CUDA")
    listed = harness.tilerun("list").stdout
    assert re.search(r"^  naive .*\n(?: {12}.*\n)*? {12}traffic: 2k elements", listed, re.M)
    assert listed.count("traffic: each element read once") >= 3
