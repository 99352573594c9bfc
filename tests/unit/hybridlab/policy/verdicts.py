# SPDX-License-Identifier: Apache-2.0
"""A small world of pods and policies, and the verdicts of the rendered programs on packets.

The verdicts follow from the data plane's own types (programs and IP sets), according to their
documentation. This module shares no code with the code under test.
"""

from __future__ import annotations

import ipaddress
from typing import Any

import yaml

from hybridlab.dataplane.model import Acl, Match, Rule, Tier
from hybridlab.policy.acls import AclListBuilder
from hybridlab.policy.kubernetes_policy import from_kubernetes
from hybridlab.policy.objects import network_set, pod_facts, slice_members, tier_facts
from hybridlab.policy.policy import from_calico
from hybridlab.policy.release import Release
from hybridlab.policy.render import program
from hybridlab.policy.resolve import Graph

_NUMBERS = {"icmp": 1, "tcp": 6, "udp": 17}


class World:
    """Pods by ``namespace/name``; every pod is on node ``n``."""

    def __init__(self, os: str = "linux", release: Release | None = None) -> None:
        self.os = os
        self.graph = Graph(release or Release("v3.31.7"))
        self.uids: dict[str, str] = {}
        self.addresses: dict[str, str] = {}
        self.lists = AclListBuilder(
            release or Release("v3.31.7"), self.graph.members, ("10.0.0.14/32",)
        )

    def namespace(self, name: str, **labels: str) -> None:
        self.graph.set_namespace(name, {"kubernetes.io/metadata.name": name, **labels})

    def pod(
        self,
        where: str,
        address: str | None,
        account: str = "default",
        ports: Any = (),
        **labels: str,
    ) -> None:
        namespace, name = where.split("/")
        uid = self.uids.setdefault(where, f"uid-{where}")
        if address:
            self.addresses[where] = address
        facts = pod_facts(
            {
                "metadata": {"uid": uid, "namespace": namespace, "name": name, "labels": labels},
                "spec": {
                    "nodeName": "n",
                    "serviceAccountName": account,
                    "containers": [{"ports": list(ports)}],
                },
                "status": {"podIP": address},
            }
        )
        assert facts is not None
        self.graph.set_pod(facts)

    def apply(self, text: str) -> None:
        """Add objects in YAML: policies of both kinds, network sets, tiers, endpoint slices."""
        for obj in yaml.safe_load_all(text):
            kind, group = obj["kind"], obj["apiVersion"].partition("/")[0]
            if kind.endswith("NetworkPolicy"):
                convert = from_kubernetes if group == "networking.k8s.io" else from_calico
                policy = convert(obj)
                assert policy is not None
                self.graph.set_policy(policy)
            elif kind.endswith("NetworkSet"):
                meta = obj["metadata"]
                self.graph.set_network_set(
                    f"{kind}/{meta.get('namespace')}/{meta['name']}", network_set(obj)
                )
            elif kind == "Tier":
                self.graph.set_tier(obj["metadata"]["name"], tier_facts(obj))
            else:
                meta = obj["metadata"]
                service = meta["labels"]["kubernetes.io/service-name"]
                self.graph.set_slice(
                    (meta["namespace"], service), meta["name"], *slice_members(obj)
                )

    def program(self, where: str) -> Any:
        """Return the pod's program on Linux."""
        return program(self.graph.tiers_for(self.graph.keys_for(self.uids[where])))

    def acls(self, where: str) -> tuple[Acl, ...]:
        """Return the pod's ACL list on Windows."""
        return self.lists.build(
            self.graph.tiers_for(self.graph.keys_for(self.uids[where])), where.partition("/")[0]
        )

    @property
    def left_out(self) -> list[str]:
        """Return the rules that became no entry of the newest list, with the reasons."""
        return [f"{left_out.where}: {left_out.why}" for left_out in self.lists.left_out]

    def allowed(
        self, source: str, destination: str, port: int = 80, protocol: str = "tcp", icmp: int = 8
    ) -> bool:
        """Return whether a new connection passes; an end that is no pod is given by its address."""
        packet = (
            self.addresses.get(source, source),
            self.addresses.get(destination, destination),
            protocol,
            port,
            icmp,
        )
        return (source not in self.uids or self.passes(source, "egress", packet)) and (
            destination not in self.uids or self.passes(destination, "ingress", packet)
        )

    def passes(self, where: str, direction: str, packet: tuple[str, str, str, int, int]) -> bool:
        """Return whether a pod's policy allows a packet."""
        if self.os == "windows":
            return self._listed(self.acls(where), direction, packet)
        made = self.program(where)
        return self._passes(made.ingress if direction == "ingress" else made.egress, packet)

    def _listed(
        self, acls: tuple[Acl, ...], direction: str, packet: tuple[str, str, str, int, int]
    ) -> bool:
        source, destination, protocol, port, _ = packet
        remote, local = (source, destination) if direction == "ingress" else (destination, source)
        for acl in sorted(acls, key=lambda acl: acl.priority):
            ports = acl.local_ports if direction == "ingress" else acl.remote_ports
            checks = [
                acl.rule_type == "Switch",
                acl.direction == ("In" if direction == "ingress" else "Out"),
                acl.protocol in {256, _NUMBERS[protocol]},
                not acl.local or _in(local, acl.local),
                not acl.remote or _in(remote, acl.remote),
                not ports or any(first <= port <= last for first, last in ports),
            ]
            if all(checks):
                return acl.action == "Allow"
        return False

    def _passes(self, tiers: tuple[Tier, ...], packet: tuple[str, str, str, int, int]) -> bool:
        for tier in tiers:
            verdict = next(
                (v for rule in tier.rules if (v := self._verdict(rule, packet))), tier.end
            )
            if verdict != "pass":
                return verdict == "allow"
        return True

    def _verdict(self, rule: Rule, packet: tuple[str, str, str, int, int]) -> str | None:
        return rule.action if rule.action != "log" and self._matches(rule.match, packet) else None

    def _matches(self, match: Match, packet: tuple[str, str, str, int, int]) -> bool:
        source, destination, protocol, port, icmp = packet
        checks = [
            match.protocol in {None, protocol},
            match.not_protocol != protocol,
            not match.src_nets or _in(source, match.src_nets),
            not _in(source, match.not_src_nets),
            not match.dst_nets or _in(destination, match.dst_nets),
            not _in(destination, match.not_dst_nets),
            all(_in(source, self.graph.members(name)) for name in match.src_sets),
            not any(_in(source, self.graph.members(name)) for name in match.not_src_sets),
            all(_in(destination, self.graph.members(name)) for name in match.dst_sets),
            not any(_in(destination, self.graph.members(name)) for name in match.not_dst_sets),
            not match.dst_ports or any(first <= port <= last for first, last in match.dst_ports),
            not any(first <= port <= last for first, last in match.not_dst_ports),
            all(
                f"{destination},{protocol},{port}" in self.graph.members(name)
                for name in match.dst_ip_port_sets
            ),
            match.icmp_type is None or (protocol, match.icmp_type) == ("icmp", icmp),
            match.not_icmp_type is None or (protocol == "icmp" and match.not_icmp_type != icmp),
            not any(
                f"{destination},{protocol},{port}" in self.graph.members(n)
                for n in match.not_dst_ip_port_sets
            ),
            all(
                f"{source},{protocol},{port}" in self.graph.members(name)
                for name in match.src_ip_port_sets
            ),
        ]
        return all(checks)


def _in(address: str, networks: tuple[str, ...]) -> bool:
    return any(ipaddress.ip_address(address) in ipaddress.ip_network(net) for net in networks)
