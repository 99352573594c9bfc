# SPDX-License-Identifier: Apache-2.0
"""A claim's results on the page: a row for each result, the worst first. Pairs of nodes with equal
results share a row."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from conformance.model.by_key import by_key
from conformance.model.explanation import unnamed
from conformance.model.verdict import PRECEDENCE
from conformance.report.commands import shareable
from conformance.report.page.clock import time_of_day, when
from conformance.report.summed_up import FALLEN
from conformance.report.terminal import cut
from conformance.verdicts.claims import SEEN

SHOWN = 8
BELOW = 4
"""The number of rows of a claim that are shown before the reader asks for more; the second number
applies if the first row is unfolded. This number of rows fits on one screen."""
GOOD = ("CONFIRMED", "NOT_OBSERVED")
_ORDER = tuple(map(str, PRECEDENCE))


def parts(claim: Mapping[str, Any], tests: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of a claim for the template, the worst first. ``tests``: the report's tests,
    by name."""
    found = [_part(result, tests.get(result["test"], {})) for result in claim["results"]]
    found.sort(key=lambda part: _ORDER.index(part["verdict"]))
    return [
        part | {"opened": number == 0 and part["verdict"] in FALLEN}
        for number, part in enumerate(found)
    ]


def _part(result: Mapping[str, Any], test: Mapping[str, Any]) -> dict[str, Any]:
    verdict = result["verdict"]
    decisions = result.get("decisions") or []
    explanation = (test.get("explanation") or {}) if verdict in FALLEN else {}
    first, text = ("", "") if verdict in GOOD else _words(result, explanation)
    return {
        "verdict": verdict,
        "name": result["part"] or sentence(result["test"]),
        "test": result["test"],
        "first": first,
        "text": text,
        **_why(explanation),
        "when": when(test),
        "pairs": list(_pairs(decisions)),
        "number": len(decisions),
        "measured": result["measured"],
        "files": (test.get("attachments") or []) if verdict in FALLEN else [],
    }


def _words(result: Mapping[str, Any], explanation: Mapping[str, Any]) -> tuple[str, str]:
    """Return the first line of a result's reason and the lines that follow. If the first line is
    cut, the second text also has the whole line.

    An explanation has its own first line, and replaces the lines that follow.
    """
    line, _, text = (result["reason"] or "").partition("\n")
    line = unnamed(explanation.get("headline") or line, result["claim"])
    first = cut(line)
    below = (line if first != line else "", "" if explanation else text)
    return first, "\n".join(filter(None, below))


def _why(explanation: Mapping[str, Any]) -> dict[str, Any]:
    """Return where a failure was observed, its table of paths, and the command that runs its test
    again."""
    has_place = explanation.get("cause") or explanation.get("where")
    path = explanation.get("path") if has_place else ""
    return {
        "told": {
            name: text
            for name, text in {
                "path": path,
                "since": time_of_day(explanation.get("since", "")),
                **(explanation.get("lines") or {}),
            }.items()
            if text
        },
        "table": explanation.get("table") or "",
        "again": shareable(explanation.get("again") or ""),
    }


def sentence(test: str) -> str:
    """Return ``the full name is the cluster ip [linux]``: a test's name for people."""
    return test.rpartition("::")[2].removeprefix("test_").replace("_", " ").replace("[", " [")


def _pairs(decisions: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield an entry for each group of equal decisions. For failed decisions, the entry has a line
    with the reason of each decision."""
    alike: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for decision in sorted(decisions, key=lambda decision: _ORDER.index(decision["verdict"])):
        said = decision["reason"] if decision["verdict"] in GOOD else ""
        alike.setdefault((decision["verdict"], _observation_text(decision), said), []).append(
            decision
        )
    for (verdict, observed, reason), same in alike.items():
        builds = ", ".join(sorted({build for decision in same for build in decision["about"]}))
        lines = [f"{_path(decision)}: {decision['reason']}" for decision in same]
        if verdict in GOOD:  # the claim's grid shows the pairs of nodes
            lines = _together([decision for decision in same if not decision["source"]])
        yield {
            "verdict": verdict,
            "number": len(same),
            "seen": observed,
            "reason": reason,
            "builds": builds,
            "lines": lines,
        }


def _together(decisions: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line for each set of targets, with the sources that share this set."""
    by_source = by_key((decision["source"], decision["target"]) for decision in decisions)
    paths = by_key(
        (tuple(sorted({*targets} - {""})), source) for source, targets in by_source.items()
    )
    return [
        _path({"source": ", ".join(sources), "target": ", ".join(targets)})
        for targets, sources in paths.items()
    ]


def _path(ends: Mapping[str, str]) -> str:
    """Return ``windows-2022 to windows-2019``; for a reading, its only node."""
    return " to ".join(filter(None, (ends["source"], ends["target"]))) or "the cluster"


def _observation_text(decision: Mapping[str, Any]) -> str:
    """Return the observation in words; empty if the reason contains it."""
    if decision["verdict"] != "CONFIRMED":
        return ""
    return (
        " and ".join(SEEN.get(half, half) for half in decision.get("halves") or ()) or "as expected"
    )
