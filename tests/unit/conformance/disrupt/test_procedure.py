# SPDX-License-Identifier: Apache-2.0
"""The procedure keeps the documented order, verifies the removal by a read, and lets pods in after every failure."""

from __future__ import annotations

from collections.abc import Callable, Collection
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.disrupt.drain import Drain
from conformance.disrupt.felix import Felix
from conformance.disrupt.procedure import HNS_NETWORK, NetworkStays, Procedure
from conformance.disrupt.third_party import ThirdPartyPods
from conformance.errors import EnvironmentBroken, MissingCapability, ProbeBroken
from conformance.journal.journalling import Plainly
from conformance.model.host import HnsNetwork
from tests.unit.conformance.builders import a_pod


class Hosts:
    """A Windows node's HNS: its network goes when removed, unless it sticks."""

    def __init__(
        self, log: list[str], *, sticks: bool = False, again: str = "", silent: int = 0
    ) -> None:
        """``silent``: so many reads after the removal are broken."""
        self.log, self.sticks, self.silent = log, sticks, silent
        self.networks = ["External", "Calico"]
        self.again = again
        self.endpoints: set[str] = set()
        """Addresses that have one."""
        self.meanwhile: Callable[[], object] = lambda: None
        """Happens while the network is removed."""

    def hns_endpoints(self, node: str) -> list[SimpleNamespace]:
        return [SimpleNamespace(address=address) for address in sorted(self.endpoints)]

    def hns_networks(self, node: str) -> list[HnsNetwork]:
        if self.silent and any(line.startswith("remove") for line in self.log):
            self.silent -= 1
            raise ProbeBroken("the connection was cut")
        return [
            HnsNetwork(
                id=f"id-{name}",
                name=name.partition("/")[0],
                type="Overlay",
                pods=name != "External",
            )
            for name in self.networks
        ]

    def remove_hns_networks(self, node: str, identities: Collection[str]) -> str:
        assert not {"id-External"} & {*identities}
        self.log.append(f"remove HNS network of {node}")
        self.meanwhile()
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
    return [
        next((word for text, word in named.items() if text in line), line) for line in cluster.log
    ]


def test_drain_then_removal_then_felix_then_pods_again(
    cluster: Any, patience: Any, clock: Any
) -> None:
    procedure(cluster, patience, clock, Hosts(cluster.log)).new_network("w1")
    assert words(cluster) == [
        "cordon", "evict web", "evict web-2", "remove HNS network of w1", "delete felix-w", "uncordon",
    ]  # fmt: skip


def test_a_new_network_of_the_same_name_shows_the_removal_as_well(
    cluster: Any, patience: Any, clock: Any
) -> None:
    procedure(cluster, patience, clock, Hosts(cluster.log, again="Calico/2")).new_network("w1")
    assert "delete felix-w" in cluster.log


def test_the_network_is_the_one_of_pods_whatever_its_name(
    cluster: Any, patience: Any, clock: Any
) -> None:
    hosts = Hosts(cluster.log)
    hosts.networks = ["External", "vpcbr0a1b2c"]
    procedure(cluster, patience, clock, hosts).new_network("w1")
    assert hosts.networks == ["External"]


def test_without_a_network_of_pods_nothing_is_removed(
    cluster: Any, patience: Any, clock: Any
) -> None:
    hosts = Hosts(cluster.log)
    hosts.networks = ["External"]
    procedure(cluster, patience, clock, hosts).new_network("w1")
    assert words(cluster) == ["cordon", "evict web", "evict web-2", "delete felix-w", "uncordon"]


def test_a_network_that_stays_is_told_and_the_node_takes_pods_again(
    cluster: Any, patience: Any, clock: Any
) -> None:
    with pytest.raises(
        EnvironmentBroken, match=r"Calico of node w1 is still there 20 s .*the connection was cut"
    ):
        procedure(cluster, patience, clock, Hosts(cluster.log, sticks=True)).new_network("w1")
    assert words(cluster)[-1] == "uncordon"
    assert "delete felix-w" not in cluster.log


def test_a_node_that_is_out_of_reach_for_a_while_is_waited_for(
    cluster: Any, patience: Any, clock: Any
) -> None:
    procedure(cluster, patience, clock, Hosts(cluster.log, silent=5)).new_network("w1")
    assert "delete felix-w" in cluster.log


def test_a_node_that_stays_out_of_reach_is_a_broken_probe(
    cluster: Any, patience: Any, clock: Any
) -> None:
    with pytest.raises(ProbeBroken, match="the connection was cut"):
        procedure(cluster, patience, clock, Hosts(cluster.log, silent=500)).new_network("w1")
    assert words(cluster)[-1] == "uncordon"


def test_nothing_is_done_where_it_could_not_be_finished(
    cluster: Any, patience: Any, clock: Any
) -> None:
    cluster.pods = [pod for pod in cluster.pods if pod["metadata"]["name"] != "felix-w"]
    with pytest.raises(MissingCapability, match="runs in no pod"):
        procedure(cluster, patience, clock, Hosts(cluster.log)).new_network("w1")
    assert cluster.log == []


