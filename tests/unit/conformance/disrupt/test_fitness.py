# SPDX-License-Identifier: Apache-2.0
"""Settings of the whole cluster are changed only if Calico is healthy, nobody else manages them,
and the owner agrees."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from conformance.disrupt.fitness import refuse_other_managers, refuse_unwell
from conformance.errors import MissingCapability
from conformance.facts.consent import not_opted_in
from conformance.kube.client import FIELD_MANAGER
from conformance.kube.refused import ApiRefused


def daemonset(name: str, ready: int = 2, updated: int = 2) -> dict[str, Any]:
    status = {"desiredNumberScheduled": 2, "numberReady": ready, "updatedNumberScheduled": updated}
    return {"metadata": {"name": name, "namespace": "calico-system"}, "status": status}


def status(**conditions: str) -> dict[str, Any]:
    found = [
        {"type": kind, "status": value, "message": "a pod  crashes"}
        for kind, value in conditions.items()
    ]
    return {"metadata": {"name": "calico"}, "status": {"conditions": found}}


WELL = {"Available": "True", "Degraded": "False", "Progressing": "False"}


@pytest.mark.parametrize(
    ("nodes", "conditions", "words"),
    [
        (
            {"calico-node": daemonset("calico-node", ready=1)},
            WELL,
            "calico-node has 1 of 2 pods ready",
        ),
        (
            {"calico-node-windows": daemonset("w", updated=0)},
            WELL,
            "calico-node-windows has 0 of 2 pods up to date",
        ),
        ({}, WELL | {"Degraded": "True"}, "TigeraStatus calico is Degraded: a pod crashes"),
        ({}, WELL | {"Progressing": "True"}, "TigeraStatus calico is Progressing"),
        ({}, WELL | {"Available": "False"}, "TigeraStatus calico is not Available"),
    ],
)
def test_an_unwell_calico_is_refused(cluster: Any, nodes: Any, conditions: Any, words: str) -> None:
    cluster.others = {("DaemonSet", name): one for name, one in nodes.items()}
    cluster.others["TigeraStatus", "calico"] = status(**conditions)
    with pytest.raises(MissingCapability, match=words):
        refuse_unwell(cluster)


def test_a_calico_that_is_well_is_not(cluster: Any) -> None:
    cluster.others = {
        ("DaemonSet", "calico-node"): daemonset("calico-node"),
        ("TigeraStatus", "calico"): status(**WELL),
    }
    refuse_unwell(cluster)
    refuse_other_managers(cluster)


@pytest.mark.parametrize(
    ("nodes", "conditions"),
    [
        pytest.param({"calico-node": daemonset("calico-node", 3, 3)}, WELL, id="more than wanted"),
        pytest.param({}, WELL | {"Paused": "True", "Ready": "False"}, id="other conditions"),
        pytest.param({}, WELL | {"Degraded": "Unknown", "Progressing": "Unknown"}, id="not known"),
        pytest.param({"calico-node": {"metadata": {}}}, {}, id="nothing reported"),
    ],
)
def test_what_is_no_trouble_of_calico_is_not_refused(
    cluster: Any, nodes: Any, conditions: Any
) -> None:
    cluster.others = {("DaemonSet", name): one for name, one in nodes.items()}
    cluster.others["TigeraStatus", "calico"] = status(**conditions)
    refuse_unwell(cluster)


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ({"reason": "PodFailure"}, "calico is Degraded: PodFailure"),
        ({"reason": "PodFailure", "message": ""}, "calico is Degraded: PodFailure"),
        ({}, "calico is Degraded: no message"),
    ],
)
def test_a_status_without_a_message_is_refused_with_what_it_has(
    cluster: Any, condition: Any, words: str
) -> None:
    there = {"type": "Degraded", "status": "True", **condition}
    cluster.others["TigeraStatus", "calico"] = {
        "metadata": {"name": "calico"},
        "status": {"conditions": [there]},
    }
    with pytest.raises(MissingCapability, match=f"{words}; wait until"):
        refuse_unwell(cluster)


@pytest.mark.parametrize(
    ("manager", "field", "refused"),
    [
        ("argocd-controller", "f:vxlanVNI", True),
        ("helm-controller", "f:vxlanVNI", True),
        ("kubectl-client-side-apply", "f:vxlanVNI", True),
        ("argocd-controller", "f:vxlanPort", False),
        ("kubectl-edit", "f:vxlanVNI", False),
        ("calico-node", "f:vxlanVNI", False),
        (FIELD_MANAGER, "f:vxlanVNI", False),
    ],
)
def test_a_vni_that_another_would_revert_is_refused(
    cluster: Any, manager: str, field: str, refused: bool
) -> None:
    entry = {"manager": manager, "fieldsV1": {"f:spec": {".": {}, field: {}}}}
    cluster.others["FelixConfiguration", "default"] = {"metadata": {"managedFields": [{}, entry]}}
    if refused:
        with pytest.raises(
            MissingCapability, match=f"{manager} manages vxlanVNI .*; suspend {manager}"
        ):
            refuse_other_managers(cluster)
    else:
        refuse_other_managers(cluster)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ({"calico-conformance/cluster-disruptive": "allowed"}, ""),
        (
            {"calico-conformance/cluster-disruptive": "no"},
            "kubectl label namespace kube-system calico-conformance/",
        ),
        (None, "kubectl label namespace kube-system calico-conformance/cluster-disruptive=allowed"),
        (
            ApiRefused(403, "Forbidden", "may not get namespaces", "GET"),
            "cannot be read (may not get namespaces)",
        ),
    ],
)
def test_only_a_label_opts_a_cluster_in_and_the_message_names_it(labels: Any, words: str) -> None:
    def find(*_: Any) -> Any:
        if isinstance(labels, Exception):
            raise labels
        return {"metadata": {"labels": labels}}

    told = not_opted_in(SimpleNamespace(find=find))  # type: ignore[arg-type]
    assert words in told if words else told == ""
