# SPDX-License-Identifier: Apache-2.0
"""Each committed world and edit shows the wrong readings that it lists, and together they show
every wrong reading.

``python -m tests.worlds.generate`` draws other worlds; whatever drew the committed files, this test
says what they have to show.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from itertools import combinations
from pathlib import Path

import pytest
import yaml

from conformance.catalog import catalog
from conformance.enforcement.worlds import unlimited
from conformance.plugin.words import selects_nothing
from conformance.policy import worlds
from conformance.policy.oracle.oracle import Verdict
from conformance.policy.worlds import World
from tests.worlds import counts
from tests.worlds.choose import FEATURES, TWICE, beside, edit_shown, objects_of, pairs, shown
from tests.worlds.mutants import MUTANTS
from tests.worlds.rules import edit_problems, misled, problems
from tests.worlds.seats import ELSEWHERE, MANY, NAMESPACES, RUN, SEATS, around
from tests.worlds.staleness import STALE

FOLDER = Path(__file__).parents[2] / "suites" / "policy" / "worlds"
FILES = {path.stem: path for path in sorted(FOLDER.glob("*.yaml"))}
EDITS = {path.stem: path for path in sorted((FOLDER / "edits").glob("*.yaml"))}

UNSEEN = {
    "ICMP types ignored": "seats send no ICMP",
    "notICMP ignored": "seats send no ICMP",
    "Windows: icmp types the other way": "seats send no ICMP",
    "nodes do not reach their own pods": "no node sends anything; XPOL-8 has a test of its own",
}
"""Wrong readings that no world can show."""
KEPT_OUT = {
    "policies for hosts enforced at pods": "no world has doNotTrack or preDNAT, which concern nodes that no run owns",
    "applyOnForward policies lost": "nor applyOnForward",
    "GlobalNetworkSets lost": "no world makes anything cluster-scoped but policies and tiers",
}
"""Wrong readings whose features no world may have."""


ONCE = dict.fromkeys(
    counts.EDITS, "a list that is as long stands in one world, and says no more than a short one"
) | {
    "staged policies enforced": "XPOL-14 has one world, beside tests of its own",
    "Windows: staged the other way": "the same",
    "Windows: combined ports the other way": "XPOL-6 has one world, beside tests of its own",
    "Windows: service alone the other way": "XPOL-7 has two worlds, one of which shows it",
}
"""Wrong readings that one world is enough for: defects of releases, whose claims have other tests."""
NOT_ON_WINDOWS = {
    "ports' names are any protocol's": "rules that name ports are left out there as a whole",
    "first name of a pod's ports only": "the same",
    "numbers beside names of ports lost": "the same",
    "names beside numbers of ports lost": "the same",
    "a peer with exceptions lost beside others": "rules with exceptions are left out there as a whole",
    "first of notPorts only": "rules with negated ports are left out there as a whole",
    "UDPLite is UDP": "no document says that HNS knows UDPLite: no world has it at Windows pods",
    "except: first only": "rules with exceptions are left out there as a whole",
    "notSelector alone of a global policy ignored": "rules with negated selectors are left out there as a whole",
    "notSelector alone of a global policy: nobody": "the same",
    "SCTP is any protocol": "HNS knows no SCTP: no world has it at Windows pods",
    "Kubernetes' SCTP is TCP": "the same",
}
"""Wrong readings that Windows cannot have."""


def read(path: Path) -> tuple[World, list[str]]:
    given = yaml.safe_load(path.read_text(encoding="utf-8"))
    return worlds.read(path.stem, given), given["shows"]


@cache
def seen(name: str) -> frozenset[tuple[str, str]]:
    """What a world shows, and on ends of which system."""
    return shown(objects_of(read(FILES[name])[0]))


@cache
def seen_after(name: str) -> frozenset[tuple[str, str]]:
    """What an edit shows."""
    return edit_shown(read(EDITS[name])[0])


def test_there_are_few_worlds_and_edits() -> None:
    """Each is seconds of every run."""
    assert len(FILES) <= 16
    assert len(EDITS) <= 12


@pytest.mark.parametrize("path", [*FILES.values(), *EDITS.values()], ids=lambda path: path.stem)
def test_a_world_keeps_to_the_rules(path: Path) -> None:
    world, _ = read(path)
    assert list(edit_problems(world) if world.then else problems(world)) == []


@pytest.mark.parametrize("name", FILES)
def test_a_world_shows_what_it_says(name: str) -> None:
    _, shows = read(FILES[name])
    assert [one for one in shows if one not in {key for key, _ in seen(name)}] == []
    assert shows


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_shows_what_it_says(name: str) -> None:
    world, shows = read(EDITS[name])
    assert [one for one in shows if one not in {key for key, _ in seen_after(name)}] == []
    assert world.then
    assert shows


@pytest.mark.parametrize("name", FILES)
def test_a_world_has_both_open_and_closed_ways_that_its_claim_decides(name: str) -> None:
    world, _ = read(FILES[name])
    cells = worlds.cells([*around(world), *world.filled(SEATS, NAMESPACES)], SEATS, world.claim)
    decided = {cell.expected for cell in cells if cell.claim == world.claim}
    assert decided == {Verdict.ALLOWED, Verdict.DENIED}


@pytest.mark.parametrize("path", [*FILES.values(), *EDITS.values()], ids=lambda path: path.stem)
def test_a_file_is_named_and_begins_with_what_it_is_about(path: Path) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", path.stem)
    assert re.match(r"# \S", path.read_text(encoding="utf-8"))


def test_every_wrong_reading_is_shown_twice() -> None:
    times = Counter(name for world in FILES for name in {name for name, _ in seen(world)})
    left = UNSEEN | KEPT_OUT | ONCE
    assert [name for name in MUTANTS if times[name] < TWICE and name not in left] == []
    assert [name for name in ONCE if times[name] != 1] == []


def test_wrong_readings_that_no_world_shows_are_few_and_named() -> None:
    times = Counter(name for world in FILES for name, _ in seen(world))
    assert [name for name in (*UNSEEN, *KEPT_OUT) if times[name]] == []
    assert len(UNSEEN) <= 4


def test_every_wrong_reading_of_windows_is_shown_on_windows() -> None:
    on_windows = {name for world in FILES for name, system in seen(world) if system == "windows"}
    left = set(MUTANTS) - on_windows - UNSEEN.keys() - KEPT_OUT.keys()
    assert left == NOT_ON_WINDOWS.keys()


def test_whatever_could_stay_stale_is_shown_on_windows_twice() -> None:
    times = Counter(
        name for edit in EDITS for name, system in seen_after(edit) if system == "windows"
    )
    assert [name for name in STALE if times[name] < TWICE] == []


def test_every_pair_of_features_is_in_a_world() -> None:
    """A floor, and no goal: wrong readings are what worlds are for."""
    there = {pair for path in FILES.values() for pair in pairs(read(path)[0].objects)}
    assert [pair for pair in combinations(sorted(FEATURES), 2) if pair not in there] == []


@pytest.mark.parametrize("path", [*FILES.values(), *EDITS.values()], ids=lambda path: path.stem)
def test_a_world_names_the_other_claims_of_its_cells_wherever_its_seats_are(path: Path) -> None:
    world, _ = read(path)
    assert list(world.beside) == beside(world)


@pytest.mark.parametrize("path", [*FILES.values(), *EDITS.values()], ids=lambda path: path.stem)
def test_a_world_is_about_its_own_seats_alone(path: Path) -> None:
    world, _ = read(path)
    for stage in (world, world.edited()):
        assert [
            unlimited(obj, list(NAMESPACES.values())) for obj in stage.filled(SEATS, NAMESPACES)
        ] == [""] * len(stage.objects)


@pytest.mark.parametrize(
    "selector",
    [
        f"calico-conformance/run == '{RUN}'",
        f"kubernetes.io/metadata.name == 'calico-demo-{RUN}-gw1-world-a'",
        f"kubernetes.io/metadata.name in {{'{NAMESPACES['a']}', 'calico-demo-{RUN}-main-c'}}",
        f"projectcalico.org/name == '{NAMESPACES['a']}'",
        "team == 'a'",
        "",
    ],
)
def test_a_global_policy_by_anything_but_the_names_of_its_own_namespaces_is_refused(
    selector: str,
) -> None:
    own = {"name": f"{NAMESPACES['a']}-p"}
    policy = {
        "kind": "GlobalNetworkPolicy",
        "metadata": own,
        "spec": {"namespaceSelector": selector},
    }
    assert "does not name the world's own namespaces" in unlimited(
        policy, list(NAMESPACES.values())
    )


@pytest.mark.parametrize("path", [*FILES.values(), *EDITS.values()], ids=lambda path: path.stem)
def test_no_network_set_of_another_workers_world_decides_a_pair(path: Path) -> None:
    stages = [
        stage
        for one in (*FILES.values(), *EDITS.values())
        if one != path
        for stage in _stages(read(one)[0])
    ]
    sets = [
        obj
        for stage in stages
        for obj in stage.filled(MANY, ELSEWHERE)
        if obj["kind"] == "NetworkSet"
    ]
    assert [pair for stage in _stages(read(path)[0]) for pair in misled(stage, sets)] == []


def test_a_selector_of_all_namespaces_is_decided_by_another_workers_network_set() -> None:
    everything = {
        "kind": "NetworkSet",
        "metadata": {"name": "s", "namespace": ELSEWHERE["a"]},
        "spec": {},
    }
    everything["spec"] = {"nets": ["0.0.0.0/0"]}
    rule = {"action": "Allow", "source": {"namespaceSelector": "all()", "selector": "x != '1'"}}
    policy = {
        "apiVersion": "projectcalico.org/v3",
        "kind": "NetworkPolicy",
        "spec": {"ingress": [rule]},
    }
    world = World("wide", "POL-1", ({**policy, "metadata": {"name": "p", "namespace": "${a}"}},))
    assert list(misled(world, [everything]))


@pytest.mark.parametrize("kind", ["GlobalNetworkPolicy", "Tier"])
def test_a_name_that_another_worker_could_give_too_is_refused(kind: str) -> None:
    selector = f"kubernetes.io/metadata.name == '{NAMESPACES['a']}'"
    obj = {
        "kind": kind,
        "metadata": {"name": "default.new"},
        "spec": {"namespaceSelector": selector},
    }
    assert "may collide with another worker's object" in unlimited(obj, list(NAMESPACES.values()))
    obj["metadata"] = {"name": f"default.{NAMESPACES['a']}-new"}
    assert unlimited(obj, list(NAMESPACES.values())) == ""


def _stages(world: World) -> list[World]:
    return [world, world.edited()] if world.then else [world]


def test_an_object_elsewhere_is_refused() -> None:
    policy = {
        "kind": "NetworkPolicy",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {},
    }
    assert "not a namespace of the world" in unlimited(policy, list(NAMESPACES.values()))
    cluster_wide = {
        "kind": "GlobalNetworkSet",
        "metadata": {"name": f"{NAMESPACES['a']}-s"},
        "spec": {},
    }
    assert "no cluster-scoped object" in unlimited(cluster_wide, list(NAMESPACES.values()))


def test_each_seat_is_asked_with_the_first_of_each_kind() -> None:
    ways = {(source.pod, destination.pod) for source, destination, _ in worlds.ways(MANY)}
    firsts = {"a-linux-1", "b-linux-1", "a-windows-1", "b-windows-1"}
    pods = {seat.pod for seat in MANY}
    assert ways == {
        (one, other) for one in pods for other in pods if one != other and firsts & {one, other}
    }
    asked = {
        (seat.pod, at)
        for source, destination, at in worlds.ways(MANY)
        for seat in (source, destination)
    }
    assert asked == {(pod, at) for pod in pods for at in worlds.PORTS}


def test_every_claim_of_worlds_has_one() -> None:
    assert {read(path)[0].claim for path in FILES.values()} == {
        "POL-1",
        "XPOL-6",
        "XPOL-7",
        "XPOL-14",
    }
    assert {read(path)[0].claim for path in EDITS.values()} == {"POL-1", "XPOL-12", "XPOL-13"}


def test_a_run_of_one_claim_finds_its_worlds_by_name() -> None:
    suites = Path(__file__).parents[2] / "suites"
    assert not selects_nothing(
        "policies_of_a_world and orders-and-tiers", suites, catalog(), ["POL-1"]
    )
    assert selects_nothing(
        "policies_of_a_world and orders-and-tiers", suites, catalog(), ["CONN-1"]
    )
