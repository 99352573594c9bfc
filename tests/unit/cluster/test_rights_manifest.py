"""manifests/rbac/runner.yaml grants everything that the preflight asks for, so that it is enough to apply it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from conformance.cluster.preflight import RIGHTS
from conformance.kube.rights import Right
from conformance.pods.roles import MANIFESTS

RULES: list[dict[str, Any]] = next(
    one["rules"]
    for one in yaml.safe_load_all((MANIFESTS / "rbac" / "runner.yaml").read_text())
    if one["kind"] == "ClusterRole"
)


def granted(right: Right) -> bool:
    return any(
        right.group in rule["apiGroups"] and right.resource in rule["resources"] and right.verb in rule["verbs"]
        for rule in RULES
    )


@pytest.mark.parametrize("right", RIGHTS, ids=lambda right: right.label.replace(" ", "-"))
def test_the_manifest_grants_what_the_preflight_asks_for(right: Right) -> None:
    assert granted(right)


def test_a_right_that_nobody_grants_is_noticed() -> None:
    assert not granted(Right("delete", "nodes"))
