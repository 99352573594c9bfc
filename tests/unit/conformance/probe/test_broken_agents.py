# SPDX-License-Identifier: Apache-2.0
"""No break of an agent becomes a verdict: each is named. Temporary breaks are in
``tests/contract/prober``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from conformance.errors import ProbeBroken
from conformance.probe.prober import Prober
from tests.unit.conformance.probe.broken_execs import BREAKS, killed, missing_binary


@pytest.mark.parametrize(("way", "named"), BREAKS, ids=lambda one: getattr(one, "__name__", ""))
def test_whatever_breaks_is_named_and_is_never_a_verdict(
    *, way: Any, named: str, prober: Prober, agents: Any, make: Any, listening: int
) -> None:
    quick = replace(make.settings.timings.linux, exec_overhead=0.15, agent_hello=0.15)
    prober.agents.settings = replace(
        make.settings, timings=replace(make.settings.timings, linux=quick)
    )
    agents.script = [lambda channel, _: way(channel, make)] * 50
    with pytest.raises(ProbeBroken) as caught:
        prober.observe([make.attempt(listening)])
    assert named in str(caught.value)
    assert "n/client (linux, node w1)" in str(caught.value)
    assert caught.value.transport


def test_an_agent_that_breaks_again_and_again_is_given_up_with_its_last_error(
    prober: Prober, agents: Any, make: Any, listening: int
) -> None:
    prober.agents.limits = replace(prober.agents.limits, restarts=2)
    agents.script = [lambda channel, _: killed(channel, make)] * 50
    with pytest.raises(ProbeBroken, match=r"status 137.*no longer restarted after 2 restarts"):
        prober.observe([make.attempt(listening)])
    assert len(agents.started) == 3
    assert prober.counts.restarts[("w1", "linux")] == 2


def test_a_refused_exec_with_no_hope_is_not_repeated(
    *, prober: Prober, api: Any, agents: Any, make: Any, listening: int, fakes_status: Any
) -> None:
    api.exec_refusal = fakes_status(403, "Forbidden", "no exec for you")
    with pytest.raises(ProbeBroken, match="no exec for you"):
        prober.observe([make.attempt(listening)])
    assert sum(request.path.endswith("/exec") for request in api.requests) == 1


def test_when_not_even_the_pod_can_be_looked_at_the_probe_is_broken_and_both_are_told(
    *, prober: Prober, agents: Any, make: Any, api: Any, listening: int, fakes_status: Any
) -> None:
    agents.script = [lambda channel, _: missing_binary(channel, make)]
    api.routes["GET /api/v1/namespaces/n/pods/.*"] = fakes_status(
        500, "InternalError", "etcd is away"
    )
    with pytest.raises(
        ProbeBroken,
        match=r"executable file not found.*whether the pod changed is not known.*etcd is away",
    ):
        prober.observe([make.attempt(listening)])
