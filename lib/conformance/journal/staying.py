# SPDX-License-Identifier: Apache-2.0
"""Describes the effects of a change that could not be undone, from its journal entry alone."""

import json
from typing import Any

from conformance.journal.fields import Content, Field
from conformance.journal.record import Entry
from conformance.journal.redaction import redacted

SHOWN = 120
"""The maximum number of characters of a value in a message."""


def described(entry: Entry) -> str:
    """Return the entry's label with the values of its fields before and after."""
    return f"{entry.label} ({_values(entry)})" if entry.fields else entry.label


def _values(entry: Entry) -> str:
    return ", ".join(
        f"{field.label} {text_of(field, field.before)} -> {text_of(field, field.ours)}"
        for field in entry.fields
    )


def stays(entry: Entry) -> str:
    """Return a sentence about a change that stays: ``FelixConfiguration default
    (projectcalico.org/v3): .spec.vxlanVNI 4096 -> 4097 stays``.

    If it is not known whether the recorded change was made, the text says ``may stay``.
    """
    verb = "stays" if entry.state == "done" else "may stay (it is not known whether it was made)"
    if entry.act == "procedure":
        return f"{entry.procedure} {json.dumps(entry.arguments)} is not undone: {entry.why}"
    label = entry.target.label if entry.target else ""
    if entry.act == "patch":
        return f"{label}: {_values(entry)} {verb}"
    return (
        f"{label}, which this suite made, {verb}"
        if entry.act == "create"
        else f"{label} was deleted: {entry.why}"
    )


def text_of(field: Field, content: Content) -> str:
    """Return a value for messages, without possible secrets."""
    if not content.present:
        return "absent"
    value: Any = redacted({field.path[-1]: content.value})[field.path[-1]]
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
