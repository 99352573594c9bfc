# SPDX-License-Identifier: Apache-2.0
"""A test's policy is applied as its manifest says, told of while it is in force, and gone afterwards."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from conformance.enforcement.applied_objects import AppliedObjects
from conformance.enforcement.policy import Policy
from conformance.errors import EnvironmentBroken, MissingCapability, UsageProblem
from conformance.model.change import ObjectRef
from conformance.pods.relabel import IRRELEVANT
from tests.unit.conformance.builders import a_workload


class Cluster:
    """Takes objects and gives them back; ``sticky`` ones stay when they are deleted."""

    def __init__(self, *sticky: str) -> None:
        self.there: dict[tuple[str, str, str | None], dict[str, Any]] = {}
        self.sticky = sticky
        self.deleted: list[str] = []
        self.dry_run = False
        self.run = SimpleNamespace(run="abc")
        self.kube = SimpleNamespace(discovery=SimpleNamespace(serves=lambda *_: True))
        self.waits = SimpleNamespace(gone=self.gone)

    def apply(self, obj: dict[str, Any], why: str, *, namespace: str | None = None) -> None:
        self.there[obj["kind"], obj["metadata"]["name"], namespace] = obj

    def delete(self, target: ObjectRef, why: str) -> None:
        if target.kind == "Tier" and any(kind == "NetworkPolicy" for kind, _, _ in self.there):
            raise EnvironmentBroken("Cannot delete a non-empty tier")
        self.deleted.append(target.name)
        if target.name not in self.sticky:
            self.there.pop((target.kind, target.name, target.namespace))

    def gone(self, target: ObjectRef, *, within: float) -> None:
        assert target.kind != "ServiceAccount", "the standard role may not read accounts"
        if (target.kind, target.name, target.namespace) in self.there:
            raise EnvironmentBroken(
                f"{target.label} is still there {within:.0f} s after its deletion"
            )


def policy(
    path: str, kubernetes: Cluster, calico: Cluster, attached: dict[str, str] | None = None
) -> Policy:
    seen: dict[str, str] = {} if attached is None else attached
    changes: Any = kubernetes
    writer: Any = calico
    applied = AppliedObjects(changes, lambda: writer, 60.0)
    return Policy(path, "demo", applied, attach=seen.__setitem__)


def test_kubernetes_policies_go_through_the_api_and_calicos_through_its_writer() -> None:
    for folder, position in (("kubernetes", 0), ("calico", 1)):
        both = (Cluster(), Cluster())
        policy(f"policy/{folder}/default_deny_ingress.yaml", *both).apply(server=a_workload("web"))
        assert list(both[position].there) == [("NetworkPolicy", "nobody-enters-client", "demo")]
        assert not both[1 - position].there


def test_a_global_policy_has_no_namespace_and_selects_the_workers() -> None:
    calico = Cluster()
    policy("policy/calico/global_deny.yaml", Cluster(), calico).apply(server=a_workload("web"))
    ((kind, name, namespace),) = calico.there
    assert (kind, name, namespace) == ("GlobalNetworkPolicy", "demo-nobody-enters-client", None)
    (made,) = calico.there.values()
    assert made["spec"]["namespaceSelector"] == "kubernetes.io/metadata.name == 'demo'"


def test_a_tier_has_no_namespace_is_made_before_its_policies_and_removed_after_them() -> None:
    calico = Cluster()
    one = policy("policy/calico/edited_behind_a_tier.yaml", calico, calico)
    one.apply(server=a_workload("web"), action="Allow")
    assert list(calico.there) == [
        ("Tier", "demo-first", None),
        ("NetworkPolicy", "demo-first.pass-everybody-client", "demo"),
        ("NetworkPolicy", "edited-behind-the-tier-client", "demo"),
    ]
    assert one.change is not None
    assert one.change.enforced_at == "target"
    one.remove()
    assert not calico.there


def test_what_is_in_force_is_told_and_attached_until_it_is_removed() -> None:
    calico, attached = Cluster(), dict[str, str]()
    one = policy("policy/calico/allow_before_deny.yaml", Cluster(), calico, attached)
    one.apply(server=a_workload("web"), friend=a_workload("friend"))
    assert [line.partition(",")[0] for line in one.in_force()] == [
        "NetworkPolicy demo/first-allow-the-friend-client (projectcalico.org/v3)",
        "NetworkPolicy demo/then-deny-everybody-client (projectcalico.org/v3)",
    ]
    assert "app == 'client'" in attached["policies in force"]
    one.remove()
    assert one.in_force() == []
    assert not calico.there


def test_one_of_several_policies_is_withdrawn_and_the_others_stay() -> None:
    calico = Cluster()
    one = policy("policy/calico/allow_before_deny.yaml", Cluster(), calico)
    one.apply(server=a_workload("web"), friend=a_workload("friend"))
    one.without("then-deny-everybody-client").apply()
    assert [name for _, name, _ in calico.there] == ["first-allow-the-friend-client"]
    assert one.change is not None
    assert (
        one.change.what
        == "removal of NetworkPolicy demo/then-deny-everybody-client (projectcalico.org/v3)"
    )
    with pytest.raises(
        UsageProblem,
        match="no policy then-deny-everybody-client of manifest policy/calico/allow_before",
    ):
        one.withdraw("then-deny-everybody-client")


def test_what_is_no_business_of_the_selected_leaves_policies_as_they_are_and_goes_with_them() -> (
    None
):
    for path, came in (
        (
            "in_and_out",
            [
                ("ServiceAccount", "nobodys"),
                ("NetworkSet", "nobodys"),
                ("NetworkPolicy", "about-nobody"),
            ],
        ),
        ("only_the_friend", [("ServiceAccount", "nobodys"), ("NetworkPolicy", "about-nobody")]),
    ):
        cluster = Cluster()
        one = policy(f"policy/over-time/{path}.yaml", cluster, cluster)
        one.apply(server=a_workload("web"), friend=a_workload("friend"))
        before, change = dict(cluster.there), one.change
        one.stir()
        for key, obj in before.items():
            now = cluster.there[key]
            assert now["spec"] == obj["spec"]
            assert (
                now["metadata"]["labels"] == now["metadata"]["annotations"] == {IRRELEVANT: "yes"}
            )
        assert [key[:2] for key in cluster.there if key not in before] == came
        went_once = [name for _, name in reversed(came)]
        assert cluster.deleted == [name for _, name, _ in reversed(before)] + went_once
        assert one.change is change
        one.remove()
        assert not cluster.there


def test_a_policy_that_stays_is_told_and_does_not_keep_the_others() -> None:
    calico = Cluster("first-allow-the-friend-client")
    one = policy("policy/calico/allow_before_deny.yaml", calico, calico)
    one.apply(server=a_workload("web"), friend=a_workload("friend"))
    with pytest.raises(
        EnvironmentBroken, match=r"first-allow-the-friend-client .* is still there 60 s"
    ):
        one.remove()
    assert [name for _, name, _ in calico.there] == ["first-allow-the-friend-client"]


def test_a_value_that_the_manifest_ignores_is_refused_before_anything_is_applied() -> None:
    kubernetes = Cluster()
    with pytest.raises(UsageProblem, match="has no placeholder for friend"):
        policy("policy/kubernetes/default_deny_ingress.yaml", kubernetes, Cluster()).apply(
            server=a_workload("web"), friend=a_workload("friend")
        )
    assert not kubernetes.there


def test_where_calico_policies_cannot_be_written_there_is_nothing_to_remove() -> None:
    class Unwritable(Cluster):
        def apply(self, obj: dict[str, Any], why: str, *, namespace: str | None = None) -> None:
            raise MissingCapability(
                "projectcalico.org/v3 is not served", "install Calico's API server"
            )

        def delete(self, target: ObjectRef, why: str) -> None:
            raise MissingCapability(
                "projectcalico.org/v3 is not served", "install Calico's API server"
            )

    one = policy("policy/calico/default_deny_ingress.yaml", Cluster(), Unwritable())
    with pytest.raises(MissingCapability):
        one.apply(server=a_workload("web"))
    one.remove()
    assert one.in_force() == []
