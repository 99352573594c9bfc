# SPDX-License-Identifier: Apache-2.0
"""The tiers of a run are created with their policies, edited, and removed after them; those of a
dead run are removed as well."""

from __future__ import annotations

import pytest

from conformance.enforcement.applied_objects import AppliedObjects
from conformance.enforcement.policy import Policy
from conformance.facts.calico_api import CalicoApi
from conformance.kube.changes import Changes
from conformance.kube.client import Kube
from conformance.kube.guard import GuardRefused
from conformance.kube.ownership import Ownership
from conformance.model.change import ObjectRef
from conformance.model.endpoint import Workload
from conformance.undo.cleanup import clean_up

V3 = "projectcalico.org/v3"
RUN = Ownership("t1", "gw0")
SERVER = Workload(
    namespace=RUN.namespace, pod="p", container="c", uid="u", role="server", os="windows", node="windows",
    address="192.168.0.9", node_address="10.0.0.12",
)  # fmt: skip


@pytest.fixture
def policy(kube: Kube) -> Policy:
    changes = Changes(kube, RUN)
    changes.namespace(RUN.namespace, why="a test")
    calico = CalicoApi(kube, changes)
    path = "policy/calico/edited_behind_a_tier.yaml"
    applied = AppliedObjects(changes, lambda: calico, 10.0)
    return Policy(path, RUN.namespace, applied, attach=lambda name, text: None)


def tiers(kube: Kube) -> set[str]:
    names = {str(tier["metadata"]["name"]) for tier in kube.objects(V3, "Tier")}
    return {name for name in names if name.startswith(RUN.namespace)}


def test_a_tests_tier_is_made_edited_and_removed_with_its_policies(
    kube: Kube, policy: Policy
) -> None:
    policy.apply(server=SERVER, action="Allow")
    made = kube.get(V3, "Tier", f"{RUN.namespace}-first")
    policy.apply(server=SERVER, action="Deny")
    assert (
        kube.get(V3, "Tier", f"{RUN.namespace}-first")["metadata"]["uid"] == made["metadata"]["uid"]
    )
    assert made["spec"] == {"order": 5000, "defaultAction": "Pass"}
    policy.remove()
    assert tiers(kube) == set()
    assert kube.objects(V3, "NetworkPolicy", RUN.namespace) == []


def test_the_tiers_of_a_dead_run_go_after_its_namespaces_and_nobody_elses_do(
    kube: Kube, policy: Policy
) -> None:
    policy.apply(server=SERVER, action="Allow")
    told = clean_up(kube, RUN.run, within=20.0)
    assert [line.partition(" was left")[0] for line in told] == [
        f"Namespace {RUN.namespace} (v1)",
        f"Tier {RUN.namespace}-first (projectcalico.org/v3)",
    ]
    assert all(line.endswith("is removed") for line in told)
    assert tiers(kube) == set()
    default = ObjectRef(api_version=V3, kind="Tier", name="default")
    with pytest.raises(GuardRefused, match="a name that begins with a namespace of this run"):
        Changes(kube, RUN).delete(default, "a test", foreign=True)
