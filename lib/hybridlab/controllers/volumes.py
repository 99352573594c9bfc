# SPDX-License-Identifier: Apache-2.0
"""The content of a pod's volumes. ConfigMaps, Secrets, the downward API and projected tokens become
files; an emptyDir or a PersistentVolumeClaim becomes a key.

hostPath volumes of the cluster's own pods are left out (no part of the lab reads them). In all
other pods, hostPath volumes and every kind that needs storage are refused as ``not emulated``.
"""

import base64
import posixpath
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from hybridlab.api.contract import Obj
from hybridlab.controllers.environment import ConfigError, PodFields, Sources, resource_field
from hybridlab.controllers.environment import field as pod_field
from hybridlab.profiles.model import OS
from hybridlab.runtime.model import CLAIM

SYSTEM_NAMESPACES = frozenset(
    {"kube-system", "calico-system", "calico-apiserver", "tigera-operator"}
)

TokenIssuer = Callable[[Obj, str, int], Awaitable[str]]
"""Returns a token for (pod, audience or '', seconds of validity), bound to the pod's service
account."""


class MountError(Exception):
    """A volume cannot be set up now; the message goes into the FailedMount event."""


@dataclass
class Volume:
    """The content of a volume."""

    name: str
    files: dict[str, bytes] = field(default_factory=dict)
    """The content of each file, by relative path."""
    key: str = ""
    """The key of a volume that containers write to: an emptyDir or a claim."""
    absent: bool = False
    """The volume is not mounted anywhere (hostPath of a system pod)."""


@dataclass(frozen=True)
class Mounts:
    """A container's mounts of the volumes, in the form that the runtime takes."""

    files: dict[str, str]
    empty_dirs: dict[str, str]


async def load(facts: PodFields, sources: Sources, issue: TokenIssuer | None) -> dict[str, Volume]:
    """Return every volume of a pod by name. Raise :class:`MountError` if a volume cannot be set up
    now."""
    found = {}
    for volume in facts.pod["spec"].get("volumes") or ():
        try:
            found[volume["name"]] = await _load(volume, facts, sources, issue)
        except (ConfigError, MountError) as error:
            raise MountError(
                f'MountVolume.SetUp failed for volume "{volume["name"]}" : {error}'
            ) from error
    return found


async def _load(
    volume: Obj, facts: PodFields, sources: Sources, issue: TokenIssuer | None
) -> Volume:
    name = volume["name"]
    if "emptyDir" in volume:
        return Volume(name, key=name)
    if "persistentVolumeClaim" in volume:
        wanted = volume["persistentVolumeClaim"]["claimName"]
        claim = sources.named["persistentvolumeclaims"](facts.pod["metadata"]["namespace"], wanted)
        if claim is None:
            raise MountError(f'persistentvolumeclaim "{wanted}" not found')
        return Volume(name, key=f"{CLAIM}{claim['metadata']['uid']}")
    if "hostPath" in volume and facts.pod["metadata"]["namespace"] in SYSTEM_NAMESPACES:
        return Volume(name, absent=True)
    for kind in ("configMap", "secret", "downwardAPI", "projected"):
        if kind in volume:
            return Volume(name, await _source_files(kind, volume[kind], facts, sources, issue))
    kind = next((key for key in volume if key != "name"), "empty")
    raise MountError(f"not emulated: volume of kind {kind}")


async def _source_files(
    kind: str, source: Obj, facts: PodFields, sources: Sources, issue: TokenIssuer | None
) -> dict[str, bytes]:
    namespace = facts.pod["metadata"]["namespace"]
    match kind:
        case "configMap":
            return _keyed(
                "configmap",
                sources.named["configmaps"](namespace, source.get("name", "")),
                source,
                source.get("name"),
            )
        case "secret":
            name = source.get("secretName") or source.get("name", "")
            return _keyed("secret", sources.named["secrets"](namespace, name), source, name)
        case "downwardAPI":
            return {
                item["path"]: _downward(item, facts, sources).encode()
                for item in source.get("items") or ()
            }
        case "serviceAccountToken":
            if issue is None:
                raise MountError("not emulated: service account tokens (no issuer is connected)")
            token = await issue(
                facts.pod, source.get("audience") or "", source.get("expirationSeconds") or 3600
            )
            return {source["path"]: token.encode()}
        case "projected":
            files: dict[str, bytes] = {}
            for entry in source.get("sources") or ():
                for inner, value in entry.items():
                    files |= await _source_files(inner, value, facts, sources, issue)
            return files
    raise MountError(f"not emulated: projected source {kind}")


def _downward(item: Obj, facts: PodFields, sources: Sources) -> str:
    if "fieldRef" in item:
        return pod_field(item["fieldRef"]["fieldPath"], facts)
    return resource_field(item["resourceFieldRef"], facts.pod, {}, sources.allocatable)


def _keyed(kind: str, obj: Obj | None, source: Obj, name: str | None) -> dict[str, bytes]:
    if obj is None:
        if source.get("optional"):
            return {}
        raise MountError(f'{kind} "{name}" not found')
    data = contents(obj)
    files = {}
    for item in source.get("items") or [{"key": key, "path": key} for key in data]:
        if item["key"] in data:
            files[item["path"]] = data[item["key"]]
        elif not source.get("optional"):
            raise MountError(f"{kind} references non-existent config key: {item['key']}")
    return files


def contents(obj: Obj) -> dict[str, bytes]:
    """Return the data of a ConfigMap or Secret, as bytes."""
    if obj["kind"] == "Secret":
        return {key: base64.b64decode(value) for key, value in (obj.get("data") or {}).items()}
    plain = {key: value.encode() for key, value in (obj.get("data") or {}).items()}
    return plain | {
        key: base64.b64decode(value) for key, value in (obj.get("binaryData") or {}).items()
    }


def mounts(container: Obj, volumes: dict[str, Volume], os: OS) -> Mounts:
    """Return the mounts of ``container``. Raise :class:`MountError` for a mount that the lab does
    not support."""
    files: dict[str, str] = {}
    empty_dirs: dict[str, str] = {}
    for mount in container.get("volumeMounts") or ():
        volume = volumes[mount["name"]]
        if volume.absent:
            continue
        base = mount["mountPath"]
        sub = (mount.get("subPath") or "").strip("/")
        if sub and volume.key.startswith(CLAIM):
            raise MountError("not emulated: subPath of a PersistentVolumeClaim")
        if volume.key:
            empty_dirs[container_path(base, "", os)] = volume.key + (f"/{sub}" if sub else "")
            continue
        for name, data in volume.files.items():
            if not sub or name == sub or name.startswith(f"{sub}/"):
                inside = name.removeprefix(sub).lstrip("/")
                files[container_path(base, inside, os)] = base64.b64encode(data).decode()
    return Mounts(files, empty_dirs)


def container_path(base: str, inside: str, os: OS) -> str:
    """Return the path of a mount's file in the container; on Windows a path without drive is on
    ``C:``."""
    path = (
        posixpath.join(base.replace("\\", "/") if os == "windows" else base, inside).rstrip("/")
        or "/"
    )
    if os == "linux":
        return path
    if path[1:2] != ":":
        path = "C:" + ("" if path.startswith("/") else "/") + path
    return path.replace("/", "\\")
