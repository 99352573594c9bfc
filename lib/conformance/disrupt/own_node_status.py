# SPDX-License-Identifier: Apache-2.0
"""Objects of the run's own that request the BGP status of nodes: of a Windows node and of a Linux
node at the same time.

On a Linux node, calico-node fills the object at once, and then once per period
(node/pkg/status/reporter.go).
"""

from collections.abc import Sequence

from conformance.errors import ControlBroken, MissingCapability
from conformance.expect.check import Judged, Ruling, check
from conformance.expect.context import Context
from conformance.journal.journalled import Journalled
from conformance.kube.changes import reference
from conformance.kube.refused import ApiRefused
from conformance.model.change import ObjectRef
from conformance.model.claim import ClaimVerdict
from conformance.model.facts import NodeFacts
from conformance.timing import Clock, until

FILLED = 3
"""The number of times that the Linux node's status must be filled. Two updates are one period
apart."""


class OwnNodeStatus:
    """The status objects of a test, two at a time. The journal removes objects that are left."""

    def __init__(
        self,
        journalled: Journalled,
        context: Context,
        clock: Clock,
        *,
        period: float,
        windows: Sequence[NodeFacts],
        linux: NodeFacts,
    ) -> None:
        """Set up the status objects. ``period``: seconds between two reports of a node's status.

        ``linux``: the node whose status is read together with the status of each node in
        ``windows``.
        """
        self._journalled = journalled
        self._context = context
        self._clock = clock
        self._period = period
        self._windows = windows
        self._linux = linux.name

    def stay_empty(self, *, because: str) -> None:
        """Expect each Windows node's status to stay empty until the Linux node's status was filled
        :data:`FILLED` times. If a Windows node's status is filled, the limitation is LIFTED.

        Raise ControlBroken if the Linux node's status is not filled, MissingCapability if the user
        may not create the objects.
        """

        def judge(node: NodeFacts) -> Judged:
            if filled := self._filled(node.name, self._linux):
                return Ruling(
                    f"CalicoNodeStatus of node {node.name} was filled at {filled}",
                    ClaimVerdict.LIFTED,
                )
            return because

        check(self._context, "behaviour", [(None, node, node) for node in self._windows], judge)

    def _filled(self, windows: str, linux: str) -> str:
        """Return the time when the Windows node's status was last filled, or an empty string if it
        was never filled."""
        changes = self._journalled.changes
        times = dict[str, None]()
        own = self._request(windows)
        control = self._request(linux)

        def enough() -> bool:
            times.update(dict.fromkeys(filter(None, [self._last(control)])))
            return len(times) >= FILLED

        settled = until(
            enough,
            bool,
            within=2 * FILLED * self._period,
            every=self._period / 4,
            clock=self._clock,
            description=f"CalicoNodeStatus of node {linux}",
        )
        filled = self._last(own)
        for target in (own, control):
            changes.delete(target, "it has been read", foreign=True)
        if not settled.converged:
            text = f"CalicoNodeStatus of node {linux}  expected filled {FILLED} times, observed {len(times)}"
            raise ControlBroken(f"{text} ({settled.seconds:.0f} s)", "a Linux node's status")
        return filled

    def _request(self, node: str) -> ObjectRef:
        body = {
            "apiVersion": "projectcalico.org/v3",
            "kind": "CalicoNodeStatus",
            "metadata": {"name": f"{self._journalled.changes.run.namespace}-{node}"},
            "spec": {
                "node": node,
                "classes": ["Agent", "BGP"],
                "updatePeriodSeconds": max(1, round(self._period)),
            },
        }
        try:
            self._journalled.create(body, f"requests the status of node {node}")
        except ApiRefused as refusal:
            if refusal.forbidden:
                raise MissingCapability(
                    str(refusal), "bind the role of manifests/rbac/node-status.yaml"
                ) from refusal
            raise
        return reference(body)

    def _last(self, target: ObjectRef) -> str:
        there = (
            self._journalled.changes.kube.find(target.api_version, target.kind, target.name) or {}
        )
        return str((there.get("status") or {}).get("lastUpdated") or "")
