# SPDX-License-Identifier: Apache-2.0
"""Objects for the evaluation of policies, read from files, folders, standard input and a cluster.

Lists are unfolded; a workload without pods becomes the pod of its template.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conformance.errors import SuiteError, UsageProblem
from conformance.kube import manifest
from conformance.kube.manifest import Obj
from conformance.kube.refused import ApiRefused
from conformance.policy.oracle.fields import is_foreign
from conformance.policy.selectors import kubernetes, shown

if TYPE_CHECKING:
    from conformance.kube.client import Kube

MOST_VALUES = 5_000_000
SUFFIXES = (".yaml", ".yml", ".json")
TEMPLATES = {
    **dict.fromkeys(
        ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController", "Job"),
        ("spec", "template"),
    ),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}
"""The path of the pod template in each kind of workload."""
REPLICA = "#2"
"""The ending of the name of a workload's second pod. No object's name contains ``#``, so the name
is unique."""
NAMESPACED = frozenset(
    {"Pod", "ServiceAccount", "Service", "EndpointSlice", "NetworkPolicy", "NetworkSet"}
    | {"StagedNetworkPolicy", "StagedKubernetesNetworkPolicy", *TEMPLATES}
)
TWINS = ("knp.", "kanp.", "kbanp.", "kcnp.")
"""Beginnings of the names under which Calico's API serves Kubernetes' policies a second time."""
CALICO = ("projectcalico.org/v3", "crd.projectcalico.org/v1")
OF_CALICO = (
    *("NetworkPolicy", "GlobalNetworkPolicy", "StagedNetworkPolicy", "StagedGlobalNetworkPolicy"),
    *("StagedKubernetesNetworkPolicy", "Tier", "NetworkSet", "GlobalNetworkSet", "HostEndpoint"),
)
ON_CLUSTER = (
    *(("v1", kind) for kind in ("Namespace", "ServiceAccount", "Node", "Pod", "Service")),
    ("discovery.k8s.io/v1", "EndpointSlice"),
    ("node.k8s.io/v1", "RuntimeClass"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("policy.networking.k8s.io/v1alpha1", "AdminNetworkPolicy"),
    ("policy.networking.k8s.io/v1alpha1", "BaselineAdminNetworkPolicy"),
    ("policy.networking.k8s.io/v1alpha2", "ClusterNetworkPolicy"),
    ("cilium.io/v2", "CiliumNetworkPolicy"),
    ("cilium.io/v2", "CiliumClusterwideNetworkPolicy"),
    ("security.istio.io/v1", "AuthorizationPolicy"),
    ("security.istio.io/v1", "PeerAuthentication"),
    ("networking.istio.io/v1", "Sidecar"),
    ("policy.linkerd.io/v1beta3", "Server"),
    ("crd.antrea.io/v1beta1", "NetworkPolicy"),
    ("crd.antrea.io/v1beta1", "ClusterNetworkPolicy"),
    ("k8s.ovn.org/v1", "EgressFirewall"),
)
"""API and kind of the objects that are read if the cluster serves them."""


@dataclass
class Given:
    """Objects, and the assumptions that were made about them."""

    objects: list[Obj] = field(default_factory=list)
    without_namespace: list[str] = field(default_factory=list)
    """Policies that name no namespace; the evaluation assumes ``default`` for them."""


def given(documents: Iterable[Any], where: str) -> Given:
    """Return the objects in some documents. Raise UsageProblem for a document that is no object."""
    made = Given()
    listed = [obj for document in documents for obj in _unfolded(document, where)]
    originals = {
        _key(obj)[2:]
        for obj in listed
        if obj["kind"].endswith("Policy") and obj["apiVersion"] not in CALICO
    }
    for obj in listed:
        meta = obj["metadata"]
        if obj["apiVersion"] in CALICO and _original(obj) in originals:
            continue
        if obj["kind"] in NAMESPACED and not meta.get("namespace"):
            made.objects.append({**obj, "metadata": {**meta, "namespace": "default"}})
            if obj["kind"].endswith("Policy"):
                made.without_namespace.append(f"{obj['kind']} {meta['name']}")
        else:
            made.objects.append(obj)
    made.objects = [
        one
        for obj in made.objects
        for one in (_pods_of(obj, made.objects) if _is_workload(obj) else [obj])
    ]
    return made


def finite(documents: list[Any], where: str) -> list[Any]:
    """Return the documents. Raise UsageProblem for documents that contain themselves, or whose
    aliases unfold to too many values."""
    try:
        size = _size(documents, {})
    except RecursionError:
        raise UsageProblem(f"manifest {where}: it is nested too deeply") from None
    if size > MOST_VALUES:
        raise UsageProblem(f"manifest {where}: it contains itself, or has {MOST_VALUES:,} values")
    return documents


def _size(value: Any, known: dict[int, int]) -> int:
    """Return the number of values in a value, with aliases unfolded."""
    if not isinstance(value, list | tuple | dict):
        return 1
    if id(value) not in known:
        known[id(value)] = MOST_VALUES + 1  # a document that contains itself counts as too large
        entries = (*value.keys(), *value.values()) if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_size(one, known) for one in entries)
    return known[id(value)]


def _unfolded(document: Any, where: str, depth: int = 0) -> Iterator[Obj]:
    """Yield an object, or the objects of a list of any kind. Objects of a list may leave out their
    own kind."""
    if not isinstance(document, Mapping) or not isinstance(document.get("kind"), str):
        raise UsageProblem(
            f"manifest {where}: a document is not a Kubernetes object, which needs apiVersion, "
            f"kind and metadata{_hint(where)}"
        )
    kind = document["kind"]
    items = document.get("items")
    if kind.endswith("List") and "items" in document and depth < 5:
        if not isinstance(items, list | None):
            raise UsageProblem(f"manifest {where}: {kind}: items is not a list")
        of_list = {"kind": kind.removesuffix("List"), "apiVersion": document.get("apiVersion")}
        for item in items or ():
            if not isinstance(item, Mapping):
                raise UsageProblem(f"manifest {where}: {kind}: {shown(item)} is not an object")
            yield from _unfolded({**of_list, **item} if of_list["kind"] else item, where, depth + 1)
        return
    _check_object(document, where)
    yield dict(document)


def _check_object(document: Mapping[str, Any], where: str) -> None:
    """Raise UsageProblem for a document without kind, name or labels in their types."""
    meta = document.get("metadata")
    if not isinstance(document.get("apiVersion"), str) or not isinstance(meta, Mapping):
        raise UsageProblem(
            f"manifest {where}: a document is not a Kubernetes object, which needs apiVersion, "
            f"kind and metadata{_hint(where)}"
        )
    texts = [meta.get("name"), meta.get("namespace") or ""]
    if not meta.get("name") or not all(isinstance(text, str) for text in texts):
        raise UsageProblem(f"an object without kind or name: {shown(dict(document))}")
    if not isinstance(meta.get("labels"), Mapping | None):
        raise UsageProblem(f"{document['kind']} {meta['name']}: labels are not a mapping")


def _hint(where: str) -> str:
    """Return advice about a kustomization, since this file only names and changes other files."""
    return ": render it first, with `kubectl kustomize`" * ("kustomization.y" in where)


def _original(obj: Obj) -> tuple[str, str]:
    """Return namespace and name of the policy that an object may be a copy of: Calico's API serves
    policies of other APIs a second time. If the original exists, only the original is read. Return
    an empty name if the object is no copy."""
    space, name = _key(obj)[2:]
    return space, name.split(".", 2)[-1] if name.startswith(TWINS) else ""


def _is_workload(obj: Obj) -> bool:
    return obj["kind"] in TEMPLATES and not is_foreign(obj)


def _pods_of(obj: Obj, every: Sequence[Obj]) -> Iterator[Obj]:
    """Yield pods made from a workload's template, if the workload has no pods among the objects."""
    template: Any = obj
    for step in TEMPLATES[obj["kind"]]:
        template = template.get(step) if isinstance(template, Mapping) else None
    label = f"{obj['kind']} {obj['metadata']['namespace']}/{obj['metadata']['name']}"
    if not isinstance(template, Mapping) or not isinstance(template.get("spec"), Mapping):
        raise UsageProblem(f"{label}: it has no pod template")
    about = template.get("metadata") or {}
    if not isinstance(about, Mapping) or not isinstance(about.get("labels"), Mapping | None):
        raise UsageProblem(f"{label}: labels of its template are not a mapping")
    wanted = obj["spec"].get("selector")
    if obj["metadata"].get("ownerReferences") or _has_pods(obj, wanted, every):
        return
    meta = {"namespace": obj["metadata"]["namespace"], "labels": about.get("labels") or {}}
    for suffix in ("", REPLICA) if _has_replicas(obj) else ("",):
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**meta, "name": obj["metadata"]["name"] + suffix},
            "spec": template["spec"],
        }


