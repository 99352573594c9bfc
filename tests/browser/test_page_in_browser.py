# SPDX-License-Identifier: Apache-2.0
"""The page in a real headless browser: filter, links, print and a narrow window. The browser
reports no error, and the page sends no request."""

from __future__ import annotations

import html
import importlib.util
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
from tests.unit.conformance.report.pages import plain

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
MARKUP = '<img src=x onerror="window.injected=1"><script>window.injected=1</script></pre></details>\'"&{{7*7}}'
"""Names that pods, events and log lines may have."""
PROBE = """
<script>
addEventListener('load', () => {
  const found = {};
  const shown = () => [...document.querySelectorAll('details.claim')].filter((one) => !one.hidden).map((one) => one.id);
  const box = document.getElementById('filter');
  const type = (text) => { box.value = text; box.dispatchEvent(new Event('input')); };
  type('demo-7 violated'); found.filtered = shown(); found.told = document.getElementById('shown').textContent;
  Object.defineProperty(navigator, 'clipboard', {value: {writeText: async (text) => { found.copied = text; }}});
  document.querySelector('#details [data-copy]').click();
  document.querySelector('#builds a[href="#RST-1"]')?.click();
  setTimeout(() => {
    found.followed = document.getElementById('RST-1').open && !document.getElementById('RST-1').hidden;
    type(''); found.all = shown().length;
    const targets = [...document.querySelectorAll('a[href^="#"]')].map((one) => one.getAttribute('href').slice(1));
    found.dangling = targets.filter((one) => !document.getElementById(one));
    found.outside = [...document.querySelectorAll('a[href]')].map((one) => one.getAttribute('href'))
      .filter((one) => !/^(#|https:)/.test(one));
    dispatchEvent(new Event('beforeprint'));
    const folded = (one) => one.parentElement.closest('details:not([open])');
    found.unprinted = [...document.querySelectorAll('details.claim')].filter(folded).map((one) => one.id);
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
    """Return a page in which every name from a cluster or a file is markup."""
    leak = decided("DEMO-7", {OLD: "VIOLATED", NEW: "CONFIRMED"}) | {
        "reason": MARKUP,
        "part": MARKUP,
        "test": MARKUP,
    }
    for decision in leak["decisions"]:
        decision |= {"reason": MARKUP, "source": MARKUP, "target": MARKUP}
    leak["measured"] = {MARKUP: MARKUP, "seconds to a new connection": 1.0}
    whole = plain(
        leak, decided("RST-1", {NEW: "CONFIRMED"}), notes=[MARKUP], command=MARKUP, cut_short=MARKUP
    )
    whole["run"]["cluster"]["label"] = MARKUP
    whole["facts"]["nodes"][0] |= {"name": MARKUP, "os_image": MARKUP}
    whole["facts"]["platform"] = {"value": MARKUP, "source": MARKUP}
    whole["waived"] = whole["attested"] = {"DEMO-7": MARKUP}
    whole["timings"] = {MARKUP: MARKUP}
    gate = {"name": MARKUP, "build": MARKUP, "answer": "qualified", "headline": MARKUP}
    whole["gates"] = [gate | {"obstacles": [MARKUP], "waived": [MARKUP]}]
    one = {
        "workload": MARKUP,
        "container": MARKUP,
        "image": MARKUP,
        "version": MARKUP,
        "digest": MARKUP,
    }
    whole["installed"] = {
        "cluster_uid": MARKUP,
        "components": [one | {"nodes": [MARKUP]}],
        "kubelets": {MARKUP: MARKUP},
        "unread": [MARKUP],
    }
    whole["covered"] = {MARKUP: MARKUP}
    return render(whole, difference=[MARKUP], failures={MARKUP: [(MARKUP, MARKUP)]})


def browse(
    folder: Path, page: str, *options: str, at: str = ""
) -> subprocess.CompletedProcess[str]:
    """Open a page in the browser."""
    file = folder / "report.html"
    file.write_text(page, encoding="utf-8")
    quiet = ("gpu", "background-networking", "component-update", "sync")
    command = [
        str(CHROMIUM), "--headless", "--no-sandbox", "--no-first-run", *(f"--disable-{item}" for item in quiet),
        f"--user-data-dir={folder / 'profile'}", "--enable-logging=stderr", *options, file.as_uri() + at,
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)


def opened(
    folder: Path, page: str, *options: str, probe: str = PROBE, budget: int = 3000, at: str = ""
) -> tuple[dict[str, Any], str]:
    """Return what a probe found in the browser, and the browser's error messages. ``budget``: ms
    of virtual time; ``at``: the part after the page's address."""
    whole = page.replace("</body>", probe + "</body>")
    done = browse(folder, whole, f"--virtual-time-budget={budget}", "--dump-dom", *options, at=at)
    told = re.search(r'<pre id="probe">(.*?)</pre>', done.stdout, re.DOTALL)
    assert told, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(html.unescape(told[1]))
    return found, "\n".join(line for line in done.stderr.splitlines() if "CONSOLE" in line)


