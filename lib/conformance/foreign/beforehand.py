# SPDX-License-Identifier: Apache-2.0
"""Policies of other owners that may decide paths of a run's pods, read before the run creates any
pod."""

from dataclasses import dataclass

from conformance.foreign.paths import describe, pod_in
from conformance.foreign.snapshot import own_objects, read
from conformance.kube.client import Kube
from conformance.kube.ownership import NAMESPACE_PREFIX, RUN_LABEL, Ownership
from conformance.model.facts import Facts
from conformance.pods.roles import ECHO_PORT
from conformance.policy import labels
from conformance.policy.foreign import End, Way
from conformance.policy.oracle.policies import DIRECTIONS
from conformance.policy.oracle.switches import PROMISE, columns

EXEMPT = (
    "exempt the run's namespaces from this policy by name and label (Calico: namespaceSelector "
    "... && "
    f"!(projectcalico.org/name starts with '{NAMESPACE_PREFIX}' && has({RUN_LABEL})); "
    "docs/field-guide.md shows this for Kubernetes, and why the label alone is not enough), or run "
    "where the policy does not apply"
)


@dataclass(frozen=True, kw_only=True)
class Beforehand:
    """The policies of other owners that may decide paths of the run's pods, as texts for the run's
    header. The texts are empty if there are no such policies."""

    closing: str = ""
    opening: str = ""
    unread: str = ""
    """Kinds that could not be read, each with the reason."""
    exempt: str = ""
    """Advice on how to exempt the run's pods from these policies."""

    @property
    def lines(self) -> list[str]:
        """Return the notes for the run's header."""
        policies = "; ".join(filter(None, [self.closing, self.opening]))
        notes = {
            f"foreign policies: {policies}: paths that they decide are INCONCLUSIVE or NOT_RUN; "
            f"{self.exempt}": policies,
            f"foreign policies could not be read: {self.unread}": self.unread,
        }
        return [note for note, applies in notes.items() if applies]


def beforehand(kube: Kube, run: Ownership, facts: Facts | None = None) -> Beforehand:
    """Return the policies of other owners that may decide paths of the pods that a run is going to
    create."""
    snapshot = read(kube, 0.0, own_objects(run))
    given = ({} if run.prefix else run.labels) | {"pod-security.kubernetes.io/enforce": "baseline"}
    space = labels.of_namespace({"metadata": {"name": run.namespace, "labels": given}})
    windows = facts.by_os("windows") if facts else ()
    on_windows = {columns(facts.calico_on(node.name).value) for node in windows if facts}
    pod = pod_in(run.namespace, space)
    places = [("", (PROMISE,)), *((" on Windows", read_as) for read_as in on_windows)]
    ways = [
        (
            f"this run's pods{place}",
            Way(
                direction=direction,
                end=End(member=pod, columns=read_as),
                other=End(member=pod),
                protocol="TCP",
                ports=(ECHO_PORT,),
            ),
        )
        for place, read_as in places
        for direction in DIRECTIONS
    ]
    return Beforehand(
        closing=describe(snapshot.foreign, ways, "closed"),
        opening=describe(snapshot.foreign, ways, "open"),
        unread="; ".join(snapshot.unread),
        exempt=f"exempt namespaces {run.prefix}-... by name" if run.prefix else EXEMPT,
    )
