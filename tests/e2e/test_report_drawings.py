"""`tilerun report`: where points, ticks and names stand in the drawings, which limits are drawn, what messages say."""

import math
import re

import numpy as np
import pytest

import page
from test_report import caption_of, edited, limited, report, results, titles, unlimited  # noqa: F401 (a fixture)

ROOFLINE = "Roofline: rate against arithmetic intensity"
LEFT, RIGHT, TOP, BOTTOM = 66, 296, 14, 240


def figure_of(root, title):
    return root.find("figure")[titles(root).index(title)]


def heights(figure):
    """Of the points, from the top."""
    return sorted(y for _, y in places(figure))


def places(figure):
    """Of the points, in the drawing."""
    markers = [group.find("path")[-1].attributes["d"] for group in figure.find("g")]
    return [tuple(map(float, re.match(r"M(\S+) ([\d.]+)m", marker).groups())) for marker in markers]


@pytest.mark.parametrize("exact", [0, 1, 5])
def test_errors_stand_at_their_heights(results, folder, exact):
    """Runs without any error stand on a mark of their own, a power of ten below the others, which it does not move."""
    errors = [0] * exact + [3e-7 * 2**i for i in range(6 - exact)]

    def change(rows, _):
        rows = rows[rows["op"] == b"matmul"][:6]
        rows["error"], rows["tolerance"] = errors, np.nan
        return rows

    found = heights(figure_of(report(edited(results, folder, change)), "Error against speed, in FLOP/s"))
    values = [error or 1e-8 for error in errors]
    room = max((max(values) / min(values)) ** 0.06, 1.15)
    low, high = math.log(min(values) / room), math.log(max(values) * room)
    wanted = [BOTTOM - (BOTTOM - TOP) * (math.log(value) - low) / (high - low) for value in values]
    assert found == pytest.approx(sorted(wanted), abs=0.06)


@pytest.mark.parametrize("values", [[8, 16, 32], [100, 110, 140], [-5, 0, 20], [-9, -5, -2], [0.25, 0.5, 1]])
def test_a_linear_axis_has_little_room_at_its_ends(results, folder, values):
    def change(rows, _):
        new = dict(zip((b"n=8,", b"n=16,", b"n=32,"), values))
        rows["parameters"] = [re.sub(rb"n=\d+,", lambda n: b"n=%g," % new[n[0]], text) for text in rows["parameters"]]
        return rows

    figure = report(edited(results, folder, change)).find("figure")[0]
    assert [tick.text() for tick in figure.find("text", class_="tick mid")] == [f"{value:g}" for value in values]
    ticks = [path.attributes["d"] for path in figure.find("path", class_="axis")]
    found = [float(tick[1]) for tick in (re.fullmatch(r"M([\d.]+) \d+v5", tick) for tick in ticks) if tick]
    span = max(values) - min(values)
    low = min(values) - 0.06 * span
    assert found == pytest.approx([LEFT + (RIGHT - LEFT) * (v - low) / (1.12 * span) for v in values], abs=0.06)


@pytest.mark.parametrize("power", [0, 1, 2])
@pytest.mark.parametrize("above", [0.999, 1, 1.001])
def test_a_tick_at_the_very_end(results, folder, power, above):
    """An axis of powers of ten that ends at one of them shows it, and not the even steps of an axis that has none."""
    rate = above * 10.0 ** (9 + power) / 1.15
    assert above != 1 or rate * 1.15 == 10 ** (9 + power)

    def change(rows, file):
        rows = unlimited(rows, file)
        rows["flops"], rows["bytes"], rows["kernel_median_s"] = rate, rate, 1
        return rows[rows["op"] != b"transpose"]

    figure = figure_of(report(edited(results, folder, change)), ROOFLINE)
    ticks = [tick.text() for tick in figure.find("text", class_="tick end")]
    assert ticks == [str(10**power)] if above >= 1 else len(ticks) > 2


PLAIN, POWER = r"-?\d+(\.\d+)?", r"(\d+(\.\d+)?·)?10⁻?[⁰¹²³⁴⁵⁶⁷⁸⁹]+|0"


@pytest.mark.parametrize("smallest", [1e-12, 1e-6, 1e-3, 1, 1e3, 1e8])
@pytest.mark.parametrize("span", [1.5, 30, 1e4, 1e9])
def test_an_axis_has_labels_of_one_kind(results, folder, smallest, span):
    """And its title names the unit, and the scale where it is logarithmic."""

    def change(rows, _):
        rows = rows[rows["op"] == b"matmul"]
        rows["kernel_median_s"] = rows["flops"] / 1e9 / smallest / np.geomspace(1, span, len(rows))
        rows["kernel_ci_low_s"] = rows["kernel_ci_high_s"] = np.nan
        return rows

    drawing = report(edited(results, folder, change)).find("figure")[0].one("svg")
    labels = [text.text() for text in drawing.find("text", class_="tick end")]
    kinds = [all(re.fullmatch(kind, label) for label in labels) for kind in (PLAIN, POWER)]
    assert len(labels) > 1 and any(kinds), labels
    titles_of_axes = [text.text() for text in drawing.find("text", class_="mid")]
    assert titles_of_axes[0].startswith("rate (") and "FLOP/s" in titles_of_axes[0]
    assert ("log scale" in titles_of_axes[0]) == (span > 20)


