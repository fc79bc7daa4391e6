"""What timings on this CPU are worth: with processes beside it that use all cores, runs are flagged `busy`, may be
measured again, and comparing two files of the same job finds nothing faster or slower; on an idle machine they are the
same, and a slow-down of 10 % is found."""

import contextlib
import json
import os
import re
import subprocess
import sys
import time

import h5py
import numpy as np
import pytest

import harness
import results_edit as edit

ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "TILERUN_LOAD"}
PAIRS = int(os.environ.get("TILERUN_CASES", 1))
asked = pytest.mark.skipif("TILERUN_CASES" not in os.environ, reason="TILERUN_CASES=20 asks for it, on an idle machine")


@contextlib.contextmanager
def burning():
    """Processes that use every core until the end."""
    cores = len(os.sched_getaffinity(0))
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(cores)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


@pytest.fixture
def job(tmp_path):
    inputs = {"a": {"random": {"shape": [300, 300], "low": -1}}}
    both = {"inputs": ["a"], "variants": ["cpu", "blocked"]}
    operations = [
        {"id": "p", "op": "matmul", "inputs": ["a", "a"], "variants": ["blocked"]},
        {"id": "t", "op": "transpose", **both},
        {"id": "r", "op": "reduce", "operator": "sum", "axis": 0, **both},
    ]
    return harness.write_job(tmp_path / "job.yaml", inputs=inputs, operations=operations, defaults={"repeat": 20})


def run(job, name, environment=ENVIRONMENT):
    harness.tilerun("run", job, "-o", job.parent / name, "--overwrite", env=environment, expect=harness.OK)
    return job.parent / name


def test_no_claims_on_a_busy_machine(job):
    with burning():
        for _ in range(PAIRS):
            one, other = run(job, "one.h5"), run(job, "other.h5")
            done = harness.tilerun("compare", one, other, expect=harness.OK)
            counts = re.search(r"(\d+) slower, (\d+) faster", done.stdout)
            assert counts.groups() == ("0", "0"), done.stdout
            assert "UNSURE  busy" in done.stdout or " same, 0 unsure" in done.stdout
            assert harness.tilerun("compare", "--strict", one, other).returncode == (
                harness.OK if ", 0 unsure" in done.stdout else harness.RUN
            )
        shown = harness.tilerun("show", one).stdout
        busy, all_ = map(int, re.search(r"busy \(b\): \d+ runs?, (\d+) of (\d+) samples: ", shown).groups())
    with h5py.File(one) as file:
        rows = [row for row in file["runs"][:] if b"busy" in row["flags"]]
        marked = [np.count_nonzero(file[f"samples/{row['run']}_marks"][:] & 16) for row in rows]
    assert marked == [row["busy_samples"] for row in rows]
    assert (busy, all_) == (sum(marked), sum(row["repeats"] for row in rows)) and busy > 0


def test_the_load_may_be_ignored(job):
    with burning():
        one = run(job, "one.h5", ENVIRONMENT | {"TILERUN_LOAD": "ignore"})
        assert "busy" not in harness.tilerun("show", one).stdout


def test_limits_measured_on_a_busy_machine_are_doubted(job):
    environment = ENVIRONMENT | {"XDG_CACHE_HOME": str(job.parent / "cache")}
    with burning():
        done = harness.tilerun("run", job, "-o", job.parent / "one.h5", env=environment)
    assert done.returncode == harness.OK, done.stderr
    assert "other processes used the CPUs meanwhile, so the limits may be too low" in done.stderr, done.stderr


def test_forms_and_conditions_of_compare(job):
    one = run(job, "one.h5")
    for form in ("--md", "--csv", "--json"):
        done = harness.tilerun("compare", one, one, form, "--where", "op=reduce")
        assert done.returncode == harness.OK and "sum" not in done.stderr
        assert done.stdout.count("blocked") == 1 and "matmul" not in done.stdout and "transpose" not in done.stdout
        assert harness.tilerun("compare", one, one, form, "--where", "op=scale").returncode == harness.RUN


