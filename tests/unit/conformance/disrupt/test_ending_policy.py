# SPDX-License-Identifier: Apache-2.0
"""A policy that may end Felix is noted before it is made, and removed when Felix ends; what follows is a control."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.disrupt.ending_policy import ENDING_POLICY, EndingPolicy
from conformance.errors import ControlBroken, Nonconformance, UsageProblem
from conformance.expect.case import Case
from conformance.expect.context import Context, Sink
from conformance.expect.session import Session
from conformance.model.change import ObjectRef
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Decision
from conformance.model.observation import Verdict
from conformance.settings import load_timings
from tests.unit.conformance.builders import a_workload
from tests.unit.conformance.expect.stand_ins import Clock, observation

SERVER, FRIEND, STRANGER = (
    a_workload("server", "windows"),
    a_workload("friend"),
    a_workload("stranger", "windows"),
)
BECAUSE = "so it is"


@dataclass
class Story:
    """Felix, policies, journal and expectations in one; what happens is kept in words."""

    ends: bool = False
    """Felix ends when the policy is there."""
    enforced: bool = True
    wrong: Exception | None = None
    """What the paths are not as they should be with."""
    back: bool = True
    """Another policy takes effect afterwards."""
    happened: list[str] = field(default_factory=list)
    kept: list[Decision] = field(default_factory=list)

    def run(self, *more: Case) -> None:
        context = Context(claims=("XPOL-22",), sink=Sink(self.kept))
        prober: Any = SimpleNamespace(observe=self.observe)
        session = Session(prober, load_timings(), context, Clock())
        expect: Any = SimpleNamespace(
            context=context, timings=session.timings, clock=session.clock, prober=prober, attempt=session.attempt,
            control=lambda *_, **__: self.say("control"), matrix=self.matrix, under=self.under,
        )  # fmt: skip
        felix: Any = SimpleNamespace(
            watched=lambda node: lambda: "another process" if self.ends and "made" in self.happened else "",
            back=lambda node: self.say(f"felix of {node} is back"),
        )  # fmt: skip
        ending = EndingPolicy(felix, self, expect)  # type: ignore[arg-type]  # of the journal what is asked here
        policy: Any = SimpleNamespace(names=["a", "b"], remove=lambda: self.say("removed"))
        made: Any = SimpleNamespace(apply=lambda: self.say("made"))
        ending.outlived(
            SERVER,
            policy,
            made,
            made,
            Case(FRIEND, SERVER, tcp=8080, open=True, because=BECAUSE),
            *(more or [Case(STRANGER, SERVER, tcp=8080, open=False, because=BECAUSE)]),
            back="well again",
        )

    def say(self, word: str) -> None:
        self.happened.append(word)

    def procedure(self, name: str, arguments: Any, why: str) -> str:
        assert name == ENDING_POLICY.name
        assert arguments == {
            "node": SERVER.node,
            "namespace": SERVER.namespace,
            "policies": ["a", "b"],
        }
        self.say("noted")
        return "entry"

    def close(self, entry: str) -> None:
        self.say("closed")

    def observe(self, batch: Any) -> Any:
        return [
            observation(one, Verdict.TIMED_OUT if self.enforced else Verdict.CONNECTED)
            for one in batch
        ]

    def matrix(self, *_: Any, **__: Any) -> None:
        self.say("matrix")
        if self.wrong:
            raise self.wrong

    def under(self, *_: Any, **__: Any) -> None:
        self.say("another")
        if not self.back:
            raise ControlBroken("no effect", control="before")


def test_a_felix_that_runs_on_is_confirmed_once_another_policy_took_effect() -> None:
    story = Story()
    story.run()
    assert story.happened == [
        "control", "noted", "made", "matrix", "removed", f"felix of {SERVER.node} is back", "another", "closed",
    ]  # fmt: skip
    assert [seen.verdict for seen in story.kept] == [ClaimVerdict.CONFIRMED]


def test_a_felix_that_ends_is_a_violation_with_a_symptom_of_its_own_and_the_policy_goes_at_once() -> (
    None
):
    story = Story(ends=True, enforced=False)
    with pytest.raises(
        Nonconformance,
        match=r"Felix on node .* ended under the policies a, b: expected .*observed ano",
    ):
        story.run()
    assert story.happened == [
        "control", "noted", "made", "removed", f"felix of {SERVER.node} is back", "another", "closed",
    ]  # fmt: skip
    assert [seen.symptoms for seen in story.kept] == [[("Felix runs", "Felix ended")]]


def test_a_policy_that_is_not_in_force_is_told_as_that_and_removed() -> None:
    story = Story(enforced=False, wrong=Nonconformance("leaks"))
    with pytest.raises(Nonconformance, match="leaks"):
        story.run()
    assert story.happened[-3:] == ["matrix", "removed", f"felix of {SERVER.node} is back"]


def test_what_is_not_well_again_is_no_violation_and_stays_noted() -> None:
    story = Story(ends=True, back=False)
    with pytest.raises(ControlBroken, match="no effect"):
        story.run()
    assert "closed" not in story.happened


def test_without_a_closed_case_nothing_is_made() -> None:
    story = Story()
    with pytest.raises(UsageProblem, match=r"^ending_policy\.outlived.*: name a closed case.*$"):
        story.run(Case(STRANGER, SERVER, tcp=80, open=True, because=BECAUSE))
    assert story.happened == []


def test_after_a_run_that_died_every_policy_is_removed_before_felix_is_waited_for() -> None:
    happened: list[str] = []

    def delete(target: ObjectRef, why: str) -> None:
        happened.append(f"{why}: {target.namespace}/{target.name} of {target.api_version}")

    parts: Any = SimpleNamespace(
        changes=SimpleNamespace(delete=delete),
        felix=SimpleNamespace(back=lambda node: happened.append(f"felix of {node} is back")),
    )
    arguments = {"node": "win-1", "namespace": "calico-demo-ab12-gw0", "policies": ["a", "b"]}
    ENDING_POLICY.undo(parts, arguments)
    assert happened == [
        "it may end Felix: calico-demo-ab12-gw0/a of projectcalico.org/v3",
        "it may end Felix: calico-demo-ab12-gw0/b of projectcalico.org/v3",
        "felix of win-1 is back",
    ]
