# SPDX-License-Identifier: Apache-2.0
"""Tries the documented command that turns strict affinity on, as a dry run, so that the server
stores nothing."""

from dataclasses import dataclass

from conformance.errors import MissingCapability
from conformance.facts.calico_api import V3
from conformance.facts.objects import CalicoObjects
from conformance.kube.changes import Changes
from conformance.kube.fields import value_at
from conformance.kube.refused import ApiRefused
from conformance.model.change import ObjectRef
from conformance.model.facts import Fact

PATCH = {"spec": {"strictAffinity": True}}
CONFIGURATION = ObjectRef(api_version=V3, kind="IPAMConfiguration", name="default")
COMMAND = (
    "kubectl patch ipamconfigurations default --type=merge (strictAffinity true, as it already is)"
)
DONE = "accepted, with strictAffinity true in the answer and in the object"


@dataclass(frozen=True)
class DocumentedPatch:
    """The dry run of the documented command, by a single test."""

    changes: Changes
    calico: CalicoObjects

    def tried(self) -> dict[str, Fact[str]]:
        """Return the server's answer to the command, and the value afterwards. Raise
        MissingCapability if the run's user may not patch. Also raise MissingCapability if the value
        is not yet true, since a server that stores the patch in spite of the dry run would then
        change the cluster."""
        if not self._is_on():
            raise MissingCapability(
                "strict affinity is off, so trying the patch would turn it on",
                "see IPAM-1; set strictAffinity to true, then run again",
            )
        try:
            found = self.changes.tried_patch(CONFIGURATION, PATCH)
        except ApiRefused as refusal:
            if refusal.forbidden:
                raise MissingCapability(
                    f"the run's user may not patch IPAMConfiguration default: {refusal.message}",
                    "give the run the right to patch ipamconfigurations.projectcalico.org",
                ) from refusal
            return {COMMAND: Fact(f"refused: {refusal.message}", "the API server, dryRun=All")}
        value = value_at(found, "spec", "strictAffinity")
        result = (
            DONE
            if value is True and self._is_on()
            else f"accepted, with strictAffinity {value} in the answer"
        )
        return {COMMAND: Fact(result, "the API server, dryRun=All, then the object itself")}

    def _is_on(self) -> bool:
        return all(fact.value is True for fact in self.calico.strict_affinity().values())
