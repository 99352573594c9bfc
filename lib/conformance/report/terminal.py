"""The summary at the end of a run, or of any report later, as lines: what a reader has to know before opening it."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from conformance.model.claim import ClaimKind, ClaimVerdict
from conformance.model.codec import from_plain
from conformance.model.counted import counted
from conformance.model.explanation import unnamed
from conformance.report import probing, summed_up
from conformance.report.matrix import render
from conformance.report.probing import ProbingCost
from conformance.report.statistics import PolicyEffect, Statistics, Tried, lines
from conformance.verdicts.claims import on_builds, underlay

Tone = Literal["plain", "good", "known", "warn", "bad"]
"""``known``: as documented, and no success: a limitation that is still there."""

TONES: dict[ClaimVerdict, Tone] = {
    ClaimVerdict.VIOLATED: "bad",
    ClaimVerdict.INCONCLUSIVE: "bad",
    ClaimVerdict.UNMET: "warn",
    ClaimVerdict.LIFTED: "warn",
    ClaimVerdict.ADVISED: "warn",
    ClaimVerdict.NOT_RUN: "warn",
    ClaimVerdict.NOT_OBSERVED: "good",
    ClaimVerdict.CONFIRMED: "good",
    ClaimVerdict.NOT_APPLICABLE: "plain",
}
"""Verdicts in the order in which they are told; NOT_APPLICABLE where that is so of the parts of a claim alone."""
EXIT_MEANINGS = {
    0: "nothing violated",
    1: "a claim is VIOLATED",
    2: "interrupted",
    3: "pytest failed internally",
    4: "options or files that cannot be used",
    5: "nothing selected",
    6: "something is INCONCLUSIVE: the suite or its surroundings broke",
    7: "the environment makes the run impossible, or no Windows node was reached",
}


FIRST = 400
"""Characters of what a claim says in lists: here, and above the claims of a page."""
NAMED = 8
"""Parts of a claim that are named; of more their number is told, and the page names them."""
BESIDE = "also VIOLATED, and in no set that is required"


def summary(
    plain: Mapping[str, Any], where: Path, *, figures: bool = False
) -> Iterator[tuple[str, Tone]]:
    """Lines with their tone: verdict per decided claim, the matrix, counts, evidence, exit code, place.

    ``plain``: conformance.json, so that any report can be summed up again; ``where``: its folder or file.
    ``figures``: what the run asked and how long policies took, too.
    """
    yield from ((printable(line), tone) for line, tone in _summary(plain, where, figures))


def printable(text: str) -> str:
    """Without what a terminal obeys, XML cannot hold, or turns letters round; line ends of Windows are line ends."""
    if text.isprintable():
        return text
    text = text.replace("\r\n", "\n")
    return "".join(
        one if one.isprintable() or one in "\t\n\u00a0\u200c\u200d" else "?" for one in text
    )


def _summary(plain: Mapping[str, Any], where: Path, figures: bool) -> Iterator[tuple[str, Tone]]:
    run = plain["run"]
    grouped = summed_up.causes(plain)
    above = {claim["id"] for fallen in grouped.values() for claim in fallen}
    for claim in plain["claims"]:  # what policy closes and is open comes first
        if claim.get("opens") and claim["id"] not in above:
            above.add(claim["id"])
            yield from _claim(claim, ClaimVerdict(claim["verdict"]))
    for cause, fallen in grouped.items():
        yield f"{cause}: {counted(len(fallen), 'claim fails', 'claims fail')} of that", "bad"
        for claim in fallen:
            yield from (
                (f"  {line}", tone)
                for line, tone in _claim(claim, ClaimVerdict(claim["verdict"]), cause)
            )
    yield from (
        (f"{'danger':12} {one['id']:9} {one['danger']}", "warn")
        for one in plain["claims"]
        if one.get("danger")
    )
    for verdict, tone in TONES.items():
        spoken = []
        for claim in plain["claims"]:
            said = (
                claim.get("inapplicable_parts")
                if verdict is ClaimVerdict.NOT_APPLICABLE
                else claim["results"]
            )
            spoken += (
                [claim] if said and claim["verdict"] == verdict and claim["id"] not in above else []
            )
        for first, *others in _together(spoken, verdict):
            ids = ", ".join(one["id"] for one in (first, *others))
            why = "; ".join(
                filter(None, (cut(first["reason"].partition("\n")[0]), first["remedy"]))
            )
            alike = [(f"{verdict:12} {ids}: {why}", tone)]
            yield from alike if others else _claim(first, verdict)
    told_figures = [*lines(_statistics(plain)), *probing.lines(_probing(plain))] if figures else []
    for several in (render(plain.get("matrix") or {}), told_figures):
        if several:
            yield "", "plain"
            yield from ((line, "plain") for line in several)
    yield "", "plain"
    for ident, waiver in (plain.get("waived") or {}).items():
        yield f"waived: {ident}: {waiver}", "warn"
    yield from _gates(plain)
    yield from (
        (f"label: {key}={value}", "plain") for key, value in (run.get("labels") or {}).items()
    )
    yield f"claims: {_counts(plain)}", "plain"
    if again := run.get("continues"):
        better = sum(1 for before, now in again["again"].values() if before != now)
        told = f"{len(again['again'])} tests run again, {better} say something else now"
        yield f"continues: run {again['id']} of {again['started']}; {told}", "plain"
    for note in run.get("notes") or ():
        yield f"note: {note}", "warn"
    if plain.get("facts"):
        yield _evidence(plain), "plain"
    yield (
        f"report: {where}  (exit code {run['exit_code']}: {meaning(plain)})",
        "bad" if run["exit_code"] else "plain",
    )


def _gates(plain: Mapping[str, Any]) -> Iterator[tuple[str, Tone]]:
    for gate in summed_up.gates(plain):
        yield from ((f"gate: {headline}", _tone(gate)) for headline in gate["headlines"])
        yield from ((f"      {line}", "bad") for line in gate["obstacles"])
    if beside := summed_up.beside_gates(plain):
        yield f"gate: {BESIDE}: {', '.join(beside)}", "bad"


def _tone(gate: Mapping[str, Any]) -> Tone:
    """Green is what needs no waiver."""
    if gate["answer"] in ("not qualified", "incomplete"):
        return "bad"
    return "warn" if gate.get("waived") else "good"


def _statistics(plain: Mapping[str, Any]) -> Statistics:
    told = plain.get("statistics") or {}
    tries = {
        way: Tried(
            attempts=found["attempts"],
            by_tries={int(tries): count for tries, count in found["by_tries"].items()},
            resent=found["resent"],
        )
        for way, found in (told.get("tries") or {}).items()
    }
    effects = {
        what: from_plain(PolicyEffect, found)
        for what, found in (told.get("policy_effect") or {}).items()
    }
    return Statistics(tries=tries, policy_effect=effects)


def _probing(plain: Mapping[str, Any]) -> ProbingCost:
    return from_plain(ProbingCost, plain["probing"]) if plain.get("probing") else probing.cost(())


def meaning(plain: Mapping[str, Any]) -> str:
    """What a run's exit code comes from, in words."""
    code = plain["run"]["exit_code"]
    waived = plain.get("waived") or {}
    if cause := plain["run"].get("exit_cause"):
        return str(cause)
    if code == 0 and waived:
        return f"nothing violated but what is waived: {', '.join(waived)}"
    return EXIT_MEANINGS.get(code, "")


