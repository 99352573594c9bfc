# SPDX-License-Identifier: Apache-2.0
"""The sections of the page, a function for each; the template does the rest."""

import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conformance.model.by_key import by_key
from conformance.model.codec import from_plain
from conformance.model.decision import Decision
from conformance.model.explanation import unnamed
from conformance.model.verdict import PRECEDENCE
from conformance.report import causes, gate_table, markdown, subject, summed_up
from conformance.report.causes import Cause
from conformance.report.commands import run_again
from conformance.report.page.answer import headline, reach
from conformance.report.page.drawing import charts
from conformance.report.page.grid import Grid, grid
from conformance.report.page.parts import parts
from conformance.report.page.timeline import timeline
from conformance.report.terminal import cut, meaning
from conformance.verdicts.decisions import by_build

LINUX = "Linux and cluster"
"""The column of decisions that concern no Windows build."""
RECOVERY = "seconds to a new connection"
"""The name of the figure that tests of disturbed connections record."""
OPEN = ("LIFTED", "ADVISED", "NOT_RUN")
"""Verdicts of claims that a person must look at. Claims with a cause are shown under their cause
instead."""
FOLDED = {
    "NOT_APPLICABLE": "not about this cluster",
    summed_up.UNTESTED: "without a test yet",
    summed_up.HAND: "that need a person",
    summed_up.UNSELECTED: "not selected",
}
"""Words for claims without results; on the page each word has a line that unfolds its claims."""
SINCE: Mapping[str, Any] = {
    "evidence": None,
    "seconds": 0,
    "flaky": False,
    "half": "",
    "share": "",
    "applies": "",
    "inapplicable_parts": {},
    "known_issues": [],
    "danger": "",
}
"""The defaults of claims' fields that the oldest reports do not have."""
NOT_READ = {"cluster_uid": "", "components": [], "kubelets": {}, "unread": []}
"""The data about the software on the cluster, for reports without such data."""

Claim = Mapping[str, Any]


@dataclass(frozen=True)
class Content:
    """The data from which all sections are made."""

    plain: Mapping[str, Any]
    """The content of conformance.json."""
    claims: Sequence[Claim]
    """The report's claims with all fields, in the order in which they are counted."""
    causes: Sequence[Cause]
    """All causes, the worst first. Causes that let forbidden traffic pass come before all other
    causes."""
    nodes: Sequence[str]
    """The cluster's nodes, Linux first."""


