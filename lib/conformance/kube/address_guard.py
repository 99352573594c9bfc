# SPDX-License-Identifier: Apache-2.0
"""The guard against changes that give a Windows node a second block of addresses, or take its block
away.

Calico counts a node's blocks only within the pools that a request may use. If a pod requests
another pool, or starts after its node's pool was disabled, its node gets a second block. Calico's
CNI plugin for Windows then deletes the node's HNS network and creates it again: every pod of the
node loses its network (projectcalico/calico, libcalico-go/lib/ipam/ipam.go,
``prepareAffinityBlocksForHost``; cni-plugin/pkg/dataplane/windows/dataplane_windows.go,
``ensureVxlanNetworkExists``).
"""

import json
from collections.abc import Mapping
from typing import Any

from conformance.kube.ownership import Ownership
from conformance.model.change import Change

POOL = "IPPool"
INSTALLATION = "Installation"
NETWORK = "spec.calicoNetwork"
BOOKKEEPING = ("IPAMBlock", "BlockAffinity", "IPAMHandle")
"""Kinds of IPAM's own records of blocks; a node that loses an affinity gets another block."""
ASKING = tuple(
    f"cni.projectcalico.org/{name}"
    for name in ("ipv4pools", "ipv6pools", "ipAddrs", "ipAddrsNoIpam")
)
"""Annotations of a pod, or of its namespace, by which it requests a pool or an address."""
OS_LABEL = "kubernetes.io/os"


def danger(change: Change, run: Ownership) -> str:
    """Return why a change may cost a Windows node its network; an empty string if it cannot."""
    kind = change.target.kind
    if kind in BOOKKEEPING:
        return f"a {kind} records for IPAM which node has a block; a Windows node with another block loses its HNS network"
    if kind == POOL:
        return _pool(change, run)
    if kind == INSTALLATION and not _leaves_pools(change):
        return f"an Installation may change IP pools through the operator; patch it without {NETWORK}.ipPools"
    text = json.dumps(change.body or {}).replace(
        "~1", "/"
    )  # in a JSON patch, the slash of a key is ~1
    asked = [name for name in ASKING if name in text]
    if asked and (kind == "Namespace" or not _for_linux_alone(change.body)):
        return (
            f"{asked[-1]} may give a Windows pod an address outside its node's block; Calico then deletes the "
            f"node's HNS network; set it only on a pod, never on a namespace, with nodeSelector {OS_LABEL}: linux"
        )
    return ""


def _pool(change: Change, run: Ownership) -> str:
    """Return why a change of an IP pool is refused.

    Return an empty string if the addresses of the pool stay with their nodes, or if the pool is the
    run's own and gives out no address.
    """
    spec = change.body.get("spec") if isinstance(change.body, Mapping) else None
    if change.verb == "patch" and spec in ({"vxlanMode": "Always"}, {"vxlanMode": "CrossSubnet"}):
        return ""
    if not run.has_namespace(change.target.name):
        return (
            "the pool does not belong to this run, and Windows nodes may have blocks in it; the name of a pool of "
            f"this run begins with {run.namespace}"
        )
    if change.verb == "delete":
        return ""
    disabled = spec.get("disabled") if isinstance(spec, Mapping) else None
    if disabled is True or (
        change.verb == "patch" and isinstance(spec, Mapping) and "disabled" not in spec
    ):
        return ""
    return "an enabled pool may give a Windows node a second block; set disabled: true"


def _leaves_pools(change: Change) -> bool:
    """Return whether a change of the operator's Installation is a merge patch that does not change
    its pools."""
    spec = change.body.get("spec") if isinstance(change.body, Mapping) else None
    network = spec.get("calicoNetwork", {}) if isinstance(spec, Mapping) else None
    return change.verb == "patch" and isinstance(network, Mapping) and "ipPools" not in network


def _for_linux_alone(body: Any) -> bool:
    """Return whether an object itself restricts its pod, or the pods of its workload, to Linux
    nodes."""
    spec = body.get("spec") if isinstance(body, Mapping) else None
    spec = spec if isinstance(spec, Mapping) else {}
    pods = (spec.get("template") or {}).get("spec") or {} if "template" in spec else spec
    return "linux" in (
        (pods.get("nodeSelector") or {}).get(OS_LABEL),
        (pods.get("os") or {}).get("name"),
    )
