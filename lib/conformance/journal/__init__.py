# SPDX-License-Identifier: Apache-2.0
"""The changes of a run beyond its own namespaces, written down in the cluster first, and put back.

One ConfigMap per run in namespace ``calico-conformance-system``.  A run that dies leaves it there,
with all that is needed to restore the cluster.  Each changed object has a mark of the run: a
journal is believed only as far as the marks confirm it.
"""

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
