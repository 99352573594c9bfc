# SPDX-License-Identifier: Apache-2.0
"""The objects that a real API server creates by itself when it starts."""

from collections.abc import Iterator
from ipaddress import IPv4Network
from typing import Any

from hybridlab.api.contract import Obj
from hybridlab.api.kinds.definitions import STORAGE
from hybridlab.api.kinds.rights import GROUP
from hybridlab.api.lifecycle import timestamp
from hybridlab.api.operations import Operations
from hybridlab.api.requests import AUTHENTICATED, MASTERS, Target, WriteOptions
from hybridlab.api.resources import ALL_VERBS, Resource

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_READ = ["get", "list", "watch"]
_WRITE = [verb for verb in ALL_VERBS if verb not in _READ]
_PATHS = [
    "/api",
    "/api/*",
    "/apis",
    "/apis/*",
    "/healthz",
    "/livez",
    "/openapi",
    "/openapi/*",
    "/readyz",
    "/version",
    "/version/",
]


def _rule(groups: str, resources: str, verbs: list[str]) -> Obj:
    names = ["" if group == "core" else group for group in groups.split()]
    return {"apiGroups": names, "resources": resources.split(), "verbs": verbs}


_VIEWED = [
    _rule(
        "core",
        "configmaps endpoints events namespaces pods pods/log pods/status serviceaccounts services services/status",
        _READ,
    ),
    _rule("core", "replicationcontrollers replicationcontrollers/scale replicationcontrollers/status", _READ),
    _rule("apps", "daemonsets daemonsets/status deployments deployments/scale deployments/status replicasets "
          "replicasets/scale replicasets/status statefulsets statefulsets/scale statefulsets/status", _READ),
    _rule("autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status", _READ),
    _rule("batch", "cronjobs cronjobs/status jobs jobs/status", _READ),
    _rule("discovery.k8s.io", "endpointslices", _READ),
    _rule("networking.k8s.io", "ingresses ingresses/status networkpolicies", _READ),
    _rule("policy", "poddisruptionbudgets poddisruptionbudgets/status", _READ),
]  # fmt: skip
_EDITED = [
    *_VIEWED,
    _rule(
        "core", "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy", _READ
    ),
    _rule("core", "pods pods/attach pods/exec pods/portforward pods/proxy", _WRITE),
    _rule("core", "pods/eviction", ["create"]),
    _rule(
        "core",
        "configmaps events endpoints secrets serviceaccounts services services/proxy",
        _WRITE,
    ),
    _rule("core", "serviceaccounts/token", ["create"]),
    _rule("core", "replicationcontrollers replicationcontrollers/scale", _WRITE),
    _rule(
        "apps",
        "daemonsets deployments deployments/scale replicasets replicasets/scale statefulsets statefulsets/scale",
        _WRITE,
    ),
    _rule("autoscaling", "horizontalpodautoscalers", _WRITE),
    _rule("batch", "cronjobs jobs", _WRITE),
    _rule("networking.k8s.io", "ingresses networkpolicies", _WRITE),
    _rule("policy", "poddisruptionbudgets", _WRITE),
    _rule("coordination.k8s.io", "leases", list(ALL_VERBS)),
]
_ROLES: dict[str, list[Obj]] = {
    "cluster-admin": [_rule("*", "*", ["*"]), {"nonResourceURLs": ["*"], "verbs": ["*"]}],
    "admin": [
        *_EDITED,
        _rule("authorization.k8s.io", "localsubjectaccessreviews", ["create"]),
        _rule(GROUP, "rolebindings roles", list(ALL_VERBS)),
    ],
    "edit": _EDITED,
    "view": _VIEWED,
    "system:basic-user": [
        _rule(
            "authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews", ["create"]
        ),
        _rule("authentication.k8s.io", "selfsubjectreviews", ["create"]),
    ],
    "system:discovery": [{"nonResourceURLs": _PATHS, "verbs": ["get"]}],
    "system:public-info-viewer": [
        {
            "nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version", "/version/"],
            "verbs": ["get"],
        }
    ],
}
_BINDINGS = {
    "cluster-admin": (MASTERS,),
    "system:basic-user": (AUTHENTICATED,),
    "system:discovery": (AUTHENTICATED,),
    "system:public-info-viewer": (AUTHENTICATED, "system:unauthenticated"),
}
_UPDATED = {"rbac.authorization.kubernetes.io/autoupdate": "true"}
_CA_DESCRIPTION = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)
_BOOTSTRAPPED = {"kubernetes.io/bootstrapping": "rbac-defaults"}


