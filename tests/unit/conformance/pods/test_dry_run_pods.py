# SPDX-License-Identifier: Apache-2.0
"""Pods that a dry run does not create are told apart like the pods that it would create."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from conformance.kube.ownership import Ownership
from conformance.pods.deploy import Pods, Wish
from conformance.settings import Settings
from tests.unit.conformance.builders import a_node, some_facts


def test_pods_of_one_name_in_two_namespaces_are_two_pods() -> None:
    node = a_node("linux-1")
    changes: Any = SimpleNamespace(run=Ownership("ab12", "gw0"), dry_run=True)
    kube: Any = SimpleNamespace(objects=lambda *_, **__: [])
    pods = Pods(kube, changes, some_facts(node), Settings())
    here = Wish(role="linux-client", node=node, name="client")
    there = Wish(role="linux-client", node=node, name="client", namespace="elsewhere")
    uids = {pods._imagined(wish).uid for wish in (here, there)}
    assert len(uids) == 2