def test_a_page_full_of_markup_is_filtered_followed_and_printed_and_runs_none_of_it(
    tmp_path: Path,
) -> None:
    found, complaints = opened(tmp_path, hostile(), "--window-size=1400,1000")
    assert found["filtered"] == ["DEMO-7"]
    assert found["told"] == f"1 of {len(catalog())} claims"
    assert found["copied"] == "pytest --claim DEMO-7"
    assert found["followed"], "a link to a claim that the filter hides shows it"
    assert found["all"] == len(catalog())
    assert (found["dangling"], found["outside"]) == ([], [])
    assert found["unprinted"] == [], "every claim's line is on paper"
    assert found["requests"] == []
    assert found["injected"] == 0
    assert found["scripts"] == 2, "the page's own and the probe"
    assert complaints == ""


SIZES = """
<script>
addEventListener('load', () => setTimeout(() => {
  const found = {heights: {}, part: 0};
  const focusable = 'a[href], button, input, summary, [tabindex="0"]';
  const before = [];
  for (const one of document.querySelectorAll(focusable)) {
    if (one.id === 'filter') break;
    const name = one.type === 'radio' ? `radio ${one.name}` : `${before.length}`;
    if (!before.includes(name)) before.push(name);
  }
  found.stops = before.length + 1;
  document.querySelectorAll('details.group').forEach((one) => { one.open = true; });
  for (const claim of document.querySelectorAll('details.claim')) {
    claim.open = true;
    found.heights[claim.id] = claim.getBoundingClientRect().height;
    claim.open = false;
  }
  const pick = [...document.querySelectorAll('input[name=verdict]')].find((one) => one.value === 'still there');
  pick?.click();
  found.picked = document.querySelectorAll('details.claim:not([hidden])').length;
  const sections = [...document.querySelectorAll("main > section")];
  found.sections = sections.filter((one) => one.offsetHeight).map((one) => one.id);
  document.querySelector('#areas button[data-filter="VXLAN"]').click();
  found.area = [...document.querySelectorAll('details.claim:not([hidden])')].map((one) => one.dataset.area);
  const told = document.createElement('pre'); told.id = 'probe'; told.textContent = JSON.stringify(found);
  document.body.append(told);
}, 50));
</script>
"""


def test_a_whole_healthy_run_is_read_by_the_screen_and_chosen_by_verdict_and_area(
    tmp_path: Path,
) -> None:
    page = render(stored("whole").plain)
    found, complaints = opened(tmp_path, page, "--window-size=1400,900", probe=SIZES)
    assert {ident: height for ident, height in found["heights"].items() if height > 900} == {}
    assert found["stops"] <= 10, "stops of the Tab key until the filter"
    assert found["picked"] == stored("whole").plain["counts"]["still there"]
    assert found["sections"] == ["claims"], "what is chosen stands right below the choice"
    assert set(found["area"]) == {"VXLAN"}
    assert complaints == ""


def test_a_claim_that_fails_in_many_parts_fills_no_screen_either(tmp_path: Path) -> None:
    line = "w1 to DNS A a-name.of-a-namespace.svc.cluster.local: expected RESOLVED to 10.97.85.150, observed DNS_FAILED "
    parts = [
        decided("CONN-6", {NEW: "VIOLATED"})
        | {"part": f"part {number}", "test": f"t{number}", "reason": line * 3}
        for number in range(25)
    ]
    whole = plain(*parts)
    told = {
        "lines": {f"line {number}": line for number in range(8)},
        "again": f"pytest {'--claim CONN-6 ' * 9}",
    }
    whole["tests"] = [
        {"test": part["test"], "verdict": "VIOLATED", "explanation": told} for part in parts
    ]
    found, complaints = opened(tmp_path, render(whole), "--window-size=1400,900", probe=SIZES)
    assert 400 < found["heights"]["CONN-6"] <= 900
    assert complaints == ""


