# SPDX-License-Identifier: Apache-2.0
"""A limitation is as documented, lifted or neither, each with a witness; no other observation
counts as one of these."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from conformance.errors import ControlBroken, Nonconformance, ProbeBroken, UsageProblem
from conformance.expect.case import Case
from conformance.expect.context import Context, Sink
from conformance.expect.figures import PolicyChange
from conformance.expect.limitation import LimitedCase, decide
from conformance.model.attempt import Attempt
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Decision
from conformance.model.endpoint import Pair
from conformance.model.observation import Observation, Verdict
from tests.unit.conformance.builders import a_workload, an_expect
from tests.unit.conformance.expect.stand_in_world import StandInWorld
from tests.unit.conformance.expect.stand_ins import BYSTANDER, Answer, ScriptedProber, target

UP, DROPPED = Verdict.CONNECTED, Verdict.TIMED_OUT
FRIEND, FOE, BESIDE = a_workload("friend"), a_workload("foe"), a_workload("beside")
SERVER = target()
BECAUSE = "the rule is skipped"
CLOSED = Case(FRIEND, SERVER, open=False, because=BECAUSE)
OPEN = Case(FRIEND, SERVER, open=True, because=BECAUSE)
WITNESS = (
    Case(BESIDE, SERVER, open=True, because="the rule is for it", witness=True),
    Case([FRIEND, FOE], BYSTANDER, open=True, because="no policy selects it", witness=True),
    Case(FOE, SERVER, open=False, because="no rule is for it", witness=True),
)


@dataclass
class Script:
    """What the three answer once the policy is applied."""

    answers: dict[str, list[Answer]]
    kept: list[Decision] = field(default_factory=list)
    prober: ScriptedProber = field(
        default_factory=lambda: ScriptedProber({name: [UP] for name in ("friend", "foe", "beside")})
    )

    def apply(self) -> None:
        self.prober.answers, self.prober.rounds = self.answers, 0

    def judge(self, *cases: Case) -> dict[str, str]:
        """Return the reasons of paths by their verdict."""
        expect = an_expect(self.prober, "XPOL-1", kept=self.kept)
        expect.limitation(self, *(cases or (CLOSED, *WITNESS)))
        return {str(decision.verdict): decision.reason for decision in self.kept}


def after(friend: Answer, foe: Answer = DROPPED, beside: Answer = UP) -> Script:
    return Script({"friend": [friend], "foe": [foe], "beside": [beside]})


def test_what_is_as_documented_is_confirmed() -> None:
    assert after(DROPPED).judge() == {"CONFIRMED": "the rule is skipped"}
    assert list(after(UP).judge(OPEN, *WITNESS)) == ["CONFIRMED"]


def test_what_works_is_lifted() -> None:
    found = after(UP).judge()
    assert list(found) == ["LIFTED"]
    assert found["LIFTED"].endswith("is open, although the rule is skipped")
    assert list(after(DROPPED).judge(OPEN, *WITNESS)) == ["LIFTED"]


@pytest.mark.parametrize("friend", [UP, DROPPED])
def test_where_the_excepted_enter_it_is_violated_whatever_the_path_is(friend: Answer) -> None:
    script = after(friend, foe=UP)
    with pytest.raises(Nonconformance, match="expected TIMED_OUT, observed CONNECTED"):
        script.judge()
    assert {str(decision.verdict) for decision in script.kept} == {"VIOLATED"}


def test_a_path_that_is_neither_open_nor_closed_is_violated() -> None:
    script = after(Verdict.RESET)
    with pytest.raises(Nonconformance) as caught:
        script.judge(OPEN, *WITNESS)
    assert "so        neither as documented" in "\n".join(caught.value.__notes__)
    assert {str(decision.verdict) for decision in script.kept} == {"VIOLATED"}


def test_a_witness_that_lost_its_network_decides_nothing() -> None:
    script = after(DROPPED, beside=DROPPED)
    with pytest.raises(ControlBroken):
        script.judge()
    assert {str(decision.verdict) for decision in script.kept} == {"INCONCLUSIVE"}


def test_a_probe_that_broke_decides_nothing() -> None:
    script = after(ProbeBroken("agent died"))
    with pytest.raises(ProbeBroken):
        script.judge()
    assert {str(decision.verdict) for decision in script.kept} <= {"INCONCLUSIVE"}


@pytest.mark.parametrize("cases", [(CLOSED,), WITNESS], ids=["no witness", "nothing limited"])
def test_what_could_not_tell_the_ends_apart_is_refused(cases: tuple[Case, ...]) -> None:
    with pytest.raises(UsageProblem, match="name a case with the documented result, and a witness"):
        after(UP).judge(*cases)


OTHER = target("192.168.0.10")


TWO = (
    Case([BESIDE, FRIEND, FOE], BYSTANDER, open=True, witness=True, because="no policy selects it"),
    Case(BESIDE, SERVER, open=True, part="one", witness=True, because="the rule is for it"),
    Case(FRIEND, SERVER, open=False, part="one", because=BECAUSE),
    Case(FOE, SERVER, open=False, part="one", always=True, because="no rule is for it"),
    Case(BESIDE, OTHER, open=True, part="two", witness=True, because="the rule is for it"),
    Case(FRIEND, OTHER, open=False, part="two", because="the other rule is skipped"),
    Case(FOE, OTHER, open=False, part="two", always=True, because="no rule is for it"),
)
"""Two parts, each about a server of its own."""


def at_first(verdict: Answer, otherwise: Answer) -> Answer:
    """One answer at the first server, another at the other, and at the bystander that it is up."""

    def answer(attempt: Attempt, round_: int) -> Observation:
        told = verdict if attempt.target == SERVER else otherwise
        told = UP if attempt.target == BYSTANDER else told
        assert isinstance(told, Verdict)
        return Observation(attempt=attempt, verdict=told, seconds=0.1, at=0.0)

    return answer


def together(**answers: Answer) -> tuple[set[tuple[str, str]], BaseException | None]:
    """Part and verdict of each decision, and what was raised; answers are the first server's."""

    usual: dict[str, Answer] = {"friend": DROPPED, "foe": DROPPED, "beside": UP}
    script = Script(
        {name: [at_first(answers.get(name, told), told)] for name, told in usual.items()}
    )
    expect = an_expect(script.prober, "XPOL-1", kept=script.kept)
    raised: BaseException | None = None
    try:
        expect.limitation(script, *TWO)
    except (Nonconformance, ControlBroken) as error:
        raised = error
    return {(one.part, str(one.verdict)) for one in script.kept}, raised


