"""`tilerun compare`: pairs, verdicts, what differs, exit codes. Samples are written into copies of one run's file, so
that no verdict depends on how busy the machine is."""

import json
import os
import re
import shutil

import h5py
import numpy as np
import pytest

import harness
import results_edit as edit
from harness import OK, RUN, USAGE

RUNS = 20


@pytest.fixture(scope="module")
def original(memory_folder):
    """20 runs of `scale`, a product and a sum."""
    folder = memory_folder / "compare"
    folder.mkdir(exist_ok=True)
    harness.write_arrays(folder / "x.h5", x=np.random.default_rng(1).normal(size=(40, 50)).astype("f4"))
    path = harness.write_job(
        folder / "job.yaml",
        device="cpu",
        inputs={"X": {"file": "x.h5", "dataset": "/x"}, "R": {"random": {"shape": [30, 30], "seed": 3}}},
        defaults={"warmup": 0, "repeat": 6},
        operations=[
            *({"id": f"s{i}", "op": "scale", "inputs": ["X"], "beta": i, "variants": ["cpu"]} for i in range(RUNS)),
            {"id": "product", "op": "matmul", "inputs": ["R", "R"], "variants": ["cpu", "naive"]},
            {"id": "total", "op": "reduce", "operator": "sum", "axis": "all", "inputs": ["product"]},
        ],
    )
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    harness.tilerun("run", path, "-o", folder / "a.h5", "--overwrite", env=environment, expect=OK)
    edit.set_all_samples(folder / "a.h5", lambda run: steady(run))
    return folder / "a.h5"


def steady(seed, median=1e-3, spread=0.005, count=30):
    return median * np.exp(spread * np.random.default_rng(int(seed)).normal(size=count))


PRODUCT = RUNS  # the number of its run


@pytest.fixture
def base(original, folder):
    return edit.copy(original, folder, "base.h5")


@pytest.fixture
def new(original, folder):
    return edit.copy(original, folder, "new.h5")


def compare(*arguments, expect=OK, **options):
    done = harness.tilerun("compare", *arguments, **options)
    assert done.returncode in (expect if isinstance(expect, tuple) else (expect,)), done.stdout + done.stderr
    return done


def as_json(*arguments, expect=OK):
    return json.loads(compare("--json", *arguments, expect=expect).stdout)["new"]


def pair(comparison, operation):
    found = [pair for pair in comparison["pairs"] if pair["operation"] == operation]
    return found[0]


def test_a_file_beside_itself(base):
    done = compare(base, base)
    assert "no difference is recorded" in done.stdout and done.stderr == ""
    assert f"0 slower, 0 faster, {RUNS + 2} same, 0 unsure; no result got worse" in done.stdout
    (comparison,) = as_json(base, base)
    assert all(p["verdict"] == "SAME" and p["ratio"] == 1 for p in comparison["pairs"] if p["base_status"] == "ok")
    assert all(p["output"]["identical"] for p in comparison["pairs"] if p["output"])
    assert "1 run skipped in both: " in done.stdout


