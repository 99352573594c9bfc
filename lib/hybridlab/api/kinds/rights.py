# SPDX-License-Identifier: Apache-2.0
"""Roles and bindings: defaults and checks."""

from collections.abc import Iterable

from hybridlab.api.contract import Obj
from hybridlab.api.errors import Cause, invalid_value, required
from hybridlab.api.kinds.strategy import Strategy, path_segment_problem
from hybridlab.api.kinds.values import invalid_if, one_of

GROUP = "rbac.authorization.k8s.io"


class RoleStrategy(Strategy):
    """The rules of Roles and ClusterRoles."""

    def __init__(self, *, cluster: bool) -> None:
        self._cluster = cluster

    def name_problem(self, name: str) -> str | None:
        return path_segment_problem(name)

    def default(self, obj: Obj) -> None:
        if obj.get("rules") is None:
            obj["rules"] = []

    def validate(self, obj: Obj, old: Obj | None) -> Iterable[Cause]:
        for index, rule in enumerate(obj["rules"]):
            at = f"rules[{index}]"
            if not rule.get("verbs"):
                yield required(f"{at}.verbs", "verbs must contain at least one value")
            paths = rule.get("nonResourceURLs")
            if paths:
                yield from invalid_if(
                    not self._cluster,
                    f"{at}.nonResourceURLs",
                    paths,
                    "namespaced rules cannot apply to non-resource URLs",
                )
                yield from invalid_if(
                    rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"),
                    f"{at}.nonResourceURLs",
                    paths,
                    "rules cannot apply to both regular resources and non-resource URLs",
                )
                continue
            if not rule.get("apiGroups"):
                yield required(
                    f"{at}.apiGroups", "resource rules must supply at least one api group"
                )
            if not rule.get("resources"):
                yield required(
                    f"{at}.resources", "resource rules must supply at least one resource"
                )


class BindingStrategy(Strategy):
    """The rules of RoleBindings and ClusterRoleBindings."""

    def __init__(self, *, cluster: bool) -> None:
        self._cluster = cluster

    def name_problem(self, name: str) -> str | None:
        return path_segment_problem(name)

    def default(self, obj: Obj) -> None:
        obj["roleRef"].setdefault("apiGroup", GROUP)
        for subject in obj.get("subjects") or ():
            if subject.get("kind") in {"User", "Group"}:
                subject.setdefault("apiGroup", GROUP)

    def validate(self, obj: Obj, old: Obj | None) -> Iterable[Cause]:
        role = obj["roleRef"]
        allowed = ("ClusterRole",) if self._cluster else ("ClusterRole", "Role")
        yield from one_of("roleRef.kind", role["kind"], allowed)
        if not role.get("name"):
            yield required("roleRef.name")
        for index, subject in enumerate(obj.get("subjects") or ()):
            at = f"subjects[{index}]"
            yield from one_of(f"{at}.kind", subject["kind"], ("ServiceAccount", "User", "Group"))
            if subject["kind"] == "ServiceAccount" and not subject.get("namespace"):
                yield required(f"{at}.namespace")
        if old is not None and old["roleRef"] != role:
            shown = {"APIGroup": role["apiGroup"], "Kind": role["kind"], "Name": role["name"]}
            yield invalid_value("roleRef", shown, "cannot change roleRef")
