"""A node of whose flows a share is lost entirely, as behind a bundle of links of which one is dead."""

import asyncio
from collections.abc import Mapping

from hybridlab.faults.errors import BadFault
from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import NODE, Parameter, Types, count
from hybridlab.faults.rules import NOWHERE, RuleFault

TYPES = Types()

FLOW = "ct original ip saddr . ct original ip daddr . ct original proto-src . ct original proto-dst"
"""What tells one flow from another, as its first packet had it: the same for all of its packets, answers and
repetitions among them, whatever Services and NAT make of the addresses."""
SEED = "0xf10"
"""One for all nodes: between two nodes that both lose flows no more are lost than by one of them."""
MOST = 1000


LOOK = 0.25
"""s.  Between two looks whether there is a policy."""
POLICIES = "networkpolicies.networking.k8s.io"


@TYPES.fault(
    "flows-dropped", "underlay", NODE, Parameter("every", "which share is lost: one flow in so many", "5"),
    Parameter("port", "only flows to this port", ""),
    Parameter("until", "policy: only until somebody makes a NetworkPolicy", "", ("", "policy")),
)  # fmt: skip
class FlowsDropped(RuleFault):
    """Of the TCP and UDP flows that leave or enter a node one in so many is lost, with all its packets."""

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str]) -> None:
        node, every, port = lab.node(parameters["node"]), parameters["every"], parameters["port"]
        if not every.isdecimal() or not 2 <= int(every) <= MOST:
            raise BadFault(f"every is {every!r}, expected a whole number from 2 to {MOST}")
        self._client, self._until = lab.client, parameters["until"]
        self._ending: asyncio.Task[None] | None = None
        devices = ", ".join(sorted({chr(34) + name + chr(34) for name in ("eth0", lab.calico.plane.device)}))
        # A tunnel's own packets, which come and go by eth0, are not tracked and so are of no flow.
        chosen = f"meta l4proto {{ tcp, udp }} jhash {FLOW} mod {int(every)} seed {SEED} == 0"
        chosen += f" ct original proto-dst {count('port', port)}" if port else ""
        rules = [
            ("f_fwd", f"iifname {{ {devices} }} {chosen} drop"),
            ("f_fwd", f"oifname {{ {devices} }} {chosen} drop"),
            ("f_in", f"iifname {{ {devices} }} {chosen} drop"),
            # What is left is the node's own.  Of a drop its sender would be told (EPERM), which no wire does.
            ("f_post", f"oifname {{ {devices} }} {chosen} ip daddr set {NOWHERE}"),
        ]
        super().__init__(lab.dataplane, identity, {node: rules})

    async def inject(self) -> None:
        """From now on, until it is healed or there is another policy."""
        await super().inject()
        if self._until:
            self._ending = asyncio.create_task(self._end(await self._policies()))

    async def _end(self, before: set[str]) -> None:
        while True:
            await asyncio.sleep(LOOK)
            if await self._policies() - before:
                break
        await super().heal()

    async def _policies(self) -> set[str]:
        return {policy["metadata"]["uid"] for policy in (await self._client.list(POLICIES))[0]}

    async def heal(self) -> None:
        """Nothing is lost any more."""
        if self._ending is not None:
            self._ending.cancel()
        await super().heal()
