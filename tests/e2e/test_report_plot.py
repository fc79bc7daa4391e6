"""`tilerun report -o NAME.svg`: the page's first plot alone, as a drawing for other pages."""

import os
import re
from xml.etree import ElementTree

import harness
from harness import OK, USAGE
from test_report import report, results, titles  # noqa: F401 (a fixture)

SVG = "{http://www.w3.org/2000/svg}"


def test_a_plot_alone(results, folder):
    """An SVG file of its own: XML that names no address to load from, with the page's first plot and its colours."""
    whole = report(results / "sweep.h5")
    harness.tilerun("report", results / "sweep.h5", "-o", "plot.svg", cwd=folder, expect=OK)
    text = (folder / "plot.svg").read_text()
    root = ElementTree.fromstring(text)
    assert root.tag == f"{SVG}svg" and root.find(f"{SVG}title").text == titles(whole)[0]
    names = {"".join(item.itertext()) for item in root.iter(f"{SVG}text")}
    assert {"cpu, float32", "blocked, float64"} <= names
    assert "prefers-color-scheme: dark" in text and "<script" not in text
    assert re.findall(r"https?:[^\"]*|url\(|href|@import", text) == ["http://www.w3.org/2000/svg"]
    again = harness.tilerun("report", results / "sweep.h5", "-o", "plot.svg", cwd=folder)
    assert again.returncode == OK and (folder / "plot.svg").read_text() == text


def test_a_plot_alone_replaces_no_other_drawing(results, folder):
    drawing = folder / "drawing.svg"
    drawing.write_text('<svg xmlns="http://www.w3.org/2000/svg"></svg>\n')
    done = harness.tilerun("report", results / "sweep.h5", "-o", drawing)
    assert done.returncode == USAGE and "is not a report; --overwrite replaces it" in done.stderr
    done = harness.tilerun("report", results / "one.h5", "-o", folder / "new.svg", expect=USAGE)
    assert done.stderr == "tilerun: there is nothing to plot: no two runs have rates\n"
    assert os.listdir(folder) == ["drawing.svg"]
    done = harness.tilerun("report", results / "sweep.h5", "-o", folder / "new.png")
    assert done.returncode == USAGE and ".svg" in done.stderr and os.listdir(folder) == ["drawing.svg"]
