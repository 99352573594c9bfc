"""DNS answers that are wrong, late or missing, and search lists of pods that are wrong."""

from collections.abc import Mapping
from functools import partial
from typing import get_args

from hybridlab.calico.cni import SearchList
from hybridlab.faults.errors import BadFault
from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import (
    NODE_OR_ALL,
    Entries,
    Fault,
    Parameter,
    Switch,
    Types,
    count,
    seconds,
)
from hybridlab.faults.rules import RuleFault
from hybridlab.faults.zone_gate import ANOTHER, ANSWERS, WrongAnswer

TYPES = Types()


@TYPES.fault(
    "dns-wrong",
    "dns",
    Parameter("name", "only this full name (default: every name)", ""),
    Parameter("answer", " or ".join(ANSWERS), ANOTHER, tuple(ANSWERS)),
)
def dns_wrong(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """Names resolve to 203.0.113.9, where nothing is, alone or beside what is right, or lie in another record."""
    gate = lab.zone_gate
    answer = parameters["answer"]
    wrong = WrongAnswer(parameters["name"].rstrip(".").lower(), answer)
    on = partial(gate.answer_wrongly, identity, wrong)
    off = partial(gate.answer_wrongly, identity, None)
    return Switch(
        on, off, lambda: [f"{host} is answered {ANSWERS[answer]}" for host in gate.wrong(identity)]
    )


@TYPES.fault("dns-stale", "dns")
def dns_stale(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """Names keep the addresses that they were answered with first."""
    gate = lab.zone_gate
    told = ["names keep the addresses that they had first"]
    on = partial(gate.keep, identity, stale=True)
    off = partial(gate.keep, identity, stale=False)
    return Switch(on, off, lambda: told if gate.keeps(identity) else [])


@TYPES.fault("dns-slow", "dns", NODE_OR_ALL, Parameter("seconds", "how much later"))
def dns_slow(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """The cluster's DNS answers the questions of a node's pods late."""
    gate = lab.zone_gate
    late = seconds("seconds", parameters["seconds"])
    networks = [
        net
        for node in lab.nodes(parameters["node"])
        for net in (*lab.blocks(node), f"{lab.address(node)}/32")
    ]
    on = partial(gate.delay, identity, tuple((network, late) for network in networks))
    told = "{} is answered {:g} s late"
    return Switch(
        on,
        partial(gate.delay, identity, ()),
        lambda: [told.format(*entry) for entry in gate.late(identity)],
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
    """New pods search other domains for short names than those of their namespace and the cluster."""
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
