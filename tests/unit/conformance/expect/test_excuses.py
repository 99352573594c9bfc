# SPDX-License-Identifier: Apache-2.0
"""A failure together with a replaced pod or a lost API server is undecided, with the advice for
that case."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest

from conformance.errors import EnvironmentBroken
from conformance.kube.reach import ApiGone
from conformance.model.endpoint import Workload
from conformance.model.observation import Verdict
from tests.unit.conformance.builders import a_workload, an_expect
from tests.unit.conformance.expect.stand_ins import ScriptedProber

CLIENT = a_workload("client")
SERVER = a_workload("server", "windows", address="192.168.0.9")
GONE = "the API server has not answered for 15 s"
POD = "read that pod's events, and its log with kubectl logs --previous"


@dataclass
class Unreadable(ScriptedProber):
    """A prober of pods that nobody can look at any more, or that are not what they were."""

    trouble: EnvironmentBroken = field(kw_only=True)

    def unchanged(self, workloads: Iterable[Workload]) -> None:
        raise self.trouble


def undecided(trouble: EnvironmentBroken) -> EnvironmentBroken:
    """Return the error about a closed path, if this trouble is found where pods are looked at."""
    prober = Unreadable({CLIENT.pod: [Verdict.TIMED_OUT]}, trouble=trouble)
    with pytest.raises(EnvironmentBroken) as found:
        an_expect(prober, "CONN-3").reachable(CLIENT, SERVER.tcp(8080), because="it is open")
    return found.value


def test_a_changed_pod_gets_the_advice_to_read_its_events_and_its_log() -> None:
    error = undecided(EnvironmentBroken("pod a/client restarted 1 time"))
    assert "pod a/client restarted 1 time" in str(error)
    assert POD in str(error)
    assert error.cause == ""


def test_a_lost_api_server_is_named_as_the_cause_and_no_pod_is_to_be_read() -> None:
    """No pod is suspect where none could be looked at, and no log can be read."""
    error = undecided(ApiGone("GET pods", GONE))
    assert f"GET pods: not sent, since {GONE}" in str(error)
    assert "kubectl logs" not in str(error)
    assert error.cause == GONE
