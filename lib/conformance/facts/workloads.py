# SPDX-License-Identifier: Apache-2.0
"""The contents of a workload's pod template: its containers, and its environment variables,
including those from ConfigMaps.

Felix reads its own variables in upper or lower case: ``felix_vxlanVNI`` is ``FELIX_VXLANVNI``
(projectcalico/calico felix/config/env_var_loader.go).
"""

from conformance.facts.reading import Reading
from conformance.kube.client import Obj
from conformance.kube.fields import list_at


def all_containers(workload: Obj | None) -> list[Obj]:
    """Return the containers of a workload's pod template, init containers included."""
    spec = (((workload or {}).get("spec") or {}).get("template") or {}).get("spec") or {}
    return [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]


def command_line(container: Obj) -> str:
    """Return command and arguments of a container in one text."""
    return " ".join([*list_at(container, "command"), *list_at(container, "args")])


def described(workload: Obj | None) -> str:
    """Return the kind and the name of a DaemonSet: ``DaemonSet kube-system/calico-node``."""
    meta = (workload or {}).get("metadata") or {}
    return f"DaemonSet {meta.get('namespace')}/{meta.get('name')}"


def variable(reading: Reading, workload: Obj | None, name: str) -> str | None:
    """Return an environment variable of a workload's containers; None if the variable is not set,
    or if its source cannot be read.

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
    for entry in reversed(container.get("env") or []):  # the last entry of a name counts
        if not _is(entry.get("name"), name):
            continue
        if entry.get("value") is not None:
            return str(entry["value"])
        key = (entry.get("valueFrom") or {}).get("configMapKeyRef")
        return _data(reading, workload, key["name"]).get(key["key"]) if key else None
    return None


def _is(given: object, name: str) -> bool:
    """Return whether ``given``, a variable's name in a template, means the variable ``name``."""
    return given == name or (name.startswith("FELIX_") and str(given).upper() == name)


def _from_whole_maps(reading: Reading, workload: Obj, container: Obj, name: str) -> str | None:
    found = None
    for source in container.get("envFrom") or []:
        start = source.get("prefix") or ""
        if config := (source.get("configMapRef") or {}).get("name"):
            for key, value in _data(reading, workload, config).items():
                # the last entry of a name counts
                found = value if _is(f"{start}{key}", name) else found
    return found


def _data(reading: Reading, workload: Obj, config: str) -> dict[str, str]:
    found = reading.one("v1", "ConfigMap", config, workload["metadata"]["namespace"])
    return {key: str(value) for key, value in ((found or {}).get("data") or {}).items()}
