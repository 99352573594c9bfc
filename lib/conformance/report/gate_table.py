# SPDX-License-Identifier: Apache-2.0
"""The answers of gates as a table: a row for each set of claims, a column for each build."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conformance.model.by_key import by_key

LAB = (
    "Results from a lab qualify no release. The answers show what the gates would say for a "
    "cluster with these results."
)


@dataclass(frozen=True)
class Row:
    """A row of the table: a set of claims."""

    name: str
    required: bool
    answers: Mapping[str, str]
    """The gate's answer for each build."""
    headlines: Mapping[str, str]
    """The gate's answer for each build, with the numbers of claims that are obstacles."""


@dataclass(frozen=True)
class Table:
    """All sets of claims for which a report has an answer."""

    builds: Sequence[str]
    rows: Sequence[Row]


def of_report(plain: Mapping[str, Any]) -> Table:
    """Return the table of a report; it has no rows if the report answers no gate. The row of a
    required set has the answers that decided the run; older reports contain only such sets."""
    gates = by_key((gate["name"], gate) for gate in plain.get("gates") or ())
    others = by_key((answer["name"], answer) for answer in plain.get("sets") or ())
    answers = {name: [*others.get(name, ()), *gates.get(name, ())] for name in (*gates, *others)}
    return Table(
        builds=list(dict.fromkeys(each["build"] for found in answers.values() for each in found)),
        rows=[
            Row(
                name=name,
                required=name in gates,
                answers={each["build"]: each["answer"] for each in found},
                headlines={each["build"]: each["headline"] for each in found},
            )
            for name, found in answers.items()
        ],
    )
