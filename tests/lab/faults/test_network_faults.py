# SPDX-License-Identifier: Apache-2.0
"""Faults of names, Services and addresses: pods notice them while they last, and neither before nor
after."""

from __future__ import annotations

import time

import pytest

from tests.lab.faults.town import WRONG_ADDRESS, Town, pod

pytestmark = pytest.mark.xdist_group("network-faults")


def test_names_are_answered_wrongly(town: Town) -> None:
    assert town.fetch("near") is not None
    with town.fault("dns-wrong"):
        assert WRONG_ADDRESS in town.run("nslookup", "near.default.svc.cluster.local").stdout
        assert town.fetch("near") is None
    assert WRONG_ADDRESS not in town.run("nslookup", "near.default.svc.cluster.local").stdout
    assert town.fetch("near") is not None


def test_questions_for_names_are_not_answered(town: Town) -> None:
    with town.fault("dns-silent", node="linux-1"):
        done = town.run("timeout", "2", "nslookup", "near.default.svc.cluster.local")
        assert "Name:" not in done.stdout
        assert done.returncode != 0
        assert town.reaches("near")
    assert town.fetch("near") is not None


def test_names_are_answered_late_on_one_node(town: Town) -> None:
    def seconds() -> float:
        begun = time.monotonic()
        assert "Name:" in town.run("nslookup", "near.default.svc.cluster.local").stdout
        return time.monotonic() - begun

    with town.fault("dns-slow", node="linux-1", seconds="1"):
        assert seconds() >= 1
    with town.fault("dns-slow", node="linux-2", seconds="60"):
        assert seconds() < 60


def test_a_service_has_no_backend_on_one_node(town: Town) -> None:
    with town.fault("service-backend-missing", service="default/near", node="linux-1"):
        assert town.fetch("near") is None
        assert town.reaches("near")
    assert town.fetch("near") is not None


def test_pod_to_pod_traffic_has_another_source(town: Town) -> None:
    own = town.address("client")
    assert town.fetch(f"{town.address('near')}:8080") == own
    with town.fault("snat-pod-to-pod", node="linux-1"):
        seen = town.fetch(f"{town.address('near')}:8080")
        assert seen not in {None, own}
    assert town.fetch(f"{town.address('near')}:8080") == own


def test_a_windows_pod_gets_an_address_that_windows_reserves(town: Town) -> None:
    def address_of_a_new_pod(name: str) -> str:
        town.lab.kubectl("apply", "-f", "-", stdin=pod(name, "windows-2019"))
        town.lab.kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=20s")
        address = town.lab.kubectl("get", "pod", name, "-o", "jsonpath={.status.podIP}").stdout
        town.lab.kubectl("delete", "pod", name)
        return address

    def offset(address: str) -> int:
        return int(address.rpartition(".")[2]) % 64

    assert offset(address_of_a_new_pod("before")) >= 3
    with town.fault("reserved-not-reserved", node="windows-2019"):
        assert offset(address_of_a_new_pod("during")) == 2
    assert offset(address_of_a_new_pod("after")) >= 3
