# SPDX-License-Identifier: Apache-2.0
"""An object of a world selects only pods of the world, whatever a user writes."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.enforcement.worlds import unlimited

SPACES = ("run-gw0-a", "run-gw0-b")
GLOBAL = "GlobalNetworkPolicy"
BOTH = "kubernetes.io/metadata.name in {'run-gw0-a', 'run-gw0-b'}"
NAMES_NONE = "does not name the world's own namespaces by kubernetes.io/metadata.name"


def an_object(kind: str, name: str = "p-run-gw0-a", namespace: str = "", selector: str = "") -> Any:
    spec = {"namespaceSelector": selector} if selector else None
    return {"kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec}


@pytest.mark.parametrize(
    ("obj", "why"),
    [
        pytest.param(an_object("NetworkPolicy", namespace="run-gw0-a"), "", id="in its namespace"),
        pytest.param(
            an_object("NetworkPolicy", namespace="default"),
            "namespace default is not a namespace of the world",
            id="in another",
        ),
        pytest.param(
            an_object("Namespace"),
            "a world may have no cluster-scoped object except policies and tiers",
            id="another kind",
        ),
        pytest.param(
            an_object(GLOBAL, "deny-all", selector=BOTH),
            "deny-all may collide with another worker's object: its name must contain ${a} or ${b}",
            id="a name of every worker",
        ),
        pytest.param(an_object("Tier"), "", id="a tier of its own"),
        pytest.param(
            an_object("Tier", "security"),
            "security may collide with another worker's object: its name must contain ${a} or ${b}",
            id="somebody's tier",
        ),
        pytest.param(an_object(GLOBAL, selector=BOTH), "", id="both namespaces"),
        pytest.param(
            an_object(GLOBAL, selector="kubernetes.io/metadata.name == 'run-gw0-b'"),
            "",
            id="one of them",
        ),
        pytest.param(an_object(GLOBAL), f"namespaceSelector '' {NAMES_NONE}", id="no selector"),
        pytest.param(
            an_object(GLOBAL, selector="all()"),
            f"namespaceSelector 'all()' {NAMES_NONE}",
            id="all namespaces",
        ),
        pytest.param(
            an_object(GLOBAL, selector="kubernetes.io/metadata.name == 'default'"),
            f"namespaceSelector \"kubernetes.io/metadata.name == 'default'\" {NAMES_NONE}",
            id="another namespace",
        ),
        pytest.param(
            an_object(GLOBAL, selector="team == 'run-gw0-a'"),
            f"namespaceSelector \"team == 'run-gw0-a'\" {NAMES_NONE}",
            id="another label",
        ),
    ],
)
def test_an_object_that_could_select_others_says_why(obj: Any, why: str) -> None:
    assert unlimited(obj, SPACES) == why
