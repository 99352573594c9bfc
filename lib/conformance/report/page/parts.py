# SPDX-License-Identifier: Apache-2.0
"""What the page shows of a claim's results: a row for each, the worst first, with pairs together that agree."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from conformance.model.by_key import by_key
from conformance.model.explanation import unnamed
from conformance.model.verdict import PRECEDENCE
from conformance.report.terminal import cut
from conformance.verdicts.claims import SEEN

SHOWN = 8
BELOW = 4
"""Rows of a claim that are shown before more is asked for, the second where the first row is open: with what stands
above them they fill no screen."""
GOOD = ("CONFIRMED", "NOT_OBSERVED")
FAILED = ("VIOLATED", "INCONCLUSIVE", "UNMET")
_WORD = re.compile(r"(?:'[^']*'|\S)+")
_MINE = re.compile(r"(^|=)('?)(?:~?/|[A-Za-z]:\\)(?:.*[/\\])?")
_THERE = ("--cluster", "--kubeconfig", "--context", "--lab-profile", "--nodes")
_ALLOWED = ("--allow-disruptive", "--allow-cluster-disruptive")
"""Options without which a command asks another cluster, or leaves out tests that had a node or the cluster alone."""
_ORDER = tuple(map(str, PRECEDENCE))


def parts(claim: Mapping[str, Any], tests: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows of a claim for the template, the worst first.  ``tests``: the report's, by name."""
    found = [_part(result, tests.get(result["test"], {})) for result in claim["results"]]
    found.sort(key=lambda part: _ORDER.index(part["verdict"]))
    return [
        part | {"opened": number == 0 and part["verdict"] in FAILED}
        for number, part in enumerate(found)
    ]


def _part(result: Mapping[str, Any], test: Mapping[str, Any]) -> dict[str, Any]:
    verdict = result["verdict"]
    decisions = result.get("decisions") or []
    explanation = (test.get("explanation") or {}) if verdict in FAILED else {}
    first, text = ("", "") if verdict in GOOD else _words(result, explanation)
    return {
        "verdict": verdict,
        "name": result["part"] or sentence(result["test"]),
        "test": result["test"],
        "first": first,
        "text": text,
        **_why(explanation),
        "pairs": list(_pairs(decisions)),
        "number": len(decisions),
        "measured": result["measured"],
        "files": (test.get("attachments") or []) if verdict in FAILED else [],
    }


def _words(result: Mapping[str, Any], explanation: Mapping[str, Any]) -> tuple[str, str]:
    """The first line of a result's reason; and the whole line where it is cut, with what follows.

    An explanation has a first line of its own, and stands in the place of what follows.
    """
    line, _, text = (result["reason"] or "").partition("\n")
    line = unnamed(explanation.get("headline") or line, result["claim"])
    first = cut(line)
    below = (line if first != line else "", "" if explanation else text)
    return first, "\n".join(filter(None, below))


def _why(explanation: Mapping[str, Any]) -> dict[str, Any]:
    """Where a failure was seen and of what, its table of paths, and how to run it again."""
    has_place = explanation.get("cause") or explanation.get("where")
    path = explanation.get("path") if has_place else ""
    return {
        "told": ({"path": path} if path else {}) | (explanation.get("lines") or {}),
        "table": explanation.get("table") or "",
        "again": shareable(explanation.get("again") or ""),
    }


def sentence(test: str) -> str:
    """``the full name is the cluster ip [linux]``: a test's name for people."""
    return test.rpartition("::")[2].removeprefix("test_").replace("_", " ").replace("[", " [")


def shareable(command: str) -> str:
    """A command without this machine's folders: of ``--kubeconfig=/home/me/lane.yaml`` the file's name is left."""
    told = [(word, _MINE.search(word)) for word in _WORD.findall(command)]
    return " ".join(_MINE.sub(r"\1\2", word) for word, mine in told if not mine or mine[1])


def run_again(
    claim: Mapping[str, Any], tests: Mapping[str, Mapping[str, Any]], command: str
) -> str:
    """The shortest command that decides a claim again where it is what it is.  ``command``: the run's."""
    failed = [
        tests.get(result["test"], {})
        for result in claim["results"]
        if result["verdict"] == claim["verdict"]
    ]
    told = [(test.get("explanation") or {}).get("again") for test in failed]
    words = _WORD.findall(
        shareable(told[0] if len(told) == 1 and told[0] else command)
    )  # several: own nodes each
    wanted = (*_THERE, *_ALLOWED) if any(test.get("exclusive") for test in failed) else _THERE
    found = [
        "calico-conformance run" if words[:1] == ["calico-conformance"] else "pytest",
        f"--claim {claim['id']}",
    ]
    for word, following in zip(words, [*words[1:], ""], strict=True):
        name, equals, _ = word.strip("'").partition("=")
        if name in wanted:
            found.append(word if equals or name in _ALLOWED else f"{word} {following}")
    return " ".join(found)


def _pairs(decisions: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Decisions that say the same, together; those that failed each with a line and a reason of its own."""
    alike: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for one in sorted(decisions, key=lambda one: _ORDER.index(one["verdict"])):
        said = one["reason"] if one["verdict"] in GOOD else ""
        alike.setdefault((one["verdict"], _seen(one), said), []).append(one)
    for (verdict, seen, reason), several in alike.items():
        builds = ", ".join(sorted({build for one in several for build in one["about"]}))
        lines = (
            _together(several) if reason else [f"{_path(one)}: {one['reason']}" for one in several]
        )
        yield {
            "verdict": verdict,
            "number": len(several),
            "seen": seen,
            "reason": reason,
            "builds": builds,
            "lines": lines,
        }


def _together(several: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each set of targets that some sources share."""
    by_source = by_key((one["source"], one["target"]) for one in several)
    paths = by_key(
        (tuple(sorted({*targets} - {""})), source) for source, targets in by_source.items()
    )
    return [
        _path({"source": ", ".join(sources), "target": ", ".join(targets)})
        for targets, sources in paths.items()
    ]


def _path(ends: Mapping[str, str]) -> str:
    """``windows-2022 to windows-2019``, or the one node that something was read of."""
    return " to ".join(filter(None, (ends["source"], ends["target"]))) or "the cluster"


def _seen(decision: Mapping[str, Any]) -> str:
    """What was seen, in words; empty: the reason tells what was seen instead."""
    if decision["verdict"] != "CONFIRMED":
        return ""
    return (
        " and ".join(SEEN.get(half, half) for half in decision.get("halves") or ()) or "as expected"
    )