def test_false_alarms_and_slow_downs(base, new, rng):
    """Ten pairs of drawn files: few of the runs are called different. Then each run 5 % slower: 19 of 20 are found."""
    kinds = [
        lambda n: rng.normal(size=n),
        lambda n: rng.choice([-1, 1], n) + 0.1 * rng.normal(size=n),
        lambda n: np.clip(rng.standard_t(2, n), -20, 20),
        lambda n: np.where(rng.uniform(size=n) < 0.1, 10.0, rng.normal(size=n)),
        lambda n: 3 * rng.normal() * np.linspace(-1, 1, n) + rng.normal(size=n),
        lambda n: np.repeat(rng.normal(size=5), n // 5) + 0.2 * rng.normal(size=n),
    ]
    alarms, runs = 0, 0
    for turn in range(10):
        for path in (base, new):
            edit.set_all_samples(path, lambda run: 2e-4 * np.exp(0.02 * kinds[turn % len(kinds)](50)))
        (comparison,) = as_json(base, new, "--no-outputs", expect=(OK, RUN))
        alarms += comparison["slower"] + comparison["faster"]
        runs += len(comparison["pairs"])
    assert alarms <= 0.05 * runs
    edit.set_all_samples(base, lambda run: 2e-4 * np.exp(0.01 * rng.normal(size=50)))
    edit.set_all_samples(new, lambda run: 1.05 * 2e-4 * np.exp(0.01 * rng.normal(size=50)))
    (comparison,) = as_json(base, new, expect=RUN)
    assert comparison["slower"] >= 0.95 * (RUNS + 2) and comparison["faster"] == 0


def test_slower_is_exit_1_and_faster_is_not(base, new):
    edit.set_samples(new, 3, 1.2 * steady(3))
    done = compare(base, new, expect=RUN)
    assert "s3" in done.stdout and "SLOWER" in done.stdout and "1 slower, 0 faster" in done.stdout
    done = compare(new, base)
    assert "FASTER" in done.stdout
    assert "1 slower" not in compare(base, new, "--threshold", "30%").stdout
    compare(base, new, "--threshold", "0.1", expect=RUN)


def test_flags_of_what_differs(base, new):
    """Runs that were doubtful when they were measured are counted among those that differ."""
    edit.set_row(new, 1, flags=b"outliers")
    assert "flagged" not in compare(base, new).stdout
    for run in (3, 5, 8):
        edit.set_samples(new, run, 1.2 * steady(run))
    edit.set_row(base, 3, flags=b"throttled,drift")
    edit.set_row(new, 3, flags=b"drift")
    edit.set_row(new, 8, flags=b"outliers,throttled")
    line = "2 of the slower and faster runs are flagged: throttled, drift, outliers (see `tilerun show`)\n"
    assert line in compare(base, new, expect=RUN).stdout


def test_sort_puts_the_slowest_first(base, new):
    for run, ratio in [(3, 1.1), (7, 1.3), (9, 0.8)]:
        edit.set_samples(new, run, ratio * steady(run))
    edit.set_row(new, 5, status=b"wrong")
    for more in ("--no-outputs", "--json", "--csv", base):  # the last: a history
        said = compare(base, new, more, "--sort", expect=RUN).stdout
        found = re.findall(r'^(?:.*new.h5,|.*"operation": ")?(s\d+)\b', said, re.M)
        assert found[:3] == ["s5", *(["s0", "s1"] if more == base else ["s7", "s3"])]


def test_times_have_the_unit_that_fits(base, new):
    for path in (base, new):
        edit.set_all_samples(path, lambda run: steady(run, [2e-6, 2e-2, 2, 200][int(run)], 0), range(4))
    shown = compare(base, new).stdout
    for run, text in enumerate(["2.00 us", "20.000 ms", "2.000 s", "200.000 s"]):
        assert re.search(rf"^s{run} .* {re.escape(text)} +{re.escape(text)}", shown, re.M), shown


def test_few_samples(base, new):
    """Of none nothing is said; of one the noise is unknown; a few show what is large."""
    for run, count in enumerate([0, 1, 3]):
        edit.set_samples(new, run, 2 * steady(0, count=count))
    (comparison,) = as_json(base, new, expect=RUN)
    assert [pair(comparison, f"s{run}")["verdict"] for run in range(3)] == ["", "UNSURE", "SLOWER"]
    one = pair(comparison, "s1")
    assert one["ratio_low"] is None and one["samples_missing"] == 5 and one["ratio"] > 1.9
    assert "UNSURE  single" in compare(base, new, expect=RUN).stdout


def test_what_would_settle_it(base, new):
    """How many more samples; or that none would, where the difference is as large as two files are ever apart."""
    for run, factor, spread in [(0, 1.03, 0.3), (1, 1.02, 1e-4), (2, 1.0098, 0.3)]:
        samples = steady(run, spread=spread)
        edit.set_samples(base, run, samples)
        edit.set_samples(new, run, factor * samples)
    (comparison,) = as_json(base, new)
    more = [pair(comparison, f"s{run}")["samples_missing"] for run in range(3)]
    lines = compare(base, new).stdout.splitlines()
    needs = [next(line.split()[-2] for line in lines if line.startswith(f"s{run} ")) for run in range(3)]
    assert needs[0] == f"+{more[0]:.0f}" and 30 < more[0] < 1e6
    assert needs[1] == "floor" and more[1] is None
    assert needs[2] == f"+{more[2]:.0e}" and more[2] >= 1e6


def test_noisy_and_bimodal_runs_are_named(base, new, rng):
    """Whether or not their rows have the flag: by the interval of the ratio, and by the samples."""
    two = 1e-3 * (1 + 0.08 * (rng.permutation(60) % 2) + 1e-3 * rng.normal(size=60))
    for path in (base, new):
        edit.set_samples(path, 0, two)
        edit.set_samples(path, 1, steady(1, spread=0.8))
        edit.set_row(path, 2, flags=b"noisy,bimodal")
    edit.set_samples(new, 3, 1.5 * steady(3))
    (comparison,) = as_json(base, new, expect=RUN)
    named = {p["operation"]: (p["noisy"], p["bimodal"]) for p in comparison["pairs"]}
    assert named["s0"][1] and named["s1"] == (True, False) and named["s2"] == (True, True)
    assert not any(any(named[f"s{run}"]) for run in range(3, RUNS))
    for p in comparison["pairs"]:
        if p["ratio_high"] is not None and p["ratio_high"] - p["ratio_low"] > 0.25 * p["ratio"]:
            assert p["noisy"], p
    lines = {line.split()[0]: line for line in compare(base, new, expect=RUN).stdout.splitlines() if line.strip()}
    for run, words in enumerate([["bimodal"], ["noisy"], ["noisy", "bimodal"], []]):
        assert [word for word in ("noisy", "bimodal") if word in lines[f"s{run}"].replace(",", " ").split()] == words


@pytest.mark.parametrize(
    "factor, text", [(9.9, "9.900"), (50, ">10x"), (2e4, ">10000x"), (0.05, "<0.1x"), (3e-4, "<0.001x")]
)
def test_ratios_beyond_ten(base, new, factor, text):
    edit.set_samples(new, 4, factor * steady(4))
    for news in ([new], [base, new]):
        shown = compare(base, *news, expect=RUN if factor > 1 else OK).stdout
        assert text in next(line for line in shown.splitlines() if line.startswith("s4 ")).split()
    assert pair(as_json(base, new, expect=(OK, RUN))[0], "s4")["ratio"] == pytest.approx(factor)


@pytest.mark.parametrize("coarse", [[0], [1], [0, 1], []])
def test_samples_as_short_as_the_clock_can_tell_are_unsure(base, new, coarse):
    """The samples of each agree to 0.1 %, as those of four processes did that were a third apart."""
    for number, (path, seconds) in enumerate([(base, 3.57e-6), (new, 4.9e-6)]):
        edit.set_samples(path, 0, steady(number, seconds, 1e-3))
        edit.set_row(path, 0, flags=b"outliers,below_resolution" if number in coarse else b"outliers")
    (comparison,) = as_json(base, new, expect=OK if coarse else RUN)
    assert pair(comparison, "s0")["verdict"] == ("UNSURE" if coarse else "SLOWER")
    assert pair(comparison, "s0")["floor"] >= 0.4 if coarse else pair(comparison, "s0")["floor"] == 0.02


def test_unmatched_runs_are_listed(base, new):
    edit.set_rows(base, edit.rows(base)[1:])
    edit.set_rows(new, edit.rows(new)[:-1])
    edit.set_row(new, 5, shape=b"41x50")
    done = compare(base, new)
    assert "2 runs only in base:\n  s5 cpu, 40x50 float32 on cpu\n  total " in done.stdout
    assert "2 runs only in new:\n  s0 cpu, 40x50 float32 on cpu\n  s5 cpu, 41x50 float32 on cpu\n" in done.stdout
    (comparison,) = as_json(base, new)
    assert [row["operation"] for row in comparison["only_in_new"]] == ["s0", "s5"]


@pytest.mark.parametrize(
    "values, pairs",
    [
        ({"operation": b"s50"}, False),
        ({"op": b"transpose"}, False),
        ({"variant": b"blocked"}, False),
        ({"parameters": b"n=3"}, False),
        ({"shape": b"50x40"}, False),
        ({"dtype": b"float64"}, False),
        ({"device": b"cuda:0"}, False),
        ({"device": b"cpu:1"}, True),  # another of a kind
    ],
)
def test_what_runs_are_paired_by(base, new, values, pairs):
    """One run differs in one of its texts: it has no pair, unless the text is the number of a device."""
    edit.set_row(new, 5, **values)
    (comparison,) = as_json(base, new)
    assert [p["operation"] for p in comparison["pairs"] if p["operation"] in ("s5", "s50")] == ["s5"] * pairs
    assert [len(comparison[name]) for name in ("only_in_base", "only_in_new")] == [1 - pairs] * 2


def test_nothing_in_common(base, new):
    """It must not look as if all was well."""
    edit.set_rows(new, edit.rows(new)[:0])
    done = compare(base, new, expect=USAGE)
    assert f"{RUNS + 3} runs only in base" in done.stdout and "and 13 more" in done.stdout
    assert "have no run in common" in done.stderr
    compare(new, base, expect=USAGE)
    as_json(new, new, expect=USAGE)


def test_runs_that_are_alike_pair_by_their_order(base, new):
    for path in (base, new):
        for run in (1, 2):
            edit.set_row(path, run, operation=b"s0")
    edit.set_samples(new, 1, 1.5 * steady(1))
    (comparison,) = as_json(base, new, expect=RUN)
    same = [p for p in comparison["pairs"] if p["operation"] == "s0"]
    assert [(p["run"], p["new_run"]) for p in same] == [(0, 0), (1, 1), (2, 2)]
    assert [p["verdict"] for p in same] == ["SAME", "SLOWER", "SAME"]


def test_thousands_of_runs(base, new):
    for path in (base, new):
        table = np.repeat(edit.rows(path)[:1], 5000)
        table["run"] = np.arange(5000)
        table["parameters"] = [f"n={i}".encode() for i in range(5000)]
        edit.set_rows(path, table if path == base else table[::-1])
    (comparison,) = as_json(base, new, "--no-outputs")
    assert len(comparison["pairs"]) == 5000 and all(p["new_run"] == p["run"] for p in comparison["pairs"])
    compare(base, new, new, new, "--no-outputs")


# ---- results that got worse ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["wrong", "failed", "skipped", "interrupted"])
def test_a_run_that_is_no_longer_right(base, new, status):
    edit.set_row(new, 4, status=status.encode(), message=b"for a reason")
    done = compare(base, new, expect=RUN)
    assert "WORSE" in done.stdout and f"was ok, is {status}: for a reason" in done.stdout
    assert "1 result got worse" in done.stdout
    done = compare(new, base)
    assert f"was {status}, is ok" in done.stdout
    for one, other in [(base, new), (new, base), (new, new)]:  # whatever samples it has: they are of no result
        (comparison,) = as_json(one, other, expect=(OK, RUN))
        assert pair(comparison, "s4")["ratio"] is None and pair(comparison, "s5")["ratio"] == 1


def test_an_error_above_the_tolerance(base, new):
    edit.set_row(new, PRODUCT, error=1e-3)
    assert "error 1.0e-03 is above the tolerance" in compare(base, new, expect=RUN).stdout


@pytest.mark.parametrize("value", [1.0, np.nan, np.inf])
def test_an_output_that_differs(base, new, value):
    def change(values):
        values[7, 8] += value
        return values

    edit.set_values(new, "outputs/product", change)
    done = compare(base, new, expect=RUN)
    assert "WORSE" in done.stdout and "1 result got worse" in done.stdout
    compare(base, new, "--no-outputs")


def test_an_output_that_differs_within_tolerance(base, new):
    edit.set_values(new, "outputs/product", lambda values: np.nextafter(values, np.float32(1e9)))
    (comparison,) = as_json(base, new)
    output = pair(comparison, "product")["output"]
    assert not output["identical"] and 0 < output["difference"] <= output["allowed"]


def test_an_output_of_another_shape(base, new):
    with h5py.File(new, "r+") as file:
        attributes = dict(file["outputs/s0"].attrs)
        del file["outputs/s0"]
        file["outputs/s0"] = np.zeros((3, 4), "f4")
        file["outputs/s0"].attrs.update(attributes)
    assert "the outputs differ in shape or type" in compare(base, new, expect=RUN).stdout


def test_an_output_is_compared_piece_by_piece(folder):
    """Chunked, compressed, beyond one piece: the last element counts."""
    path = harness.write_job(
        folder / "job.yaml", device="cpu", inputs={"R": {"random": {"shape": [1100, 1000], "dtype": "float64"}}},
        operations=[{"id": "t", "op": "transpose", "inputs": ["R"], "variants": ["cpu"], "repeat": 1, "verify": "none",
                     "compression": "gzip", "level": 1, "chunks": [100, 300]}],
    )  # fmt: skip
    assert harness.tilerun("run", path, "-o", folder / "a.h5").returncode == OK
    edit.copy(folder / "a.h5", folder, "b.h5")
    assert pair(as_json(folder / "a.h5", folder / "b.h5")[0], "t")["output"]["identical"]

    def change(values):
        values[-1, -1] += 1
        return values

    edit.set_values(folder / "b.h5", "outputs/t", change)
    assert not pair(as_json(folder / "a.h5", folder / "b.h5", expect=RUN)[0], "t")["output"]["identical"]


# ---- what differs --------------------------------------------------------------------------------------------------


def test_another_device_is_refused(base, new):
    table = edit.rows(new)
    table["device_name"] = b"Another CPU"
    edit.set_rows(new, table)
    done = compare(base, new, expect=USAGE)
    assert "'Another CPU'" in done.stderr and "--any-device" in done.stderr and done.stdout == ""
    assert "same" in compare(base, new, "--any-device").stdout


def test_another_device_of_files_without_the_column(base, new):
    for path in (base, new):
        table = edit.rows(path)
        edit.set_rows(path, table[[name for name in table.dtype.names if name != "device_name"]])
    with h5py.File(base) as file:
        known = "cpu" in file["environment"].attrs
    compare(base, new)
    edit.set_attribute(new, "environment", "cpu", "Another CPU")
    compare(base, new, expect=USAGE if known else OK)


def test_what_differs_is_said_first(base, new):
    edit.set_attribute(new, "/", "git_commit", "0123456789ab")
    edit.set_attribute(new, "environment", "driver_version", "560.1")
    edit.set_attribute(base, "environment", "driver_version", "550.1")
    edit.set_attribute(new, "/", "mixed_conditions", "A with 1 thread; A with 2 threads")
    edit.set_attribute(new, "inputs/X", "xxh3", "0" * 32)
    edit.set_attribute(new, "inputs/R", "seed", 4)
    table = edit.rows(new)
    table["threads"] += 3
    edit.set_rows(new, table)
    edit.change_job(new, lambda text: text.replace("beta: 3,", "beta: 3.5,"))
    done = compare(base, new)
    head = done.stdout.split("operation ")[0]
    for words in ["git_commit: ", "-> 0123456789ab", "driver_version: 550.1 -> 560.1", "mixed_conditions: - -> A with",
                  "input X, xxh3:", "input R, seed: 3 -> 4", "threads: ", "job, s3: beta: 3 -> beta: 3.5"]:  # fmt: skip
        assert words in head, words
    (comparison,) = as_json(base, new)
    assert {"what": "driver_version", "base": "550.1", "new": "560.1"} in comparison["differs"]


@pytest.mark.parametrize("clock, said", [(1980, False), (1970, False), (1200, True), (2500, True)])
def test_another_clock(base, new, clock, said):
    """Of all runs: the ratio in their middle."""
    for path, mhz in [(base, 1980), (new, clock)]:
        table = edit.rows(path)
        table["sm_clock_mhz"] = mhz
        table["sm_clock_mhz"][0] = 500
        edit.set_rows(path, table)
    assert (f"sm_clock_mhz: 1980 MHz -> {clock} MHz" in compare(base, new).stdout) == said


@pytest.mark.parametrize("unknown", [np.nan, 0])
def test_a_clock_that_one_file_does_not_know(base, new, unknown):
    """It is none: not of a few runs, and not of most."""
    for path, mhz in [(base, unknown), (new, 1980)]:
        table = edit.rows(path)
        table["sm_clock_mhz"] = 1980
        table["sm_clock_mhz"][4:] = mhz
        edit.set_rows(path, table)
    assert "sm_clock_mhz" not in compare(base, new).stdout
    assert "sm_clock_mhz" not in compare(new, base).stdout


def test_a_line_that_only_one_job_has(base, new):
    edit.change_job(new, lambda text: text + "zeal: true\n")
    assert "job, zeal: absent -> present\n" in compare(base, new).stdout
    assert "job, zeal: present -> absent\n" in compare(new, base).stdout


def test_other_inputs_make_no_result_worse(base, new):
    edit.set_attribute(new, "inputs/X", "xxh3", "0" * 32)
    edit.set_values(new, "outputs/s3", lambda values: values + 5)
    compare(base, new)


# ---- output and exit codes -----------------------------------------------------------------------------------------


def test_a_history(base, new, folder):
    third = edit.copy(new, folder, "third.h5")
    edit.set_samples(new, 2, 1.2 * steady(2))
    edit.set_samples(third, 2, 1.4 * steady(2))
    edit.set_rows(third, edit.rows(third)[1:])
    done = compare(base, new, third, expect=RUN)
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("s2 ")]
    assert "1.2" in line and "1.4" in line and line.count("SLOWER") == 2
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("s0 ")]
    assert line.rstrip().endswith("-")
    assert "1 run only in " in done.stdout
    assert len(as_json(base, new, third, expect=RUN)) == 2
    edit.set_samples(third, 7, 1.6 * steady(7))
    edit.set_samples(third, 9, 0.7 * steady(9))
    same = [number for number in range(RUNS) if number not in (0, 2, 7, 9)]
    for arguments, expected in [(["--sort"], [7, 2, *same, 9, 0]), ([], list(range(RUNS)))]:  # 0 is not in the last
        found = re.findall(r"^s(\d+) ", compare(base, new, third, *arguments, expect=RUN).stdout, re.M)
        assert list(map(int, found)) == expected