def test_a_threshold_above_one_needs_its_percent_sign(job):
    one = run(job, "one.h5")
    for threshold, code in [("5", 2), ("1.5", 2), ("5%", 0), ("0.05", 0), ("1", 0), ("1000%", 0)]:
        done = harness.tilerun("compare", one, one, "--threshold", threshold, expect=code)
        assert (f"did you mean {threshold}%?" in done.stderr) == (code == 2)


# ---- measured again ------------------------------------------------------------------------------------------------


def messages(path):
    with h5py.File(path) as file:
        return [row["message"].decode() for row in file["runs"][:]]


def test_busy_runs_are_measured_again(job):
    """Each as often as is allowed, while it is busy; the stored samples are those of the last time."""
    with burning():
        done = harness.tilerun("run", job, "-o", job.parent / "one.h5", "--retry", 2, env=ENVIRONMENT)
    assert done.returncode == harness.OK, done.stderr
    with h5py.File(job.parent / "one.h5") as file:
        for row in file["runs"][:]:
            assert row["repeats"] == len(file[f"samples/{row['run']}"]) == 20
            if b"busy" in row["flags"]:
                assert row["message"] == b"measured 3 times"
    tries = done.stderr.count(": measured again, 1 of at most 2 times")
    assert 0 < tries == sum("measured" in message for message in messages(job.parent / "one.h5"))


def test_what_never_is_precise_enough(job):
    """`until` that no machine meets within its few repeats."""
    text = job.read_text().replace('"repeat": 20', '"repeat": {"min": 3, "max": 7, "until": "0.0001%"}')
    job.write_text(text)
    done = harness.tilerun("run", job, "-o", job.parent / "one.h5", "--retry", 1)
    assert done.returncode == harness.OK and messages(job.parent / "one.h5") == ["measured 2 times"] * 5
    assert messages(run(job, "other.h5")) == [""] * 5


def test_reproduce_measures_unsure_runs_again(job):
    """Beside samples so far apart that nothing can be told."""
    one = run(job, "one.h5")
    edit.set_all_samples(one, lambda run: np.resize([1e-7, 1e3], 20), runs=[1, 4])
    done = harness.tilerun("reproduce", one, "--retry", 2, "--keep", "--threshold", "1000%")
    assert done.returncode in (harness.OK, harness.RUN), done.stderr
    again = messages(job.parent / "one.reproduced.h5")
    assert again[1] == again[4] == "measured 3 times"
    assert len(re.findall(r"measured again, 2 of at most 2 times", done.stderr)) >= 2


@pytest.mark.parametrize("words", [["-1"], ["many"], ["1001"], [2, "--once"]])
def test_retries_that_mean_nothing(job, words):
    done = harness.tilerun("run", job, "-o", job.parent / "one.h5", "--retry", *words)
    assert done.returncode == harness.USAGE and "--retry" in done.stderr


@pytest.mark.parametrize("other, verdict", [(1.02, "SLOWER"), (1.05, "UNSURE"), (0.9, "UNSURE"), (np.nan, "SLOWER")])
def test_cores_of_other_speeds_make_no_claim(job, other, verdict):
    """As in a virtual machine, where nothing but the probe shows who uses a core's other hardware thread."""
    base = run(job, "base.h5", ENVIRONMENT | {"TILERUN_LOAD": "ignore"})
    assert np.isnan([row["probe_s"] for row in edit.rows(base)]).all()
    edit.set_all_samples(base, lambda run: np.linspace(1, 1.001, 20))
    new = edit.copy(base, job.parent, "new.h5")
    edit.set_all_samples(new, lambda run: np.linspace(2, 2.002, 20))
    for path, probe in [(base, 1e-5), (new, other * 1e-5)]:
        for row in edit.rows(path):
            edit.set_row(path, row["run"], probe_s=probe)
    assert set(verdicts(base, new)) == {verdict}
    for row in edit.rows(new):
        edit.set_row(new, row["run"], device_name=b"another processor")
    assert set(verdicts(base, new)) == {"SLOWER"}


