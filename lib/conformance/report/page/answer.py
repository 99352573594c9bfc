# SPDX-License-Identifier: Apache-2.0
"""The page's headline: the run's result, whether it is good, and its scope."""

from collections.abc import Mapping, Sequence
from typing import Any

from conformance.model.counted import counted
from conformance.report import summed_up
from conformance.report.terminal import meaning
from conformance.verdicts.claims import NOT_OBSERVABLE

CLEAN = "Nothing violated"
SHORT = "short: it shows nothing about what it did not reach"
GAPS = {"UNMET", "ADVISED", "LIFTED", "not decided"}
"""The keys of ``WORDS`` that need attention. Claims that a cluster cannot show, or whose tests fill
a node, do not count as a gap of a run."""
FILLS = "--allow-node-fill"
WORDS: dict[bool, dict[str, str]] = {
    False: {
        "UNMET": "are UNMET",
        "ADVISED": "are ADVISED",
        "LIFTED": "are LIFTED",
        "not decided": "were not decided",
        "unseen": "cannot be checked on it",
        FILLS: f"need {FILLS}",
        summed_up.UNTESTED: "have no test yet",
        summed_up.HAND: "need a person",
    },
    True: {
        "UNMET": "is UNMET",
        "ADVISED": "is ADVISED",
        "LIFTED": "is LIFTED",
        "not decided": "was not decided",
        "unseen": "cannot be checked on it",
        FILLS: f"needs {FILLS}",
        summed_up.UNTESTED: "has no test yet",
        summed_up.HAND: "needs a person",
    },
}
"""Texts about claims that do not hold as documented: for several claims, and for a single claim."""


def headline(plain: Mapping[str, Any]) -> tuple[str, str]:
    """Return the page's first line and its tone: ``good``, ``bad`` or ``warn``."""
    text, tone = _answer(plain)
    cause = str(plain["run"].get("exit_cause") or "")
    explained = cause.startswith("--require") or not (cause or text == CLEAN)
    if tone == "bad" or explained or not plain["run"]["exit_code"]:
        return text, tone
    return f"{text}; however, exit code {plain['run']['exit_code']}: {meaning(plain)}", "bad"


def reach(plain: Mapping[str, Any]) -> str:
    """Return in two sentences what "Nothing violated" covers; empty for any other headline."""
    if not headline(plain)[0].startswith(CLEAN):
        return ""
    decided, rest = _decided(plain["claims"], summed_up.counts(plain["claims"]))
    claims = counted(decided + sum(rest.values()), "claim that applies", "claims that apply")
    left = ", ".join(f"{number} {WORDS[number == 1][what]}" for what, number in rest.items())
    return (
        f"{decided} of the {claims} to this cluster {'holds' if decided == 1 else 'hold'} "
        f"as documented.{left and f' {left}.'}"
    )


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
        text = f"{_claims_are(violated)} violated, and the run was cut {SHORT}"
        return (text, "bad") if violated else (f"Cut {SHORT}", "warn")
    if gates := plain.get("gates"):
        return _of_gates(plain, gates)
    excepted = f"violated, and waived: {', '.join(waived)}"
    if number := violated or counts.get("INCONCLUSIVE", 0):
        verdict, tone = ("VIOLATED", "bad") if violated else ("INCONCLUSIVE", "warn")
        text = f"{_claims_are(number)} {verdict.lower()}{_why(plain, (verdict,), waived)}"
        return f"{text}; {excepted}" if waived else text, tone
    if waived:
        return f"{_claims_are(len(waived))} {excepted}", "warn"
    decided, rest = _decided(plain["claims"], counts)
    return CLEAN, "warn" if not decided or GAPS.intersection(rest) else "good"


def _claims_are(number: int) -> str:
    return counted(number, "claim is", "claims are")


def _why(plain: Mapping[str, Any], verdicts: Sequence[str], waived: Sequence[str] = ()) -> str:
    """Return the cause of all claims with these verdicts, or the number of their causes; empty if
    no cause is known."""
    found = {
        text: claims
        for text, claims in summed_up.all_causes(plain)
        if any(claim["verdict"] in verdicts and claim["id"] not in waived for claim in claims)
    }
    known = [text for text, claims in found.items() if summed_up.is_known(plain, text, claims)]
    if not known:
        return ""
    return f", for {len(found)} causes" if len(found) > 1 else f": {known[0]}"


def _decided(
    claims: Sequence[Mapping[str, Any]], counts: Mapping[str, int]
) -> tuple[int, dict[str, int]]:
    """Return the number of claims that hold as documented. For the other claims, map keys of
    ``WORDS`` to numbers of claims."""
    left = [claim for claim in claims if summed_up.word(claim) == "NOT_RUN"]
    rest = {word: counts.get(word, 0) for word in WORDS[False]} | {
        "unseen": sum(str(claim["reason"]).startswith(NOT_OBSERVABLE) for claim in left),
        FILLS: sum(FILLS in str(claim.get("remedy")) for claim in left),
    }
    rest["not decided"] = (
        counts.get(summed_up.UNSELECTED, 0) + len(left) - rest["unseen"] - rest[FILLS]
    )
    decided = sum(counts.get(word, 0) for word in ("CONFIRMED", summed_up.THERE, "NOT_OBSERVED"))
    return decided, {what: number for what, number in rest.items() if number}


def _gaps(plain: Mapping[str, Any], gates: Sequence[Mapping[str, Any]]) -> str:
    """Return why claims are undecided, and how many claims of the gates' sets the run leaves
    out."""
    obstacles = [each.partition(" ") for gate in gates for each in gate["obstacles"]]
    left = {claim for claim, _, why in obstacles if f"{summed_up.UNSELECTED}: " in why}
    rest = f"; {counted(len(left), 'claim')} {summed_up.UNSELECTED}" if left else ""
    return _why(plain, ("INCONCLUSIVE", "NOT_RUN")) + rest


def _of_gates(plain: Mapping[str, Any], gates: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    names = ", ".join(dict.fromkeys(gate["name"] for gate in gates))
    answers = {gate["answer"] for gate in gates}
    if "not qualified" in answers:
        return f"Not qualified: {names}{_why(plain, ('VIOLATED',))}", "bad"
    if "incomplete" in answers:
        return f"Incomplete: {names}{_gaps(plain, gates)}", "warn"
    words = (
        f"Qualified: {names}"
        if plain["run"]["evidence"] == "field"
        else f"Would qualify: {names}; results from a lab qualify no release"
    )
    waived = plain.get("waived") or {}
    if excepted := any(gate["waived"] for gate in gates):
        words += (
            f"; with exceptions: {', '.join(waived)} waived"
            if waived
            else "; with exceptions that are waived"
        )
    if others := summed_up.beside_gates(plain):
        return f"{words}; beyond that {', '.join(others)} violated", "bad"
    return words, "warn" if excepted else "good"
