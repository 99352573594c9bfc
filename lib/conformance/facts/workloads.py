# SPDX-License-Identifier: Apache-2.0
"""What a workload's pod template says: its containers, and environment variables, also where a
ConfigMap has them."""

from conformance.facts.reading import Reading
from conformance.kube.client import Obj
from conformance.kube.fields import list_at


def all_containers(workload: Obj | None) -> list[Obj]:
    """Containers of a workload's pod template, those that run first included."""
    spec = (((workload or {}).get("spec") or {}).get("template") or {}).get("spec") or {}
    return [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]


def command_line(container: Obj) -> str:
    """Return command and arguments of a container in one text."""
    return " ".join([*list_at(container, "command"), *list_at(container, "args")])


def described(workload: Obj | None) -> str:
    """``DaemonSet kube-system/calico-node``."""
    meta = (workload or {}).get("metadata") or {}
    return f"DaemonSet {meta.get('namespace')}/{meta.get('name')}"


def variable(reading: Reading, workload: Obj | None, name: str) -> str | None:
    """An environment variable of a workload's containers; None: nothing sets it, or what does
    cannot be read.

    ``env`` wins over ``envFrom`` in a container, as it does in the kubelet.
    """
    for container in all_containers(workload):
        found = _own(reading, workload or {}, container, name)
        if found is None:
            found = _from_whole_maps(reading, workload or {}, container, name)
        if found is not None:
            return found
    return None


def _own(reading: Reading, workload: Obj, container: Obj, name: str) -> str | None:
    for entry in container.get("env") or []:
        if entry.get("name") != name:
            continue
        if entry.get("value") is not None:
            return str(entry["value"])
        key = (entry.get("valueFrom") or {}).get("configMapKeyRef")
        return _data(reading, workload, key["name"]).get(key["key"]) if key else None
    return None


def _from_whole_maps(reading: Reading, workload: Obj, container: Obj, name: str) -> str | None:
    found = None
    for source in container.get("envFrom") or []:
        start = source.get("prefix") or ""
        config = (source.get("configMapRef") or {}).get("name")
        if config and name.startswith(start):
            found = _data(reading, workload, config).get(
                name.removeprefix(start), found
            )  # the last one wins
    return found


def _data(reading: Reading, workload: Obj, config: str) -> dict[str, str]:
    found = reading.one("v1", "ConfigMap", config, workload["metadata"]["namespace"])
    return {key: str(value) for key, value in ((found or {}).get("data") or {}).items()}
