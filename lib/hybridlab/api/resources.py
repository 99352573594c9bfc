# SPDX-License-Identifier: Apache-2.0
"""Every kind that this API server serves, in one table; kinds of CustomResourceDefinitions are
added at run time.

The lab refuses kinds of Kubernetes on which no component would act, with an error that names the
kind. Most of these kinds are not served (``NOT_SERVED``). Kinds that clients list in any case are
served as empty lists (``emulated=False``). Defaults and checks of a kind are in ``kinds/``; the
fields of a kind are in ``schemas/``.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from hybridlab.api.errors import NoSuchPage, kind_not_emulated, no_such_resource, qualified

ALL_VERBS: Final = (
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
)
CUSTOM_VERBS: Final = (
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
)
"""All verbs, in the order in which discovery lists them for custom resources."""
CREATE_ONLY: Final = ("create",)
NO_COLLECTION: Final = tuple(verb for verb in ALL_VERBS if verb != "deletecollection")
"""The verbs of Namespaces, which cannot be deleted as a collection."""

V3: Final = "projectcalico.org"
CRD_V1: Final = "crd.projectcalico.org"
OPERATOR: Final = "operator.tigera.io"


@dataclass(frozen=True, kw_only=True)
class Resource:
    """A resource of a group and version, as discovery shows it and as the verbs need it."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    namespaced: bool
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[str, ...] = ()
    storage: str = ""
    """The key of the bucket that stores its objects; resources with the same storage are views of
    the same objects."""
    storage_kind: str = ""
    """The kind under which the bucket stores its objects (differs from ``kind`` for a view)."""
    storage_version: str = ""
    """The apiVersion under which the bucket stores its objects."""
    fields: tuple[str, ...] = ()
    """Paths for field selectors, in addition to metadata.name and metadata.namespace."""
    by_crd: bool = False
    """The resource is served because a CustomResourceDefinition object defines it."""
    columns: tuple[Mapping[str, Any], ...] = ()
    """additionalPrinterColumns of a custom resource."""
    scale: Mapping[str, str] | None = None
    """Paths of a custom resource's scale subresource."""
    emulated: bool = True
    """False: clients list the resource in any case, so it is served as an empty list. Every write
    is refused with an error that names the resource."""
    warnings: tuple[str, ...] = ()
    """Warnings that every client of this resource gets."""
    structural: Mapping[str, Any] | None = field(default=None, compare=False, hash=False)
    """openAPIV3Schema of a user's custom resource."""

    @property
    def api_version(self) -> str:
        """Return ``v1`` or ``GROUP/VERSION``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def name(self) -> str:
        """Return ``pods`` or ``deployments.apps``."""
        return qualified(self.plural, self.group)

    @property
    def has_status(self) -> bool:
        """Return whether the status is a subresource: writes to the object leave the status
        unchanged, and writes to the status leave everything else unchanged."""
        return "status" in self.subresources

    @property
    def is_view(self) -> bool:
        """Return whether objects are converted in requests and answers."""
        return self.storage_version != self.api_version or self.storage_kind != self.kind

    @property
    def selectable(self) -> frozenset[str]:
        """Return the paths that field selectors of this resource may use."""
        return frozenset(("metadata.name", "metadata.namespace", *self.fields))


def _resource(
    api_version: str,
    kind: str,
    plural: str,
    short: str = "",
    *,
    cluster: bool = False,
    sub: str = "",
    fields: str = "",
    categories: str = "",
    verbs: tuple[str, ...] = ALL_VERBS,
    storage: str = "",
    storage_kind: str = "",
    storage_version: str = "",
    by_crd: bool = False,
    emulated: bool = True,
    warnings: tuple[str, ...] = (),
) -> Resource:
    group, _, version = api_version.rpartition("/")
    return Resource(
        group=group,
        version=version,
        kind=kind,
        plural=plural,
        singular=kind.lower(),
        namespaced=not cluster,
        short_names=tuple(short.split()),
        categories=tuple(categories.split()),
        verbs=verbs,
        subresources=tuple(sub.split()),
        storage=storage or qualified(plural, group),
        storage_kind=storage_kind or kind,
        storage_version=storage_version or api_version,
        fields=tuple(fields.split()),
        by_crd=by_crd,
        emulated=emulated,
        warnings=warnings,
    )


_EVENT_OBJECT = ["kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"]
_CORE_EVENT_FIELDS = " ".join(f"involvedObject.{part}" for part in _EVENT_OBJECT) + (
    " reason reportingComponent source type"
)
_NEW_EVENT_FIELDS = (
    " ".join(f"regarding.{part}" for part in _EVENT_OBJECT) + " reason reportingController type"
)
_POD_FIELDS = (
    "spec.nodeName spec.restartPolicy spec.schedulerName spec.serviceAccountName spec.hostNetwork "
    "status.phase status.podIP status.nominatedNodeName"
)
_EXTENSIONS = "api-extensions"
_POD_SUB = "status log exec eviction binding attach portforward proxy ephemeralcontainers"

_ENDPOINTS_WARNING = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
_r = _resource
KUBERNETES: Final[tuple[Resource, ...]] = (
    _r("v1", "Binding", "bindings", verbs=CREATE_ONLY),
    _r("v1", "ConfigMap", "configmaps", "cm"),
    _r("v1", "Endpoints", "endpoints", "ep", warnings=(_ENDPOINTS_WARNING,)),
    _r("v1", "Event", "events", "ev", fields=_CORE_EVENT_FIELDS),
    _r(
        "v1", "Namespace", "namespaces", "ns", cluster=True, sub="status finalize", fields="status.phase",
        verbs=NO_COLLECTION,
    ),
    _r("v1", "Node", "nodes", "no", cluster=True, sub="status proxy", fields="spec.unschedulable"),
    _r("v1", "PersistentVolumeClaim", "persistentvolumeclaims", "pvc", sub="status"),
    _r("v1", "Pod", "pods", "po", sub=_POD_SUB, fields=_POD_FIELDS, categories="all"),
    _r("v1", "Secret", "secrets", fields="type"),
    _r("v1", "ServiceAccount", "serviceaccounts", "sa", sub="token"),
    _r("v1", "Service", "services", "svc", sub="status proxy", fields="spec.clusterIP spec.type", categories="all"),
    _r("apiregistration.k8s.io/v1", "APIService", "apiservices", cluster=True, sub="status", categories=_EXTENSIONS),
    _r("events.k8s.io/v1", "Event", "events", "ev", fields=_NEW_EVENT_FIELDS, storage="events", storage_version="v1"),
    _r("authentication.k8s.io/v1", "SelfSubjectReview", "selfsubjectreviews", cluster=True, verbs=CREATE_ONLY),
    _r("authentication.k8s.io/v1", "TokenReview", "tokenreviews", cluster=True, verbs=CREATE_ONLY),
    _r("authorization.k8s.io/v1", "LocalSubjectAccessReview", "localsubjectaccessreviews", verbs=CREATE_ONLY),
    _r(
        "authorization.k8s.io/v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews",
        cluster=True, verbs=CREATE_ONLY,
    ),
    _r("authorization.k8s.io/v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", cluster=True, verbs=CREATE_ONLY),
    _r("authorization.k8s.io/v1", "SubjectAccessReview", "subjectaccessreviews", cluster=True, verbs=CREATE_ONLY),
    _r("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", "netpol"),
    _r("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", "pdb", sub="status"),
    _r("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings", cluster=True),
    _r("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", cluster=True),
    _r("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings"),
    _r("rbac.authorization.k8s.io/v1", "Role", "roles"),
    _r(
        "apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", "crd crds",
        cluster=True, sub="status", categories=_EXTENSIONS,
    ),
    _r("coordination.k8s.io/v1", "Lease", "leases"),
    _r("discovery.k8s.io/v1", "EndpointSlice", "endpointslices"),
    _r("apps/v1", "DaemonSet", "daemonsets", "ds", sub="status", categories="all"),
    _r("apps/v1", "Deployment", "deployments", "deploy", sub="status scale", categories="all"),
    _r("apps/v1", "ReplicaSet", "replicasets", "rs", sub="status scale", categories="all"),
    _r("apps/v1", "StatefulSet", "statefulsets", "sts", sub="status scale", categories="all", emulated=False),
    _r("v1", "ReplicationController", "replicationcontrollers", "rc", sub="status scale", categories="all",
       emulated=False),
    _r("batch/v1", "CronJob", "cronjobs", "cj", sub="status", categories="all", emulated=False),
    _r("batch/v1", "Job", "jobs", sub="status", categories="all", emulated=False),
    _r("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", "hpa", sub="status", categories="all",
       emulated=False),
    _r("autoscaling/v1", "HorizontalPodAutoscaler", "horizontalpodautoscalers", "hpa", sub="status", categories="all",
       emulated=False),
    _r("networking.k8s.io/v1", "Ingress", "ingresses", "ing", sub="status", emulated=False),
)  # fmt: skip

NOT_SERVED: Final[Mapping[str, frozenset[str]]] = {
    "v1": frozenset({
        "componentstatuses", "limitranges", "persistentvolumes", "podtemplates", "resourcequotas",
    }),
    "admissionregistration.k8s.io/v1": frozenset({
        "mutatingwebhookconfigurations", "validatingadmissionpolicies", "validatingadmissionpolicybindings",
        "validatingwebhookconfigurations",
    }),
    "apps/v1": frozenset({"controllerrevisions"}),
    "certificates.k8s.io/v1": frozenset({"certificatesigningrequests"}),
    "flowcontrol.apiserver.k8s.io/v1": frozenset({"flowschemas", "prioritylevelconfigurations"}),
    "networking.k8s.io/v1": frozenset({"ingressclasses", "ipaddresses", "servicecidrs"}),
    "node.k8s.io/v1": frozenset({"runtimeclasses"}),
    "resource.k8s.io/v1": frozenset({"deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices"}),
    "scheduling.k8s.io/v1": frozenset({"priorityclasses"}),
    "storage.k8s.io/v1": frozenset({
        "csidrivers", "csinodes", "csistoragecapacities", "storageclasses", "volumeattachments",
        "volumeattributesclasses",
    }),
}  # fmt: skip
"""The plurals of the resources that a kube-apiserver v1.34.4 serves by default and the lab does
not, by group and version."""

_CALICO: Final = (
    # kind, plural, short names in v3, namespaced, in v3, in crd v1, crd v1 kind and plural when different
    ("BGPConfiguration", "bgpconfigurations", "bgpconfig bgpconfigs", False, True, True),
    ("BGPFilter", "bgpfilters", "", False, True, True),
    ("BGPPeer", "bgppeers", "", False, True, True),
    ("BlockAffinity", "blockaffinities", "blockaffinity affinity affinities", False, True, True),
    ("CalicoNodeStatus", "caliconodestatuses", "caliconodestatus", False, True, True),
    ("ClusterInformation", "clusterinformations", "clusterinfo", False, True, True),
    ("FelixConfiguration", "felixconfigurations", "felixconfig felixconfigs", False, True, True),
    (
        "GlobalNetworkPolicy",
        "globalnetworkpolicies",
        "gnp cgnp calicoglobalnetworkpolicies",
        False,
        True,
        True,
    ),
    ("GlobalNetworkSet", "globalnetworksets", "", False, True, True),
    ("HostEndpoint", "hostendpoints", "hep heps", False, True, True),
    ("IPAMBlock", "ipamblocks", "", False, False, True),
    ("IPAMConfiguration", "ipamconfigurations", "ipamconfig", False, True, True),
    ("IPAMHandle", "ipamhandles", "", False, False, True),
    ("IPPool", "ippools", "", False, True, True),
    ("IPReservation", "ipreservations", "", False, True, True),
    (
        "KubeControllersConfiguration",
        "kubecontrollersconfigurations",
        "kcconfig",
        False,
        True,
        True,
    ),
    (
        "NetworkPolicy",
        "networkpolicies",
        "cnp caliconetworkpolicy caliconetworkpolicies",
        True,
        True,
        True,
    ),
    ("NetworkSet", "networksets", "netsets", True, True, True),
    ("Profile", "profiles", "", False, True, False),
    ("StagedGlobalNetworkPolicy", "stagedglobalnetworkpolicies", "sgnp", False, True, True),
    ("StagedKubernetesNetworkPolicy", "stagedkubernetesnetworkpolicies", "sknp", True, True, True),
    ("StagedNetworkPolicy", "stagednetworkpolicies", "snp", True, True, True),
    ("Tier", "tiers", "", False, True, True),
)
_CRD_V1_NAMES: Final = {"IPAMConfiguration": ("IPAMConfig", "ipamconfigs")}
_OPERATOR: Final = (
    ("APIServer", "apiservers"),
    ("Goldmane", "goldmanes"),
    ("ImageSet", "imagesets"),
    ("Installation", "installations"),
    ("TigeraStatus", "tigerastatuses"),
    ("Whisker", "whiskers"),
)


def calico_resources(*, v3: bool, crd_v1: bool, operator: bool = True) -> tuple[Resource, ...]:
    """Return Calico's and its operator's resources for the API groups that are served.

    Both groups are views of a single store, kept in the shape of projectcalico.org/v3.
    """
    found: list[Resource] = []
    for kind, plural, short, namespaced, in_v3, in_crd in _CALICO:
        storage = f"{plural}.{V3}"
        status = (
            "status" if kind in {"Tier", "CalicoNodeStatus", "KubeControllersConfiguration"} else ""
        )
        fields = "spec.tier" if kind.endswith("NetworkPolicy") else ""
        if v3 and in_v3:
            found.append(
                _r(
                    f"{V3}/v3",
                    kind,
                    plural,
                    short,
                    cluster=not namespaced,
                    sub=status,
                    fields=fields,
                    storage=storage,
                )
            )
        if crd_v1 and in_crd:
            old_kind, old_plural = _CRD_V1_NAMES.get(kind, (kind, plural))
            found.append(
                _r(
                    f"{CRD_V1}/v1",
                    old_kind,
                    old_plural,
                    cluster=not namespaced,
                    storage=storage,
                    storage_kind=kind,
                    storage_version=f"{V3}/v3",
                    by_crd=True,
                )
            )
    for kind, plural in _OPERATOR if operator else ():
        found.append(_r(f"{OPERATOR}/v1", kind, plural, cluster=True, sub="status", by_crd=True))
    return tuple(found)


class Catalogue:
    """The resources that are served right now, looked up by path and by name."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        self._by_path: dict[tuple[str, str, str], Resource] = {}
        self._by_name: dict[str, Resource] = {}
        self.generation = 0
        """Increases with every change; values that are derived from the catalogue are then computed
        again."""
        for resource in resources:
            self.add(resource)

    def __iter__(self) -> Iterator[Resource]:
        return iter(self._by_path.values())

    def add(self, resource: Resource) -> None:
        """Serve ``resource`` from now on; the version of a group that is added first is the
        preferred one."""
        self._by_path[resource.group, resource.version, resource.plural] = resource
        known = self._by_name.get(resource.name)
        if known is None or known.version == resource.version:
            self._by_name[resource.name] = resource
        self.generation += 1

    def remove(self, name: str) -> None:
        """Stop serving every version of ``plural.group``."""
        for path, resource in list(self._by_path.items()):
            if resource.name == name:
                del self._by_path[path]
        self._by_name.pop(name, None)
        self.generation += 1

    def at(self, group: str, version: str, plural: str) -> Resource:
        """Return the resource of a path; raise ApiError 404 if it is not served."""
        found = self._by_path.get((group, version, plural))
        if found is None:
            if plural in NOT_SERVED.get(f"{group}/{version}" if group else version, ()):
                raise kind_not_emulated(qualified(plural, group))
            if group and not any(path[:2] == (group, version) for path in self._by_path):
                raise NoSuchPage
            raise no_such_resource()
        return found

    def named(self, name: str) -> Resource:
        """Return the resource ``plural`` or ``plural.group``; raise ApiError 404 if it is not
        served."""
        found = self._by_name.get(name)
        if found is None:
            raise no_such_resource()
        return found
