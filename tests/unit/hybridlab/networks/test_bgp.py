# SPDX-License-Identifier: Apache-2.0
"""The sessions between nodes, the routes that each node learns and sets, and the list that
RemoteAccess of a Windows host gives of them."""

from __future__ import annotations

import asyncio

import pytest

from hybridlab.networks.contract.routing import BlockFacts, RoutingFacts
from hybridlab.networks.l2bridge import bgp as table
from hybridlab.networks.l2bridge.bgp import CLUSTER_ID, Wrong, end_of
from hybridlab.networks.l2bridge.plane import L2Bridge
from hybridlab.profiles.load import load
from hybridlab.profiles.machines import machines
from hybridlab.windows.host import HostRefused

L1, L2, W1, W2 = "linux-1", "linux-2", "windows-2022", "windows-2019"


class Town:
    """The profile's nodes, each with a block, and everything running."""

    def __init__(self, *settings: str, profile: str = "bgp") -> None:
        self.plane = L2Bridge(load(profile, settings))
        self.bgp, self.facts, self.told = self.plane.bgp, RoutingFacts(), 0
        self.machines = {machine.name: machine for machine in machines(self.plane.profile)}
        for number, (name, machine) in enumerate(self.machines.items()):
            self.facts.ends[name] = end_of(machine.address, {})
            cidr = f"192.168.{number}.0/26"
            self.facts.blocks[cidr] = BlockFacts(cidr=cidr, node=name)
            self.plane.ran(name, "calico-node" if machine.os == "linux" else "confd", now=True)
        self.plane.on_change(self.heard)

    def heard(self) -> None:
        self.told += 1

    def laid(self, node: str) -> set[str]:
        """The nodes whose blocks a node has routes to."""
        routes = self.plane.program(node, self.facts, {}, None).routes.direct
        return {self.facts.blocks[route.cidr].node for route in routes}

    def listed(self, node: str, cmdlet: str) -> list[dict[str, object]]:
        windows = self.plane.windows_node(self.machines[node], "10-calico.conflist")
        return self.plane.host_tables(windows.machine, self.facts)[cmdlet]()

    def states(self, node: str) -> dict[object, object]:
        addresses = {machine.address: name for name, machine in self.machines.items()}
        rows = self.listed(node, "get-bgppeer")
        return {
            addresses.get(str(row["PeerIPAddress"]), "beyond"): row["ConnectivityStatus"]
            for row in rows
        }


@pytest.fixture
def town() -> Town:
    return Town()


def test_in_the_mesh_everybody_learns_of_everybody_by_the_owners_own_address(town: Town) -> None:
    for node in town.machines:
        assert town.laid(node) == set(town.machines) - {node}
    routes = town.plane.program(L1, town.facts, {}, None).routes
    assert routes.own_blocks == town.facts.own_blocks(L1)
    assert {route.protocol for route in routes.direct} == {12}
    by = {town.facts.blocks[route.cidr].node: route.via for route in routes.direct}
    assert by[W1] == town.machines[W1].address
    assert set(town.states(W1).values()) == {"Connected"}
    assert town.listed(W1, "get-bgprouter") == [
        {"BgpIdentifier": town.machines[W1].address, "LocalASN": 64512}
    ]
    assert town.listed(W1, "get-bgpcustomroute")[0]["Network"] == list(town.facts.own_blocks(W1))
    assert {row["LearnedFromPeer"] for row in town.listed(W1, "get-bgprouteinformation")} == {
        f"Mesh_{machine.address.replace('.', '_')}"
        for name, machine in town.machines.items()
        if name != W1
    }


def test_a_borrowed_address_is_routed_to_its_borrower(town: Town) -> None:
    (cidr,) = town.facts.own_blocks(L2)
    borrowed = cidr.replace(".0/26", ".9")
    town.facts.blocks[cidr] = BlockFacts(cidr=cidr, node=L2, borrowed=((borrowed, W1),))
    routes = town.plane.program(L1, town.facts, {}, None).routes.direct
    assert {route.cidr: route.via for route in routes}[f"{borrowed}/32"] == town.machines[
        W1
    ].address


def test_a_node_that_has_not_announced_itself_is_nobodys_peer(town: Town) -> None:
    del town.facts.ends[W2]
    assert town.laid(W2) == set()
    assert W2 not in town.laid(L1)
    assert W2 not in town.states(W1)


def test_a_daemon_that_ends_takes_its_sessions_at_once_and_its_routes_later() -> None:
    async def story() -> None:
        town = Town()
        town.plane.ran(L1, "calico-node", now=False)
        assert town.states(W1)[L1] == "Connecting"
        assert L1 in town.laid(W1), "BIRD restarts gracefully"
        town.bgp._left[L1] = 0.0
        assert L1 not in town.laid(W1)
        assert town.laid(L1) == set()
        town.plane.ran(L1, "calico-node", now=True)
        assert L1 in town.laid(W1)
        assert town.told == 2
        town.plane.ran(L1, "something else", now=False)
        assert town.told == 2, "it has no part in it"

    asyncio.run(story())