def test_a_cordon_of_somebody_else_outlives_the_procedure(
    cluster: Any, patience: Any, clock: Any
) -> None:
    cluster.others["Node", "w1"]["spec"] = {"unschedulable": True}
    procedure(cluster, patience, clock, Hosts(cluster.log)).new_network("w1")
    assert "uncordon" not in words(cluster)


# --- other people's pods ----------------------------------------------------------------------------------------------


def test_a_pod_that_comes_back_is_evicted_in_two_rounds_before_the_removal(
    cluster: Any, patience: Any, clock: Any
) -> None:
    cluster.returns = 3  # of two pods in the drain, and of one in the first round
    procedure(cluster, patience, clock, Hosts(cluster.log)).new_network("w1")
    assert words(cluster) == [
        "cordon", "evict web", "evict web-2", "evict web+2", "evict web-2+3", "evict web+4",
        "remove HNS network of w1", "delete felix-w", "uncordon",
    ]  # fmt: skip


def test_a_pod_that_is_still_there_after_them_keeps_the_network_of_its_node(
    cluster: Any, patience: Any, clock: Any
) -> None:
    cluster.returns = 1000
    hosts = Hosts(cluster.log)
    with pytest.raises(
        NetworkStays, match=r"node w1 was not emptied: default/web\+6, .* came back after 2 rounds"
    ):
        procedure(cluster, patience, clock, hosts).new_network("w1")
    assert hosts.networks == ["External", "Calico"]
    assert words(cluster)[-1] == "uncordon"
    assert "delete felix-w" not in cluster.log


def test_a_pod_without_a_controller_that_comes_meanwhile_keeps_it_too(
    cluster: Any, patience: Any, clock: Any
) -> None:
    hosts = Hosts(cluster.log)
    evict = cluster.make

    def make(change: Any) -> None:
        evict(change)
        if change.target.name == "web-2":
            cluster.pods.append(a_pod("mine", "w1", owner=""))

    cluster.make = make
    with pytest.raises(NetworkStays, match=r"would be lost: default/mine"):
        procedure(cluster, patience, clock, hosts).new_network("w1")
    assert hosts.networks == ["External", "Calico"]


def test_a_pod_that_comes_while_the_network_is_removed_is_made_anew(
    cluster: Any, patience: Any, clock: Any
) -> None:
    hosts = Hosts(cluster.log)
    hosts.meanwhile = lambda: cluster.pods.append(a_pod("late", "w1"))
    procedure(cluster, patience, clock, hosts).new_network("w1")
    assert words(cluster)[-3:] == ["delete felix-w", "evict late", "uncordon"]


def test_the_suites_own_that_comes_back_to_the_node_is_made_anew_and_keeps_no_network_in_place(
    cluster: Any, patience: Any, clock: Any
) -> None:
    cluster.pods = [pod for pod in cluster.pods if not pod["metadata"]["name"].startswith("web")]
    cluster.pods.append(a_pod("client", "w1", namespace="calico-demo-r1-main"))
    cluster.returns = 1
    procedure(cluster, patience, clock, Hosts(cluster.log)).new_network("w1")
    assert words(cluster) == [
        "cordon", "evict client", "remove HNS network of w1", "delete felix-w", "evict client+2", "uncordon",
    ]  # fmt: skip


def test_a_pod_that_lost_its_network_and_cannot_be_made_anew_is_told(
    cluster: Any, patience: Any, clock: Any
) -> None:
    hosts = Hosts(cluster.log)
    late = a_pod("late", "w1", owner="", status={"podIP": "10.2.1.9"})
    hosts.meanwhile = lambda: cluster.pods.append(late)
    with pytest.raises(
        EnvironmentBroken,
        match=r"pods of node w1 .* no HNS endpoint 15 s later: default/late; del",
    ):
        procedure(cluster, patience, clock, hosts).new_network("w1")
    assert words(cluster)[-1] == "uncordon"


def test_one_that_gets_an_endpoint_after_all_is_well(
    cluster: Any, patience: Any, clock: Any
) -> None:
    hosts = Hosts(cluster.log)
    late = a_pod("late", "w1", owner="", status={"podIP": "10.2.1.9"})
    hosts.endpoints = {"10.2.1.9"}
    hosts.meanwhile = lambda: cluster.pods.append(late)
    procedure(cluster, patience, clock, hosts).new_network("w1")