def test_each_of_several_under_one_change_has_an_end_of_its_own() -> None:
    assert together() == ({("one", "CONFIRMED"), ("two", "CONFIRMED")}, None)
    told, raised = together(friend=UP)
    assert told == {("one", "LIFTED"), ("one", "CONFIRMED"), ("two", "CONFIRMED")}
    assert raised is None


def test_each_of_several_is_decided_for_its_own_reason() -> None:
    script = Script(
        {name: [told] for name, told in (("friend", UP), ("foe", DROPPED), ("beside", UP))}
    )
    an_expect(script.prober, "XPOL-1", kept=script.kept).limitation(script, *TWO)
    reasons = {one.part: one.reason for one in script.kept if one.verdict is ClaimVerdict.LIFTED}
    assert reasons["one"].endswith("is open, although the rule is skipped")
    assert reasons["two"].endswith("is open, although the other rule is skipped")


def test_a_part_without_a_witness_of_its_own_or_of_all_is_refused() -> None:
    with pytest.raises(UsageProblem, match="name a case with the documented result, and a witness"):
        after(DROPPED).judge(*TWO[1:4], *TWO[5:])


def test_what_is_wrong_with_one_leaves_the_others_as_they_are() -> None:
    told, raised = together(foe=UP)
    assert ("one", "VIOLATED") in told
    assert {verdict for part, verdict in told if part == "two"} == {"CONFIRMED"}
    assert isinstance(raised, Nonconformance)


