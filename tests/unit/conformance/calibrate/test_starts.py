# SPDX-License-Identifier: Apache-2.0
"""Agents that do not start are closed; answers that are cut off break one step alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from conformance.calibrate import network, starts
from conformance.calibrate.record import Record
from conformance.errors import ProbeBroken
from tests.unit.conformance.builders import a_workload


class Silent:
    """An agent that never greets."""

    closed = 0

    def __init__(self, *given: Any, **how: Any) -> None:
        pass

    def greet(self, within: float) -> None:
        raise ProbeBroken("no hello")

    def close(self) -> None:
        Silent.closed += 1


def scene(client: Any, **more: Any) -> Any:
    return SimpleNamespace(
        pods=SimpleNamespace(kube=None),
        box=SimpleNamespace(remaining=1.0),
        clients=[client],
        servers=[client],
        record=Record(),
        pick=lambda pods, system: pods[0],
        each=lambda name, places, work: [work(place) for place in places],
        **more,
    )


def test_an_agent_that_does_not_greet_is_closed(monkeypatch: Any) -> None:
    monkeypatch.setattr(starts, "Agent", Silent)
    with pytest.raises(ProbeBroken, match="no hello"):
        starts.agents(scene(a_workload()))
    assert Silent.closed == 1


@pytest.mark.parametrize(
    ("late_at", "asked", "borne"),
    [(5, [5], 0), (20, [5, 10, 20], 10), (40, [5, 10, 20, 40], 20), (None, [5, 10, 20, 40], 40)],
)
def test_no_faster_step_follows_the_first_late_attempt(
    monkeypatch: pytest.MonkeyPatch, late_at: int | None, asked: list[int], borne: int
) -> None:
    done: list[int] = []

    def late(scene: Any, attempt: Any, rate: int) -> float:
        done.append(rate)
        return 0.6 if rate == late_at else 0.1

    monkeypatch.setattr(starts, "_late", late)
    found = scene(client := a_workload(), prober=SimpleNamespace(observe=lambda batch: []))
    found.pick = lambda pods, system, other: pods[0]
    starts.rates(found)
    assert done == asked
    assert found.record.measurements["attempts-per-second", client.node]["values"] == [borne]


def test_answers_that_are_cut_off_are_a_broken_probe() -> None:
    done = SimpleNamespace(stdout=b'{"odd": "4', output='{"odd": "4')
    with pytest.raises(ProbeBroken, match="printed no complete JSON object"):
        network.http(scene(a_workload(), command=lambda *words: done))
