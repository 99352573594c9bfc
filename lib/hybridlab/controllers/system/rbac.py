"""Roles that a cluster starts with: cluster-admin, admin, edit, view, and what discovery needs."""

from __future__ import annotations

from hybridlab.api.contract import Obj

READ = ["get", "list", "watch"]
WRITE = ["create", "delete", "deletecollection", "patch", "update"]
CORE = [
    "configmaps", "endpoints", "events", "persistentvolumeclaims", "pods", "pods/log", "pods/status",
    "replicationcontrollers", "serviceaccounts", "services", "services/status",
]  # fmt: skip
APPS = ["daemonsets", "deployments", "deployments/scale", "replicasets", "replicasets/scale", "statefulsets"]


def objects() -> list[tuple[str, Obj]]:
    """(resource, object) of each."""
    view = [
        _rule([""], [*CORE, "namespaces"], READ),
        _rule(["apps"], APPS, READ),
        _rule(["discovery.k8s.io"], ["endpointslices"], READ),
        _rule(["networking.k8s.io"], ["networkpolicies"], READ),
        _rule(["policy"], ["poddisruptionbudgets"], READ),
    ]
    edit = [
        *view,
        _rule([""], [*CORE, "secrets", "pods/exec", "pods/attach", "pods/portforward", "pods/eviction"], WRITE),
        _rule([""], ["secrets", "pods/exec"], READ),
        _rule(["apps"], APPS, WRITE),
        _rule(["networking.k8s.io"], ["networkpolicies"], WRITE),
        _rule(["policy"], ["poddisruptionbudgets"], WRITE),
    ]
    admin = [
        *edit,
        _rule(["rbac.authorization.k8s.io"], ["roles", "rolebindings"], [*READ, *WRITE]),
        _rule(["authorization.k8s.io"], ["localsubjectaccessreviews"], ["create"]),
    ]
    everything = [_rule(["*"], ["*"], ["*"]), {"nonResourceURLs": ["*"], "verbs": ["*"]}]
    basic = [
        _rule(["authorization.k8s.io"], ["selfsubjectaccessreviews", "selfsubjectrulesreviews"], ["create"]),
        _rule(["authentication.k8s.io"], ["selfsubjectreviews"], ["create"]),
    ]
    urls = ["/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*", "/readyz", "/version"]
    discovery = [{"nonResourceURLs": [*urls, "/version/"], "verbs": ["get"]}]
    roles = {
        "cluster-admin": everything, "admin": admin, "edit": edit, "view": view,
        "system:basic-user": basic, "system:discovery": discovery,
    }  # fmt: skip
    groups = {
        "cluster-admin": "system:masters",
        "system:basic-user": "system:authenticated",
        "system:discovery": "system:authenticated",
    }
    return [
        *(("clusterroles.rbac.authorization.k8s.io", _role(name, rules)) for name, rules in roles.items()),
        *(("clusterrolebindings.rbac.authorization.k8s.io", _binding(role, group)) for role, group in groups.items()),
    ]


def _rule(groups: list[str], resources: list[str], verbs: list[str]) -> Obj:
    return {"apiGroups": groups, "resources": resources, "verbs": verbs}


def _role(name: str, rules: list[Obj]) -> Obj:
    labels = {"kubernetes.io/bootstrapping": "rbac-defaults"}
    meta = {"name": name, "labels": labels}
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": meta, "rules": rules}


def _binding(role: str, group: str) -> Obj:
    api = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{api}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": role, "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}},
        "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": api, "kind": "Group", "name": group}],
    }
