# SPDX-License-Identifier: Apache-2.0
"""Expectations about backends on a Windows node without an overlay, and traffic to them from the
node's own address.

Before all policies of an endpoint, Felix puts an ACL that admits every address of the endpoint's
node (projectcalico/calico felix/dataplane/windows/endpoint_mgr.go, nodeToEndpointRule). Without an
overlay, kube-proxy gives the node's address to traffic that comes by ClusterIP without direct
server return, or from outside by NodePort (calico#4078).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from conformance.errors import ControlBroken, Nonconformance
from conformance.expect.case import Row, rows_of
from conformance.expect.check import Judged, Ruling
from conformance.expect.engine.answered import as_wanted, telling
from conformance.expect.explain import message
from conformance.expect.poll import Polled, poll
from conformance.expect.subject import Subject
from conformance.expect.subjects.windows_nodes import REMEDY
from conformance.model.attempt import Attempt
from conformance.model.endpoint import Pair
from conformance.model.observation import Observation, Verdict
from conformance.verdicts.meaning import of_absence

UNSURE = "whether kube-proxy on node {node} uses direct server return is not known ({why}); {do}"


@dataclass
class OwnNode(Subject):
    """Expectations about clients that the policy does not admit, but whose traffic has the address
    of the backend's node."""

    def lets_in(self, *rows: Row, undecided: Mapping[str, str] | None = None) -> None:
        """Expect clients that the policy does not admit to connect on the paths of the rows.

        Closed witnesses are paths of the same clients to pod addresses. Open witnesses are paths of
        clients that the policy admits. ``undecided``: nodes that may or may not have the
        limitation, each with the reason; a closed path from such a node is NOT_RUN. Any other
        closed path means that the limitation is gone: LIFTED.

        Raise Nonconformance if a path always has the same result, and is neither open nor closed.
        Raise ControlBroken if a path has different results, if admitted clients do not connect, or
        if other clients connect by pod address.
        """
        of_rows = rows_of(rows)
        paths = [pair for pair, row in of_rows.items() if not row.witness]
        direct = [pair for pair, row in of_rows.items() if row.witness and not row.open]
        admitted = [pair for pair, row in of_rows.items() if row.witness and row.open]
        because = of_rows[paths[0]].because
        self.expect.control(admitted, because="the policy admits these clients")
        out = self._poll(
            direct,
            lambda observation: observation.verdict is Verdict.TIMED_OUT,
            "the policy does not admit these clients",
        )
        if not out.converged:
            index = next(
                place
                for place, (_, observations) in enumerate(out)
                if observations[-1].verdict is not Verdict.TIMED_OUT
            )
            text = out.message(
                index,
                "TIMED_OUT",
                {"do": "see POL-1 first"},
                so="the client connects by pod address, so nothing shows that a policy guards "
                "this pod",
            )
            raise ControlBroken(
                message.of_control(text),
                control="a client that the policy does not admit, by pod address",
                observations=out.observations(index),
            )
        polled = self._poll(paths, _connected, because)

        def judge(index: int) -> Judged:
            observations = polled.observations(index)
            if polled.agreed(index, _connected):
                return because
            if all(each.verdict is Verdict.TIMED_OUT for each in observations):
                source, target = paths[index]
                why = (undecided or {}).get(source.node, "")
                unsure = (
                    f", and {UNSURE.format(node=source.node, why=why, do=REMEDY)}" if why else ""
                )
                return Ruling(
                    f"{source.label} -> {target.label}: closed, as it is by pod address: "
                    f"{message.summary(observations)}{unsure}",
                    of_absence(expected=not why),
                )
            text = polled.message(index, "CONNECTED each time, or TIMED_OUT each time", {})
            if len({each.verdict for each in observations}) == 1:
                return Nonconformance(text, observations=observations)
            return ControlBroken(
                text,
                control="a path that is open at times and closed at others",
                observations=observations,
            )

        self.check("behaviour", polled.cases(), judge)
        self.expect.control(admitted, because="the policy still admits these clients")

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
        return poll(
            self.expect,
            attempts,
            lambda observations: all(map(right, observations)),
            because=because,
        )


def _connected(observation: Observation) -> bool:
    return as_wanted(observation, True)
