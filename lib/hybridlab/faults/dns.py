# SPDX-License-Identifier: Apache-2.0
"""DNS answers that are wrong, late or missing, and search lists of pods that are wrong."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final, get_args

from hybridlab.calico.cni import SearchList
from hybridlab.dataplane.model import Zone
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
"""In a range that is documentation only (RFC 5737): nothing answers there."""
ANOTHER: Final = "another-address"
EXTRA: Final = "extra-address"
AAAA_DENIED: Final = "aaaa-nxdomain"
PORT: Final = "another-port"
NAME: Final = "another-name"
ANSWERS = {
    ANOTHER: f"names are answered with {WRONG_ADDRESS}",
    EXTRA: f"names are answered with {WRONG_ADDRESS} too",
    AAAA_DENIED: "names are answered with NXDOMAIN where another record than A is asked for",
    PORT: "names are answered with the next port",
    NAME: "addresses are answered with another name",
}
"""What can be wrong with an answer (A, AAAA, SRV and PTR records), and how evidence describes
it."""


def _of_zone(
    lab: LabParts, identity: str, told: list[str], tap: Callable[[Zone, str, Zone | None], Zone]
) -> Fault:
    gate = lab.zone_gate
    again = partial(gate.again, [""])
    return Entries(identity, tap, dict.fromkeys(told, gate.seam.taps), again, again)


@TYPES.fault(
    "dns-wrong",
    "dns",
    Parameter("name", "only this full name (default: every name)", ""),
    Parameter("answer", " or ".join(ANSWERS), ANOTHER, tuple(ANSWERS)),
)
def dns_wrong(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """Names resolve to 203.0.113.9, where nothing is, alone or beside what is right, or lie in
    another record."""
    wrong = partial(_wrong, parameters["name"].rstrip(".").lower(), parameters["answer"])
    written = lab.zone_gate.written.get("")
    told = [] if written is None or wrong(written) == written else [ANSWERS[parameters["answer"]]]
    return _of_zone(lab, identity, told, wrong)


def _wrong(name: str, answer: str, zone: Zone, *_: object) -> Zone:
    """Return the zone with wrong answers in the place of the true ones; an empty name means
    every name."""
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


@TYPES.fault("dns-stale", "dns")
def dns_stale(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """Names keep the addresses that they were answered with first."""

    def stale(zone: Zone, _: str, before: Zone | None) -> Zone:
        had = before.a if before else {}
        return replace(zone, a={host: had.get(host, true) for host, true in zone.a.items()})

    return _of_zone(lab, identity, ["names keep the addresses that they had first"], stale)


@TYPES.fault("dns-slow", "dns", NODE_OR_ALL, Parameter("seconds", "how much later"))
def dns_slow(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """The cluster's DNS answers the questions of a node's pods late."""
    late = seconds("seconds", parameters["seconds"])
    networks = [
        net
        for node in lab.nodes(parameters["node"])
        for net in (*lab.blocks(node), f"{lab.address(node)}/32")
    ]
    entries = [(network, late) for network in networks]
    told = [f"{network} is answered {late:g} s late" for network in networks]
    return _of_zone(
        lab, identity, told, lambda zone, *_: replace(zone, late=(*zone.late, *entries))
    )


SELECTOR = "k8s-app=kube-dns"


@TYPES.fault(
    "dns-pod-silent",
    "dns",
    NODE_OR_ALL,
    Parameter("pod", "its number among the DNS pods, by name, from 1", "1"),
)
class DnsPodSilent(RuleFault):
    """One of the DNS pods does not answer, though it is Ready."""

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str]) -> None:
        self._lab = lab
        self._number = count("pod", parameters["pod"])
        self._nodes = lab.nodes(parameters["node"])
        super().__init__(lab.dataplane, identity, {})

    async def inject(self) -> None:
        """Drop it where it is forwarded: there the Service's address is translated already."""
        pods, _ = await self._lab.client.list("pods", "kube-system", labels=SELECTOR)
        by_name = {
            str(pod["metadata"]["name"]): str((pod.get("status") or {}).get("podIP") or "")
            for pod in pods
        }
        addresses = [address for _, address in sorted(by_name.items()) if address]
        if not 1 <= self._number <= len(addresses):
            raise BadFault(
                f"pod is {self._number}, expected 1 to {len(addresses)}: so many DNS pods there are"
            )
        rule = (
            f"ip daddr {addresses[self._number - 1]} meta l4proto {{ tcp, udp }} th dport 53 drop"
        )
        self._rules = {node: [("f_fwd", rule)] for node in self._nodes}
        await super().inject()


SEARCH_LISTS: tuple[SearchList, ...] = get_args(SearchList)
WORDS: Mapping[SearchList, str] = {
    "own-only": "search the domain of their own namespace alone",
    "of-default": "search the domain of the namespace default in place of their own",
    "of-first": "search the domain of the first one's namespace in place of their own",
    "none": "search no domain",
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
    """New pods search other domains for short names than those of their namespace and the
    cluster."""
    wrong = next(name for name in SEARCH_LISTS if name == parameters["list"])
    nodes = sorted(lab.nodes(parameters["node"]))
    alone = [node for node in nodes if lab.calico.nodes[node].os == "windows"]
    if wrong == "own-only" and alone:
        raise BadFault(
            f"pods of Windows node {alone[0]} search the domain of their own namespace alone anyway"
        )
    there = lab.calico.pod_network.wrong_searches
    tables = {f"new pods of {node} {WORDS[wrong]}": there for node in nodes}
    return Entries(identity, (wrong, frozenset(nodes)), tables)
