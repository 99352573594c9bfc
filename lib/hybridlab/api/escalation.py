# SPDX-License-Identifier: Apache-2.0
"""Checks which rights a user may grant: the contents of Roles, and the roles that may be bound.

As on the real server, users with the verb ``escalate`` on roles, or ``bind`` on this role, may
grant any right. All other users must hold every right of the role themselves. This check comes
before the check of the object's own rules.
"""

from collections.abc import Iterator, Sequence

from hybridlab.api.authorization import Attributes, Authorizer, rule_allows
from hybridlab.api.contract import Obj
from hybridlab.api.errors import forbidden, not_found
from hybridlab.api.kinds.rights import GROUP
from hybridlab.api.requests import MASTERS, User
from hybridlab.api.resources import Resource

_ROLES = frozenset({"roles", "clusterroles"})


class Escalation:
    """Refuses writes by which a user would get, or pass on, rights that they do not have."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def check(self, user: User, resource: Resource, obj: Obj, old: Obj | None) -> None:
        """Raise ApiError 403 unless ``user`` may write this object of rbac.authorization.k8s.io in
        place of ``old``."""
        if MASTERS in user.groups:
            return
        meta = obj["metadata"]
        name = meta.get("name", "")
        namespace = meta.get("namespace", "")
        is_role = resource.plural in _ROLES
        fields = ("rules",) if is_role else ("roleRef", "subjects")
        if old is not None and all(
            (old.get(field) or None) == (obj.get(field) or None) for field in fields
        ):
            return
        reference = obj.get("roleRef") or {}
        if is_role:
            free = Attributes("escalate", GROUP, resource.plural, namespace, name)
        else:
            plural = f"{reference.get('kind', '').lower()}s"
            free = Attributes("bind", GROUP, plural, namespace, reference.get("name", ""))
        if self._authorizer.allows(user, free) is not None:
            return
        role = obj if is_role else self._bound_role(reference, free)
        missing = self._missing(user, namespace, role)
        if missing:
            groups = " ".join(f'"{group}"' for group in user.groups)
            listed = "\n".join(sorted({_shown(rule) for rule in _compact(missing)}))
            why = f'user "{user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions not currently held:'
            raise forbidden(resource.plural, resource.group, name, f"{why}\n{listed}")

    def _missing(self, user: User, namespace: str, role: Obj) -> list[Obj]:
        """Return the parts of a role's rules that a user does not hold in a namespace."""
        held = self._authorizer.rules(user, namespace)
        return [
            part
            for rule in role.get("rules") or ()
            for part in _parts(rule)
            if not any(rule_allows(own, _attributes(part)) for own in held)
        ]

    def _bound_role(self, reference: Obj, bind: Attributes) -> Obj:
        """Return the role that a binding refers to; raise ApiError 404 if there is none."""
        known = bind.resource in _ROLES
        role = self._authorizer.role(reference, bind.namespace) if known else None
        if role is None:
            raise not_found(bind.resource, GROUP, bind.name)
        return role


def _parts(rule: Obj) -> Iterator[Obj]:
    """Split a rule into rules of a single verb on a single resource or path."""
    for verb in rule.get("verbs") or ():
        yield from (
            {"nonResourceURLs": [url], "verbs": [verb]} for url in rule.get("nonResourceURLs") or ()
        )
    for group in rule.get("apiGroups") or ():
        for resource in rule.get("resources") or ():
            for verb in rule.get("verbs") or ():
                part: Obj = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
                yield from (
                    {**part, "resourceNames": [name]} for name in rule.get("resourceNames") or ()
                )
                if not rule.get("resourceNames"):
                    yield part


def _attributes(part: Obj) -> Attributes:
    """Return the attributes that a rule of a single verb grants."""
    verb = part["verbs"][0]
    if "nonResourceURLs" in part:
        return Attributes(verb, path=part["nonResourceURLs"][0])
    names = part.get("resourceNames") or ("",)
    return Attributes(verb, part["apiGroups"][0], part["resources"][0], name=names[0])


def _compact(parts: Sequence[Obj]) -> list[Obj]:
    """Join the verbs on one resource again, as the real server's message has them."""
    found: list[Obj] = []
    for part in parts:
        same = (
            rule
            for rule in found
            if "nonResourceURLs" not in part
            and all(
                rule.get(key) == part.get(key)
                for key in ("apiGroups", "resources", "resourceNames")
            )
        )
        known = next(same, None)
        if known is None:
            found.append(part)
        else:
            known["verbs"] = [*known["verbs"], *part["verbs"]]
    return found


_SHOWN = (
    ("apiGroups", "APIGroups"),
    ("resources", "Resources"),
    ("nonResourceURLs", "NonResourceURLs"),
    ("resourceNames", "ResourceNames"),
    ("verbs", "Verbs"),
)


def _shown(rule: Obj) -> str:
    parts = []
    for key, title in _SHOWN:
        if rule.get(key):
            values = " ".join(f'"{value}"' for value in rule[key])
            parts.append(f"{title}:[{values}]")
    return "{" + ", ".join(parts) + "}"
