# SPDX-License-Identifier: Apache-2.0
"""The summary at the end of a run, or later of any report: the lines to read before opening the
report."""

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from conformance import printing
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
"""The tone of a line. ``known``: a limitation that still exists as documented, which is no
success."""

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
"""The tone of each verdict, in the order of the report; NOT_APPLICABLE occurs only for parts of a
claim."""
EXIT_MEANINGS = {
    0: "nothing violated",
    1: "a claim is VIOLATED",
    2: "interrupted",
    3: "pytest failed internally",
    4: "options or files that cannot be used",
    5: "nothing selected",
    6: "not everything could be decided: the suite or its surroundings broke",
    7: "the environment makes the run impossible, or no Windows node was reached",
}
UNDECIDED = ("INCONCLUSIVE", "NOT_RUN")
FIRST = 400
"""The maximum number of characters of a line in the lists of this summary and of the page."""
NAMED = 8
"""The maximum number of a claim's parts that the summary lists. It counts further parts, and the
page lists them."""
BESIDE = "also VIOLATED, but in no required set"


def summary(
    plain: Mapping[str, Any], where: Path, *, figures: bool = False
) -> Iterator[tuple[str, Tone]]:
    """Yield lines with their tone: verdict per decided claim, the matrix, counts, evidence, exit
    code, place.

    ``plain``: conformance.json, so that any report can be summed up again. ``where``: its folder or
    file. ``figures``: include the number of attempts and the time until policies took effect.
    """
    yield from ((printing.line(text), tone) for text, tone in _summary(plain, where, figures))


def _summary(plain: Mapping[str, Any], where: Path, figures: bool) -> Iterator[tuple[str, Tone]]:
    grouped = summed_up.causes(plain)
    fallen = {claim["id"] for claims in grouped.values() for claim in claims}
    opening = [
        claim for claim in plain["claims"] if claim.get("opens") and claim["id"] not in fallen
    ]
    for claim in opening:  # paths that are open although a policy should close them come first
        yield from _claim(claim)
    for cause, claims in grouped.items():
        yield from _for_cause(cause, claims)
    yield from (
        (f"{'danger':12} {claim['id']:9} {claim['danger']}", "warn")
        for claim in plain["claims"]
        if claim.get("danger")
    )
    yield from _by_verdict(plain, fallen | {claim["id"] for claim in opening})
    yield from _block(render(plain.get("matrix") or {}))
    if figures:
        yield from _block(_figures(plain))
    yield "", "plain"
    yield from _run(plain, where)


def _for_cause(cause: str, claims: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Tone]]:
    """Yield a cause and the lines of its claims; a line that several claims share is printed
    once."""
    verb = "are undecided" if claims[0]["verdict"] in UNDECIDED else "fail"
    yield f"{cause}: {len(claims)} claims {verb} for this cause", "bad"
    for line, tone in dict.fromkeys(line for claim in claims for line in _claim(claim, cause)):
        yield f"  {line}", tone


def _by_verdict(plain: Mapping[str, Any], above: Container[str]) -> Iterator[tuple[str, Tone]]:
    """Yield the lines of decided claims, the worst verdict first. ``above``: ids of claims that are
    listed before them."""
    for verdict, tone in TONES.items():
        shown = "inapplicable_parts" if verdict is ClaimVerdict.NOT_APPLICABLE else "results"
        claims = [
            claim
            for claim in plain["claims"]
            if claim["verdict"] == verdict and claim.get(shown) and claim["id"] not in above
        ]
        for first, *others in _together(claims, verdict):
            if others:
                ids = ", ".join(claim["id"] for claim in (first, *others))
                why = filter(None, (cut(first["reason"].partition("\n")[0]), first["remedy"]))
                yield f"{verdict:12} {ids}: {'; '.join(why)}", tone
            else:
                yield from _claim(first)


def _block(several: Sequence[str]) -> Iterator[tuple[str, Tone]]:
    """Yield an empty line followed by the lines; nothing if there are none."""
    yield from ((line, "plain") for line in (("", *several) if several else ()))