def _claim(
    claim: Mapping[str, Any], verdict: ClaimVerdict, cause: str = ""
) -> Iterator[tuple[str, Tone]]:
    """``cause``: what was said above of several claims, and is not said again."""
    there = summed_up.word(claim) == summed_up.THERE
    tone = "known" if there else TONES[verdict]
    ident = claim["id"]
    first = unnamed((claim["reason"].splitlines() or [""])[0], ident)
    said = verdict is not ClaimVerdict.CONFIRMED and first and not (cause and cause in first)
    text = cut(first) if said else claim["statement"]
    builds = {build: ClaimVerdict(said) for build, said in (claim.get("builds") or {}).items()}
    where = on_builds(ClaimKind(claim["kind"]), verdict, builds)
    where = ", ".join(filter(None, [f"{claim['kind']}, {summed_up.THERE}" if there else "", where]))
    yield f"{verdict:12} {ident:9} {where}{': ' if where else ''}{text}", tone
    yield from ((f"{'':22} {issue['text']}", tone) for issue in claim.get("known_issues") or ())
    if claim["missing_parts"]:
        yield (
            f"{'':22} decided: {_few(claim['decided_parts'])}; without verdict: {_few(claim['missing_parts'])}",
            tone,
        )
    if gone := claim.get("inapplicable_parts") or {}:
        told = [f"part {part} is not about this cluster: {why}" for part, why in gone.items()]
        yield (
            f"{'':22} {told[0] if len(told) == 1 else f'{len(told)} parts are not about this cluster'}",
            tone,
        )
    if (passive := claim.get("half") or "") and passive not in text:
        yield f"{'':22} {passive}", tone
    if subnets := underlay(result["measured"] for result in claim["results"]):
        yield f"{'':22} {subnets}", tone
    if claim["remedy"] and verdict is not ClaimVerdict.CONFIRMED and claim["remedy"] not in text:
        yield f"{'':22} {claim['remedy']}", tone


def _together(
    claims: Sequence[Mapping[str, Any]], verdict: ClaimVerdict
) -> list[list[Mapping[str, Any]]]:
    """Claims of which nothing was run for one and the same reason together, every other alone."""
    found: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for claim in claims:
        alone = verdict is not ClaimVerdict.NOT_RUN or claim["decided_parts"]
        found.setdefault(
            (claim["id"],) if alone else (claim["reason"], claim["remedy"]), []
        ).append(claim)
    return list(found.values())


def cut(line: str) -> str:
    """A line as lists have it; what is cut off stands in the report."""
    return f"{line[:FIRST]} ..." if len(line) > FIRST + 4 else line


def _few(parts: Sequence[str]) -> str:
    return (
        ", ".join(parts)
        if 0 < len(parts) <= NAMED
        else counted(len(parts), "part")
        if parts
        else "none"
    )


def _counts(plain: Mapping[str, Any]) -> str:
    return ", ".join(f"{count} {word}" for word, count in summed_up.counts(plain["claims"]).items())


def _evidence(plain: Mapping[str, Any]) -> str:
    nodes = [node for node in plain["facts"]["nodes"] if node["os"] == "windows"]
    builds = sorted(
        {".".join(map(str, node["windows_build"])) for node in nodes if node["windows_build"]}
    )
    windows = f"Windows {', '.join(builds) or 'of unknown build'}"
    if plain["run"]["evidence"] == "lab":
        return f"evidence: lab ({windows}, emulated); it shows that the suite works and qualifies no release"
    return f"evidence: field ({windows}, {plain['run']['started'][:10]})"
