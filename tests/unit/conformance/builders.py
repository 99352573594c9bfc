# SPDX-License-Identifier: Apache-2.0
"""Small complete objects for tests of the judge; keywords replace what a test is about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from conformance.model.endpoint import OS, Workload


def a_workload(name: str = "client", os: OS = "linux", /, **fields: Any) -> Workload:
    """Return a client pod on the first node of an operating system."""
    pod = Workload(
        namespace="ns",
        pod=name,
        container="main",
        uid=f"uid-{name}",
        role="client",
        os=os,
        node=f"{os}-1",
        address="192.168.0.5",
        node_address="10.0.0.11",
    )
    return replace(pod, **fields)
