# SPDX-License-Identifier: Apache-2.0
"""A Service selects the pods of its namespace whose labels it names, with the ports that it reaches
them at."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.policy.services import Candidate, candidate, members

Obj = dict[str, Any]
HERE = frozenset({0x0A000001})


def a_pod(*ports: Obj, ready: str | None = None, **meta: Any) -> Obj:
    conditions = [{"type": "Initialized", "status": "False"}]
    conditions += [{"type": "Ready", "status": ready}] if ready else []
    return {
        "metadata": {"name": "p", "namespace": "demo", "labels": {"app": "web"}} | meta,
        "spec": {"containers": [{"name": "a", "ports": [*ports]}, {"name": "b"}]},
        "status": {"conditions": conditions},
    }


@pytest.mark.parametrize(
    ("ready", "is_ready"), [(None, True), ("True", True), ("Unknown", True), ("False", False)]
)
def test_a_pod_is_a_member_unless_it_says_that_it_is_not_ready(
    ready: str | None, is_ready: bool
) -> None:
    assert candidate(a_pod(ready=ready), HERE).ready is is_ready


def test_named_ports_are_known_by_protocol_and_name() -> None:
    ports = (
        {"name": "http", "containerPort": 80},
        {"name": "dns", "containerPort": 53, "protocol": "UDP"},
        {"containerPort": 9},
    )
    assert candidate(a_pod(*ports), HERE).ports == {("TCP", "http"): 80, ("UDP", "dns"): 53}


def test_a_pod_without_a_namespace_is_in_the_default_one_and_may_lack_everything_else() -> None:
    bare = {"metadata": {"name": "p"}}
    assert candidate(bare, HERE) == Candidate("default", {}, HERE, {}, ready=True)


WEB = candidate(a_pod({"name": "http", "containerPort": 8080}), HERE)


@pytest.mark.parametrize(
    ("port", "found"),
    [
        ({"port": 80}, [("TCP", 80)]),
        ({"port": 80, "targetPort": 8080}, [("TCP", 8080)]),
        ({"port": 53, "protocol": "UDP"}, [("UDP", 53)]),
        ({"port": 80, "targetPort": "http"}, [("TCP", 8080)]),
        ({"port": 80, "targetPort": "http", "protocol": "UDP"}, []),
        ({"port": 80, "targetPort": "metrics"}, []),
    ],
)
def test_a_port_leads_to_a_number_or_to_the_pod_s_own_name(
    port: Obj, found: list[tuple[str, int]]
) -> None:
    service = {
        "metadata": {"name": "s", "namespace": "demo"},
        "spec": {"selector": {"app": "web"}, "ports": [port]},
    }
    assert list(members(service, [WEB]) or ()) == [(WEB, found)]


@pytest.mark.parametrize(
    ("namespace", "selector", "selected"),
    [
        ("demo", {"app": "web"}, True),
        ("demo", {"app": "db"}, False),
        ("demo", {"app": "web", "tier": "a"}, False),
        ("other", {"app": "web"}, False),
        (None, {"app": "web"}, False),
    ],
)
def test_only_pods_of_its_namespace_with_all_its_labels_are_members(
    namespace: str | None, selector: dict[str, str], selected: bool
) -> None:
    meta = {"name": "s"} | ({"namespace": namespace} if namespace else {})
    service = {"metadata": meta, "spec": {"selector": selector}}
    assert list(members(service, [WEB]) or ()) == ([(WEB, [])] if selected else [])


@pytest.mark.parametrize("spec", [None, {}, {"selector": {}}, {"ports": [{"port": 80}]}])
def test_members_of_a_service_without_a_selector_are_not_known(spec: Any) -> None:
    assert members({"metadata": {"name": "s"}, "spec": spec}, [WEB]) is None
