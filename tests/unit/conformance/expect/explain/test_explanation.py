# SPDX-License-Identifier: Apache-2.0
"""A failure carries what its text is made of, so that every output can print it as it needs."""

from __future__ import annotations

import pytest

from conformance.errors import ControlBroken, EnvironmentBroken, Nonconformance
from conformance.expect.explain import message
from conformance.expect.guard import unless_changed
from conformance.model.codec import from_plain, to_plain
from conformance.model.explanation import Explanation
from conformance.model.observation import Verdict
from tests.unit.conformance.builders import a_workload, an_expect
from tests.unit.conformance.expect.stand_in_world import StandInWorld
from tests.unit.conformance.expect.stand_ins import ScriptedProber

UP, DROPPED = Verdict.CONNECTED, Verdict.TIMED_OUT
CLIENT, OTHER, SERVER = a_workload("client"), a_workload("other"), a_workload("server").tcp(8080)


def failed(**answers: list[object]) -> Explanation:
    prober = ScriptedProber(answers)  # type: ignore[arg-type]
    expect = an_expect(prober, "CONN-3")
    with pytest.raises(Nonconformance) as raised:
        expect.reachable([CLIENT, OTHER], SERVER, because="no policy is in force")
    assert raised.value.explanation is not None
    assert str(raised.value.explanation) == str(raised.value)
    return raised.value.explanation


def test_an_expectation_about_paths_says_what_it_expected_of_which_and_what_it_saw() -> None:
    found = failed(client=[DROPPED], other=[UP])
    assert (found.claims, found.expected, found.observed) == (("CONN-3",), "CONNECTED", "TIMED_OUT")
    assert found.path == f"{CLIENT.label} -> {SERVER.label}"
    assert found.tries > 1
    assert found.lines["because"] == "no policy is in force"
    assert found.lines["beside"] == "1 of 2 paths as expected"
    assert "do" in found.lines
    assert message.MARK in found.table


def test_it_survives_json() -> None:
    found = failed(client=[DROPPED], other=[UP])
    assert from_plain(Explanation, to_plain(found)) == found


def test_a_control_and_a_restarted_pod_are_told_before_the_path() -> None:
    found = failed(client=[DROPPED], other=[UP])
    control = message.of_control(message.of_control(found), "before the change")
    words = ": expected CONNECTED"
    assert control.headline == found.headline.replace(
        words, f": control before the change failed{words}"
    )
    assert ControlBroken(control, control="x").explanation == control

    class Restarted(ScriptedProber):
        def unchanged(self, workloads: object) -> None:
            raise EnvironmentBroken("pod ns/client restarted")

    prober = Restarted({})
    expect = an_expect(prober)
    told = unless_changed(expect, [CLIENT], Nonconformance(found))
    assert isinstance(told, EnvironmentBroken)
    assert str(told).startswith("CONN-3  pod ns/client restarted; affected: ns/client (")
    assert told.explanation is not None
    assert told.explanation.lines == found.lines


@pytest.mark.parametrize("dies", [True, False])
def test_a_node_whose_kubelet_is_late_is_waited_for_before_it_counts_as_alive(dies: bool) -> None:
    """A node's death is known after 40 s, and a path of Linux pods is given 30 s."""
    late = 17.0

    class Dying(ScriptedProber):
        def unchanged(self, workloads: object) -> None:
            if dies and self.clock.now >= late:
                raise EnvironmentBroken(
                    "node n was lost during the run: its kubelet has not renewed its lease"
                )

    prober = Dying({})
    verdict = Nonconformance("CONN-3  expected CONNECTED")
    world = StandInWorld(silent=lambda nodes: nodes if prober.clock.now < late else ())
    told = unless_changed(an_expect(prober, world=world), [CLIENT], verdict)
    assert prober.clock.now >= late
    assert isinstance(told, EnvironmentBroken) if dies else told is verdict
