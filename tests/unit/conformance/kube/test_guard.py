# SPDX-License-Identifier: Apache-2.0
"""No change reaches outside the run, and the reach of a policy is proved from its selectors."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.kube.guard import GuardRefused, check, limits, merged
from conformance.kube.ownership import Ownership, Shared
from conformance.model.change import Change, ObjectRef

RUN = Ownership("r1", "gw0")
NAME = {"kubernetes.io/metadata.name": "calico-demo-r1-watch"}
KEYS = ("projectcalico.org/namespace",)

LIMITED = [
    'projectcalico.org/namespace == "calico-demo-r1-gw0"',
    "projectcalico.org/namespace=='calico-demo-r1-gw0'&&app=='x'",
    "app == 'x' && projectcalico.org/namespace == 'calico-demo-r1-gw0'",
    "projectcalico.org/namespace == 'calico-demo-r1-gw0'",
    "projectcalico.org/namespace in {'calico-demo-r1-gw0', 'calico-demo-r1-gw1'}",
    "projectcalico.org/namespace starts with 'calico-demo-r1-gw'",
    "(app == 'x' || app == 'y') && projectcalico.org/namespace == 'calico-demo-r1-gw0'",
    "(projectcalico.org/namespace == 'calico-demo-r1-gw1' && app == 'x') || "
    "projectcalico.org/namespace == 'calico-demo-r1-gw0'",
    "projectcalico.org/namespace in { 'calico-demo-r1-gw0' } && !has(role)",
]
UNLIMITED = [
    "all()",
    "",
    "app == 'x'",
    "calico-conformance/run == 'r1'",
    "projectcalico.org/namespace == 'calico-demo-r1-watch'",
    "projectcalico.org/namespace == 'calico-demo-r1-watch-elsewhere'",
    "projectcalico.org/namespace in {'calico-demo-r1-gw0', 'calico-demo-r1-watch'}",
    "projectcalico.org/namespace starts with 'calico-demo-r1-'",
    "projectcalico.org/namespace starts with 'calico-demo-r1-wa'",
    "projectcalico.org/namespace == 'calico-demo-r1-gw0' || app == 'x'",
    "!(projectcalico.org/namespace == 'calico-demo-r1-gw0')",
    "! projectcalico.org/namespace == 'calico-demo-r1-gw0'",
    "projectcalico.org/namespace != 'calico-demo-r1-gw0'",
    "has(projectcalico.org/namespace)",
    "projectcalico.org/namespace == 'default'",
    "projectcalico.org/namespace in {'calico-demo-r1-gw0', 'default'}",
    "projectcalico.org/namespace not in {'calico-demo-r1-gw0'}",
    "projectcalico.org/namespace starts with 'calico-demo-'",
    "projectcalico.org/namespace starts with 'calico-demo-r1'",
    "projectcalico.org/namespace ends with 'calico-demo-r1-gw0'",
    "projectcalico.org/namespace contains 'calico-demo-r1-'",
    "projectcalico.org/namespace == 'calico-demo-r11-gw0'",
    "projectcalico.org/namespace == 'calico-demo-r1-gw0' app",
    "projectcalico.org/namespace == 'calico-demo-r1-gw0' &&",
    "projectcalico.org/namespace == calico-demo-r1-gw0",
    "(projectcalico.org/namespace == 'calico-demo-r1-gw0'",
    "projectcalico.org/namespace % 'calico-demo-r1-gw0'",
]


@pytest.mark.parametrize("selector", LIMITED)
def test_a_selector_that_can_only_match_the_run_is_recognised(selector: str) -> None:
    assert limits(selector, KEYS, RUN)


@pytest.mark.parametrize("selector", UNLIMITED)
def test_a_selector_that_may_match_more_or_cannot_be_read_is_not_believed(selector: str) -> None:
    assert not limits(selector, KEYS, RUN)


def policy(
    spec: dict[str, Any] | None,
    verb: Any = "create",
    kind: str = "GlobalNetworkPolicy",
    **more: Any,
) -> Change:
    target = ObjectRef(api_version="projectcalico.org/v3", kind=kind, name="p")
    return Change(
        verb=verb,
        target=target,
        why="a test",
        body=None if spec is None else {"spec": spec},
        **more,
    )


@pytest.mark.parametrize("flag", [False, True])
@pytest.mark.parametrize(
    "spec",
    [
        {"selector": "all()"},
        {},
        {"namespaceSelector": "kubernetes.io/metadata.name == 'default'"},
        {
            "selector": "app == 'x'",
            "namespaceSelector": "projectcalico.org/name == 'calico-demo-r1-gw0'",
            "applyOnForward": True,
        },
    ],
)
def test_an_unlimited_global_policy_is_refused_whatever_the_change_declares(
    spec: dict[str, Any], flag: bool
) -> None:
    with pytest.raises(GuardRefused):
        check(policy(spec, cluster_scoped_or_foreign=flag), RUN)


@pytest.mark.parametrize("field", ["applyOnForward", "preDNAT", "doNotTrack"])
def test_a_policy_for_hosts_is_let_through_only_where_no_host_endpoint_can_match_it(
    field: str,
) -> None:
    own = "projectcalico.org/namespace == 'calico-demo-r1-gw0' && app == 'windows-server'"
    check(policy({"selector": own, field: True}), RUN)
    by_namespace = {"namespaceSelector": "kubernetes.io/metadata.name == 'calico-demo-r1-gw0'"}
    for spec in ({"selector": "all()"}, {}, by_namespace, {"selector": f"{own} || has(host)"}):
        with pytest.raises(GuardRefused, match="makes the policy apply to host endpoints, too"):
            check(policy({**spec, field: True}), RUN)


def test_the_refusal_says_what_to_write_instead() -> None:
    with pytest.raises(
        GuardRefused, match=r"add namespaceSelector: projectcalico.org/name == 'calico-demo-r1-gw0'"
    ):
        check(policy({"selector": "all()"}), RUN)


def test_a_global_policy_limited_by_namespace_is_let_through() -> None:
    check(
        policy(
            {
                "selector": "all()",
                "namespaceSelector": "kubernetes.io/metadata.name == 'calico-demo-r1-gw0'",
            }
        ),
        RUN,
    )
    check(policy({"namespaceSelector": "projectcalico.org/name == 'calico-demo-r1-gw0'"}), RUN)


def test_what_concerns_the_standing_watch_is_refused_to_all_but_the_watch() -> None:
    for subject in (
        {"matchLabels": {"calico-conformance/run": "r1"}},
        {"matchLabels": NAME | {"a": "b"}},
    ):
        with pytest.raises(GuardRefused, match="standing watch"):
            check(policy({"subject": {"namespaces": subject}}, kind="AdminNetworkPolicy"), RUN)
    own = ObjectRef(
        api_version="networking.k8s.io/v1",
        kind="NetworkPolicy",
        name="p",
        namespace="calico-demo-r1-watch",
    )
    with pytest.raises(GuardRefused, match="no test may select"):
        check(Change(verb="create", target=own, why="a test", body={}), RUN)
    check(Change(verb="create", target=own, why="it watches", body={}), Ownership("r1", "watch"))
    pod = ObjectRef(api_version="v1", kind="Pod", name="p", namespace="calico-demo-r1-watch")
    check(Change(verb="evict", target=pod, why="its node is drained"), RUN)


def test_a_host_endpoint_is_refused() -> None:
    with pytest.raises(GuardRefused, match="no run owns"):
        check(policy({"node": "n"}, kind="HostEndpoint", cluster_scoped_or_foreign=True), RUN)


def test_admin_policies_are_limited_by_their_subject() -> None:
    ours = {
        "subject": {
            "namespaces": {"matchLabels": {"kubernetes.io/metadata.name": "calico-demo-r1-gw0"}}
        }
    }
    check(policy(ours, kind="AdminNetworkPolicy"), RUN)
    inside = {
        "operator": "In",
        "key": "kubernetes.io/metadata.name",
        "values": ["calico-demo-r1-gw0"],
    }
    check(
        policy(
            {"subject": {"pods": {"namespaceSelector": {"matchExpressions": [inside]}}}},
            kind="ClusterNetworkPolicy",
        ),
        RUN,
    )
    subjects: list[dict[str, Any]] = [
        {"namespaces": {}},
        {"namespaces": {"matchLabels": {"a": "b"}}},
        {},
    ]
    for subject in subjects:
        with pytest.raises(GuardRefused):
            check(policy({"subject": subject}, kind="AdminNetworkPolicy"), RUN)


def test_a_patch_is_judged_by_what_it_makes_of_the_object() -> None:
    current = {
        "spec": {
            "selector": "app == 'x'",
            "namespaceSelector": "projectcalico.org/name == 'calico-demo-r1-gw0'",
        }
    }
    check(policy({"order": 5}, verb="patch"), RUN, current)
    with pytest.raises(GuardRefused):
        check(policy({"namespaceSelector": None}, verb="patch"), RUN, current)


def test_only_our_own_global_policy_is_deleted() -> None:
    with pytest.raises(GuardRefused, match="so it does not belong to this run"):
        check(policy(None, verb="delete"), RUN, {"metadata": {"name": "p"}})
    check(policy(None, verb="delete"), RUN, RUN.sign({"metadata": {"name": "p"}}))


def tier(name: str, verb: Any = "create") -> Change:
    target = ObjectRef(api_version="projectcalico.org/v3", kind="Tier", name=name)
    body = {"spec": {"order": 5000}}
    return Change(verb=verb, target=target, why="a test", body=body, cluster_scoped_or_foreign=True)


@pytest.mark.parametrize(
    "name", ["default", "calico-system", "calico-demo-r2-gw0-first", "calico-demo-r1"]
)
@pytest.mark.parametrize("verb", ["create", "apply", "patch", "delete"])
def test_a_tier_of_another_name_than_the_runs_is_refused(name: str, verb: str) -> None:
    with pytest.raises(GuardRefused, match="a name that begins with a namespace of this run"):
        check(tier(name, verb), RUN, RUN.sign({"metadata": {"name": name}}))


def test_a_tier_of_the_run_is_made_and_only_its_own_is_deleted() -> None:
    name = "calico-demo-r1-gw0-first"
    check(tier(name), RUN)
    check(tier(name, "delete"), RUN, RUN.sign({"metadata": {"name": name}}))
    with pytest.raises(GuardRefused, match="so it does not belong to this run"):
        check(tier(name, "delete"), RUN, {"metadata": {"name": name}})


@pytest.mark.parametrize("namespace", ["default", "calico-demo-r2-gw0", "calico-demo-r1", None])
def test_a_change_outside_the_run_must_declare_itself(namespace: str | None) -> None:
    target = ObjectRef(api_version="v1", kind="ConfigMap", name="c", namespace=namespace)
    with pytest.raises(GuardRefused, match="cluster_scoped_or_foreign=True"):
        check(Change(verb="create", target=target, why="x"), RUN)
    check(Change(verb="create", target=target, why="x", cluster_scoped_or_foreign=True), RUN)


def test_a_change_inside_any_namespace_of_the_run_is_let_through() -> None:
    for name in ("calico-demo-r1-gw0", "calico-demo-r1-gw7-host"):
        check(
            Change(
                verb="create",
                target=ObjectRef(api_version="v1", kind="Pod", name="p", namespace=name),
                why="x",
            ),
            RUN,
        )
        check(
            Change(
                verb="delete",
                target=ObjectRef(api_version="v1", kind="Namespace", name=name),
                why="x",
            ),
            RUN,
        )


def test_merge_patch_removes_replaces_and_keeps() -> None:
    assert merged({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": None}, "e": [1]}) == {
        "a": {"c": 2},
        "d": 3,
        "e": [1],
    }


@pytest.mark.parametrize("verb", ["create", "patch", "delete"])
@pytest.mark.parametrize(
    ("kind", "name", "namespace"),
    [
        ("Pod", "conformance-x", "calico-conformance"),
        ("NetworkPolicy", "deny", "calico-conformance"),
        ("ServiceAccount", "runner", "calico-conformance"),
        ("Namespace", "calico-conformance", None),
    ],
)
def test_no_run_changes_the_namespace_of_runs_in_the_cluster(
    verb: Any, kind: str, name: str, namespace: str | None
) -> None:
    target = ObjectRef(api_version="v1", kind=kind, name=name, namespace=namespace)
    change = Change(verb=verb, target=target, why="x", body={}, cluster_scoped_or_foreign=True)
    refused = "namespace calico-conformance holds the suite's users or this run's own pod"
    for own in ("", "calico-conformance", "sonobuoy"):
        with pytest.raises(GuardRefused, match=refused):
            check(change, RUN, own=own)
    check(change, Shared("runner"))


@pytest.mark.parametrize(
    ("kind", "name", "namespace"),
    [("Pod", "sonobuoy", "sonobuoy"), ("Namespace", "sonobuoy", None)],
)
def test_no_run_changes_the_namespace_of_its_own_pod(
    kind: str, name: str, namespace: str | None
) -> None:
    target = ObjectRef(api_version="v1", kind=kind, name=name, namespace=namespace)
    change = Change(verb="delete", target=target, why="x", cluster_scoped_or_foreign=True)
    with pytest.raises(
        GuardRefused, match="namespace sonobuoy holds the suite's users or this run's own pod"
    ):
        check(change, RUN, own="sonobuoy")
    check(change, RUN)
    check(change, RUN, own="another")


def test_a_run_outside_of_pods_changes_what_has_no_namespace() -> None:
    node = ObjectRef(api_version="v1", kind="Node", name="linux-1", namespace="")
    check(Change(verb="patch", target=node, why="x", body={}, cluster_scoped_or_foreign=True), RUN)


@pytest.mark.parametrize("key", ["projectcalico.org/name", "kubernetes.io/metadata.name"])
def test_no_policy_of_the_cluster_selects_the_namespace_of_runs_in_it(key: str) -> None:
    body = {"spec": {"namespaceSelector": f"{key} == 'calico-conformance'"}}
    target = ObjectRef(api_version="projectcalico.org/v3", kind="GlobalNetworkPolicy", name="x")
    change = Change(verb="create", target=target, why="x", body=body)
    with pytest.raises(GuardRefused, match="is not limited to this run's test namespaces"):
        check(change, RUN)
