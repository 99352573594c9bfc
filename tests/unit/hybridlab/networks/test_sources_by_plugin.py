# SPDX-License-Identifier: Apache-2.0
"""The contract table of source addresses, worked out from what a plugin has nodes programmed with:
a cheap twin of tests/lab/cluster/test_source_addresses.py, in which labs answer.

It shows which rows of the table tell plugins apart. Calico's plugin hides pods from the hosts of
nodes, and the others do not. Among the others no row differs: by win-bridge, azure-vnet, vpc-bridge
and flannel's host-gw a server sees the same addresses, and HNS and CNI files alone tell them apart
(test_routed_plane).
"""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address, ip_network
from itertools import combinations

import pytest

from hybridlab.networks.contract.routing import PoolFacts
from hybridlab.networks.routed.plugins import PLUGINS
from hybridlab.profiles.machines import machines, pod_cidr
from tests.lab.cluster.test_source_addresses import KEPT, NODES, PLACES, TABLE, WANTED
from tests.lab.cluster.test_source_addresses import PROFILES as LABS
from tests.unit.hybridlab.networks.test_routed_plane import PROFILES, facts, plane

Seen = dict[tuple[str, str, str], str]
"""By DSR, server and way the owner of the address that the server sees."""
PLANES = {profile: name for name, profile in LABS.items()}
"""A profile's name in the contract table."""
OTHERS = [profile for profile, name in PLANES.items() if name in KEPT]
"""Profiles whose plugin leaves the network of nodes out of outbound NAT."""
OUTSIDE = "198.51.100.10"


def wanted(profile: str) -> Seen:
    return {
        (dsr, to, way): seen
        for (name, dsr, to, way), seen in WANTED.items()
        if name == PLANES[profile]
    }


def sources(profile: str) -> Seen:
    """What servers see of the pods of both Windows nodes."""
    found: Seen = {}
    for dsr, client in NODES.items():
        for to, way, *_ in TABLE:
            found[dsr, to, way] = source(profile, dsr, client, to, way)
    return found


def source(profile: str, dsr: str, client: str, to: str, way: str) -> str:
    """The owner of the address that a server sees of a node's pod, or of a stranger by the node's
    NodePort."""
    routed = plane(profile)
    nodes = {machine.name: machine for machine in machines(routed.profile)}
    machine = nodes[client]
    own = pod_cidr(machine, routed.profile)
    service = routed.service_source(machine, own, enable_dsr=dsr == "dsr")
    if way == "node-port-local" and service is None:
        return "stranger"
    if way.startswith("node-port"):
        service = routed.service_source(machine, own, enable_dsr=False)
    if way != "address" and service is not None:
        return {machine.address: "node", str(ip_network(own)[2]): "vip"}[service]
    if to == "itself":
        return "node"  # loopback DSR is an outbound NAT of the pod to its own address
    other = next(name for name in NODES.values() if name != client)
    server = {"beside": client, "other": other}.get(to, PLACES.get(to, ""))
    address = OUTSIDE if to == "outside" else nodes[server].address
    if to not in ("outside", "on-host"):
        address = str(ip_network(pod_cidr(nodes[server], routed.profile))[9])
    pools = {"pool": PoolFacts(cidr=routed.profile.network.pod_cidr, nat_outgoing=True)}
    known = replace(facts(routed), pools=pools)
    node = routed.windows_node(machine, "10-calico.conf")
    routes = routed.program(client, known, {}, node).routes
    kept = (*routes.pools, *routes.unmasqueraded)
    return "pod" if any(ip_address(address) in ip_network(cidr) for cidr in kept) else "node"


@pytest.mark.parametrize("profile", PROFILES)
def test_a_plugin_hides_and_keeps_addresses_as_the_contract_table_says(profile: str) -> None:
    assert sources(profile) == wanted(profile)


def red_rows(profile: str) -> set[tuple[str, str, str]]:
    expected = wanted(profile)
    return {row for row, seen in sources(profile).items() if seen != expected[row]}


def swap(monkeypatch: pytest.MonkeyPatch, one: str, other: str) -> None:
    """Give each profile the plugin of the other one."""
    types = [type(plane(profile).plugin) for profile in (one, other)]
    for true, swapped in zip(types, reversed(types), strict=True):
        monkeypatch.setitem(PLUGINS, true.type, swapped)


@pytest.mark.parametrize("other", OTHERS)
def test_calicos_plugin_and_another_in_each_others_place_turn_rows_of_both_red(
    monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    swap(monkeypatch, "cloud-routes", other)
    to_a_host = {
        ("dsr", "on-host", "address"),
        ("no dsr", "on-host", "address"),
        ("dsr", "on-host", "cluster-ip"),
    }
    assert red_rows("cloud-routes") == red_rows(other) == to_a_host


@pytest.mark.parametrize(("one", "other"), list(combinations(OTHERS, 2)))
def test_other_plugins_hide_and_keep_the_same_addresses(
    monkeypatch: pytest.MonkeyPatch, one: str, other: str
) -> None:
    swap(monkeypatch, one, other)
    assert red_rows(one) == red_rows(other) == set()
