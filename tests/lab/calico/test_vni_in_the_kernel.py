# SPDX-License-Identifier: Apache-2.0
"""A new VNI with real packets: Linux uses it at once, Windows keeps the VSID of its HNS network
until the network is created again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hybridlab.calico.cluster import Calico
from hybridlab.calico.felix import Felix
from tests.lab.calico.conftest import CalicoLab, calico_lab, six_pods

OLD, NEW = 4096, 4097
WINDOWS = ("windows-2022", "windows-2019")


@pytest.fixture
def own() -> Iterator[CalicoLab]:
    """A lab of the test's own: VNIs are left as they come."""
    with calico_lab() as made:
        yield six_pods(made)


@pytest.fixture
def breaking() -> Iterator[CalicoLab]:
    with calico_lab("windows.windows_to_windows_with_new_vni=breaks") as made:
        yield six_pods(made)


def devices(lab: CalicoLab) -> dict[str, int]:
    """Return the VNI of each node's VXLAN device in the kernel."""
    links: dict[str, Any] = {
        node: lab.run(lab.plane.facts(node))["links"] for node in lab.calico.nodes
    }
    return {
        node: item["vni"]
        for node, all_ in links.items()
        for item in all_
        if item["ifname"] == "vxlan.calico"
    }


def vni_of(felix: Felix) -> int | None:
    """VNI of the VXLAN device as Felix programmed it last."""
    return None if felix.routing.tunnel is None else felix.routing.tunnel.identifier


def deliver(lab: CalicoLab, vni: int) -> None:
    """FelixConfiguration and, as an operator does, the environment and the CNI configuration of Windows."""

    async def work() -> None:
        await lab.client.patch(
            "felixconfigurations.projectcalico.org", "default", {"spec": {"vxlanVNI": vni}}
        )
        for node in WINDOWS:
            await restart(lab.calico, node, vni)
        await lab.until(lambda: all(lab.calico.felixes[node].running for node in lab.calico.nodes))
        linux = [node for node in lab.calico.nodes if node not in WINDOWS]
        await lab.until(lambda: all(vni_of(lab.calico.felixes[node]) == vni for node in linux))
        await lab.until(
            lambda: all(
                felix.running and felix.routing.routes for felix in lab.calico.felixes.values()
            )
        )
        await lab.settled()

    lab.run(work())


async def restart(calico: Calico, node: str, vni: int) -> None:
    await calico.felix_stopped(node)
    calico.felix_started(node, {"VXLAN_VNI": str(vni)})


def renew(lab: CalicoLab, node: str, pods: dict[str, str], vni: int) -> None:
    """The documented procedure: drain, remove the network, restart calico-node-windows; then the pods come back."""
    for pod in pods:
        lab.remove(pod)
    network = lab.calico.windows[node].hns.pod_network
    assert network is not None
    lab.run(lab.calico.remove_hns_network(node, network.id))
    lab.run(restart(lab.calico, node, vni))
    felix = lab.calico.felixes[node]
    lab.run(
        lab.until(
            lambda: vni_of(felix) == lab.calico.windows[node].hns.vsid and felix.routing.routes
        )
    )
    for pod in pods:
        lab.pod(pod, node, app=pod)


def test_linux_moves_and_windows_stays_until_its_network_is_made_anew(own: CalicoLab) -> None:
    assert set(devices(own).values()) == {OLD}
    deliver(own, NEW)
    assert {node: vni for node, vni in devices(own).items() if node in WINDOWS} == dict.fromkeys(
        WINDOWS, OLD
    )
    assert set(devices(own).values()) == {OLD, NEW}
    for windows in ("w1", "w2"):
        assert not own.reaches("l1", windows)
        assert not own.reaches(windows, "l1")
    for source, target in (("l1", "l2"), ("l1", "l1b"), ("w1", "w1b"), ("w1", "w2"), ("w2", "w1")):
        assert own.reaches(source, target), (source, target)

    renew(own, "windows-2022", {"w1": "w1", "w1b": "w1b"}, NEW)
    assert own.reaches("l1", "w1")
    assert own.reaches("w1", "l1")
    assert not own.reaches("w1", "w2"), "one has the new VNI, the other the old one"
    renew(own, "windows-2019", {"w2": "w2"}, NEW)
    assert set(devices(own).values()) == {NEW}
    for source, target in (("l1", "w2"), ("w2", "l2"), ("w1", "w2"), ("w2", "w1"), ("w1", "w1b")):
        assert own.reaches(source, target), (source, target)