def test_a_witness_that_is_lost_leaves_the_others_as_they_are() -> None:
    told, raised = together(beside=DROPPED)
    assert {verdict for part, verdict in told if part == "one"} == {"INCONCLUSIVE"}
    assert {verdict for part, verdict in told if part == "two"} == {"CONFIRMED"}
    assert isinstance(raised, ControlBroken)


def test_what_is_not_the_worst_of_a_look_begins_with_its_nodes_too() -> None:
    _, raised = together(foe=UP, beside=DROPPED)
    assert isinstance(raised, ControlBroken)
    assert str(raised).startswith(
        "XPOL-1: control failed: linux-1 to 192.168.0.9 (80/tcp): ns/beside (linux, node "
    )


def test_a_denial_beside_a_path_that_is_gone_is_judged_where_that_path_is_no_control_of_it() -> (
    None
):
    script = after(DROPPED, foe=DROPPED)
    an_expect(script.prober, "UNSUP-2", kept=script.kept).limitation(
        script,
        Case(FRIEND, SERVER, open=True, because="it is read for all"),
        Case(FOE, SERVER, open=False, always=True, because="no rule is for it"),
        TWO[0],
    )
    assert sorted(str(one.verdict) for one in script.kept) == ["CONFIRMED", "LIFTED"]


def in_and_out(
    foe: Answer, friend: Answer = UP, *, base: bool = False
) -> tuple[list[Decision], BaseException | None]:
    """The decisions of two parts under one change, where the foe is answered so at the first server."""
    script = Script({"friend": [friend], "foe": [at_first(foe, DROPPED)], "beside": [UP]})
    change = PolicyChange(what="NetworkPolicy", at=0.0, enforced_at="both")
    cases = [
        Case(FRIEND, SERVER, open=True, part="in", at="target", because=BECAUSE),
        Case(FOE, BYSTANDER, open=True, part="in", at="target", because=BECAUSE),
        Case(FOE, SERVER, open=False, part="in", at="target", because=BECAUSE),
        Case(BESIDE, OTHER, open=True, part="out", at="source", because=BECAUSE),
        Case(FOE, OTHER, open=False, part="out", at="source", because=BECAUSE),
    ]
    raised: BaseException | None = None
    expect = an_expect(
        script.prober, "POL-1", kept=script.kept, world=StandInWorld(change=lambda: change)
    )
    try:
        (expect.base if base else expect.change)(script, *cases)
    except (Nonconformance, ControlBroken) as error:
        raised = error
    return script.kept, raised


def test_parts_that_share_a_change_are_decided_each_for_itself() -> None:
    kept, raised = in_and_out(DROPPED)
    assert {(one.part, str(one.verdict)) for one in kept} == {
        ("in", "CONFIRMED"),
        ("out", "CONFIRMED"),
    }
    assert raised is None
    kept, raised = in_and_out(UP)
    assert {(one.claim, one.part) for one in kept if str(one.verdict) == "VIOLATED"} == {
        ("POL-1", "in")
    }
    assert {one.symptoms[0] for one in kept if one.opens} == {("TIMED_OUT", "CONNECTED")}
    assert isinstance(raised, Nonconformance)


def test_of_parts_whose_denials_are_controls_of_what_comes_paths_that_are_to_be_open_are_decided() -> (
    None
):
    kept, raised = in_and_out(DROPPED, base=True)
    assert {(one.part, one.halves) for one in kept} == {("in", ("open",)), ("out", ("open",))}
    assert raised is None


def test_what_passes_a_part_whose_denials_are_controls_is_wrong_of_it_alone_and_no_lost_control_is_passed_over() -> (
    None
):
    kept, raised = in_and_out(UP, base=True)
    assert {one.part for one in kept if str(one.verdict) == "VIOLATED"} == {"in"}
    assert isinstance(raised, Nonconformance)
    kept, raised = in_and_out(Verdict.UNREACHABLE, base=True)
    assert {str(one.verdict) for one in kept} == {"CONFIRMED"}
    assert isinstance(raised, ControlBroken)


