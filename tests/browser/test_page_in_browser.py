"""The page in a real headless browser: filter, links, print, a narrow window; no complaint, no request."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from conformance.catalog import catalog
from conformance.report.page import render
from tests.golden.reports.texts import stored
from tests.unit.conformance.qualify.reports import NEW, OLD, decided
from tests.unit.conformance.report.test_page import plain

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
MARKUP = '<img src=x onerror="window.injected=1"><script>window.injected=1</script></pre></details>\'"&{{7*7}}'
"""What a pod, an event or a log line may be called."""
PROBE = """
<script>
addEventListener('load', () => {
  const found = {};
  const shown = () => [...document.querySelectorAll('details.claim')].filter((one) => !one.hidden).map((one) => one.id);
  const box = document.getElementById('filter');
  const type = (text) => { box.value = text; box.dispatchEvent(new Event('input')); };
  type('demo-7 violated'); found.filtered = shown(); found.told = document.getElementById('shown').textContent;
  document.querySelector('#builds a[href="#RST-1"]')?.click();
  setTimeout(() => {
    found.followed = document.getElementById('RST-1').open && !document.getElementById('RST-1').hidden;
    type(''); found.all = shown().length;
    const targets = [...document.querySelectorAll('a[href^="#"]')].map((one) => one.getAttribute('href').slice(1));
    found.dangling = targets.filter((one) => !document.getElementById(one));
    found.outside = [...document.querySelectorAll('a[href]')].map((one) => one.getAttribute('href'))
      .filter((one) => !/^(#|https:)/.test(one));
    dispatchEvent(new Event('beforeprint'));
    found.closed = [...document.querySelectorAll('details.claim')].filter((one) => !one.open).length;
    found.requests = performance.getEntriesByType('resource').map((one) => one.name);
    found.injected = window.injected || document.querySelectorAll('img, iframe, object').length;
    found.scripts = document.scripts.length;
    found.wide = document.documentElement.scrollWidth > innerWidth ? document.documentElement.scrollWidth : 0;
    const inside = [...document.querySelectorAll('main *, header *')];
    found.cut = inside.filter((one) => one.getBoundingClientRect().right > innerWidth + 1).map((one) => one.tagName);
    found.scrolls = inside.filter((one) => getComputedStyle(one).overflowX === 'auto').length;
    found.dark = getComputedStyle(document.body).backgroundColor;
    const told = document.createElement('pre'); told.id = 'probe'; told.textContent = JSON.stringify(found);
    document.body.append(told);
  }, 100);
});
</script>
"""

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on the PATH")


def hostile() -> str:
    """A page in which everything that a cluster or a file can name is markup."""
    leak = decided("DEMO-7", {OLD: "VIOLATED", NEW: "CONFIRMED"}) | {"reason": MARKUP, "part": MARKUP, "test": MARKUP}
    for decision in leak["decisions"]:
        decision |= {"reason": MARKUP, "source": MARKUP, "target": MARKUP}
    leak["measured"] = {MARKUP: MARKUP, "seconds to a new connection": 1.0}
    whole = plain(leak, decided("RST-1", {NEW: "CONFIRMED"}), notes=[MARKUP], command=MARKUP, cut_short=MARKUP)
    whole["run"]["cluster"]["label"] = MARKUP
    whole["facts"]["nodes"][0] |= {"name": MARKUP, "os_image": MARKUP}
    whole["facts"]["platform"] = {"value": MARKUP, "source": MARKUP}
    whole["waived"] = whole["attested"] = {"DEMO-7": MARKUP}
    whole["timings"] = {MARKUP: MARKUP}
    gate = {"name": MARKUP, "build": MARKUP, "answer": "qualified", "headline": MARKUP}
    whole["gates"] = [gate | {"obstacles": [MARKUP], "waived": [MARKUP]}]
    one = {"workload": MARKUP, "container": MARKUP, "image": MARKUP, "version": MARKUP, "digest": MARKUP}
    whole["installed"] = {
        "cluster_uid": MARKUP,
        "components": [one | {"nodes": [MARKUP]}],
        "kubelets": {MARKUP: MARKUP},
        "unread": [MARKUP],
    }
    whole["covered"] = {MARKUP: MARKUP}
    return render(whole, difference=[MARKUP], failures={MARKUP: [(MARKUP, MARKUP)]})


def opened(folder: Path, page: str, *options: str) -> tuple[dict[str, Any], str]:
    """What the probe found in the browser, and what the browser complained of."""
    file = folder / "report.html"
    file.write_text(page.replace("</body>", PROBE + "</body>"), encoding="utf-8")
    quiet = ("gpu", "background-networking", "component-update", "sync")
    command = [
        str(CHROMIUM), "--headless", "--no-sandbox", "--no-first-run", *(f"--disable-{item}" for item in quiet),
        f"--user-data-dir={folder / 'profile'}", "--enable-logging=stderr", "--virtual-time-budget=3000", *options,
        "--dump-dom", file.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=True)
    told = re.search(r'<pre id="probe">(.*?)</pre>', done.stdout, re.DOTALL)
    assert told, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(html.unescape(told[1]))
    return found, "\n".join(line for line in done.stderr.splitlines() if "CONSOLE" in line)


def test_a_page_full_of_markup_is_filtered_followed_and_printed_and_runs_none_of_it(tmp_path: Path) -> None:
    found, complaints = opened(tmp_path, hostile(), "--window-size=1400,1000")
    assert found["filtered"] == ["DEMO-7"]
    assert found["told"] == f"1 of {len(catalog())} claims"
    assert found["followed"], "a link to a claim that the filter hides shows it"
    assert found["all"] == len(catalog())
    assert (found["dangling"], found["outside"]) == ([], [])
    assert found["closed"] == 0, "everything is open in print"
    assert found["requests"] == []
    assert found["injected"] == 0
    assert found["scripts"] == 2, "the page's own and the probe"
    assert complaints == ""


def test_on_paper_nothing_is_cut_and_nothing_scrolls(tmp_path: Path) -> None:
    """At the width of A4 within the page's margins, with the rules for print."""
    page = render(stored("v3.32-as-shipped").plain)
    assert "@media print" in page
    found, complaints = opened(tmp_path, page.replace("@media print", "@media all"), "--window-size=704,1000")
    assert (found["cut"], found["scrolls"]) == ([], 0)
    assert complaints == ""


def test_in_a_narrow_dark_window_nothing_is_wider_than_the_window(tmp_path: Path) -> None:
    dark = ("--window-size=400,900", "--blink-settings=preferredColorScheme=0")
    found, complaints = opened(tmp_path, hostile(), *dark)
    assert found["wide"] == 0
    assert found["dark"] == "rgb(13, 17, 23)"
    assert complaints == ""