@pytest.mark.parametrize("bound", [0, -0.0, -1e-3, np.nan, np.inf, -np.inf, 1e-300, 5e-324, 1e300])
@pytest.mark.parametrize("by", [b"memory", b"compute"])
def test_limits_that_are_none(results, folder, bound, by):
    """Rows that tell of a limit without a time that could be one: no roof."""

    def change(rows, _):
        rows["bound_by"], rows["bound_s"], rows["percent_of_bound"] = by, bound, 50
        rows["flops"] = rows["bytes"] = 1e6
        return rows

    root = report(edited(results, folder, change))
    assert not figure_of(root, ROOFLINE).find("path", class_="roof")


@pytest.mark.parametrize("status, flops, traffic, seconds", [
    (b"ok", 1e12, 1e-20, 1e-3), (b"ok", 1e-20, 1e12, 1e-3), (b"ok", 1e25, 1e25, 1e-6), (b"ok", 1e-25, 1e-25, 1e6),
    (b"ok", 0, 1e6, 1e-3), (b"ok", 1e6, 0, 1e-3), (b"ok", 1e6, 1e6, 0), (b"ok", -1e6, -1e6, 1e-3),
    (b"ok", np.nan, 1e6, 1e-3), (b"ok", 1e6, np.inf, 1e-3), (b"ok", 1e6, 1e6, np.nan),
    (b"wrong", 1e6, 1e6, 1e-3), (b"failed", 1e6, 1e6, 1e-3), (b"interrupted", 1e6, 1e6, 1e-3),
])  # fmt: skip
def test_runs_that_have_no_place(results, folder, status, flops, traffic, seconds):
    """What is not done, or has no rate or intensity that could be one, is no point, and moves no other."""

    def change(rows, file, odd=True):
        rows = unlimited(rows, file)[:6]
        rows["op"], rows["flops"], rows["bytes"] = b"matmul", 1e6, 2e6
        rows["kernel_median_s"] = 1e-3 * np.arange(1, 7)
        if odd:
            rows["status"][3], rows["kernel_median_s"][3] = status, seconds
            rows["flops"][3], rows["bytes"][3] = flops, traffic
        return rows if odd else np.delete(rows, 3)

    def found(change):
        return heights(figure_of(report(edited(results, folder, change)), ROOFLINE))

    assert len(found(change)) == 5 and found(change) == found(lambda rows, file: change(rows, file, odd=False))


def test_every_message_is_told_once(results, folder):
    """With the number of runs that have it: of one status several, of several statuses one."""
    told = [("failed", "too hot", 3), ("failed", "too cold", 2), ("wrong", "too hot", 4), ("skipped", "no GPU", 1)]

    def change(rows, _):
        at = np.random.default_rng(3).permutation(10)
        pairs = [(status, message) for status, message, count in told for _ in range(count)]
        for place, (status, message) in zip(at, pairs):
            rows["status"][place], rows["message"][place] = status.encode(), message.encode()
        return rows

    lines = report(edited(results, folder, change)).one("ul", class_="messages").find("li")
    assert sorted(line.text() for line in lines) == sorted(f"{count} {s}: {m}" for s, m, count in told)


@pytest.mark.parametrize("busy", [0, 1, 12])
def test_who_is_the_fastest_of_busy_runs_is_doubted(results, folder, busy):
    def change(rows, _):
        rows["flags"] = b"drift"
        rows["flags"][np.flatnonzero(rows["operation"] == rows["operation"][0])[:busy]] = b"drift,busy"
        return rows

    words = caption_of(report(edited(results, folder, change)))
    assert "is the fastest" in words
    assert ("used the CPUs during" in words) == (busy > 0) and (not busy or f" during {busy} of the 12 runs" in words)