def _run(plain: Mapping[str, Any], where: Path) -> Iterator[tuple[str, Tone]]:
    """Yield the lines about the run as a whole: waivers, gates, counts, evidence, exit code,
    place."""
    run = plain["run"]
    waived = (plain.get("waived") or {}).items()
    yield from ((f"waived: {ident}: {waiver}", "warn") for ident, waiver in waived)
    yield from _gates(plain)
    yield from (
        (f"label: {key}={value}", "plain") for key, value in (run.get("labels") or {}).items()
    )
    counts = summed_up.counts(plain["claims"])
    yield f"claims: {', '.join(f'{count} {word}' for word, count in counts.items())}", "plain"
    if again := run.get("continues"):
        yield f"continues: run {again['id']} of {again['started']}; {_repeated(again)}", "plain"
    yield from ((f"note: {note}", "warn") for note in run.get("notes") or ())
    if plain.get("facts"):
        yield _evidence(plain), "plain"
    code = run["exit_code"]
    yield f"report: {where}  (exit code {code}: {meaning(plain)})", "bad" if code else "plain"


def _repeated(continued: Mapping[str, Any]) -> str:
    """Return ``2 tests run again: 1 VIOLATED before, CONFIRMED now; 1 NOT_RUN as before``."""
    turns = Counter(tuple(verdicts) for verdicts in continued["again"].values())
    parts = (
        f"{number} {f'{before} before, {now} now' if before != now else f'{now} as before'}"
        for (before, now), number in turns.items()
    )
    return f"{counted(len(continued['again']), 'test')} run again: {'; '.join(parts)}"


def _gates(plain: Mapping[str, Any]) -> Iterator[tuple[str, Tone]]:
    for gate in summed_up.gates(plain):
        yield from ((f"gate: {headline}", _tone(gate)) for headline in gate["headlines"])
        yield from ((f"      {line}", "bad") for line in gate["obstacles"])
    if beside := summed_up.beside_gates(plain):
        yield f"gate: {BESIDE}: {', '.join(beside)}", "bad"


def _tone(gate: Mapping[str, Any]) -> Tone:
    """Return the tone of a gate's line; ``good`` is only for results that need no waiver."""
    if gate["answer"] in ("not qualified", "incomplete"):
        return "bad"
    return "warn" if gate.get("waived") else "good"


def _figures(plain: Mapping[str, Any]) -> list[str]:
    """Return lines on attempts, on the time until policies took effect, and on the cost of
    probing."""
    reported = plain.get("statistics") or {}
    tries = {
        way: Tried(
            attempts=found["attempts"],
            by_tries={int(tries): count for tries, count in found["by_tries"].items()},
            resent=found["resent"],
        )
        for way, found in (reported.get("tries") or {}).items()
    }
    effects = {
        what: from_plain(PolicyEffect, found)
        for what, found in (reported.get("policy_effect") or {}).items()
    }
    cost = plain.get("probing")
    return [
        *lines(Statistics(tries=tries, policy_effect=effects)),
        *(probing.lines(from_plain(ProbingCost, cost)) if cost else []),
    ]


def meaning(plain: Mapping[str, Any]) -> str:
    """Return the cause of a run's exit code in words."""
    code = plain["run"]["exit_code"]
    waived = plain.get("waived") or {}
    if cause := plain["run"].get("exit_cause"):
        return str(cause)
    if code == 0 and waived:
        return f"nothing violated except what is waived: {', '.join(waived)}"
    if code == 6 and (undecided := _causes(plain, "INCONCLUSIVE")):
        return (
            f"{counted(sum(map(len, undecided.values())), 'claim')} undecided: "
            f"{_first(list(undecided))}"
        )
    causes = _causes(plain, "VIOLATED")
    known = [text for text in causes if summed_up.is_known(plain, text, causes[text])]
    if code == 1 and known:
        return f"{EXIT_MEANINGS[1]}: {_first([*known, *(causes.keys() - known)])}"
    return EXIT_MEANINGS.get(code, "")


def _causes(plain: Mapping[str, Any], verdict: str) -> dict[str, list[Mapping[str, Any]]]:
    """Return the causes whose worst claim has this verdict, each with its claims."""
    causes = summed_up.all_causes(plain)
    return {text: claims for text, claims in causes if claims[0]["verdict"] == verdict}


