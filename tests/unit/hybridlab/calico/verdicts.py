"""A small world of pods and policies, and what the programs rendered for them decide about a packet.

The decision is made from the data plane's own shapes (programs and IP sets), by a reading of their documentation that
shares nothing with the code under test.
"""

from __future__ import annotations

import ipaddress
from typing import Any

import yaml

from hybridlab.calico.conversion import network_set, pod_facts, slice_members, tier_facts
from hybridlab.calico.kubernetes_policy import from_kubernetes
from hybridlab.calico.policy import from_calico
from hybridlab.calico.render import program_builder
from hybridlab.calico.resolve import Graph
from hybridlab.dataplane.model import Match, Rule, Tier


class World:
    """Pods by ``namespace/name``; every pod is on node ``n``."""

    def __init__(self, os: str = "linux") -> None:
        self.graph = Graph()
        self.uids: dict[str, str] = {}
        self.addresses: dict[str, str] = {}
        self.logged: list[str] = []
        self.builder = program_builder(os, self.logged.append)  # type: ignore[arg-type]

    def namespace(self, name: str, **labels: str) -> None:
        self.graph.set_namespace(name, {"kubernetes.io/metadata.name": name, **labels})

    def pod(self, where: str, address: str | None, account: str = "default", ports: Any = (), **labels: str) -> None:
        namespace, name = where.split("/")
        uid = self.uids.setdefault(where, f"uid-{where}")
        if address:
            self.addresses[where] = address
        facts = pod_facts(
            {
                "metadata": {"uid": uid, "namespace": namespace, "name": name, "labels": labels},
                "spec": {"nodeName": "n", "serviceAccountName": account, "containers": [{"ports": list(ports)}]},
                "status": {"podIP": address},
            }
        )
        assert facts is not None
        self.graph.set_pod(facts)

    def apply(self, text: str) -> None:
        """Objects as YAML; policies of both kinds, network sets, tiers, endpoint slices."""
        for obj in yaml.safe_load_all(text):
            kind, group = obj["kind"], obj["apiVersion"].partition("/")[0]
            if kind.endswith("NetworkPolicy"):
                convert = from_kubernetes if group == "networking.k8s.io" else from_calico
                self.graph.set_policy(convert(obj))
            elif kind.endswith("NetworkSet"):
                meta = obj["metadata"]
                self.graph.set_network_set(f"{kind}/{meta.get('namespace')}/{meta['name']}", network_set(obj))
            elif kind == "Tier":
                self.graph.set_tier(obj["metadata"]["name"], tier_facts(obj))
            else:
                meta = obj["metadata"]
                service = meta["labels"]["kubernetes.io/service-name"]
                self.graph.set_slice((meta["namespace"], service), meta["name"], *slice_members(obj))

    def program(self, where: str):
        return self.builder.endpoint(self.graph.tiers_for(self.graph.keys_for(self.uids[where])))

    def allowed(self, source: str, destination: str, port: int = 80, protocol: str = "tcp", icmp: int = 8) -> bool:
        """Whether a new connection passes; ends that are no pods are addresses."""
        packet = (
            self.addresses.get(source, source),
            self.addresses.get(destination, destination),
            protocol,
            port,
            icmp,
        )
        if source in self.uids and not self._passes(self.program(source).egress, packet):
            return False
        return destination not in self.uids or self._passes(self.program(destination).ingress, packet)

    def _passes(self, tiers: tuple[Tier, ...], packet: tuple[str, str, str, int, int]) -> bool:
        for tier in tiers:
            verdict = next((v for rule in tier.rules if (v := self._verdict(rule, packet))), tier.end)
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
            all(f"{destination},{protocol},{port}" in self.graph.members(name) for name in match.dst_ip_port_sets),
            match.icmp_type in {None, icmp},
        ]
        return all(checks)


def _in(address: str, networks: tuple[str, ...]) -> bool:
    return any(ipaddress.ip_address(address) in ipaddress.ip_network(net) for net in networks)
