# SPDX-License-Identifier: Apache-2.0
"""What a security context leaves a Linux container's processes: capabilities(7), the kubelet."""

from __future__ import annotations

from typing import Any

import pytest

from hybridlab.controllers.environment import ConfigError
from hybridlab.controllers.privileges import PING_GROUPS, PORT_START, privileges
from hybridlab.runtime.model import USUAL_CAPABILITIES

USUAL = set(USUAL_CAPABILITIES)
BREAKS = "container's runAsUser breaks non-root policy"
DROPPED = {"capabilities": {"drop": ["ALL"]}}
SYSCTLS = {
    "sysctls": [
        {"name": PORT_START, "value": "0"},
        {"name": PING_GROUPS, "value": "0 2147483647"},
    ]
}


def of(pod: dict[str, Any] | None = None, container: dict[str, Any] | None = None) -> Any:
    meta = {"name": "p", "namespace": "n", "uid": "u"}
    return privileges(
        {"metadata": meta, "spec": {"securityContext": pod or {}}},
        {"name": "c", "securityContext": container or {}},
    )


@pytest.mark.parametrize(
    ("pod", "container", "capabilities", "may_ping", "port_start"),
    [
        ({}, {}, set(USUAL_CAPABILITIES), True, 1024),
        ({}, DROPPED, set(), False, 1024),
        ({}, {"capabilities": {"drop": ["NET_RAW"]}}, USUAL - {"NET_RAW"}, False, 1024),
        ({}, {"capabilities": {"drop": ["ALL"], "add": ["NET_RAW"]}}, {"NET_RAW"}, True, 1024),
        ({"runAsUser": 10001}, {}, set(), False, 1024),
        ({"runAsUser": 10001}, {"runAsUser": 0}, set(USUAL_CAPABILITIES), True, 1024),
        ({"runAsUser": 7, "runAsGroup": 7, "runAsNonRoot": True} | SYSCTLS, {}, set(), True, 0),
        (
            {"runAsUser": 1, "runAsGroup": 9, "sysctls": [{"name": PING_GROUPS, "value": "0 8"}]},
            {}, set(), False, 1024,
        ),
    ],
)  # fmt: skip
def test_a_security_context_leaves(
    pod: dict[str, Any],
    container: dict[str, Any],
    capabilities: set[str],
    may_ping: bool,
    port_start: int,
) -> None:
    found = of(pod, container)
    assert (set(found.capabilities), found.may_ping, found.port_start) == (
        capabilities, may_ping, port_start,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("pod", "container", "why"),
    [
        ({"runAsNonRoot": True}, {}, "container has runAsNonRoot and image will run as root"),
        ({"runAsNonRoot": True, "runAsUser": 0}, {}, BREAKS),
        ({"runAsUser": 7}, {"runAsNonRoot": True, "runAsUser": 0}, BREAKS),
    ],
)  # fmt: skip
def test_root_is_not_started_under_run_as_non_root(
    pod: dict[str, Any], container: dict[str, Any], why: str
) -> None:
    with pytest.raises(ConfigError, match=rf'^{why} \(pod: "p_n\(u\)", container: c\)$'):
        of(pod, container)
