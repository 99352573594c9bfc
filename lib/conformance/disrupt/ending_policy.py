"""A policy that may end Felix of one node: noted before it is made, watched, and removed when Felix ends.

Where it ends, it starts, meets the policy and ends again, and no policy changes for any pod of the node meanwhile.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from conformance.disrupt.felix import Felix
from conformance.errors import Nonconformance
from conformance.expect.check import Judged, Ruling, check
from conformance.expect.engine.answered import ARRIVED
from conformance.expect.traffic import Expect, Policies, Removable
from conformance.journal.journalling import Journalling
from conformance.model.endpoint import Pair, Workload
from conformance.timing import until

__tracebackhide__ = True  # a failure shows the line of the test, not how it was decided

ENDING_POLICY = "policy-that-may-end-felix"
"""Name of the healer that removes such a policy and waits for the node's Felix."""


class Named(Removable, Protocol):
    """The policies of a test, by whose names they are removed after a run that died."""

    @property
    def names(self) -> list[str]: ...


@dataclass
class EndingPolicy:
    """What one test expects of Felix under a policy that may end it."""

    felix: Felix
    journal: Journalling
    expect: Expect

    def outlived(
        self,
        server: Workload,
        policy: Named,
        made: Policies,
        then: Policies,
        *,
        open: Sequence[Pair],
        closed: Sequence[Pair],
        because: str,
        back: str,
    ) -> None:
        """Felix of the server's node runs on under ``made`` of ``policy``, which keeps paths ``open`` and ``closed``.

        Once it is removed ``then`` takes effect there, or Felix is not well again: a control, since ``back``.  Raises
        Nonconformance where Felix ends, or the policy is not in force.
        """
        node = server.node
        patience = self.expect.timings.of(server.os)
        clock = self.expect.clock
        self.expect.controls([open, closed], because="before the policy nothing closes this path")
        ended = self.felix.watched(node)
        arguments = {"node": node, "namespace": server.namespace, "policies": policy.names}
        entry = self.journal.procedure(
            ENDING_POLICY, arguments, f"a policy that may end Felix on node {node}"
        )
        began = clock.monotonic()
        try:
            made.apply()
            until(
                lambda: ended() or self._is_closed(closed[0]),
                bool,
                within=patience.policy_effect,
                every=patience.poll_every,
                description="Felix has met the policy",
                clock=clock,
            )
            if not ended():
                self.expect.matrix(open=[open], closed=[closed], because=because)
        except Nonconformance:
            if not ended():
                raise
        finally:
            told = ended()
            seconds = clock.monotonic() - began
            policy.remove()
            self.felix.back(node)
        self.expect.under(then, open=[open], closed=[closed], because=back)
        self.journal.close(entry)
        found: Judged = f"{because}; Felix ran all the while"
        if told:
            text = (
                f"{', '.join(self.expect.context.claims)}: Felix on node {node} ended under the policies "
                f"{', '.join(policy.names)}: expected that it runs on, observed {told} ({seconds:.1f} s)\n"
                f"  because  {because}\n  do       name no ports in a Pass; the log of its pod says why it ended"
            )
            symptom = ("Felix runs", "Felix ended")
            found = Ruling(error=Nonconformance(text), symptom=symptom)
        check(self.expect.context, "behaviour", [(None, server, found)], lambda one: one)

    def _is_closed(self, pair: Pair) -> bool:
        source, target = pair
        asked = self.expect.attempt(source, target, want=False)
        return self.expect.prober.observe([asked])[0].verdict not in ARRIVED
