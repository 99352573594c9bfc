# SPDX-License-Identifier: Apache-2.0
"""Assumptions about nodes as data (``assumptions.yaml``, which describes its fields), and the
timings that follow from measurements of nodes.

The code reads the values from here; ``calico-conformance calibrate`` compares them with the values
of real nodes.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import yaml

from conformance.errors import UsageProblem
from conformance.model.observation import Verdict

KIND = "calico-conformance calibration"
"""The value of the field ``kind`` of every calibration.json."""
SCHEMA = 1
Plain = Mapping[str, Any]


@functools.cache
def assumptions() -> Mapping[str, Plain]:
    """Return the suite's assumptions about nodes, by id."""
    text = resources.files(__package__).joinpath("assumptions.yaml").read_text(encoding="utf-8")
    found: Mapping[str, Plain] = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return found


def number(name: str) -> int:
    """Return the value of an assumption that is a whole number."""
    return int(assumptions()[name]["value"])


def result(name: str) -> tuple[Verdict, str]:
    """Return the value of an assumption about a result: the verdict, and .NET's name of the
    error."""
    verdict, _, words = str(assumptions()[name]["value"]).partition(" ")
    return Verdict(verdict), words.partition("/")[0]


DENIED_VERDICTS = frozenset({result("DENIED")[0]})
"""The verdicts of a policy denial in Calico's Linux and Windows data planes: a silent drop, never a
refusal."""


def calibration(text: str, where: str) -> Plain | None:
    """Return the content of a calibration.json; None: the text is no calibration. Raise
    UsageProblem for another schema."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    if not isinstance(found, dict) or found.get("kind") != KIND:
        return None
    if found.get("schema") != SCHEMA:
        raise UsageProblem(
            f"{where}: the calibration has schema {found.get('schema')}, but this suite reads "
            f"schema {SCHEMA}"
        )
    return found


def calibrated(document: Plain) -> dict[str, dict[str, float]]:
    """Return the timings that follow from a calibration, by section. The slowest measurement of
    each assumption decides."""
    found: dict[str, dict[str, float]] = {}
    for one in assumptions().values():
        observed = values(document["measurements"], one["measured"], one.get("system", ""))
        if "factor" in one and observed:
            section, _, entry = one["timing"].partition(".")
            value = min(max(one["factor"] * max(observed), one["least"]), one["most"])
            found.setdefault(section, {})[entry] = float(value)
    return found


def values(measurements: Sequence[Plain], name: str, system: str) -> list[Any]:
    """Return the values measured under a name, or under its parts (``NAME/part``), on nodes of an
    operating system."""
    return [
        value
        for one in measurements
        if one["id"].partition("/")[0] == name and system in ("", one["system"])
        for value in one["values"]
    ]