def _first(causes: Sequence[str]) -> str:
    """Return the first cause, and the number of other causes."""
    return cut(causes[0]) + (f"; {len(causes) - 1} more" if len(causes) > 1 else "")


def _claim(claim: Mapping[str, Any], cause: str = "") -> Iterator[tuple[str, Tone]]:
    """Yield the lines of a claim. ``cause``: the line above a group of claims, which the claim's
    lines do not repeat."""
    verdict = ClaimVerdict(claim["verdict"])
    there = summed_up.word(claim) == summed_up.THERE
    tone = "known" if there else TONES[verdict]
    text = _headline(claim, cause)
    builds = {build: ClaimVerdict(word) for build, word in (claim.get("builds") or {}).items()}
    where = [
        f"{claim['kind']}, {summed_up.THERE}" if there else "",
        claim.get("share") or "",
        on_builds(ClaimKind(claim["kind"]), verdict, builds),
    ]
    head = ": ".join(filter(None, (", ".join(filter(None, where)), text)))
    yield f"{verdict:12} {claim['id']:9} {head}", tone
    yield from ((f"{'':22} {line}", tone) for line in _details(claim, text))


def _headline(claim: Mapping[str, Any], cause: str) -> str:
    """Return the first line of a claim's reason. If the claim is CONFIRMED, or if ``cause`` is the
    reason, return its statement."""
    first = unnamed((claim["reason"].splitlines() or [""])[0], claim["id"])
    is_above = cause and (cause in first or claim["verdict"] in UNDECIDED)
    if claim["verdict"] == ClaimVerdict.CONFIRMED or not first or is_above:
        return str(claim["statement"])
    return cut(first)


def _details(claim: Mapping[str, Any], text: str) -> Iterator[str]:
    """Yield the lines below a claim's first line. ``text``: the words of the first line, which
    these lines do not repeat."""
    missing = claim["missing_parts"]
    inapplicable = claim.get("inapplicable_parts") or {}
    passive = claim.get("half") or ""
    remedy = "" if claim["verdict"] == ClaimVerdict.CONFIRMED else claim["remedy"]
    elsewhere = [
        f"part {part} is not about this cluster: {why}" for part, why in inapplicable.items()
    ]
    lines = (
        *(issue["text"] for issue in claim.get("known_issues") or ()),
        f"decided: {_few(claim['decided_parts'])}; without verdict: {_few(missing)}"
        if missing
        else "",
        *(
            elsewhere
            if len(elsewhere) < 2
            else [f"{len(elsewhere)} parts are not about this cluster"]
        ),
        "" if passive in text else passive,
        underlay(result["measured"] for result in claim["results"]),
        "" if remedy in text else remedy,
    )
    return filter(None, lines)


def _together(
    claims: Sequence[Mapping[str, Any]], verdict: ClaimVerdict
) -> list[list[Mapping[str, Any]]]:
    """Return groups of claims: claims that were not run for the same reason form a group, and every
    other claim is a group by itself."""
    found: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for claim in claims:
        alone = verdict is not ClaimVerdict.NOT_RUN or claim["decided_parts"]
        found.setdefault(
            (claim["id"],) if alone else (claim["reason"], claim["remedy"]), []
        ).append(claim)
    return list(found.values())


def cut(line: str) -> str:
    """Return a line shortened for lists; the report has the whole line."""
    return f"{line[:FIRST]} ..." if len(line) > FIRST + 4 else line


def _few(parts: Sequence[str]) -> str:
    if not parts:
        return "none"
    return ", ".join(parts) if len(parts) <= NAMED else counted(len(parts), "part")


def _evidence(plain: Mapping[str, Any]) -> str:
    nodes = [node for node in plain["facts"]["nodes"] if node["os"] == "windows"]
    builds = sorted(
        {".".join(map(str, node["windows_build"])) for node in nodes if node["windows_build"]}
    )
    windows = f"Windows {', '.join(builds) or 'of unknown build'}"
    if plain["run"]["evidence"] == "lab":
        return f"evidence: lab ({windows}, emulated); it shows that the suite works and qualifies no release"
    return f"evidence: field ({windows}, {plain['run']['started'][:10]})"
