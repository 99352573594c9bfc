"""What the page shows of a claim's results: a row for each, the worst first, with pairs together that agree."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from conformance.model.verdict import PRECEDENCE
from conformance.verdicts.claims import SEEN

SHOWN = 8
"""Rows of a claim that are shown before more is asked for: with what stands above them they fill no screen."""
GOOD = ("CONFIRMED", "NOT_OBSERVED")
FAILED = ("VIOLATED", "INCONCLUSIVE", "UNMET")
_ORDER = tuple(map(str, PRECEDENCE))


@dataclass(frozen=True)
class Pairs:
    """Decisions that say the same."""

    verdict: str
    seen: str
    reason: str
    """What all of them say; empty: each line has its own."""
    builds: str
    lines: list[str]
    """Who to whom."""
    number: int


@dataclass(frozen=True)
class Part:
    """A row of a claim: one result."""

    verdict: str
    name: str
    test: str
    first: str
    """What failed, in a line; empty: nothing did."""
    text: str
    """The rest of the reason, of a failure that explains itself by nothing else."""
    told: Mapping[str, str]
    """The named lines of a failure's explanation."""
    table: str
    again: str
    pairs: list[Pairs]
    number: int
    measured: Mapping[str, Any]
    files: Sequence[str] = field(default_factory=list)
    """What a failure left, below the run's directory."""

    opened: bool = False
    """Whether it is the first failure of its claim, which nobody has to ask for."""


def parts(claim: Mapping[str, Any], tests: Mapping[str, Mapping[str, Any]]) -> list[Part]:
    """The rows of a claim, the worst first.  ``tests``: the report's, by name."""
    found = [_part(result, tests.get(result["test"], {})) for result in claim["results"]]
    found.sort(key=lambda part: _ORDER.index(part.verdict))
    return [replace(part, opened=part.verdict in FAILED) for part in found[:1]] + found[1:]


def _part(result: Mapping[str, Any], test: Mapping[str, Any]) -> Part:
    good, reason = result["verdict"] in GOOD, result["reason"] or ""
    explanation = (test.get("explanation") or {}) if result["verdict"] in FAILED else {}
    first, _, text = reason.partition("\n")
    decisions = result.get("decisions") or []
    return Part(
        verdict=result["verdict"],
        name=result["part"] or sentence(result["test"]),
        test=result["test"],
        first="" if good else (explanation.get("headline") or first).removeprefix(f"{result['claim']}  "),
        text="" if good or explanation else text,
        told=_told(explanation),
        table=explanation.get("table") or "",
        again=shareable(explanation.get("again") or ""),
        pairs=list(_pairs(decisions)),
        number=len(decisions),
        measured=result["measured"],
        files=(test.get("attachments") or []) if result["verdict"] in FAILED else [],
    )


def sentence(test: str) -> str:
    """``the full name is the cluster ip [linux]``: a test's name for people."""
    return test.rpartition("::")[2].removeprefix("test_").replace("_", " ").replace("[", " [")


def shareable(command: str) -> str:
    """A command without options that name files of this machine, which the reader has under other names."""
    return " ".join(word for word in command.split() if "=/" not in word and not word.startswith("/"))


def _told(explanation: Mapping[str, Any]) -> dict[str, str]:
    path = {"path": explanation["path"]} if explanation.get("cause") and explanation.get("path") else {}
    return {**path, **(explanation.get("lines") or {})}


def _pairs(decisions: Sequence[Mapping[str, Any]]) -> Iterator[Pairs]:
    alike: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for one in sorted(decisions, key=lambda one: _ORDER.index(one["verdict"])):
        said = one["reason"] if one["verdict"] in GOOD else ""
        alike.setdefault((one["verdict"], _seen(one), said), []).append(one)
    for (verdict, seen, reason), several in alike.items():
        builds = ", ".join(sorted({build for one in several for build in one["about"]}))
        lines = _together(several) if reason else [f"{_path(one)}: {one['reason']}" for one in several]
        yield Pairs(verdict, seen, reason, builds, lines, len(several))


def _together(several: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each set of targets that some sources share."""
    by_source: dict[str, list[str]] = {}
    for one in several:
        by_source.setdefault(one["source"], []).append(one["target"])
    paths: dict[tuple[str, ...], list[str]] = {}
    for source, targets in by_source.items():
        paths.setdefault(tuple(sorted({*targets} - {""})), []).append(source)
    return [_path({"source": ", ".join(sources), "target": ", ".join(targets)}) for targets, sources in paths.items()]


def _path(ends: Mapping[str, str]) -> str:
    """``windows-2022 to windows-2019``, or the one node that something was read of."""
    return " to ".join(filter(None, (ends["source"], ends["target"]))) or "the cluster"


def _seen(decision: Mapping[str, Any]) -> str:
    """What was seen, in words; empty: the reason tells what was seen instead."""
    if decision["verdict"] != "CONFIRMED":
        return ""
    return " and ".join(SEEN.get(half, half) for half in decision.get("halves") or ()) or "as expected"
