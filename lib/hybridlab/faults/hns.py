"""Faults of HNS: Services that go with its network; an HNS that cannot be asked."""

from collections.abc import Callable, Mapping

from hybridlab.faults.errors import BadFault
from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import WINDOWS_OR_ALL, Entries, Fault, Parameter, Types
from hybridlab.windows.hns_faults import HnsFaults
from hybridlab.windows.host import HNS_FAILURES

TYPES = Types()


class HnsHabit(Fault):
    """HNS of some Windows nodes behaves otherwise than documented for as long as the fault is there."""

    def __init__(
        self,
        lab: LabParts,
        identity: str,
        parameters: Mapping[str, str],
        habit: Callable[[HnsFaults], set[str]],
        words: str,
    ) -> None:
        self._identity, self._words = identity, words
        nodes = lab.nodes_of("windows", parameters["node"])
        self._switches = {node: habit(lab.calico.windows[node].hns.faults) for node in nodes}

    async def inject(self) -> None:
        """From now on; what HNS has stays as it is."""
        for switch in self._switches.values():
            switch.add(self._identity)

    async def heal(self) -> None:
        """No longer; what HNS has stays as it is."""
        for switch in self._switches.values():
            switch.discard(self._identity)

    async def evidence(self) -> list[str]:
        """The nodes that behave so because of this fault."""
        return [f"HNS of {node} {self._words}" for node, switch in self._switches.items() if self._identity in switch]


@TYPES.fault("services-lost-with-network", "hns", WINDOWS_OR_ALL)
def services_lost_with_network(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """Services of a Windows node stay dead once its HNS network is removed, until its kube-proxy's pod is made
    anew."""
    words = "has no Services once its network is removed, until kube-proxy starts again"
    return HnsHabit(lab, identity, parameters, lambda faults: faults.loses_services, words)


@TYPES.fault("hns-fails", "hns", WINDOWS_OR_ALL, Parameter("answer", "error, silent or garbled", "error"))
def hns_fails(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """HNS cannot be asked: its cmdlets print an error and null, or an empty text, and exit with 0."""
    how, nodes = parameters["answer"], lab.nodes_of("windows", parameters["node"])
    if how not in HNS_FAILURES:
        raise BadFault(f"answer is {how!r}, expected one of {', '.join(HNS_FAILURES)}")
    tables = {f"HNS of {node} answers who asks it: {how}": lab.calico.windows[node].hns.faults.fails for node in nodes}
    return Entries(identity, how, tables)