def _has_replicas(obj: Obj) -> bool:
    """Return whether a workload has several pods at the same time, which may connect to each
    other."""
    spec = obj["spec"]["jobTemplate"]["spec"] if obj["kind"] == "CronJob" else obj["spec"]
    number = spec.get("parallelism" if obj["kind"] in ("Job", "CronJob") else "replicas")
    return obj["kind"] == "DaemonSet" or number not in (None, 0, 1)


def _has_pods(obj: Obj, wanted: Any, every: Sequence[Obj]) -> bool:
    if not isinstance(wanted, Mapping) or not wanted:
        return False
    selector = kubernetes(
        wanted if wanted.keys() <= {"matchLabels", "matchExpressions"} else {"matchLabels": wanted}
    )
    return any(
        selector.selects(
            {str(key): value for key, value in (one["metadata"].get("labels") or {}).items()}
        )
        for one in every
        if one["kind"] == "Pod" and one["metadata"].get("namespace") == obj["metadata"]["namespace"]
    )


def files(paths: Sequence[str]) -> Given:
    """Return the objects of files, of folders' files, and of ``-``, which is standard input.  Raise
    UsageProblem."""
    documents: list[tuple[str, Any]] = []
    for path in dict.fromkeys(paths):
        if path == "-":
            documents += [("standard input", one) for one in standard_input()]
            continue
        for file in _files(Path(path)):
            documents += [(str(file), one) for one in finite(manifest.read(file), str(file))]
    return given((one for where, each in documents for one in _unfolded(each, where)), "")


