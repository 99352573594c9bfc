# SPDX-License-Identifier: Apache-2.0
"""Faults of policy and of Felix: pods notice them while they last, and neither before nor after."""

from __future__ import annotations

import subprocess
import time

import pytest

from tests.lab.faults.town import NOT_ENFORCED_ON, SETTLED_WITHIN, Town, pod

pytestmark = pytest.mark.xdist_group("policy-faults")

HOLD = """
import socket, sys
connection = socket.create_connection((sys.argv[1], 8080), 5)
print("connected", flush=True)
connection.settimeout(float(sys.argv[2]))
try:
    connection.recv(1)
except TimeoutError:
    print("kept")
except ConnectionResetError:
    print("reset")
"""


def test_a_node_that_does_not_enforce_policy_lets_everything_in(town: Town) -> None:
    with town.deny_all():
        town.eventually("near", reached=False)
        with town.fault("policy-not-enforced", node=NOT_ENFORCED_ON):
            assert town.reaches("near")
            assert not town.reaches("far")
        assert not town.reaches("near")


def test_policy_that_is_late_takes_effect_later(town: Town) -> None:
    with town.fault("policy-late", node="linux-2", seconds="600"), town.deny_all():
        town.eventually("far", reached=False)
        assert town.reaches("near")
    with town.deny_all():
        town.eventually("near", reached=False)


def test_a_reprogrammed_windows_pod_has_no_new_connections(town: Town) -> None:
    with town.fault("no-reset-recovery", node="windows-2022"):
        assert town.reaches("windows")
        with town.deny_all():
            town.eventually("near", reached=False)
        town.eventually("near", reached=True)
        assert not town.reaches("windows")
    assert town.reaches("windows")


def test_a_windows_pod_keeps_its_acl_list_whatever_policy_says(town: Town) -> None:
    with town.fault("acl-not-replaced"), town.deny_all():
        town.eventually("near", reached=False)
        assert town.reaches("windows")
    with town.deny_all():
        town.eventually("windows", reached=False)


def test_a_felix_that_was_killed_does_not_come_back(town: Town) -> None:
    def felix_pod() -> str:
        found = town.lab.kubectl(
            "get", "pods", "-n", "calico-system", "-l", "k8s-app=calico-node-windows",
            "--field-selector=spec.nodeName=windows-2022,status.phase=Running", "-o", "name",
        )  # fmt: skip
        return found.stdout.strip()

    with town.fault("felix-never-restarts", node="windows-2022"):
        before = felix_pod()
        town.lab.kubectl("delete", "-n", "calico-system", before)
        deadline = time.monotonic() + SETTLED_WITHIN
        while felix_pod() in {"", before}:
            assert time.monotonic() < deadline, "the pod does not come back"
        with town.deny_all():
            town.eventually("near", reached=False)
            assert town.reaches("windows")
    with town.deny_all():
        town.eventually("windows", reached=False)


def test_a_new_windows_pod_is_open_until_it_is_programmed(town: Town) -> None:
    with town.deny_all():
        town.eventually("near", reached=False)
        with town.fault("open-before-policy", node="windows-2019", seconds="600"):
            town.lab.kubectl("apply", "-f", "-", stdin=pod("young", "windows-2019"))
            town.lab.kubectl("wait", "--for=condition=Ready", "pod/young", "--timeout=20s")
            assert town.reaches("young")
        town.eventually("young", reached=False)
        town.lab.kubectl("delete", "pod", "young")


def test_linux_pods_connections_are_reset_with_their_policy(town: Town) -> None:
    def held_through_a_policy(seconds: str) -> str:
        command = ["exec", "holder", "--", "python3", "-c", HOLD, town.address("near"), seconds]
        arguments = ["kubectl", "--kubeconfig", str(town.lab.kubeconfig), *command]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as holding:
            assert holding.stdout is not None
            assert holding.stdout.readline() == "connected\n"
            with town.deny_all():
                town.eventually("near", reached=False)
                return holding.stdout.readline().strip()

    town.lab.kubectl(
        "apply", "-f", "-", stdin=pod("holder", "linux-1", "python:3.12", '[sleep, "36000"]')
    )
    town.lab.kubectl("wait", "--for=condition=Ready", "pod/holder", "--timeout=20s")
    with town.fault("rst-storm-linux"):
        assert held_through_a_policy("20") == "reset"
    assert held_through_a_policy("2") == "kept"
    town.lab.kubectl("delete", "pod", "holder")


def test_what_policy_denies_is_refused(town: Town) -> None:
    def why() -> str:
        return town.run("wget", "-T", "1", "-qO-", f"http://{town.address('near')}:8080/").stderr

    with town.deny_all():
        town.eventually("near", reached=False)
        assert "refused" not in why()
        with town.fault("policy-refuses", node="linux-2"):
            assert "refused" in why()
            assert not town.reaches("far")
        with town.fault("policy-refuses", node="linux-2", **{"with": "icmp"}):
            assert "timed out" not in why()
            assert not town.reaches("near")
        assert "refused" not in why()
