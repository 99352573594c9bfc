# SPDX-License-Identifier: Apache-2.0
"""Every unit of the API's schemas has a class of events, or a reason why it has none."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from conformance.policy.oracle import fields
from conformance.policy.worlds import World
from conformance.stories.files import FOLDER, StoryFile, stories_in
from conformance.stories.model import lives
from conformance.stories.model.story import EVENTS, Event
from hybridlab.api.schemas.calico import CALICO_TYPES
from tests import fast_yaml
from tests.worlds import story_classes as classes

MOST = 24
MOST_LEFT_OUT = 0.15
ENTRIES = Path(classes.__file__).with_name("story-events.yaml")
TABLE = classes.read(fast_yaml.load(ENTRIES.read_text(encoding="utf-8")))
SCHEMAS: Mapping[str, Any] = {
    **json.loads(
        (Path("lib") / "hybridlab" / "api" / "schemas" / "kubernetes.json").read_text("utf-8")
    ),
    **CALICO_TYPES,
}
"""The schemas that the lab has of both APIs."""
SPECS = {
    "NetworkPolicy": ("V3NetworkPolicySpec", "V1NetworkPolicySpec"),
    "GlobalNetworkPolicy": ("V3GlobalNetworkPolicySpec",),
    "StagedNetworkPolicy": ("V3StagedNetworkPolicySpec",),
    "StagedGlobalNetworkPolicy": ("V3StagedGlobalNetworkPolicySpec",),
    "StagedKubernetesNetworkPolicy": ("V3StagedKubernetesNetworkPolicySpec",),
    "Tier": ("V3TierSpec",),
    "NetworkSet": ("V3NetworkSetSpec",),
    "GlobalNetworkSet": ("V3NetworkSetSpec",),
    "Namespace": (),
    "ServiceAccount": (),
    "Pod": (),
    "Service": (),
    "EndpointSlice": ("V1EndpointSlice",),
}
"""Kinds that policies depend on, to what of them Calico and the oracle read."""
READ = {
    "Service": ("selector", "ports.port", "ports.protocol", "ports.targetPort"),
    "EndpointSlice": (
        "endpoints.addresses", "endpoints.conditions.ready", "ports.port", "ports.protocol",
    ),
}  # fmt: skip
WHOLE = (".V3ICMP", ".V3HTTPMatch", ".V3RuleMetadata")
"""Structures that count as one field: none of their fields says anything alone."""
LABELS = ("NetworkSet", "GlobalNetworkSet", "Namespace", "ServiceAccount", "Pod")
"""Kinds with labels that selectors are asked about."""
CONDITIONS = (
    "PodScheduled", "PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready",
)  # fmt: skip
LIFE = (
    *("Pending", "Running", "Succeeded", "Failed"),
    *(f"{condition} {value}" for condition in CONDITIONS for value in ("True", "False")),
    *("DisruptionTarget True", "deletionTimestamp", "replaced"),
    *(f"container {state}" for state in ("waiting", "running", "terminated", "ready", "restarted")),
    *("init container waiting", "init container running", "init container terminated"),
)  # fmt: skip
"""What Kubernetes documents of a pod's life (workloads/pods/pod-lifecycle)."""
LOST = "Unknown"
"""The phase of a pod whose node does not answer, which is no part of a pod's life."""


def leaves(schema: str, path: str = "") -> Iterator[str]:
    for name, kind in SCHEMAS[schema]["f"].items():
        here = "rules" if not path and name in classes.DIRECTIONS else name
        inner = kind.lstrip("[{")
        where = f"{path}.{here}".lstrip(".")
        if inner.startswith(".") and inner not in WHOLE:
            yield from leaves(inner[1:], where)
        else:
            yield where


def units() -> Iterator[str]:
    for kind, schemas in SPECS.items():
        yield from (f"{kind}: {what}" for what in ("made", "deleted", "made again"))
        yield from (f"{kind}: labels" for _ in range(kind in LABELS))
        found = {path for schema in schemas for path in leaves(schema)}
        yield from (f"{kind}: {path}" for path in READ.get(kind, sorted(found)))
    yield from (f"Pod: {what}" for what in (*LIFE, LOST))


