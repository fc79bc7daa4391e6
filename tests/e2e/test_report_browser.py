"""The page of `tilerun report` in a browser that shows it: Chromium, where there is one."""

import json
import os
import re
import shutil
import subprocess

import pytest

import harness
from harness import OK
from test_report import edited, results  # noqa: F401 (a fixture)

PROBE = """
const out = {errors: window.failures, width: innerWidth, scroll: document.documentElement.scrollWidth,
             loaded: performance.getEntriesByType('resource').map(entry => entry.name)};
const seen = [...document.querySelectorAll('h1, h2, h3, p, li, caption, td, tbody th, svg, svg text')].filter(
    element => !element.closest('svg svg') && getComputedStyle(element).display !== 'none');
const wide = seen.map(element => element.getBoundingClientRect()).filter(box => box.width > 0);
out.right = Math.max(...wide.map(box => box.right));
const flags = [...document.querySelectorAll('[aria-label="Table of runs"] thead th')].find(
    head => head.textContent.startsWith('Flags'));
out.flags = flags ? flags.getBoundingClientRect().right : null;
const table = document.querySelector('[aria-label="Table of runs"] table'), heads = [...table.tHead.rows[0].cells];
const column = name => heads.findIndex(head => head.textContent.startsWith(name));
const cells = at => [...table.tBodies[0].rows].map(row => row.cells[at].dataset.v ?? row.cells[at].textContent);
const press = name => { heads[column(name)].querySelector('button').click(); return cells(column(name)); };
out.up = press('Median').map(Number);
out.sort = heads.map(head => head.getAttribute('aria-sort'));
out.down = press('Median').map(Number);
out.names = press('Operation');
out.buttons = document.querySelectorAll('th button').length;
out.page = getComputedStyle(document.documentElement).backgroundColor;
const end = document.createElement('script');
end.type = 'application/json'; end.id = 'probe'; end.textContent = JSON.stringify(out);
document.body.append(end);
"""


@pytest.fixture(scope="module")
def browser():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if shutil.which(name):
            return shutil.which(name)
    pytest.skip("no Chromium here")


def browse(browser, folder, path, width, scheme="light"):
    """What the browser makes of a page: its document, and what it says on its console."""
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
               "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
               f"--user-data-dir={folder}/profile", f"--window-size={width},900", "--enable-logging=stderr", "--v=0",
               f"--blink-settings=preferredColorScheme={0 if scheme == 'dark' else 1}", "--virtual-time-budget=2000",
               "--dump-dom", f"file://{path}"]  # fmt: skip
    environment = {**os.environ, "HOME": str(folder)}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    except subprocess.TimeoutExpired:
        pytest.skip("Chromium does not come to an end here")
    if done.returncode != 0 or "</html>" not in done.stdout:
        pytest.skip(f"Chromium does not run here: {done.stderr[-300:]}")
    return done.stdout, [line for line in done.stderr.splitlines() if ":CONSOLE" in line]


def flag(rows, _):
    rows["flags"] = b"throttled,outliers,drift"
    rows["message"] = b"a sentence that is as long as messages may be, and longer than a narrow screen is wide"
    rows["variant"] = [(b"WMWMWMWMWM" if i % 2 else b"MWMWMWMWMW") * 3 for i in range(len(rows))]
    return rows


def test_in_a_browser(browser, results, folder):  # noqa: F811
    """No word on the console, nothing loaded, nothing wider than a telephone, headings that sort."""
    path, probed = folder / "page.html", folder / "probed.html"
    flagged = edited(results, folder, flag)
    harness.tilerun("report", flagged, results / "one.h5", "-o", path, expect=OK)
    document, console = browse(browser, folder, path, 1280)
    assert console == []
    fixed = 1 + 4 + 4  # headings of the drawings, of the environment, of the inputs
    assert document.count("<th scope=\"col\"") == document.count("<button type=\"button\"") + fixed

    text = re.sub("<meta http-equiv[^>]*>", "", path.read_text())
    head = "<script>window.failures = []; addEventListener('error', event => failures.push(event.message));</script>"
    text = text.replace("<style>", f"{head}<style>", 1).replace("</body>", f"<script>{PROBE}</script></body>")
    probed.write_text(text)
    grounds = set()
    for width, scheme in ((400, "light"), (1280, "dark")):
        document, console = browse(browser, folder, probed, width, scheme)
        found = json.loads(re.search('<script type="application/json" id="probe">(.*?)</script>', document)[1])
        assert console == [] and found["errors"] == [] and found["loaded"] == []
        assert found["scroll"] <= max(width, found["width"]), "wider than the screen"
        if width == 1280:
            assert 0 < found["flags"] < width, "flags are on the screen"
        else:
            assert found["right"] <= found["width"], "something is cut"
        assert found["up"] == sorted(found["up"]) and found["down"] == found["up"][::-1] and len(found["up"]) == 31
        assert found["names"] == sorted(found["names"])
        assert [way for way in found["sort"] if way] == ["ascending"]
        grounds.add(found["page"])
    assert len(grounds) == 2, "the dark page looks like the light one"
