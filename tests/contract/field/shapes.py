# SPDX-License-Identifier: Apache-2.0
"""Shapes of the output of programs on Windows hosts: fields, their types, and classes of their
values. Pure.

A field is a path such as ``networks[Overlay].Subnets[].AddressPrefix``: the word in brackets is the
``Type`` of an item of a list. Output that is no JSON is compared by lines, with classes in place of
values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from conformance.calibrate.record import CUT

Programs = Sequence[Mapping[str, str]]
"""The field ``programs`` of a calibration."""
CLASSES = {
    "nothing": r"",
    "GUID": r"\{?[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\}?",
    "MAC address": r"[0-9a-fA-F]{2}([-:][0-9a-fA-F]{2}){5}",
    "network": r"\d+(\.\d+){3}/\d+",
    "address and port": r"\d+(\.\d+){3}:\d+",
    "address": r"\d+(\.\d+){3}|[0-9a-f]*:[0-9a-f:]+:[0-9a-f]*",
    "update": r"KB\d+",
    "digits": r"-?\d+",
    "version": r"v?\d+(\.\d+)+",
    "list of numbers": r"\d+(,\d+)+",
    "path": r"[A-Za-z]:\\\S*",
    "time": r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d.*|/Date\(-?\d+.*\)/",
}
"""Classes of texts; every other value is of the class text."""
WORDS = re.compile(r"[^\s=,;\"'()\[\]]+")
FIRST = json.JSONDecoder()


def differences(recorded: Programs, lab: Programs) -> list[str]:
    """Return one line for each shape that only real nodes, or only the lab, printed.

    If a node's output was cut off, nothing counts as missing from it. Output of a program that ran
    while other programs started counts as the program's output, too.
    """
    theirs, ours = _shapes(recorded), _shapes(lab)
    cut = {_name(one) for one in recorded if one["output"].endswith(CUT)}
    found = []
    for name in sorted(theirs.keys() | ours.keys()):
        node, own = theirs.get(name), ours.get(name)
        if node is None or own is None:
            found.append(f"{name}: {'the lab' if own is None else 'a node'} was not asked")
            continue
        found += [f"{name}: {line}: the lab has none" for line in sorted(node - own)]
        found += [
            f"{name}: {line}: the lab alone has it"
            for line in sorted(own - node)
            if name not in cut
        ]
    return found


def _name(one: Mapping[str, str]) -> str:
    return one["program"].partition(", ")[0]


def _shapes(programs: Programs) -> dict[str, set[str]]:
    """Map each program to the shapes of its output on all nodes together."""
    found: dict[str, set[str]] = {}
    for one in programs:
        lines = found.setdefault(_name(one), set())
        if "error" in one:
            lines.add("no output")
            continue
        if one.get("exit_code", "0") != "0":
            lines.add("another exit code than 0")
        lines.update(shape(one["output"].removesuffix(CUT)))
    return found


def shape(text: str) -> Iterator[str]:
    """Yield the fields of JSON texts, and the forms of all other lines."""
    rest = text.strip()
    while rest:
        try:
            value, end = FIRST.raw_decode(rest)
        except ValueError:
            end = None
        if end is None or not isinstance(value, dict | list):
            line, _, rest = rest.partition("\n")
            yield f"line {_form(line.strip())!r}"
        else:
            yield from _fields(value, "")
            rest = rest[end:]
        rest = rest.strip()


def _fields(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        if not value:
            yield f"{path}: an empty object"
        for key, item in value.items():
            yield from _fields(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        if not value:
            yield f"{path}: an empty list"
        for item in value:
            kind = item.get("Type") if isinstance(item, dict) else None
            yield from _fields(item, f"{path}[{kind if isinstance(kind, str) else ''}]")
    elif isinstance(value, str) and value[:1] in ("{", "["):
        try:
            yield from _fields(json.loads(value), path)
        except ValueError:  # either a GUID in braces or a text
            yield f"{path}: {_class(value)}"
    else:
        yield f"{path}: {_class(value)}"


def _class(value: Any) -> str:
    if not isinstance(value, str):
        kinds = {bool: "a truth value", int: "a number", float: "a number"}
        return kinds.get(type(value), "null")
    matching = (name for name, form in CLASSES.items() if re.fullmatch(form, value))
    return next(matching, "text")


def _form(line: str) -> str:
    """Return a line with classes in place of its values."""

    def known(word: re.Match[str]) -> str:
        found = _class(word[0])
        return word[0] if found == "text" else f"<{found}>"

    return WORDS.sub(known, line)