def test_a_whole_healthy_run_is_a_megabyte_and_twelve_sheets_of_paper(tmp_path: Path) -> None:
    page = render(stored("whole").plain)
    assert len(page.encode()) < 1_000_000
    browse(tmp_path, page, "--no-pdf-header-footer", f"--print-to-pdf={tmp_path / 'report.pdf'}")
    assert len(re.findall(rb"/Type\s*/Page\b", (tmp_path / "report.pdf").read_bytes())) <= 12


AXE = importlib.util.find_spec("axe_playwright_python")
"""A package that is installed only for its copy of axe-core; nothing of it is imported."""
AUDIT = """
<script>
addEventListener('load', async () => {
  OPEN
  const {violations} = await axe.run(document, {resultTypes: ['violations']});
  const wrong = violations.map((one) => `${one.id}: ${one.nodes[0].html.slice(0, 200)}`);
  const named = (one) => [...one.labels].some((said) => said.textContent.trim());
  const bare = [...document.querySelectorAll('input')].filter((one) => !named(one));
  const told = document.createElement('pre'); told.id = 'probe';
  told.textContent = JSON.stringify({wrong: [...wrong, ...bare.map((one) => `no visible label: ${one.outerHTML}`)]});
  document.body.append(told);
});
</script>
"""
EVERYTHING = "document.querySelectorAll('details').forEach((one) => { one.open = true; });"
DARK = "--blink-settings=preferredColorScheme=0"


@pytest.mark.skipif(AXE is None, reason="axe-core is not installed: make env")
@pytest.mark.parametrize(
    ("name", "first", "options"),
    [("whole", "", ["--window-size=1400,900"]), ("leak", EVERYTHING, ["--window-size=1400,900"]),
     ("leak", EVERYTHING, ["--window-size=400,900", DARK]), ("whole", "", ["--window-size=400,900", DARK])],
    ids=["whole", "opened", "opened-narrow-dark", "whole-narrow-dark"],
)  # fmt: skip
def test_axe_finds_nothing_that_shuts_somebody_out(
    tmp_path: Path, name: str, first: str, options: list[str]
) -> None:
    assert audited(tmp_path, render(stored(name).plain), *options, first=first) == []


def audited(folder: Path, page: str, *options: str, first: str = "") -> list[str]:
    """Return axe-core's findings, and inputs that have only a placeholder as a name (axe-core
    accepts them). ``first``: the script to run before."""
    assert AXE is not None
    assert AXE.origin is not None
    script = (Path(AXE.origin).parent / "axe.min.js").read_text(encoding="utf-8")
    probe = f"<script>{script}</script>{AUDIT.replace('OPEN', first)}"
    found, _ = opened(folder, page, *options, probe=probe, budget=60_000)
    return list(found["wrong"])


SHUTTING_OUT = {
    "html-has-lang": ('<html lang="en">', "<html>"),
    "no visible label: <input id=": ("<label>Filter <input", "<label><input"),
    "no visible label: <input type=": (
        '<label class="pick"><input type="radio" name="verdict" value="" checked>',
        '<label class="pick"></label><input type="radio" name="verdict" value="" checked>',
    ),
    "color-contrast": ("--soft: #57606a", "--soft: #c7c9cc"),
    "button-name": (
        '<button type="button" data-filter="VXLAN">VXLAN',
        '<button type="button" data-filter="VXLAN">',
    ),
    "scrollable-region-focusable": ('<div class="scroll" tabindex="0"', '<div class="scroll"'),
}
"""What is said of a page in which something is taken away."""


@pytest.mark.skipif(AXE is None, reason="axe-core is not installed: make env")
def test_the_audit_finds_what_is_taken_away(tmp_path: Path) -> None:
    page = render(stored("whole").plain)
    for there, instead in SHUTTING_OUT.values():
        assert there in page
        page = page.replace(there, instead)
    found = audited(tmp_path, page, "--window-size=400,900")
    assert [name for name in SHUTTING_OUT if not any(line.startswith(name) for line in found)] == []


