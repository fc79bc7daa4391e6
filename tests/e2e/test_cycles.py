"""`tilerun compare` judges in clock cycles where both files have the device's clock."""

import h5py
import numpy as np
import pytest

import results_edit as edit
from harness import OK, RUN
from test_compare import as_json, base, compare, new, original, pair, steady  # noqa: F401 (fixtures, too)


def set_clock(path, run, mhz, each=False):
    """The clock of a run in its row, or of each of its samples."""
    edit.set_row(path, run, sm_clock_mhz=mhz)
    if each:
        with h5py.File(path, "r+") as file:
            count = len(file[f"samples/{run}"])
            file[f"samples/{run}_clock_mhz"] = mhz * np.random.default_rng(1).uniform(0.98, 1.02, count).astype("f4")
            file[f"samples/{run}"][...] *= mhz / file[f"samples/{run}_clock_mhz"][:]


@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize(
    "clock, work, bound_by, verdict, in_cycles",
    [
        (0.9, 1.0, b"compute", "SAME", True),  # the card was throttled
        (0.9, 1.1, b"compute", "SLOWER", True),  # that, and the code is slower too
        (1.1, 1.1, b"compute", "SLOWER", True),  # a faster clock hides it
        (0.9, 0.9, b"", "FASTER", True),
        (0.9, 1.0, b"memory", "SAME", True),
        (0.9, 0.9, b"memory", "SAME", False),  # memory took as long as before
        (1.1, 1.1, b"memory", "SAME", False),
        (0.9, 1.2, b"memory", "SLOWER", True),
    ],
)
def test_verdicts_in_cycles(base, new, each, clock, work, bound_by, verdict, in_cycles):
    edit.set_samples(new, 3, steady(3) * work / clock)
    for path, mhz in [(base, 1800), (new, 1800 * clock)]:
        edit.set_row(path, 3, bound_by=bound_by)
        set_clock(path, 3, mhz, each)
    code = RUN if verdict == "SLOWER" else OK
    (comparison,) = as_json(base, new, "--no-outputs", expect=(OK, RUN))
    found = pair(comparison, "s3")
    if not each and work / clock == 1 and work != 1:  # cycles by the median clock may only refute
        verdict, in_cycles, code = "SAME", False, OK
    assert (found["verdict"], found["in_cycles"]) == (verdict, in_cycles)
    assert found["ratio"] == pytest.approx(work if in_cycles else work / clock, rel=0.03)
    assert found["new_s"] / found["base_s"] == pytest.approx(work / clock, rel=0.03)
    assert [found["base_clock_mhz"], found["new_clock_mhz"]] == pytest.approx([1800, 1800 * clock])
    assert not any(other["in_cycles"] for other in comparison["pairs"] if other is not found)
    shown = compare(base, new, "--no-outputs", expect=code).stdout
    assert (f"{verdict:<6}  cycles" in shown) == ("1 ratio is one of clock cycles" in shown) == in_cycles
    assert ("true" in compare(base, new, "--csv", "--no-outputs", expect=code).stdout) == in_cycles


def test_a_clock_on_one_side_is_no_clock(base, new):
    """A throttled card beside a file without clocks."""
    edit.set_samples(new, 3, steady(3) * 1.1)
    set_clock(new, 3, 1600)
    assert pair(as_json(base, new, expect=RUN)[0], "s3")["verdict"] == "SLOWER"