def sections(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of each section of a report's page, by the section's name in the
    template."""
    claims = [{**SINCE, **claim} for claim in plain["claims"]]
    claims.sort(key=lambda claim: summed_up.WORDS.index(summed_up.word(claim)))
    nodes = sorted(
        (plain.get("facts") or {}).get("nodes") or (), key=lambda node: node["os"] != "linux"
    )
    content = Content(
        plain,
        claims,
        causes.of_report({**plain, "claims": claims}),
        [node["name"] for node in nodes],
    )
    return {name: section(content) for name, section in SECTIONS.items()}


def _head(content: Content) -> dict[str, Any]:
    """Return the first line, the run's subject, and the exit code."""
    plain = content.plain
    text, tone = headline(plain)
    return {
        "headline": text,
        "reach": reach(plain),
        "tone": tone,
        "meaning": meaning(plain),
        "cluster": subject.cluster_name(plain["run"]["cluster"]),
        "versions": subject.versions(plain.get("facts") or {}),
        "suite": plain.get("suite") or {},
        "counts": summed_up.counts(content.claims),
    }


def _causes(content: Content) -> list[dict[str, Any]]:
    """Return each cause with the text of an issue about it."""
    return [
        {"cause": cause, "issue": markdown.issue(cause, content.plain)} for cause in content.causes
    ]


def _open(content: Content) -> list[tuple[str, list[Claim]]]:
    """Return claims that a person must look at, by reason and remedy."""
    above = {claim["id"] for cause in content.causes for claim in cause.claims}
    left = [
        claim
        for claim in content.claims
        if summed_up.word(claim) in OPEN and claim["id"] not in above
    ]
    found = by_key(((first_line(claim), claim["remedy"]), claim) for claim in left)
    return [
        (f"{reason}; {remedy}" if remedy and remedy not in reason else reason, claims)
        for (reason, remedy), claims in found.items()
    ]


def _areas(content: Content) -> dict[str, Counter[str]]:
    """Return the number of claims by area and verdict."""
    areas: dict[str, Counter[str]] = {}
    for claim in content.claims:
        areas.setdefault(claim["area"], Counter())[summed_up.word(claim)] += 1
    return areas


def _builds(content: Content) -> dict[str, Any]:
    """Return claims by Windows build; without columns if nothing was decided on any build."""
    table = {claim["id"]: _cells(claim) for claim in content.claims}
    builds = sorted({build for cells in table.values() for build in cells} - {LINUX})
    return {"columns": [LINUX, *builds] if builds else [], "table": table}


def _times(content: Content) -> list[dict[str, Any]]:
    """Return drawings of two durations: until policy changes took effect, and until new connections
    opened after a disturbance. All drawings have the same scale."""
    recoveries = {
        f"{claim['id']} {result['part']}".strip(): float(seconds)
        for claim in content.claims
        for result in claim["results"]
        if isinstance(seconds := result["measured"].get(RECOVERY), int | float)
    }
    return charts(content.plain["statistics"].get("policy_effect") or {}, recoveries)


def _claims(content: Content) -> dict[str, Any]:
    """Return all claims with their rows: visible claims, and claims in FOLDED sections."""
    tests = {test["test"]: test for test in content.plain.get("tests") or ()}
    by_word = by_key((summed_up.word(claim), claim) for claim in content.claims)
    command = content.plain["run"]["command"]
    shown = [claim for claim in content.claims if summed_up.word(claim) not in FOLDED]
    return {
        "all": content.claims,
        "shown": by_key((claim["area"], claim) for claim in shown),
        "folded": {words: by_word[word] for word, words in FOLDED.items() if word in by_word},
        "parts": {claim["id"]: parts(claim, tests) for claim in content.claims},
        "grids": {claim["id"]: _paths([claim], content.nodes) for claim in content.claims},
        "run_again": functools.partial(run_again, tests=tests, command=command),
        "waived": content.plain.get("waived") or {},
        "attested": content.plain.get("attested") or {},
    }


def _of_cluster(content: Content) -> dict[str, Any]:
    """Return the facts about the cluster, its nodes and its components."""
    facts = content.plain.get("facts") or {}
    nodes = facts.get("nodes") or []
    return {
        "facts": _facts(facts),
        "nodes": nodes,
        "kbs": _kbs(nodes),
        "differences": _differences(nodes),
        "installed": content.plain.get("installed") or NOT_READ,
        "covered": content.plain.get("covered"),  # None: the report lacks this field
        "images": content.plain.get("images") or [],
    }


def _paths(claims: Sequence[Claim], nodes: Sequence[str]) -> Grid:
    """Return the worst verdict for each pair of nodes, over the given claims."""
    return grid(
        (
            decision
            for claim in claims
            for result in claim["results"]
            for decision in result.get("decisions") or ()
        ),
        nodes,
    )


SECTIONS: Mapping[str, Callable[[Content], Any]] = {
    "head": _head,
    "causes": _causes,
    "open": _open,
    "paths": lambda content: _paths(content.claims, content.nodes),
    "timeline": lambda content: timeline(content.plain.get("tests") or (), content.causes),
    "gates": lambda content: {
        "table": gate_table.of_report(content.plain),
        "answers": summed_up.gates(content.plain),
        "beside": summed_up.beside_gates(content.plain),
    },
    "areas": _areas,
    "directions": lambda content: content.plain["matrix"],
    "builds": _builds,
    "times": _times,
    "claims": _claims,
    "cluster": _of_cluster,
    "run": lambda content: content.plain["run"],
    "timings": lambda content: content.plain.get("timings") or {},
}
"""The function that returns the content of each section of the template."""


def reason_text(claim: Mapping[str, Any]) -> str:
    """Return the reason of a claim's verdict if none of the claim's rows contains the reason."""
    shown = {claim["statement"], *(result["reason"] for result in claim["results"])}
    return "" if claim["reason"] in shown else str(claim["reason"] or "")


def rest(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the verdicts of the rows that are shown only on demand."""
    return ", ".join(
        f"{number} {verdict}"
        for verdict, number in Counter(part["verdict"] for part in rows).items()
    )


def first_line(claim: Mapping[str, Any]) -> str:
    """Return the first line of a claim's first failed test, and how many of its results agree."""
    return cut(unnamed(str(claim["reason"] or "").partition("\n")[0], claim["id"])) + _alike(claim)


def _alike(claim: Mapping[str, Any]) -> str:
    """Return how many results of a claim have the claim's verdict; empty for a single result."""
    alike = sum(result["verdict"] == claim["verdict"] for result in claim["results"])
    number = len(claim["results"])
    return f" ({alike} of {number} results)" if number > 1 and alike else ""


def observed(claim: Mapping[str, Any], cause: Cause) -> str:
    """Return the observed result of a claim that fails for a cause, without the cause's own
    message."""
    line = summed_up.first_line(claim)
    return cut(line.replace(cause.text, "", 1).lstrip(" :") or line) + _alike(claim)


def broken_on(claim: Mapping[str, Any]) -> str:
    """Return the Windows builds, and Linux, that have the claim's verdict; empty: none has."""
    places = [place for place, verdict in _cells(claim).items() if verdict == claim["verdict"]]
    return ", ".join(place if place == LINUX else f"Windows {place}" for place in places)


def _cells(claim: Mapping[str, Any]) -> dict[str, str]:
    """Map each column of the page to the claim's verdict there. The columns are Windows builds, and
    Linux."""
    decisions = [
        from_plain(Decision, decision)
        for result in claim["results"]
        for decision in result.get("decisions") or ()
    ]
    cells = {build: str(verdict) for build, verdict in by_build(decisions).items()}
    others = [decision.verdict for decision in decisions if not decision.about]
    if others:
        cells[LINUX] = str(next(verdict for verdict in PRECEDENCE if verdict in others))
    return cells


def _differences(nodes: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, list[str]]]:
    """Return name, value and Windows nodes for each reading from the hosts of Windows nodes."""
    found = by_key(
        (entry, node["name"])
        for node in nodes
        for entry in ((node.get("differences") or {}).get("value") or {}).items()
    )
    return [(name, value, names) for (name, value), names in sorted(found.items())]


def _kbs(nodes: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Map the places where KB numbers were read, or the reasons why they are not known, to the
    names of the nodes."""
    return by_key(
        (node["update"]["source"], node["name"])
        for node in nodes
        if node["os"] == "windows" and node.get("update")
    )


def _facts(facts: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return name, value and source of each fact."""
    return [
        (name.replace("_", " "), _value(entry["value"]), str(entry["source"]))
        for name, entry in facts.items()
        if isinstance(entry, dict) and set(entry) == {"value", "source"}
    ]


def _value(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "unknown" if value is None else str(value)
