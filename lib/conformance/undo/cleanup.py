# SPDX-License-Identifier: Apache-2.0
"""Removes what a run's processes left on the cluster when they were killed or ran out of time.

Only what carries the run's labels is touched.  What may not even be listed is left, and the
caller says so.
"""

from collections.abc import Iterator

from conformance.errors import SuiteError
from conformance.facts.calico_api import V3
from conformance.kube.changes import Changes, reference
from conformance.kube.client import Kube, Obj
from conformance.kube.ownership import MANAGED_BY, RUN_LABEL, Ownership, labels_of
from conformance.kube.prepared import objects_of, of_prefix
from conformance.model.change import ObjectRef

POLICY = "GlobalNetworkPolicy"
TIER = "Tier"
CLUSTER_SCOPED = (
    (V3, POLICY),
    (V3, "StagedGlobalNetworkPolicy"),
    ("policy.networking.k8s.io/v1alpha2", "ClusterNetworkPolicy"),
    ("v1", "Namespace"),
    (V3, TIER),
)
"""Kinds without a namespace that runs make, policies first: those concern others than the run.
Tiers come last, since Calico deletes none that has a policy, in a namespace on its way out
either."""
STORED = "crd.projectcalico.org/v1"
"""Where Calico stores its objects.  It is looked at where V3 is not served, so that calicoctl
has written them."""


def cluster_scoped(kube: Kube, *, run: str = "", prefix: str = "") -> Iterator[Obj]:
    """What a run (empty: any) has made without a namespace, or in those prepared with ``prefix``,
    and is still there.

    Raises ApiRefused, ApiUnreachable.
    """
    if prefix:
        yield from objects_of(kube, of_prefix(kube, prefix), run)
    wanted = f"{RUN_LABEL}={run}" if run else f"{MANAGED_BY[0]}={MANAGED_BY[1]},{RUN_LABEL}"
    for api_version, kind in CLUSTER_SCOPED:
        if kube.discovery.serves(api_version, kind):
            yield from kube.objects(api_version, kind, labels=wanted)
    for kind in (POLICY, TIER):
        if not kube.discovery.serves(V3, kind) and kube.discovery.serves(STORED, kind):
            for obj in kube.objects(STORED, kind):  # no selector: the labels are in an annotation
                labels = labels_of(obj)
                ours = labels.get(MANAGED_BY[0]) == MANAGED_BY[1] and RUN_LABEL in labels
                if ours and run in ("", labels[RUN_LABEL]):
                    yield obj


def leftovers(kube: Kube, run: str, prefix: str = "") -> Iterator[ObjectRef]:
    """What of a run is still there and not on its way out.  Raises ApiRefused, ApiUnreachable."""
    for item in cluster_scoped(kube, run=run, prefix=prefix):
        if not item["metadata"].get("deletionTimestamp"):
            yield reference(item)


def clean_up(kube: Kube, run: str, *, within: float, prefix: str = "") -> list[str]:
    """Remove it and wait until it is gone; one line per thing that was left, or why it could not be
    removed.

    ``prefix``: of the namespaces that were prepared for the run, of which it removes only what is in them.
    """
    told: list[str] = []
    try:
        found = list(leftovers(kube, run, prefix))
    except SuiteError as error:
        return [f"whether anything of this run is left is not known: {error}"]
    own = Changes(kube, Ownership(run))
    inside = Changes(kube, Ownership(run, prefix=prefix))
    for changes, some in (
        (inside, [target for target in found if target.namespace]),
        (own, [target for target in found if not target.namespace and target.kind != TIER]),
        (own, [target for target in found if target.kind == TIER]),
    ):
        told += _remove(changes, some, within)
    return told


def _remove(changes: Changes, found: list[ObjectRef], within: float) -> Iterator[str]:
    """Delete these and wait until they are gone; one line each."""
    deleted = []
    for target in found:
        try:
            changes.delete(target, "its run is over")
            deleted.append(target)
        except SuiteError as error:
            by_hand = ""
            if target.api_version == STORED:
                by_hand = f"; calicoctl delete {target.kind.lower()} {_name(target)}"
            yield f"{target.label} was left, and could not be removed: {error}{by_hand}"
    for target in deleted:
        try:
            changes.waits.gone(target, within=within)
            yield f"{target.label} was left by a process that ended early, and is removed"
        except SuiteError as error:
            yield f"{target.label} was left by a process that ended early: {error}"


def _name(stored: ObjectRef) -> str:
    """As calicoctl knows a stored policy, whose name begins with its tier's."""
    return stored.name.removeprefix("default.")
