# SPDX-License-Identifier: Apache-2.0
"""Faults are injected and healed from outside, by control socket and command; wrong requests are
refused."""

from __future__ import annotations

import threading

import pytest

from tests.lab.faults.town import Town

pytestmark = pytest.mark.xdist_group("injecting")


def test_a_wrong_fault_is_refused_and_nothing_is_active(town: Town) -> None:
    config = ("--kubeconfig", str(town.lab.kubeconfig))
    for arguments, expected in (
        (["nonsense"], "there is no fault 'nonsense'"),
        (["policy-not-enforced", "node=nowhere"], "nowhere"),
        (["policy-late", "seconds=soon"], "soon"),
        (["udp4789-dropped", "scope"], "KEY=VALUE"),
    ):
        done = town.lab.hybridlab("faults", *config, "inject", *arguments)
        assert (done.returncode, expected in done.stderr) == (4, True), done.stderr
    assert town.ask(op="active") == []


def test_faults_injected_at_once_are_all_healed_at_once(town: Town) -> None:
    injected: list[str] = []

    def inject(name: str, parameters: dict[str, str]) -> None:
        injected.append(town.ask(op="inject", fault=name, parameters=parameters)["id"])

    threads = [
        threading.Thread(target=inject, args=item)
        for item in [
            (name, dict[str, str]())
            for name in ("udp4789-dropped", "dns-wrong", "exec-loses-status")
        ]
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(item["id"] for item in town.ask(op="active")) == sorted(injected)
    assert len(injected) == 3
    town.ask(op="heal-all")
    assert town.ask(op="active") == []
    assert town.fetch("near") is not None


def test_a_dropped_vxlan_port_cuts_nodes_off_and_the_command_heals_it(town: Town) -> None:
    assert town.reaches("near")
    config = ("--kubeconfig", str(town.lab.kubeconfig))
    injected = town.lab.hybridlab(
        "faults", *config, "inject", "udp4789-dropped", "scope=node", "node=linux-2"
    )
    assert injected.returncode == 0, injected.stderr
    identity = injected.stdout.strip()
    try:
        assert identity in town.lab.hybridlab("faults", *config, "active").stdout
        assert identity in town.lab.hybridlab("status", *config).stdout
        assert not town.reaches("near")
        assert town.reaches("far")
    finally:
        healed = town.lab.hybridlab("faults", *config, "heal", identity)
    assert healed.returncode == 0, healed.stderr
    assert town.reaches("near")
    assert town.lab.hybridlab("faults", *config, "active").stdout == ""
