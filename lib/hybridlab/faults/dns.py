# SPDX-License-Identifier: Apache-2.0
"""DNS answers that are wrong, late or missing, and wrong search lists of pods."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final, get_args

from hybridlab.calico.cni import SearchList
from hybridlab.dataplane.model import Backend, ServicePort, ServiceTable, Zone
from hybridlab.faults.errors import BadFault
from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import (
    NODE_OR_ALL,
    Entries,
    Fault,
    Parameter,
    Types,
    count,
    seconds,
)
from hybridlab.faults.rules import RuleFault

TYPES = Types()
WRONG_ADDRESS = "203.0.113.9"
"""An address in a range for documentation (RFC 5737), at which nothing answers."""
ANOTHER: Final = "another-address"
EXTRA: Final = "extra-address"
AAAA_DENIED: Final = "aaaa-nxdomain"
PORT: Final = "another-port"
NAME: Final = "another-name"
ANSWERS = {
    ANOTHER: f"names resolve to {WRONG_ADDRESS}",
    EXTRA: f"names resolve to {WRONG_ADDRESS} in addition to their own addresses",
    AAAA_DENIED: "queries for records other than A are answered with NXDOMAIN",
    PORT: "SRV records have the port after the correct port",
    NAME: "PTR records have another name",
}
"""Faults of answers (A, AAAA, SRV and PTR records), and their description in evidence."""


def _of_zone(
    lab: LabParts, identity: str, evidence: list[str], tap: Callable[[Zone, str, Zone | None], Zone]
) -> Fault:
    gate = lab.zone_gate
    again = partial(gate.again, [""])
    return Entries(identity, tap, dict.fromkeys(evidence, gate.seam.taps), again, again)


@TYPES.fault(
    "dns-wrong",
    "dns",
    Parameter("name", "only this full name (default: every name)", ""),
    Parameter("answer", " or ".join(ANSWERS), ANOTHER, tuple(ANSWERS)),
)
def dns_wrong(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """DNS gives wrong answers: either 203.0.113.9, which no host has, in place of a name's
    addresses or in addition to them, or a wrong result for records of another type."""
    wrong = partial(_wrong, parameters["name"].rstrip(".").lower(), parameters["answer"])
    written = lab.zone_gate.written.get("")
    evidence = (
        [] if written is None or wrong(written) == written else [ANSWERS[parameters["answer"]]]
    )
    return _of_zone(lab, identity, evidence, wrong)


def _wrong(name: str, answer: str, zone: Zone, *_: object) -> Zone:
    """Return the zone with wrong answers in place of the true answers; an empty name means every
    name."""
    hosts = [host for host in zone.a if name in {"", host}]
    if answer == AAAA_DENIED:
        return replace(zone, denied=tuple(sorted({*zone.denied, *hosts})))
    if answer == PORT:
        wrong = {
            at: tuple((port + 1, to) for port, to in there)
            for at, there in zone.srv.items()
            if name in {"", at}
        }
        return replace(zone, srv={**zone.srv, **wrong})
    if answer == NAME:
        names = {at: f"not-{to}" for at, to in zone.ptr.items() if name in {"", to}}
        return replace(zone, ptr={**zone.ptr, **names})
    addresses = {
        host: (*(zone.a[host] if answer == EXTRA else ()), WRONG_ADDRESS) for host in hosts
    }
    return replace(zone, a={**zone.a, **addresses})


@TYPES.fault("dns-alias-wrong", "dns")
def dns_alias_wrong(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """Services of type ExternalName resolve to a name that does not exist."""

    def wrong(zone: Zone, *_: object) -> Zone:
        return replace(zone, cname={name: f"not-{to}" for name, to in zone.cname.items()})

    return _of_zone(lab, identity, ["ExternalName Services resolve to another name"], wrong)


@TYPES.fault("dns-stale", "dns")
def dns_stale(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """DNS answers queries for a name with the name's first addresses, even after its addresses have
    changed."""

    def stale(zone: Zone, _: str, before: Zone | None) -> Zone:
        had = before.a if before else {}
        return replace(zone, a={host: had.get(host, true) for host, true in zone.a.items()})

    return _of_zone(lab, identity, ["names keep resolving to their first addresses"], stale)


@TYPES.fault("dns-slow", "dns", NODE_OR_ALL, Parameter("seconds", "the delay in seconds"))
def dns_slow(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """The cluster's DNS is slow to answer queries of a node's pods."""
    late = seconds("seconds", parameters["seconds"])
    networks = [
        net
        for node in lab.nodes(parameters["node"])
        for net in (*lab.blocks(node), f"{lab.address(node)}/32")
    ]
    entries = [(network, late) for network in networks]
    evidence = [f"DNS answers queries from {network} {late:g} s late" for network in networks]
    return _of_zone(
        lab, identity, evidence, lambda zone, *_: replace(zone, late=(*zone.late, *entries))
    )


SELECTOR = "k8s-app=kube-dns"


@TYPES.fault(
    "dns-pod-silent",
    "dns",
    NODE_OR_ALL,
    Parameter("pod", "number of the DNS pod, counted from 1 in the order of their names", "1"),
)
class DnsPodSilent(RuleFault):
    """One of the DNS pods does not answer, though it is Ready."""

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str]) -> None:
        self._lab = lab
        self._number = count("pod", parameters["pod"])
        self._nodes = lab.nodes(parameters["node"])
        super().__init__(lab.dataplane, identity, {})

    async def inject(self) -> None:
        """Drop queries on the forward hook, where the Service's address is already translated."""
        pods, _ = await self._lab.client.list("pods", "kube-system", labels=SELECTOR)
        by_name = {
            str(pod["metadata"]["name"]): str((pod.get("status") or {}).get("podIP") or "")
            for pod in pods
        }
        addresses = [address for _, address in sorted(by_name.items()) if address]
        if not 1 <= self._number <= len(addresses):
            raise BadFault(
                f"pod is {self._number}, expected a number from 1 to {len(addresses)}, "
                "the number of DNS pods"
            )
        rule = (
            f"ip daddr {addresses[self._number - 1]} meta l4proto {{ tcp, udp }} th dport 53 drop"
        )
        self._rules = {node: [("f_fwd", rule)] for node in self._nodes}
        await super().inject()


