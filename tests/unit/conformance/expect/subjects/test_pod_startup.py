# SPDX-License-Identifier: Apache-2.0
"""A pod's first seconds: an answer of any kind is a leak, a dead client proves nothing, the policy needs a witness."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from conformance.errors import ControlBroken, EnvironmentBroken, Nonconformance
from conformance.expect.context import Sink
from conformance.expect.owners import NoForeignChanges
from conformance.expect.subjects.pod_startup import PodStartup
from conformance.model.attempt import Attempt, Kind
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Decision
from conformance.model.endpoint import Workload
from conformance.model.observation import Observation, Verdict
from conformance.pods import new_pod as pods
from conformance.pods.new_pod import Stage
from tests.unit.conformance.builders import a_workload, an_expect
from tests.unit.conformance.expect.stand_in_world import StandInWorld
from tests.unit.conformance.expect.stand_ins import ScriptedProber

UP, DROPPED, REFUSED = Verdict.CONNECTED, Verdict.TIMED_OUT, Verdict.REFUSED
UNREACHABLE = Verdict.UNREACHABLE
CLIENT, POD = a_workload("client"), a_workload("pod", "windows")


@dataclass
class NewPod(pods.NewPod):
    """A pod that is as far as it is said to be; the last stage lasts."""

    stages: list[Stage] = field(default_factory=lambda: ["done"])
    connected: bool = True
    pod: Workload = POD
    readiness: bool = True
    waits_for: str = ""

    def stage(self) -> Stage:
        return self.stages.pop(0) if len(self.stages) > 1 else self.stages[0]

    def ready(self) -> bool:
        return self.readiness

    def connected_first(self) -> bool:
        return self.connected

    def held_up(self) -> str:
        return self.waits_for


class LetsOut(NoForeignChanges):
    """A policy of others that lets out whatever a pod sends."""

    def excuse(self, *way: Any, **how: object) -> str:
        source, _, seen = way
        return (
            f"NetworkPolicy friendly allows egress of {source.namespace}/{source.pod}"
            if seen == "open"
            else ""
        )


def startup(
    rounds: list[dict[int, Verdict]],
    *,
    source: str = "client",
    figures: dict[str, float | str] | None = None,
    restarted: Sequence[str] = (),
) -> tuple[PodStartup, list[Decision]]:
    """What each round's attempts to each port come to; the last round lasts."""
    kept: list[Decision] = []

    def by_port(verdicts: dict[int, Verdict]) -> Any:
        def make(attempt: Attempt, _: int) -> Observation:
            assert attempt.target
            return Observation(
                attempt=attempt, verdict=verdicts[attempt.target.port], at=0.0, seconds=0.01
            )

        return make

    prober = ScriptedProber({source: [by_port(item) for item in rounds]}, restarted=set(restarted))
    recorded = figures if figures is not None else {}
    return PodStartup(an_expect(prober, "XPOL-11", sink=Sink(kept, recorded=recorded))), kept


def watch(one: PodStartup, *stages: Stage) -> None:
    beside = a_workload("beside").tcp(80)
    one.accept_nothing(CLIENT, [NewPod(list(stages or ("done",)))], beside=beside, because="x")


def test_silence_from_the_first_moment_is_what_is_wanted() -> None:
    watch(startup([{8080: DROPPED, 80: UP}])[0])


def test_it_is_watched_until_its_first_action_is_done_and_for_a_while_since_it_ran() -> None:
    figures: dict[str, float | str] = {}
    before: Sequence[Stage] = ["to start"] * 30
    watch(startup([{8080: DROPPED, 80: UP}], figures=figures)[0], *before, "acting", "done")
    assert figures == {"seconds watched": 35.0, "seconds watched since it ran": 5.0}
    with pytest.raises(Nonconformance, match=r"observed .*CONNECTED 1 time"):
        watch(
            startup([*[{8080: DROPPED, 80: UP}] * 32, {8080: UP, 80: UP}])[0],
            *before,
            "acting",
            "done",
        )


def test_a_first_action_that_never_ends_says_nothing_about_the_cluster() -> None:
    with pytest.raises(
        EnvironmentBroken,
        match=r"^XPOL-11: linux-1 to windows-1 .* its first action was still acting",
    ):
        watch(startup([{8080: DROPPED, 80: UP}])[0], "acting")
    held = NewPod(["to start"], waits_for="pod x: ErrImagePull")
    with pytest.raises(
        EnvironmentBroken, match="its first action was still to start: pod x: ErrImagePull"
    ):
        startup([{8080: DROPPED, 80: UP}])[0].accept_nothing(
            CLIENT, [held], beside=a_workload("beside").tcp(80), because="x"
        )


@pytest.mark.parametrize("answer", [UP, REFUSED, Verdict.RESET])
def test_any_answer_means_that_packets_reached_the_pod(answer: Verdict) -> None:
    one, _ = startup([{8080: DROPPED, 80: UP}, {8080: answer, 80: UP}])
    with pytest.raises(Nonconformance, match=f"expected TIMED_OUT, observed .*{answer.value}"):
        watch(one)