@cache
def standard_input() -> list[Any]:
    """Return the documents of standard input, which can be read only once."""
    return finite(manifest.parsed(sys.stdin.buffer.read(), "standard input"), "standard input")


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES and file.is_file())
    if not found:
        raise UsageProblem(f"{path}: no file in this folder ends in {', '.join(SUFFIXES)}")
    return found


def cluster(kube: Kube) -> Given:
    """Return the objects of a cluster, which only list requests read. Raise SuiteError for a kind
    that may not be read, since its objects may decide the result."""
    api = next((one for one in CALICO if kube.discovery.serves(one, "GlobalNetworkPolicy")), "")
    kinds = [*ON_CLUSTER, *((api, kind) for kind in OF_CALICO if api)]
    documents = []
    for version, kind in kinds:
        if kube.discovery.serves(version, kind):
            try:
                listed = kube.objects_at(version, kind)[0]
            except ApiRefused as refusal:
                raise SuiteError(f"{kind} cannot be listed: {refusal.message}") from None
            documents += [{"apiVersion": version, "kind": kind, **item} for item in listed]
    return given(documents, "of the cluster")


def applied(old: Given, new: Given) -> Given:
    """Return the objects after ``new`` was applied to ``old``: objects of ``new`` replace objects
    of the same name."""
    before = {_key(obj): obj for obj in old.objects}
    after = {_key(obj): obj for obj in new.objects}
    replaced = {_stored_key(key) for key in after.keys() - before.keys()} - after.keys()
    found = {key: obj for key, obj in before.items() if key not in replaced} | after
    return Given(
        list(found.values()),
        list(dict.fromkeys([*old.without_namespace, *new.without_namespace])),
    )


def _stored_key(key: tuple[str, ...]) -> tuple[str, ...]:
    """Return the key under which the same Calico policy has its other name. Before v3.32 and
    without Calico's API server, a policy NAME of the tier ``default`` is stored as
    ``default.NAME``."""
    *owner, name = key
    if key[0] != "projectcalico.org" or not key[1].endswith("NetworkPolicy"):
        return key
    is_stored = name.startswith("default.")
    return *owner, name.removeprefix("default.") if is_stored else f"default.{name}"


def _key(obj: Obj) -> tuple[str, ...]:
    meta = obj["metadata"]
    group = str(obj["apiVersion"]).partition("/")[0].removeprefix("crd.")
    return group, obj["kind"], str(meta.get("namespace") or ""), str(meta["name"])
