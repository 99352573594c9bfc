"""The procedure keeps the documented order, verifies the removal by a read, and lets pods in after every failure."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from conformance.disrupt.drain import Drain
from conformance.disrupt.felix import Felix
from conformance.disrupt.procedure import HNS_NETWORK, Procedure, announce
from conformance.disrupt.third_party import ThirdPartyPods
from conformance.errors import EnvironmentBroken, MissingCapability, ProbeBroken
from conformance.journal.journalling import Plainly
from conformance.model.host import HnsNetwork
from conformance.undo.hns_network import HnsNetworkHealer


class Hosts:
    """A Windows node's HNS: its network goes when removed, unless it sticks."""

    def __init__(self, log: list[str], *, sticks: bool = False, again: str = "", silent: int = 0) -> None:
        """``silent``: so many reads after the removal are broken."""
        self.log, self.sticks, self.silent = log, sticks, silent
        self.networks = ["External", "Calico"]
        self.again = again

    def hns_networks(self, node: str) -> list[HnsNetwork]:
        if self.silent and any(line.startswith("remove") for line in self.log):
            self.silent -= 1
            raise ProbeBroken("the connection was cut")
        return [
            HnsNetwork(id=f"id-{name}", name=name.partition("/")[0], type="Overlay", pods=name != "External")
            for name in self.networks
        ]

    def remove_hns_networks(self, node: str, identities: Collection[str]) -> str:
        assert not {"id-External"} & {*identities}
        self.log.append(f"remove HNS network of {node}")
        if not self.sticks:
            self.networks = ["External", *([self.again] if self.again else [])]
        return "the connection was cut"


def procedure(cluster: Any, patience: Any, clock: Any, hosts: Hosts) -> Procedure:
    drain = Drain(cluster, Plainly(cluster), patience, clock=clock)
    felix = Felix(cluster, cluster, lambda node: "windows", lambda os: patience, clock=clock)
    third_party_pods = ThirdPartyPods(cluster, Plainly(cluster), patience, clock=clock)
    return Procedure(drain, felix, hosts, third_party_pods, patience, clock=clock)  # type: ignore[arg-type]


def words(cluster: Any) -> list[str]:
    """The log, with what happens to the node in one word."""
    named = {"'unschedulable': True": "cordon", "'unschedulable': None": "uncordon"}
    return [next((word for text, word in named.items() if text in line), line) for line in cluster.log]


def test_drain_then_removal_then_felix_then_pods_again(cluster: Any, patience: Any, clock: Any) -> None:
    procedure(cluster, patience, clock, Hosts(cluster.log)).new_network("w1")
    assert words(cluster) == [
        "cordon", "evict web", "evict web-2", "remove HNS network of w1", "delete felix-w", "uncordon",
    ]  # fmt: skip


def test_a_new_network_of_the_same_name_shows_the_removal_as_well(cluster: Any, patience: Any, clock: Any) -> None:
    procedure(cluster, patience, clock, Hosts(cluster.log, again="Calico/2")).new_network("w1")
    assert "delete felix-w" in cluster.log


def test_the_network_is_the_one_of_pods_whatever_its_name(cluster: Any, patience: Any, clock: Any) -> None:
    hosts = Hosts(cluster.log)
    hosts.networks = ["External", "vpcbr0a1b2c"]
    procedure(cluster, patience, clock, hosts).new_network("w1")
    assert hosts.networks == ["External"]


def test_without_a_network_of_pods_nothing_is_removed(cluster: Any, patience: Any, clock: Any) -> None:
    hosts = Hosts(cluster.log)
    hosts.networks = ["External"]
    procedure(cluster, patience, clock, hosts).new_network("w1")
    assert words(cluster) == ["cordon", "evict web", "evict web-2", "delete felix-w", "uncordon"]


def test_a_network_that_stays_is_told_and_the_node_takes_pods_again(cluster: Any, patience: Any, clock: Any) -> None:
    with pytest.raises(EnvironmentBroken, match=r"Calico of node w1 is still there 20 s .*the connection was cut"):
        procedure(cluster, patience, clock, Hosts(cluster.log, sticks=True)).new_network("w1")
    assert words(cluster)[-1] == "uncordon"
    assert "delete felix-w" not in cluster.log


