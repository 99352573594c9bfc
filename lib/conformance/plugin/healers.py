"""What undoes each procedure that the journal may hold, put together from the judge's parts."""

from __future__ import annotations

from conformance.cluster.journal import Healers
from conformance.kube.changes import Changes
from conformance.kube.client import Kube
from conformance.model.facts import Facts
from conformance.settings import Settings


def healers_of(kube: Kube, changes: Changes, facts: Facts, settings: Settings) -> Healers:
    """Healers by name.  Also made by a process that only restores: they may ask for nothing that a test made."""
    return {}
