# SPDX-License-Identifier: Apache-2.0
"""An HTML file for each run, for people: it opens from disk, without network, framework or plotting
library.

It is made only from ``conformance.json``, so that any report can be shown again. Every name and
text from a cluster (pods, events, logs) is text to the template, which escapes it.
"""

import functools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from conformance import printing
from conformance.report import runs, summed_up
from conformance.report.commands import shareable
from conformance.report.gate_table import LAB
from conformance.report.matrix import DIRECTIONS
from conformance.report.pack import home, private, scrubbed
from conformance.report.page.clock import time_of_day
from conformance.report.page.grid import mark
from conformance.report.page.parts import BELOW, SHOWN
from conformance.report.page.sections import (
    broken_on,
    first_line,
    observed,
    reason_text,
    rest,
    sections,
)
from conformance.report.terminal import BESIDE, cut

FOLDER = Path(__file__).parent
KEPT = 20_000
AT_LEAST = 500
TOGETHER = 200_000
"""Limits on the characters of attachments that the page shows: the most and the least of each file,
and the most of all files together. The files have the rest."""
BUNDLED = (".txt", ".yaml", ".json")


def bundles(plain: Mapping[str, Any], folder: Path) -> dict[str, list[tuple[str, str]]]:
    """Map each failed test to names and texts of its files, read below the run's folder; long texts
    are cut."""
    files = [
        (test["test"], folder / name)
        for test in plain["tests"]
        if test["verdict"] in ("VIOLATED", "INCONCLUSIVE")
        for name in test.get("attachments") or ()
        if (folder / name).suffix in BUNDLED and (folder / name).is_file()
    ][: TOGETHER // AT_LEAST]  # a page of 1 MB still fits into a mail
    kept = max(AT_LEAST, min(KEPT, TOGETHER // max(len(files), 1)))
    found: dict[str, list[tuple[str, str]]] = {}
    for test, path in files:
        text = path.read_text(encoding="utf-8", errors="replace")
        more = (
            f"\n... {len(text) - kept} more characters in {path.relative_to(folder)}"
            if len(text) > kept
            else ""
        )
        found.setdefault(test, []).append((path.name, text[:kept] + more))
    return found


def render(
    plain: Mapping[str, Any],
    *,
    difference: Sequence[str] = (),
    failures: Mapping[str, Sequence[tuple[str, str]]] | None = None,
    linked: bool = False,
) -> str:
    """Return the page of a report.

    ``plain``: conformance.json of schema 3 or 2; ``difference``: lines of a comparison;
    ``failures``: :func:`bundles`; ``linked``: the page is in the run's folder, so that it can link
    to files of this folder.
    """
    page: str = _template().render(
        **sections(plain),
        difference=list(difference),
        turns=[line for line in difference if re.fullmatch(r"\S.* \(\d+\)", line)],
        failures=failures or {},
        linked=linked,
    )
    return page


def write(
    plain: Mapping[str, Any],
    path: Path,
    *,
    difference: Sequence[str] = (),
    folder: Path | None = None,
) -> None:
    """Write the page of a report, without possible secrets and paths of a machine, since users pass
    pages on.

    ``folder``: the run's folder, if it exists.
    """
    failures = bundles(plain, folder) if folder else {}
    linked = folder is not None and folder.resolve() == path.resolve().parent
    page = render(plain, difference=difference, failures=failures, linked=linked)
    path.write_text(scrubbed(page, private(plain["run"], (home(), Path.cwd()))), encoding="utf-8")


def write_runs(found: runs.Table, path: Path) -> None:
    """Write the page of several reports, without possible secrets and paths of a machine."""
    page: str = _template("runs.html.j2").render(table=found, counts=runs.counts(found))
    words = private({"command": ""}, (home(), Path.cwd()))
    path.write_text(scrubbed(page, words), encoding="utf-8")


@functools.cache
def _template(name: str = "page.html.j2") -> Any:
    import jinja2  # 85 ms: only where a page is written

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: printing.plain(value) if type(value) is str else value,
    )
    environment.globals |= {
        "word": summed_up.word,
        "reason_text": reason_text,
        "first_line": first_line,
        "broken_on": broken_on,
        "rest": rest,
        "seen": observed,
        "short": cut,
        "mark": mark,
        "time_of_day": time_of_day,
        "LAB": LAB,
        "shareable": shareable,
        "all_directions": DIRECTIONS,
        "SHOWN": SHOWN,
        "BELOW": BELOW,
        "BESIDE": BESIDE,
        "style": (FOLDER / "page.css").read_text(encoding="utf-8"),
        "script": (FOLDER / "page.js").read_text(encoding="utf-8"),
    }
    return environment.get_template(name)
