"""What a method and a path mean."""

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
    """What follows the subresource in the path (proxy)."""


def parse(method: str, path: str, catalogue: Catalogue, *, watch: bool) -> Request | None:
    """Return what a request is about; None when its path is no resource's (discovery, health and the like).

    ApiError 404 when the path is in the shape of a resource and none such is served, 405 when the verb is not.
    """
    parts = [unquote(part) for part in path.split("/") if part]
    if len(parts) > 2 and parts[0] == "api" and parts[1] == "v1":
        group = ""
        version = "v1"
        rest = parts[2:]
    elif len(parts) > 3 and parts[0] == "apis":
        group = parts[1]
        version = parts[2]
        rest = parts[3:]
    else:
        return None
    namespace = ""
    if (
        rest[0] == "namespaces"
        and len(rest) > 2
        and not (len(rest) == 3 and rest[2] in _NAMESPACE_SUBRESOURCES)
    ):
        namespace = rest[1]
        rest = rest[2:]
    plural, name, subresource = (*rest[:3], "", "", "")[:3]
    resource = catalogue.at(group, version, plural)
    if namespace and not resource.namespaced and plural != "namespaces":
        raise no_such_resource()
    if name and resource.namespaced and not namespace:
        raise no_such_resource()
    if subresource and subresource not in resource.subresources:
        raise no_such_resource()
    verb = _verb(method, named=bool(name), watch=watch)
    if method == "HEAD" or (verb == "create" and name and not subresource):
        raise method_not_allowed()
    if verb not in verbs_of(resource, subresource):
        raise method_not_allowed()
    if verb == "create" and not subresource and resource.namespaced and not namespace:
        raise method_not_allowed()
    return Request(verb, Target(resource, namespace, name, subresource), "/".join(rest[3:]))


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
