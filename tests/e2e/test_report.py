"""`tilerun report`: the page is whole, safe, readable and small, whatever the results hold."""

import collections
import itertools
import json
import os
import re
import shutil

import h5py
import numpy as np
import pytest

import harness
import page
from harness import OK

SWEEP = dict(
    name="ladder",
    device="cpu",
    parameters={"n": [8, 16, 32], "dtype": ["float32", "float64"]},
    inputs={"A": {"random": {"shape": ["$n", "$n"], "low": -1, "dtype": "$dtype"}}},
    defaults={"warmup": 0, "repeat": 7},
    operations=[
        {"id": "product", "op": "matmul", "inputs": ["A", "A"], "variants": ["cpu", "blocked"]},
        {"id": "total", "op": "reduce", "inputs": ["product"], "operator": "sum", "axis": "all", "variants": ["cpu"]},
        {"id": "turned", "op": "transpose", "inputs": ["A"], "variants": ["cpu", "blocked"]},
    ],
)


@pytest.fixture(scope="module")
def results(memory_folder):
    """A results file of a sweep, and one of a single run."""
    folder = memory_folder / "report"
    folder.mkdir(exist_ok=True)
    harness.run_job(folder, **SWEEP).path.rename(folder / "sweep.h5")
    one = {key: SWEEP[key] for key in ("device", "defaults")}
    one["inputs"] = {"x": {"random": {"shape": [5, 3]}}}
    one["operations"] = [{"id": "scaled", "op": "scale", "inputs": ["x"], "variants": ["cpu"]}]
    harness.run_job(folder, **one).path.rename(folder / "one.h5")
    return folder


def report(*files, expect=OK, **options):
    """The page of these files, through standard output, taken apart and checked."""
    done = harness.tilerun("report", "-o", "-", *files, errors="surrogateescape", expect=expect, **options)
    return page.read(done.stdout)


def edited(results, folder, change, name="sweep.h5"):
    """A copy of a results file whose rows were changed: `change` takes and returns the rows, and may use the file."""
    path = folder / "edited.h5"
    shutil.copy(results / name, path)
    with h5py.File(path, "r+") as file:
        rows = change(file["runs"][:], file)
        if rows is not None:
            del file["runs"]
            file["runs"] = rows
    return path


def section(root, name):
    return [element.attributes["id"] for element in root.find("section")].count(name) == 1


def titles(root):
    return [element.text() for element in root.find("h3")]


# ---- what is on the page ---------------------------------------------------------------------------------------------


def test_page_of_a_sweep(results, folder):
    root = report(edited(results, folder, limited))
    assert root.one("h1").text() == "ladder"
    assert root.find("p", class_="lead")[0].text().startswith("30 runs: 30 ok; measured on ")
    assert titles(root)[:8] == [
        "product: rate against n",
        "product: rate against dtype",
        "total: rate against n",
        "total: rate against dtype",
        "turned: rate against n",
        "turned: rate against dtype",
        "Roofline: rate against arithmetic intensity",
        "Error against speed, in FLOP/s",
    ]
    with h5py.File(results / "sweep.h5") as file:
        rows = file["runs"][:]
        assert root.one("pre").text() == file["job"][()].decode()
        facts = {row["Environment"]: row["Value"] for row in page.table_rows(root, "Environment")}
        assert facts["hostname"] == file["environment"].attrs["hostname"]
        assert facts["command_line"] == file.attrs["command_line"]
        names = [f"n={n},dtype={dtype}/A" for n in (16, 32, 8) for dtype in ("float32", "float64")]
        inputs = page.table_rows(root, "Inputs")
        assert [row["Inputs"] for row in inputs] == names
        for row in inputs:
            recorded = file["inputs"][row["Inputs"]].attrs
            assert {f"dtype {recorded['dtype']}", f"seed {recorded['seed']}"} <= set(row["Value"].split(", "))
    shown = page.table_rows(root, "Table of runs")
    assert len(shown) == len(rows) == 30
    for cells, row in zip(shown, rows):
        assert cells["Operation"] == row["operation"].decode() and cells["Variant"] == row["variant"].decode()
        assert f"n={cells['n']},dtype={cells['dtype']}" == row["parameters"].decode()
        for heading, column in (("Median", "kernel_median_s"), ("Total", "total_s"), ("Write", "write_s")):
            number, unit = cells[heading].split()
            seconds = float(number) * {"us": 1e-6, "ms": 1e-3, "s": 1}[unit]
            assert seconds == pytest.approx(row[column], rel=0.006, abs=6e-9)
        assert cells["Status"] == "ok" and cells["Samples"] == "7"


