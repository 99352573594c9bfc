# SPDX-License-Identifier: Apache-2.0
"""The lab's policy code gives the same as Calico's own: lists, verdicts of both systems, panics,
and edits that are ignored.

tests/golden/windows-policy/README.md describes the tables and where they come from.
"""

from __future__ import annotations

import functools
import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from hybridlab.calico.acl_lists import AclLists
from hybridlab.calico.felix_faults import FelixFaults
from hybridlab.calico.felix_windows_policy import WindowsNodePolicy
from hybridlab.policy.release import Release, as_shipped
from tests.golden.policy_objects import Objects
from tests.golden.policy_tables import World, answer, listed

GOLDEN = Path(__file__).parents[3] / "golden" / "windows-policy"
TABLES = {"v3.31.7": "windows_acls.jsonl.gz", "v3.32.1": "windows_acls_v3.32.1.jsonl.gz"}
EDITS = [json.loads(line) for line in (GOLDEN / "windows_edits.jsonl").read_text().splitlines()]
HASH = re.compile(r"[\w-]{16}(?=-\d+$)")
tables = pytest.mark.parametrize("version", TABLES)


@functools.cache
def world() -> World:
    return World.read(json.loads((GOLDEN / "world.json").read_text()))


@functools.cache
def cases(version: str) -> tuple[tuple[dict[str, Any], dict[str, Any]], ...]:
    """Each case of a table with the lab's answer."""
    with gzip.open(GOLDEN / TABLES[version], "rt") as lines:
        return tuple((case := json.loads(line), answer(case, world())) for line in lines)


def differing(version: str, column: str) -> tuple[int, list[str]]:
    """How many cases have the column, and the ids of those whose answer is another."""
    having = [(case, given) for case, given in cases(version) if column in case]
    return len(having), [case["id"] for case, given in having if case[column] != given.get(column)]


@tables
def test_every_verdict_of_windows_is_calicos(version: Any) -> None:
    assert differing(version, "windows") == ({"v3.31.7": 250, "v3.32.1": 248}[version], [])


def test_every_verdict_of_linux_is_calicos() -> None:
    assert differing("v3.31.7", "linux") == (250, [])


def test_linux_decides_alike_in_both_versions_but_for_ties() -> None:
    older = {case["id"]: given["linux"] for case, given in cases("v3.31.7") if "linux" in given}
    newer = {case["id"]: given["linux"] for case, given in cases("v3.32.1") if "linux" in given}
    changed = {identity for identity in newer if newer[identity] != older[identity]}
    ties = {case["id"] for case, _ in cases("v3.31.7") if "tie" in (case.get("hinges_on") or ())}
    assert changed <= ties | {identity for identity in newer if identity.startswith("d-tie")}


@tables
def test_every_list_has_calicos_shape_to_the_letter(version: Any) -> None:
    compared, different = 0, []
    for case, given in cases(version):
        if "acls" in case:
            compared += 1
            shape = _without_order if case.get("order_varies") else _as_it_is
            if shape(case["acls"]) != shape(given.get("acls", {})):
                different.append(case["id"])
    assert (compared, different) == ({"v3.31.7": 250, "v3.32.1": 248}[version], [])


@tables
def test_felix_panics_where_calicos_does_and_nowhere_else(version: Any) -> None:
    assert differing(version, "panic") == (2, [])
    assert [
        case["id"] for case, given in cases(version) if "panic" in given and "panic" not in case
    ] == []


def test_what_a_release_does_not_read_is_rejected_in_its_words() -> None:
    assert differing("v3.32.1", "rejected") == (2, [])


def _with_ids_told_apart(lists: Any) -> Any:
    """The hash of each rule's id as the number of the first entry that has it: a rule is the same one exactly where it
    is in Calico, which hashes other bytes."""
    known: dict[str, int] = {}

    def told(found: re.Match[str]) -> str:
        return f"#{known.setdefault(found[0], len(known))}"

    return [
        [{**entry, "Id": HASH.sub(told, entry.get("Id", ""))} for entry in entries]
        for entries in lists
    ]


def _as_it_is(acls: Any) -> Any:
    return dict(zip(acls, _with_ids_told_apart(acls.values()), strict=True))


def _without_order(acls: Any) -> dict[str, Any]:
    """Lists whose rules of a service are in Calico's random order: numbers left out, entries sorted."""
    return {
        pod: sorted(
            json.dumps(
                {key: value for key, value in acl.items() if key not in {"Priority", "Id"}},
                sort_keys=True,
            )
            for acl in entries
        )
        for pod, entries in acls.items()
    }


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: f"{edit['id']}-{edit['calico']}")
def test_an_edit_reaches_a_running_endpoint_where_it_does_in_calico(edit: Any) -> None:
    release = Release(edit["calico"], as_shipped(edit["calico"]))
    objects, lists = Objects(release, world().hosts), AclLists(edit["calico"])
    addresses = (world().hosts[0].partition("/")[0],)
    faults = FelixFaults("win-1", lambda level, message: None)
    graph = objects.graph
    policy = WindowsNodePolicy(
        "win-1", lambda: addresses, graph, release, lists, faults, lambda: None, faults.log
    )
    graph.subscribe("win-1", policy)
    objects.take([*world().objects, *edit["objects"]])

    def ingress() -> list[Any]:
        difference = policy.difference()
        if difference is not None:
            lists.give(difference.lists)
        entries = lists.given(objects.endpoints[edit["pod"]].uid)
        return [e for e in listed(entries) if (e["Direction"], e["RuleType"]) == ("In", "Switch")]

    found = [ingress()]
    for step in edit["edits"]:
        objects.take(step)
        found.append(ingress())
    assert objects.unread == []
    assert _with_ids_told_apart(found) == _with_ids_told_apart(
        [edit["ingress_before"], *edit["ingress_after"]]
    )
