# SPDX-License-Identifier: Apache-2.0
"""The privileges that a Linux container's security context gives its processes: capabilities, low
ports, ping."""

from dataclasses import dataclass

from hybridlab.api.contract import Obj
from hybridlab.controllers.environment import ConfigError
from hybridlab.runtime.model import USUAL_CAPABILITIES

PORT_START = "net.ipv4.ip_unprivileged_port_start"
PING_GROUPS = "net.ipv4.ping_group_range"
KERNELS = {PORT_START: "1024", PING_GROUPS: "1 0"}
"""The settings that a new network namespace has by default (ip-sysctl.rst). Some runtimes change
them; the lab does not."""


@dataclass(frozen=True)
class Privileges:
    """The privileges that the kernel grants."""

    capabilities: tuple[str, ...]
    port_start: int
    """The lowest port in the pod that a process can open without NET_BIND_SERVICE."""
    may_ping: bool


def privileges(pod: Obj, container: Obj) -> Privileges:
    """Return the privileges of a container's processes. Images are assumed to run as root, as most
    of the lab's images do.

    Raise ConfigError if the kubelet does not start the container.
    """
    of_pod = pod["spec"].get("securityContext") or {}
    context = {**of_pod, **(container.get("securityContext") or {})}
    _check_not_root(pod, container["name"], context)
    sysctls = KERNELS | {item["name"]: str(item["value"]) for item in of_pod.get("sysctls") or ()}
    first, last = map(int, sysctls[PING_GROUPS].split())
    is_in_range = first <= int(context.get("runAsGroup") or 0) <= last
    capabilities = _capabilities(context)
    return Privileges(
        capabilities=capabilities,
        port_start=int(sysctls[PORT_START]),
        may_ping=is_in_range or "NET_RAW" in capabilities,
    )


def _check_not_root(pod: Obj, name: str, context: Obj) -> None:
    """Raise ConfigError for root under runAsNonRoot (kuberuntime/security_context_others.go)."""
    user = context.get("runAsUser")
    if not context.get("runAsNonRoot") or user:
        return
    meta = pod["metadata"]
    why = (
        "container has runAsNonRoot and image will run as root"
        if user is None
        else "container's runAsUser breaks non-root policy"
    )
    place = f'pod: "{meta["name"]}_{meta["namespace"]}({meta["uid"]})", container: {name}'
    raise ConfigError(f"{why} ({place})")


def _capabilities(context: Obj) -> tuple[str, ...]:
    """Return the usual capabilities without those that the container drops.

    A user other than root has no capabilities, even if the container has some: an execve by such a
    user removes them (capabilities(7)).
    """
    if context.get("runAsUser"):
        return ()
    wanted = context.get("capabilities") or {}
    dropped = set(wanted.get("drop") or ())
    added = set(wanted.get("add") or ())
    return tuple(
        name
        for name in USUAL_CAPABILITIES
        if name in added or not dropped.intersection((name, "ALL"))
    )
