"""DNS pods that are Ready and do not answer, beside others that do."""

from collections.abc import Mapping

from hybridlab.faults.errors import BadFault
from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import NODE_OR_ALL, Parameter, Types, count
from hybridlab.faults.rules import RuleFault

TYPES = Types()

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
