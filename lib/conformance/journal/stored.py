"""Where Calico's settings are put back while Calico's own API server is away: where it stores them.

Its pods are on the overlay that a test has changed, so that it may be out of reach just when that is to be put back.
What it serves of these kinds is what it stores, field by field.
"""

from dataclasses import replace

from conformance.errors import EnvironmentBroken
from conformance.kube.client import Kube
from conformance.model.change import ObjectRef

SERVED, STORED = "projectcalico.org/v3", "crd.projectcalico.org/v1"
KINDS = ("FelixConfiguration",)


def stored(kube: Kube, target: ObjectRef, why: object) -> ObjectRef:
    """Where a target is stored, given why it is not to be reached as Calico's API server serves it.

    Raises EnvironmentBroken when it is not Calico's, or is not stored where this suite could write.
    """
    if target.api_version != SERVED or target.kind not in KINDS or not kube.discovery.serves(STORED, target.kind):
        raise EnvironmentBroken(f"{target.label} is out of reach: {why}")
    return replace(target, api_version=STORED)
