"""`tilerun report`: where points and ticks stand in the drawings, which limits are drawn, what messages are told."""

import math
import re

import numpy as np
import pytest

import page
from test_report import edited, limited, report, results, titles, unlimited  # noqa: F401 (a fixture)

LEFT, RIGHT, TOP, BOTTOM = 58, 400, 16, 290


def figure_of(root, title):
    return root.find("figure")[titles(root).index(title)]


def heights(figure):
    """Of the points, from the top."""
    markers = [group.find("path")[-1].attributes["d"] for group in figure.find("g")]
    return sorted(float(re.match(r"M\S+ ([\d.]+)m", marker)[1]) for marker in markers)


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
    rate = above * 10**power / 1.15
    assert above != 1 or rate * 1.15 == 10**power

    def change(rows, file):
        rows = unlimited(rows, file)
        rows["flops"], rows["bytes"], rows["kernel_median_s"] = rate, rate, 1
        return rows

    figure = figure_of(report(edited(results, folder, change)), "Rate against intensity")
    ticks = [tick.text() for tick in figure.find("text", class_="tick end")]
    assert ticks == [str(10**power)] if above >= 1 else len(ticks) > 2


@pytest.mark.parametrize("bound", [0, -0.0, -1e-3, np.nan, np.inf, -np.inf, 1e-300, 5e-324, 1e300])
@pytest.mark.parametrize("by", [b"memory", b"compute"])
def test_limits_that_are_none(results, folder, bound, by):
    """Rows that tell of a limit without a time that could be one: no roof."""

    def change(rows, _):
        rows["bound_by"], rows["bound_s"], rows["percent_of_bound"] = by, bound, 50
        rows["flops"] = rows["bytes"] = 1e6
        return rows

    root = report(edited(results, folder, change))
    assert not figure_of(root, "Rate against intensity").find("path", class_="roof")


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
        rows["flops"], rows["bytes"] = 1e6, 2e6
        rows["kernel_median_s"] = 1e-3 * np.arange(1, 7)
        if odd:
            rows["status"][3], rows["kernel_median_s"][3] = status, seconds
            rows["flops"][3], rows["bytes"][3] = flops, traffic
        return rows if odd else np.delete(rows, 3)

    def found(change):
        return heights(figure_of(report(edited(results, folder, change)), "Rate against intensity"))

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
    markers = [group.find("path")[-1].attributes["class"].split()[1] for group in drawing.find("g")]
    hollow = [k % 2 == 1 for _ in range(variants) for k in range(kinds) for _ in "12"]
    assert len(markers) == len(hollow) and all(m == "ms" or (m == "mh") == h for m, h in zip(markers, hollow))


def test_the_fastest_lines_are_drawn(results, folder):
    """Of more than a plot has room for, in the order of the rows."""
    times = np.random.default_rng(1).permutation(15) + 1.0

    def change(rows, _):
        rows["operation"], rows["op"], rows["variant"], rows["flops"] = b"product", b"matmul", b"cpu", 1e9
        rows["parameters"] = [f"n={n},kind=k{kind:02}".encode() for kind in range(15) for n in (8, 16)]
        rows["kernel_median_s"] = np.repeat(times, 2) * 1e-3
        return rows

    figure = report(edited(results, folder, change)).find("figure")[0]
    names = [text.text() for text in figure.one("svg").find("text", class_="tick")]
    assert names == [f"cpu, k{kind:02}" for kind in range(15) if times[kind] <= 12]
    assert "12 of 15 lines are drawn, those that reach the highest rates" in figure.one("figcaption").text()


def test_roofs(results, folder):
    """Limits that the rows tell are drawn once for each device, memory's and each type's."""

    def cloud(root, title):
        return root.find("figure")[titles(root).index(title)]

    root = report(edited(results, folder, limited))
    figure = cloud(root, "How near each run comes to its roof")
    names = sorted(e.text() for e in figure.find("text") if e.attributes.get("class", "").startswith("note"))
    assert names == ["cpu 20.0 GB/s", "cpu float32 100 GFLOP/s", "cpu float64 50.0 GFLOP/s"]
    assert len(figure.find("path", class_="roof")) == 3
    assert re.fullmatch(r"[\d.]+ % of (memory|compute)", page.table_rows(root, "Table of runs")[0]["Of limit"])
    assert not cloud(report(edited(results, folder, unlimited)), "Rate against intensity").find("path", class_="roof")
