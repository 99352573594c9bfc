# SPDX-License-Identifier: Apache-2.0
"""A policy that may end Felix on a node. The policy is recorded before it is created; Felix is
watched, and the policy is removed if Felix ends.

If Felix ends because of a policy, it starts again, reads the policy and ends again. Until the
policy is gone, no change of policy reaches any pod of the node.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from conformance.disrupt.disruptions import Disruptions
from conformance.disrupt.felix import FELIX_RESTART, Felix
from conformance.disrupt.healer import Healer
from conformance.errors import Nonconformance, UsageProblem
from conformance.expect.case import Case, rows_of
from conformance.expect.check import Judged, Ruling, check
from conformance.expect.path_decisions import Policies
from conformance.expect.traffic import Expect, Removable
from conformance.journal.journalling import Journalling
from conformance.model.change import ObjectRef
from conformance.model.endpoint import Pair, Workload
from conformance.model.observation import ARRIVED
from conformance.timing import until

__tracebackhide__ = True  # a failure shows the line of the test instead of this module's


def _remove(parts: Disruptions, arguments: Mapping[str, Any]) -> None:
    """Remove the policies that a run recorded because they may end Felix, and wait until Felix runs
    on the node again."""
    for name in arguments["policies"]:
        target = ObjectRef(
            api_version="projectcalico.org/v3",
            kind="NetworkPolicy",
            name=str(name),
            namespace=str(arguments["namespace"]),
        )
        parts.changes.delete(target, "it may end Felix")
    FELIX_RESTART.undo(parts, arguments)


ENDING_POLICY = Healer(
    name="policy-that-may-end-felix",
    why="a policy that may end Felix on node {node}",
    undo=_remove,
)


class Named(Removable, Protocol):
    """The policies of a test, with the names under which they are removed if the run dies."""

    @property
    def names(self) -> list[str]: ...


@dataclass
class EndingPolicy:
    """The expectations of a test about Felix under a policy that may end it."""

    felix: Felix
    journal: Journalling
    expect: Expect

    def outlived(
        self,
        server: Workload,
        policy: Named,
        made: Policies,
        then: Policies,
        *cases: Case,
        back: str,
    ) -> None:
        """Expect Felix on the server's node to keep running under the policies ``made``, and the
        cases to hold.

        ``policy`` has their names and removes them. After that, the policies ``then`` must take
        effect on the node; otherwise Felix has not recovered. ``back`` is the reason for this
        control. Raise Nonconformance if Felix ends, or if the policies ``made`` are not in force.
        """
        node = server.node
        patience = self.expect.timings.of(server.os)
        clock = self.expect.clock
        paths = rows_of(cases)
        closed = next((pair for pair, case in paths.items() if not case.open), None)
        if closed is None:
            raise UsageProblem(
                "ending_policy.outlived(...): name a closed case, which shows the policy in force"
            )
        because = paths[closed].because
        self.expect.control(paths, because="no policy closes this path before the change")
        ended = self.felix.watched(node)
        entry = ENDING_POLICY.note(
            self.journal, node, namespace=server.namespace, policies=policy.names
        )
        began = clock.monotonic()
        try:
            made.apply()
            until(
                lambda: ended() or self._is_closed(closed),
                bool,
                within=patience.policy_effect,
                every=patience.poll_every,
                description="Felix has processed the policy",
                clock=clock,
            )
            if not ended():
                self.expect.matrix(*cases)
        except Nonconformance:
            if not ended():
                raise
        finally:
            ending = ended()
            seconds = clock.monotonic() - began
            policy.remove()
            self.felix.back(node)
        self.expect.under(then, *(replace(case, because=back) for case in cases))
        self.journal.close(entry)
        found: Judged = f"{because}; Felix ran the whole time"
        if ending:
            text = (
                f"{', '.join(self.expect.context.claims)}: Felix on node {node} ended under the policies "
                f"{', '.join(policy.names)}: expected Felix to keep running, observed {ending} "
                f"({seconds:.1f} s)\n"
                f"  because  {because}\n  do       name no ports in a Pass; the log of Felix' pod "
                "shows why Felix ended"
            )
            found = Ruling(error=Nonconformance(text), symptom=("Felix runs", "Felix ended"))
        check(self.expect.context, "behaviour", [(None, server, found)], lambda result: result)

    def _is_closed(self, pair: Pair) -> bool:
        source, target = pair
        asked = self.expect.attempt(source, target, want=False)
        return self.expect.prober.observe([asked])[0].verdict not in ARRIVED
