# SPDX-License-Identifier: Apache-2.0
"""The rights that restoring needs. They are checked before any change, so that no restore stops
halfway."""

from collections.abc import Iterable, Iterator

from conformance.facts.rights import DEPLOYING, DISRUPTING
from conformance.journal.lease import LOCK_RIGHTS
from conformance.journal.record import Entry
from conformance.kube.client import Kube
from conformance.kube.rights import Right, missing

ROLE = "manifests/rbac/disruptive.yaml"


def lacking_to_restore(kube: Kube, entries: Iterable[Entry]) -> list[str]:
    """Return a line for each missing right to restore these changes and to verify them by
    traffic.
    """
    needed: dict[str, Right] = {}
    for right in (*LOCK_RIGHTS, *_changing(kube, entries), *DEPLOYING):
        needed.setdefault(right.label, right)
    return [
        f"{kube.access.user} may not {right.label}, needed to {right.needed_for}; bind the role of {ROLE}"
        for right in missing(kube, list(needed.values()))
    ]


def _changing(kube: Kube, entries: Iterable[Entry]) -> Iterator[Right]:
    """Yield the rights for the entries' own objects, and for procedures: drain nodes, restart
    pods."""
    for entry in entries:
        if entry.act == "procedure":
            yield from (right for right in DISRUPTING if right.group != "projectcalico.org")
        target = entry.target
        if target is None or entry.act not in ("patch", "create"):
            continue
        # otherwise the object is restored where it is stored
        if kube.discovery.serves(target.api_version, target.kind):
            yield Right(
                "patch" if entry.act == "patch" else "delete",
                kube.resource(target.api_version, target.kind).plural,
                target.api_version.rpartition("/")[0],
                target.namespace,
                needed_for=f"put back {target.kind} {target.name}",
            )
