"""Faults of what a Windows node does with the source of its pods on their way through a Service.

They bind the translation before kube-proxy's rules have their turn: the first that translates decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hybridlab.faults.bench import Bench
from hybridlab.faults.model import BadFault, Fault
from hybridlab.faults.rules import RuleFault
from hybridlab.windows.reserved import source_vip


def snat_despite_dsr(bench: Bench, identity: str, parameters: Mapping[str, str]) -> Fault:
    """The source is rewritten to the address that kube-proxy uses without direct server return."""
    return _fault(bench, identity, parameters, lambda node, block: source_vip(block))


def wrong_snat_address(bench: Bench, identity: str, parameters: Mapping[str, str]) -> Fault:
    """The source is rewritten to the node's address, which no overlay uses towards pods."""
    return _fault(bench, identity, parameters, lambda node, block: bench.address(node))


def dsr_despite_build(bench: Bench, identity: str, parameters: Mapping[str, str]) -> Fault:
    """The source is kept where nothing could keep it."""
    return _fault(bench, identity, parameters, lambda node, block: "ip saddr")


def _fault(bench: Bench, identity: str, parameters: Mapping[str, str], source: Callable[[str, str], str]) -> Fault:
    rules: dict[str, list[tuple[str, str]]] = {}
    for node in bench.windows_nodes(parameters["node"]):
        blocks = bench.blocks(node)
        if not blocks:
            raise BadFault(f"node {node} has no IPAM block, so no pod of its own to rewrite")
        local = f"ip saddr {{ {', '.join(blocks)} }} ct status dnat"
        rules[node] = [("f_snat", f"{local} snat to {source(node, blocks[0])}")]
    return RuleFault(bench.dataplane, identity, rules)
