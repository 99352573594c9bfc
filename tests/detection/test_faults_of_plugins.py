# SPDX-License-Identifier: Apache-2.0
"""On networks that Calico does not route, each plugin has a row for each fault that is possible
there, on nodes of each operating system. The lab itself refuses every other fault."""

from __future__ import annotations

import asyncio

import pytest

from hybridlab.faults.errors import BadFault
from hybridlab.networks.registry import fault_types
from hybridlab.profiles.load import load
from hybridlab.profiles.machines import machines, pod_cidr
from tests.detection.table import Row, read
from tests.unit.hybridlab.faults.fault_lab import lab

TABLE = read()
PROFILES = {
    "calico": "cloud-routes",
    "win-bridge, by hand": "static-routes",
    "win-bridge, in a cloud": "cloud-win-bridge",
    "azure-vnet": "aks-operator",
    "vpc-bridge": "eks-vpc",
    "flannel host-gw": "canal-host-gw",
    "flannel VXLAN": "flannel-vxlan",
}
"""A profile of each plugin, and of each kind of routes."""
LATE = "opens late"
"""Not a fault of the lab: its Felix programs new pods late, or their policy comes late."""
FAULTS = (
    "node-route-missing",
    "fabric-route-missing",
    "host-endpoint-missing",
    LATE,
    "pod-cidr-full",
    "source-check-on",
)
WINDOWS_ALONE = {
    "host-endpoint-missing": "a Linux host has no endpoint among its pods",
    LATE: "claims about it are about Windows; open-before-policy-linux has a Linux node",
}
ROWS = {
    # by fault, in the order of PROFILES; a cell without a row: why the fault cannot be there
    "node-route-missing": (
        "the fabric, not the nodes, has the routes",
        "route-missing-with-win-bridge",
        "the fabric, not the nodes, has the routes",
        "the fabric, not the nodes, has the routes",
        "the fabric, not the nodes, has the routes",
        "route-missing-with-flannel",
        "route-missing-in-flannels-overlay",
    ),
    "fabric-route-missing": (
        "fabric-route-missing-with-calicos-plugin",
        "the nodes, not the fabric, have the routes",
        "fabric-route-missing-with-win-bridge",
        "fabric-route-missing-on-aks",
        "fabric-route-missing-on-eks",
        "the nodes, not the fabric, have the routes",
        "the nodes, not the fabric, have the routes",
    ),
    "host-endpoint-missing": (
        "elsewhere: it comes with a node's first pod; tests/lab/networks has it",
        "host-endpoint-missing-with-win-bridge",
        "as with win-bridge by hand: whoever routes, it is there",
        "has no host endpoint that could be removed",
        "has no host endpoint that could be removed",
        "host-endpoint-missing-with-flannel",
        "no such fault: it is remote, and no address of the host",
    ),
    LATE: (
        "open-before-policy-with-calicos-plugin",
        "late-policy-with-win-bridge",
        "as with win-bridge by hand: whoever routes, it is open at first",
        "late-policy-on-aks",
        "late-policy-on-eks",
        "late-policy-with-flannel",
        "late-policy-in-flannels-overlay",
    ),
    "pod-cidr-full": (
        "pod-cidr-full-with-calicos-plugin",
        "pod-cidr-full-with-win-bridge",
        "as with win-bridge by hand: host-local does not depend on who routes",
        "addresses-used-up-on-aks",
        "addresses-used-up-on-eks",
        "pod-cidr-full-with-flannel",
        "pod-cidr-full-in-flannels-overlay",
    ),
    "source-check-on": (
        "so the fabric accepts the addresses of a node's pods",
        "source-check-on-with-win-bridge",
        "so the fabric accepts the addresses of a node's pods",
        "so the fabric accepts the addresses of a node's pods",
        "so the fabric accepts the addresses of a node's pods",
        "source-check-on-with-flannel",
        "no such fault: outside the tunnel a packet has its node's own address",
    ),
}
CELLS = {
    (fault, plugin): given
    for fault in FAULTS
    for plugin, given in zip(PROFILES, ROWS[fault], strict=True)
}
BY_NAME = {name: given for name, given in CELLS.items() if " " not in given}
REFUSED = {
    name: given
    for name, given in CELLS.items()
    if name not in BY_NAME and not given.startswith(("as with", "elsewhere"))
}


def rows_of(name: str) -> list[Row]:
    """The rows of a name, one for each node that it names."""
    return [row for row in TABLE.rows if row.name in {name, f"{name}-{row.node}"}]


@pytest.mark.parametrize(("fault", "plugin"), BY_NAME)
def test_a_plugin_has_a_row_for_the_fault_on_nodes_of_each_operating_system(
    fault: str, plugin: str
) -> None:
    rows = rows_of(BY_NAME[fault, plugin])
    assert {row.profile for row in rows} == {PROFILES[plugin]}
    if fault == LATE:
        assert all(
            "windows_policy_delay" in f"{row.set}" or "open-before" in f"{row.faults}"
            for row in rows
        )
        assert {verdict for row in rows for verdict in row.expect.values()} <= {
            "CONFIRMED",
            "VIOLATED",
        }
        return
    assert {fault_of.split()[0] for row in rows for fault_of in row.faults} == {fault}
    assert {row.exit for row in rows} == {6 if fault == "pod-cidr-full" else 1}
    assert all(row.says for row in rows), "the message has to name what is missing"
    systems = {row.node.partition("-")[0] for row in rows}
    assert systems == ({"windows"} if fault in WINDOWS_ALONE else {"linux", "windows"})


@pytest.mark.parametrize(("fault", "plugin"), REFUSED)
def test_the_lab_refuses_a_fault_that_cannot_be_there(fault: str, plugin: str) -> None:
    profile = load(PROFILES[plugin])
    if REFUSED[fault, plugin].startswith("no such fault"):
        assert fault not in fault_types(profile.network.plane.kind)
        return
    parameters = {"node": "windows-2022"}
    if fault == "node-route-missing":
        parameters["to"] = "linux-1"

    async def run() -> None:
        async with lab(PROFILES[plugin]) as made:
            for machine in machines(profile):  # which the node controller does
                spec = {"spec": {"podCIDR": pod_cidr(machine, profile)}}
                await made.calico.client.patch("nodes", machine.name, spec)
            await made.calico.settled()
            with pytest.raises(BadFault, match=REFUSED[fault, plugin]):
                await made.injector.inject(fault, parameters)

    asyncio.run(run())
