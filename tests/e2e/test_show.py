"""`tilerun show`: its columns, conditions, order and forms; terminals of any width; outputs that are not finished."""

import csv
import io
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
import unicodedata

import h5py
import numpy as np
import pytest

import harness
import results_edit as edit
from harness import OK, USAGE

LONG = "a-value-with-é-that-is-longer-than-a-terminal-is-wide-" + "x" * 60
REASONS = ["no GPU here", "its kernel takes float32 only", "its input 'product' has no result"]


def show(path, *arguments, expect=OK, **environment):
    done = harness.tilerun(
        "show", path, *arguments, env={**os.environ, "LC_ALL": "C.UTF-8", **environment}, expect=expect
    )
    return done.stdout if expect == OK else done.stderr


def width(text):
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A results file whose rows are written by hand: every status, flags, three reasons to skip, names of all kinds."""
    folder = tmp_path_factory.mktemp("show")
    job = harness.write_job(
        folder / "job.yaml",
        device="cpu",
        parameters={"n": [8, 16]},
        inputs={"a": {"random": {"shape": ["$n", "$n"]}}},
        defaults={"warmup": 0, "repeat": 3},
        operations=[
            {"id": "product", "op": "matmul", "inputs": ["a", "a"], "variants": ["cpu", "blocked"]},
            {"id": "means", "op": "reduce", "inputs": ["product"], "operator": "mean", "axis": 0, "variants": ["cpu"]},
        ],
    )
    path = folder / "out.h5"
    harness.tilerun("run", job, "-o", path, expect=OK)
    with h5py.File(path, "r+") as file:
        rows = np.repeat(file["runs"][:], 3)
        del file["runs"]
        rows["run"] = np.arange(len(rows))
        for i, row in enumerate(rows):
            row["variant"] = [b"naive", b"tiled,tile=16", b"tiled,tile=32"][i % 3]
            row["operation"] = [b"product", b"means"][i // 9]
            row["parameters"] = [b"n=8", b"n=16"][i // 3 % 2]
            row["kernel_median_s"] = 10.0 ** (i % 6 - 5)
            row["kernel_ci_low_s"], row["kernel_ci_high_s"] = np.array([0.99, 1.01]) * row["kernel_median_s"]
            row["gflops"] = row["gbytes_per_s"] = 10.0 ** (i % 5)
            row["total_s"] = 2 * row["kernel_median_s"]
        for i, reason in zip((2, 5, 8, 11, 14, 17), REASONS * 2):
            rows[i]["status"], rows[i]["message"], rows[i]["kernel_median_s"] = b"skipped", reason.encode(), np.nan
        rows[9]["status"], rows[9]["message"] = b"wrong", "[0, 0] ist größer, should be 4".encode()
        rows[1]["flags"] = b"throttled,outliers"
        rows[4]["percent_of_bound"] = 63.2
        file["runs"] = rows
    return path


def rows_of(path, *arguments):
    return json.loads(show(path, "--json", *arguments))


# ---- switches -------------------------------------------------------------------------------------------------------


def test_units_interval_and_notes(results):
    text = show(results)
    lines = text.splitlines()
    assert lines[0].split() == (
        ["operation", "parameters", "variant", "shape", "median", "±"]
        + ["rate", "of", "roof", "x", "naive", "total", "error", "!", "status"]
    )
    assert "10.00 us ±1.0%" in lines[1] and "1.00 GFLOP/s" in lines[1] and "20.00 us" in lines[1]
    assert "10.000 ms ±1.0%" in text and "1.00 TFLOP/s" in text and "100.0 GFLOP/s" in text and "63%" in text
    assert re.search(r" to +ok\n", text)
    assert len(re.findall("^throttled .t.: 1 run: .*cool$", text, re.M)) == 1 and "outliers (o): 1 run: " in text
    for reason in REASONS:  # one line each
        assert len(re.findall(rf"^skipped: .*: {re.escape(reason)}$", text, re.M)) == 1
    assert text.count("skipped") == 3
    assert "wrong: [0, 0] ist größer, should be 4" in text and "no ratio for means n=16" in text
    assert "+-1.0%" in show(results, LC_ALL="C") and "±" not in show(results, LC_ALL="C")


def test_baseline(results):
    text = show(results, "--columns", "variant,n,ratio", "--baseline", "tiled,tile=16", "--where", "operation=product")
    assert text.splitlines()[0].split() == ["variant", "p_n", "x", "tiled,tile=16"]
    ratios = re.findall(r"^(\S+) +(\d+) +(\S+)$", text, re.M)
    assert ("tiled,tile=16", "8", "1.00x") in ratios and ("naive", "8", "10.00x") in ratios
    assert "is ambiguous: 'tiled,tile=16' or 'tiled,tile=32'" in show(results, "--baseline", "tiled", expect=USAGE)
    assert "no variant 'nave' (did you mean 'naive'?)" in show(results, "--baseline", "nave", expect=USAGE)


def test_every_column_can_be_chosen(results):
    names = csv.reader(io.StringIO(show(results, "--csv"))).__next__()
    assert "p_n" in names
    names += ["n", "median", "ci", "rate", "roof", "ratio", "total"]
    heading, row, *_ = show(results, "--columns", ",".join(names), "--where", "run=4").splitlines()
    assert {"kernel_median_s", "p_n", "median", "±", "total"} <= set(heading.split()) and "63.2" in row and "63%" in row
    assert heading.split().count("p_n") == 2
    everything = sorted(rows_of(results), key=lambda row: row["run"])
    for name in random.sample(names, 8):
        assert sorted(rows_of(results, "--sort", name), key=lambda row: row["run"]) == everything, name
    stderr = show(results, "--columns", "variant,medain", expect=USAGE)
    assert stderr == "tilerun: show: no column 'medain' (did you mean 'median'?)\n"


def test_parameters_of_variants_are_columns(results):
    rows = rows_of(results, "--columns", "variant,tile", "--sort", "-tile")
    assert [row["v_tile"] for row in rows] == [32] * 6 + [16] * 6 + [None] * 6
    assert all(row["variant"] == ("naive" if row["v_tile"] is None else f"tiled,tile={row['v_tile']}") for row in rows)
    table = show(results, "--csv", "--columns", "run,v_tile", "--where", "tile=16").splitlines()
    assert table[0] == "run,v_tile" and len(table) == 7 and all(line.endswith(",16") for line in table[1:])
    assert "v_tile" not in show(results) + show(results, "--csv")
    compared = harness.tilerun("compare", results, results, "--where", "tile=16").stdout
    assert "tile=16" in compared and "tile=32" not in compared and "naive" not in compared
    listed = show(results, "--columns", "x" * 30, expect=USAGE).split("columns are ")[1].strip().split(", ")
    assert len(listed) == len(set(listed)) and {"n", "tile", "dtype", "error", "flags"} <= set(listed)


def test_a_column_asked_for_stays_though_it_is_empty(results):
    where = ["--columns", "variant,median,flags,run", "--where", "status=skipped"]
    heading, row, *_ = show(results, *where).splitlines()
    assert heading.split() == ["variant", "median", "!", "run"] and len(row.split()) == 2
    for line in show(results, "--md", *where).splitlines()[:3]:
        assert line.count("|") == 5
    usual = show(results, "--where", "run=0").splitlines()[0].split()  # a table's own choice leaves empty ones out
    assert "median" in usual and "!" not in usual


def test_order_and_conditions_hold_in_all_forms(results):
    chosen = ["--sort", "-kernel_median_s", "--where", "p_n=8", "--where", "status!=skipped"]
    rows = rows_of(results, *chosen)
    everything = rows_of(results)
    expected = [row for row in everything if row["parameters"] == "n=8" and row["status"] != "skipped"]
    expected.sort(key=lambda row: -row["kernel_median_s"])
    assert rows == expected and len(rows) > 3
    table = list(csv.DictReader(io.StringIO(show(results, "--csv", *chosen))))
    assert [int(row["run"]) for row in table] == [row["run"] for row in rows]
    text = show(results, "--columns", "run", *chosen)
    assert [int(line) for line in text.splitlines()[1:]] == [row["run"] for row in rows]
    assert len(show(results, "--md", "--columns", "run", *chosen).splitlines()) == len(rows) + 2
    for sign, test in (("<", np.less), ("<=", np.less_equal), (">", np.greater), (">=", np.greater_equal)):
        found = rows_of(results, "--where", f"run{sign}4")
        assert found == [row for row in everything if test(row["run"], 4)]
    for bare, shown in (("rate>10", "rate > 10 GFLOP/s"), ("roof<50", "roof<50%"), ("total<0.002", " total < 2 ms")):
        assert rows_of(results, "--where", bare) == rows_of(results, "--where", shown) != everything
    assert rows_of(results, "--where", "variant=tiled") == [row for row in everything if "tiled" in row["variant"]]
    for form in ([], ["--md"], ["--csv"], ["--json"]):
        assert harness.tilerun("show", results, "--where", "n=7", *form).returncode == harness.RUN


def test_markdown(results):
    with h5py.File(shutil.copy(results, results.parent / "md.h5"), "r+") as file:
        rows = file["runs"][:]
        rows[0]["message"] = b"a|b * <c> [d]\nnext"
        file["runs"][:] = rows
    lines = show(results.parent / "md.h5", "--md").splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table}) == 1 and len(table) == 2 + 12
    assert r"| ok: a\|b \* \<c> \[d\] next |" in table[2] and re.fullmatch(r"\|( ---:? \|)+", table[1])
    assert all(line == "" or line.startswith("- ") for line in lines[len(table) :])


# ---- terminals ------------------------------------------------------------------------------------------------------


def on_terminal(columns, *arguments):
    """What a terminal of so many columns gets."""
    terminal = harness.Terminal(columns)
    ends = {"stdout": terminal.follower, "stderr": subprocess.DEVNULL}
    process = harness.start(*arguments, env={**os.environ, "LC_ALL": "C.UTF-8"}, **ends)
    text = terminal.read(process)
    assert process.wait() == OK
    return text.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("columns", [80, 40])
def test_fits_a_terminal(results, columns):
    text = on_terminal(columns, "show", results)
    assert max(map(width, text.splitlines())) <= columns
    left_out = re.search(r"omitted columns: ([^;]*);\s--columns\schooses", text)[1].replace("\n", " ").split(", ")
    assert left_out[0] == "shape" and "median" in text and "variant" not in left_out
    assert " ".join(text.split()).count("skipped: ") == 3
    assert text == show(results, COLUMNS=str(columns))  # the environment's width goes for pipes too
    wide = on_terminal(300, "show", results)
    assert "not shown" not in wide and wide == show(results)


def test_drawn_rows_fit_any_width(results, tmp_path):
    seed = int(os.environ.get("TILERUN_SEED") or random.randrange(1 << 32))
    draw = random.Random(seed)
    path = shutil.copy(results, tmp_path / "drawn.h5")
    texts = ["", "x", LONG, "行列" * 20, "o\u0308" * 30, "a b " * 40, "tab\tnew\nline\x1b[31m", b"half \xc3", "|_*"]
    for _ in range(6):
        with h5py.File(path, "r+") as file:
            rows = file["runs"][:]
            for row in rows:
                for name in ("operation", "variant", "parameters", "shape", "status", "message", "flags"):
                    if draw.random() < 0.3:
                        text = draw.choice(texts)
                        row[name] = text if isinstance(text, bytes) else text.encode()
                for name in ("kernel_median_s", "gflops", "error", "total_s", "percent_of_bound"):
                    row[name] = draw.choice([np.nan, np.inf, 0, 1e-9, 1e300, -1, draw.random()])
            file["runs"][:] = rows
        for columns in [draw.randrange(20, 200) for _ in range(6)]:
            done = subprocess.run(
                [harness.TILERUN, "show", path], capture_output=True, env={**os.environ, "COLUMNS": str(columns)}
            )
            assert done.returncode == OK, (seed, done.stderr)
            for line in done.stdout.decode().splitlines():
                assert width(line) <= columns and line.isprintable(), (seed, columns, line)


def test_run_ends_with_the_same_table(results):
    text = on_terminal(80, "run", results.parent / "job.yaml", "-o", results.parent / "again.h5")
    assert "`tilerun show --columns` chooses" in " ".join(text.split())
    shown = on_terminal(80, "show", results.parent / "again.h5")
    cut = "omitted columns"
    assert text.partition(cut)[0] == shown.partition(cut)[0] and max(map(width, text.splitlines())) <= 80


# ---- outputs that are not finished ----------------------------------------------------------------------------------


def slow_job(folder):
    """Four runs, of which the third takes seconds."""
    return harness.write_job(
        folder / "job.yaml",
        device="cpu",
        parameters={"n": [8, 16, 1500, 32]},
        inputs={"a": {"random": {"shape": ["$n", "$n"]}}},
        defaults={"warmup": 0, "repeat": 2, "verify": "none"},
        operations=[{"id": "product", "op": "matmul", "inputs": ["a", "a"], "variants": ["cpu"]}],
    )


def snapshot(folder):
    found = {}
    for path in sorted(folder.rglob("*")):
        about = path.lstat()
        found[path] = (about.st_mtime_ns, about.st_ctime_ns, about.st_size, about.st_mode)
    return found


@pytest.fixture
def killed(folder):
    """A job that was killed while it did its third run; `running` is what show said before."""
    process = harness.start("run", slow_job(folder), "-o", folder / "out.h5", "--progress", "none")
    while len(list(folder.glob("out.h5.parts/*.h5"))) < 2 and process.poll() is None:
        time.sleep(0.002)
    process.send_signal(signal.SIGSTOP)
    running = show(folder / "out.h5")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return folder, running


def test_a_killed_job(killed):
    folder, running = killed
    assert running.splitlines()[0] == "running: 2 of 4 runs are done" and len(running.splitlines()) == 4
    before = snapshot(folder)
    text = show(folder / "out.h5")
    first, *table = text.splitlines()
    again = f"tilerun run {folder / 'job.yaml'} -o {folder / 'out.h5'} --resume"
    assert first == f"unfinished: 2 of 4 runs are done; `{again}` continues"
    assert table == running.splitlines()[1:] and [line.split()[1] for line in table[1:]] == ["n=8", "n=16"]
    assert show(folder / "out.h5.parts") == text and show(f"{folder / 'out.h5.parts'}/") == text
    (folder / "link.h5").symlink_to("out.h5")
    assert show(folder / "link.h5") == text.replace("out.h5", "link.h5")
    (folder / "link.h5").unlink()
    done = harness.tilerun("show", folder / "out.h5", "--json", "--sort", "-n")
    assert [row["p_n"] for row in json.loads(done.stdout)] == [16, 8]
    assert done.stderr == f"tilerun: unfinished: 2 of 4 runs are done; `{again}` continues\n"
    assert snapshot(folder) == before

    # One that a crash of the machine damaged is not shown.
    part = sorted(folder.glob("out.h5.parts/*.h5"))[0]
    whole = part.read_bytes()
    for damaged in (whole[:-1], whole[: len(whole) // 2], b"", whole[:2000] + b"\x00\xff" + whole[2002:]):
        part.write_bytes(damaged)
        assert show(folder / "out.h5").startswith("unfinished: 1 of 4 runs are done; ")
    part.write_bytes(whole)
    if os.geteuid() != 0:
        (folder / "out.h5.parts").chmod(0o500)
        assert show(folder / "out.h5") == text
        (folder / "out.h5.parts").chmod(0o700)

    job = json.loads((folder / "job.yaml").read_text())
    job["parameters"]["n"][2] = 24
    (folder / "job.yaml").write_text(json.dumps(job))
    done = harness.tilerun("run", folder / "job.yaml", "-o", folder / "out.h5", "--resume")
    assert done.returncode == OK and "2 of 4" not in show(folder / "out.h5")
    assert done.stderr.count("kept from before") == 2
    assert sorted(path.name for path in folder.iterdir()) == ["job.yaml", "out.h5"]
    with h5py.File(folder / "out.h5") as file:
        assert "job_runs" not in file.attrs


def test_nothing_is_finished_yet(folder):
    parts = folder / "out.h5.parts"
    parts.mkdir()
    assert "out.h5: No such file" in show(folder / "out.h5", expect=USAGE)  # nobody's
    (parts / "lock").touch()
    text = show(folder / "out.h5")
    assert text == f"unfinished: no run is finished yet; `tilerun run JOB -o {folder / 'out.h5'} --resume` continues\n"
    for name in ("out.h5", "out.h5.parts"):
        assert "prints how to complete it" in harness.said("inspect", folder / name), name
    assert show(folder / "out.h5", "--json") == "[]\n"
    assert sorted(path.name for path in folder.rglob("*")) == ["lock", "out.h5.parts"]
    (parts / "lock").unlink()
    os.mkfifo(parts / "lock")  # nobody writes to it, and nobody waits for that
    assert harness.tilerun("show", folder / "out.h5", timeout=10).stdout == text


def test_a_failed_and_a_partial_job(folder):
    path = harness.write_job(
        folder / "job.yaml",
        device="cpu",
        inputs={"a": {"random": {"shape": [8, 8]}}},
        operations=[
            {"id": "good", "op": "transpose", "inputs": ["a"], "variants": ["cpu"]},
            {"id": "bad", "op": "matmul", "inputs": ["a", "a"], "variants": ["cpu"], "tolerance": 0},
        ],
    )
    harness.tilerun("run", path, "-o", folder / "out.h5", "--only", "good", expect=OK)
    again = f"tilerun run {path} -o {folder / 'out.h5'} --resume"
    text = show(folder / "out.h5")
    assert text.startswith(f"unfinished: --only left operations out; `{again}` does them\n")
    assert "good" in text
    with h5py.File(folder / "out.h5", "r+") as file:
        file.attrs["status"] = "failed"
        rows = file["runs"][:]
        rows["status"] = b"failed"
        file["runs"][:] = rows
    assert show(folder / "out.h5").startswith(f"unfinished: 0 of 1 runs are done; `{again}` redoes the others\n")


def test_a_job_is_no_results_file(folder):
    (folder / "job.yaml").write_text("version: 1\n")
    for command in ("show", "reproduce", "report"):
        done = harness.tilerun(command, folder / "job.yaml", expect=harness.USAGE)
        assert "is not an HDF5 file; if it is a job, `tilerun run` runs it" in done.stderr


@pytest.mark.parametrize("bound_by, percent, word", [
    ("compute", 104, None), ("compute", 150, "roof"), ("memory", 104, None), ("memory", 800, "cache"),
])  # fmt: skip
def test_runs_above_their_roof_are_explained(results, folder, bound_by, percent, word):
    """Of measured arithmetic the measurement is doubted; what a cache holds is read faster than memory."""
    path = edit.copy(results, folder, "above.h5")
    for row in edit.rows(path):
        edit.set_row(path, row["run"], percent_of_bound=np.nan)
    edit.set_row(path, 0, percent_of_bound=percent, bound_by=bound_by.encode())
    shown = harness.tilerun("show", path).stdout
    assert re.findall(r"^(roof|cache): 1 run is faster than", shown, re.M) == ([word] if word else []), shown