def test_lines_and_intervals(results, folder):
    """Of three values of n and two variants in two types: four lines of three points, each with its interval."""

    def change(rows, _):
        rows["kernel_median_s"] = 1e-3
        rows["kernel_ci_low_s"], rows["kernel_ci_high_s"] = 0.5e-3, 2e-3
        return rows

    root = report(edited(results, folder, change))
    drawing = root.find("figure")[0].one("svg")
    coloured = [e for e in drawing.find("path") if e.attributes["class"].startswith("l ")]
    lines = [e for e in coloured if "L" in e.attributes["d"]]
    assert len(lines) == 4 and all(line.attributes["d"].count("L") == 2 for line in lines)
    bars = [e for e in coloured if "V" in e.attributes["d"]]
    assert len(bars) == 12
    names = [text.text() for text in drawing.find("text", class_="tick")]
    assert names == ["cpu, float32", "blocked, float32", "cpu, float64", "blocked, float64"]
    assert [e.text() for e in drawing.find("text", class_="tick mid")] == ["8", "16", "32"]
    looks = {tuple(line.attributes["class"].split()) for line in lines}
    assert len(looks) == 4, "colour and dash tell the lines apart"
    assert "95 % intervals" in root.find("figure")[0].one("figcaption").text()
    points = root.find("figure")[1]  # against dtype: categories get points, each of its own place and look
    assert not [e for e in points.find("path") if "L" in e.attributes["d"]]
    assert len(places(points)) == 12 == len({x for x, _ in places(points)})


@pytest.mark.parametrize("variants, kinds", [(12, 1), (6, 2), (4, 3), (3, 4), (1, 4)])
def test_lines_of_one_variant_have_dashes(results, folder, variants, kinds):
    """The first of each is whole, and its points are filled, however many variants share its colour or its shape."""

    def change(rows, _):
        rows = rows[: 2 * variants * kinds]
        rows["operation"], rows["op"], rows["flops"], rows["kernel_median_s"] = b"product", b"matmul", 1e9, 1e-3
        rows["variant"] = np.repeat([f"v{v:02}".encode() for v in range(variants)], 2 * kinds)
        names = [f"n={n},kind=k{k}".encode() for k in range(kinds) for n in (8, 16)]
        rows["parameters"] = names * variants
        return rows

    drawing = report(edited(results, folder, change)).find("figure")[0].one("svg")
    lines = [path.attributes["class"].split() for path in drawing.find("path")]
    dashes = [words[2] for words in lines if words[0] == "l" and len(words) == 3]
    assert dashes == [f"d{k}" for _ in range(variants) for k in range(kinds)]
    markers = [group.find("path")[-1].attributes["class"].split()[0] for group in drawing.find("g")]
    hollow = [k % 2 == 1 for _ in range(variants) for k in range(kinds) for _ in "12"]
    assert len(markers) == len(hollow) and all(m == "ms" or (m == "mh") == h for m, h in zip(markers, hollow))


def test_the_fastest_lines_are_drawn(results, folder):
    """Of more than a plot has room for, in the order of the rows."""
    times = np.random.default_rng(1).permutation(15) + 1.0

    def change(rows, _):
        rows["operation"], rows["op"], rows["variant"], rows["flops"] = b"product", b"matmul", b"cpu", 1e9
        rows["parameters"] = [f"n={n},kind=k{kind:02}".encode() for kind in range(15) for n in (8, 16)]
        rows["kernel_median_s"] = np.repeat(times, 2) * 1e-3
        rows["kernel_ci_low_s"] = rows["kernel_ci_high_s"] = np.nan
        return rows

    figure = report(edited(results, folder, change)).find("figure")[0]
    names = [text.text() for text in figure.one("svg").find("text", class_="tick")]
    assert names == [*(f"cpu, k{kind:02}" for kind in range(15) if times[kind] <= 11), "4 others"]
    grey = [path for path in figure.find("path") if "k7" in path.attributes["class"].split()]
    assert len(grey) == 8 + 1, "the others' points, and their mark beside the name"


def test_roofs(results, folder):
    """Limits that the rows record are drawn once for each device, memory's and each type's; names stand beside the
    plot, clear of marks and of one another; transposes have their place under the roof of memory."""
    root = report(edited(results, folder, limited))
    figure = figure_of(root, ROOFLINE)
    notes = figure.find("text", class_="note")
    assert sorted(note.text() for note in notes) == ["20.0 GB/s", "float32 100.0 GFLOP/s", "float64 50.0 GFLOP/s"]
    names = [*notes, *figure.find("text", class_="tick")]
    assert all(float(name.attributes["x"]) > RIGHT + 8 for name in names)
    heights = sorted(float(name.attributes["y"]) for name in names)
    assert all(after - before > 12 for before, after in zip(heights, heights[1:]))
    assert len([path for path in figure.find("path", class_="roof") if "L" in path.attributes["d"]]) == 3
    rows = page.table_rows(root, "Table of runs")
    assert all(row["Bound by"] in ("memory", "compute") and row["Of roof"].endswith("%") for row in rows)
    assert len([group for group in figure.find("g") if group.one("title").text().startswith("turned ")]) == 12
    assert not figure_of(report(edited(results, folder, unlimited)), ROOFLINE).find("path", class_="roof")


