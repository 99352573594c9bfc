# SPDX-License-Identifier: Apache-2.0
"""A pool of the run's own is made disabled, and whether the API takes another blockSize of it decides."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from conformance.disrupt.own_pool import OwnPool
from conformance.errors import MissingCapability, Nonconformance
from conformance.kube.refused import ApiRefused

REFUSED = ApiRefused(
    422, "Invalid", "spec.blockSize: IPPool BlockSize cannot be modified", "PATCH ippools"
)


class Cluster:
    """One pool with VXLAN; a patch ends as ``answer``."""

    def __init__(self, answer: ApiRefused | None) -> None:
        self.made: dict[str, Any] = {}
        self.decided: list[Any] = []
        pools = [{"spec": {"vxlanMode": "Always", "ipipMode": "Never"}}]
        run, kube = (
            SimpleNamespace(namespace="calico-demo-a-main"),
            SimpleNamespace(objects=lambda *_: pools),
        )
        self.changes = SimpleNamespace(run=run, kube=kube)
        self.answer = answer

    def create(self, obj: dict[str, Any], why: str) -> None:
        self.made = obj

    def patch(self, target: Any, patch: Any, why: str) -> None:
        assert (target.kind, target.name, patch) == (
            "IPPool",
            "calico-demo-a-main-pool",
            {"spec": {"blockSize": 25}},
        )
        if self.answer:
            raise self.answer

    def ask(self) -> None:
        context: Any = SimpleNamespace(as_expected=lambda *told: self.decided.append(told[1]))
        OwnPool(self, context).keeps_its_block_size(because="blocks have the size of then")  # type: ignore[arg-type]


def test_a_refusal_confirms_and_nobody_gets_an_address_of_the_pool() -> None:
    cluster = Cluster(REFUSED)
    cluster.ask()
    assert cluster.decided == ["behaviour"]
    spec = cluster.made["spec"]
    assert (spec["disabled"], spec["nodeSelector"], spec["natOutgoing"], spec["vxlanMode"]) == (
        True, "!all()", False, "Always",
    )  # fmt: skip


def test_another_size_that_is_taken_is_a_violation() -> None:
    with pytest.raises(
        Nonconformance, match=r"IPAM-5  blockSize .* expected to be refused, observed /26 -> /25"
    ):
        Cluster(None).ask()


def test_who_may_not_make_pools_is_told_the_role() -> None:
    with pytest.raises(MissingCapability, match=r"bind the role of manifests/rbac/pools\.yaml"):
        Cluster(ApiRefused(403, "Forbidden", "may not patch ippools", "PATCH ippools")).ask()


def test_another_refusal_is_none() -> None:
    with pytest.raises(ApiRefused):
        Cluster(ApiRefused(422, "Invalid", "spec.cidr: overlaps", "POST ippools")).ask()
