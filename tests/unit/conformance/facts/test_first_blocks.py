# SPDX-License-Identifier: Apache-2.0
"""The block of a Windows node is reported as its first only while the node has no pods."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from conformance.facts.first_blocks import with_first_blocks
from conformance.facts.reading import Reading
from conformance.model.facts import Fact
from tests.unit.conformance.builders import Obj
from tests.unit.conformance.facts.test_ipam import affinity, block, pod
from tests.unit.conformance.facts.test_objects import CRD, Objects, node

ANNOUNCED = {"projectcalico.org/IPv4Address": "10.0.0.11/24"}


def first(
    *pods: Obj,
    affinities: tuple[Obj, ...] = (affinity(),),
    blocks: tuple[Obj, ...] = (block(),),
    **more: Any,
) -> Fact[str]:
    """Of node ``win``, beside a pod on Linux."""
    served = {
        ("v1", "Pod"): [pod("coredns", "192.168.0.3", nodeName="lin"), *pods],
        (CRD, "BlockAffinity"): list(affinities),
        (CRD, "IPAMBlock"): list(blocks),
    }
    kube: Any = Objects(served, **more)
    windows = replace(node("win", "windows"), annotations=more.get("annotations", ANNOUNCED))
    linux, found = with_first_blocks(Reading(kube), [node("lin", "linux"), windows])
    assert linux == node("lin", "linux")
    return found.first_block


def test_a_node_without_pods_has_its_block_already() -> None:
    in_its_host = pod("calico-node", "10.0.0.11", hostNetwork=True)
    assert (
        first(in_its_host).value == "a block with its reserved addresses, and an announced address"
    )


def test_what_is_lacking_is_named() -> None:
    other = affinity(where="lin", cidr="192.168.9.0/26")
    assert first(affinities=(other,)).value == "no block"
    assert first(affinities=(affinity(state="pending"), other)).value == "no block"
    assert (
        first(blocks=(block(reserved=(0, 1, 2)),)).value == "a block without its reserved addresses"
    )


def test_a_node_with_pods_says_nothing() -> None:
    found = first(pod("web", "192.168.7.70"))
    assert (found.value, found.source) == (None, "node win had 1 pod when the run began: web")


def test_what_may_not_be_read_says_nothing() -> None:
    found = first(forbidden={"BlockAffinity"})
    assert (found.value, found.source) == (None, "not known: no right to read BlockAffinity")
