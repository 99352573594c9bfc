"""A look into a Windows node tells what the API does not say of it, and what may differ between nodes of one build."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from conformance.errors import MissingCapability, ProbeBroken
from conformance.evidence.node_readings import NodeReadings
from conformance.model.facts import Fact, Facts
from conformance.model.host import HnsNetwork
from tests.plugin.stand_in_cluster import facts

UNKNOWN: Fact[Any] = Fact(None, "not known: no DaemonSet says it")
CALICO = '{"name": "Calico", "plugins": [{"type": "calico", "ipam": {"type": "calico-ipam"}}]}'
WIN_BRIDGE = '{"name": "cbr0", "type": "win-bridge", "ipam": {"type": "host-local"}}'
AZURE = '{"name": "azure", "plugins": [{"type": "azure-vnet", "ipam": {"type": "azure-vnet-ipam"}}, {"type": "portmap"}]}'
BRIDGE = HnsNetwork(id="1", name="cbr0", type="L2Bridge", pods=True)
EXTERNAL = HnsNetwork(id="0", name="External", type="Overlay")


def bare() -> Facts:
    known = facts(windows=1)
    nodes = tuple(replace(node, cni=UNKNOWN, ipam=UNKNOWN, plane=UNKNOWN) for node in known.nodes)
    return replace(
        known, nodes=nodes, install=UNKNOWN, calico_on_nodes={"win-0": UNKNOWN}
    ).summed_up()


@dataclass
class Host:
    """One node's answers, and a run that keeps what is learnt of it."""

    program: tuple[str, str] | Exception = ("C:\\CalicoWindows\\calico-node.exe", "v3.24.0")
    cni: str = CALICO
    networks: list[HnsNetwork] = field(default_factory=lambda: [EXTERNAL, BRIDGE])
    asked: int = 0
    known: Facts = field(default_factory=bare)

    def calico_program(self, node: str) -> tuple[str, str]:
        self.asked += 1
        if isinstance(self.program, Exception):
            raise self.program
        return self.program

    def cni_configuration(self, node: str) -> str:
        return self.cni

    def hns_networks(self, node: str) -> list[HnsNetwork]:
        return self.networks

    def differences(self, node: str) -> dict[str, str]:
        return {"hns\\State HnsAclUpdateChange": "1"}

    def looked(self, node: str = "win-0") -> Facts:
        readings = NodeReadings(lambda: self.known, self.learn)
        for _ in range(2):
            readings.look(node, self)  # type: ignore[arg-type]
        return self.known

    def updates(self, node: str) -> list[str]:
        return []

    def learn(self, name: str, node: str, fact: Fact[Any]) -> None:
        self.known = self.known if name == "looked" else self.known.learnt(name, node, fact)


def told(found: Facts) -> tuple[Any, ...]:
    node = found.by_os("windows")[0]
    return (
        found.calico_on("win-0").value,
        found.cni.value,
        found.ipam.value,
        node.plane.value,
        found.install.value,
    )


@pytest.mark.parametrize(
    ("host", "wanted"),
    [
        (Host(cni=WIN_BRIDGE), ("v3.24.0", "win-bridge", "host-local", "l2bridge", "manual")),
        (Host(cni=AZURE), ("v3.24.0", "AzureVNET", "AzureVNET", "l2bridge", "manual")),
        (
            Host(program=("C:\\var\\lib\\rancher\\rke2\\bin\\calico-node.exe", "v3.31.5")),
            ("v3.31.5", "Calico", "calico-ipam", "l2bridge", None),
        ),
        (
            Host(cni=CALICO + WIN_BRIDGE, networks=[EXTERNAL]),
            ("v3.24.0", None, None, None, "manual"),
        ),
        (Host(program=("", "")), (None, "Calico", "calico-ipam", "l2bridge", None)),
    ],
)
def test_what_the_node_has_is_known_afterwards(host: Host, wanted: tuple[Any, ...]) -> None:
    assert told(host.looked()) == wanted
    assert host.asked == 1
    assert host.known.by_os("windows")[0].differences.value == {
        "hns\\State HnsAclUpdateChange": "1"
    }


def test_what_the_api_says_stays_but_for_the_plane_of_the_network_itself() -> None:
    said = Fact("v3.31.2", "image"), Fact("Calico", "Installation"), Fact("overlay", "mode")
    host = Host()
    nodes = tuple(
        replace(node, cni=said[1], ipam=said[1], plane=said[2]) for node in host.known.nodes
    )
    host.known = replace(host.known, nodes=nodes, calico_on_nodes={"win-0": said[0]}).summed_up()
    assert told(host.looked())[:4] == ("v3.31.2", "Calico", "Calico", "l2bridge")


@pytest.mark.parametrize(
    "problem", [MissingCapability("no HostProcess pods", "allow them"), ProbeBroken("exec failed")]
)
def test_what_cannot_be_read_stays_unknown_with_both_reasons(problem: Exception) -> None:
    source = Host(program=problem).looked().calico_on("win-0").source
    assert source.startswith("not known: no DaemonSet says it; the node could not be asked")
