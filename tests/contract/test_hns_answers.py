# SPDX-License-Identifier: Apache-2.0
"""The judge's own queries to HNS, answered by the lab's PowerShell: an HNS that fails never
counts as one without objects."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from conformance.errors import ProbeBroken
from conformance.kube.execute import ExecResult
from conformance.model.endpoint import Workload
from conformance.probe.host import Hosts
from conformance.settings import load_timings
from tests.unit.conformance.builders import a_workload
from tests.unit.conformance.expect.stand_ins import Clock
from tests.unit.hybridlab.powershell.test_host_cmdlets import KnownHost, powershell

NETWORK = {
    "ID": "B", "Name": "Calico", "Type": "Overlay", "Extra": {"Deep": 1},
    "Subnets": [{"AddressPrefix": "192.168.4.0/26", "Policies": [{"Type": "VSID", "VSID": 4096}]}],
}  # fmt: skip
ENDPOINT = {
    "ID": "e", "Name": "x_Calico", "IPAddress": "192.168.4.5", "MacAddress": "0E-2A", "VirtualNetwork": "B",
    "Policies": [{"Type": "ACL", "Id": "r1", "Action": "Allow", "Direction": "In", "Priority": 1000}],
}  # fmt: skip
FAILURES = ("hns-error", "hns-silent", "hns-garbled")
POD = a_workload("host", "windows", container="host", node="w1", address="192.168.4.5")


def asked_of(host: KnownHost) -> Hosts:
    """The judge, looking into this host."""

    def run(workload: Workload, argv: Sequence[str], within: float) -> ExecResult:
        code, out, err = powershell(argv[-1], host)
        return ExecResult(code, out.encode(), err.encode(), 0.1)

    return Hosts(run, lambda node: POD, lambda node: POD, load_timings(), clock=Clock())


@pytest.fixture
def host() -> KnownHost:
    known_host = KnownHost()
    known_host.answers |= {"networks": [NETWORK], "endpoints": [ENDPOINT, ENDPOINT]}
    return known_host


def test_what_hns_has_is_read(host: KnownHost) -> None:
    hosts = asked_of(host)
    assert [
        (network.id, [subnet.vsid for subnet in network.subnets])
        for network in hosts.hns_networks("w1")
    ] == [("B", [4096])]
    assert [endpoint.address for endpoint in hosts.hns_endpoints("w1")] == ["192.168.4.5"] * 2
    assert [rule.id for rule in hosts.acl_list("w1", POD)] == ["r1"]
    assert "Calico" in hosts.cni_configuration("w1")


def test_an_hns_without_networks_has_none(host: KnownHost) -> None:
    host.answers["networks"] = []
    assert asked_of(host).hns_networks("w1") == []


@pytest.mark.parametrize("failure", FAILURES)
def test_an_hns_that_fails_is_a_broken_probe_and_no_absence(host: KnownHost, failure: str) -> None:
    host.failing = {"networks": failure, "endpoints": failure}
    for ask in (asked_of(host).hns_networks, asked_of(host).hns_endpoints):
        with pytest.raises(ProbeBroken, match=r"HNS failed|HNS gave no answer"):
            ask("w1")


def test_a_removal_that_hns_refuses_is_a_broken_probe(host: KnownHost) -> None:
    host.failing = {"remove-network": "hns-error"}
    with pytest.raises(ProbeBroken, match=r"exit status 1: .*HNS failed"):
        asked_of(host).remove_hns_networks("w1", ["B"])
    host.failing = {}
    asked_of(host).remove_hns_networks("w1", ["B", "Z"])
    assert host.done == [("remove-network", {"id": "B"})]