@pytest.mark.parametrize(
    "kind", ["static", "finished", "host-network", "host-process", "container-host-process"]
)
def test_what_has_no_network_to_lose_needs_nothing(
    cluster: Any, patience: Any, clock: Any, kind: str
) -> None:
    needs_nothing = a_pod("beside", "w1", owner="")
    host_process = {"windowsOptions": {"hostProcess": True}}
    match kind:
        case "static":
            needs_nothing["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
        case "finished":
            needs_nothing["status"] = {"phase": "Failed"}
        case "host-network":
            needs_nothing["spec"]["hostNetwork"] = True
        case "host-process":
            needs_nothing["spec"]["securityContext"] = host_process
        case _:
            needs_nothing["spec"]["containers"] = [{"securityContext": host_process}]
    cluster.pods.append(needs_nothing)
    procedure(cluster, patience, clock, Hosts(cluster.log)).new_network("w1")
    assert words(cluster) == [
        "cordon", "evict web", "evict web-2", "remove HNS network of w1", "delete felix-w", "uncordon",
    ]  # fmt: skip


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


def heal(cluster: Any, patience: Any, clock: Any, vni: Vni) -> None:
    parts: Any = SimpleNamespace(procedure=procedure(cluster, patience, clock, vni.hosts), vni=vni)
    HNS_NETWORK.undo(parts, {"node": "w1"})


def test_the_healer_carries_it_out_where_the_vsid_differs_and_awaits_the_delivery_first(
    cluster: Any, patience: Any, clock: Any
) -> None:
    vni = Vni(Hosts(cluster.log), 4097, after=4096)
    heal(cluster, patience, clock, vni)
    assert vni.awaited == [(4096, ["w1"])]
    assert "remove HNS network of w1" in cluster.log


@pytest.mark.parametrize("vsid", [4096, None])
def test_the_healer_only_lets_pods_in_where_nothing_differs(
    cluster: Any, patience: Any, clock: Any, vsid: int | None
) -> None:
    mark = {"annotations": {"calico-conformance/cordoned": cluster.run.run}}
    cluster.others["Node", "w1"] = {"metadata": mark, "spec": {"unschedulable": True}}
    heal(cluster, patience, clock, Vni(Hosts(cluster.log), vsid))
    assert words(cluster) == ["uncordon"]


def test_the_healer_has_pods_made_anew_that_a_dead_run_left_without_a_network(
    cluster: Any, patience: Any, clock: Any
) -> None:
    hosts = Hosts(cluster.log)
    hosts.endpoints = {"10.2.1.8"}
    for name, address in (("well", "10.2.1.8"), ("dead", "10.2.1.9")):
        cluster.pods.append(a_pod(name, "w1", status={"podIP": address}))
    heal(cluster, patience, clock, Vni(hosts, 4096))
    assert words(cluster) == ["evict dead"]


def test_the_healer_waits_for_a_pod_that_is_just_starting_anew(
    cluster: Any, patience: Any, clock: Any
) -> None:
    hosts = Hosts(cluster.log)
    looked = []

    def hns_endpoints(node: str) -> list[SimpleNamespace]:
        looked.append(node)
        return [SimpleNamespace(address="10.2.1.9")] if len(looked) > 2 else []

    hosts.hns_endpoints = hns_endpoints  # type: ignore[method-assign]
    cluster.pods.append(a_pod("young", "w1", status={"podIP": "10.2.1.9"}))
    heal(cluster, patience, clock, Vni(hosts, 4096))
    assert words(cluster) == []


@pytest.mark.parametrize(
    "case",
    [
        ("tolerates", r"would come back .*default/web \(tolerates"),
        ("comes back", r"web\+6, .* came back after 2"),
    ],
)
def test_the_healer_leaves_a_node_that_refuses_and_says_its_vsid(
    cluster: Any, patience: Any, clock: Any, case: tuple[str, str]
) -> None:
    kind, says = case
    if kind == "tolerates":
        (web,) = (pod for pod in cluster.pods if pod["metadata"]["name"] == "web")
        web["spec"]["tolerations"] = [{"operator": "Exists"}]
    else:
        cluster.returns = 1000
    hosts = Hosts(cluster.log)
    with pytest.raises(
        EnvironmentBroken,
        match=rf"HNS network of node w1 keeps VSID 4097, although the VNI is 4096: .*{says}",
    ):
        heal(cluster, patience, clock, Vni(hosts, 4097, after=4096))
    assert hosts.networks == ["External", "Calico"]
    assert "delete felix-w" not in cluster.log


def test_the_healer_says_when_it_did_not_help(cluster: Any, patience: Any, clock: Any) -> None:
    with pytest.raises(
        EnvironmentBroken,
        match=r"node w1 still has an HNS network with VSID 4097 instead of VNI 4096",
    ):
        heal(cluster, patience, clock, Vni(Hosts(cluster.log), 4097, after=4097))


def test_the_note_names_healer_node_and_reason() -> None:
    noted = []

    class Entries:
        def procedure(self, name: str, arguments: Any, why: str) -> None:
            noted.append((name, dict(arguments), why))

    HNS_NETWORK.note(Entries(), "w1")  # type: ignore[arg-type]
    assert noted == [("hns-network", {"node": "w1"}, "the VNI is about to change under node w1")]