def test_without_confd_a_windows_node_has_no_router(town: Town) -> None:
    town.bgp._running[W1].discard("confd")
    assert W1 not in town.laid(L1)
    with pytest.raises(HostRefused, match="BGP is not configured"):
        town.listed(W1, "get-bgppeer")
    assert town.states(W2)[W1] == "Connecting"


@pytest.mark.parametrize(
    ("name", "entry", "lost"),
    [
        ("stopped", (W1, "RemoteAccess"), {L1, W2}),
        ("unrendered", W1, {L1, W2}),
        ("withheld", W1, {L1, W2}),
        ("astray", W1, {L1, W2}),
        ("down", frozenset((L1, W1)), {L1}),
    ],
)
def test_what_is_wrong_with_a_node_takes_its_block_from_others(
    town: Town, name: Wrong, entry: object, lost: set[str]
) -> None:
    town.bgp.faults["fault"] = (name, entry)
    assert {node for node in (L1, W2) if W1 not in town.laid(node)} == lost
    town.bgp.faults.clear()
    assert all(W1 in town.laid(node) for node in (L1, W2))


def test_a_stopped_service_answers_nothing(town: Town) -> None:
    town.bgp.faults["fault"] = ("stopped", (W1, "RemoteAccess"))
    with pytest.raises(HostRefused, match="not running"):
        town.listed(W1, "get-bgprouter")
    windows = town.plane.windows_node(town.machines[W1], "10-calico.conflist")
    assert town.plane.host_services(windows) == {"RemoteAccess": False}


def test_without_the_mesh_only_peers_by_name_or_selector_learn(town: Town) -> None:
    town.facts.peering["default"] = {"nodeToNodeMeshEnabled": False}
    assert town.laid(W1) == set()
    assert town.states(W1) == {}
    town.facts.peers["beyond"] = {"peerIP": "10.0.0.250", "asNumber": 64600}
    town.facts.peers["pair"] = {"node": W1, "peerSelector": "kind == 'chosen'"}
    town.facts.ends[L1] = end_of(town.machines[L1].address, {"labels": {"kind": "chosen"}})
    assert town.laid(W1) == {L1}
    assert town.laid(L1) == {W1}, "peers by selector are each other's"
    assert town.states(W1) == {L1: "Connected", "beyond": "Connecting"}


@pytest.mark.parametrize(
    ("number", "state", "learned"),
    [(64600, "Connected", ["203.0.113.0/24"]), (64601, "Connecting", [])],
)
def test_a_router_is_the_peer_of_who_is_told_of_it_by_its_own_number(
    number: int, state: str, learned: list[str]
) -> None:
    town = Town(
        "network.plane.routers=[{address: 10.0.0.250, asn: 64600, networks: [203.0.113.0/24]}]"
    )
    assert "beyond" not in town.states(W1)
    town.facts.peers["beyond"] = {"peerIP": "10.0.0.250", "asNumber": number, "node": W1}
    assert town.states(W1)["beyond"] == state
    assert "beyond" not in town.states(W2)
    rows = [
        row
        for row in town.listed(W1, "get-bgprouteinformation")
        if row["LearnedFromPeer"] == "Node_10_0_0_250"
    ]
    assert [row["DestinationNetwork"] for row in rows] == learned
    assert {row["NextHop"] for row in rows} <= {"10.0.0.250"}
    for node, networks in ((W1, learned), (W2, [])):
        routes = town.plane.program(node, town.facts, {}, None).routes.direct
        assert [route.cidr for route in routes if route.via == "10.0.0.250"] == networks


@pytest.mark.parametrize(
    "address", ["fd00::1", "[fd00::1]:179", "2001:db8::a:b", "10.0.0.250:1790", "10.0.0.250"]
)
def test_a_peer_of_another_family_leaves_sessions_and_routes_as_they_are(
    town: Town, address: str
) -> None:
    before = town.laid(W1), town.laid(L1)
    town.facts.peers["beyond"] = {"peerIP": address, "asNumber": 64600}
    assert (town.laid(W1), town.laid(L1)) == before
    assert ("beyond" in town.states(W1)) is address.startswith("10.")


@pytest.mark.parametrize(("reflector", "learned"), [(L1, True), (W2, False)])
def test_a_reflector_hands_on_what_it_learns_unless_it_is_a_windows_node(
    town: Town, reflector: str, learned: bool
) -> None:
    notes = {"annotations": {CLUSTER_ID: "244.0.0.1"}, "labels": {"reflects": "yes"}}
    town.facts.ends[reflector] = end_of(town.machines[reflector].address, notes)
    town.facts.peering["default"] = {"nodeToNodeMeshEnabled": False}
    town.facts.peers["all"] = {"nodeSelector": "all()", "peerSelector": "reflects == 'yes'"}
    assert (W1 in town.laid(L2)) is learned
    assert reflector in town.laid(L2)


