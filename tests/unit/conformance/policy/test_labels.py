# SPDX-License-Identifier: Apache-2.0
"""Selectors match the labels that Kubernetes and Calico add, too."""

from __future__ import annotations

from conformance.policy import labels
from conformance.policy.selectors import calico, calico_namespaces, kubernetes

NAMESPACE = labels.of_namespace({"metadata": {"name": "shop", "labels": {"team": "blue"}}})
ACCOUNT = labels.of_service_account({"metadata": {"name": "till", "labels": {"may": "pay"}}})
POD = labels.of_pod(
    {
        "metadata": {"name": "p", "namespace": "shop", "labels": {"x": "1"}},
        "spec": {"serviceAccountName": "till"},
    },
    NAMESPACE,
    ACCOUNT,
)


def test_a_namespace_is_known_by_its_name_in_both_languages() -> None:
    assert calico_namespaces("projectcalico.org/name == 'shop'").selects(NAMESPACE) is True
    by_name = kubernetes({"matchLabels": {"kubernetes.io/metadata.name": "shop"}})
    assert by_name.selects(NAMESPACE) is True


def test_a_service_account_is_known_by_its_name() -> None:
    assert ACCOUNT == {"may": "pay", "projectcalico.org/name": "till"}


def test_a_pod_has_what_its_namespace_and_its_service_account_have() -> None:
    assert POD == {
        "x": "1",
        "projectcalico.org/namespace": "shop",
        "projectcalico.org/orchestrator": "k8s",
        "projectcalico.org/serviceaccount": "till",
        "pcns.team": "blue",
        "pcns.kubernetes.io/metadata.name": "shop",
        "pcns.projectcalico.org/name": "shop",
        "pcsa.may": "pay",
        "pcsa.projectcalico.org/name": "till",
    }
    assert calico("pcns.team == 'blue' && pcsa.may == 'pay' && x == '1'").selects(POD) is True


def test_a_pod_cannot_lie_about_its_namespace() -> None:
    pod = {
        "metadata": {
            "name": "p",
            "namespace": "shop",
            "labels": {"projectcalico.org/namespace": "bank"},
        }
    }
    seen = labels.of_pod(pod, NAMESPACE, {})
    assert seen["projectcalico.org/namespace"] == "shop"
    assert seen["projectcalico.org/serviceaccount"] == "default"


def test_a_long_service_account_has_no_label() -> None:
    pod = {"metadata": {"name": "p", "namespace": "shop"}, "spec": {"serviceAccountName": "a" * 63}}
    assert "projectcalico.org/serviceaccount" not in labels.of_pod(pod, NAMESPACE, {})


def test_network_sets() -> None:
    one = {"metadata": {"name": "n", "namespace": "shop", "labels": {"x": "1"}}}
    assert labels.of_network_set(one, NAMESPACE)["pcns.team"] == "blue"
    assert calico("has(projectcalico.org/namespace)").selects(
        labels.of_network_set(one, NAMESPACE)
    ) is (True)
    assert labels.of_network_set({"metadata": {"name": "g", "labels": {"x": "1"}}}, None) == {
        "x": "1"
    }
    assert calico("projectcalico.org/orchestrator == 'k8s'").selects(
        labels.of_network_set(one, NAMESPACE)
    ) is (False)
