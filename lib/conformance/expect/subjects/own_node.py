# SPDX-License-Identifier: Apache-2.0
"""Backends on a Windows node without an overlay, and what comes to them with that node's own address.

Felix puts an ACL before all policies of an endpoint that lets in every address of its node (projectcalico/calico
felix/dataplane/windows/endpoint_mgr.go, nodeToEndpointRule), and without an overlay kube-proxy gives that address to
whoever comes by ClusterIP without direct server return, or from outside by NodePort (calico#4078).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from conformance.errors import ControlBroken, Nonconformance
from conformance.expect.check import Judged, Ruling
from conformance.expect.engine.answered import as_wanted, telling
from conformance.expect.explain import message
from conformance.expect.poll import Polled, poll
from conformance.expect.subject import Subject
from conformance.model.attempt import Attempt
from conformance.model.claim import ClaimVerdict
from conformance.model.endpoint import Pair
from conformance.model.observation import Observation, Verdict


@dataclass
class OwnNode(Subject):
    """Expectations about strangers that come with the address of the backend's node."""

    def lets_in(
        self,
        paths: Sequence[Pair],
        *,
        direct: Sequence[Pair],
        admitted: Sequence[Pair],
        because: str,
    ) -> None:
        """Under a policy that admits others, strangers get in by these paths, and by pod address (``direct``) do not.

        A path that is closed is one on which the limitation is gone: LIFTED.  Raises Nonconformance where a path does a
        third thing each time, and ControlBroken where those who are ``admitted`` do not get in, strangers do by pod
        address, or a path is now open and now closed.
        """
        self.expect.controls([admitted], because="the policy admits them")
        out = self._poll(
            direct, lambda seen: seen.verdict is Verdict.TIMED_OUT, "the policy does not admit them"
        )
        if not out.converged:
            index = next(
                place
                for place, (_, seen) in enumerate(out)
                if seen[-1].verdict is not Verdict.TIMED_OUT
            )
            text = out.message(
                index,
                "TIMED_OUT",
                {"do": "see POL-1 first"},
                so="by pod address: nothing shows that a policy guards this pod",
            )
            raise ControlBroken(
                message.of_control(text),
                control="the stranger by pod address",
                seen=out.seen(index),
            )
        polled = self._poll(paths, _connected, because)

        def judge(index: int) -> Judged:
            seen = polled.seen(index)
            if polled.agreed(index, _connected):
                return because
            if all(each.verdict is Verdict.TIMED_OUT for each in seen):
                told = f"{paths[index][0].label} -> {paths[index][1].label}"
                return Ruling(
                    f"{told}: closed as by pod address, {message.summary(seen)}",
                    ClaimVerdict.LIFTED,
                )
            text = polled.message(index, "CONNECTED each time, or TIMED_OUT each time", {})
            if len({each.verdict for each in seen}) == 1:
                return Nonconformance(text, seen=seen)
            return ControlBroken(text, control="a path that is now open and now closed", seen=seen)

        self.check("behaviour", polled.cases(), judge)
        self.expect.controls([admitted], because="the policy admits them still")

    def _poll(
        self, paths: Sequence[Pair], right: Callable[[Observation], bool], because: str
    ) -> Polled:
        attempts = [
            Attempt(
                source=source,
                target=target,
                kind=telling(target),
                give_up_after=self.expect.timings.of(source.os).http_give_up,
            )
            for source, target in paths
        ]
        return poll(self.expect, attempts, lambda seen: all(map(right, seen)), because=because)


def _connected(seen: Observation) -> bool:
    return as_wanted(seen, True)
