# SPDX-License-Identifier: Apache-2.0
"""Faults around the reprogramming of endpoints: its effects on connections, its delay, and its
absence.
"""

import asyncio
from collections.abc import Mapping
from functools import partial

from hybridlab.calico.felix import Felix
from hybridlab.faults.felix import of_felix, policy_late
from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import (
    LINUX_OR_ALL,
    NODE_OR_ALL,
    WINDOWS_OR_ALL,
    Fault,
    Parameter,
    Types,
    seconds,
)
from hybridlab.faults.rules import RuleFault

TYPES = Types()
Uids = tuple[str, ...]


@TYPES.fault(
    "no-reset-recovery",
    "policy",
    WINDOWS_OR_ALL,
    Parameter("seconds", "duration in seconds; 0: until the fault is healed", "0"),
)
class NoResetRecovery(Fault):
    """A Windows pod gets no new TCP connections after its policy was reprogrammed."""

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str]) -> None:
        self._lab = lab
        self._identity = identity
        self._seconds = seconds("seconds", parameters["seconds"], for_good=True)
        """The duration, in seconds; 0: for good."""
        self._felixes = {
            node: lab.calico.felixes[node] for node in lab.nodes_of("windows", parameters["node"])
        }
        self._cut: dict[str, dict[str, asyncio.Task[None] | None]] = {
            node: {} for node in self._felixes
        }
        """The tasks that restore the addresses that are cut off, by node and address."""

    async def inject(self) -> None:
        for node, felix in self._felixes.items():
            felix.faults.on_reprogrammed[self._identity] = partial(self._cut_off, node)

    async def heal(self) -> None:
        for felix in self._felixes.values():
            felix.faults.on_reprogrammed.pop(self._identity, None)
        for cut in self._cut.values():
            for ending in cut.values():
                if ending is not None:
                    ending.cancel()
            cut.clear()
        dataplane = self._lab.dataplane
        await asyncio.gather(
            *(dataplane.clear_fault_rules(node, self._identity) for node in self._felixes)
        )

    async def evidence(self) -> list[str]:
        waits = [
            f"pods that Felix of {node} reprograms get no new connections"
            for node, felix in self._felixes.items()
            if self._identity in felix.faults.on_reprogrammed
        ]
        for node in self._felixes:
            rules = (await self._lab.dataplane.fault_rules(node)).get(self._identity, ())
            waits += [f"{node} {rule}" for rule in rules]
        return waits

    async def _cut_off(self, node: str, endpoints: tuple[str, ...]) -> None:
        cut = self._cut[node]
        for endpoint in endpoints:
            address = self._lab.calico.pod_network.address_of(endpoint)
            if address:
                before = cut.get(address)
                if before is not None:
                    before.cancel()
                cut[address] = (
                    asyncio.create_task(self._let_through(node, address)) if self._seconds else None
                )
        await self._program(node)

    async def _let_through(self, node: str, address: str) -> None:
        await asyncio.sleep(self._seconds)
        self._cut[node].pop(address, None)
        await self._program(node)

    async def _program(self, node: str) -> None:
        rules = [
            ("f_fwd", f"ip {end} {address} tcp flags & (syn | ack) == syn drop")
            for address in sorted(self._cut[node])
            for end in ("saddr", "daddr")
        ]
        if rules:
            await self._lab.dataplane.set_fault_rules(node, self._identity, rules)
        else:
            await self._lab.dataplane.clear_fault_rules(node, self._identity)