@TYPES.fault("dns-backend-dead", "dns", NODE_OR_ALL)
def dns_backend_dead(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """A node's kube-proxy sends a share of the queries to the cluster's DNS to a backend whose
    address no host has any longer. These queries get no answer."""
    gate = lab.service_gate
    if gate is None:
        raise BadFault("no kube-proxy runs in this lab")
    nodes = lab.nodes(parameters["node"])
    evidence = [
        f"kube-proxy of {node} sends some of the DNS queries to {WRONG_ADDRESS}" for node in nodes
    ]

    def kept(table: ServiceTable, place: str, _: ServiceTable | None) -> ServiceTable:
        return (
            table
            if place not in nodes
            else replace(table, ports=tuple(map(_with_dead, table.ports)))
        )

    again = partial(gate.again, nodes)
    return Entries(identity, kept, dict.fromkeys(evidence, gate.seam.taps), again, again)


def _with_dead(port: ServicePort) -> ServicePort:
    """Return a port of the DNS Service with an additional backend whose address no pod has any
    more."""
    dead = Backend(address=WRONG_ADDRESS, port=53)
    is_dns = port.name.startswith("kube-system/kube-dns:") and port.port == 53
    return replace(port, backends=(*port.backends, dead)) if is_dns else port


SEARCH_LISTS: tuple[SearchList, ...] = get_args(SearchList)
WORDS: Mapping[SearchList, str] = {
    "own-only": "search only the domain of their own namespace",
    "of-default": "search the domain of namespace default instead of their own namespace's",
    "of-first": "search the domain of the first pod's namespace instead of their own namespace's",
    "none": "have no search domains",
}


@TYPES.fault(
    "search-list-wrong",
    "dns",
    NODE_OR_ALL,
    Parameter(
        "list", f"{', '.join(SEARCH_LISTS[:-1])} or {SEARCH_LISTS[-1]}", choices=SEARCH_LISTS
    ),
)
def search_list_wrong(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """New pods have wrong search domains instead of the domains of their namespace and the
    cluster."""
    wrong = next(name for name in SEARCH_LISTS if name == parameters["list"])
    nodes = sorted(lab.nodes(parameters["node"]))
    alone = [node for node in nodes if lab.calico.nodes[node].os == "windows"]
    if wrong == "own-only" and alone:
        raise BadFault(
            f"pods of Windows node {alone[0]} search only "
            "the domain of their own namespace, with or without this fault"
        )
    there = lab.calico.pod_network.wrong_searches
    tables = {f"new pods of {node} {WORDS[wrong]}": there for node in nodes}
    return Entries(identity, (wrong, frozenset(nodes)), tables)
