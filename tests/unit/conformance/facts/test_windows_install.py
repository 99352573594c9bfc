# SPDX-License-Identifier: Apache-2.0
"""Calico by hand or by manifest runs on a node, or what it does instead; its kubeconfig is
valid, or the reason why not."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.errors import MissingCapability
from conformance.facts.windows_install import WindowsInstall
from conformance.model.facts import Fact
from tests.unit.conformance.builders import a_pod
from tests.unit.conformance.facts.test_objects import Objects, facts, values

NOW = datetime(2026, 11, 26, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


def there(install: Any = "manual", pods: Any = (), **answers: Any) -> WindowsInstall:
    known = {"cni": "Calico", "datastore": "kubernetes"} | {
        name: answers.pop(name) for name in ("cni", "datastore") if name in answers
    }
    found: dict[str, Any] = {name: Fact(value, "read") for name, value in known.items()}
    kube: Any = Objects({("v1", "Pod"): list(pods)})
    hosts: Any = SimpleNamespace(
        service=lambda node, name: answers["services"].get(name, ""),
        cni_tokens=lambda node: answers["tokens"],
    )
    own = replace(facts(), install=Fact(install, "read"), **found)
    return WindowsInstall(kube, hosts, own, (), NOW)


def test_by_hand_both_services_are_read() -> None:
    one = there(services={"CalicoNode": "Running", "CalicoFelix": "Stopped"})
    assert values(one.state("win")) == {
        "service CalicoNode on node win": "Running",
        "service CalicoFelix on node win": "Stopped",
    }
    assert (
        values(there(services={}).state("win"))["service CalicoNode on node win"] == "not installed"
    )


@pytest.mark.parametrize(
    ("ready", "state", "told"),
    [
        (True, {"running": {}}, "Running"),
        (False, {"waiting": {"reason": "CrashLoopBackOff"}}, "felix CrashLoopBackOff, 3 restarts"),
    ],
)
def test_by_manifest_the_pod_of_the_node_is_read(ready: bool, state: Any, told: str) -> None:
    container = {"name": "felix", "ready": ready, "state": state, "restartCount": 3}
    ready_condition = {"type": "Ready", "status": str(ready)}
    status = {"conditions": [ready_condition], "containerStatuses": [container]}
    pod = a_pod("calico-node-windows-x", "win", namespace="kube-system", status=status)
    pod["spec"]["containers"] = [{"name": "felix"}]
    found = values(there("manifest", [pod]).state("win"))
    assert found == {"pod of calico-node on node win": told}
    assert values(there("manifest").state("win")) == {"pod of calico-node on node win": "missing"}


@pytest.mark.parametrize(
    ("tokens", "value"),
    [
        ([], "missing"),
        ([None], "valid"),
        ([NOW + HOUR], "valid"),
        ([NOW - HOUR, NOW + HOUR], "valid"),
        ([NOW - HOUR], "a token that expired at 2026-11-26T11:00:00Z"),
    ],
)
def test_a_kubeconfig_is_valid_missing_or_over(tokens: Any, value: str) -> None:
    found = values(there(tokens=tokens).kubeconfig("win"))
    assert found == {"kubeconfig of Calico's CNI plugin on node win": value}


@pytest.mark.parametrize("other", [{"datastore": "etcd"}, {"cni": "AzureVNET"}])
def test_files_of_etcd_and_of_other_plugins_are_not_read(other: dict[str, str]) -> None:
    with pytest.raises(MissingCapability, match="does not read"):
        there(tokens=[], **other).kubeconfig("win")