def test_cells_are_those_of_show(results):
    """A number has the digits and the unit that it has in the table of `tilerun show`."""
    shown = harness.tilerun("show", "--md", "--columns", "variant,median,rate,ratio,total,error", results / "sweep.h5")
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in shown.stdout.splitlines() if "|" in line]
    rows = page.table_rows(report(results / "sweep.h5"), "Table of runs")
    names = ("Variant", "Median", "Rate", "Ratio", "Total", "Error")
    assert [[row.get(name, "") for name in names] for row in rows] == [line[-6:] for line in lines[2:]]


def caption_of(root, number=0):
    return root.find("figure")[number].one("figcaption").one("p").text()


@pytest.mark.parametrize("wins", [0, 1, 3, 5, 6])
def test_the_fastest_wins_every_case(results, folder, wins):
    """A caption calls a variant the fastest, with no number, only if it loses none of the cases shown."""
    fast = np.random.default_rng(wins).permutation(6) < wins  # by case: is cpu the faster one?

    def change(rows, _):
        rows["kernel_median_s"] = rows["flops"] / 1e9
        at = np.flatnonzero((rows["operation"] == b"product") & (rows["variant"] == b"cpu"))
        rows["kernel_median_s"][at] *= np.where(fast, 0.5, 2)
        return rows

    words = caption_of(report(edited(results, folder, change)))
    first, second = ("cpu", "blocked") if wins > 3 else ("blocked", "cpu")
    if wins == 3:
        assert words.startswith(tuple(f"{v} is the fastest in 3 of 6 cases, " for v in ("cpu", "blocked")))
    elif wins in (0, 6):
        assert words.startswith(f"{first} is the fastest. ")
    else:
        assert words.startswith(f"{first} is the fastest in 5 of 6 cases, {second} in 1. ")


@pytest.mark.parametrize("cold", [0, 1, 3, 6])
def test_first_launches_win_nothing(results, folder, cold):
    """A case with a run of `--once` has no fastest variant; without others none is named."""
    ours = np.random.default_rng(cold).permutation(6) < cold

    def change(rows, _):
        rows["kernel_median_s"], rows["flags"] = rows["flops"] / 1e9, b""
        at = np.flatnonzero((rows["operation"] == b"product") & (rows["variant"] == b"cpu"))
        rows["kernel_median_s"][at] /= 2
        rows["flags"][at[ours]] = b"outliers,cold"
        return rows

    words = caption_of(report(edited(results, folder, change)))
    if cold == 6:
        assert "is the fastest" not in words and words.startswith("First launches")
    else:
        expected = f" in {6 - cold} of 6 cases" if cold else ""
        assert words.startswith(f"cpu is the fastest{expected}. ")


def test_the_highest_rate_is_named(results, folder):
    """Whichever row it is; not a sweep's last, nor its first."""

    def change(rows, _):
        rows["kernel_median_s"] = 1e-3 * rows["flops"] / 1e6
        ours = (rows["operation"] == b"product") & (rows["variant"] == b"cpu") & (rows["parameters"] == name)
        rows["kernel_median_s"][ours] /= 3
        return rows

    for n in (8, 16, 32):
        name = f"n={n},dtype=float64".encode()
        assert f"cpu, 3.00 GFLOP/s at n={n},dtype=float64." in caption_of(report(edited(results, folder, change)))


def limited(rows, _):
    """The limits of 20 GB/s and 100 or 50 GFLOP/s."""
    for row in rows:
        compute = row["flops"] / (1e11 if row["dtype"] == b"float32" else 5e10)
        memory = row["bytes"] / 2e10
        row["bound_s"], row["bound_by"] = max((compute, b"compute"), (memory, b"memory"))
        row["percent_of_bound"] = 100 * row["bound_s"] / row["kernel_median_s"]
    return rows


