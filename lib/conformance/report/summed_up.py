# SPDX-License-Identifier: Apache-2.0
"""The counts and groups of a report's claims, the same for every output, from any
``conformance.json``."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from conformance.model.by_key import by_key
from conformance.model.explanation import unnamed
from conformance.model.verdict import PRECEDENCE
from conformance.verdicts.claims import BY_HAND, NO_TEST

Claim = Mapping[str, Any]
UNTESTED = "no test"
HAND = "by hand"
THERE = "still there"
UNSELECTED = "not selected"
"""Words for claims in addition to the verdicts: ``still there`` is a documented limitation, or a
known issue, that was CONFIRMED; ``by hand`` a claim that no program can decide."""
_BESIDE = {"CONFIRMED": [THERE], "NOT_RUN": [UNTESTED, HAND]}
WORDS = (
    *(word for verdict in map(str, PRECEDENCE) for word in (verdict, *_BESIDE.get(verdict, ()))),
    UNSELECTED,
)
"""All words, in the order in which they are counted."""
DEFECTS = ("limitation", "known issue")
_OBSTACLE = r"(the \w+|\S+)(?: \((.*?)\))? ([A-Z_]+|[a-z ]+): (.*)"
FALLEN = ("VIOLATED", "INCONCLUSIVE", "UNMET")
"""Verdicts of failed and undecided claims, which have causes."""
_LOST = re.compile(r"(node \S+) was lost during the run")
AFFECTED = "; affected: "
"""The text that separates the cause of an undecided claim from the path that it is about."""


def word(claim: Claim) -> str:
    """Return the word under which a claim is counted."""
    verdict = claim["verdict"]
    if verdict is None:
        return UNSELECTED
    if verdict == "NOT_RUN" and not claim["results"]:
        return {NO_TEST: UNTESTED, BY_HAND: HAND}.get(claim["reason"], str(verdict))
    return THERE if verdict == "CONFIRMED" and claim["kind"] in DEFECTS else str(verdict)


def counts(claims: Sequence[Claim]) -> dict[str, int]:
    """Map each word to its number of claims, in order of severity."""
    found = Counter(map(word, claims))
    return {term: found[term] for term in WORDS if found[term]}


def causes(plain: Mapping[str, Any]) -> dict[str, list[Claim]]:
    """Map each cause that several claims share to these claims, the worst cause first. Causes that
    let forbidden traffic pass come before all other causes.

    The cause of a single claim is left out.
    """
    found = by_key((cause, claim) for claim, cause in _worst_first(plain) if cause)
    return {cause: claims for cause, claims in found.items() if len(claims) > 1}


def all_causes(plain: Mapping[str, Any]) -> list[tuple[str, list[Claim]]]:
    """Return each cause with its claims, as :func:`causes` does, but including the causes of single
    claims. If a cause is not known, the claim's first line replaces it."""
    return list(
        by_key((cause or first_line(claim), claim) for claim, cause in _worst_first(plain)).items()
    )


def is_known(plain: Mapping[str, Any], cause: str, claims: Sequence[Claim]) -> bool:
    """Return whether a text is a known cause (named by a test, shared by undecided claims, or the
    loss of a node) and not only a claim's first line.
    """
    shared = len(claims) > 1 and claims[0]["verdict"] == "INCONCLUSIVE"
    return (
        shared
        or any(test.get("cause") == cause for test in plain.get("tests") or ())
        or bool(_LOST.fullmatch(cause))
    )


def first_line(claim: Claim) -> str:
    """Return the first line of a claim's reason, without words that are shown separately: its id,
    and the path that an undecided claim is about.
    """
    line = unnamed(str(claim["reason"] or "").partition("\n")[0], claim["id"])
    return line.partition(AFFECTED)[0] if claim["verdict"] == "INCONCLUSIVE" else line


