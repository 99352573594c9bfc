# SPDX-License-Identifier: Apache-2.0
"""What each section of the page shows, a function for each; the template does the rest."""

import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conformance.model.by_key import by_key
from conformance.model.codec import from_plain
from conformance.model.counted import counted
from conformance.model.decision import Decision
from conformance.model.explanation import unnamed
from conformance.model.verdict import PRECEDENCE
from conformance.report import summed_up
from conformance.report.page.answer import headline
from conformance.report.page.drawing import effect_chart, recovery_chart
from conformance.report.page.parts import parts, run_again
from conformance.report.terminal import cut, meaning
from conformance.verdicts.decisions import by_build

LINUX = "Linux and cluster"
"""Column of decisions that are about no Windows build."""
RECOVERY = "seconds to a new connection"
"""Name of the figure that tests of disturbed connections keep."""
OPEN = ("INCONCLUSIVE", "UNMET", "ADVISED", "NOT_RUN")
"""What claims are counted as that someone has to look at, none of them violated."""
FOLDED = {
    "NOT_APPLICABLE": "not about this cluster",
    summed_up.UNTESTED: "without a test yet",
    summed_up.HAND: "that need a person",
    summed_up.UNSELECTED: "not selected",
}
"""Claims of which nothing is to be seen, behind a line for each of these words."""
SINCE: Mapping[str, Any] = {
    "evidence": None,
    "seconds": 0,
    "flaky": False,
    "half": "",
    "applies": "",
    "inapplicable_parts": {},
    "known_issues": [],
    "danger": "",
}
"""Fields of claims that the oldest reports do not have."""
NOT_READ = {"cluster_uid": "", "components": [], "kubelets": {}, "unread": []}
"""What runs on the cluster, of a report without it."""

Claim = Mapping[str, Any]


@dataclass(frozen=True)
class Content:
    """What the sections are made of."""

    plain: Mapping[str, Any]
    """conformance.json."""
    claims: Sequence[Claim]
    """Its claims with all fields, what is counted first in front."""
    causes: Mapping[str, Sequence[Claim]]
    """What several claims fail of, to those claims."""