@pytest.mark.parametrize("verdict", [DROPPED, UNREACHABLE, REFUSED])
def test_a_client_that_reaches_nobody_proves_nothing(verdict: Verdict) -> None:
    with pytest.raises(
        ControlBroken,
        match=r"^XPOL-11: linux-1 to linux-1 .*: control failed: .* CONNECTED, .*1 try.*a dead client",
    ):
        watch(startup([{8080: verdict, 80: verdict}])[0])


def test_a_pod_without_a_route_yet_has_not_answered() -> None:
    watch(startup([*[{8080: UNREACHABLE, 80: UP}] * 3, {8080: DROPPED, 80: UP}])[0])
    with pytest.raises(
        ControlBroken, match=r"expected TIMED_OUT, observed UNREACHABLE .*neither an answer"
    ):
        watch(startup([{8080: UNREACHABLE, 80: UP}])[0])


def test_a_client_that_restarted_meanwhile_says_nothing() -> None:
    with pytest.raises(
        EnvironmentBroken,
        match=r"XPOL-11  pod .* restarted 1 time; affected: ns/client ",
    ):
        watch(startup([{8080: UP, 80: UP}], restarted=["client"])[0])


def test_whether_egress_was_held_back_is_told_and_decides_nothing() -> None:
    for connected, verdict in ((True, ClaimVerdict.CONFIRMED), (False, ClaimVerdict.NOT_OBSERVED)):
        one, kept = startup([{80: UP}, {80: DROPPED}], source="pod")
        one.may_have_sent([NewPod(connected=connected)], CLIENT.tcp(80), because="x")
        assert [each.verdict for each in kept] == [verdict]


def observe(one: PodStartup, *stages: Stage) -> None:
    beside = a_workload("beside").tcp(80)
    one.may_have_accepted(CLIENT, [NewPod(list(stages or ("done",)))], beside=beside, because="x")


@pytest.mark.parametrize("answer", [UP, REFUSED, Verdict.RESET])
def test_a_pod_that_is_reached_before_its_policy_is_as_documented_and_a_refusal_counts(
    answer: Verdict,
) -> None:
    one, kept = startup([{8080: answer, 80: UP}, {8080: answer, 80: UP}, {8080: DROPPED, 80: UP}])
    observe(one)
    assert [(each.verdict, each.halves) for each in kept] == [(ClaimVerdict.CONFIRMED, ("closed",))]
    assert "was answered 2 of" in kept[0].reason


def test_a_pod_that_is_never_reached_did_not_show_it() -> None:
    one, kept = startup([{8080: DROPPED, 80: UP}])
    observe(one, "to start", "acting", "done")
    assert [each.verdict for each in kept] == [ClaimVerdict.NOT_OBSERVED]


def test_a_reset_of_the_pod_beside_does_not_end_the_watch() -> None:
    one, kept = startup(
        [{8080: UP, 80: UP}, {8080: UP, 80: Verdict.RESET}, {8080: DROPPED, 80: UP}]
    )
    observe(one)
    assert [each.verdict for each in kept] == [ClaimVerdict.CONFIRMED]


def test_a_pod_that_its_policy_never_closes_is_a_violation_and_a_dead_client_shows_nothing() -> (
    None
):
    one, kept = startup([{8080: UP, 80: UP}])
    with pytest.raises(
        Nonconformance, match=r"observed .*CONNECTED .*\n(.*\n)*.*read Felix' log on that node"
    ):
        observe(one)
    assert [each.verdict for each in kept] == [ClaimVerdict.VIOLATED]
    with pytest.raises(ControlBroken, match="a dead client"):
        observe(startup([{8080: DROPPED, 80: DROPPED}])[0])


@pytest.mark.parametrize("connected", [True, False])
def test_a_policy_that_never_takes_effect_is_a_violation_whatever_the_first_action_says(
    connected: bool,
) -> None:
    one, kept = startup([{80: UP}], source="pod")
    with pytest.raises(
        Nonconformance,
        match=r"^XPOL-11: windows-1 does not enforce the policy: .* tries, .* not in force",
    ):
        one.may_have_sent([NewPod(connected=connected)], CLIENT.tcp(80), because="x")
    assert [seen.verdict for seen in kept] == [ClaimVerdict.VIOLATED]


def test_of_two_new_pods_only_the_one_that_answers_is_violated() -> None:
    leaky = replace(POD, node="windows-2", address="192.168.0.77")
    one, kept = startup([{8080: DROPPED, 80: UP}])
    assert isinstance(one.expect.prober, ScriptedProber)

    def answer(attempt: Attempt, _: int) -> Observation:
        assert attempt.target
        up = attempt.target.port == 80 or attempt.target.host == leaky.address
        return Observation(attempt=attempt, verdict=UP if up else DROPPED, at=0.0, seconds=0.01)

    one.expect.prober.answers["client"] = [answer]
    beside = a_workload("beside").tcp(80)
    with pytest.raises(Nonconformance, match=r"192\.168\.0\.77"):
        one.accept_nothing(CLIENT, [NewPod(), NewPod(pod=leaky)], beside=beside, because="x")
    assert [
        (each.target, each.verdict) for each in kept if each.verdict is ClaimVerdict.VIOLATED
    ] == [("windows-2", ClaimVerdict.VIOLATED)]


