# SPDX-License-Identifier: Apache-2.0
"""Namespaces, Nodes, ServiceAccounts, ConfigMaps and Secrets: defaults and checks."""

import re
from collections.abc import Callable, Iterable
from typing import Final

from hybridlab.api.contract import Obj
from hybridlab.api.errors import Cause, forbidden_field, invalid_value, required
from hybridlab.api.kinds.pod_security import LEVELS, PREFIX
from hybridlab.api.kinds.strategy import Strategy, label_problem, with_times
from hybridlab.api.kinds.values import one_of, unchanged

PROTECTED: Final = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})
_DATA_KEY = re.compile(r"^[-._a-zA-Z0-9]+$")
_DATA_LIMIT = 1024 * 1024
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


class NamespaceStrategy(Strategy):
    """The rules of Namespaces."""

    counts_generations = False
    returns_deleted = True
    protected = PROTECTED

    def __init__(self, populate: Callable[[str], None]) -> None:
        self._populate = populate

    def name_problem(self, name: str) -> str | None:
        return label_problem(name)

    def default(self, obj: Obj) -> None:
        meta = obj["metadata"]
        meta["labels"] = {**(meta.get("labels") or {}), "kubernetes.io/metadata.name": meta["name"]}

    def prepare_create(self, obj: Obj) -> None:
        obj["spec"] = {"finalizers": ["kubernetes"]}
        obj["status"] = {"phase": "Active"}

    def prepare_update(self, obj: Obj, old: Obj, subresource: str) -> None:
        if subresource != "finalize":
            obj["spec"] = old.get("spec") or {}

    def after_create(self, obj: Obj) -> None:
        self._populate(obj["metadata"]["name"])

    def validate(self, obj: Obj, old: Obj | None) -> Iterable[Cause]:
        yield from (
            invalid_value(f"metadata.labels[{key}]", value, f"must be one of {', '.join(LEVELS)}")
            for key, value in (obj["metadata"].get("labels") or {}).items()
            if key in {f"{PREFIX}enforce", f"{PREFIX}audit", f"{PREFIX}warn"}
            and value not in LEVELS
        )


class NodeStrategy(Strategy):
    """The rules of Nodes."""

    counts_generations = False
    keeps_status_on_create = True

    def default(self, obj: Obj) -> None:
        _complete_status(obj)

    def prepare_update(self, obj: Obj, old: Obj, subresource: str) -> None:
        _complete_status(obj)

    def validate(self, obj: Obj, old: Obj | None) -> Iterable[Cause]:
        observed: set[tuple[str, str]] = set()
        for index, taint in enumerate(obj["spec"].get("taints") or ()):
            at = f"metadata.taints[{index}]"  # the place that the real server names
            yield from one_of(f"{at}.effect", taint["effect"], _EFFECTS)
            key = (taint["key"], taint["effect"])
            if key in observed:
                yield Cause.of(
                    "FieldValueDuplicate", at, taint, "taints must be unique by key and effect pair"
                )
            observed.add(key)
        before = old["spec"] if old is not None else {}
        for field, path in (("podCIDR", "spec.podCIDRs"), ("providerID", "spec.providerID")):
            if before.get(field) and obj["spec"].get(field) != before[field]:
                detail = f'node updates may not change {field} except from "" to valid'
                yield forbidden_field(path, detail)


_NODE_INFO = (
    "machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion", "kubeletVersion",
    "kubeProxyVersion", "operatingSystem", "architecture",
)  # fmt: skip


def _complete_status(node: Obj) -> None:
    """Add the defaults of a Node's status."""
    status = node["status"] = dict(node.get("status") or {})
    status.setdefault("daemonEndpoints", {"kubeletEndpoint": {"Port": 0}})
    status["nodeInfo"] = {**dict.fromkeys(_NODE_INFO, ""), **(status.get("nodeInfo") or {})}
    if "conditions" in status:
        status["conditions"] = with_times(
            status["conditions"], "lastHeartbeatTime", "lastTransitionTime"
        )


class ServiceAccountStrategy(Strategy):
    """The rules of ServiceAccounts."""

    unconditional_update = False

    counts_generations = False
    returns_deleted = True


class ConfigMapStrategy(Strategy):
    """The rules of ConfigMaps."""

    def validate(self, obj: Obj, old: Obj | None) -> Iterable[Cause]:
        yield from data_problems(obj, ("data", "binaryData"))
        yield from (
            invalid_value("binaryData", key, "duplicate of key present in data")
            for key in sorted(set(obj.get("data") or ()) & set(obj.get("binaryData") or ()))
        )
        yield from immutable_problems(obj, old, ("data", "binaryData"))


class ClaimStrategy(Strategy):
    """The rules of PersistentVolumeClaims. A claim is bound when it is created: the lab has enough
    storage for each."""

    def default(self, obj: Obj) -> None:
        obj["spec"].setdefault("volumeMode", "Filesystem")

    def prepare_create(self, obj: Obj) -> None:
        obj["status"] = {
            "phase": "Bound",
            "accessModes": obj["spec"].get("accessModes", []),
            "capacity": obj["spec"].get("resources", {}).get("requests", {}),
        }


class SecretStrategy(Strategy):
    """The rules of Secrets."""

    def default(self, obj: Obj) -> None:
        obj.setdefault("type", "Opaque")

    def prepare_create(self, obj: Obj) -> None:
        self._encode(obj)

    def prepare_update(self, obj: Obj, old: Obj, subresource: str) -> None:
        self._encode(obj)

    @staticmethod
    def _encode(obj: Obj) -> None:
        """Move stringData into data, as base64."""
        plain = obj.pop("stringData", None)
        if plain:
            from base64 import b64encode

            obj["data"] = {
                **(obj.get("data") or {}),
                **{key: b64encode(value.encode()).decode() for key, value in plain.items()},
            }

    def validate(self, obj: Obj, old: Obj | None) -> Iterable[Cause]:
        yield from data_problems(obj, ("data",))
        data = obj.get("data") or {}
        if obj["type"] == "kubernetes.io/dockerconfigjson" and ".dockerconfigjson" not in data:
            yield required("data[.dockerconfigjson]")
        elif obj["type"] == "kubernetes.io/tls":
            yield from (
                required(f"data[{key}]") for key in ("tls.crt", "tls.key") if key not in data
            )
        if old is not None:
            yield from unchanged("type", obj["type"], old["type"])
        yield from immutable_problems(obj, old, ("data",))


def data_problems(obj: Obj, fields: tuple[str, ...]) -> Iterable[Cause]:
    """Return what is wrong with the keys and the size of a ConfigMap's or Secret's data."""
    size = 0
    for field in fields:
        for key, value in (obj.get(field) or {}).items():
            size += len(value)
            if len(key) > 253 or not _DATA_KEY.match(key) or key in {".", ".."}:
                detail = (
                    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
                    "'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
                )
                yield invalid_value(f"{field}[{key}]", key, detail)
    if size > _DATA_LIMIT:
        yield Cause(
            "FieldValueTooLong", fields[0], f"Too long: may not be more than {_DATA_LIMIT} bytes"
        )


def immutable_problems(obj: Obj, old: Obj | None, fields: tuple[str, ...]) -> Iterable[Cause]:
    """Return the forbidden changes of an object that is marked ``immutable``."""
    if old is None or not old.get("immutable"):
        return
    if not obj.get("immutable"):
        yield forbidden_field("immutable", "field is immutable when `immutable` is set")
    yield from (
        forbidden_field(field, "field is immutable when `immutable` is set")
        for field in fields
        if obj.get(field) != old.get(field)
    )
