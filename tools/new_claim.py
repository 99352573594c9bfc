# SPDX-License-Identifier: Apache-2.0
"""Begin a claim: write its entry in the catalog, and a test that reports NOT_RUN until its body is
written.

python tools/new_claim.py ID [--kind reading|host|traffic|policy] [--area FILE] [--source SOURCE] [--suite FOLDER]

Existing entries and tests are never changed: a claim that is in the catalog without a test gets
only the test. docs/adding-a-claim.md explains how to continue. This script needs nothing but
Python.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
CLAIM = re.compile(r"(?P<family>[A-Z]+)-(?P<number>[1-9][0-9]*)")
ENTRY = """\
  - id: {claim}
    statement: Say in one sentence what the source states.
    holds: Say in one sentence what is observed if the claim is true.
    fails: Say in one sentence what is observed if it is false.
    kind: capability
    sources: [{source}]
    {needs}
    tags: [{tag}]
    verify: Say in one sentence how the suite checks it.
"""
TEST = '''\
# SPDX-License-Identifier: Apache-2.0
"""{claim}: say in one sentence what is guaranteed."""

import pytest

from conformance.fixtures import {types}
from conformance.marks import {marks}


@pytest.mark.skip(reason="{claim} is not written yet")
@verifies("{claim}")
{given}def test_{name}_is_what_its_source_says({fixtures}) -> None:
{body}'''


class Kind(NamedTuple):
    """The initial content of a test of one kind."""

    needs: str
    """The lines of the claim's entry that state what its check needs, and whether it is about a
    denial."""
    types: str
    marks: str
    given: str
    """Further marks of the test, each with its line end."""
    fixtures: str
    body: str


KINDS = {
    "reading": Kind(
        "needs: {windows: 1}", "CalicoObjects, Readings", "verifies", "", "calico: CalicoObjects, requires: Readings",
        """\
    because = "its source says so"
    requires.that(calico.bgp(), "what its source says", because=because, do="say what mends it")
""",
    ),
    "host": Kind(
        "needs: {windows: 1, host_process: true}", "CalicoObjects, Readings, WorkerPods", "verifies", "",
        "pods: WorkerPods, calico: CalicoObjects, requires: Readings",
        """\
    because = "its source says so"
    do = "say what mends it"
    windows = pods.ensure_ready("windows-server")
    wanted = "what its source says"
    requires.that(lambda node: calico.bgp(), wanted, on=windows, because=because, do=do)
""",
    ),
    "traffic": Kind(
        "needs: {linux: 1, windows: 1}", "Case, Expect, WorkerPods", "verifies", "", "pods: WorkerPods, expect: Expect",
        """\
    clients = pods.clients("windows")
    servers = pods.servers("linux")
    expect.matrix(Case(clients, servers, tcp=8080, open=True, because="its source says so"))
""",
    ),
    "policy": Kind(
        "needs: {linux: 1, windows: 1}\n    denial: true", "Case, Expect, Policy, WorkerPods", "manifest, verifies",
        '@manifest("policy/kubernetes/default_deny_ingress.yaml")\n',
        "pods: WorkerPods, policy: Policy, expect: Expect",
        """\
    clients = pods.clients("linux") + pods.clients("windows")
    servers = pods.servers("windows")
    expect.change(
        policy.filled(server=servers),
        Case(clients, servers, tcp=8080, open=False, because="say why nobody enters"),
        Case(clients, pods.servers("linux"), tcp=8080, open=True, because="no policy selects it"),
    )
    expect.removed(policy, because="without a policy everything is allowed")