def test_lines_fit_the_terminal(base, new):
    for path in (base, new):
        table = edit.rows(path)
        table["parameters"] = b"algorithm=strassen,n=16384,dtype=float32"
        edit.set_rows(path, table)
    edit.set_row(new, 4, status=b"failed", message=b"a sentence " * 20)
    environment = os.environ | {"COLUMNS": "80"}
    done = compare("base.h5", "new.h5", expect=RUN, cwd=base.parent, env=environment)
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert max(map(len, harness.tilerun("compare", "--help").stdout.splitlines())) <= 80


def test_bad_files(base, folder):
    (folder / "text.h5").write_text("no HDF5")
    (folder / "empty.h5").write_text("")
    harness.write_arrays(folder / "other.h5", x=1)
    shutil.copy(base, folder / "cut.h5")
    with open(folder / "cut.h5", "r+b") as file:
        file.truncate(2000)
    with h5py.File(shutil.copy(base, folder / "no_rows.h5"), "r+") as file:
        del file["runs"]
    for name in ["text.h5", "empty.h5", "other.h5", "cut.h5", "no_rows.h5", "absent.h5", ".", "job.yaml"]:
        for pairs in [(base, folder / name), (folder / name, base)]:
            done = compare(*pairs, expect=USAGE)
            assert done.stdout == "" and done.stderr.startswith("tilerun: "), name


def test_bare_files(base, new):
    """What an older or foreign file lacks is not missed: job, environment, inputs, samples, outputs."""
    with h5py.File(new, "r+") as file:
        for name in ["job", "job_resolved", "environment", "inputs", "samples", "outputs"]:
            del file[name]
        for name in list(file.attrs):
            if name != "schema":
                del file.attrs[name]
    same = "Program, machine, job and inputs: no difference is recorded.\n"
    assert same in compare(base, new).stdout and same in compare(new, base).stdout
    as_json(new, new)


def test_odd_names_and_a_read_only_folder(original, folder):
    odd = folder / "bäse \"quoted\" 100%.h5"
    shutil.copy(original, odd)
    folder.chmod(0o555)
    try:
        (comparison,) = as_json(odd, odd)
        assert comparison["file"] == str(odd)
        compare(odd, odd)
    finally:
        folder.chmod(0o755)
