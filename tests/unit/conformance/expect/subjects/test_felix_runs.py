# SPDX-License-Identifier: Apache-2.0
"""Felix has to run on every Ready Windows node: which states count as not running, which do not,
and which node is to blame."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from conformance.errors import EnvironmentBroken, MissingCapability, Nonconformance
from conformance.evidence.felix_processes import FelixProcesses
from conformance.expect.context import Context, Sink
from conformance.expect.subjects.felix_runs import FelixRuns
from conformance.facts.felix_state import felix_down, felix_pod_states
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Decision
from conformance.timing import SystemClock
from tests.plugin.stand_in_cluster import facts
from tests.unit.conformance.facts.test_felix_state import REFUSED, Kube, pod

WINDOWS = facts().by_os("windows")
NAMES = [node.name for node in WINDOWS]
LOOPS = "felix CrashLoopBackOff, 10 restarts"


class Fast(SystemClock):
    """One whose seconds pass when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def runs(
    down: Callable[[Sequence[str]], Mapping[str, str]],
    kept: list[Decision],
    *,
    lost: str = "",
    changed: bool = False,
) -> FelixRuns:
    return FelixRuns(
        Context(claims=("PLAT-14",), sink=Sink(kept)), WINDOWS, down, lambda nodes: {lost: f"node {lost} was lost"},
        lambda node: changed, 60.0, 1.0, Fast(),
    )  # fmt: skip


def test_it_may_be_away_for_a_while() -> None:
    kept: list[Decision] = []
    answers = iter([{NAMES[0]: LOOPS}, {}, {NAMES[0]: LOOPS}, {}, {}])
    runs(lambda nodes: next(answers), kept).everywhere(because="it programs policies")
    assert {one.verdict for one in kept} == {ClaimVerdict.CONFIRMED}


def test_a_node_on_which_it_stays_away_is_the_first_line() -> None:
    kept: list[Decision] = []
    with pytest.raises(Nonconformance) as raised:
        runs(lambda nodes: {NAMES[0]: LOOPS}, kept).everywhere(because="it programs policies")
    told = str(raised.value).splitlines()
    assert told[0].startswith(f"PLAT-14: Felix does not run on {NAMES[0]}: {LOOPS}, for 60 s")
    assert told[-1].endswith(f"spec.nodeName={NAMES[0]}"), "a command that can be pasted"
    assert [one.verdict for one in kept if one.target == NAMES[0]] == [ClaimVerdict.VIOLATED]


@pytest.mark.parametrize("why", [{"lost": NAMES[0]}, {"changed": True}])
def test_a_node_that_died_or_that_the_run_has_changed_is_no_violation(
    why: dict[str, object],
) -> None:
    with pytest.raises(EnvironmentBroken):
        runs(lambda nodes: {NAMES[0]: LOOPS}, [], **why).everywhere(because="x")  # type: ignore[arg-type]


def test_a_pod_that_is_not_ready_or_was_started_twice_does_not_run() -> None:
    unready, again = (
        pod("calico-node-a", "w1", "felix", ready=False),
        pod("calico-node-b", "w2", "felix", restarts=7),
    )
    assert felix_down([unready, again], ["w1", "w2"], {"w1": 0, "w2": 6}).keys() == {"w1"}
    assert felix_down([unready, again], ["w2"], {"w2": 5}) == {"w2": "ready, 7 restarts"}
    assert felix_down([again], ["w2"], {}) == {}, "restarts before the run are nobody's matter"


def test_of_two_pods_on_a_node_the_one_that_stays_counts() -> None:
    old, new = pod("calico-node-a", "w1", "felix", ready=False), pod("calico-node-b", "w1", "felix")
    old["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert felix_pod_states([new, old])["w1"].runs


def looks(*pods: object, program: str | None = None) -> FelixProcesses:
    kube: Any = Kube(*pods)  # type: ignore[arg-type]
    return FelixProcesses(kube, {}, None if program is None else lambda node: (program, ""))


def test_a_node_without_a_pod_is_asked_for_a_process_of_its_host() -> None:
    there = pod("calico-node-a", "w1", "felix")
    assert looks(there).down(["w1", "w2"]) == {"w2": "the node has no pod of calico-node"}
    assert looks(there, program="calico-node.exe").down(["w1", "w2"]) == {}
    assert looks(there, program="").down(["w1", "w2"]) == {"w2": "the node has no process of Felix"}


def test_who_may_not_list_pods_says_nothing() -> None:
    class Refusing(Kube):
        def objects(self, *_: object, **__: object) -> list[dict[str, object]]:
            raise REFUSED

    with pytest.raises(MissingCapability):
        FelixProcesses(Refusing(), {}, None).down(["w1"])  # type: ignore[arg-type]
