# SPDX-License-Identifier: Apache-2.0
"""Expectations about connections from the hosts of Windows nodes, made by a program in a
HostProcess pod.

A host cannot report which pod answered its connection. Therefore, in the same rounds, other clients
reach the same target, and the host reaches a Linux node's port. These controls show that neither
the target nor the underlay causes a failure.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

from conformance.errors import ControlBroken, MissingCapability, Nonconformance
from conformance.expect.check import Judged, Ruling
from conformance.expect.guard import unless_changed
from conformance.expect.subject import Subject
from conformance.model.claim import ClaimVerdict
from conformance.model.endpoint import Addressing, Pair, Target, Workload
from conformance.model.explanation import Explanation
from conformance.model.observation import Verdict
from conformance.verdicts.meaning import of_chance, of_limitation

Connect = Callable[[str, Sequence[str], float], dict[str, Verdict]]
"""Connects from the host of a node to some targets within some seconds; raises ProbeBroken."""
CONTROL = "the host reaches a port of a Linux node"
Round = dict[str, Verdict]


class Ends(NamedTuple):
    """The expected results of all rounds of a goal. A goal is a pod, which stands for its node's
    host, and a target."""

    documented: tuple[Verdict, ...]
    """The documented results of a round."""
    verdict_if_connected: ClaimVerdict
    """The verdict if the host connects each time."""


@dataclass
class HostAttempts(Subject):
    """The expectations of a test about targets that the hosts of Windows nodes reach by TCP."""

    connect: Connect

    def limited(
        self, goals: Sequence[Pair], *, witness: Sequence[Pair], control: Target, because: str
    ) -> None:
        """Expect that hosts do not reach their targets; each pod stands for the host of its node.

        In each round the ``witness`` paths must connect, and the host must connect to ``control``;
        meanwhile the host tries its target. The result TIMED_OUT in all rounds is as documented;
        with CONNECTED in all rounds, the limitation is LIFTED. Raise Nonconformance for any other
        result, ControlBroken if a control fails.
        """

        def check_witness(again: str) -> None:
            self.expect.control(witness, because=f"the witness{again}: {because}")

        ends = Ends((Verdict.TIMED_OUT,), of_limitation(gone=True))
        self._decide(goals, control, because, check_witness, ends)

    def may_lack(
        self,
        pods: Sequence[Workload],
        service: tuple[str, int] | None,
        *,
        control: Target,
        because: str,
    ) -> None:
        """Record whether the known issue occurs: the hosts of these pods' nodes get no answer from
        a cloud's metadata service.

        ``service``: address and port. Each attempt is made at the same time as an attempt at
        ``control``. Raise MissingCapability without a service, and the errors of :meth:`limited`.
        """
        if service is None:
            raise MissingCapability(
                "no host beyond the cluster is named that can stand in for a metadata service",
                "name a host: --external-target ADDRESS",
            )
        host, port = service
        goal = Target(
            host=host,
            port=port,
            protocol="tcp",
            path=Addressing.EXTERNAL,
            name="the metadata service",
        )
        ends = Ends((Verdict.TIMED_OUT, Verdict.UNREACHABLE), of_chance(False))
        self._decide([(pod, goal) for pod in pods], control, because, lambda again: None, ends)

    def _decide(
        self,
        goals: Sequence[Pair],
        control: Target,
        because: str,
        check_witness: Callable[[str], None],
        ends: Ends,
    ) -> None:
        """Try all goals in rounds, each goal together with the control. Decide each goal by all of
        its rounds."""
        rounds: list[list[Round]] = []
        for _ in range(self.expect.timings.windows.agree):
            check_witness("")
            with ThreadPoolExecutor(len(goals)) as pool:
                rounds.append(list(pool.map(lambda goal: self._tried(goal, control), goals)))
        check_witness(", again")

        def judge(place: int) -> Judged:
            pod, target = goals[place]
            own = [one[place] for one in rounds]
            answers = [one[_address(target)] for one in own]
            shown = ", ".join(answers)
            label = f"host of node {pod.node} -> {target.label}"
            lost = [one for one in own if one[_address(control)] is not Verdict.CONNECTED]
            if lost:
                text = (
                    f"host of node {pod.node} -> {control.label}: expected CONNECTED, "
                    f"observed {lost[0][_address(control)]}; failed control: {CONTROL}"
                )
                return ControlBroken(text, control=CONTROL)
            if set(answers) <= {*ends.documented}:
                return f"{because}: {label}: {shown}"
            if set(answers) == {Verdict.CONNECTED}:
                return Ruling(f"{label}: {shown}, although {because}", ends.verdict_if_connected)
            return self._neither(pod, target, shown, because)

        self.check("behaviour", [(None, goal[0], place) for place, goal in enumerate(goals)], judge)

    def _tried(self, goal: Pair, control: Target) -> Round:
        pod, target = goal
        seconds = self.expect.timings.windows.tcp_give_up
        return self.connect(pod.node, [_address(target), _address(control)], seconds)

    def _neither(self, pod: Workload, target: Target, shown: str, because: str) -> Ruling:
        do = (
            f"in a HostProcess pod on node {pod.node}: "
            f"Test-NetConnection {target.host} -Port {target.port}"
        )
        text = Explanation(
            claims=self.expect.context.claims,
            path=f"host of node {pod.node} -> {target.label}",
            expected="TIMED_OUT each time, or CONNECTED each time",
            observed=shown,
            where=f"host of {pod.node}",
            lines={"because": because, "do": do},
        )
        error = unless_changed(self.expect, [pod, *target.backends], Nonconformance(text))
        return Ruling(error=error, symptom=("TIMED_OUT or CONNECTED", shown))


def _address(target: Target) -> str:
    return f"{target.host}:{target.port}"
