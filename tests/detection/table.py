# SPDX-License-Identifier: Apache-2.0
"""Reads rows/*.yaml: the verdict that every claim must have on a healthy lab, and on each lab that
is wrong on purpose.

A file is an area, like a folder of suites/. It contains the clean verdicts of the area's claims,
and the rows about these claims. layers.yaml defines which areas depend on what a row breaks. This
module does not judge runs; it refuses a table that contradicts itself.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests import fast_yaml

ROWS = Path(__file__).with_name("rows")
LAYERS = Path(__file__).with_name("layers.yaml")
CONCLUSIONS: dict[str, str] = fast_yaml.load(
    Path(__file__).with_name("conclusions.yaml").read_text(encoding="utf-8")
)
"""Map each kind of conclusion about the failed layer to words that only this kind contains."""
RED = ("VIOLATED", "UNMET", "LIFTED", "ADVISED")
"""Verdicts which state that the cluster does not do what the claim states."""
REASONED = ("NOT_RUN", "ADVISED")
"""Verdicts for which a row must also give words of the reason."""
CHANGES = (*RED, "INCONCLUSIVE", "CONFIRMED", "NOT_OBSERVED", "NOT_RUN", "NOT_APPLICABLE")
DEFAULT = "default"
"""The profile of rows that name none."""
OUTSIDE = "198.51.100.10"
"""The default address of the host outside the lab's cluster."""
FIELDS = {
    "layer", "what", "why", "each", "on_node", "profile", "external_target", "set", "tap", "faults", "edit",
    "on_service", "claims", "options", "workers", "timings", "only", "expect", "may", "whole", "says", "red_on", "records",
    "known", "concludes", "exit",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Row:
    """One lab, what is wrong with it, and what the suite must report about it."""

    name: str
    layer: str
    """The broken part of the cluster: a layer of layers.yaml."""
    what: str
    """The defect, in words for the documentation."""
    why: str = ""
    """The reason why only some claims or tests are run; empty: all are run, or all of the layer's
    areas."""
    node: str = ""
    """The only wrong node: every red reason names it, and only its build is red; empty: there is no
    such node."""
    on_node: dict[str, str] = field(default_factory=dict)
    """Map each claim to the verdict that the node's build must have, if another build decides the
    claim's own verdict."""
    profile: str = DEFAULT
    """The value of ``hybridlab up --profile``; claims that the row does not mention must have the
    profile's clean verdicts."""
    set: tuple[str, ...] = ()
    """The values of ``hybridlab up --set``."""
    tap: str = ""
    """The name of a tap (``taps/table.py``), followed by its way if it has several."""
    faults: tuple[str, ...] = ()
    """The arguments of ``hybridlab faults inject``, before the run."""
    edit: str = ""
    """The name of a change through the API (``*_edits.py``, policies_of_others.py) before or during
    the run; ``NAME NODE`` for a change of one node."""
    on_service: tuple[str, ...] = ()
    """The nodes on which every Service of the run gets service-backend-missing as soon as it is
    created; ``NODE for TEXT``: only Services whose names end with TEXT."""
    external_target: str = OUTSIDE
    """The value of ``pytest --external-target``; empty: the option is not given."""
    claims: tuple[str, ...] = ()
    """The claims to run; none: all. In the file: ``all``, a list, or nothing for the claims of the
    layer's areas."""
    options: tuple[str, ...] = ()
    """Further options of pytest, for claims that run only with these options."""
    workers: int = 0
    """The value of ``pytest -n``; 0: two workers, as ``-n auto`` would choose, since a Windows node
    has room for the agents of two."""
    timings: dict[str, str] = field(default_factory=dict)
    """Timings of both operating systems that differ from timings.yaml."""
    only: str = ""
    """The value of ``pytest -k``, which selects tests of the claims; empty: all tests."""
    expect: dict[str, str] = field(default_factory=dict)
    """Map each claim to the verdict that it must have."""
    may: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Map claims to other allowed verdicts, since timing or placement with two workers decides."""
    whole: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Map other claims to the verdicts that they may have when all claims run on this lab, if these
    are not the healthy verdicts."""
    says: dict[str, str] = field(default_factory=dict)
    """Map each claim to a regular expression that the first line of one of its reasons must
    match."""
    red_on: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Map each claim to the nodes of its violated decisions: each such decision has one of these
    nodes at an end, and each of these nodes has such a decision."""
    records: dict[str, str] = field(default_factory=dict)
    """Map each claim to ``NAME >= NUMBER``, a condition that one of its measurements must meet."""
    known: dict[str, str] = field(default_factory=dict)
    """Map each claim to the known issues that explain it: a regular expression for each, in order,
    with " & " between them; empty: no issue explains it."""
    concludes: tuple[str, ...] = ()
    """The kinds of conclusions (conclusions.yaml) that failures lead to, each at least once, and no
    other kind; ``A or B`` if only timing decides; empty: not checked."""
    exit: int = 0

    @property
    def parallel(self) -> int:
        """Return the number of workers."""
        return self.workers or 2

    @property
    def lab(self) -> tuple[str, tuple[str, ...], str]:
        """Return the settings by which a row's lab is chosen."""
        return (self.profile, self.set, self.tap)

    @property
    def long(self) -> bool:
        """Return whether the row runs every test of the suite: this takes minutes, and twice as
        long if the result differs and is run again."""
        return not self.claims and not self.only

    @property
    def named(self) -> frozenset[str]:
        """Return the claims that the row mentions."""
        return frozenset(
            (
                *self.expect,
                *self.may,
                *self.on_node,
                *self.says,
                *self.red_on,
                *self.records,
                *self.known,
            )
        )

    def allowed(self, claim: str, healthy: tuple[str, ...]) -> tuple[str, ...]:
        """Return the verdicts that a claim may have in this row; ``healthy`` are the possible
        verdicts on a healthy lab."""
        if claim in self.whole:
            return self.whole[claim]
        wanted = (self.expect[claim],) if claim in self.expect else healthy
        return (*wanted, *self.may.get(claim, ()))

    def of_all_claims(self) -> Row:
        """Return the row with every claim and test. Claims that the row does not mention must be as
        on a healthy lab."""
        return replace(self, claims=(), only="", why="")

    def of_one_claim(self, claim: str) -> Row:
        """Return the row with only this claim."""
        kept: dict[str, Any] = {
            name: {one: value for one, value in getattr(self, name).items() if one == claim}
            for name in ("expect", "may", "on_node", "says", "red_on", "records", "known")
        }
        return replace(
            self,
            claims=(claim,),
            only=self.only if claim in self.claims else "",
            concludes=(),
            **kept,
        )


def kinds_of(conclusion: str) -> list[str]:
    """Return the kinds of a conclusion about the failed layer."""
    return [kind for kind, words in CONCLUSIONS.items() if words in conclusion]


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A part of a cluster that can be wrong."""

    areas: tuple[str, ...]
    """The areas whose claims depend on it."""
    files: tuple[str, ...]
    """The beginnings of paths of files whose change may change its rows."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """The whole table."""

    clean: dict[str, str]
    """Map every claim that has a test to its verdict on a healthy lab of the default profile."""
    rows: tuple[Row, ...]
    areas: dict[str, str] = field(default_factory=dict)
    """Map each claim to its area."""
    layers: dict[str, Layer] = field(default_factory=dict)
    profiles: dict[str, dict[str, str]] = field(default_factory=dict)
    """Map each other profile to the verdicts on its healthy lab that differ from the default
    profile's."""
    by_chance: dict[str, str] = field(default_factory=dict)
    """Map claims to another possible verdict on a healthy lab, since only timing decides."""

    def clean_of(self, profile: str) -> dict[str, str]:
        """Map each claim to its verdict on a healthy lab of a profile."""
        return self.clean | self.profiles.get(profile, {})

    def healthy(self, claim: str, profile: str = DEFAULT) -> tuple[str, ...]:
        """Return the possible verdicts of a claim on a healthy lab of a profile."""
        clean = self.clean_of(profile)[claim]
        return (clean, self.by_chance[claim]) if claim in self.by_chance else (clean,)

    def red(self, claim: str) -> list[tuple[Row, str]]:
        """Return the rows in which a claim must be red, each with the verdict."""
        return [(row, row.expect[claim]) for row in self.rows if row.expect.get(claim) in RED]

    def concerning(self, claim: str) -> list[Row]:
        """Return the rows that run a claim, each reduced to this claim."""
        return [
            row.of_one_claim(claim) for row in self.rows if not row.claims or claim in row.claims
        ]


def read(folder: Path = ROWS, layers: Path = LAYERS) -> Table:
    """Return the table from the files of a folder. Raise ValueError, with file and row, if it
    contradicts itself."""
    files = {
        path.name: fast_yaml.load(path.read_text(encoding="utf-8"))
        for path in sorted(folder.glob("*.yaml"))
    }
    table = Table(
        clean=_joined(files, "clean"),
        profiles=_profiles(files),
        by_chance=_joined(files, "by_chance"),
        areas={
            claim: file.partition(".")[0]
            for file, plain in files.items()
            for claim in plain.get("clean", ())
        },
        layers={
            name: Layer(areas=tuple(given["areas"]), files=tuple(given["files"]))
            for name, given in fast_yaml.load(layers.read_text(encoding="utf-8")).items()
        },
        rows=(),
    )
    for name, given in table.profiles.items():
        idle = [
            claim for claim, verdict in given.items() if table.clean.get(claim) in (None, verdict)
        ]
        if idle:
            raise ValueError(
                f"profile {name}: {', '.join(idle)}: not in the clean row, or the same there; leave it out"
            )
    by_chance = table.by_chance.items()
    idle = [
        claim
        for claim, verdict in by_chance
        if table.clean.get(claim) in (None, verdict) or verdict in RED
    ]
    if idle:
        raise ValueError(
            f"by_chance: {', '.join(idle)}: not in the clean row, or the same there, or red"
        )
    rows = (
        row for name, given in _joined(files, "rows").items() for row in _rows(name, given, table)
    )
    return replace(table, rows=tuple(rows))


@functools.cache
def shipped() -> Table:
    """Return the table of the checkout, which a process reads once; callers must not change it."""
    return read()


def _joined(files: Mapping[str, Any], section: str) -> dict[str, Any]:
    """Return a section of all files as one. Raise ValueError if two files have the same entry."""
    found: dict[str, Any] = {}
    for file, plain in files.items():
        twice = sorted(set(found) & set(plain.get(section, {})))
        if twice:
            raise ValueError(f"{file}: {section}: {', '.join(twice)}: another file says it, too")
        found |= plain.get(section, {})
    return found


def _profiles(files: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Map each profile to the entries of all files about it."""
    found: dict[str, dict[str, str]] = {}
    for plain in files.values():
        for name, given in plain.get("profiles", {}).items():
            found.setdefault(name, {}).update(given)
    return found


def _rows(name: str, given: dict[str, Any], table: Table) -> list[Row]:
    """Return one row; with ``each``, return one row for every node that it names, with the node's
    name in place of ``{node}``."""
    if "each" not in given:
        return [_row(name, given, table)]
    row = _row(name, {key: value for key, value in given.items() if key != "each"}, table)
    if not any("{node}" in text for text in (*row.faults, *row.set, *row.on_service, row.edit)):
        raise ValueError(f"row {name}: what is wrong there does not depend on the node")
    return [_on(row, node) for node in given["each"]]


def _on(row: Row, node: str) -> Row:
    def filled(text: str) -> str:
        return text.replace("{node}", node)

    return replace(
        row,
        name=f"{row.name}-{node}",
        node=node,
        what=filled(row.what),
        set=tuple(map(filled, row.set)),
        faults=tuple(map(filled, row.faults)),
        edit=filled(row.edit),
        on_service=tuple(map(filled, row.on_service)),
        says={claim: filled(pattern) for claim, pattern in row.says.items()},
        red_on={claim: tuple(map(filled, nodes)) for claim, nodes in row.red_on.items()},
    )


def _row(name: str, given: dict[str, Any], table: Table) -> Row:
    unknown = set(given) - FIELDS
    if unknown or not given.get("what"):
        raise ValueError(
            f"row {name}: {', '.join(sorted(unknown)) or 'what'} is unknown or missing"
        )
    plain: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in given.items()
        if key not in {"may", "red_on", "whole", "claims"}
    }
    if given.get("layer") not in table.layers:
        raise ValueError(f"row {name}: layer {given.get('layer')} is not in layers.yaml")
    row = Row(
        name=name,
        **plain,
        claims=_claims(given, table),
        red_on={claim: tuple(nodes) for claim, nodes in given.get("red_on", {}).items()},
        may=_verdicts(given.get("may", {})),
        whole=_verdicts(given.get("whole", {})),
    )
    if row.profile not in (DEFAULT, *table.profiles):
        raise ValueError(f"row {name}: profile {row.profile} has no clean verdicts under profiles")
    clean = table.clean_of(row.profile)
    if bool(row.only or given.get("claims", "all") != "all") != bool(row.why):
        raise ValueError(f"row {name}: claims or tests and why it is only these belong together")
    changes = [
        *row.expect.items(),
        *((one, v) for given in (row.may, row.whole) for one, vs in given.items() for v in vs),
    ]
    for claim, verdict in changes:
        if claim not in clean or verdict not in CHANGES:
            raise ValueError(
                f"row {name}: {claim}: {verdict}: no such claim in the clean row, or no such verdict"
            )
        if bool(row.claims and claim not in row.claims) != (claim in row.whole):
            raise ValueError(
                f"row {name}: {claim} is expected and not among its claims, or whole and among them"
            )
    for verdict in REASONED:
        claims = {
            claim
            for claim, wanted in row.expect.items()
            if wanted == verdict and claim not in row.may
        }
        if claims and not claims & row.says.keys():
            raise ValueError(
                f"row {name}: {', '.join(sorted(claims))}: {verdict} needs what a reason says, under says"
            )
    kinds = {kind for either in row.concludes for kind in either.split(" or ")}
    if unknown_kinds := kinds - set(CONCLUSIONS):
        raise ValueError(f"row {name}: {', '.join(sorted(unknown_kinds))}: no such conclusion")
    for claim, verdict in row.expect.items():
        if clean[claim] == verdict and claim not in row.may and claim not in row.records:
            raise ValueError(
                f"row {name}: {claim}: {verdict} is what the clean row says already; leave it out"
            )
    return row


def _claims(given: Mapping[str, Any], table: Table) -> tuple[str, ...]:
    """Return the claims that a row names; all claims; or, if the row names none, the claims of its
    layer's areas."""
    if given.get("claims") == "all":
        return ()
    if "claims" in given:
        return tuple(given["claims"])
    areas = table.layers[given["layer"]].areas
    return tuple(claim for claim in table.clean if table.areas[claim] in areas)


def _verdicts(given: Mapping[str, str | list[str]]) -> dict[str, tuple[str, ...]]:
    """Map each claim to its verdicts; in the file, a single verdict needs no list."""
    return {
        claim: (value,) if isinstance(value, str) else tuple(value)
        for claim, value in given.items()
    }
