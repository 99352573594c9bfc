# SPDX-License-Identifier: Apache-2.0
"""Removes objects that a run's processes left on the cluster when they were killed or ran out of
time.

Only objects with the run's labels are touched. Objects that may not be listed stay, and the caller
reports this.
"""

from collections.abc import Iterator

from conformance.errors import SuiteError
from conformance.facts.calico_api import V3
from conformance.kube.changes import Changes, reference
from conformance.kube.client import Kube, Obj
from conformance.kube.ownership import MANAGED_BY, RUN_LABEL, Ownership, is_of
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
"""Kinds without a namespace of which runs make objects. Policies come first, because they affect
other users. Tiers come last, since Calico deletes no tier that has a policy, even if the policy's
namespace is being deleted."""
STORED = "crd.projectcalico.org/v1"
"""The API of Calico's storage. It is read if V3 is not served: calicoctl has written the objects in
this case."""


def cluster_scoped(kube: Kube, *, run: str = "", prefix: str = "") -> Iterator[Obj]:
    """Yield the objects that a run (empty: any) made outside its namespaces, or in namespaces
    prepared with ``prefix``.

    Raise ApiRefused, ApiUnreachable.
    """
    if prefix:
        yield from objects_of(kube, of_prefix(kube, prefix), run)
    wanted = f"{RUN_LABEL}={run}" if run else f"{MANAGED_BY[0]}={MANAGED_BY[1]},{RUN_LABEL}"
    for api_version, kind in CLUSTER_SCOPED:
        if kube.discovery.serves(api_version, kind):
            found = kube.objects(api_version, kind, labels=wanted)
            yield from (obj for obj in found if is_of(obj, run))
    for kind in (POLICY, TIER):
        if not kube.discovery.serves(V3, kind) and kube.discovery.serves(STORED, kind):
            found = kube.objects(STORED, kind)  # no selector: the labels are in an annotation
            yield from (obj for obj in found if is_of(obj) and is_of(obj, run))


def leftovers(kube: Kube, run: str, prefix: str = "") -> Iterator[ObjectRef]:
    """Yield the objects of a run that exist and are not being deleted. Raise ApiRefused,
    ApiUnreachable."""
    yield from (
        reference(item)
        for item in cluster_scoped(kube, run=run, prefix=prefix)
        if not item["metadata"].get("deletionTimestamp")
    )


def clean_up(kube: Kube, run: str, *, within: float, prefix: str = "") -> list[str]:
    """Remove a run's objects and wait until they are gone. Return one line per object: it was
    removed, or why it stays.

    ``prefix``: the prefix of the namespaces that were prepared for the run; only their contents are
    removed.
    """
    notes: list[str] = []
    try:
        found = list(leftovers(kube, run, prefix))
    except SuiteError as error:
        return [f"it is not known whether objects of this run are left: {error}"]
    own = Changes(kube, Ownership(run))
    inside = Changes(kube, Ownership(run, prefix=prefix))
    for changes, some in (
        (inside, [target for target in found if target.namespace]),
        (own, [target for target in found if not target.namespace and target.kind != TIER]),
        (own, [target for target in found if target.kind == TIER]),
    ):
        notes += _remove(changes, some, within)
    return notes


def _remove(changes: Changes, found: list[ObjectRef], within: float) -> Iterator[str]:
    """Delete these objects and wait until they are gone. Yield one line for each object: it was
    removed, or why it stays."""
    deleted = []
    for target in found:
        try:
            changes.delete(target, "its run is over")
            deleted.append(target)
        except SuiteError as error:
            by_hand = ""
            if target.api_version == STORED:
                # a stored policy's name begins with the name of its tier, which calicoctl leaves
                # out
                name = target.name.removeprefix("default.")
                by_hand = f"; calicoctl delete {target.kind.lower()} {name}"
            yield f"{target.label} was left, and could not be removed: {error}{by_hand}"
    for target in deleted:
        try:
            changes.waits.gone(target, within=within)
            yield f"{target.label} was left by a process that ended early, and is removed"
        except SuiteError as error:
            yield f"{target.label} was left by a process that ended early: {error}"
