# SPDX-License-Identifier: Apache-2.0
"""The page's first line: what the run found, and whether that is good."""

from collections.abc import Mapping, Sequence
from typing import Any

from conformance.model.counted import counted
from conformance.report import summed_up
from conformance.report.terminal import meaning
from conformance.verdicts.claims import UNSEEN


def headline(plain: Mapping[str, Any]) -> tuple[str, str]:
    """The page's first line and its tone: ``good``, ``bad`` or ``warn``."""
    (text, tone), cause = _answer(plain), str(plain["run"].get("exit_cause") or "")
    told = cause.startswith("--require") or not (cause or text.startswith("Nothing violated"))
    if tone == "bad" or told or not plain["run"]["exit_code"]:
        return text, tone
    return f"{text}; and yet exit code {plain['run']['exit_code']}: {meaning(plain)}", "bad"


def _answer(plain: Mapping[str, Any]) -> tuple[str, str]:
    counts = summed_up.counts(plain["claims"])
    accepted = plain.get("waived") or {}
    waived = [
        claim["id"]
        for claim in plain["claims"]
        if claim["verdict"] == "VIOLATED" and claim["id"] in accepted
    ]
    violated = counts.get("VIOLATED", 0) - len(waived)
    if plain["run"].get("cut_short"):
        before = f"{_claims_are(violated)} violated, and the run was cut" if violated else "Cut"
        text = f"{before} short: it says nothing about what it did not reach"
        return text, "bad" if violated else "warn"
    if gates := plain.get("gates"):
        return _of_gates(plain, gates)
    excepted = f"violated, and waived: {', '.join(waived)}"
    if violated:
        text = _counted_with_cause(plain, "VIOLATED", violated, waived)
        return f"{text}; {excepted}" if waived else text, "bad"
    if undecided := counts.get("INCONCLUSIVE", 0):
        text = _counted_with_cause(plain, "INCONCLUSIVE", undecided, waived)
        return f"{text}; {excepted}" if waived else text, "warn"
    if waived:
        return f"{_claims_are(len(waived))} {excepted}", "warn"
    told, missing = _of_nothing_violated(plain["claims"], counts)
    return "; ".join(["Nothing violated", *told]), "warn" if missing else "good"


def _claims_are(number: int) -> str:
    return counted(number, "claim is", "claims are")


def _counted_with_cause(
    plain: Mapping[str, Any], verdict: str, number: int, waived: Sequence[str]
) -> str:
    """``2 claims are violated, for one reason``; claims of ``waived`` are not counted."""
    ids = [
        {claim["id"] for claim in claims if claim["verdict"] == verdict}.difference(waived)
        for claims in summed_up.causes(plain).values()
    ]
    reason = ", for one reason" if number in map(len, ids) else ""
    return f"{_claims_are(number)} {verdict.lower()}{reason}"


def _of_nothing_violated(
    claims: Sequence[Mapping[str, Any]], counts: Mapping[str, int]
) -> tuple[list[str], bool]:
    """Return how far that goes, and whether somebody has to look.

    What a cluster cannot show is no gap of a run.
    """
    unseen = sum(
        summed_up.word(claim) == "NOT_RUN" and str(claim["reason"]).startswith(UNSEEN)
        for claim in claims
    )
    undecided = counts.get("NOT_RUN", 0) + counts.get(summed_up.UNSELECTED, 0) - unseen
    gaps = {word: counts[word] for word in ("UNMET", "ADVISED", "LIFTED") if word in counts}
    gaps |= {"not decided": undecided} if undecided else {}
    rest = {
        "that cannot be seen here": unseen,
        "without a test yet": counts.get(summed_up.UNTESTED, 0),
        "for a person": counts.get(summed_up.HAND, 0),
    }
    decided = sum(counts.get(word, 0) for word in ("CONFIRMED", summed_up.THERE, "NOT_OBSERVED"))
    told = [f"{number} {what}" for what, number in (gaps | rest).items() if number]
    return [f"{_claims_are(decided)} as documented", *told], bool(gaps) or not decided


def _of_gates(plain: Mapping[str, Any], gates: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    names = ", ".join(dict.fromkeys(gate["name"] for gate in gates))
    answers = {gate["answer"] for gate in gates}
    if "not qualified" in answers:
        return f"Not qualified: {names}", "bad"
    if "incomplete" in answers:
        return f"Incomplete: {names}", "warn"
    field = plain["run"]["evidence"] == "field"
    words = f"Qualified: {names}" if field else f"Would qualify: {names}; a lab qualifies nothing"
    waived = plain.get("waived") or {}
    excepted = any(gate["waived"] for gate in gates)
    if excepted:
        words += (
            f"; with exceptions: {', '.join(waived)} waived"
            if waived
            else "; with exceptions that are waived"
        )
    if others := summed_up.beside_gates(plain):
        return f"{words}; beyond that {', '.join(others)} violated", "bad"
    return words, "warn" if excepted else "good"
