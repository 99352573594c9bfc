"""Nobody may grant more rights than they have: what Roles may hold and which roles may be bound.

As the real server does it: whoever may ``escalate`` roles, or ``bind`` the role in question, is free to; everybody else
must hold every right of the role themselves.  The check comes before the object's own rules are looked at.
"""

from collections.abc import Iterator, Sequence

from hybridlab.api.authorization import Attributes, Authorizer
from hybridlab.api.contract import Obj
from hybridlab.api.errors import forbidden, not_found
from hybridlab.api.kinds.rights import GROUP
from hybridlab.api.requests import MASTERS, User
from hybridlab.api.resources import Resource

_ROLES = frozenset({"roles", "clusterroles"})


class Escalation:
    """Refuses writes by which a user would get, or hand on, rights that they do not have."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def check(self, user: User, resource: Resource, obj: Obj, old: Obj | None) -> None:
        """Raise ApiError 403 unless ``user`` may write this object of rbac.authorization.k8s.io over ``old``."""
        if MASTERS in user.groups:
            return
        meta = obj["metadata"]
        name = meta.get("name", "")
        namespace = meta.get("namespace", "")
        if resource.plural in _ROLES:
            granted: Sequence[Obj] = obj.get("rules") or ()
            if old is not None and (old.get("rules") or []) == list(granted):
                return
            free = Attributes("escalate", GROUP, resource.plural, namespace, name)
        else:
            reference = obj.get("roleRef") or {}
            if old is not None and all(
                (old.get(key) or None) == (obj.get(key) or None) for key in _BOUND
            ):
                return
            plural = f"{reference.get('kind', '').lower()}s"
            free = Attributes("bind", GROUP, plural, namespace, reference.get("name", ""))
            role = self._authorizer.role(reference, namespace) if plural in _ROLES else None
            granted = (role or {}).get("rules") or ()
            if role is None and self._authorizer.allows(user, free) is None:
                raise not_found(plural, GROUP, reference.get("name", ""))
        if self._authorizer.allows(user, free) is not None:
            return
        held = self._authorizer.rules(user, namespace)
        missing = [
            part
            for rule in granted
            for part in _parts(rule)
            if not any(_covers(own, part) for own in held)
        ]
        if missing:
            groups = " ".join(f'"{group}"' for group in user.groups)
            listed = "\n".join(sorted({_shown(rule) for rule in _compact(missing)}))
            why = f'user "{user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions not currently held:'
            raise forbidden(resource.plural, resource.group, name, f"{why}\n{listed}")


_BOUND = ("roleRef", "subjects")


def _parts(rule: Obj) -> Iterator[Obj]:
    """Break a rule up into rules of one verb on one thing each."""
    for verb in rule.get("verbs") or ():
        for url in rule.get("nonResourceURLs") or ():
            yield {"nonResourceURLs": [url], "verbs": [verb]}
    for group in rule.get("apiGroups") or ():
        for resource in rule.get("resources") or ():
            for verb in rule.get("verbs") or ():
                part: Obj = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
                for name in rule.get("resourceNames") or ():
                    yield {**part, "resourceNames": [name]}
                if not rule.get("resourceNames"):
                    yield part


def _covers(own: Obj, part: Obj) -> bool:
    """Say whether a rule grants all that another one, of one verb on one thing, grants."""
    if not _has(own.get("verbs"), part["verbs"][0]):
        return False
    for url in part.get("nonResourceURLs") or ():
        return any(
            pattern == url or (pattern.endswith("*") and url.startswith(pattern[:-1]))
            for pattern in own.get("nonResourceURLs") or ()
        )
    resource = part["resources"][0]
    resources = own.get("resources") or ()
    _, slash, subresource = resource.partition("/")
    if not _has(resources, resource) and not (slash and f"*/{subresource}" in resources):
        return False
    names = own.get("resourceNames") or ()
    if names and not set(part.get("resourceNames") or ("",)) <= set(names):
        return False
    return _has(own.get("apiGroups"), part["apiGroups"][0])


def _has(values: Sequence[str] | None, wanted: str) -> bool:
    return values is not None and (wanted in values or "*" in values)


def _compact(parts: Sequence[Obj]) -> list[Obj]:
    """Put the verbs on one resource together again, as the real server's message has them."""
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
