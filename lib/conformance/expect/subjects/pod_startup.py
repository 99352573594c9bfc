# SPDX-License-Identifier: Apache-2.0
"""Expectations about pods' first seconds, before Felix has programmed them, and about who reaches them all the same."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from conformance.errors import ControlBroken, EnvironmentBroken, Nonconformance, first_line
from conformance.expect import owners
from conformance.expect.check import Check, Judged, Ruling
from conformance.expect.engine.answered import UNTOLD, as_wanted
from conformance.expect.explain import cause, message
from conformance.expect.guard import unless_changed
from conformance.expect.poll import poll
from conformance.expect.subject import Subject
from conformance.model.attempt import Attempt
from conformance.model.claim import ClaimVerdict
from conformance.model.endpoint import OS, Pair, Target, Workload
from conformance.model.explanation import Explanation
from conformance.model.observation import Observation, Verdict
from conformance.pods.new_pod import NewPod, Stage
from conformance.pods.roles import ECHO_PORT
from conformance.timing import Settled, until
from conformance.verdicts.meaning import of_chance, of_failure, of_promise

REFUSALS = frozenset({Verdict.REFUSED, Verdict.RESET})
"""Answers of the pod, unless the client gets them from everybody."""

LOOK_AT: dict[OS, str] = {
    "linux": "look for the chains of the new endpoint on its node: iptables-save or nft list table ip calico",
    "windows": "look for the ACL of priority 65500 (In, Block) on the new endpoint: Get-HnsEndpoint on its node",
}
LOOK_FOR_HOST: dict[OS, str] = {
    "linux": "check that chain cali-OUTPUT on node {node} accepts the node's own traffic to the pod",
    "windows": "look for the ACL allow-host-to-endpoint (priority 900, In, Allow) of the pod: Get-HnsEndpoint on node "
    "{node}",
}


@dataclass(frozen=True)
class _Look:
    """What came back from the new pod and, at the same moment, from the pod beside it."""

    new_pod: Observation
    beside: Observation
    stage: Stage

    @property
    def answered(self) -> bool:
        """Whether packets reached the new pod."""
        verdict = self.new_pod.verdict
        up = as_wanted(self.beside, True)
        return verdict is Verdict.CONNECTED or (verdict in REFUSALS and up)


@dataclass
class PodStartup(Subject):
    """What one test expects of new pods; each decides for itself, NOT_OBSERVED where its egress was held back."""

    def accept_nothing(
        self,
        client: Workload,
        new_pods: Sequence[NewPod],
        *,
        beside: Target,
        because: str,
        port: int = ECHO_PORT,
    ) -> None:
        """From its first moment no new pod answers ``client``; the control ``beside`` does.

        Watches each until its first action is ``done``, and for a while after it was seen to begin: before that a new
        Windows pod may have no network at all.  A refusal is an answer: packets reached the pod.  Raises
        Nonconformance, ControlBroken, and EnvironmentBroken when an action does not end in time.
        """
        expect = self.expect
        clock = self.expect.clock
        patience = expect.timings.of(new_pods[0].pod.os)
        attempts = [
            self.expect.attempt(client, new_pod.pod.tcp(port), want=False) for new_pod in new_pods
        ]
        attempts.append(self.expect.attempt(client, beside))
        ran: dict[int, float] = {}

        def look() -> list[_Look]:
            *answers, witness = expect.prober.observe(attempts)
            found = [
                _Look(seen, witness, look.stage())
                for look, seen in zip(new_pods, answers, strict=True)
            ]
            for index, look in enumerate(found):
                if look.stage != "to start":
                    ran.setdefault(index, clock.monotonic())
            return found

        def enough(looks: list[_Look]) -> bool:
            if any(look.answered or not as_wanted(look.beside, True) for look in looks):
                return True
            return all(
                one.stage == "done" and clock.monotonic() - ran[index] >= patience.hold
                for index, one in enumerate(looks)
            )

        watched = until(
            look,
            enough,
            within=patience.image_pull + patience.pod_ready + patience.warm_up,
            every=patience.poll_every,
            description=because,
            clock=clock,
        )

        def judge(index: int) -> Judged:
            held_up = "" if watched.converged else new_pods[index].held_up()
            looks = [item[index] for item in watched.seen]
            if failure := self._wrong(
                [attempts[index], attempts[-1]], looks, watched, because, held_up
            ):
                return self.unless_changed(client, beside, failure, want=False)
            return because

        self.check(
            "closed",
            [(client, one.target, place) for place, one in enumerate(attempts[:-1])],
            judge,
        )
        expect.context.sink.record("seconds watched", round(watched.seconds, 3))
        expect.context.sink.record(
            "seconds watched since it ran", round(clock.monotonic() - max(ran.values()), 3)
        )

    def may_have_sent(self, new_pods: Sequence[NewPod], target: Target, *, because: str) -> None:
        """Each pod's first action may have got through; its policy, as a witness shows, lets nothing through.

        Raises ControlBroken when a policy does not take effect at all.
        """
        expect = self.expect
        attempts = [self.expect.attempt(new_pod.pod, target, want=False) for new_pod in new_pods]
        denied = [Verdict.TIMED_OUT] * len(attempts)
        polled = poll(
            expect,
            attempts,
            lambda seen: [observation.verdict for observation in seen] == denied,
            because=because,
            within=lambda patience: patience.policy_effect,
        )
        told = list[str]()

        def judge(index: int) -> Judged:
            one = new_pods[index]
            attempt = attempts[index]
            if not polled.agreed(index, lambda last: last.verdict is Verdict.TIMED_OUT):
                do = {"do": f"read Felix' log on node {one.pod.node}"}
                return self._past_policy(
                    polled.message(
                        index,
                        "TIMED_OUT",
                        do,
                        so="its egress policy is not in force, so its first action says nothing",
                    ),
                    None,
                    *polled.seen(index),
                )
            connected = one.connected_first()
            told.append(f"{attempt.label}: {'CONNECTED' if connected else 'TIMED_OUT'}")
            lost = (
                f"{attempt.label} got no answer to its first attempt ({attempt.give_up_after:g} s),"
                " where it may connect; whether that was denied or lost is not told"
            )
            entered = f"{because}; {UNTOLD}: its first action is a bare connection"
            return Ruling(entered if connected else lost, of_chance(connected))

        with Check(expect.context, "behaviour") as check:
            check.each(polled.cases(), judge)
            expect.context.sink.attach("first action", "\n".join(told))

    def sent_nothing(self, new_pods: Sequence[NewPod], target: Target, *, because: str) -> None:
        """No pod's first action was answered.  Raises Nonconformance for the first that was."""
        policies = self.expect.context.world.others

        def judge(new_pod: NewPod) -> Judged:
            if not new_pod.connected_first():
                return because
            attempt = self.expect.attempt(new_pod.pod, target, want=False)
            line = (
                f"{', '.join(self.expect.context.claims)}: {attempt.nodes}: expected TIMED_OUT, observed CONNECTED "
                f"(1 try, its first action, given up after {attempt.give_up_after:g} s)"
            )
            told = {"path": attempt.label, "because": because, "do": LOOK_AT[new_pod.pod.os]}
            line += "".join(f"\n  {key:7}  {text}" for key, text in told.items())
            by = policies.excuse(new_pod.pod, target, "open", protocol="TCP")
            return owners.decided(policies, line, by) if by else Nonconformance(line)

        self.check("closed", [(one.pod, target, one) for one in new_pods], judge)

    def become_ready(
        self,
        client: Workload,
        new_pods: Sequence[NewPod],
        *,
        beside: Target,
        because: str,
        port: int = ECHO_PORT,
    ) -> None:
        """Each new pod becomes Ready although policy drops ``client``'s packets.

        Raises Nonconformance otherwise, ControlBroken when the policy does not close one of them or
        ``client`` does not reach ``beside``, and EnvironmentBroken when a pod ends.
        """
        expect = self.expect
        claims = self.expect.context.claims
        patience = expect.timings.of(new_pods[0].pod.os)
        settled = until(
            lambda: [new_pod.ready() for new_pod in new_pods],
            all,
            within=patience.pod_ready,
            every=patience.poll_every,
            description=because,
            clock=expect.clock,
            more=expect.context.pace.machine.more,
        )
        targets = [new_pod.pod.tcp(port) for new_pod in new_pods]
        *answers, witness = expect.prober.observe(
            [
                *[self.expect.attempt(client, target, want=False) for target in targets],
                self.expect.attempt(client, beside),
            ]
        )
        if not as_wanted(witness, True):
            raise self._dead_client(witness.attempt, [witness], settled.seconds)
        for seen in answers:
            if seen.verdict is not Verdict.TIMED_OUT:
                text = message.explanation(
                    claims,
                    seen.attempt,
                    "TIMED_OUT",
                    [seen],
                    settled.seconds,
                    so="no policy is in force that could keep the kubelet out",
                    do="read Felix' log on that node: the new pod's policy is not in force",
                )
                raise self._past_policy(text, client, seen)
        for target in targets:
            expect.context.decided(client, target, ClaimVerdict.CONFIRMED, because, "closed")

        def judge(place: int) -> Judged:
            one = new_pods[place]
            if settled.last[place]:
                return Ruling(
                    f"{because}; {UNTOLD}: the kubelet does not say whom it found ready",
                    of_promise(kept=True),
                )
            text = Explanation(
                claims=claims,
                path=f"kubelet of node {one.pod.node} -> {one.pod.label}",
                where=f"the kubelet of {one.pod.node} to its own pod",
                expected="Ready by its readiness probe",
                observed="not Ready",
                tries=len(settled.seen),
                seconds=settled.seconds,
                lines={
                    "because": because,
                    "do": LOOK_FOR_HOST[one.pod.os].format(node=one.pod.node),
                },
            )
            held_up = one.held_up()
            return unless_changed(
                expect, [one.pod], EnvironmentBroken(held_up) if held_up else Nonconformance(text)
            )

        self.check("open", [(None, one.pod, place) for place, one in enumerate(new_pods)], judge)

    @staticmethod
    def pairs(client: Workload, new_pods: Sequence[NewPod], target: Target) -> list[Pair]:
        """From a client to each new pod, and from each to the target of its first action."""
        return [
            *[(client, new_pod.pod.tcp(ECHO_PORT)) for new_pod in new_pods],
            *((new_pod.pod, target) for new_pod in new_pods),
        ]

    # --- how ----------------------------------------------------------------------------------------------------------

    def _dead_client(
        self, attempt: Attempt, seen: Sequence[Observation], seconds: float
    ) -> ControlBroken:
        """A client that does not reach its control."""
        client = attempt.source
        so = "a dead client would look like a denial"
        do = f"look at {client.namespace}/{client.pod} and at packet loss on node {client.node}"
        told = message.explanation(
            self.expect.context.claims, attempt, "CONNECTED", seen, seconds, so=so, do=do
        )
        return ControlBroken(message.of_control(told), control=attempt.label, seen=seen)

    def _past_policy(
        self, text: Explanation, client: Workload | None, *seen: Observation
    ) -> Exception:
        """A violation where it connected past the policy (decided here with ``client``), else a broken control."""
        attempt = seen[-1].attempt
        pods = [attempt.source, *(attempt.target.backends if attempt.target else ())]
        broken = ControlBroken(message.of_control(text), control=attempt.label, seen=seen)
        if seen[-1].verdict is not Verdict.CONNECTED:
            return unless_changed(self.expect, pods, broken)
        told = replace(text, cause=cause.passes([attempt], "target" if client else "source"))
        wrong = unless_changed(self.expect, pods, Nonconformance(told, seen=seen), want=False)
        if client is not None:
            self.expect.context.decided(
                client, attempt.target, of_failure(wrong), first_line(wrong), "closed"
            )
        return wrong

    def _wrong(
        self,
        attempts: list[Attempt],
        looks: Sequence[_Look],
        watched: Settled[list[_Look]],
        because: str,
        held_up: str,
    ) -> Exception | None:
        """What the looks at one new pod deserve, which was ``held_up`` so; None: nothing is wrong."""
        claims = self.expect.context.claims
        last = looks[-1]
        seen = [look.new_pod for look in looks]
        beside = [look.beside for look in looks]
        if last.answered:
            further = {
                "beside": f"{attempts[1].label} {message.summary(beside)}",
                "do": LOOK_AT[attempts[0].target.backends[0].os] if attempts[0].target else "",
            }
            told = message.explanation(
                claims,
                attempts[0],
                expected="TIMED_OUT",
                because=because,
                seen=seen,
                seconds=watched.seconds,
                further=further,
            )
            return Nonconformance(told, seen=seen)
        if not as_wanted(last.beside, True):
            return self._dead_client(attempts[1], beside, watched.seconds)
        line = partial(message.explanation, claims, attempts[0], "TIMED_OUT", seen, watched.seconds)
        if not watched.converged:
            so = f"its first action was still {last.stage}"
            do = "look at the pod's events, and at its node's load"
            so += held_up and f": {held_up}"
            return EnvironmentBroken(line(so=so, do=do))
        if last.new_pod.verdict is not Verdict.TIMED_OUT:
            text = line(
                so="that is neither an answer of the pod nor a silent drop",
                do="look at the routes to the new pod on both nodes (VXLAN-2)",
            )
            return ControlBroken(message.of_control(text), control=attempts[0].label, seen=seen)
        return None
