"""What a run changes beyond its own namespaces, written down in the cluster before it is changed, and put back.

One ConfigMap per run in namespace ``calico-conformance-system``.  A run that dies leaves it there, with all that is
needed to restore the cluster.
"""

from conformance.cluster.journal.book import SYSTEM_NAMESPACE, Journal
from conformance.cluster.journal.entry import Entry
from conformance.cluster.journal.journalled import Journalled
from conformance.cluster.journal.restore import Healers, Outcome, Restored

__all__ = ["SYSTEM_NAMESPACE", "Entry", "Healers", "Journal", "Journalled", "Outcome", "Restored"]
