# SPDX-License-Identifier: Apache-2.0
"""Expectations about pods' first seconds, before Felix has programmed their rules: which clients
can reach a new pod, and what a new pod can reach."""

from collections.abc import Mapping, Sequence
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
from conformance.model.endpoint import OS, Target, Workload
from conformance.model.explanation import Explanation
from conformance.model.observation import Observation, Verdict
from conformance.pods.new_pod import NewPod, Stage
from conformance.pods.roles import ECHO_PORT
from conformance.timing import Settled, until
from conformance.verdicts.meaning import of_chance, of_failure, of_promise

REFUSALS = frozenset({Verdict.REFUSED, Verdict.RESET})
"""Results that count as answers of the pod, if the control pod connects at the same time."""

LOOK_AT: dict[OS, str] = {
    "linux": "look for the chains of the new endpoint on its node: iptables-save or nft list table ip calico",
    "windows": "look for the ACL of priority 65500 (In, Block) on the new endpoint: "
    "Get-HnsEndpoint on its node; another CNI plugin than Calico's sets no such ACL; "
    "then read Felix' log on that node",
}
LOOK_FOR_HOST: dict[OS, str] = {
    "linux": "check that chain cali-OUTPUT on node {node} accepts the node's own traffic to the pod",
    "windows": "look for the ACL allow-host-to-endpoint (priority 900, In, Allow) of the pod: Get-HnsEndpoint on node "
    "{node}",
}


@dataclass(frozen=True)
class _Look:
    """The answers of the new pod and of the control pod in the same round."""

    new_pod: Observation
    beside: Observation
    stage: Stage

    @property
    def answered(self) -> bool:
        """Return whether packets reached the new pod."""
        verdict = self.new_pod.verdict
        return verdict is Verdict.CONNECTED or (
            verdict in REFUSALS and as_wanted(self.beside, True)
        )


