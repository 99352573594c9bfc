# SPDX-License-Identifier: Apache-2.0
"""Write docs/detection.md, which git does not keep, from rows/: ``python -m tests.detection.document``."""

from __future__ import annotations

import re
from pathlib import Path

from tests.detection import (
    bgp_edits,
    cluster_edits,
    ipam_edits,
    life_edits,
    network_edits,
    policies_of_others,
    reading_edits,
)
from tests.detection.table import DEFAULT, OUTSIDE, RED, Row, Table, read

PAGE = Path(__file__).parents[2] / "docs" / "detection.md"
HEAD = """\
# What turns each claim red
Written by `make docs` from [`tests/detection/rows/`](../tests/detection/rows); not kept in git.
[What the suite finds, and what it cannot find](blind-spots.md) says how to run a row, and which breaks no row can show.

A row names the layer that is wrong ([layers](../tests/detection/layers.yaml)). Its claims are those that it names, or
those of the areas that depend on the layer.
"""

OVER_TIME = """
## Policy over time
For each event after which policy can be lost, and each field whose edit can be ignored, the rows in which it is, on a
node of each operating system; what is red names that node. After a row stands which protocol, rules, other ends or
port it is about.

| event or field | Linux | Windows |
| --- | --- | --- |
"""
SYSTEMS = ("linux", "windows")
TIMELY = {"policy-lost": "after", "policy-edit-ignored": "field"}
"""Map each fault that depends on time to its parameter with the event or field."""
WORDS = """
## What a reason must say
A row also asks for words: the first line of one of the claim's reasons, or the path below it with what was seen there,
has to contain the text below, so that a claim is not only red but says what is wrong and where. `…` stands for any
text, a dot for any one character, and NODE for the node of the row. In a row about one node, the first line of every
red reason names that node besides.

| row | claim | what is said contains |
| --- | --- | --- |
"""
_ANY_TEXT = re.compile(r"(?:\.|\[[^]]+\])[*+]")
_ANY_CHARACTER = re.compile(r"\[[^]]+\]")


EDITS = (
    bgp_edits,
    cluster_edits,
    ipam_edits,
    life_edits,
    network_edits,
    policies_of_others,
    reading_edits,
)


def _file(edit: str) -> str:
    """Return the file that contains a change through the API."""
    return next(f"{edits.__name__.rpartition('.')[2]}.py" for edits in EDITS if edit in edits.EDITS)


def page(table: Table) -> str:
    """Return the whole page."""
    lines = [HEAD, "## Claims", "| claim | healthy lab | turned red by |", "| --- | --- | --- |"]
    for claim in table.clean:
        red = (
            "; ".join(f"[{row.name}](#rows): {verdict}" for row, verdict in table.red(claim)) or "-"
        )
        there = [
            f"{given[claim]} on {profile}"
            for profile, given in table.profiles.items()
            if claim in given
        ]
        healthy = " or by chance ".join(table.healthy(claim))
        lines.append(f"| {claim} | {'; '.join([healthy, *there])} | {red} |")
    lines += [
        "",
        "## Rows",
        "| row | layer | what is wrong | how | claims that change | other claims |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    lines += [_line(row, table) for row in table.rows]
    lines += [OVER_TIME.rstrip()] + [
        f"| {' | '.join((what, *rows))} |" for what, *rows in over_time(table)
    ]
    return "\n".join(lines) + "\n" + WORDS + "\n".join(_words(table)) + "\n"


def over_time(table: Table) -> list[tuple[str, str, str]]:
    """Return each event and field with the rows in which policy is lost at it on a red node: first
    Linux', then Windows'."""
    found: dict[str, dict[str, list[str]]] = {}
    for row in table.rows:
        red = {row.node, *(node for nodes in row.red_on.values() for node in nodes)}
        for name, *given in map(str.split, row.faults):
            told = dict(one.split("=", 1) for one in given)
            if name in TIMELY and told.get("node") in red:
                systems = found.setdefault(f"`{told[TIMELY[name]]}`", {})
                about = "".join(
                    f" ({told[key]})" for key in ("protocol", "of", "at", "port") if key in told
                )
                systems.setdefault(told["node"].partition("-")[0], []).append(row.name + about)
    linux, windows = (
        {what: "; ".join(on.get(os, ())) or "-" for what, on in found.items()} for os in SYSTEMS
    )
    return [(what, linux[what], windows[what]) for what in found]


def _words(table: Table) -> list[str]:
    """Return one line for each row and claim for which the table demands words; rows that differ
    only in their node share a line."""
    lines = []
    for row in table.rows:
        for claim, pattern in row.says.items():
            name, text = row.name, readable(pattern)
            if row.node:
                name, text = (whole.replace(row.node, "NODE") for whole in (name, text))
            lines.append(f"| {name} | {claim} | `{text}` |")
    return list(dict.fromkeys(lines))


def readable(pattern: str) -> str:
    """Return a regular expression of the table as text. Raise ValueError if it cannot be written in
    words."""
    text = _ANY_CHARACTER.sub(".", _ANY_TEXT.sub("…", pattern.replace(" +", " "))).replace(
        "|", " or "
    )
    if set(text) & set("\\^$?*+{"):
        raise ValueError(
            f"{pattern!r}: the page has no words for this; write it with . .* [...]+ ( | ) alone"
        )
    return text


def _line(row: Row, table: Table) -> str:
    changed: dict[str, list[str]] = {}
    for claim, verdict in row.expect.items():
        or_else = "".join(f" or {other}" for other in row.may.get(claim, ()))
        changed.setdefault(verdict + or_else, []).append(claim)
    for claim, others in row.may.items():
        if claim not in row.expect:
            changed.setdefault(
                " or ".join((table.clean_of(row.profile)[claim], *others)), []
            ).append(claim)
    order = sorted(changed.items(), key=lambda one: (not one[0].startswith(RED), one[0]))
    text = "; ".join(f"{verdict}: {', '.join(claims)}" for verdict, claims in order) or "none"
    rest = (
        f"not run: {row.why or f'those of other areas than {_areas(row, table)}'}"
        if row.claims
        else "as on a healthy lab"
    )
    rest += f" of {row.profile}" if row.profile != DEFAULT and not row.claims else ""
    return f"| {row.name} | {row.layer} | {row.what} | {_how(row)} | {text} | {rest} |"


def _areas(row: Row, table: Table) -> str:
    return ", ".join(table.layers[row.layer].areas)


def _how(row: Row) -> str:
    parts = [f"`--profile {row.profile}`"] if row.profile != DEFAULT else []
    target = row.external_target
    parts += (
        [f"`pytest --external-target={target}`" if target else "no target named"]
        if target != OUTSIDE
        else []
    )
    parts += [f"`--set {item}`" for item in row.set] + [
        f"`faults inject {fault}`" for fault in row.faults
    ]
    parts += [f"`service-backend-missing` on {', '.join(row.on_service)}"] if row.on_service else []
    parts += [f"`{row.edit}` in {_file(row.edit.partition(' ')[0])}"] if row.edit else []
    parts += [f"`-k {row.only}`"] if row.only else []
    parts += [f"`{option}`" for option in row.options]
    parts += [f"tap `{row.tap}`"] if row.tap else []
    return ", ".join(parts) or "nothing"


if __name__ == "__main__":
    PAGE.write_text(page(read()), encoding="utf-8")
