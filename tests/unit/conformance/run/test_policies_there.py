"""Policies that may be in force at some pods: those whose selectors choose them, and those that went a moment ago."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.errors import SuiteError
from conformance.facts import policies_there
from conformance.facts.policies_there import PoliciesThere, label_selector
from conformance.model.endpoint import Workload
from tests.unit.conformance.expect.stand_ins import workload

SERVER = workload("server")


def policy(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec}


class Cluster:
    """Lists by API, kind and namespace; selectors choose the pods that the test says."""

    def __init__(self, served: set[str], **chosen: set[str]) -> None:
        self.served, self.chosen = served, chosen
        self.lists: dict[tuple[str, str, str | None], list[dict[str, Any]]] = {}
        self.forbidden: set[str] = set()

    @property
    def discovery(self) -> Cluster:
        return self

    def serves(self, api: str, kind: str) -> bool:
        return api in self.served

    def objects(self, api: str, kind: str, space: str | None, *, labels: str = "") -> list[dict[str, Any]]:
        if api in self.forbidden:
            raise SuiteError("no right")
        if kind == "Pod":
            return [{"metadata": {"name": name}} for name in self.chosen.get(labels.partition("=")[2], set())]
        return self.lists.get((api, kind, space), [])


def there(cluster: Any, *pods: Workload) -> list[str]:
    return PoliciesThere(cluster)(pods or [SERVER])


KUBERNETES, V3, CRD = "networking.k8s.io/v1", "projectcalico.org/v3", "crd.projectcalico.org/v1"


def test_kubernetes_policies_are_named_that_choose_one_of_the_pods() -> None:
    cluster = Cluster(set(), web={"server", "other"}, db={"db-1"})
    cluster.lists[KUBERNETES, "NetworkPolicy", "ns"] = [
        policy("deny", podSelector={"matchLabels": {"app": "web"}}),
        policy("other", podSelector={"matchLabels": {"app": "db"}}),
    ]
    assert there(cluster) == ["NetworkPolicy ns/deny (networking.k8s.io/v1)"]


@pytest.mark.parametrize(("served", "read"), [({V3, CRD}, V3), ({CRD}, CRD)])
def test_calicos_are_named_once_through_the_api_that_is_served_and_kubernetes_twins_are_not(
    served: set[str], read: str
) -> None:
    cluster = Cluster(served)
    for api in (V3, CRD):
        cluster.lists[api, "NetworkPolicy", "ns"] = [policy("default.deny"), policy("knp.default.deny")]
        cluster.lists[api, "GlobalNetworkPolicy", None] = [policy("company-wide")]
    assert there(cluster) == [f"NetworkPolicy ns/default.deny ({read})", f"GlobalNetworkPolicy company-wide ({read})"]


def test_what_may_not_be_read_is_left_out() -> None:
    cluster = Cluster({V3})
    cluster.forbidden = {V3, KUBERNETES}
    assert there(cluster) == []


def test_a_policy_that_went_a_moment_ago_is_named_with_its_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("conformance.facts.policies_there.time.monotonic", lambda: now)
    cluster: Any = Cluster(set())
    known = PoliciesThere(cluster)
    known.went("NetworkPolicy ns/deny (networking.k8s.io/v1)")
    now += 4
    assert known([SERVER]) == ["NetworkPolicy ns/deny (networking.k8s.io/v1), deleted 4 s ago"]
    now += policies_there.RECENTLY
    assert known([SERVER]) == []


def test_selectors_are_written_as_lists_take_them() -> None:
    expressions = [
        {"key": "tier", "operator": "In", "values": ["a", "b"]},
        {"key": "tier", "operator": "NotIn", "values": ["c"]},
        {"key": "team", "operator": "Exists"},
        {"key": "old", "operator": "DoesNotExist"},
    ]
    selector = {"matchLabels": {"app": "web"}, "matchExpressions": expressions}
    assert label_selector(selector) == "app=web,tier in (a,b),tier notin (c),team,!old"
    assert label_selector({}) == ""
