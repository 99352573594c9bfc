# SPDX-License-Identifier: Apache-2.0
"""The journal: a run's changes outside its own namespaces, recorded in the cluster before they are
made, and restored. Each run has one ConfigMap in namespace ``calico-conformance-system``. If the
run dies, its ConfigMap stays there, with everything that is needed to restore the cluster. Each
changed object has a mark of the run. An entry of the journal is applied only if the mark confirms
it."""

from conformance.journal.journalled import Journalled
from conformance.journal.mark import believed
from conformance.journal.record import Entry
from conformance.journal.restore import NOT_RESTORED, Healers, Outcome, Restored
from conformance.journal.store import Journal

__all__ = [
    "NOT_RESTORED",
    "Entry",
    "Healers",
    "Journal",
    "Journalled",
    "Outcome",
    "Restored",
    "believed",
]
