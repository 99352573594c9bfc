# SPDX-License-Identifier: Apache-2.0
"""Assertions about paths, for pull requests: a list of paths that must be open, or must stay
closed.

A file has a list of ``{name, from, to, port, protocol, expect, columns}``; ``from`` and ``to`` are
a pod (``shop/web``), a pattern (``shop/*``), an address, or a list of these.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from conformance.errors import UsageProblem
from conformance.offline.compare import Side, column
from conformance.offline.summary import NAMES, WORDS, named
from conformance.offline.walk import at_port, ends_of
from conformance.policy.oracle import fields
from conformance.policy.oracle.oracle import of_way
from conformance.policy.reach import Answer, End, Reach, is_pair
from conformance.printing import plain

FIELDS = {"name", "from", "to", "port", "protocol", "expect", "columns"}
DEFAULT = ("promise", "windows")


@dataclass(frozen=True)
class Result:
    """An assertion, and the paths that contradict it."""

    name: str
    asked: int
    """The number of paths; each column counts separately."""
    wrong: tuple[str, ...]


def addresses(documents: Sequence[Any]) -> list[str]:
    """Return the addresses that assertions name; they are ends of paths in addition to the pods."""
    found: list[str] = []
    for one in _listed(documents):
        found.extend(
            text
            for text in (text for key in ("from", "to") for text in _texts(one.get(key), key))
            if is_address(text)
        )
    return list(dict.fromkeys(found))


def is_address(text: str) -> bool:
    """Return whether a text is an IP address."""
    try:
        fields.ip(text)
    except UsageProblem:
        return False
    return True


def results(reach: Reach, documents: Sequence[Any]) -> list[Result]:
    """Return the result of each assertion. Raise UsageProblem for an assertion that cannot be read,
    or that matches no end."""
    return [_result(reach, one, number) for number, one in enumerate(_listed(documents), start=1)]


def _listed(documents: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
    every = [one for document in documents for one in fields.sequence(document, "assertions")]
    if not every:
        raise UsageProblem("assertions: a list with at least one assertion is expected")
    yield from (
        fields.mapping(one, f"assertion {number}", FIELDS)
        for number, one in enumerate(every, start=1)
    )


def _texts(given: Any, where: str) -> list[str]:
    listed = given if isinstance(given, list) else [given]
    if not listed or not all(isinstance(text, str) for text in listed):
        raise UsageProblem(
            f"{where}: a pod, a pattern or an address is expected, not {fields.shown(given)}"
        )
    return listed


def _result(reach: Reach, one: Mapping[str, Any], number: int) -> Result:
    where = f"assertion {number}"
    expected = fields.one_of(one.get("expect"), f"{where} expect", {"open", "closed"})
    names = one.get("columns")
    columns = [column(text) for text in (DEFAULT if names is None else _texts(names, where))]
    protocol, port = at_port(str(one.get("protocol") or "TCP"), one.get("port"), f"{where} ")
    pairs = list(_pairs(reach, one, where, expected))
    at = f"{NAMES.get(protocol, protocol)} {port}" if port else NAMES.get(protocol, protocol)
    name = str(one.get("name") or f"{where}: {at} {expected}")
    wrong = []
    for pair in pairs:
        for each in columns:
            reported = _wrong(Side(reach, each), pair, protocol, port, expected)
            if reported:
                wrong.append(f"{named(pair[0])} to {named(pair[1])}, {at}, {each.name}: {reported}")
    return Result(name, len(pairs) * len(columns), tuple(wrong))


def _pairs(
    reach: Reach, one: Mapping[str, Any], where: str, expected: str
) -> Iterator[tuple[End, End]]:
    """Yield the pairs of ends that an assertion is about. Raise UsageProblem if there is none.

    Two ends without a common IP version cannot exchange packets: such a pair is not open, and shows
    nothing about policies.
    """
    ends = [
        [end for text in _texts(one.get(key), f"{where} {key}") for end in ends_of(reach, text)]
        for key in ("from", "to")
    ]
    pairs = [
        (source, target)
        for source in ends[0]
        for target in ends[1]
        if is_pair(source, target) and (expected == "open" or _families((source, target)))
    ]
    if not pairs:
        raise UsageProblem(f"{where}: no pair of the named ends has an answer")
    yield from pairs


def _wrong(side: Side, pair: tuple[End, End], protocol: int, port: int, expected: str) -> str:
    """Return the actual result if it differs from the expected result; otherwise an empty text."""
    for family in _families(pair):
        decisions = side.decisions(pair, Answer(family, protocol, (), (), ()), port)
        found = WORDS[of_way(decisions)]
        if found != expected:
            return f"{found}, {'; '.join(map(str, decisions))}"
    return "" if _families(pair) else "closed: the ends have no address of the same IP version"


def _families(pair: tuple[End, End]) -> set[int]:
    """Return the IP versions that both ends have."""
    return pair[0].addresses.keys() & pair[1].addresses.keys()


def lines(found: Sequence[Result], most: int) -> Iterator[str]:
    """Yield the results: the number of assertions that hold, then the assertions that do not
    hold."""
    failed = [one for one in found if one.wrong]
    yield f"{len(found) - len(failed)} of {len(found)} assertions hold"
    for one in failed:
        yield f"FAILED {one.name}: {len(one.wrong)} of {one.asked} paths differ"
        yield from (f"  {line}" for line in one.wrong[:most])
        if len(one.wrong) > most:
            yield f"  and {len(one.wrong) - most} more: --all"


def junit(found: Sequence[Result]) -> str:
    """Return the results as JUnit's XML."""
    suite = ElementTree.Element(
        "testsuite",
        name="policy",
        tests=str(len(found)),
        failures=str(sum(bool(one.wrong) for one in found)),
    )
    for one in found:
        case = ElementTree.SubElement(suite, "testcase", classname="policy", name=plain(one.name))
        if one.wrong:
            message = plain(f"{len(one.wrong)} of {one.asked} paths differ")
            ElementTree.SubElement(case, "failure", message=message).text = plain(
                "\n".join(one.wrong)
            )
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"