def test_on_paper_nothing_is_cut_and_nothing_scrolls(tmp_path: Path) -> None:
    """At the width of A4 within the page's margins, with the rules for print."""
    page = render(stored("v3.32-as-shipped").plain)
    assert "@media print" in page
    found, complaints = opened(
        tmp_path, page.replace("@media print", "@media all"), "--window-size=704,1000"
    )
    assert (found["cut"], found["scrolls"]) == ([], 0)
    assert complaints == ""


WRAPPED = """
<script>
addEventListener('load', () => setTimeout(() => {
  const lines = (one) => {
    const text = document.createRange(); text.selectNodeContents(one);
    return text.getBoundingClientRect().height / parseFloat(getComputedStyle(one).fontSize);
  };
  const all = [...document.querySelectorAll('.causes th, .causes td.node')];
  const cells = all.filter((one) => one.offsetParent);
  const wrapped = cells.filter((one) => lines(one) > 2).map((one) => one.textContent);
  const told = document.createElement('pre');
  told.id = 'probe';
  told.textContent = JSON.stringify({cells: cells.length, wrapped});
  document.body.append(told);
}, 50));
</script>
"""


def test_on_paper_numbers_and_times_of_causes_stay_in_one_line(tmp_path: Path) -> None:
    results = [
        decided(claim, {OLD: "VIOLATED"})
        | {"test": claim, "reason": f"{claim} for a long reason " * 20}
        for claim in ("CONN-6", "DEMO-7")
    ]
    told = {"lines": {}, "since": "2026-11-30T11:58:50.000Z"}
    whole = plain(*results) | {
        "tests": [
            {"test": result["test"], "verdict": "VIOLATED", "explanation": told}
            for result in results
        ]
    }
    page = render(whole).replace("@media print", "@media all")
    found, complaints = opened(tmp_path, page, "--window-size=704,1000", probe=WRAPPED)
    assert found["cells"] == 4 + 2 * 2, "heads, and number and time of two causes"
    assert found["wrapped"] == []
    assert complaints == ""


def test_in_a_narrow_dark_window_nothing_is_wider_than_the_window(tmp_path: Path) -> None:
    dark = ("--window-size=400,900", DARK)
    found, complaints = opened(tmp_path, hostile(), *dark)
    assert found["wide"] == 0
    assert found["dark"] == "rgb(13, 17, 23)"
    assert complaints == ""


USED = """
<script>
addEventListener('load', () => setTimeout(async () => {
  const found = {};
  const at = (one) => document.querySelector(one);
  const shown = () => [...document.querySelectorAll('details.claim')].filter((one) => !one.hidden).map((one) => one.id);
  const box = at('#filter');
  const type = (text) => { box.value = text; box.dispatchEvent(new Event('input')); };
  const pick = (word) => at(`input[name=verdict][value="${word}"]`).click();
  const groups = () => [...document.querySelectorAll('details.group')];
  const seen = (one) => { const {top} = one.getBoundingClientRect(); return top >= -1 && top < innerHeight; };
  const picked = () => at('input[name=verdict]:checked').value;
  const soon = () => new Promise((done) => setTimeout(done, 50));
  found.first = picked();
  found.closed = groups().every((one) => !one.open && !one.hidden);
  const area = at('#DEMO-7').dataset.area;
  type(`  ${area.toUpperCase()} `);
  found.area = [...new Set(shown().map((one) => document.getElementById(one).dataset.area))];
  found.opened = groups().filter((one) => !one.hidden).every((one) => one.open) && groups().some((one) => !one.hidden);
  type('   '); found.blank = [shown().length, document.body.classList.contains('filtered')];
  type(`${area} `); pick('VIOLATED'); found.both = shown();
  location.hash = '#CONN-1'; await soon();
  found.forgets = [picked(), box.value, shown().length, seen(at('#CONN-1'))];
  pick('VIOLATED');
  type('nothing has these words');
  found.none = [shown().length, at('#shown').textContent, groups().every((one) => one.hidden)];
  type('windows-client other'); found.words = shown();
  found.filtered = document.body.classList.contains('filtered');
  scrollTo(0, document.body.scrollHeight);
  at('#areas [data-filter]').click();
  found.anew = [picked(), box.value, document.activeElement === box, seen(box)];
  location.hash = '#claims'; await new Promise((done) => setTimeout(done, 50));
  found.kept = document.body.classList.contains('filtered');
  location.hash = '#RST-1'; await new Promise((done) => setTimeout(done, 50));
  const rst = at('#RST-1'), around = rst.parentElement.closest('details');
  found.followed = [box.value, at('#shown').textContent, document.body.classList.contains('filtered'), rst.open,
    around.open];
  history.replaceState(null, '', '#CONN-1'); scrollTo(0, 0); dispatchEvent(new Event('hashchange'));
  found.scrolled = seen(at('#CONN-1'));
  type('demo-7'); location.hash = '#nowhere'; await new Promise((done) => setTimeout(done, 50));
  found.nowhere = shown(); type('');
  found.back = [shown().length, at('#shown').textContent, groups().every((one) => !one.open)];
  Object.defineProperty(navigator, 'clipboard', {value: {writeText: async () => {}}});
  at('#details [data-copy]').click(); await new Promise((done) => setTimeout(done, 50));
  found.copy = at('#details [data-copy]').textContent;
  const sent = new Event('submit', {cancelable: true}); at('form.choose').dispatchEvent(sent);
  found.kept_here = sent.defaultPrevented;
  const folds = [...document.querySelectorAll('#builds details, #notes details, #difference details'), ...groups()];
  found.folds = folds.length - groups().length;
  folds.forEach((one) => { one.open = false; });
  dispatchEvent(new Event('beforeprint'));
  found.printed = folds.every((one) => one.open);
  const told = document.createElement('pre'); told.id = 'probe'; told.textContent = JSON.stringify(found);
  document.body.append(told);
}, 50));
</script>
"""


