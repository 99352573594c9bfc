# SPDX-License-Identifier: Apache-2.0
"""A policy's placeholders are filled with the values that a test names; for a wrong value the
test gets a clear error."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.errors import UsageProblem
from conformance.policy import placeholders
from tests.unit.conformance.builders import a_workload

KNOWN = placeholders.values(
    namespace="demo-1", run="abc", server=a_workload("web", "windows"), team="red"
)


def policy(**spec: Any) -> list[dict[str, Any]]:
    return [{"kind": "NetworkPolicy", "metadata": {"name": "p"}, "spec": spec}]


def test_a_workload_is_named_by_its_role_address_namespace_node_and_system() -> None:
    assert KNOWN == {
        "namespace": "demo-1",
        "run": "abc",
        "team": "red",
        "server.role": "client",
        "server.address": "192.168.0.5",
        "server.namespace": "ns",
        "server.node_address": "10.0.0.11",
        "server.os": "windows",
    }


def test_placeholders_are_filled_wherever_text_stands() -> None:
    filled = placeholders.fill(
        policy(
            selector="app == '${server.role}'",
            nets=["${server.address}/32"],
            labels={"${team}": "${run}"},
        ),
        KNOWN,
        where="p.yaml",
    )
    assert filled == policy(
        selector="app == 'client'", nets=["192.168.0.5/32"], labels={"red": "abc"}
    )


def test_the_manifest_itself_is_left_as_it_was() -> None:
    original = policy(selector="${team}", order=10, applied=True, nothing=None)
    assert placeholders.fill(original, KNOWN, where="p.yaml")[0]["spec"] == {
        "selector": "red",
        "order": 10,
        "applied": True,
        "nothing": None,
    }
    assert original == policy(selector="${team}", order=10, applied=True, nothing=None)


def test_a_value_cannot_change_the_structure_of_a_manifest() -> None:
    known = {"team": "red'}, x: {y: 'z"}
    assert placeholders.fill(policy(selector="${team}"), known, where="p.yaml")[0]["spec"] == {
        "selector": known["team"]
    }


def test_an_unknown_placeholder_is_refused_with_what_there_is() -> None:
    with pytest.raises(
        UsageProblem,
        match=r"p\.yaml: no value for \$\{client\.role\}; there are namespace, run, server",
    ):
        placeholders.fill(policy(selector="${client.role}"), KNOWN, where="p.yaml")


@pytest.mark.parametrize("text", ["${team", "${{team}}", "$${te{am}"])
def test_what_only_looks_like_a_placeholder_is_refused(text: str) -> None:
    with pytest.raises(UsageProblem, match="is not a valid placeholder"):
        placeholders.fill(policy(selector=text), KNOWN, where="p.yaml")


def test_a_value_that_no_placeholder_asks_for_is_told() -> None:
    objects = policy(selector="${server.role}")
    assert placeholders.unused(objects, ["server", "friend"]) == ["friend"]


def test_an_object_that_names_several_values_is_made_once_for_each_of_them() -> None:
    servers = [a_workload("web", "windows"), a_workload("api", role="server")]
    known = placeholders.values(namespace="demo-1", run="abc", server=servers)
    tier = {"kind": "Tier", "metadata": {"name": "${namespace}-first"}}
    one = {"kind": "NetworkPolicy", "metadata": {"name": "p-${server.role}"}, "spec": {}}
    filled = placeholders.fill([tier, one], known, where="p.yaml")
    assert [obj["metadata"]["name"] for obj in filled] == ["demo-1-first", "p-client", "p-server"]
