# SPDX-License-Identifier: Apache-2.0
"""The token of a CNI plugin has ended, was renewed, or is as young as calico-node."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.facts.cni_token import CniTokens
from conformance.model.facts import Fact
from tests.unit.conformance.builders import a_pod
from tests.unit.conformance.facts.test_objects import Objects

NOW = datetime(2026, 11, 26, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


def ended(ends: list[datetime | None], *ran: timedelta) -> Fact[bool]:
    states = [
        {"state": {"running": {"startedAt": f"{NOW - one:%Y-%m-%dT%H:%M:%SZ}"}}} for one in ran
    ]
    status = {"containerStatuses": [*states, {"state": {"waiting": {}}}]}
    pod = a_pod("calico-node-windows-x", "win", namespace="calico-system", status=status)
    kube: Any = Objects({("v1", "Pod"): [pod] if ran else []})
    hosts: Any = SimpleNamespace(cni_tokens=lambda node: ends)
    return CniTokens(kube, hosts, (), NOW).ended("win")


def test_a_token_that_is_over_has_ended_however_long_calico_ran() -> None:
    found = ended([NOW + HOUR, NOW - HOUR], 2 * HOUR)
    assert found == Fact(
        True,
        "token of the CNI plugin on node win expires at 2026-11-26T11:00:00Z, which is in the past",
    )


def test_a_token_was_renewed_where_each_container_has_run_for_longer_than_one_lives() -> None:
    found = ended([NOW + HOUR], 30 * HOUR, 25 * HOUR)
    assert found.value is False
    assert found.source.endswith("at 2026-11-26T13:00:00Z, and calico-node there has run since "
                                 "2026-11-25T11:00:00Z: the token was renewed")  # fmt: skip


@pytest.mark.parametrize(
    ("ran", "why"),
    [((30 * HOUR, 23 * HOUR), "has run since 2026-11-25T13:00:00Z"), ((), "does not run")],
)
def test_a_token_as_young_as_calico_shows_nothing(ran: tuple[timedelta, ...], why: str) -> None:
    found = ended([NOW + HOUR], *ran)
    assert found.value is None
    assert (
        f"calico-node there {why}; only a run of more than 24 h, the lifetime of a token,"
        in found.source
    )


@pytest.mark.parametrize("ends", [[], [None]])
def test_where_there_is_no_token_that_ends_nothing_is_known(ends: list[datetime | None]) -> None:
    assert ended(ends, 30 * HOUR).source.startswith(
        "no kubeconfig of Calico's CNI plugin on node win has a token with an expiry time"
    )