def test_linux_nodes_alone_announce_service_networks(town: Town) -> None:
    town.facts.peering["default"] = {"serviceClusterIPs": [{"cidr": "10.96.0.0/12"}]}
    learned = [
        row
        for row in town.listed(W1, "get-bgprouteinformation")
        if row["DestinationNetwork"] == "10.96.0.0/12"
    ]
    assert {str(row["NextHop"]) for row in learned} == {
        machine.address for machine in town.machines.values() if machine.os == "linux"
    }
    assert town.listed(W1, "get-bgpcustomroute")[0]["Network"] == list(town.facts.own_blocks(W1))
    town.bgp.faults["fault"] = ("more", (W1, "10.96.0.0/12"))
    assert "10.96.0.0/12" in str(town.listed(W1, "get-bgpcustomroute"))


def test_nodes_have_numbers_of_their_own_or_the_clusters(town: Town) -> None:
    town.facts.peering["default"] = {"asNumber": 65001}
    town.facts.ends[L2] = end_of(
        town.machines[L2].address, {"annotations": {table.AS_NUMBER: "65002"}}
    )
    numbers = {row["PeerIPAddress"]: row["PeerASN"] for row in town.listed(W1, "get-bgppeer")}
    assert (numbers[town.machines[L1].address], numbers[town.machines[L2].address]) == (
        65001,
        65002,
    )


def test_linux_nodes_tell_their_status_and_windows_nodes_only_where_a_fault_has_it_so(
    town: Town,
) -> None:
    assert town.plane.node_status(L1) == {"agent": {"birdV4": {"state": "Ready"}}}
    assert town.plane.node_status(W1) is None
    town.bgp.faults["one"] = ("reported", W1)
    town.bgp.faults["two"] = ("stopped", (L1, "bird"))
    assert town.plane.node_status(W1) is not None
    assert town.plane.node_status(W2) is None
    assert town.plane.node_status(L1) == {"agent": {"birdV4": {"state": "NotReady"}}}


def test_a_windows_node_has_a_kubeconfig_beside_its_cni_configuration(town: Town) -> None:
    windows = town.plane.windows_node(town.machines[W1], "10-calico.conflist")
    fresh = windows.cni_files
    assert [path.rpartition("\\")[2] for path in fresh] == [
        "10-calico.conflist",
        "calico-kubeconfig",
    ]
    windows.old_tokens["one"] = 1_700_000_000.0
    assert windows.cni_files != fresh


def reflecting(reflector: str = L2, *, own_id: dict[str, str] | None = None) -> Town:
    """A town without a mesh, where all peer with one Linux node that reflects."""
    town = Town()
    notes = {reflector: "244.0.0.1"} | (own_id or {})
    for name, cluster in notes.items():
        labels = {"reflects": "yes"} if name == reflector else {}
        metadata = {"annotations": {CLUSTER_ID: cluster}, "labels": labels}
        town.facts.ends[name] = end_of(town.machines[name].address, metadata)
    town.facts.peering["default"] = {"nodeToNodeMeshEnabled": False}
    town.facts.peers["all"] = {"nodeSelector": "all()", "peerSelector": "reflects == 'yes'"}
    return town


def test_a_windows_host_lists_what_it_learns_by_a_reflector_under_the_reflectors_name() -> None:
    town = reflecting()
    assert town.states(W1) == {L2: "Connected"}
    rows = town.listed(W1, "get-bgprouteinformation")
    peer = f"Node_{town.machines[L2].address.replace('.', '_')}"
    assert {row["LearnedFromPeer"] for row in rows} == {peer}
    owners = {town.facts.blocks[str(row["DestinationNetwork"])].node for row in rows}
    assert owners == set(town.machines) - {W1}
    hops = {str(row["DestinationNetwork"]): row["NextHop"] for row in rows}
    assert hops[town.facts.own_blocks(L1)[0]] == town.machines[L1].address, "it keeps the next hop"


def test_a_reflector_without_clients_passes_nothing_on_and_keeps_its_sessions() -> None:
    town = reflecting()
    town.bgp.faults["fault"] = ("clientless", L2)
    assert town.states(W1) == {L2: "Connected"}
    assert town.laid(W1) == {L2}
    assert town.laid(L1) == {L2}


def test_a_peer_of_the_reflectors_own_cluster_id_is_no_client() -> None:
    town = reflecting(own_id={W1: "244.0.0.1", W2: "244.0.0.1"})
    assert (W2 in town.laid(W1), L1 in town.laid(W1)) == (False, True)


def test_windows_nodes_do_not_know_that_a_reflector_leaves_the_mesh(town: Town) -> None:
    notes = {"annotations": {CLUSTER_ID: "244.0.0.1"}}
    town.facts.ends[L1] = end_of(town.machines[L1].address, notes)
    assert town.states(W1)[L1] == "Connecting"
    assert town.states(W1)[L2] == "Connected"
    peers = {node: {peer.node for peer in town.bgp.peers(node, town.facts)} for node in (L1, L2)}
    assert (peers[L1], L1 in peers[L2]) == (set(), False)
    assert L1 not in town.laid(W1)


def test_the_profile_declares_a_reflector_as_the_documents_do() -> None:
    declared = Town(profile="bgp-reflector").plane.declared()
    assert declared.mesh is False
    assert declared.peers == {
        "peer-with-route-reflectors": {
            "nodeSelector": "all()",
            "peerSelector": "route-reflector == 'true'",
        }
    }