class Bootstrap:
    """Creates namespaces, default roles, the ``kubernetes`` Service, and the objects that
    describe served resources.
    """

    def __init__(self, operations: Operations, service_cidr: str, ca_certificate: str) -> None:
        self._operations = operations
        self._first_address = str(IPv4Network(service_cidr)[1])
        self._ca = ca_certificate

    def _create(self, resource: str, obj: Obj, namespace: str = "") -> None:
        found = self._operations.catalogue.named(resource)
        self._operations.create(Target(found, namespace), obj, WriteOptions(tracked=False))

    def populate_namespace(self, namespace: str) -> None:
        """Create the objects of every namespace: the default ServiceAccount and the cluster's CA
        certificate.
        """
        self._create("serviceaccounts", {"metadata": {"name": "default"}}, namespace)
        meta = {
            "name": "kube-root-ca.crt",
            "annotations": {"kubernetes.io/description": _CA_DESCRIPTION},
        }
        self._create("configmaps", {"metadata": meta, "data": {"ca.crt": self._ca}}, namespace)

    def run(self) -> None:
        for name in NAMESPACES:
            self._create("namespaces", {"metadata": {"name": name}})
        for name, rules in _ROLES.items():
            meta = {"name": name, "labels": _BOOTSTRAPPED, "annotations": _UPDATED}
            self._create(f"clusterroles.{GROUP}", {"metadata": meta, "rules": rules})
        for name, groups in _BINDINGS.items():
            binding = {
                "metadata": {"name": name, "labels": _BOOTSTRAPPED, "annotations": _UPDATED},
                "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
                "subjects": [
                    {"apiGroup": GROUP, "kind": "Group", "name": group} for group in groups
                ],
            }
            self._create(f"clusterrolebindings.{GROUP}", binding)
        service = {
            "metadata": {
                "name": "kubernetes",
                "labels": {"component": "apiserver", "provider": "kubernetes"},
            },
            "spec": {
                "clusterIP": self._first_address,
                "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
            },
        }
        self._create("services", service, "default")
        for definition in built_in_definitions(self._operations.catalogue):
            self._create(STORAGE, definition)
        for registration in registrations(self._operations.catalogue):
            self._create("apiservices.apiregistration.k8s.io", registration)
            self._mark_available(registration["metadata"]["name"])

    def _mark_available(self, name: str) -> None:
        target = Target(
            self._operations.catalogue.named("apiservices.apiregistration.k8s.io"),
            "",
            name,
            "status",
        )
        condition = {
            "type": "Available",
            "status": "True",
            "reason": "Local",
            "message": "Local APIServices are always available",
        }
        if name.endswith("projectcalico.org") and name.startswith("v3."):
            condition = {
                "type": "Available",
                "status": "True",
                "reason": "Passed",
                "message": "all checks passed",
            }
        patch = {"status": {"conditions": [{**condition, "lastTransitionTime": timestamp()}]}}
        self._operations.patch(target, patch, "merge", WriteOptions(tracked=False))


def built_in_definitions(resources: Any) -> Iterator[Obj]:
    """Return the CustomResourceDefinitions by which Calico's own kinds are served."""
    yield from (
        _definition(resource)
        for resource in list(resources)
        if resource.by_crd and resource.structural is None
    )


def _definition(resource: Resource) -> Obj:
    names: dict[str, Any] = {
        "plural": resource.plural,
        "singular": resource.singular,
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
    }
    if resource.short_names:
        names["shortNames"] = list(resource.short_names)
    version: Obj = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "schema": {
            "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        },
    }
    if resource.has_status:
        version["subresources"] = {"status": {}}
    if resource.columns:
        version["additionalPrinterColumns"] = [dict(column) for column in resource.columns]
    return {
        "metadata": {"name": resource.name},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "names": names,
            "versions": [version],
        },
    }


_PRIORITIES = {
    "": (18000, 1),
    "apps": (17800, 15),
    "events.k8s.io": (17750, 5),
    "projectcalico.org": (1500, 20),
}


def registrations(resources: Any) -> Iterator[Obj]:
    """Return an APIService for each group and version that is served."""
    served = {(resource.group, resource.version): resource.by_crd for resource in resources}
    for (group, version), by_crd in served.items():
        priority, minimum = _PRIORITIES.get(group, (1000, 100) if by_crd else (17000, 15))
        spec: Obj = {
            "version": version,
            "groupPriorityMinimum": priority,
            "versionPriority": minimum,
        }
        if group:
            spec["group"] = group
        if group == "projectcalico.org":
            spec["service"] = {"name": "calico-api", "namespace": "calico-system", "port": 443}
        labels = {"kube-aggregator.kubernetes.io/automanaged": "true" if by_crd else "onstart"}
        name = f"{version}.{group}" if group else f"{version}."
        yield {"metadata": {"name": name, "labels": labels}, "spec": spec}
