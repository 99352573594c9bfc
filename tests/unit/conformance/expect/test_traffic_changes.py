# SPDX-License-Identifier: Apache-2.0
"""A change of policy decides only about paths that were open before it; its removal decides only
about paths that it closed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from conformance.errors import ControlBroken, Nonconformance, UsageProblem
from conformance.expect.case import Case
from conformance.expect.context import Sink
from conformance.expect.traffic import Expect
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Decision
from conformance.model.endpoint import Workload
from conformance.model.observation import Verdict
from tests.unit.conformance.builders import a_workload
from tests.unit.conformance.expect.conftest import Make
from tests.unit.conformance.expect.stand_ins import BYSTANDER, Answer, ScriptedProber, target

FRIEND, STRANGER, SERVER = a_workload("friend"), a_workload("stranger", "windows"), target()
UP, DROPPED = Verdict.CONNECTED, Verdict.TIMED_OUT
OWN = (STRANGER, BYSTANDER)
"""Where the stranger gets at the same time."""


@dataclass
class Policies:
    """Stands in for policies: from when they apply, and when they are removed, a prober answers by other scripts."""

    prober: ScriptedProber
    after: dict[str, list[Answer]]
    without: dict[str, list[Answer]] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)

    def apply(self) -> None:
        self.done.append("applied")
        self.prober.answers, self.prober.rounds = self.after, 0

    def remove(self) -> None:
        self.done.append("removed")
        self.prober.answers, self.prober.rounds = self.without, 0


def changed(expect: Expect, **without: list[Answer]) -> Policies:
    prober = expect.prober
    assert isinstance(prober, ScriptedProber)
    return Policies(prober, {"friend": [UP], "stranger": [UP, DROPPED]}, without)


BECAUSE = "only the friend may enter"
CASES = (
    Case(FRIEND, SERVER, open=True, because=BECAUSE),
    Case(*OWN, open=True, because=BECAUSE),
    Case(STRANGER, SERVER, open=False, because=BECAUSE),
)


def test_a_change_sees_its_routes_open_before_it_and_closed_after_it(expect: Make) -> None:
    expectation = expect(friend=[UP], stranger=[UP])
    policies = changed(expectation)
    expectation.change(policies, *CASES)
    assert policies.done == ["applied"]


def test_a_change_whose_closed_route_was_not_open_before_is_not_made(expect: Make) -> None:
    expectation = expect(friend=[UP], stranger=[DROPPED])
    policies = changed(expectation)
    with pytest.raises(
        ControlBroken,
        match=r"control failed: expected CONNECTED, observed TIMED_OUT(?s:.*)path +ns/stranger ",
    ):
        expectation.change(policies, *CASES)
    assert policies.done == []


def test_a_change_that_closes_nothing_is_a_violation(expect: Make) -> None:
    expectation = expect(friend=[UP], stranger=[UP])
    policies = replace(changed(expectation), after={"friend": [UP], "stranger": [UP]})
    with pytest.raises(
        Nonconformance, match=r"expected TIMED_OUT, observed CONNECTED(?s:.*)path +ns/stranger "
    ):
        expectation.change(policies, *CASES)


def test_denials_that_are_controls_of_what_comes_need_not_last_and_decide_nothing(
    expect: Make,
) -> None:
    kept: list[Decision] = []
    seconds = []
    for base in (True, False):
        expectation = expect(friend=[UP], stranger=[UP])
        expectation = replace(expectation, context=replace(expectation.context, sink=Sink(kept)))
        policies, clock = changed(expectation), expectation.clock
        began = clock.monotonic()
        (expectation.base if base else expectation.change)(policies, *CASES)
        seconds.append(clock.monotonic() - began)
        halves = {half for decision in kept for half in decision.halves}
        assert halves == ({"open"} if base else {"open", "closed"})
    hold = expectation.timings.windows.hold
    assert seconds[1] - seconds[0] > hold - expectation.timings.windows.poll_every


def test_paths_that_are_asked_again_after_the_next_event_are_decided_and_not_held(
    expect: Make,
) -> None:
    seconds = []
    for lasts in (False, True):
        kept: list[Decision] = []
        expectation = expect(friend=[UP], stranger=[UP])
        expectation = replace(expectation, context=replace(expectation.context, sink=Sink(kept)))
        expectation.base(changed(expectation), *CASES)
        began = expectation.clock.monotonic()
        expectation.matrix(*CASES, lasts=lasts)
        seconds.append(expectation.clock.monotonic() - began)
        assert {half for decision in kept for half in decision.halves} == {"open", "closed"}
    timings = expectation.timings.windows
    assert seconds[1] - seconds[0] > timings.hold - timings.poll_every


def test_what_passes_a_policy_that_is_a_control_of_what_comes_is_a_violation_all_the_same(
    expect: Make,
) -> None:
    kept: list[Decision] = []
    expectation = expect(friend=[UP], stranger=[UP])
    expectation = replace(expectation, context=replace(expectation.context, sink=Sink(kept)))
    policies = replace(changed(expectation), after={"friend": [UP], "stranger": [UP]})
    with pytest.raises(
        Nonconformance, match=r"expected TIMED_OUT, observed CONNECTED(?s:.*)path +ns/stranger "
    ):
        expectation.base(policies, *CASES)
    assert ClaimVerdict.VIOLATED in {decision.verdict for decision in kept}


def test_a_route_that_stays_closed_once_the_policy_is_removed_is_a_violation(expect: Make) -> None:
    expectation = expect(friend=[UP], stranger=[UP])
    open_again, stays = (
        changed(expectation, friend=[UP], stranger=[DROPPED, UP]),
        changed(expectation, friend=[UP], stranger=[DROPPED]),
    )
    expectation.change(open_again, *CASES)
    expectation.removed(open_again, because="nothing is in force any more")
    expectation.change(stays, *CASES)
    with pytest.raises(
        Nonconformance, match=r"expected CONNECTED, observed TIMED_OUT(?s:.*)path +ns/stranger "
    ):
        expectation.removed(stays, because="nothing is in force any more")
    assert stays.done == ["applied", "removed"]


def test_a_route_that_wavers_once_the_policy_is_removed_is_a_broken_control(expect: Make) -> None:
    expectation = expect(friend=[UP], stranger=[UP])
    policies = changed(expectation, friend=[UP], stranger=[UP, DROPPED])
    policies.without["stranger"] *= 200
    expectation.change(policies, *CASES)
    with pytest.raises(ControlBroken, match=r"observed CONNECTED(?s:.*)path +ns/stranger "):
        expectation.removed(policies, because="nothing is in force any more")


NEW = {"friend": replace(FRIEND, os="windows", node="windows-1"), "stranger": STRANGER}
"""A friend and a stranger that come to one node when the policy is in force already."""


def of(friend: Workload) -> tuple[Case, ...]:
    return (replace(CASES[0], clients=friend), *CASES[1:])


def test_what_came_later_is_denied_where_another_that_came_with_it_enters(expect: Make) -> None:
    friend = NEW["friend"]
    expectation = expect(friend=[UP], stranger=[DROPPED])
    expectation.matrix(*of(friend), new=NEW.values())
    open_again = changed(expectation, friend=[UP], stranger=[UP])
    assert expectation.removed(open_again, because="nothing is in force any more")


@pytest.mark.parametrize(
    ("friend", "new"),
    [(FRIEND, [FRIEND, STRANGER]), (NEW["friend"], [STRANGER]), (NEW["friend"], [])],
    ids=["from another node", "an old one", "nobody is new"],
)
def test_what_came_later_is_not_denied_where_no_other_that_came_to_its_node_enters(
    expect: Make, friend: Workload, new: list[Workload]
) -> None:
    with pytest.raises(ControlBroken, match="never found the path open"):
        expect(friend=[UP], stranger=[DROPPED]).matrix(*of(friend), new=new)


def test_what_came_later_and_stays_closed_without_the_policy_proves_nothing(expect: Make) -> None:
    friend = NEW["friend"]
    expectation = expect(friend=[UP], stranger=[DROPPED])
    expectation.matrix(*of(friend), new=NEW.values())
    with pytest.raises(
        ControlBroken,
        match=r"control failed: expected CONNECTED, observed TIMED_OUT(?s:.*)path +ns/stranger ",
    ):
        expectation.removed(
            changed(expectation, stranger=[DROPPED]), because="nothing is in force any more"
        )


def test_a_removal_that_could_open_nothing_is_refused(expect: Make) -> None:
    expectation = expect(friend=[UP])
    with pytest.raises(UsageProblem, match="found no closed path"):
        expectation.removed(changed(expectation), because="nothing is in force any more")


WITNESSED = (*CASES[:2], replace(CASES[2], witness=True))


def keeping(expectation: Expect, kept: list[Decision]) -> Expect:
    return replace(expectation, context=replace(expectation.context, sink=Sink(kept)))


def test_what_passes_where_another_claim_says_that_it_must_not_is_a_broken_control_of_this_one(
    expect: Make,
) -> None:
    kept: list[Decision] = []
    expectation = keeping(expect(friend=[UP], stranger=[UP]), kept)
    policies = replace(changed(expectation), after={"friend": [UP], "stranger": [UP]})
    with pytest.raises(
        ControlBroken,
        match=r"windows-1 does not enforce the policy: control failed: expected TIMED_",
    ):
        expectation.change(policies, *WITNESSED)
    assert [
        (one.verdict, one.halves) for one in kept if one.verdict is not ClaimVerdict.CONFIRMED
    ] == [(ClaimVerdict.INCONCLUSIVE, ("closed",))]


def test_what_is_closed_to_a_friend_violates_however_open_the_witness_is(expect: Make) -> None:
    expectation = expect(friend=[UP], stranger=[UP])
    policies = replace(changed(expectation), after={"friend": [DROPPED], "stranger": [UP]})
    with pytest.raises(
        Nonconformance, match=r"expected CONNECTED, observed TIMED_OUT(?s:.*)path +ns/friend "
    ):
        expectation.change(policies, *WITNESSED)


def test_a_witness_that_closes_is_the_denial_beside_what_stays_open_and_opens_again(
    expect: Make,
) -> None:
    kept: list[Decision] = []
    expectation = keeping(expect(friend=[UP], stranger=[UP]), kept)
    policies = changed(expectation, friend=[UP], stranger=[UP])
    expectation.change(policies, *WITNESSED)
    assert {(one.verdict, one.halves) for one in kept} == {
        (ClaimVerdict.CONFIRMED, ("open",)), (ClaimVerdict.CONFIRMED, ("closed",))
    }  # fmt: skip
    assert expectation.removed(policies, because="nothing is in force any more")