def _worst_first(plain: Mapping[str, Any]) -> list[tuple[Claim, str]]:
    order = {claim["id"]: number for number, claim in enumerate(plain["claims"])}
    return sorted(
        _fallen(plain),
        key=lambda pair: (
            not pair[0].get("opens"),
            WORDS.index(word(pair[0])),
            not pair[1],
            order[pair[0]["id"]],
        ),
    )


def _fallen(plain: Mapping[str, Any]) -> Iterator[tuple[Claim, str]]:
    """Yield failed and undecided claims, each with its cause; the cause is empty if it is not
    known.

    A NOT_RUN claim is included only if its cause is known.

    Claims that are undecided for the same reason have this reason as their cause.
    """
    by_test = {test["test"]: test.get("cause") or "" for test in plain.get("tests") or ()}
    for claim in plain["claims"]:
        known = (
            by_test.get(result["test"], "")
            for result in claim["results"]
            if result["verdict"] == claim["verdict"]
        )
        cause = next(filter(None, known), "") or _undecided(claim, by_test.values())
        if claim["verdict"] in FALLEN or (claim["verdict"] == "NOT_RUN" and cause):
            yield claim, cause


def _undecided(claim: Claim, known: Iterable[str]) -> str:
    """Return the cause of an INCONCLUSIVE claim by its first line: a known cause that explains the
    line, the loss of a node with which the line begins, or the whole line. Return an empty text for
    any other claim."""
    if claim["verdict"] != "INCONCLUSIVE":
        return ""
    line = first_line(claim)
    return next(
        (cause for cause in known if cause and _is_within(cause, line)),
        lost[0] if (lost := _LOST.match(line)) else line,
    )


def _is_within(cause: str, line: str) -> bool:
    """Return whether a known cause explains a first line: the line contains the cause, or the cause
    is the loss of a node and the line names this node as tainted."""
    lost = _LOST.match(cause)
    return cause in line or bool(lost and f"{lost[1]} is tainted node.kubernetes.io/" in line)


def grouped(obstacles: Sequence[str], known: Mapping[tuple[str, str], str]) -> list[str]:
    """Return the lines of a gate: one line for each claim and verdict, but a single line for claims
    with the same verdict and reason.

    ``known``: maps claim and verdict to the known cause, which replaces the reason with its path.
    """
    parts: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for line in obstacles:
        reported = re.fullmatch(_OBSTACLE, line, re.DOTALL)
        claim, part, verdict, why = reported.groups("") if reported else (line, "", "", "")
        why = known.get((claim, verdict)) or unnamed(why, claim)
        parts.setdefault((claim, verdict), []).append((part, why))
    found: dict[str, list[str]] = {}
    for (claim, verdict), ((part, why), *more) in parts.items():
        named = f" ({f'{len(more) + 1} parts' if more else part})" if part else ""
        found.setdefault(": ".join(filter(None, (verdict, why))), []).append(f"{claim}{named}")
    return [f"{', '.join(claims)} {line}".rstrip() for line, claims in found.items()]


def gates(plain: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the gates, with their obstacles as :func:`grouped`. Gates of a set that differ only in
    their headlines share an entry."""
    known = {(claim["id"], claim["verdict"]): cause for claim, cause in _fallen(plain) if cause}
    found: list[dict[str, Any]] = []
    for gate in plain.get("gates") or ():
        entry = {
            **gate,
            "headlines": [gate["headline"]],
            "obstacles": grouped(gate["obstacles"], known),
        }
        if found and all(
            found[-1][what] == entry[what] for what in ("name", "answer", "obstacles", "waived")
        ):
            found[-1]["headlines"].append(gate["headline"])
        else:
            found.append(entry)
    return found


def beside_gates(plain: Mapping[str, Any]) -> list[str]:
    """Return violated claims that no required set contains and no waiver accepts."""
    judged = plain.get("gates") or ()
    named = {
        line.partition(" ")[0] for gate in judged for line in (*gate["obstacles"], *gate["waived"])
    }
    named |= set(plain.get("waived") or ())
    violated = [claim["id"] for claim in plain["claims"] if claim["verdict"] == "VIOLATED"]
    return [ident for ident in violated if judged and ident not in named]
