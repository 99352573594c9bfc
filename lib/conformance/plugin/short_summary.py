# SPDX-License-Identifier: Apache-2.0
"""pytest's short summary; each line has the verdict's own word and the first line of the
finding."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from conformance import printing
from conformance.model.claim import ClaimVerdict
from conformance.plugin.judge.stash import OUTCOME

_SUMMED_UP = {"s": ("skipped", ""), "E": ("error", "INCONCLUSIVE"), "f": ("failed", "VIOLATED")}
"""The category of reports that each letter of ``-r`` selects, and the verdict of these reports; the
gravest come last."""


def tell(reporter: Any, usual: Callable[[], object]) -> None:
    """Print pytest's summary without cutting lines to the terminal's width, since long names would
    leave no room for the reason. ``usual``: a function that prints everything else that ``-r``
    selects.
    """
    chars = reporter.reportchars
    whole = reporter.config.option.verbose > 0
    lines: list[str] = []
    for letter, (kind, word) in _SUMMED_UP.items():
        reports = reporter.stats.get(kind, []) if letter in chars else []
        failed = [
            f"{word} {report.nodeid} - {_verdict_and_reason(report)[1]}" for report in reports
        ]
        lines += failed if word else _skipped(reports, whole=whole)
    reporter.reportchars = "".join(letter for letter in chars if letter not in _SUMMED_UP)
    usual()
    if lines:
        reporter.write_sep("=", "short test summary info", cyan=True, bold=True)
        for line in lines:
            reporter.write_line(printing.line(line))


def _skipped(reports: Sequence[Any], *, whole: bool) -> Iterator[str]:
    """Yield each verdict with its reason.

    Tests that do not apply to this cluster are only counted; with ``whole``, each of them has its
    reason.
    """
    found = Counter(
        (*_verdict_and_reason(report), report.nodeid.partition("::")[0]) for report in reports
    )
    elsewhere = sum(
        number for (verdict, *_), number in found.items() if verdict == ClaimVerdict.NOT_APPLICABLE
    )
    if elsewhere and not whole:
        yield f"NOT_APPLICABLE [{elsewhere}] not about this cluster; -v prints each reason"
    yield from (
        f"{verdict} [{number}] {file}: {reason}"
        for (verdict, reason, file), number in found.items()
        if whole or verdict != ClaimVerdict.NOT_APPLICABLE
    )


def _verdict_and_reason(report: Any) -> tuple[str, str]:
    """Return a test's verdict and reason, with the advice if the test did not run. If the report
    has no outcome, return SKIPPED and the last line of its text.
    """
    outcome = next(
        (value for name, value in getattr(report, "user_properties", ()) if name == OUTCOME), None
    )
    if not isinstance(outcome, str):
        text = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
        return "SKIPPED", text.strip().rpartition("\n")[2]
    stored = json.loads(outcome)
    line = stored["reason"].partition("\n")[0]
    remedy = stored["remedy"] if report.skipped else ""
    return stored["verdict"], line if not remedy or remedy in line else f"{line}; {remedy}"