def unlimited(rows, _):
    rows["bound_s"], rows["bound_by"], rows["percent_of_bound"] = np.nan, b"", np.nan
    return rows


def test_every_number_of_the_table(results, folder):
    """As a text, and as the number that a heading sorts by."""
    numbers = {
        "kernel_median_s": [2e-3, 1e-3, 40e-3], "kernel_ci_low_s": [1.754e-3, 0.99e-3, np.nan],
        "kernel_ci_high_s": [2.246e-3, 1.01e-3, np.nan], "percent_of_bound": [87.654, 5.26, np.nan],
        "bound_by": [b"memory", b"compute", b""], "error": [2.5e-7, 0, np.nan], "tolerance": [1e-5, 0, np.nan],
        "repeats": [7, 0, 12], "total_s": [0.5, 61, np.nan], "flops": [1000, 0, 1000], "bytes": [250, 250, 0],
        "busy_samples": [0, 3, 12],
    }  # fmt: skip
    expected = {
        "Median": [("2.000 ms", 2e-3), ("1.000 ms", 1e-3), ("40.000 ms", 40e-3)],
        "95 %": [("±12%", 12.3), ("±1.0%", 1), ("", None)],
        "Ratio": [("1.00x", 1), ("2.00x", 2), ("0.0500x", 0.05)],
        "Of roof": [("88%", 87.654), ("5.3%", 5.26), ("", None)],
        "Error": [("2.5e-07", 2.5e-7), ("0.0e+00", 0), ("", None)],
        "Tolerance": [("1e-05", 1e-5), ("0", 0), ("", None)],
        "Samples": [("7", 7), ("0", 0), ("12", 12)],
        "Busy samples": [("0", 0), ("3", 3), ("12", 12)],
        "Total": [("500.000 ms", 0.5), ("61.000 s", 61), ("", None)],
    }

    def change(rows, _):
        rows = np.repeat(rows[:1], 3)
        for name, values in numbers.items():
            rows[name] = values
        return rows

    table = report(edited(results, folder, change)).one(class_="scroll", aria_label="Table of runs").one("table")
    headings = [cell.text() for cell in table.one("thead").find("th")]
    for number, row in enumerate(table.one("tbody").find("tr")):
        cells = dict(zip(headings, (cell for cell in row.children if not isinstance(cell, str))))
        for heading, values in expected.items():
            text, value = values[number]
            told = cells[heading].attributes.get("data-v")
            assert cells[heading].text() == text, heading
            assert (told and float(told)) == (None if value is None else pytest.approx(value, rel=1e-5)), heading


def test_one_run(results):
    root = report(results / "one.h5")
    assert len(page.table_rows(root, "Table of runs")) == 1
    assert not section(root, "speed") and section(root, "runs") and section(root, "job")


def test_several_files(results, folder):
    second = edited(results, folder, lambda rows, file: file["environment"].attrs.modify("hostname", "elsewhere"))
    root = report(results / "sweep.h5", second, results / "one.h5")
    assert root.one("h1").text() == "ladder and other jobs"
    assert root.find("p", class_="lead")[0].text().startswith("61 runs in 3 files: 61 ok")
    rows = page.table_rows(root, "Table of runs")
    assert [row["File"] for row in rows] == ["A"] * 30 + ["B"] * 30 + ["C"]
    facts = {row["Environment"]: row for row in page.table_rows(root, "Environment")}
    assert facts["hostname"]["B"] == "elsewhere" and facts["hostname"]["Files"] == "differs"
    assert facts["tool_version"]["Files"] == ""
    assert len(root.find("pre")) == 2 and "B: the same job as A" in root.text()
    names = [text.text() for text in root.find("figure")[0].find("text", class_="tick")]
    assert "A cpu, float32" in names and "B cpu, float32" in names


def test_files_without_a_sweep_are_compared(results):
    root = report(results / "one.h5", results / "one.h5")
    assert titles(root)[0] == "scaled: rate by variant"
    names = root.find("figure")[0].find("text", class_="tick")
    assert [name.text() for name in names] == ["A", "B"]