def sections(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return what each section of a report's page shows, by the section's name in the template."""
    claims = [{**SINCE, **claim} for claim in plain["claims"]]
    claims.sort(key=lambda claim: summed_up.WORDS.index(summed_up.word(claim)))
    content = Content(plain, claims, summed_up.causes({**plain, "claims": claims}))
    return {name: section(content) for name, section in SECTIONS.items()}


def _head(content: Content) -> dict[str, Any]:
    """The first line, what it is about, and the exit code."""
    plain = content.plain
    text, tone = headline(plain)
    return {
        "headline": text,
        "tone": tone,
        "meaning": meaning(plain),
        "cluster": _cluster(plain["run"]["cluster"]),
        "versions": _versions(plain.get("facts") or {}),
        "suite": plain.get("suite") or {},
        "counts": summed_up.counts(content.claims),
    }


def _violated(content: Content) -> list[tuple[str, list[Claim]]]:
    """Violated claims by cause; those by which something is open that policy closes come first."""
    violated = [claim for claim in content.claims if claim["verdict"] == "VIOLATED"]
    violated.sort(key=lambda claim: not claim.get("opens"))
    return by_cause(violated, content.causes)


def _open(content: Content) -> list[tuple[str, list[Claim]]]:
    """Open claims by cause, but for those that stand below a cause of violated claims."""
    above = {
        claim["id"]
        for fallen in content.causes.values()
        if fallen[0]["verdict"] == "VIOLATED"
        for claim in fallen
    }
    left = [
        claim
        for claim in content.claims
        if summed_up.word(claim) in OPEN and claim["id"] not in above
    ]
    return by_cause(left, content.causes)


def _areas(content: Content) -> dict[str, Counter[str]]:
    """Area to how many of its claims are what."""
    areas: dict[str, Counter[str]] = {}
    for claim in content.claims:
        areas.setdefault(claim["area"], Counter())[summed_up.word(claim)] += 1
    return areas


def _builds(content: Content) -> dict[str, Any]:
    """Claims by Windows build; no columns where nothing was decided on one."""
    table = {claim["id"]: _cells(claim) for claim in content.claims}
    builds = sorted({build for cells in table.values() for build in cells} - {LINUX})
    return {"columns": [LINUX, *builds] if builds else [], "table": table}


def _effects(content: Content) -> list[dict[str, Any]]:
    """A drawing of how long each sort of policy change took to show."""
    effects: Mapping[str, Any] = content.plain["statistics"].get("policy_effect") or {}
    return [effect_chart(what, figures) for what, figures in effects.items()]


def _recovery(content: Content) -> dict[str, Any]:
    """The drawing of how long it took until a new connection was there after a disturbance."""
    return recovery_chart(
        {
            f"{claim['id']} {result['part']}".strip(): float(seconds)
            for claim in content.claims
            for result in claim["results"]
            if isinstance(seconds := result["measured"].get(RECOVERY), int | float)
        }
    )


def _claims(content: Content) -> dict[str, Any]:
    """All claims with their rows: those that are shown, and those that FOLDED puts away."""
    tests = {test["test"]: test for test in content.plain.get("tests") or ()}
    by_word = by_key((summed_up.word(claim), claim) for claim in content.claims)
    command = content.plain["run"]["command"]
    return {
        "all": content.claims,
        "shown": [claim for claim in content.claims if summed_up.word(claim) not in FOLDED],
        "folded": {words: by_word[word] for word, words in FOLDED.items() if word in by_word},
        "parts": {claim["id"]: parts(claim, tests) for claim in content.claims},
        "run_again": functools.partial(run_again, tests=tests, command=command),
        "waived": content.plain.get("waived") or {},
        "attested": content.plain.get("attested") or {},
    }


def _of_cluster(content: Content) -> dict[str, Any]:
    """What was found out about the cluster, its nodes and what ran there."""
    facts = content.plain.get("facts") or {}
    nodes = facts.get("nodes") or []
    return {
        "facts": _facts(facts),
        "nodes": nodes,
        "kbs": _kbs(nodes),
        "differences": _differences(nodes),
        "installed": content.plain.get("installed") or NOT_READ,
        "covered": content.plain.get("covered"),  # None: the report does not tell
        "images": content.plain.get("images") or [],
    }


SECTIONS: Mapping[str, Callable[[Content], Any]] = {
    "head": _head,
    "violated": _violated,
    "open": _open,
    "gates": lambda content: {
        "answers": summed_up.gates(content.plain),
        "beside": summed_up.beside_gates(content.plain),
    },
    "areas": _areas,
    "directions": lambda content: content.plain["matrix"],
    "builds": _builds,
    "effects": _effects,
    "recovery": _recovery,
    "claims": _claims,
    "cluster": _of_cluster,
    "run": lambda content: content.plain["run"],
    "timings": lambda content: content.plain.get("timings") or {},
}
"""Section of the template to what it shows."""


def _cluster(cluster: Mapping[str, Any]) -> str:
    """Return a cluster's name without addresses and paths, which stand in the report's JSON."""
    told = [
        part
        for part in (cluster["label"] or cluster["how"]).split(", ")
        if "://" not in part and "/" not in part
    ]
    return ", ".join(told) or str(cluster["how"])


def _versions(facts: Mapping[str, Any]) -> list[str]:
    """Return the versions of Calico and Kubernetes, the mode, and the Windows builds with nodes."""
    told = [("Calico", "calico_version"), ("Kubernetes", "kubernetes_version"), ("mode", "mode")]
    values = [
        f"{name} {value}" for name, key in told if (value := (facts.get(key) or {}).get("value"))
    ]
    nodes = [node["windows_build"] for node in facts.get("nodes") or () if node["os"] == "windows"]
    builds = Counter(".".join(map(str, build)) if build else "of unknown build" for build in nodes)
    return [
        *values,
        *(
            f"Windows {build} ({counted(number, 'node')})"
            for build, number in sorted(builds.items())
        ),
    ]


def told_of(claim: Mapping[str, Any]) -> str:
    """Why a claim's verdict is what it is, where none of its rows says it."""
    told = {claim["statement"], *(result["reason"] for result in claim["results"])}
    return "" if claim["reason"] in told else str(claim["reason"] or "")


def rest(rows: Sequence[Mapping[str, Any]]) -> str:
    """The verdicts of rows that are shown when they are asked for."""
    return ", ".join(
        f"{number} {verdict}"
        for verdict, number in Counter(part["verdict"] for part in rows).items()
    )


def by_cause(
    claims: Sequence[Mapping[str, Any]], causes: Mapping[str, Sequence[Mapping[str, Any]]]
) -> list[tuple[str, list[Mapping[str, Any]]]]:
    """Group claims by cause, in their order, with all claims of the cause; no cause is ``""``."""
    of = {claim["id"]: (cause, fallen) for cause, fallen in causes.items() for claim in fallen}
    found: dict[str, tuple[str, list[Mapping[str, Any]]]] = {}
    for claim in claims:
        cause, fallen = of.get(claim["id"], ("", [claim]))
        found.setdefault(cause or claim["id"], (cause, list(fallen)))
    return list(found.values())


def first_line(claim: Mapping[str, Any]) -> str:
    """Return what a claim's first failed test reports, and how many of its results agree."""
    line = cut(unnamed(str(claim["reason"] or "").partition("\n")[0], claim["id"]))
    alike = sum(result["verdict"] == claim["verdict"] for result in claim["results"])
    return (
        f"{line} ({alike} of {len(claim['results'])} results)"
        if len(claim["results"]) > 1 and alike
        else line
    )


def broken_on(claim: Mapping[str, Any]) -> str:
    """Return the Windows builds, and Linux, that have the claim's verdict; empty: none has."""
    places = [place for place, verdict in _cells(claim).items() if verdict == claim["verdict"]]
    return ", ".join(place if place == LINUX else f"Windows {place}" for place in places)


def _cells(claim: Mapping[str, Any]) -> dict[str, str]:
    """Column to verdict, of a claim that was decided on some node."""
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
    """Return name, value and Windows nodes of all that was read in the hosts of Windows nodes."""
    found = by_key(
        (entry, node["name"])
        for node in nodes
        for entry in ((node.get("differences") or {}).get("value") or {}).items()
    )
    return [(name, value, names) for (name, value), names in sorted(found.items())]


def _kbs(nodes: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Map where KB numbers were read, or why they are not known, to the names of the nodes."""
    return by_key(
        (node["update"]["source"], node["name"])
        for node in nodes
        if node["os"] == "windows" and node.get("update")
    )


def _facts(facts: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Name, value and where it was read."""
    return [
        (name.replace("_", " "), _value(entry["value"]), str(entry["source"]))
        for name, entry in facts.items()
        if isinstance(entry, dict) and set(entry) == {"value", "source"}
    ]


def _value(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "unknown" if value is None else str(value)
