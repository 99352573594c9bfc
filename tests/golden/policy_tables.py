# SPDX-License-Identifier: Apache-2.0
"""Tables of policy cases, one JSON object a line: objects go in, ACL lists and verdicts come out.

A case has ``id``, ``objects`` (added to the world's), ``network_sets`` (true: the world's network
sets are included) and ``calico`` (the version). Its answer has ``id`` and either policy, or
``panic`` (the message with which Felix ends), or ``rejected`` (the reason why Calico refuses the
objects). Policy is ``acls`` (maps each pod to its list with the fields of ``hns.ACLPolicy``,
without empty fields), and ``windows`` and ``linux`` (map each pod to one letter for each of the
world's probes: A allow, B block).

``python -m tests.golden.policy_tables WORLD TABLE...`` prints one answer a line; tables may be
gzipped.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hybridlab.api.contract import Obj
from hybridlab.dataplane.model import Acl
from hybridlab.policy.acls import ports_text
from hybridlab.policy.flattener import FelixPanic
from hybridlab.policy.release import Release, as_shipped
from tests.golden.policy_objects import Objects, allowed_on_windows
from tests.golden.policy_packets import Packet

Answer = dict[str, Any]


@dataclass(frozen=True)
class World:
    """The part that all cases share."""

    node: str
    """The name of the Windows node."""
    hosts: tuple[str, ...]
    objects: tuple[Obj, ...]
    network_sets: tuple[Obj, ...]
    probes: Mapping[str, tuple[Packet, ...]]
    """Map ``namespace/name`` of each pod to the probes that its policy decides."""

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> World:
        """Return a world from its JSON document. Raise KeyError, TypeError, ValueError."""
        return cls(
            node=document["node"],
            hosts=tuple(document.get("host_addresses") or ()),
            objects=tuple(document["objects"]),
            network_sets=tuple(document.get("network_sets") or ()),
            probes={
                pod: tuple(map(packet, listed))
                for pod, listed in (document.get("probes") or {}).items()
            },
        )


def packet(probe: Sequence[Any]) -> Packet:
    """Return the packet of ``[direction, source, destination, protocol, source port, destination
    port, [icmp type, code]]``."""
    direction, source, destination, protocol, source_port, destination_port, icmp = probe
    return Packet(
        direction,
        source,
        destination,
        protocol,
        source_port,
        destination_port,
        tuple(icmp) if icmp else None,
    )


def answer(case: Mapping[str, Any], world: World, version: str | None = None) -> Answer:
    """Return the lab's answer to a case, for Calico of the case's version (or of ``version``)."""
    release = version or case["calico"]
    objects = Objects(Release(release, as_shipped(release)), world.hosts)
    objects.take(world.objects)
    if case.get("network_sets"):
        objects.take(world.network_sets)
    refused_before = len(objects.unread)
    objects.take(case["objects"])
    if len(objects.unread) > refused_before:
        return {"id": case["id"], "rejected": objects.unread[refused_before:]}
    pods = {
        name: endpoint
        for name, endpoint in objects.endpoints.items()
        if endpoint.node == world.node
    }
    try:
        windows = {name: objects.windows(endpoint) for name, endpoint in pods.items()}
    except FelixPanic as panic:
        return {"id": case["id"], "panic": str(panic)}
    probed = {name: packets for name, packets in world.probes.items() if name in pods}
    return {
        "id": case["id"],
        "acls": {name: listed(policy.acls) for name, policy in windows.items()},
        "windows": {
            name: letters(allowed_on_windows(windows[name], asked))
            for name, asked in probed.items()
        },
        "linux": {
            name: letters(objects.allowed_on_linux(pods[name], asked))
            for name, asked in probed.items()
        },
    }


def listed(acls: Sequence[Acl]) -> list[dict[str, Any]]:
    """Return an ACL list with the fields of ``hns.ACLPolicy``."""
    return [
        {
            "Action": acl.action,
            "Direction": acl.direction,
            "Protocol": acl.protocol,
            **({"LocalAddresses": ",".join(sorted(acl.local))} if acl.local else {}),
            **({"RemoteAddresses": ",".join(sorted(acl.remote))} if acl.remote else {}),
            **({"LocalPorts": ports_text(acl.local_ports)} if acl.local_ports else {}),
            **({"RemotePorts": ports_text(acl.remote_ports)} if acl.remote_ports else {}),
            "Priority": acl.priority,
            "RuleType": acl.rule_type,
            **({"Id": acl.id} if acl.id else {}),
        }
        for acl in acls
    ]


def letters(allowed: Sequence[bool]) -> str:
    """Return one letter for each verdict."""
    return "".join("A" if item else "B" for item in allowed)


if __name__ == "__main__":
    same = World.read(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    for table in map(Path, sys.argv[2:]):
        with gzip.open(table, "rt") if table.suffix == ".gz" else table.open() as lines:
            for line in lines:
                print(json.dumps(answer(json.loads(line), same)))