def test_two_files_have_verdicts(results, folder):
    """As `tilerun compare` gives them: in the rows of the second file, and counted."""

    def change(rows, file):
        for row, factor in zip(rows, [2, 1, 0.5] * 10):
            file[f"samples/{row['run']}"][:] *= factor
            for name in ("kernel_median_s", "kernel_ci_low_s", "kernel_ci_high_s"):
                row[name] *= factor
        rows["flags"][::4] = b"busy"
        return rows

    second = edited(results, folder, change)
    compared = harness.tilerun("compare", "--json", results / "sweep.h5", second)
    pairs = json.loads(compared.stdout)["new"][0]["pairs"]
    root = report(results / "sweep.h5", second)
    rows = page.table_rows(root, "Table of runs")
    assert all(row["Verdict"] == row["B to A"] == "" for row in rows[:30])
    assert [row["Verdict"] for row in rows[30:]] == [pair["verdict"] or "" for pair in pairs]
    reasons = [pair["reason"] or "" for pair in pairs]
    assert [row["Reason"] for row in rows[30:]] == reasons
    for pair, factor in list(zip(pairs, [2, 1, 0.5] * 10))[::4]:  # a busy run claims nothing, and may be the same
        assert (pair["verdict"], pair["reason"]) == ("UNSURE", "busy") or (pair["verdict"] == "SAME" and factor == 1)
    for row, factor in zip(rows[30:], [2, 1, 0.5] * 10):
        ratio, low, high = (float(number) for number in re.findall(r"\d+\.\d+|(?<=>)10", row["B to A"]))
        assert low <= ratio == factor and ratio <= high
    counts = collections.Counter(row["Verdict"] for row in rows[30:])
    (words,) = [text for text in map(page.Element.text, root.find("p")) if text.startswith("B beside A: ")]
    assert all(f"{counts[verdict]} {verdict}" in words for verdict in ("FASTER", "SAME", "SLOWER", "UNSURE"))
    assert "Verdict" not in page.table_rows(report(results / "sweep.h5"), "Table of runs")[0]


def test_footprints_of_any_type(results, folder):
    """Registers, spills, shared memory and occupancy are shown where a file has them, also as integers."""
    names = {"registers": "i4", "spill_bytes": "i4", "shared_bytes": "i8", "occupancy": "f8"}

    def change(rows, _):
        kept = [name for name in rows.dtype.names if name not in names]
        new = np.zeros(len(rows), [(name, rows.dtype[name]) for name in kept] + list(names.items()))
        for name in kept:
            new[name] = rows[name]
        new["registers"], new["shared_bytes"] = 32 + np.arange(len(rows)), 49152
        new["occupancy"] = np.where(np.arange(len(rows)) % 2, 0.75, np.nan)
        return new

    rows = page.table_rows(report(results / "one.h5", edited(results, folder, change)), "Table of runs")
    assert [row["Registers"] for row in rows] == ["", *(str(32 + i) for i in range(30))]
    assert [row["Occupancy"] for row in rows] == ["", *["", "0.75"] * 15]
    assert {row["Spilled bytes"] for row in rows[1:]} == {"0"} and rows[1]["Shared bytes"] == "49152"
    assert "Registers" not in page.table_rows(report(results / "one.h5"), "Table of runs")[0]


def test_libraries_of_the_environment_are_shown(results, folder):
    def change(_, file):
        file["environment"].attrs["blas_name"] = "OpenBLAS"
        file["environment"].attrs["load_average"] = 3.25

    root = report(edited(results, folder, change))
    facts = {row["Environment"]: row["Value"] for row in page.table_rows(root, "Environment")}
    assert facts["blas_name"] == "OpenBLAS" and facts["load_average"] == "3.25"


