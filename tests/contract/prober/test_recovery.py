# SPDX-License-Identifier: Apache-2.0
"""A failure that lasts a moment is tried again, and a source keeps its observations when another
source fails."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from conformance.errors import ProbeBroken
from conformance.model.observation import Verdict
from conformance.probe.prober import Prober
from tests.unit.conformance.probe.broken_execs import missing_binary, no_container


def test_a_container_that_is_down_for_a_moment_is_asked_again(
    prober: Prober, agents: Any, make: Any, listening: int
) -> None:
    agents.script = [lambda channel, _: no_container(channel, make)]
    assert prober.observe([make.attempt(listening)])[0].verdict is Verdict.CONNECTED
    assert len(agents.started) == 2


def test_what_the_others_saw_is_kept_when_one_source_breaks(
    prober: Prober, agents: Any, make: Any, listening: int
) -> None:
    good, bad = make.workload("good"), make.workload("bad")
    prober.observe([make.attempt(listening, good)])
    agents.script = [lambda channel, _: missing_binary(channel, make)] * 50
    with pytest.raises(ProbeBroken) as caught:
        prober.observe([make.attempt(listening, good), make.attempt(listening, bad)])
    assert [observation.attempt.source for observation in caught.value.observations] == [good]


def test_an_overloaded_api_server_is_asked_again(
    *, prober: Prober, api: Any, agents: Any, make: Any, listening: int, fakes_status: Any
) -> None:
    api.exec_refusal = fakes_status(429, "TooManyRequests", "slow down")
    threading.Timer(0.1, lambda: setattr(api, "exec_refusal", None)).start()
    assert prober.observe([make.attempt(listening)])[0].verdict is Verdict.CONNECTED