def test_of_parts_that_share_a_change_the_failure_of_the_look_is_told_whole() -> None:
    _, raised = in_and_out(UP, friend=DROPPED)  # the friend's path comes first, the foe's is worse
    assert isinstance(raised, Nonconformance)
    assert raised.explanation is not None
    assert raised.explanation.headline.startswith("POL-1: ")
    assert raised.explanation.lines["because"] == BECAUSE


def test_parts_that_share_a_change_are_enforced_each_at_its_own_end() -> None:
    kept, _ = in_and_out(DROPPED)
    at = {one.part: one.enforced for one in kept if one.halves == ("closed",)}
    assert at == {"in": (), "out": (FOE.node,)}  # the servers are on no node


DOCUMENTED, BOTH, OPEN_WITNESS, CLOSED_WITNESS = (
    (a_workload(name), SERVER) for name in ("documented", "both", "open", "closed")
)
CONFIRMED, VIOLATED, INCONCLUSIVE, LIFTED = (
    ClaimVerdict.CONFIRMED,
    ClaimVerdict.VIOLATED,
    ClaimVerdict.INCONCLUSIVE,
    ClaimVerdict.LIFTED,
)
FINE = {"documented": CONFIRMED, "both": CONFIRMED}


@pytest.mark.parametrize(
    ("looks", "decided", "raised"),
    [
        ([{}], FINE, None),
        ([{"documented": VIOLATED}, {}], FINE | {"documented": LIFTED}, None),
        (
            [{"documented": VIOLATED}, {"documented": VIOLATED}],
            FINE | {"documented": VIOLATED},
            Nonconformance,
        ),
        ([{"both": VIOLATED}], FINE | {"both": VIOLATED}, Nonconformance),
        (
            [{"both": VIOLATED, "documented": VIOLATED}, {"both": VIOLATED}],
            {"both": VIOLATED, "documented": LIFTED},
            Nonconformance,
        ),
        ([{"documented": INCONCLUSIVE}], FINE | {"documented": INCONCLUSIVE}, ControlBroken),
        ([{"open": VIOLATED}], {"open": INCONCLUSIVE}, ControlBroken),
        ([{"open": INCONCLUSIVE}], {"open": INCONCLUSIVE}, ControlBroken),
        ([{"closed": VIOLATED}], {"closed": VIOLATED}, Nonconformance),
        ([{"closed": INCONCLUSIVE}], {"closed": INCONCLUSIVE}, ControlBroken),
        (
            [{"documented": VIOLATED}, {"open": VIOLATED}],
            {"open": INCONCLUSIVE},
            ControlBroken,
        ),
        (
            [{"documented": VIOLATED}, {"closed": VIOLATED}],
            {"closed": VIOLATED},
            Nonconformance,
        ),
    ],
)
def test_what_two_looks_show_decides_each_path_or_its_witness_alone(
    looks: list[dict[str, ClaimVerdict]],
    decided: dict[str, ClaimVerdict],
    raised: type[Exception] | None,
) -> None:
    kept: list[Decision] = []
    left = iter(looks)

    def look(context: Context, open: list[Pair], closed: list[Pair]) -> None:
        wrong = next(left)
        for source, goal in [*open, *closed]:
            context.decided(source, goal, wrong.get(source.pod, CONFIRMED), source.pod)
        if VIOLATED in wrong.values():
            raise Nonconformance("not as it is to be")
        if wrong:
            raise ControlBroken("nothing shows it", control="beside")

    case = LimitedCase(
        as_documented={DOCUMENTED: False},
        both={BOTH: True},
        witness={OPEN_WITNESS: True, CLOSED_WITNESS: False},
        because={DOCUMENTED: "it is skipped"},
    )
    found = None
    try:
        decide(look, Context(sink=Sink(kept)), [case])
    except (ControlBroken, Nonconformance) as error:
        found = type(error)
    assert {one.reason.split()[0].removeprefix("ns/"): one.verdict for one in kept} == decided
    assert found is raised
    assert next(left, None) is None