def test_skipped_runs(results, folder):
    """Nothing ran: the page says so, and why, and draws nothing."""

    def change(rows, file):
        rows["status"], rows["message"] = b"skipped", b"no GPU"
        for name in ("kernel_median_s", "total_s", "error"):
            rows[name] = np.nan
        file.attrs["status"] = "failed"
        return rows

    root = report(edited(results, folder, change))
    assert root.find("p", class_="lead")[0].text() == "30 runs: 30 skipped."
    assert root.one("ul", class_="messages").text().strip() == "30 skipped: no GPU"
    assert "unfinished: 0 of 30 runs are done" in root.one("ul", class_="files").text()
    assert not root.find("svg") and not section(root, "speed")


# ---- anything may stand in a file ------------------------------------------------------------------------------------

NASTY = [
    "<script>alert(1)</script>",
    "</script></style></title><b>",
    "a\"b'c&amp;<i>&lt;",
    "--><!-- ]]>",
    "tab\tand\nnewline",
    "Straße λ 矩阵 🎉 \u202eturned",
]


def test_texts_are_escaped(results, folder):
    def change(rows, file):
        for row, nasty in zip(rows, itertools.cycle(NASTY)):
            row["message"], row["status"], row["flags"] = nasty.encode(), b"failed", nasty.encode()[:60]
            row["variant"], row["device_name"] = nasty.encode()[:90], nasty.encode()[:90]
        for row in rows[12:]:
            row["status"] = b"ok"
        rows["operation"][20:] = b"<u>&\" x='y"
        rows["parameters"][20:] = b"n=8,<s>=</s>&\""
        text = "x: " + "\n".join(NASTY)
        attributes = dict(file["job"].attrs)
        del file["job"]
        file.create_dataset("job", data=np.array(text.encode(), f"S{len(text.encode())}"))
        for name, value in attributes.items():
            file["job"].attrs[name] = value
        file["job"].attrs["name"] = "<h1>&"
        file["environment"].attrs["<em>"] = "</table><script>"
        return rows

    root = report(edited(results, folder, change))
    assert len(root.find("script")) == 1 and len(root.find("style")) == 1
    assert not [element for element in root.find() if element.name in ("i", "u", "s", "em")]
    assert root.one("h1").text() == "<h1>&"
    assert root.one("pre").text() == "x: " + "\n".join(NASTY)
    rows = page.table_rows(root, "Table of runs")
    assert {row["Message"] for row in rows} == set(NASTY)
    facts = {row["Environment"]: row["Value"] for row in page.table_rows(root, "Environment")}
    assert facts["<em>"] == "</table><script>"
    assert [title for title in titles(root) if title.startswith("<u>&\" x='y: rate ")]


def test_bytes_that_are_not_text(results, folder):
    """Control characters and bytes that are not UTF-8 become U+FFFD, as HTML wants it."""

    def change(rows, _):
        rows["message"] = b"bell \x07 escape \x1b[31m del \x7f c1 \xc2\x85 cut \xe2\x82 lone \xff half \xed\xa0\x80."
        rows["status"] = b"failed"
        return rows

    root = report(edited(results, folder, change))
    message = page.table_rows(root, "Table of runs")[0]["Message"]
    assert re.sub("\ufffd+", "?", message) == "bell ? escape ?[31m del ? c1 ? cut ? lone ? half ?."


NUMBERS = ["kernel_median_s", "kernel_min_s", "kernel_max_s", "kernel_ci_low_s", "kernel_ci_high_s", "read_s", "h2d_s",
           "d2h_s", "write_s", "total_s", "flops", "bytes", "gflops", "gbytes_per_s", "bound_s", "percent_of_bound",
           "error", "tolerance"]  # fmt: skip
ODD = [np.nan, np.inf, -np.inf, 0.0, -0.0, -1.0, 5e-324, 1e-300, 1.7e308, 1e-9, 1.0, 3600.0, 1e12]
LABELS = [b"", b"n=8", b"n=1e308", b"n=-5", b"n=0", b"n=text", b"n=", b"=", b",,",
          b"a=1,b=2,c=3,d=4,e=5,f=6,g=7,h=8,i=9",
          b"n=0.1,dtype=float32", "größe=Ω".encode(), b"x" * 150]  # fmt: skip


