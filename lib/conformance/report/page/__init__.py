"""One HTML file per run, for people: opened from disk, without network, framework or plotting library.

Made from ``conformance.json`` alone, so that any report can be shown again.  Everything that a cluster named (pods,
events, logs) is text to the template, which escapes it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conformance.model.codec import from_plain
from conformance.model.counted import counted
from conformance.model.decision import Decision, by_build
from conformance.model.verdict import PRECEDENCE, ClaimKind
from conformance.report.page.drawing import effect_chart

FOLDER = Path(__file__).parent
LINUX = "Linux and cluster"
"""Column of decisions that are about no Windows build."""
OPEN = "no test"
"""In counts: claims that no test decides yet."""


@dataclass(frozen=True)
class Area:
    """A row of the overview."""

    name: str
    counts: Mapping[str, int]
    """Verdict, ``no test`` or ``not selected`` to how many claims."""
    total: int


def render(plain: Mapping[str, Any], *, difference: Sequence[str] = ()) -> str:
    """The page of a report.  ``plain``: conformance.json of schema 2; ``difference``: lines of a comparison."""
    claims: Sequence[Mapping[str, Any]] = plain["claims"]
    builds = sorted({build for claim in claims for one in _decisions(claim) for build in one.about})
    areas = _areas(claims)
    effects: Mapping[str, Any] = plain["statistics"].get("policy_effect") or {}
    return str(
        _template().render(
            run=plain["run"],
            suite=plain.get("suite") or {},
            facts=_facts(plain.get("facts") or {}),
            nodes=(plain.get("facts") or {}).get("nodes") or [],
            gates=plain.get("gates") or [],
            waived=plain.get("waived") or {},
            timings=plain.get("timings") or {},
            counts=plain["counts"],
            areas=areas,
            words=[
                word
                for word in (*map(str, PRECEDENCE), OPEN, "not selected")
                if any(word in one.counts for one in areas)
            ],
            columns=[*([LINUX] if builds else []), *builds],
            table={claim["id"]: _cells(claim) for claim in claims},
            claims=claims,
            word=_word,
            matrix=plain["matrix"],
            directions=("linux->linux", "linux->windows", "windows->linux", "windows->windows"),
            effects=[effect_chart(what, figures) for what, figures in effects.items()],
            difference=list(difference),
            style=(FOLDER / "page.css").read_text(encoding="utf-8"),
            script=(FOLDER / "page.js").read_text(encoding="utf-8"),
            headline=_headline(plain),
        )
    )


def write(plain: Mapping[str, Any], path: Path, *, difference: Sequence[str] = ()) -> None:
    """Write the page of a report."""
    path.write_text(render(plain, difference=difference), encoding="utf-8")


@functools.cache
def _template() -> Any:
    import jinja2  # 85 ms: only where a page is written

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    return environment.get_template("page.html.j2")


def _headline(plain: Mapping[str, Any]) -> tuple[str, str]:
    """The page's first line and its tone: ``good``, ``bad`` or ``warn``."""
    run, gates, counts = plain["run"], plain.get("gates") or [], plain["counts"]
    if run.get("cut_short"):
        return "Cut short: this run says nothing about what it did not reach", "warn"
    if gates:
        bad = [one for one in gates if one["answer"] != "qualified"]
        lab = run["evidence"] == "lab"
        good = "Would qualify; a lab qualifies nothing" if lab else "Qualified"
        words = {one["answer"] for one in bad}
        return (
            ("Not qualified", "bad") if "not qualified" in words else ("Incomplete", "warn") if bad else (good, "good")
        )
    violated, open_ = counts.get("VIOLATED", 0), counts.get("INCONCLUSIVE", 0)
    if violated:
        return f"{counted(violated, 'claim is', 'claims are')} violated", "bad"
    if open_:
        return f"{counted(open_, 'claim is', 'claims are')} inconclusive", "warn"
    undecided = counts.get("NOT_RUN", 0) + counts.get("not selected", 0)
    return (
        "Nothing violated" + (f"; {counted(undecided, 'claim')} not decided" if undecided else "")
    ), "warn" if undecided else "good"


def _word(claim: Mapping[str, Any]) -> str:
    if claim["verdict"] is None:
        return "not selected"
    return OPEN if claim["verdict"] == "NOT_RUN" and not claim["results"] else str(claim["verdict"])


def _areas(claims: Sequence[Mapping[str, Any]]) -> list[Area]:
    found: dict[str, dict[str, int]] = {}
    for claim in claims:
        counts = found.setdefault(claim["area"], {})
        counts[_word(claim)] = counts.get(_word(claim), 0) + 1
    return [Area(name, counts, sum(counts.values())) for name, counts in found.items()]


def _decisions(claim: Mapping[str, Any]) -> Iterator[Decision]:
    for result in claim["results"]:
        for one in result.get("decisions") or ():
            yield from_plain(Decision, one)


def _cells(claim: Mapping[str, Any]) -> dict[str, str]:
    """Column to verdict, of a claim that was decided on some node."""
    kind, decisions = ClaimKind(claim["kind"]), list(_decisions(claim))
    cells = {build: str(verdict) for build, verdict in by_build(decisions, kind).items()}
    others = [one.verdict for one in decisions if not one.about]
    if others:
        cells[LINUX] = str(next(verdict for verdict in PRECEDENCE if verdict in others))
    return cells


def _facts(facts: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Name, value and where it was read."""
    found = []
    for name, entry in facts.items():
        if isinstance(entry, dict) and set(entry) == {"value", "source"}:
            value = entry["value"]
            text = ", ".join(map(str, value)) if isinstance(value, list) else "unknown" if value is None else str(value)
            found.append((name.replace("_", " "), text, str(entry["source"])))
    return found