def test_filter_choice_links_folds_and_copy_do_what_they_say(tmp_path: Path) -> None:
    whole = plain(
        decided("DEMO-7", {OLD: "VIOLATED", NEW: "CONFIRMED"}),
        decided("CONN-1", {NEW: "CONFIRMED"}),
    )
    whole["timings"] = {"windows.hold": "2 s instead of 5 s"}
    page = render(whole, difference=[f"line {number}" for number in range(40)])
    found, complaints = opened(tmp_path, page, "--window-size=1400,900", probe=USED)
    assert (found["first"], found["closed"]) == ("", True)
    assert (found["area"], found["opened"]) == (["Calico demo"], True)
    assert found["blank"] == [len(catalog()), False], "blanks are no words"
    assert found["both"] == ["DEMO-7"], "an area and a verdict hold together"
    assert found["forgets"] == ["", "", len(catalog()), True], (
        "a link to a claim that is left out leads to it"
    )
    assert found["none"] == [0, f"0 of {len(catalog())} claims", True]
    assert (found["words"], found["filtered"]) == (["DEMO-7"], True)
    assert found["anew"] == ["", found["anew"][1], True, True], (
        "an area's button forgets the verdict and leads to its words"
    )
    assert found["anew"][1]
    assert found["kept"], "the claims' own link keeps the choice"
    assert found["followed"] == ["", "", False, True, True], (
        "a link to a claim that is left out ends the choice"
    )
    assert found["scrolled"], "also where the browser itself does not follow"
    assert found["nowhere"] == ["DEMO-7"]
    assert found["back"] == [len(catalog()), "", True]
    assert (found["copy"], found["kept_here"], found["printed"], found["folds"]) == (
        "copied",
        True,
        True,
        3,
    )
    assert complaints == ""


FOLLOWED = """
<script>
addEventListener('load', () => setTimeout(() => {
  const one = document.getElementById('RST-1'), {top} = one.getBoundingClientRect();
  const found = {open: [one.open, one.parentElement.closest('details').open], seen: top >= -1 && top < innerHeight,
    picked: document.querySelector('input[name=verdict]:checked').value};
  const told = document.createElement('pre'); told.id = 'probe'; told.textContent = JSON.stringify(found);
  document.body.append(told);
}, 50));
</script>
"""


def test_an_address_that_names_a_claim_opens_it_and_a_page_that_is_loaded_again_begins_with_all(
    tmp_path: Path,
) -> None:
    """A browser restores an earlier choice of buttons, and fires no event for it."""
    page = render(plain(decided("DEMO-7", {OLD: "VIOLATED"})))
    page = page.replace('value="" checked', 'value=""').replace(
        'value="VIOLATED"', 'value="VIOLATED" checked'
    )
    found, complaints = opened(
        tmp_path, page, "--window-size=1400,900", probe=FOLLOWED, at="#RST-1"
    )
    assert found == {"open": [True, True], "seen": True, "picked": ""}
    assert complaints == ""