def test_drawn_rows(results, folder, rng):
    """Whatever numbers, labels and statuses stand in the rows: a good page, and no coordinate that is no number."""
    for _ in range(int(os.environ.get("TILERUN_CASES", 12))):

        def change(rows, _):
            rows = rng.choice(rows, rng.choice([0, 1, 2, 5, 40]))
            for name in NUMBERS:
                odd = rng.random(len(rows)) < rng.choice([0, 0.3, 1])
                rows[name][odd] = rng.choice(ODD, odd.sum())
            for name, values in {
                "parameters": LABELS,
                "variant": [b"cpu", b"", b"tiled,tile=16", b"v" * 90],
                "operation": [b"product", b"", b"other"],
                "op": [b"matmul", b"reduce", b"", b"unheard-of"],
                "status": [b"ok", b"ok", b"ok", b"wrong", b"unchecked", b"", b"strange"],
                "bound_by": [b"compute", b"memory", b"", b"?"],
                "run": [0, 1, -1, 2**31 - 1],
                "repeats": [0, 1, -1, 7, 10**9],
            }.items():
                odd = rng.random(len(rows)) < rng.choice([0, 0.5, 1])
                rows[name][odd] = rng.choice(np.array(values), odd.sum())
            return rows

        path = edited(results, folder, change)
        root = report(path, *([results / "sweep.h5"] if rng.random() < 0.3 else []))
        assert root.find("p", class_="lead")


def test_drawn_samples(results, folder, rng):
    """Samples of any number and value; thousands stay small."""

    def change(rows, file):
        for name in list(file["samples"]):
            if name.endswith("mhz"):
                continue
            count = rng.choice([0, 1, 2, 1000, 20000])
            del file["samples"][name]
            values = np.abs(rng.standard_t(1, count)) * 1e-4
            odd = rng.random(count) < rng.choice([0, 0.5])
            values[odd] = rng.choice(ODD, odd.sum())
            file["samples"][name] = values

    path = edited(results, folder, change)
    report(path)
    assert len(harness.tilerun("report", "-o", "-", path).stdout) < 500_000


@pytest.mark.parametrize("missing", ["job", "job_resolved", "environment", "inputs", "samples"])
def test_parts_of_the_file_are_missing(results, folder, missing):
    def change(_, file):
        del file[missing]

    assert len(page.table_rows(report(edited(results, folder, change)), "Table of runs")) == 30


def test_size(results, folder):
    """100 runs stay below 500 kB; of 2000 with 300 variants and 40 operations the page says what it leaves out."""

    def repeated(count, variants, operations):
        def change(rows, _):
            rows = np.resize(rows, count)
            for i, row in enumerate(rows):
                row["variant"] = f"tiled,tile={i % variants}".encode()
                row["operation"] = f"op{i // 7 % operations}".encode()
                row["parameters"] = f"n={2 ** (i % 11)},dtype=float{i % 2}".encode()
            return rows

        return edited(results, folder, change)

    done = harness.tilerun("report", "-o", "-", repeated(100, 6, 3))
    assert done.returncode == OK and len(done.stdout.encode()) < 500_000
    done = harness.tilerun("report", "-o", "-", repeated(2000, 300, 40))
    assert done.returncode == OK and len(done.stdout.encode()) < 5_000_000
    root = page.read(done.stdout)
    assert len(page.table_rows(root, "Table of runs")) == 2000
    text = root.one("main").text()
    assert "24 of 80 plots are shown" in text
    assert re.search(r"\d\d+ others", text)


# ---- colours ---------------------------------------------------------------------------------------------------------


def test_colours(results):
    """Text has a contrast of 4.5 in each theme, what is drawn 3; the colours of lines look different to all readers."""
    for colours in page.themes(report(results / "one.h5")):
        for text, ground in itertools.product(("ink", "soft", "link", "bad"), ("page", "wash")):
            assert page.contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
        drawn = [colours[f"k{i}"] for i in range(7)]
        assert all(page.contrast(colour, colours["page"]) >= 3 for colour in [*drawn, colours["k7"]])
        for vision in page.VISION:
            for one, other in itertools.combinations(drawn, 2):
                assert page.distance(one, other, vision) >= 20, (vision, one, other)
