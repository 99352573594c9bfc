# SPDX-License-Identifier: Apache-2.0
"""The meaning of a method and a path."""

from dataclasses import dataclass
from urllib.parse import unquote

from hybridlab.api.errors import method_not_allowed, no_such_resource
from hybridlab.api.http.discovery import verbs_of
from hybridlab.api.requests import Target
from hybridlab.api.resources import Catalogue

_ON_OBJECT = {
    "GET": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
    "POST": "create",
    "HEAD": "get",
}
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})


@dataclass(frozen=True)
class Request:
    """A request about a resource."""

    verb: str
    target: Target
    rest: str = ""
    """The rest of the path after the subresource (proxy)."""


def parse(method: str, path: str, catalogue: Catalogue, *, watch: bool) -> Request | None:
    """Return the meaning of a request; None if its path is no resource's (discovery, health and the
    like).

    Raise ApiError 404 if the path has the form of a resource that is not served, 405 if the verb is
    not served.
    """
    parts = [unquote(part) for part in path.split("/") if part]
    if parts[:2] == ["api", "v1"]:
        parts[:1] = ["apis", ""]  # the core group has no name
    if len(parts) < 4 or parts[0] != "apis":
        return None
    _, group, version, *rest = parts
    namespace = ""
    if (
        rest[0] == "namespaces"
        and len(rest) > 2
        and not (len(rest) == 3 and rest[2] in _NAMESPACE_SUBRESOURCES)
    ):
        namespace = rest[1]
        rest = rest[2:]
    plural, name, subresource = (*rest[:3], "", "", "")[:3]
    target = Target(catalogue.at(group, version, plural), namespace, name, subresource)
    _check_place(target)
    verb = _verb(method, named=bool(name), watch=watch)
    if method == "HEAD" or not _is_allowed(verb, target):
        raise method_not_allowed()
    return Request(verb, target, "/".join(rest[3:]))


def _check_place(target: Target) -> None:
    """Raise ApiError 404 if a path names a namespaced object without its namespace, a
    cluster-scoped resource with a namespace, or an unknown subresource."""
    resource, namespace, name, subresource = target
    outside = (
        bool(name and not namespace)
        if resource.namespaced
        else bool(namespace and resource.plural != "namespaces")
    )
    if outside or (subresource and subresource not in resource.subresources):
        raise no_such_resource()


def _is_allowed(verb: str, target: Target) -> bool:
    resource, namespace, name, subresource = target
    if verb not in verbs_of(resource, subresource):
        return False
    if verb == "create" and not subresource:
        return not name and (bool(namespace) or not resource.namespaced)
    return True


def _verb(method: str, *, named: bool, watch: bool) -> str:
    if named:
        return _ON_OBJECT.get(method, method.lower())
    if method in {"GET", "HEAD"}:
        return "watch" if watch else "list"
    if method == "DELETE":
        return "deletecollection"
    if method == "POST":
        return "create"
    raise method_not_allowed()