# ---- on an idle machine --------------------------------------------------------------------------------------------


def used_share(seconds=0.5):
    """The share of this process's CPUs that all processes use."""

    def working():
        cpus = {f"cpu{cpu}" for cpu in os.sched_getaffinity(0)}
        with open("/proc/stat") as stat:
            lines = [line.split() for line in stat]
        return sum(sum(map(int, line[1:4] + line[6:9])) for line in lines if line[0] in cpus)

    before = working()
    time.sleep(seconds)
    ticks = os.sysconf("SC_CLK_TCK") * len(os.sched_getaffinity(0)) * seconds
    return (working() - before) / ticks


def idle_pairs(one, other):
    """PAIRS comparisons of two jobs, each run after the other while nothing else used the CPUs. Where something always
    does, the test is skipped."""
    for _ in range(PAIRS):
        for _ in range(20):
            if used_share() > 0.02:
                continue
            base, new = run(one, "base.h5"), run(other, "new.h5")
            if not any(b"busy" in row["flags"] for path in (base, new) for row in edit.rows(path)):
                yield base, new
                break
        else:
            pytest.skip("others use the CPUs or their cores: no pair of runs is without `busy`")


def drawn_job(path, rows, rng_seed):
    """Plain loops over arrays with that many rows, of drawn widths: their time is proportional to the rows."""
    rng = np.random.default_rng(rng_seed)
    widths = [int(width) for width in rng.integers(200, 400, 3)]
    inputs = {f"a{i}": {"random": {"shape": [rows, width], "low": -1}} for i, width in enumerate(widths)}
    inputs["b"] = {"random": {"shape": [widths[0], 60], "low": -1}}
    operations = [
        {"id": "p", "op": "matmul", "inputs": ["a0", "b"], "variants": ["cpu"]},
        {"id": "r", "op": "reduce", "operator": "sum", "axis": 1, "inputs": ["a1"], "variants": ["cpu"]},
        {"id": "s", "op": "scale", "alpha": 3, "inputs": ["a2"], "variants": ["cpu"]},
    ]
    defaults = {"repeat": {"min": 20, "max": 1000, "until": "1%"}, "verify": "none", "store": "none"}
    return harness.write_job(path, inputs=inputs, operations=operations, defaults=defaults)


def verdicts(base, new):
    done = harness.tilerun("compare", "--json", "--any-device", base, new)
    assert done.returncode in (harness.OK, harness.RUN), done.stderr
    (comparison,) = json.loads(done.stdout)["new"]
    for pair in comparison["pairs"]:
        print(pair["operation"], pair["verdict"], pair["reason"], pair["ratio"], pair["ratio_low"], pair["ratio_high"])
    return [pair["verdict"] for pair in comparison["pairs"]]


@pytest.mark.timings
@asked
def test_a_job_beside_itself_on_an_idle_machine(tmp_path):
    """At least 90 % are the same, and at most 5 % are called different."""
    job = drawn_job(tmp_path / "job.yaml", 300, int.from_bytes(os.urandom(4), "little"))
    found = [verdict for base, new in idle_pairs(job, job) for verdict in verdicts(base, new)]
    assert found.count("SAME") >= 0.9 * len(found) and found.count("UNSURE") + found.count("SAME") >= 0.95 * len(found)


@pytest.mark.timings
@asked
def test_ten_percent_more_work_is_found_on_an_idle_machine(tmp_path):
    """The other job's arrays have 10 % more rows, and its file calls them by the first one's shapes."""
    seed = int.from_bytes(os.urandom(4), "little")
    one, other = drawn_job(tmp_path / "one.yaml", 300, seed), drawn_job(tmp_path / "other.yaml", 330, seed)
    found = []
    for base, new in idle_pairs(one, other):
        for row in edit.rows(base):
            edit.set_row(new, row["run"], shape=row["shape"])
        found += verdicts(base, new)
    assert found.count("SLOWER") >= 0.95 * len(found)