@pytest.mark.parametrize("by", [b"memory", b"compute"])
def test_a_roof_over_one_intensity_has_a_length(results, folder, by):
    """Where no roof of the other kind is known, it reaches as far to the left of the points as to the right."""

    def change(rows, _):
        rows = rows[(rows["op"] == b"matmul") & (rows["dtype"] == b"float32")][:2]
        rows["flops"], rows["bytes"], rows["bound_s"], rows["bound_by"] = 1e6, 1e5, 1e-6, by
        return rows

    figure = figure_of(report(edited(results, folder, change)), ROOFLINE)
    (roof,) = [path.attributes["d"] for path in figure.find("path", class_="roof") if "L" in path.attributes["d"]]
    left, right = (float(x) for x in re.findall(r"[ML]([\d.]+)", roof))
    (point,) = {x for x, _ in places(figure)}
    assert left < point - 40 and right > point + 40


def test_samples_stand_in_time(results, folder):
    """A run's samples in the order in which they were taken: later ones further right, slower ones higher."""
    deviations = [0.0, 0.01, -0.01, 0.02, -0.02, 0.03, 0.0]

    def change(rows, file):
        for row in rows:
            row["kernel_median_s"] = 1e-3
            file[f"samples/{row['run']}"][:] = 1e-3 * (1 + np.array(deviations))
        return rows

    (strip, *others) = report(edited(results, folder, change)).find("svg", class_="strip")
    assert len(others) == 29
    bars = re.findall(r"M([\d.]+) (-?[\d.]+)V(-?[\d.]+)", strip.find("path")[0].attributes["d"])
    middles = [(float(low) + float(high)) / 2 for _, low, high in bars]
    assert [float(x) for x, _, _ in bars] == pytest.approx([240 * (i + 0.5) / 7 for i in range(7)], abs=0.06)
    assert np.argsort(middles, kind="stable").tolist() == np.argsort(-np.array(deviations), kind="stable").tolist()


@pytest.mark.parametrize("far", [0, 1, 5, 12])
def test_samples_beyond_reach_stand_at_the_edge(results, folder, far):
    """In another colour: no sample is left out."""
    seconds = np.where(np.random.default_rng(far).permutation(12) < far, 5e-3, 1e-3)

    def change(rows, file):
        rows["kernel_median_s"] = 1e-3
        del file[f"samples/{rows[0]['run']}"]
        file[f"samples/{rows[0]['run']}"] = seconds
        return rows

    strip = report(edited(results, folder, change)).find("svg", class_="strip")[0]
    paths = {path.attributes["class"]: path.attributes["d"] for path in strip.find("path")}
    bars = {name: re.findall(r"M([\d.]+) (-?[\d.]+)V", path) for name, path in paths.items()}
    expected = {"s k1": np.flatnonzero(seconds > 2e-3), "s k0": np.flatnonzero(seconds < 2e-3)}
    for name, at in expected.items():
        assert [float(x) for x, _ in bars.get(name, [])] == pytest.approx([20 * (i + 0.5) for i in at], abs=0.06)
    assert all(float(y) == 1 for _, y in bars.get("s k1", []))


@pytest.mark.parametrize("count", [2, 12, 30])
def test_names_of_categories_do_not_meet(results, folder, count):
    """Long names of many variants are turned, and none is left out while there is room."""

    def change(rows, _):
        rows = rows[:count]
        rows["operation"], rows["op"], rows["parameters"], rows["flops"] = b"product", b"matmul", b"", 1e6
        rows["variant"] = [f"tiled,tile={i:03}".encode() for i in range(count)]
        return rows

    figure = report(edited(results, folder, change)).find("figure")[0]
    names = [text for text in figure.find("text") if "tile" in text.text()]
    turned = ["rotate" in name.attributes.get("transform", "") for name in names]
    assert len(names) == count and turned == [count > 2] * count


@pytest.mark.parametrize(
    "head, tail",
    [("tiled,tile=", ",unroll=4"), ("a_long_name,", ""), ("", ",a_long=parameter"), ("矩阵,阵=", ",x=矩阵矩阵")],
)
def test_names_of_categories_differ(results, folder, head, tail):
    """Of names that are too long for their room, what tells them apart is kept."""
    count = 40

    def change(rows, _):
        rows = np.repeat(rows[:1], count)
        rows["parameters"], rows["flops"] = b"", 1e6
        rows["variant"] = [f"{head}v{i:03}{tail}".encode() for i in range(count)]
        return rows

    figure = report(edited(results, folder, change)).find("figure")[0]
    names = [text.text() for text in figure.find("text") if "rotate(-50)" in text.attributes.get("transform", "")]
    assert 10 < len(names) == len(set(names)) and all(re.search(r"v\d{3}", name) for name in names)
