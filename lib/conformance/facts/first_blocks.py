# SPDX-License-Identifier: Apache-2.0
"""Reads the block of addresses of each Windows node without pods, before the run creates pods.

If a node has no block, IPAM gives it a block for its first pod. After that, it could not be seen
whether the node had its block before the pod.
"""

from dataclasses import replace

from conformance.facts.calico_api import ADDRESS, CRD, V3
from conformance.facts.ipam import RESERVATION, affine, reservations
from conformance.facts.objects import confirmed
from conformance.facts.reading import Reading
from conformance.kube.client import Obj
from conformance.model.counted import counted
from conformance.model.facts import Fact, NodeFacts

WHOLE = "a block with its reserved addresses, and an announced address"


def with_first_blocks(reading: Reading, nodes: list[NodeFacts]) -> list[NodeFacts]:
    """Return the nodes. For each Windows node without pods, the block that it has now is added."""
    windows = [node for node in nodes if node.os == "windows"]
    if not windows:
        return nodes
    pods = reading.all("v1", "Pod")
    affinities, blocks = (
        reading.all(V3, kind) or reading.all(CRD, kind) for kind in ("BlockAffinity", "IPAMBlock")
    )
    why = (
        ""
        if pods and affinities
        else f"not known: {reading.reason('Pod', 'BlockAffinity', 'IPAMBlock')}"
    )
    found = {
        node.name: Fact[str](None, why) if why else _of(node, pods, affinities, blocks)
        for node in windows
    }
    return [replace(node, first_block=found.get(node.name, node.first_block)) for node in nodes]


def _of(node: NodeFacts, pods: list[Obj], affinities: list[Obj], blocks: list[Obj]) -> Fact[str]:
    own = [
        pod["metadata"]["name"]
        for pod in pods
        if pod["spec"].get("nodeName") == node.name and not pod["spec"].get("hostNetwork")
    ]
    if own:
        return Fact(
            None, f"node {node.name} had {counted(len(own), 'pod')} when the run began: {own[0]}"
        )
    claimed = [
        affinity["spec"]["cidr"]
        for affinity in affinities
        if affinity["spec"].get("node") == node.name and confirmed(affinity["spec"])
    ]
    found = _lacking(node, [block for block in blocks if block["spec"]["cidr"] in claimed])
    source = f"BlockAffinities, IPAMBlocks and annotations while the node had no pod: {', '.join(claimed) or 'nothing'}"
    return Fact(", ".join(found) or WHOLE, source)


def _lacking(node: NodeFacts, blocks: list[Obj]) -> list[str]:
    """Return what a node lacks: a block, the block's reserved addresses, or the annotation with the
    node's address. ``blocks``: the blocks of the node's affinities."""
    there = [block["spec"] for block in blocks if affine(block) == node.name]
    lacks = {
        "no block": not there,
        "a block without its reserved addresses": any(
            reservations(spec) != RESERVATION for spec in there
        ),
        f"no annotation {ADDRESS}": ADDRESS not in node.annotations,
    }
    return [words for words, lacking in lacks.items() if lacking]
