# SPDX-License-Identifier: Apache-2.0
"""System pods are found by the labels that the operator gives them."""

from __future__ import annotations

import pytest

from hybridlab.cluster.installs.calico import objects
from hybridlab.networks.registry import plane_of
from hybridlab.profiles.load import load


@pytest.mark.parametrize(
    "name",
    [
        "calico-node",
        "calico-node-windows",
        "calico-typha",
        "calico-kube-controllers",
        "calico-apiserver",
    ],
)
def test_pods_of_calico_are_found_by_their_app(name: str) -> None:
    """Calico's own tests, and what people type, look for calico-apiserver by it (tigera/operator adds the label)."""
    profile = load("default", [])
    plane = plane_of(profile)
    made = [
        obj
        for _, obj in objects(profile, plane, plane.declared())
        if obj["metadata"]["name"] == name
    ]
    templates = [
        obj["spec"]["template"]["metadata"]["labels"]
        for obj in made
        if "template" in obj.get("spec", {})
    ]
    assert [labels["k8s-app"] for labels in templates] == [name]
