"""DNS answers that are wrong, late or missing, and search lists of pods that are wrong."""

from collections.abc import Mapping
from typing import get_args

from hybridlab.calico.cni import SearchList
from hybridlab.faults.errors import BadFault
from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import NODE_OR_ALL, Fault, Parameter, Types, count, seconds
from hybridlab.faults.rules import RuleFault
from hybridlab.faults.zone_gate import ANOTHER, ANSWERS, WrongAnswer

TYPES = Types()


@TYPES.fault(
    "dns-wrong", "dns", Parameter("name", "only this full name (default: every name)", ""),
    Parameter("answer", " or ".join(ANSWERS), ANOTHER, tuple(ANSWERS)),
)  # fmt: skip
class DnsWrong(Fault):
    """Names resolve to 203.0.113.9, where nothing is, alone or beside what is right, or lie in another record."""

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str]) -> None:
        self._gate, self._identity = lab.zone_gate, identity
        self._wrong = WrongAnswer(parameters["name"].rstrip(".").lower(), parameters["answer"])

    async def inject(self) -> None:
        await self._gate.answer_wrongly(self._identity, self._wrong)

    async def heal(self) -> None:
        await self._gate.answer_wrongly(self._identity, None)

    async def evidence(self) -> list[str]:
        return [f"{host} is answered {ANSWERS[self._wrong.answer]}" for host in self._gate.wrong(self._identity)]


@TYPES.fault("dns-stale", "dns")
class DnsStale(Fault):
    """Names keep the addresses that they were answered with first."""

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str]) -> None:
        self._gate, self._identity = lab.zone_gate, identity

    async def inject(self) -> None:
        await self._gate.keep(self._identity, stale=True)

    async def heal(self) -> None:
        await self._gate.keep(self._identity, stale=False)

    async def evidence(self) -> list[str]:
        return ["names keep the addresses that they had first"] if self._gate.keeps(self._identity) else []


@TYPES.fault("dns-slow", "dns", NODE_OR_ALL, Parameter("seconds", "how much later"))
class DnsSlow(Fault):
    """The cluster's DNS answers the questions of a node's pods late."""

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str]) -> None:
        self._gate, self._identity = lab.zone_gate, identity
        late = seconds("seconds", parameters["seconds"])
        self._late = tuple(
            (network, late)
            for node in lab.nodes(parameters["node"])
            for network in (*lab.blocks(node), f"{lab.address(node)}/32")
        )

    async def inject(self) -> None:
        await self._gate.delay(self._identity, self._late)

    async def heal(self) -> None:
        await self._gate.delay(self._identity, ())

    async def evidence(self) -> list[str]:
        return [f"{network} is answered {late:g} s late" for network, late in self._gate.late(self._identity)]


SELECTOR = "k8s-app=kube-dns"


@TYPES.fault(
    "dns-pod-silent", "dns", NODE_OR_ALL, Parameter("pod", "its number among the DNS pods, by name, from 1", "1")
)
class DnsPodSilent(RuleFault):
    """One of the DNS pods does not answer, though it is Ready."""

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str]) -> None:
        self._lab, self._number, self._nodes = lab, count("pod", parameters["pod"]), lab.nodes(parameters["node"])
        super().__init__(lab.dataplane, identity, {})

    async def inject(self) -> None:
        """Drop it where it is forwarded: there the Service's address is translated already."""
        pods, _ = await self._lab.client.list("pods", "kube-system", labels=SELECTOR)
        by_name = {str(pod["metadata"]["name"]): str((pod.get("status") or {}).get("podIP") or "") for pod in pods}
        addresses = [address for _, address in sorted(by_name.items()) if address]
        if not 1 <= self._number <= len(addresses):
            raise BadFault(f"pod is {self._number}, expected 1 to {len(addresses)}: so many DNS pods there are")
        rule = f"ip daddr {addresses[self._number - 1]} meta l4proto {{ tcp, udp }} th dport 53 drop"
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
    Parameter("list", f"{', '.join(SEARCH_LISTS[:-1])} or {SEARCH_LISTS[-1]}", choices=SEARCH_LISTS),
)
class SearchListWrong(Fault):
    """New pods search other domains for short names than those of their namespace and the cluster."""

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str]) -> None:
        self._wrong, self._identity = lab.calico.pod_network.wrong_searches, identity
        self._list = next(name for name in SEARCH_LISTS if name == parameters["list"])
        self._nodes = frozenset(lab.nodes(parameters["node"]))
        alone = [node for node in sorted(self._nodes) if lab.calico.nodes[node].os == "windows"]
        if self._list == "own-only" and alone:
            raise BadFault(f"pods of Windows node {alone[0]} search the domain of their own namespace alone anyway")

    async def inject(self) -> None:
        self._wrong[self._identity] = self._list, self._nodes

    async def heal(self) -> None:
        self._wrong.pop(self._identity, None)

    async def evidence(self) -> list[str]:
        if self._identity not in self._wrong:
            return []
        return [f"new pods of {node} {WORDS[self._list]}" for node in sorted(self._nodes)]
