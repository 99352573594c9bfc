"""The resolver settings of a pod by its dnsPolicy, as a kubelet hands them to the CNI plugin."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any

from hybridlab.profiles.model import Network

DNS_ORDINAL = 10
"""The DNS service has the tenth address of the service CIDR, by kubeadm's convention."""


def cluster_dns(network: Network) -> str:
    """ClusterIP of kube-dns."""
    return str(ipaddress.IPv4Network(network.service_cidr)[DNS_ORDINAL])


def pod_dns(pod: Mapping[str, Any], network: Network) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(nameservers, search domains); dnsPolicy ``Default`` gives none, as the lab's nodes have no resolver."""
    spec = pod["spec"]
    config = spec.get("dnsConfig") or {}
    nameservers: list[str] = []
    searches: list[str] = []
    if spec.get("dnsPolicy", "ClusterFirst") in {"ClusterFirst", "ClusterFirstWithHostNet"}:
        domain = network.dns_domain
        nameservers.append(cluster_dns(network))
        searches += [f"{pod['metadata']['namespace']}.svc.{domain}", f"svc.{domain}", domain]
    nameservers += config.get("nameservers") or []
    searches += config.get("searches") or []
    return tuple(nameservers), tuple(searches)
