# SPDX-License-Identifier: Apache-2.0
"""The user of a Windows container (``runAsUserName``): values that the kubelet and the runtime
refuse.
"""

from typing import Any, Final

from hybridlab.api.contract import Obj
from hybridlab.controllers.environment import ConfigError

_ROOT: Final = "containeradministrator"
_KNOWN: Final = frozenset(
    {
        _ROOT,
        "containeruser",
        "system",
        "local service",
        "localservice",
        "network service",
        "networkservice",
    }
)
"""Users of Windows base images that need no password, without their domain, in lower case."""
_DOMAINS: Final = frozenset({"", "nt authority", "user manager"})


def windows_option(pod: Obj, container: Obj, name: str) -> Any:
    """Return a field of ``windowsOptions``: the container's value, or else the pod's; return None
    if neither sets the field."""
    for context in (container.get("securityContext"), pod["spec"].get("securityContext")):
        chosen = ((context or {}).get("windowsOptions") or {}).get(name)
        if chosen is not None:
            return chosen
    return None


def check_not_root(pod: Obj, container: Obj) -> None:
    """Raise ConfigError for ContainerAdministrator under runAsNonRoot (kuberuntime/security_context_windows.go)."""
    own = (container.get("securityContext") or {}).get("runAsNonRoot")
    non_root = (
        (pod["spec"].get("securityContext") or {}).get("runAsNonRoot") if own is None else own
    )
    user = windows_option(pod, container, "runAsUserName") or ""
    if non_root and user.lower() == _ROOT:
        meta = pod["metadata"]
        why = "which will be regarded as root identity and will break non-root policy"
        place = f'(pod: "{meta["name"]}_{meta["namespace"]}({meta["uid"]})", container: {container["name"]})'
        raise ConfigError(f"container's runAsUserName ({user}) {why} {place}")


def unknown_user(pod: Obj, container: Obj, container_id: str) -> str:
    """Return why containerd cannot start a container as its user; return an empty string if it can.

    Host process containers are left out: they may run as local groups of their host.
    """
    user = windows_option(pod, container, "runAsUserName")
    if user is None or windows_option(pod, container, "hostProcess"):
        return ""
    domain, _, name = user.lower().rpartition("\\")
    if domain in _DOMAINS and name in _KNOWN:
        return ""
    task = "failed to create containerd task: failed to create shim task"
    return f"{task}: hcs::System::CreateProcess {container_id}: The user name or password is incorrect.: unknown"
