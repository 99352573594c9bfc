# SPDX-License-Identifier: Apache-2.0
"""The columns that ``kubectl get`` shows for each kind, with the names and contents of the real
server (1.34)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hybridlab.api.contract import Obj
from hybridlab.api.http.ages import age
from hybridlab.api.http.pod_cells import pod_ready, pod_restarts, pod_status
from hybridlab.api.subresources import selector_text

NONE: Final = "<none>"


@dataclass(frozen=True)
class Column:
    """A column; ``wide`` columns are shown only with ``-o wide``."""

    name: str
    value: Callable[[Obj], Any]
    type: str = "string"
    wide: bool = False


def _at(obj: Obj, path: str, default: Any = None) -> Any:
    value: Any = obj
    for step in path.split("."):
        if not isinstance(value, dict):
            return default
        value = value.get(step)
    return default if value is None else value


def _name(obj: Obj) -> str:
    return str(obj["metadata"]["name"])


def _path(path: str, default: Any = NONE) -> Callable[[Obj], Any]:
    return lambda obj: _at(obj, path, default)


def _labels(mapping: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(mapping.items())) or NONE


def _selector(path: str) -> Callable[[Obj], str]:
    return lambda obj: selector_text(_at(obj, path, {})) or NONE


def _containers(part: str) -> Callable[[Obj], str]:
    return lambda obj: ",".join(
        item.get(part, "") for item in _at(obj, "spec.template.spec.containers", [])
    )


NAME = Column("Name", _name)
AGE = Column("Age", lambda obj: age(obj["metadata"].get("creationTimestamp")))
CREATED = Column(
    "Created At", lambda obj: str(obj["metadata"].get("creationTimestamp", "")), type="date"
)
_TEMPLATE = (
    Column("Containers", _containers("name"), wide=True),
    Column("Images", _containers("image"), wide=True),
    Column("Selector", _selector("spec.selector"), wide=True),
)


def _node_status(node: Obj) -> str:
    ready = next(
        (item for item in _at(node, "status.conditions", []) if item["type"] == "Ready"), None
    )
    status = "Unknown" if ready is None else "Ready" if ready["status"] == "True" else "NotReady"
    return (
        f"{status},SchedulingDisabled" if _at(node, "spec.unschedulable", default=False) else status
    )


def _node_roles(node: Obj) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = node["metadata"].get("labels") or {}
    roles = sorted(key.removeprefix(prefix) for key in labels if key.startswith(prefix))
    return ",".join(role for role in roles if role) or NONE


def _node_address(kind: str) -> Callable[[Obj], str]:
    def value(node: Obj) -> str:
        found = (
            item["address"] for item in _at(node, "status.addresses", []) if item["type"] == kind
        )
        return next(found, NONE)

    return value


def _node_info(field: str) -> Callable[[Obj], str]:
    return lambda node: _at(node, f"status.nodeInfo.{field}", "") or "<unknown>"


def _service_external(service: Obj) -> str:
    kind = _at(service, "spec.type", "ClusterIP")
    given = ",".join(_at(service, "spec.externalIPs", []))
    if kind == "ExternalName":
        return str(_at(service, "spec.externalName", ""))
    if kind == "LoadBalancer":
        points = _at(service, "status.loadBalancer.ingress", [])
        found = [item.get("ip") or item.get("hostname", "") for item in points]
        return ",".join([*found, *([given] if given else [])]) or "<pending>"
    return given or NONE


def _service_ports(service: Obj) -> str:
    parts = []
    for port in _at(service, "spec.ports", []):
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        parts.append(f"{port['port']}{node}/{port.get('protocol', 'TCP')}")
    return ",".join(parts) or NONE


def _endpoints(endpoints: Obj) -> str:
    found = []
    for subset in endpoints.get("subsets") or ():
        ports: Sequence[Obj] = subset.get("ports") or ({},)
        for port in ports:
            for address in subset.get("addresses") or ():
                number = f":{port['port']}" if "port" in port else ""
                found.append(f"{address['ip']}{number}")
    if len(found) > 3:
        return ",".join(found[:3]) + f" + {len(found) - 3} more..."
    return ",".join(found) or NONE


def _listed(items: Sequence[str], limit: int = 3) -> str:
    if not items:
        return "<unset>"
    more = f" + {len(items) - limit} more..." if len(items) > limit else ""
    return ",".join(items[:limit]) + more


def _slice_endpoints(item: Obj) -> str:
    return _listed(
        [address for endpoint in item.get("endpoints") or () for address in endpoint["addresses"]]
    )


def _event_last_seen(event: Obj) -> str:
    series = _at(event, "series.lastObservedTime")
    first = event.get("firstTimestamp") or event.get("eventTime")
    return age(series or event.get("lastTimestamp") or first)


def _event_object(event: Obj) -> str:
    involved = event.get("involvedObject") or event.get("regarding") or {}
    return f"{involved.get('kind', '').lower()}/{involved.get('name', '')}"


def _event_source(event: Obj) -> str:
    source = event.get("source") or event.get("deprecatedSource") or {}
    component = (
        source.get("component")
        or event.get("reportingComponent")
        or event.get("reportingController")
        or ""
    )
    return ", ".join(part for part in (component, source.get("host", "")) if part)


def _subjects(kind: str) -> Callable[[Obj], str]:
    def value(binding: Obj) -> str:
        found = [item for item in binding.get("subjects") or () if item["kind"] == kind]
        if kind == "ServiceAccount":
            return ", ".join(f"{item.get('namespace', '')}/{item['name']}" for item in found)
        return ", ".join(item["name"] for item in found)

    return value


def _service_of(registration: Obj) -> str:
    service = _at(registration, "spec.service")
    return f"{service['namespace']}/{service['name']}" if service else "Local"


def _available(registration: Obj) -> str:
    conditions = _at(registration, "status.conditions", [])
    found = next((item for item in conditions if item["type"] == "Available"), None)
    if found is None:
        return "Unknown"
    return (
        str(found["status"])
        if found["status"] == "True"
        else f"{found['status']} ({found.get('reason', '')})"
    )


def _condition(kind: str) -> Callable[[Obj], str]:
    def value(obj: Obj) -> str:
        found = next(
            (item for item in _at(obj, "status.conditions", []) if item["type"] == kind), None
        )
        return str(found["status"]) if found else ""

    return value


def _since(obj: Obj) -> str:
    found = next(
        (item for item in _at(obj, "status.conditions", []) if item["type"] == "Available"), None
    )
    return age(found.get("lastTransitionTime")) if found else ""


_EVENTS = (
    Column("Last Seen", _event_last_seen),
    Column("Type", _path("type", "")),
    Column("Reason", _path("reason", "")),
    Column("Object", _event_object),
    Column("Subobject", lambda obj: _at(obj, "involvedObject.fieldPath", ""), wide=True),
    Column("Source", _event_source, wide=True),
    Column("Message", lambda event: str(event.get("message") or event.get("note") or "").strip()),
    Column(
        "First Seen", lambda obj: age(obj.get("firstTimestamp") or obj.get("eventTime")), wide=True
    ),
    Column("Count", lambda obj: obj.get("count") or 1, wide=True),
    Column("Name", _name, wide=True),
)
_RBAC = "rbac.authorization.k8s.io"
_BOUND = (
    NAME,
    Column("Role", lambda obj: f"{obj['roleRef']['kind']}/{obj['roleRef']['name']}"),
    AGE,
    Column("Users", _subjects("User"), wide=True),
    Column("Groups", _subjects("Group"), wide=True),
    Column("ServiceAccounts", _subjects("ServiceAccount"), wide=True),
)

COLUMNS: Final[Mapping[str, Sequence[Column]]] = {
    "pods": (
        NAME,
        Column("Ready", pod_ready),
        Column("Status", pod_status),
        Column("Restarts", pod_restarts),
        AGE,
        Column("IP", lambda pod: _at(pod, "status.podIP", "") or NONE, wide=True),
        Column("Node", lambda pod: _at(pod, "spec.nodeName", "") or NONE, wide=True),
        Column(
            "Nominated Node",
            lambda pod: _at(pod, "status.nominatedNodeName", "") or NONE,
            wide=True,
        ),
        Column("Readiness Gates", lambda pod: NONE, wide=True),
    ),
    "nodes": (
        NAME,
        Column("Status", _node_status),
        Column("Roles", _node_roles),
        AGE,
        Column("Version", _path("status.nodeInfo.kubeletVersion", "")),
        Column("Internal-IP", _node_address("InternalIP"), wide=True),
        Column("External-IP", _node_address("ExternalIP"), wide=True),
        Column("OS-Image", _node_info("osImage"), wide=True),
        Column("Kernel-Version", _node_info("kernelVersion"), wide=True),
        Column("Container-Runtime", _node_info("containerRuntimeVersion"), wide=True),
    ),
    "services": (
        NAME,
        Column("Type", _path("spec.type", "")),
        Column("Cluster-IP", lambda obj: _at(obj, "spec.clusterIP", "") or NONE),
        Column("External-IP", _service_external),
        Column("Port(s)", _service_ports),
        AGE,
        Column("Selector", lambda obj: _labels(_at(obj, "spec.selector", {})), wide=True),
    ),
    "deployments.apps": (
        NAME,
        Column(
            "Ready",
            lambda obj: f"{_at(obj, 'status.readyReplicas', 0)}/{_at(obj, 'spec.replicas', 0)}",
        ),
        Column("Up-to-date", _path("status.updatedReplicas", 0)),
        Column("Available", _path("status.availableReplicas", 0)),
        AGE,
        *_TEMPLATE,
    ),
    "replicasets.apps": (
        NAME,
        Column("Desired", _path("spec.replicas", 0), type="integer"),
        Column("Current", _path("status.replicas", 0), type="integer"),
        Column("Ready", _path("status.readyReplicas", 0), type="integer"),
        AGE,
        *_TEMPLATE,
    ),
    "daemonsets.apps": (
        NAME,
        Column("Desired", _path("status.desiredNumberScheduled", 0), type="integer"),
        Column("Current", _path("status.currentNumberScheduled", 0), type="integer"),
        Column("Ready", _path("status.numberReady", 0), type="integer"),
        Column("Up-to-date", _path("status.updatedNumberScheduled", 0), type="integer"),
        Column("Available", _path("status.numberAvailable", 0), type="integer"),
        Column(
            "Node Selector", lambda obj: _labels(_at(obj, "spec.template.spec.nodeSelector", {}))
        ),
        AGE,
        *_TEMPLATE,
    ),
    "endpoints": (NAME, Column("Endpoints", _endpoints), AGE),
    "endpointslices.discovery.k8s.io": (
        NAME,
        Column("AddressType", _path("addressType", "")),
        Column(
            "Ports",
            lambda item: _listed([str(port.get("port", "*")) for port in item.get("ports") or ()]),
        ),
        Column("Endpoints", _slice_endpoints),
        AGE,
    ),
    "networkpolicies.networking.k8s.io": (
        NAME,
        Column("Pod-Selector", _selector("spec.podSelector")),
        AGE,
    ),
    "namespaces": (NAME, Column("Status", _path("status.phase", "")), AGE),
    "events": _EVENTS,
    "events.events.k8s.io": _EVENTS,
    "configmaps": (
        NAME,
        Column("Data", lambda obj: len(obj.get("data") or ()) + len(obj.get("binaryData") or ())),
        AGE,
    ),
    "persistentvolumeclaims": (
        NAME,
        Column("Status", _path("status.phase", "")),
        Column("Capacity", _path("status.capacity.storage", "")),
        AGE,
    ),
    "secrets": (
        NAME,
        Column("Type", _path("type", "")),
        Column("Data", lambda obj: len(obj.get("data") or ())),
        AGE,
    ),
    "serviceaccounts": (NAME, Column("Secrets", lambda obj: len(obj.get("secrets") or ())), AGE),
    "customresourcedefinitions.apiextensions.k8s.io": (NAME, CREATED),
    "apiservices.apiregistration.k8s.io": (
        NAME,
        Column("Service", _service_of),
        Column("Available", _available),
        AGE,
    ),
    "leases.coordination.k8s.io": (NAME, Column("Holder", _path("spec.holderIdentity", "")), AGE),
    "poddisruptionbudgets.policy": (
        NAME,
        Column("Min Available", lambda obj: str(_at(obj, "spec.minAvailable", "N/A"))),
        Column("Max Unavailable", lambda obj: str(_at(obj, "spec.maxUnavailable", "N/A"))),
        Column("Allowed Disruptions", _path("status.disruptionsAllowed", 0), type="integer"),
        AGE,
    ),
    f"roles.{_RBAC}": (NAME, CREATED),
    f"clusterroles.{_RBAC}": (NAME, CREATED),
    f"rolebindings.{_RBAC}": _BOUND,
    f"clusterrolebindings.{_RBAC}": _BOUND,
    "tigerastatuses.operator.tigera.io": (
        NAME,
        Column("Available", _condition("Available")),
        Column("Progressing", _condition("Progressing")),
        Column("Degraded", _condition("Degraded")),
        Column("Since", _since),
    ),
}