@dataclass
class PodStartup(Subject):
    """The expectations of a test about new pods. A known issue is NOT_OBSERVED for a pod that got
    no answer to its first connection, or that gave none before its policy was in force."""

    def accept_nothing(
        self,
        client: Workload,
        new_pods: Sequence[NewPod],
        *,
        beside: Target,
        because: str,
        port: int = ECHO_PORT,
    ) -> None:
        """Expect that no new pod ever answers ``client``, and that the control ``beside`` does.

        Each new pod is watched until its first action is ``done``, and for a while after that
        action began, since a new Windows pod may have no network before. A refusal is an answer:
        packets reached the pod.

        Raise Nonconformance if a pod answers, ControlBroken if the control does not, and
        EnvironmentBroken if an action does not end in time.
        """
        self._answers(client, new_pods, beside, because, port, can_happen=False)

    def may_have_accepted(
        self,
        client: Workload,
        new_pods: Sequence[NewPod],
        *,
        beside: Target,
        because: str,
        port: int = ECHO_PORT,
    ) -> None:
        """Decide whether ``client`` reached each pod before the pod's policy took effect. The
        policy lets nothing through.

        A refusal is an answer. Raise Nonconformance if the policy never closes a pod, and
        ControlBroken or EnvironmentBroken as :meth:`accept_nothing` does.
        """
        self._answers(client, new_pods, beside, because, port, can_happen=True)

    def may_have_sent(self, new_pods: Sequence[NewPod], target: Target, *, because: str) -> None:
        """Decide whether each pod's first connection succeeded before the pod's policy took effect.
        The policy lets nothing through.

        Raise ControlBroken if a policy never takes effect.
        """
        expect = self.expect
        attempts = [self.expect.attempt(new_pod.pod, target, want=False) for new_pod in new_pods]
        denied = [Verdict.TIMED_OUT] * len(attempts)
        polled = poll(
            expect,
            attempts,
            lambda observations: [observation.verdict for observation in observations] == denied,
            because=because,
            within=lambda patience: patience.policy_effect,
        )
        lines = list[str]()

        def judge(index: int) -> Judged:
            new_pod = new_pods[index]
            attempt = attempts[index]
            if not polled.agreed(index, lambda last: last.verdict is Verdict.TIMED_OUT):
                do = {"do": f"read Felix' log on node {new_pod.pod.node}"}
                return self._past_policy(
                    polled.message(
                        index,
                        "TIMED_OUT",
                        do,
                        so="the pod's egress policy is not in force, so its first action shows "
                        "nothing",
                    ),
                    None,
                    *polled.observations(index),
                )
            connected = new_pod.connected_first()
            lines.append(f"{attempt.label}: {'CONNECTED' if connected else 'TIMED_OUT'}")
            lost = (
                f"{attempt.label} got no answer to its first attempt ({attempt.give_up_after:g} s),"
                " although it may connect; it is not known whether the attempt was denied or lost"
            )
            entered = f"{because}; {UNTOLD}: its first action is a bare connection"
            return Ruling(entered if connected else lost, of_chance(connected))

        with Check(expect.context, "behaviour") as check:
            check.each(polled.cases(), judge)
            expect.context.sink.attach("first action", "\n".join(lines))

    def sent_nothing(self, new_pods: Sequence[NewPod], target: Target, *, because: str) -> None:
        """Expect no pod's first connection to be answered. Raise Nonconformance for the first pod
        that got an answer."""
        policies = self.expect.context.world.others

        def judge(new_pod: NewPod) -> Judged:
            if not new_pod.connected_first():
                return because
            attempt = self.expect.attempt(new_pod.pod, target, want=False)
            line = (
                f"{', '.join(self.expect.context.claims)}: {attempt.nodes}: expected TIMED_OUT, observed CONNECTED "
                f"(1 try, its first action, given up after {attempt.give_up_after:g} s)"
            )
            lines = {"path": attempt.label, "because": because, "do": LOOK_AT[new_pod.pod.os]}
            line += "".join(f"\n  {key:7}  {text}" for key, text in lines.items())
            by = policies.excuse(new_pod.pod, target, "open", protocol="TCP")
            return owners.decided(policies, line, by) if by else Nonconformance(line)

        self.check("closed", [(new_pod.pod, target, new_pod) for new_pod in new_pods], judge)

    def become_ready(
        self,
        client: Workload,
        new_pods: Sequence[NewPod],
        *,
        beside: Target,
        because: str,
        port: int = ECHO_PORT,
    ) -> None:
        """Expect each new pod to become Ready although policy drops ``client``'s packets.

        Raise Nonconformance if a pod does not become Ready, and EnvironmentBroken if a pod ends.
        Raise ControlBroken if the policy does not close a new pod, or if ``client`` does not reach
        ``beside``.
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
        for observations in answers:
            if observations.verdict is not Verdict.TIMED_OUT:
                text = message.explanation(
                    claims,
                    observations.attempt,
                    "TIMED_OUT",
                    [observations],
                    settled.seconds,
                    so="no policy is in force that could keep the kubelet out",
                    do="read Felix' log on that node: the new pod's policy is not in force",
                )
                raise self._past_policy(text, client, observations)
        for target in targets:
            expect.context.decided(client, target, ClaimVerdict.CONFIRMED, because, "closed")

        def judge(place: int) -> Judged:
            new_pod = new_pods[place]
            if settled.last[place]:
                return Ruling(
                    f"{because}; {UNTOLD}: the kubelet does not report which pod it found ready",
                    of_promise(kept=True),
                )
            text = Explanation(
                claims=claims,
                path=f"kubelet of node {new_pod.pod.node} -> {new_pod.pod.label}",
                where=f"the kubelet of {new_pod.pod.node} to its own pod",
                expected="Ready by its readiness probe",
                observed="not Ready",
                tries=len(settled.observations),
                seconds=settled.seconds,
                lines={
                    "because": because,
                    "do": LOOK_FOR_HOST[new_pod.pod.os].format(node=new_pod.pod.node),
                },
            )
            held_up = new_pod.held_up()
            return unless_changed(
                expect,
                [new_pod.pod],
                EnvironmentBroken(held_up) if held_up else Nonconformance(text),
            )

        self.check(
            "open", [(None, new_pod.pod, place) for place, new_pod in enumerate(new_pods)], judge
        )

    # --- how ----------------------------------------------------------------------------------------------------------

    def _answers(
        self,
        client: Workload,
        new_pods: Sequence[NewPod],
        beside: Target,
        because: str,
        port: int,
        *,
        can_happen: bool,
    ) -> None:
        """Decide whether each new pod answers ``client`` before the pod's policy is in force. An
        answer is VIOLATED, or, if it ``can_happen``, confirms the known issue."""
        attempts = self._attempts(client, new_pods, beside, port)
        watched, ran = self._watch(new_pods, attempts, because, until_answered=not can_happen)

        def judge(index: int) -> Judged:
            held_up = "" if watched.converged else new_pods[index].held_up()
            looks = [item[index] for item in watched.observations]
            both = [attempts[index], attempts[-1]]
            if failure := self._wrong(both, looks, watched, because, held_up):
                return self.unless_changed(client, beside, failure, want=False)
            if not can_happen:
                return because
            answered = sum(look.answered for look in looks)
            tries = f"{attempts[index].label} was answered {answered} of {len(looks)} times"
            return Ruling(f"{tries}: {because}", of_chance(answered > 0))

        self.check(
            "closed",
            [(client, attempt.target, place) for place, attempt in enumerate(attempts[:-1])],
            judge,
        )
        self._record(watched, ran)

    def _attempts(
        self, client: Workload, new_pods: Sequence[NewPod], beside: Target, port: int
    ) -> list[Attempt]:
        """Return an attempt at each new pod, and one at the control pod."""
        at_new = [
            self.expect.attempt(client, new_pod.pod.tcp(port), want=False) for new_pod in new_pods
        ]
        return [*at_new, self.expect.attempt(client, beside)]

    def _watch(
        self,
        new_pods: Sequence[NewPod],
        attempts: Sequence[Attempt],
        because: str,
        *,
        until_answered: bool,
    ) -> tuple[Settled[list[_Look]], dict[int, float]]:
        """Make the attempts again and again until each pod's first action is done and each pod has
        been silent for a while. Return the observations, and for each pod the time at which its
        action began.

        ``until_answered``: end at the first answer of a new pod, or if the control pod is silent.
        """
        expect = self.expect
        clock = expect.clock
        patience = expect.timings.of(new_pods[0].pod.os)
        ran: dict[int, float] = {}
        answered: dict[int, float] = {}

        def look() -> list[_Look]:
            *answers, witness = expect.prober.observe(attempts)
            found = [
                _Look(observations, witness, new_pod.stage())
                for new_pod, observations in zip(new_pods, answers, strict=True)
            ]
            now = clock.monotonic()
            answered.update({index: now for index, look in enumerate(found) if look.answered})
            for index, look in enumerate(found):
                if look.stage != "to start":
                    ran.setdefault(index, now)
            return found

        def enough(looks: list[_Look]) -> bool:
            lost = any(not as_wanted(look.beside, True) for look in looks)
            if until_answered and (lost or answered):
                return True
            if lost:  # Felix resets connections to the control pod when it programs the new pod
                return False
            silent = {index: max(since, answered.get(index, since)) for index, since in ran.items()}
            return all(
                look.stage == "done" and clock.monotonic() - silent[index] >= patience.hold
                for index, look in enumerate(looks)
            )

        watched = until(
            look,
            enough,
            within=patience.image_pull + patience.pod_ready + patience.warm_up,
            every=patience.poll_every,
            description=because,
            clock=clock,
        )
        return watched, ran

    def _record(self, watched: Settled[list[_Look]], ran: Mapping[int, float]) -> None:
        sink = self.expect.context.sink
        since = self.expect.clock.monotonic() - max(ran.values())
        sink.record("seconds watched", round(watched.seconds, 3))
        sink.record("seconds watched since it ran", round(since, 3))

    def _dead_client(
        self, attempt: Attempt, observations: Sequence[Observation], seconds: float
    ) -> ControlBroken:
        """Return the error about a client that does not reach the control pod."""
        client = attempt.source
        so = "a dead client would look like a denial"
        do = f"look at {client.namespace}/{client.pod} and at packet loss on node {client.node}"
        explanation = message.explanation(
            self.expect.context.claims, attempt, "CONNECTED", observations, seconds, so=so, do=do
        )
        return ControlBroken(
            message.of_control(explanation), control=attempt.label, observations=observations
        )

    def _past_policy(
        self, text: Explanation, client: Workload | None, *observations: Observation
    ) -> Exception:
        """Return a violation if the client connected in spite of the policy, else a broken control.

        ``client`` is None if the policy is in force at the source instead of the target.
        """
        attempt = observations[-1].attempt
        pods = [attempt.source, *(attempt.target.backends if attempt.target else ())]
        broken = ControlBroken(
            message.of_control(text), control=attempt.label, observations=observations
        )
        if observations[-1].verdict is not Verdict.CONNECTED:
            return unless_changed(self.expect, pods, broken)
        explanation = replace(text, cause=cause.passes([attempt], "target" if client else "source"))
        wrong = unless_changed(
            self.expect, pods, Nonconformance(explanation, observations=observations), want=False
        )
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
        """Return the error that the observations of one new pod show; None if nothing is wrong.

        ``held_up``: the cluster's reason why the pod has not started.
        """
        claims = self.expect.context.claims
        last = looks[-1]
        observations = [look.new_pod for look in looks]
        beside = [look.beside for look in looks]
        if last.answered:
            further = {
                "beside": f"{attempts[1].label} {message.summary(beside)}",
                "do": LOOK_AT[attempts[0].target.backends[0].os] if attempts[0].target else "",
            }
            explanation = message.explanation(
                claims,
                attempts[0],
                expected="TIMED_OUT",
                because=because,
                observations=observations,
                seconds=watched.seconds,
                further=further,
            )
            return Nonconformance(explanation, observations=observations)
        if not as_wanted(last.beside, True):
            return self._dead_client(attempts[1], beside, watched.seconds)
        line = partial(
            message.explanation, claims, attempts[0], "TIMED_OUT", observations, watched.seconds
        )
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
            return ControlBroken(
                message.of_control(text), control=attempts[0].label, observations=observations
            )
        return None