def test_between_windows_nodes_it_breaks_where_the_profile_says_so(breaking: CalicoLab) -> None:
    assert breaking.reaches("w1", "w2")
    deliver(breaking, NEW)
    assert not breaking.reaches("w1", "w2")
    assert not breaking.reaches("w1", "l1")
    assert not breaking.reaches("l1", "w1")
    assert breaking.reaches("w1", "w1b")
    assert breaking.reaches("l1", "l2")
    deliver(breaking, OLD)
    assert breaking.reaches("w1", "w2")
    assert breaking.reaches("l1", "w1")


def test_pods_of_a_removed_network_are_cut_off_and_their_node_is_not(own: CalicoLab) -> None:
    hns = own.calico.windows["windows-2022"].hns
    assert hns.pod_network is not None
    own.run(own.calico.remove_hns_network("windows-2022", hns.pod_network.id))
    own.run(
        own.plane.cut_off_pod("one that has left")
    )  # as when a pod leaves meanwhile: no reason to stop
    own.run(own.until(lambda: own.calico.felixes["windows-2022"].routing.tunnel is None))
    own.run(own.settled())
    assert not own.reaches("l1", "w1")
    assert (
        own.attempt("w1", "w1b") == "OSError"
    )  # network unreachable: there is no interface any more
    assert own.reaches("w2", "l1")
    assert "windows-2022" not in devices(own)
    for pod in ("w1", "w1b"):
        own.remove(pod)
    own.pod("w1", "windows-2022", app="w1")  # the plugin makes the network again
    assert own.reaches("l1", "w1")
    assert own.reaches("w1", "w2")


def test_a_vni_that_windows_does_not_support_fails_the_plugin(own: CalicoLab) -> None:
    own.run(restart(own.calico, "windows-2022", 4095))
    with pytest.raises(Exception, match="Windows does not support VXLANVNI < 4096"):
        own.pod("late", "windows-2022")
    assert own.reaches("l1", "w1")
    own.run(restart(own.calico, "windows-2022", OLD))


@pytest.mark.parametrize("node", WINDOWS)
def test_fault_vni_followed_live(own: CalicoLab, node: str) -> None:
    pod = {"windows-2022": "w1", "windows-2019": "w2"}
    with own.fault("vni-followed-live", node=node):
        deliver(own, NEW)
    assert devices(own)[node] == NEW
    assert own.reaches("l1", pod[node])
    assert not own.reaches("w1", "w2")


def test_fault_vsid_differs(own: CalicoLab) -> None:
    felix = own.calico.felixes["windows-2022"]
    with own.fault("vsid-differs", node="windows-2022", vsid="4321"):
        own.run(own.until(lambda: vni_of(felix) == 4321 and felix.routing.routes))
        assert devices(own)["windows-2022"] == 4321
        assert not own.reaches("l1", "w1")
        assert own.reaches("w1", "w1b")
        assert own.reaches("l1", "w2")
    own.run(own.until(lambda: vni_of(felix) == OLD and felix.routing.routes))
    assert own.reaches("l1", "w1")


def test_fault_procedure_does_not_heal(own: CalicoLab) -> None:
    deliver(own, NEW)
    with own.fault("procedure-does-not-heal"):
        renew(own, "windows-2022", {"w1": "w1"}, NEW)
        assert own.calico.windows["windows-2022"].hns.vsid == OLD
        assert not own.reaches("l1", "w1")
    renew(own, "windows-2022", {"w1": "w1"}, NEW)
    assert own.reaches("l1", "w1")