def test_a_first_action_that_passed_is_a_violation_where_nothing_may_leave() -> None:
    for connected, verdict in ((False, ClaimVerdict.CONFIRMED), (True, ClaimVerdict.VIOLATED)):
        one, kept = startup([{80: UP}], source="pod")
        with (
            pytest.raises(Nonconformance, match="expected TIMED_OUT, observed CONNECTED")
            if connected
            else nullcontext()
        ):
            one.sent_nothing([NewPod(connected=connected)], CLIENT.tcp(80), because="x")
        assert [each.verdict for each in kept] == [verdict]


def test_a_first_action_that_passed_beside_a_policy_of_others_that_lets_it_out_decides_nothing() -> (
    None
):
    one, kept = startup([{80: UP}], source="pod")
    one = replace(
        one,
        expect=replace(
            one.expect, context=replace(one.expect.context, world=StandInWorld(others=LetsOut()))
        ),
    )
    with pytest.raises(
        EnvironmentBroken,
        match="caused neither by Calico nor by this run: NetworkPolicy friendly allows egress "
        "of ns/pod",
    ):
        one.sent_nothing([NewPod()], CLIENT.tcp(80), because="x")
    assert [each.verdict for each in kept] == [ClaimVerdict.INCONCLUSIVE]


def test_a_pod_that_the_kubelet_never_finds_ready_is_told_with_its_node() -> None:
    one, kept = startup([{8080: DROPPED, 80: UP}])
    behind = NewPod(readiness=False, pod=replace(POD, node="windows-2"))
    with pytest.raises(
        Nonconformance,
        match=r"^XPOL-11: the kubelet of windows-2 to its own pod: .*by its readiness probe, observed not Ready",
    ):
        one.become_ready(
            CLIENT, [NewPod(), behind], beside=a_workload("beside").tcp(80), because="x"
        )
    assert [(each.target, each.verdict.value) for each in kept if each.halves == ("open",)] == [
        (POD.node, "CONFIRMED"), ("windows-2", "VIOLATED"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("waits_for", "restarted", "says"),
    [("pod x: server ContainerCreating: its image is still being pulled", [], "pod x: server ContainerCreating: its"),
     ("", ["pod"], "restarted 1 time; affected")],
)  # fmt: skip
def test_a_server_that_was_never_started_or_is_not_what_it_was_says_nothing_of_the_kubelets_way(
    waits_for: str, restarted: list[str], says: str
) -> None:
    one, kept = startup([{8080: DROPPED, 80: UP}], restarted=restarted)
    held = NewPod(readiness=False, waits_for=waits_for)
    with pytest.raises(EnvironmentBroken, match=says):
        one.become_ready(CLIENT, [held], beside=a_workload("beside").tcp(80), because="x")
    assert kept[-1].verdict is ClaimVerdict.INCONCLUSIVE


def test_a_client_that_gets_past_the_policy_is_a_violation() -> None:
    one, kept = startup([{8080: UP, 80: UP}])
    with pytest.raises(
        Nonconformance, match="no policy is in force that could keep the kubelet out"
    ):
        one.become_ready(CLIENT, [NewPod()], beside=a_workload("beside").tcp(80), because="x")
    assert [(seen.verdict, seen.halves) for seen in kept] == [(ClaimVerdict.VIOLATED, ("closed",))]


@pytest.mark.parametrize(
    "verdicts",
    [{8080: Verdict.UNREACHABLE, 80: UP}, {8080: DROPPED, 80: DROPPED}],
    ids=["no route", "dead client"],
)
def test_readiness_proves_nothing_where_nothing_is_denied_or_the_client_is_dead(
    verdicts: dict[int, Verdict],
) -> None:
    one, kept = startup([verdicts])
    with pytest.raises(ControlBroken):
        one.become_ready(CLIENT, [NewPod()], beside=a_workload("beside").tcp(80), because="x")
    assert kept == []


def test_a_control_that_another_pod_answers_is_none() -> None:
    def answer(attempt: Attempt, _: int) -> Observation:
        assert attempt.target
        verdict = DROPPED if attempt.target.port == 8080 else UP
        named = "ns/another-pod" if verdict is UP and attempt.kind is Kind.HTTP else ""
        return Observation(attempt=attempt, verdict=verdict, at=0.0, seconds=0.01, served_by=named)

    one, kept = startup([])
    one.expect.prober.answers["client"] = [answer]  # type: ignore[attr-defined]
    with pytest.raises(ControlBroken, match="an answer of ns/another-pod"):
        watch(one)
    with pytest.raises(ControlBroken, match="an answer of ns/another-pod"):
        one.become_ready(CLIENT, [NewPod()], beside=a_workload("beside").tcp(80), because="x")
    assert all(each.verdict is ClaimVerdict.INCONCLUSIVE for each in kept)
