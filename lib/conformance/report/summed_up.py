# SPDX-License-Identifier: Apache-2.0
"""How a report's claims are counted and grouped, for every output alike.  Reads ``conformance.json``, of any age."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
"""Words of claims beside their verdicts: ``still there`` is a documented limitation, or a known issue, that was
CONFIRMED; ``by hand`` one that no program can decide."""
_BESIDE = {"CONFIRMED": [THERE], "NOT_RUN": [UNTESTED, HAND]}
WORDS = (
    *(word for verdict in map(str, PRECEDENCE) for word in (verdict, *_BESIDE.get(verdict, ()))),
    UNSELECTED,
)
"""All of them, in the order in which they are counted."""
DEFECTS = ("limitation", "known issue")
_OBSTACLE = r"(the \w+|\S+)(?: \((.*?)\))? ([A-Z_]+|[a-z ]+): (.*)"
FALLEN = ("VIOLATED", "INCONCLUSIVE", "UNMET")
"""Verdicts that have a cause."""


def word(claim: Claim) -> str:
    """What a claim is counted as."""
    verdict = claim["verdict"]
    if verdict is None:
        return UNSELECTED
    if verdict == "NOT_RUN" and not claim["results"]:
        return {NO_TEST: UNTESTED, BY_HAND: HAND}.get(claim["reason"], str(verdict))
    return THERE if verdict == "CONFIRMED" and claim["kind"] in DEFECTS else str(verdict)


def counts(claims: Sequence[Claim]) -> dict[str, int]:
    """Word to how many claims, in order of severity."""
    found = Counter(map(word, claims))
    return {one: found[one] for one in WORDS if found[one]}


def causes(plain: Mapping[str, Any]) -> dict[str, list[Claim]]:
    """What several claims fail of to those claims, what is open first, then the worst; that of one claim is in none."""
    fallen = sorted(
        _fallen(plain), key=lambda one: (not one[0].get("opens"), WORDS.index(word(one[0])))
    )
    found = by_key((cause, claim) for claim, cause in fallen)
    return {cause: claims for cause, claims in found.items() if len(claims) > 1}


def _fallen(plain: Mapping[str, Any]) -> Iterator[tuple[Claim, str]]:
    """Claims of which it is known what they fail of, with that."""
    by_test = {test["test"]: test.get("cause") or "" for test in plain.get("tests") or ()}
    for claim in plain["claims"] if by_test else ():
        told = [
            by_test.get(one["test"], "")
            for one in claim["results"]
            if one["verdict"] == claim["verdict"]
        ]
        if claim["verdict"] in FALLEN and any(told):
            yield claim, next(filter(None, told))


def grouped(obstacles: Sequence[str], known: Mapping[tuple[str, str], str]) -> list[str]:
    """Lines of a gate, one for each claim and verdict however many of its parts, and for claims that say the same.

    ``known``: claim and verdict to what it fails of, which is said in the place of a path.
    """
    parts: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for line in obstacles:
        told = re.fullmatch(_OBSTACLE, line, re.DOTALL)
        claim, part, said, why = told.groups("") if told else (line, "", "", "")
        why = known.get((claim, said)) or unnamed(why, claim)
        parts.setdefault((claim, said), []).append((part, why))
    found: dict[str, list[str]] = {}
    for (claim, said), ((part, why), *more) in parts.items():
        named = f" ({f'{len(more) + 1} parts' if more else part})" if part else ""
        found.setdefault(": ".join(filter(None, (said, why))), []).append(f"{claim}{named}")
    return [f"{', '.join(claims)} {said}".rstrip() for said, claims in found.items()]


def gates(plain: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Gates with ``obstacles`` as :func:`grouped`; those of one set that say the same together, by ``headlines``."""
    known = {(claim["id"], claim["verdict"]): cause for claim, cause in _fallen(plain)}
    found: list[dict[str, Any]] = []
    for gate in plain.get("gates") or ():
        said = {
            **gate,
            "headlines": [gate["headline"]],
            "obstacles": grouped(gate["obstacles"], known),
        }
        if found and all(
            found[-1][what] == said[what] for what in ("name", "answer", "obstacles", "waived")
        ):
            found[-1]["headlines"].append(gate["headline"])
        else:
            found.append(said)
    return found


def beside_gates(plain: Mapping[str, Any]) -> list[str]:
    """Claims that are violated and in no gate's way, since no set that was asked for has them; nobody waived them."""
    judged = plain.get("gates") or ()
    told = {
        line.partition(" ")[0] for gate in judged for line in (*gate["obstacles"], *gate["waived"])
    }
    told |= set(plain.get("waived") or ())
    violated = [claim["id"] for claim in plain["claims"] if claim["verdict"] == "VIOLATED"]
    return [ident for ident in violated if judged and ident not in told]