@TYPES.fault("rst-storm-linux", "policy", LINUX_OR_ALL)
def rst_storm_linux(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """Programming a Linux pod's policy again resets its established connections."""
    nodes = lab.nodes_of("linux", parameters["node"])
    says = "resets the connections of pods that it programs again"

    def both(_: Uids, now: Uids, programmed: Uids) -> Uids:
        return tuple(uid for uid in now if uid in programmed)

    return of_felix(lab, nodes, identity, says, lambda faults: faults.resets.taps, value=both)


@TYPES.fault("acl-not-replaced", "policy", WINDOWS_OR_ALL)
def acl_not_replaced(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """Windows pods keep their first ACL list, whatever policy changes."""
    return of_felix(
        lab,
        lab.nodes_of("windows", parameters["node"]),
        identity,
        "does not change the ACL lists of its endpoints",
        lambda faults: faults.held.taps,
        value=lambda _, programmed: programmed,
        taken=Felix.start_over,
    )


@TYPES.fault("acl-always-replaced", "policy", WINDOWS_OR_ALL)
def acl_always_replaced(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """Windows pods get a new ACL list with every update, also with a change of labels."""
    nodes = lab.nodes_of("windows", parameters["node"])
    return of_felix(
        lab, nodes, identity, "sends ACL lists again with every update", lambda faults: faults.eager
    )


@TYPES.fault("felix-never-restarts", "policy", WINDOWS_OR_ALL)
def felix_never_restarts(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """A killed calico-node-windows pod comes back without its Felix."""
    says = "no longer starts"
    nodes = lab.nodes_of("windows", parameters["node"])
    return of_felix(
        lab, nodes, identity, says, lambda faults: faults.dead, taken=Felix.start_if_asked
    )


@TYPES.fault("felix-keeps-old-rules", "policy", NODE_OR_ALL)
def felix_keeps_old_rules(lab: LabParts, identity: str, parameters: Mapping[str, str]) -> Fault:
    """A Felix that starts again leaves programmed pods unchanged, whatever changed while it was
    down.
    """
    says = "reads no policy for programmed endpoints when it starts"
    nodes = lab.nodes(parameters["node"])
    return of_felix(
        lab, nodes, identity, says, lambda faults: faults.forgetful, taken=Felix.start_over
    )


class CompositeFault(Fault):
    """A fault that consists of several faults."""

    def __init__(self, *parts: Fault) -> None:
        self._parts = parts

    async def inject(self) -> None:
        for part in self._parts:
            await part.inject()

    async def heal(self) -> None:
        for part in self._parts:
            await part.heal()

    async def evidence(self) -> list[str]:
        return [line for part in self._parts for line in await part.evidence()]

    async def verified(self) -> bool:
        return all([await part.verified() for part in self._parts])


@TYPES.fault("policy-hits-node", "policy", NODE_OR_ALL)
class PolicyHitsNode(CompositeFault):
    """Policy applies also to a node's own packets to its pods, the kubelet's probes included."""

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str]) -> None:
        nodes = lab.nodes(parameters["node"])
        pods = f'oifname "{lab.calico.plane.pod_prefix}*"'
        rules = [
            ("f_host", "ct state established,related accept"),
            ("f_host", f"{pods} jump to-wl"),
        ]
        windows = [node for node in nodes if lab.calico.nodes[node].os == "windows"]
        # start over, so that the fault also affects running pods
        says = "admits no traffic from the node itself to its pods"
        anew = Felix.start_over
        lists = of_felix(
            lab, windows, identity, says, lambda faults: faults.hostless, put=anew, taken=anew
        )
        super().__init__(
            RuleFault(lab.dataplane, identity, dict.fromkeys(nodes, rules)),
            *([lists] if windows else []),
        )


@TYPES.fault(
    "open-before-policy", "policy", NODE_OR_ALL, Parameter("seconds", "the delay in seconds")
)
class OpenBeforePolicy(CompositeFault):
    """New pods accept all traffic until they are programmed, which happens late."""

    def __init__(self, lab: LabParts, identity: str, parameters: Mapping[str, str]) -> None:
        nodes = lab.nodes(parameters["node"])
        rules = {node: [("f_new", "accept")] for node in nodes}
        late = [
            policy_late(lab, identity, {"node": node, "seconds": parameters["seconds"]})
            for node in nodes
        ]
        super().__init__(RuleFault(lab.dataplane, identity, rules), *late)
