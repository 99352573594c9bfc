"""A fault of what Calico's CNI plugin has on a Windows node: a token that nobody renews."""

import time
from collections.abc import Mapping

from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import WINDOWS_OR_ALL, Fault, Parameter, Types, count

TYPES = Types()


@TYPES.fault("cni-token-old", "pods", WINDOWS_OR_ALL, Parameter("hours", "how long ago it was asked for", "25"))
class CniTokenOld(Fault):
    """The token of a Windows node's CNI plugin, which lives for 24 h, was asked for so long ago; pods start all the
    same."""

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str]) -> None:
        self._identity, self._asked = identity, time.time() - 3600 * count("hours", parameters["hours"])
        self._nodes = {node: lab.calico.windows[node] for node in lab.nodes_of("windows", parameters["node"])}

    async def inject(self) -> None:
        for node in self._nodes.values():
            node.old_tokens[self._identity] = self._asked

    async def heal(self) -> None:
        for node in self._nodes.values():
            node.old_tokens.pop(self._identity, None)

    async def evidence(self) -> list[str]:
        return [
            f"the CNI token of {name} is old" for name, node in self._nodes.items() if self._identity in node.old_tokens
        ]
