# SPDX-License-Identifier: Apache-2.0
"""Faults of an HNS network's VSID: it follows the VNI, differs from it, or comes back."""

from collections.abc import Mapping

from hybridlab.faults.errors import BadFault
from hybridlab.faults.hns import hns_habit
from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import WINDOWS, WINDOWS_OR_ALL, Fault, Parameter, Types

TYPES = Types()


@TYPES.fault("vni-followed-live", "hns", WINDOWS_OR_ALL)
def vni_followed_live(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """An existing HNS network takes the VNI that is delivered to Windows as its VSID."""
    words = "gives its existing network a new VNI as the VSID"
    return hns_habit(
        lab, identity, parameters["node"], lambda faults: faults.follows_delivered, words
    )


@TYPES.fault("procedure-does-not-heal", "hns", WINDOWS_OR_ALL)
def procedure_does_not_heal(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """An HNS network that was removed comes back with its old VSID."""
    words = "gives a new network the VSID of the removed network"
    return hns_habit(lab, identity, parameters["node"], lambda faults: faults.remembers_vsid, words)


@TYPES.fault("vsid-differs", "hns", WINDOWS, Parameter("vsid", "the VSID", "4999"))
class VsidDiffers(Fault):
    """A node's HNS network has another VSID than the configured VNI."""

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str]) -> None:
        self._node = lab.calico.windows[lab.node_of("windows", parameters["node"])]
        try:
            self._vsid = int(parameters["vsid"])
        except ValueError as error:
            raise BadFault(f"vsid is {parameters['vsid']!r}, expected a number") from error
        network = self._node.hns.pod_network
        if network is None or network.vsid is None:
            raise BadFault(f"node {parameters['node']} has no HNS network Calico")
        if self._vsid == network.vsid:
            raise BadFault(f"vsid is {self._vsid}, which the network already has")
        self._network = network
        self._before = network.vsid

    async def inject(self) -> None:
        self._node.hns.set_vsid(self._vsid)

    async def heal(self) -> None:
        """Restore the VSID, unless the network has been created again."""
        if self._is_there():
            self._node.hns.set_vsid(self._before)

    async def evidence(self) -> list[str]:
        if not self._is_there():
            return []
        return [
            f"HNS network Calico of {self._node.machine.name} has VSID {self._vsid} instead of {self._before}"
        ]

    def _is_there(self) -> bool:
        return self._node.hns.pod_network is self._network and self._network.vsid == self._vsid