UNITS = sorted(set(units()))


@pytest.mark.parametrize("unit", UNITS)
def test_each_unit_of_the_schemas_has_one_class_or_a_reason(unit: str) -> None:
    named = [
        one.name for one in TABLE.classes if any(fnmatchcase(unit, each) for each in one.units)
    ]
    assert len(named) + bool(TABLE.reason(unit)) == 1, unit


def field_of(unit: str) -> str:
    """A unit without its kind, where several kinds have the field."""
    return unit.rpartition("NetworkPolicy: ")[2].rpartition("NetworkSet: ")[2]


def test_few_units_are_left_out_and_none_of_a_pods_life() -> None:
    left = [unit for unit in UNITS if TABLE.reason(unit)]
    assert len(TABLE.classes) <= MOST
    assert {unit for unit in left if unit.startswith("Pod: ")} == {f"Pod: {LOST}"}
    apart = {field_of(unit) for unit in left}
    every = {field_of(unit) for unit in UNITS}
    assert len(apart) <= MOST_LEFT_OUT * len(every), (len(apart), len(every))


def test_each_pattern_of_the_table_is_about_a_unit() -> None:
    patterns = [*TABLE.left_out, *(each for one in TABLE.classes for each in one.units)]
    assert [each for each in patterns if not any(fnmatchcase(u, each) for u in UNITS)] == []


def test_the_table_has_every_event_of_pods_once() -> None:
    events = [event for one in TABLE.classes for event in one.events]
    assert sorted(events) == sorted(lives.TURNS)
    assert {one.word for one in TABLE.classes} == set(EVENTS)
    assert all(bool(one.events) == (one.word == "pods") for one in TABLE.classes)


def policy(**spec: Any) -> dict[str, Any]:
    return {"kind": "NetworkPolicy", "metadata": {"name": "p", "namespace": "${a}"}, "spec": spec}


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ({"put": policy(order=2, ingress=[{"action": "Allow"}])}, {"place edited"}),
        ({"put": policy(order=1, ingress=[{"action": "Deny"}])}, {"action or traffic edited"}),
        ({"put": policy(order=1, ingress=[{"action": "Allow", "source": {"nets": ["::/0"]}}])},
         {"peers edited"}),
        ({"gone": "NetworkPolicy ${a}/p"}, {"policy deleted"}),
        ({"put": {**policy(), "metadata": {"name": "q"}}}, {"policy made"}),
        ({"put": {**policy(), "metadata": {"name": "old", "namespace": "${a}"}}},
         {"policy made again"}),
        ({"labels": {"a": {}, "b.teller": {}, "m.linux": {}}},
         {"labels of a namespace", "labels of an account", "labels of a pod"}),
        ({"pods": "evicted"}, {"pod deleted or evicted"}),
    ],
)  # fmt: skip
def test_the_classes_of_an_event_follow_from_what_it_changes(
    event: dict[str, Any], expected: set[str]
) -> None:
    before = [policy(order=1, ingress=[{"action": "Allow"}])]
    assert TABLE.classes_of(Event(event), before, {"NetworkPolicy ${a}/old"}) == expected


def shown(file: StoryFile) -> set[str]:
    """The classes of a story's events."""
    found: set[str] = set()
    ever: set[str] = set()
    world = World("", "", ())
    for scene in file.story.scenes():
        if scene.event:
            found |= TABLE.classes_of(scene.event, world.objects, ever)
        world = scene.world
        ever |= {fields.label(obj) for obj in world.objects}
    return found


def test_the_stories_that_ship_show_every_class() -> None:
    shipped = [*stories_in(FOLDER), *stories_in(FOLDER / "all")]
    found = {name for file in shipped for name in shown(file)}
    assert {one.name for one in TABLE.classes} - found == set()
