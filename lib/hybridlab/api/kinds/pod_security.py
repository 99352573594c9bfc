"""Pod Security admission: what a namespace's ``pod-security.kubernetes.io/enforce`` label refuses.

Levels privileged, baseline and restricted after the Pod Security Standards (v1.34), with the wording of the real
plugin.  ``warn`` gives warnings.  ``audit`` and pinned versions of the standards have no effect here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hybridlab.api.contract import Obj
from hybridlab.api.kinds.pod_checks import host_process

PREFIX = "pod-security.kubernetes.io/"
LEVELS = ("privileged", "baseline", "restricted")

_BASELINE_CAPABILITIES = frozenset(
    {
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    }
)
_SAFE_SYSCTLS = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_wmem",
    }
)
_RESTRICTED_VOLUMES = frozenset(
    {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
)


def violations(level: str, spec: Obj) -> list[str]:
    """Return what in a pod's spec a level forbids, each as the real plugin words it."""
    if level == "baseline":
        return list(_baseline(spec))
    if level == "restricted":
        return [*_baseline(spec), *_restricted(spec)]
    return []


def _containers(spec: Obj) -> Iterator[tuple[str, Obj]]:
    for group in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(group) or ():
            yield container.get("name", ""), container.get("securityContext") or {}


def _who(names: list[str]) -> str:
    quoted = ", ".join(f'"{name}"' for name in names)
    return f"container {quoted}" if len(names) == 1 else f"containers {quoted}"


def _baseline(spec: Obj) -> Iterator[str]:
    spaces = [name for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name)]
    if spaces:
        yield "host namespaces (" + ", ".join(f"{name}=true" for name in spaces) + ")"
    privileged = [name for name, context in _containers(spec) if context.get("privileged")]
    if privileged:
        yield f"privileged ({_who(privileged)} must not set securityContext.privileged=true)"
    added = {
        name: sorted(set((context.get("capabilities") or {}).get("add") or ()) - _BASELINE_CAPABILITIES)
        for name, context in _containers(spec)
    }
    bad = [name for name, items in added.items() if items]
    if bad:
        listed = ", ".join(f'"{item}"' for item in sorted({item for items in added.values() for item in items}))
        yield f"non-default capabilities ({_who(bad)} must not include {listed} in securityContext.capabilities.add)"
    paths = [volume["name"] for volume in spec.get("volumes") or () if volume.get("hostPath") is not None]
    if paths:
        quoted = ", ".join(f'"{name}"' for name in paths)
        yield f"hostPath volumes (volume{'s' if len(paths) > 1 else ''} {quoted})"
    ports = [
        (container.get("name", ""), port["hostPort"])
        for group in ("initContainers", "containers")
        for container in spec.get(group) or ()
        for port in container.get("ports") or ()
        if port.get("hostPort")
    ]
    if ports:
        names = list(dict.fromkeys(name for name, _ in ports))
        numbers = ", ".join(str(number) for number in dict.fromkeys(number for _, number in ports))
        verb, plural = "uses" if len(names) == 1 else "use", "s" if len(ports) > 1 else ""
        yield f"hostPort ({_who(names)} {verb} hostPort{plural} {numbers})"
    everything: list[Obj] = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    if any(host_process(container, spec) for container in everything):
        names = [container["name"] for container in everything if host_process(container, spec)]
        in_pod = ((spec.get("securityContext") or {}).get("windowsOptions") or {}).get("hostProcess")
        who = "pod" if in_pod else _who(names)
        yield f"hostProcess ({who} must not set securityContext.windowsOptions.hostProcess=true)"
    context = spec.get("securityContext") or {}
    sysctls = [item["name"] for item in context.get("sysctls") or () if item.get("name") not in _SAFE_SYSCTLS]
    if sysctls:
        yield f"forbidden sysctls ({', '.join(sysctls)})"
    unconfined = [
        name for name, own in _containers(spec) if (own.get("seccompProfile") or {}).get("type") == "Unconfined"
    ]
    if unconfined or (context.get("seccompProfile") or {}).get("type") == "Unconfined":
        who = _who(unconfined) if unconfined else "pod"
        yield f'seccompProfile ({who} must not set securityContext.seccompProfile.type to "Unconfined")'


def _restricted(spec: Obj) -> Iterator[str]:
    windows = (spec.get("os") or {}).get("name") == "windows"
    context: dict[str, Any] = spec.get("securityContext") or {}
    if not windows:
        escalating = [name for name, own in _containers(spec) if own.get("allowPrivilegeEscalation") is not False]
        if escalating:
            yield (
                f"allowPrivilegeEscalation != false ({_who(escalating)} must set "
                "securityContext.allowPrivilegeEscalation=false)"
            )
        keeping = [
            name for name, own in _containers(spec) if "ALL" not in ((own.get("capabilities") or {}).get("drop") or ())
        ]
        if keeping:
            yield f'unrestricted capabilities ({_who(keeping)} must set securityContext.capabilities.drop=["ALL"])'
    volumes = [
        volume["name"]
        for volume in spec.get("volumes") or ()
        if not _RESTRICTED_VOLUMES & volume.keys() and volume.get("hostPath") is None
    ]
    if volumes:
        yield "restricted volume types (" + ", ".join(f'volume "{name}"' for name in volumes) + ")"
    if context.get("runAsNonRoot") is not True:
        rooted = [name for name, own in _containers(spec) if own.get("runAsNonRoot") is not True]
        if rooted:
            yield f"runAsNonRoot != true (pod or {_who(rooted)} must set securityContext.runAsNonRoot=true)"
    zero = [name for name, own in _containers(spec) if own.get("runAsUser") == 0]
    if zero or context.get("runAsUser") == 0:
        yield f"runAsUser=0 ({_who(zero) if zero else 'pod'} must not set runAsUser=0)"
    if not windows and not context.get("seccompProfile"):
        open_ = [name for name, own in _containers(spec) if not own.get("seccompProfile")]
        if open_:
            yield (
                f"seccompProfile (pod or {_who(open_)} must set securityContext.seccompProfile.type to "
                '"RuntimeDefault" or "Localhost")'
            )
