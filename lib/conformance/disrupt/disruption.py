# SPDX-License-Identifier: Apache-2.0
"""The tools that every disruption of a cluster uses."""

from dataclasses import dataclass

from conformance.disrupt.patience import Patience
from conformance.journal.journalling import Journalling
from conformance.kube.changes import Changes
from conformance.kube.client import Kube
from conformance.timing import SYSTEM_CLOCK, Clock


@dataclass(eq=False)
class Disruption:
    """The base of every kind of change to objects that all users of the cluster share."""

    changes: Changes
    journal: Journalling
    patience: Patience
    clock: Clock = SYSTEM_CLOCK

    @property
    def kube(self) -> Kube:
        return self.changes.kube