def test_a_node_that_is_out_of_reach_for_a_while_is_waited_for(cluster: Any, patience: Any, clock: Any) -> None:
    procedure(cluster, patience, clock, Hosts(cluster.log, silent=5)).new_network("w1")
    assert "delete felix-w" in cluster.log


def test_a_node_that_stays_out_of_reach_is_a_broken_probe(cluster: Any, patience: Any, clock: Any) -> None:
    with pytest.raises(ProbeBroken, match="the connection was cut"):
        procedure(cluster, patience, clock, Hosts(cluster.log, silent=500)).new_network("w1")
    assert words(cluster)[-1] == "uncordon"


def test_nothing_is_done_where_it_could_not_be_finished(cluster: Any, patience: Any, clock: Any, make_pod: Any) -> None:
    cluster.pods = [pod for pod in cluster.pods if pod["metadata"]["name"] != "felix-w"]
    with pytest.raises(MissingCapability, match="runs in no pod"):
        procedure(cluster, patience, clock, Hosts(cluster.log)).new_network("w1")
    assert cluster.log == []


def test_a_cordon_of_somebody_else_outlives_the_procedure(cluster: Any, patience: Any, clock: Any) -> None:
    cluster.others["Node", "w1"]["spec"] = {"unschedulable": True}
    procedure(cluster, patience, clock, Hosts(cluster.log)).new_network("w1")
    assert "uncordon" not in words(cluster)


class Vni:
    """A VNI of 4096, and a node's VSID that follows when its network is made anew."""

    def __init__(self, hosts: Hosts, vsid: int | None, after: int | None = None) -> None:
        self.hosts, self.before, self.after = hosts, vsid, after
        self.awaited: list[tuple[int, list[str]]] = []

    def configured(self) -> int:
        return 4096

    def delivered(self, vni: int, *, linux: Any, windows: Any) -> float:
        self.awaited.append((vni, list(windows)))
        return 0.0

    def vsid(self, node: str) -> int | None:
        return self.before if "Calico" in self.hosts.networks else self.after


def healer(cluster: Any, patience: Any, clock: Any, vni: Vni) -> HnsNetworkHealer:
    one = procedure(cluster, patience, clock, vni.hosts)
    drain = Drain(cluster, Plainly(cluster), patience, clock=clock)
    return HnsNetworkHealer(vni, one, drain, within=10.0, every=1.0, clock=clock)  # type: ignore[arg-type]


def test_the_healer_carries_it_out_where_the_vsid_differs_and_awaits_the_delivery_first(
    cluster: Any, patience: Any, clock: Any
) -> None:
    vni = Vni(Hosts(cluster.log), 4097, after=4096)
    healer(cluster, patience, clock, vni).heal({"node": "w1"})
    assert vni.awaited == [(4096, ["w1"])]
    assert "remove HNS network of w1" in cluster.log


@pytest.mark.parametrize("vsid", [4096, None])
def test_the_healer_only_lets_pods_in_where_nothing_differs(
    cluster: Any, patience: Any, clock: Any, vsid: int | None
) -> None:
    mark = {"annotations": {"calico-conformance/cordoned": cluster.run.run}}
    cluster.others["Node", "w1"] = {"metadata": mark, "spec": {"unschedulable": True}}
    healer(cluster, patience, clock, Vni(Hosts(cluster.log), vsid)).heal({"node": "w1"})
    assert words(cluster) == ["uncordon"]


def test_the_healer_says_when_it_did_not_help(cluster: Any, patience: Any, clock: Any) -> None:
    with pytest.raises(EnvironmentBroken, match=r"node w1 still has an HNS network with VSID 4097, the VNI is 4096"):
        healer(cluster, patience, clock, Vni(Hosts(cluster.log), 4097, after=4097)).heal({"node": "w1"})


def test_every_node_is_announced_by_itself() -> None:
    noted = []

    class Entries:
        def procedure(self, name: str, arguments: Any, why: str) -> None:
            noted.append((name, dict(arguments)))

    announce(Entries(), ["w1", "w2"])
    assert noted == [(HNS_NETWORK, {"node": "w1"}), (HNS_NETWORK, {"node": "w2"})]
