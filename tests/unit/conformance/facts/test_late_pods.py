# SPDX-License-Identifier: Apache-2.0
"""The status of pods that never became ready is kept, and of no other pods."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from conformance.errors import EnvironmentBroken
from conformance.facts.diagnostics_bundle import late_pods, states
from tests.unit.conformance.builders import a_pod


class Namespaces:
    """Pods by namespace; one that is no key cannot be listed."""

    there: ClassVar[dict[str, list[dict[str, Any]]]] = {
        "demo": [a_pod("late", namespace="demo", ready=False), a_pod("well", namespace="demo")],
        "demo-host": [],
    }

    def objects(self, api: str, kind: str, namespace: str) -> list[dict[str, Any]]:
        if namespace not in self.there:
            raise EnvironmentBroken("no")
        return self.there[namespace]


def test_only_pods_that_are_not_ready_are_late_and_a_namespace_that_cannot_be_read_hides_none() -> (
    None
):
    found = late_pods(Namespaces(), ["gone", "demo", "demo-host"])  # type: ignore[arg-type]
    assert [item["metadata"]["name"] for item in found] == ["late"]
    ((name, text),) = states(found).items()
    assert name == "status of pod late"
    assert json.loads(text)["conditions"][0]["status"] == "False"
