# SPDX-License-Identifier: Apache-2.0
"""Faults of HNS: Services that are lost with the HNS network; an HNS that gives no answers."""

from collections.abc import Callable, Mapping

from hybridlab.faults.errors import BadFault
from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import WINDOWS_OR_ALL, Entries, Fault, Parameter, Types
from hybridlab.windows.hns_faults import HnsFaults
from hybridlab.windows.host import HNS_FAILURES

TYPES = Types()


def hns_habit(
    lab: LabParts,
    identity: str,
    given: str,
    habit: Callable[[HnsFaults], dict[str, bool]],
    words: str,
) -> Fault:
    """Return a fault that makes HNS of some Windows nodes behave differently from its
    documentation. HNS keeps its existing entries when the fault begins and ends.

    ``habit``: the table of a node's faults that turns the behaviour on; ``words`` describe it.
    """
    hns = {node: lab.calico.windows[node].hns for node in lab.nodes_of("windows", given)}
    return Entries(
        identity, True, {f"HNS of {node} {words}": habit(host.faults) for node, host in hns.items()}
    )


@TYPES.fault("services-lost-with-network", "hns", WINDOWS_OR_ALL)
def services_lost_with_network(
    lab: LabParts, identity: str, parameters: Mapping[str, str]
) -> Fault:
    """Services of a Windows node stay dead after its HNS network is removed, until its
    kube-proxy's pod is replaced.
    """
    words = "loses its Services when its network is removed, until kube-proxy starts again"
    return hns_habit(lab, identity, parameters["node"], lambda faults: faults.loses_services, words)


@TYPES.fault(
    "hns-fails", "hns", WINDOWS_OR_ALL, Parameter("answer", "error, silent or garbled", "error")
)
def hns_fails(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """HNS gives no answers: its cmdlets print an error and null, or an empty text, and exit with
    0.
    """
    how = parameters["answer"]
    nodes = lab.nodes_of("windows", parameters["node"])
    if how not in HNS_FAILURES:
        raise BadFault(f"answer is {how!r}, expected one of {', '.join(HNS_FAILURES)}")
    tables = {
        f"HNS of {node} fails every request: {how}": lab.calico.windows[node].hns.faults.fails
        for node in nodes
    }
    return Entries(identity, how, tables)
