# SPDX-License-Identifier: Apache-2.0
"""RBAC from the Roles and bindings that are in the store right now.

Members of system:masters may do everything. For Calico's tiered policies the rules of
calico-apiserver apply in addition: ``get`` on the tier, and the verb on the pseudo-resource
``tier.networkpolicies``. Aggregated ClusterRoles are not emulated.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hybridlab.api.authentication import ACCOUNT
from hybridlab.api.contract import Obj
from hybridlab.api.errors import forbidden
from hybridlab.api.kinds.rights import GROUP
from hybridlab.api.requests import MASTERS, Target, User
from hybridlab.api.resources import V3
from hybridlab.api.store import Change, Key, Store
from hybridlab.api.views import TIERED

_BUCKETS = frozenset(
    f"{plural}.{GROUP}"
    for plural in ("roles", "clusterroles", "rolebindings", "clusterrolebindings")
)


class Attributes(NamedTuple):
    """The attributes of a request that needs permission."""

    verb: str
    group: str = ""
    resource: str = ""
    """The resource: ``pods`` or ``pods/exec``."""
    namespace: str = ""
    name: str = ""
    path: str = ""
    """The path of a request that names no resource."""


@dataclass(frozen=True)
class Grant:
    """A rule that a subject has, in one namespace ("" for all)."""

    namespace: str
    rule: Obj
    why: str


class Authorizer:
    """Decides by RBAC whether a request is allowed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._grants: dict[str, list[Grant]] | None = None
        store.listeners.append(self._on_change)

    def _on_change(self, storage: str, key: Key, change: Change) -> None:
        if storage in _BUCKETS:
            self._grants = None

    def check(self, user: User, verb: str, target: Target) -> None:
        """Raise ApiError 403 unless the request is allowed."""
        resource, namespace, name, subresource = target
        full = f"{resource.plural}/{subresource}" if subresource else resource.plural
        self.require(user, Attributes(verb, resource.group, full, namespace, name))

    def require(self, user: User, asked: Attributes) -> None:
        """Raise ApiError 403, worded as the real server words it, unless the request is allowed."""
        if self.allows(user, asked) is None:
            where = (
                f'in the namespace "{asked.namespace}"'
                if asked.namespace
                else "at the cluster scope"
            )
            what = f'resource "{asked.resource}" in API group "{asked.group}"'
            why = f'User "{user.name}" cannot {asked.verb} {what} {where}'
            raise forbidden(asked.resource.partition("/")[0], asked.group, asked.name, why)

    def check_tier(self, user: User, verb: str, target: Target, tier: str) -> None:
        """Raise ApiError 403 unless the user may use the verb on policies of a tier of
        projectcalico.org/v3."""
        resource = target.resource
        if MASTERS in user.groups or resource.group != V3 or resource.storage_kind not in TIERED:
            return
        may_get = self.allows(user, Attributes("get", V3, "tiers", "", tier)) is not None
        pseudo = f"tier.{resource.plural}"
        names = (f"{tier}.*", target.name)
        granted = any(
            self.allows(user, Attributes(verb, V3, pseudo, target.namespace, name))
            for name in names
        )
        if may_get and granted:
            return
        where = f' and namespace "{target.namespace}"' if target.namespace else ""
        hint = "" if may_get else " (user cannot get tier)"
        why = f'User "{user.name}" cannot {verb} {resource.name} in tier "{tier}"{where}{hint}'
        raise forbidden(resource.plural, resource.group, target.name, why)

    def check_path(self, user: User, verb: str, path: str) -> None:
        """Raise ApiError 403 unless the user may request this path, which names no resource."""
        if MASTERS not in user.groups and self.allows(user, Attributes(verb, path=path)) is None:
            raise forbidden("", "", "", f'User "{user.name}" cannot {verb} path "{path}"')

    def allows(self, user: User, asked: Attributes) -> str | None:
        """Return why a request is allowed; return an empty string for system:masters, and None if
        the request is not allowed."""
        if MASTERS in user.groups:
            return ""  # no role was needed
        return next(
            (
                grant.why
                for grant in self._of(user)
                if grant.namespace in {"", asked.namespace} and rule_allows(grant.rule, asked)
            ),
            None,
        )

    def rules(self, user: User, namespace: str) -> list[Obj]:
        if MASTERS in user.groups:
            return [
                {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
                {"verbs": ["*"], "nonResourceURLs": ["*"]},
            ]
        return [grant.rule for grant in self._of(user) if grant.namespace in {"", namespace}]

    def _of(self, user: User) -> Iterator[Grant]:
        grants = self._grants
        if grants is None:
            grants = self._grants = self._collect()
        yield from grants.get(f"User {user.name}", ())
        for group in user.groups:
            yield from grants.get(f"Group {group}", ())

    def _collect(self) -> dict[str, list[Grant]]:
        """Index the rules of all bindings by subject."""
        found: dict[str, list[Grant]] = {}
        for plural in ("clusterrolebindings", "rolebindings"):
            for binding in self._store.bucket(f"{plural}.{GROUP}").within(None):
                namespace = binding["metadata"].get("namespace", "")
                role = self.role(binding["roleRef"], namespace)
                if role is None:
                    continue
                kind = "ClusterRoleBinding" if plural == "clusterrolebindings" else "RoleBinding"
                reference = binding["roleRef"]
                title = (
                    f'{kind} "{binding["metadata"]["name"]}{f"/{namespace}" if namespace else ""}"'
                )
                by = f'RBAC: allowed by {title} of {reference["kind"]} "{reference["name"]}"'
                for subject in binding.get("subjects") or ():
                    who = f"{subject['kind']} {subject['name']}"
                    shown = subject["name"]
                    if subject["kind"] == "ServiceAccount":
                        who = f"User {ACCOUNT}{subject.get('namespace', '')}:{subject['name']}"
                        shown += f"/{subject.get('namespace', '')}"
                    why = f'{by} to {subject["kind"]} "{shown}"'
                    found.setdefault(who, []).extend(
                        Grant(namespace, rule, why) for rule in role.get("rules") or ()
                    )
        return found

    def role(self, reference: Obj, namespace: str) -> Obj | None:
        """Return the role that a binding in ``namespace`` refers to, or None."""
        if reference["kind"] == "ClusterRole":
            return self._store.bucket(f"clusterroles.{GROUP}").get(("", reference["name"]))
        return self._store.bucket(f"roles.{GROUP}").get((namespace, reference["name"]))


def rule_allows(rule: Obj, asked: Attributes) -> bool:
    """Return whether a rule allows the request, provided that the rule applies to the request's
    namespace."""
    if not _has(rule.get("verbs"), asked.verb):
        return False
    if asked.path:
        return any(
            pattern == asked.path or (pattern.endswith("*") and asked.path.startswith(pattern[:-1]))
            for pattern in rule.get("nonResourceURLs") or ()
        )
    names = rule.get("resourceNames")
    return (
        _has(rule.get("apiGroups"), asked.group)
        and (not names or asked.name in names)
        and _has_resource(rule.get("resources") or (), asked.resource)
    )


def _has(values: Sequence[str] | None, wanted: str) -> bool:
    return values is not None and (wanted in values or "*" in values)


def _has_resource(resources: Sequence[str], wanted: str) -> bool:
    _, slash, subresource = wanted.partition("/")
    return _has(resources, wanted) or (bool(slash) and f"*/{subresource}" in resources)
