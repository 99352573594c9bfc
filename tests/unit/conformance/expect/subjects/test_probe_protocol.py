# SPDX-License-Identifier: Apache-2.0
"""Agents that a foreign policy keeps from the servers are distinguished from agents with a wrong
answer."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.errors import EnvironmentBroken, ProbeBroken
from conformance.expect.subjects.probe_protocol import ProbeProtocol
from conformance.probe.golden import Servers
from tests.unit.conformance.builders import a_workload

LINUX = a_workload("linux-client")
WINDOWS = a_workload("windows-client", "windows")
SERVERS = Servers(LINUX, {"$HTTP": 4711})


def check(broken: Any, by: str, servers: Servers | None = SERVERS) -> ProbeProtocol:
    asked: list[tuple[str, int]] = []

    def excuse(source: Any, target: Any, seen: str, **_: Any) -> str:
        asked.append((source.pod, target.port))
        return by

    def hold(pod: Any, there: Any) -> None:
        if pod == broken:
            raise ProbeBroken("agent matrix-agent.ps1 said something else")

    others: Any = SimpleNamespace(excuse=excuse, exempt="exempt its namespaces")
    return ProbeProtocol(hold, lambda pod: nullcontext(servers), others)


def test_a_policy_of_others_between_agent_and_servers_is_named() -> None:
    deny = "GlobalNetworkPolicy company-wide denies ingress of demo/linux-client"
    with pytest.raises(EnvironmentBroken) as told:
        check(WINDOWS, deny).holds([LINUX, WINDOWS], because="x")
    first = str(told.value).splitlines()[0]
    assert f"caused neither by Calico nor by this run: {deny}; affected: " in first
    assert "exempt its namespaces" in str(told.value)


@pytest.mark.parametrize(
    ("broken", "by", "servers"),
    [(WINDOWS, "", SERVERS), (LINUX, "deny", SERVERS), (WINDOWS, "deny", None)],
)
def test_an_agent_that_says_something_else_is_broken(
    broken: Any, by: str, servers: Servers | None
) -> None:
    with pytest.raises(ProbeBroken, match="said something else"):
        check(broken, by, servers).holds([LINUX, WINDOWS], because="x")