""",
    ),
}  # fmt: skip


class Unusable(Exception):
    """The claim cannot be begun; the message gives the reason."""


def add(
    root: Path,
    claim: str,
    *,
    kind: str = "traffic",
    area: str = "",
    source: str = "",
    suite: str = "",
) -> list[Path]:
    """Write the missing files and entries of a claim, and return the files that were written.

    ``kind`` is one of :data:`KINDS`: what the test examines. ``area`` is a file of the catalog
    without its ending; the first claim of a family needs it. Raise Unusable.
    """
    found = CLAIM.fullmatch(claim)
    if not found:
        raise Unusable(
            f"{claim!r} is not a claim's id, "
            "expected capitals, a hyphen and a number, such as CONN-8"
        )
    data, family = root / "lib" / "conformance" / "catalog" / "data", found["family"]
    path = _file_of(data, family, area)
    written = []
    text = path.read_text(encoding="utf-8")
    if not _starts(text, claim):
        path.write_text(_with_entry(text, claim, source, KINDS[kind]), encoding="utf-8")
        written.append(path)
    elif area or source:
        raise Unusable(f"{claim} is already in {path.name}: change it there")
    test = _test_of(root / "suites", claim, suite, path.stem)
    if test is not None:
        test.parent.mkdir(exist_ok=True)
        name = claim.lower().replace("-", "_")
        begun = TEST.format(claim=claim, name=name, **KINDS[kind]._asdict())
        test.write_text(begun, encoding="utf-8")
        written.append(test)
    if not written:
        raise Unusable(f"{claim} is already in {path.name}, and has a test")
    return written


def _file_of(data: Path, family: str, area: str) -> Path:
    """Return the file with the claims of the family, or the file of the given area. Raise
    Unusable."""
    having = [
        path
        for path in sorted(data.glob("*.yaml"))
        if re.search(rf"^  - id: {family}-", _read(path), re.M)
    ]
    named = data / f"{area}.yaml"
    if area and not (named.is_file() and re.search(r"^claims:", _read(named), re.M)):
        raise Unusable(f"there is no area {area}; the areas are {', '.join(_areas(data))}")
    if area and having and named not in having:
        raise Unusable(f"{family} claims are in {having[0].name}, not in {named.name}")
    if not (area or having):
        raise Unusable(
            f"no claim begins with {family}- yet: name its area with --area, one of "
            f"{', '.join(_areas(data))}"
        )
    return named if area else having[0]


def _areas(data: Path) -> list[str]:
    return [
        path.stem
        for path in sorted(data.glob("*.yaml"))
        if re.search(r"^claims:", _read(path), re.M)
    ]


def _with_entry(text: str, claim: str, source: str, kind: Kind) -> str:
    """Return the area's text with the claim's entry after the last entry of its family. Raise
    Unusable."""
    family, _, number = claim.partition("-")
    numbers = [int(found) for found in re.findall(rf"^  - id: {family}-(\d+)$", text, re.M)]
    following = max(numbers, default=0) + 1
    if int(number) != following:
        raise Unusable(
            f"{claim} leaves a gap, or its number is taken: the next {family} claim is "
            f"{family}-{following}"
        )
    entries = re.split(r"(?m)^(?=  - id: )", text)
    last = max(
        (at for at, entry in enumerate(entries) if _starts(entry, f"{family}-")),
        default=len(entries) - 1,
    )
    before = entries[last]
    made = ENTRY.format(
        claim=claim,
        source=source or _first(before, "sources") or "walkthrough",
        tag=_first(before, "tags") or "connectivity",
        needs=kind.needs,
    )
    entries[last] = before if before.endswith("\n") else f"{before}\n"
    return "".join([*entries[: last + 1], made, *entries[last + 1 :]])


def _starts(text: str, claim: str) -> bool:
    whole = r"(?=\d)" if claim.endswith("-") else "$"
    return bool(re.search(rf"^  - id: {re.escape(claim)}{whole}", text, re.M))


def _first(entry: str, field: str) -> str:
    """Return the first item of a list in an entry; empty if the entry has no such list."""
    found = re.search(rf"^    {field}: \[([^],]+)", entry, re.M)
    return found[1].strip() if found else ""


def _test_of(suites: Path, claim: str, folder: str, area: str) -> Path | None:
    """Return the path of the new test: in the given folder, or beside the family's other tests, or
    in the area's folder. Return None if the claim has a test."""
    family = claim.partition("-")[0]
    beside: dict[str, int] = {}
    for path in sorted(suites.rglob("test_*.py")):
        text = _read(path)
        if f'verifies("{claim}"' in text:
            return None
        beside[path.parent.name] = beside.get(path.parent.name, 0) + text.count(
            f'verifies("{family}-'
        )
    most = max(beside, key=lambda name: beside[name], default="")
    named = folder or (most if beside.get(most) else area)
    return suites / named / f"test_{claim.lower().replace('-', '_')}.py"


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Write the files and print their names; return 4 if the claim cannot be begun."""
    parser = argparse.ArgumentParser(
        prog="new_claim.py", description="Begin a claim: write its catalog entry and its test."
    )
    parser.add_argument("claim", metavar="ID", help="the claim's id, such as CONN-8")
    parser.add_argument(
        "--kind",
        choices=KINDS,
        default="traffic",
        help="the kind of observation that the test makes (default: %(default)s)",
    )
    parser.add_argument(
        "--area", default="", help="file of the catalog; needed for the first claim of a family"
    )
    parser.add_argument(
        "--source", default="", help="document of documents.yaml, or an issue such as calico#10199"
    )
    parser.add_argument(
        "--suite",
        default="",
        help="folder of suites/ (default: the folder of the family's other tests)",
    )
    given = parser.parse_args(arguments)
    try:
        written = add(
            ROOT,
            given.claim,
            kind=given.kind,
            area=given.area,
            source=given.source,
            suite=given.suite,
        )
    except Unusable as unusable:
        print(f"new-claim: {unusable}", file=sys.stderr)
        return 4
    for path in written:
        print(path.relative_to(ROOT))
    print(f"{given.claim} is NOT_RUN until its test is written; see docs/adding-a-claim.md")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
