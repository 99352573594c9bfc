"""Pod Security admission: what a namespace's ``pod-security.kubernetes.io/enforce`` label refuses.

Levels privileged, baseline and restricted after the Pod Security Standards (v1.34), with the wording of the real
plugin.  ``warn`` gives warnings.  ``audit`` and pinned versions of the standards have no effect here.
"""

from collections.abc import Callable, Iterator

from hybridlab.api.contract import Obj
from hybridlab.api.kinds.pod_checks import host_process

PREFIX = "pod-security.kubernetes.io/"
LEVELS = ("privileged", "baseline", "restricted")

_GROUPS = ("initContainers", "containers", "ephemeralContainers")
_BASELINE_CAPABILITIES = {
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP",
    "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
}  # fmt: skip
_SAFE_SYSCTLS = {
    "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range", "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem",
}  # fmt: skip
_RESTRICTED_VOLUMES = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret",
}  # fmt: skip


def violations(level: str, spec: Obj) -> list[str]:
    """Return what in a pod's spec a level forbids, each as the real plugin words it."""
    if level == "baseline":
        return list(_baseline(spec))
    if level == "restricted":
        return [*_baseline(spec), *_restricted(spec)]
    return []


def _containers(spec: Obj, *groups: str) -> list[Obj]:
    return [container for group in groups for container in spec.get(group) or ()]


def _whose(spec: Obj, wrong: Callable[[Obj], object]) -> list[str]:
    """Names of the containers whose security context is wrong."""
    every = _containers(spec, *_GROUPS)
    return [
        container.get("name", "")
        for container in every
        if wrong(container.get("securityContext") or {})
    ]


def _who(names: list[str]) -> str:
    quoted = ", ".join(f'"{name}"' for name in names)
    return f"container {quoted}" if len(names) == 1 else f"containers {quoted}"


def _extra_capabilities(context: Obj) -> set[str]:
    return set((context.get("capabilities") or {}).get("add") or ()) - _BASELINE_CAPABILITIES


def _unconfined(context: Obj) -> bool:
    return (context.get("seccompProfile") or {}).get("type") == "Unconfined"


def _keeps_capabilities(context: Obj) -> bool:
    return "ALL" not in ((context.get("capabilities") or {}).get("drop") or ())


def _baseline(spec: Obj) -> Iterator[str]:
    pod = spec.get("securityContext") or {}
    if spaces := [
        f"{name}=true" for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name)
    ]:
        yield f"host namespaces ({', '.join(spaces)})"
    if privileged := _whose(spec, lambda context: context.get("privileged")):
        yield f"privileged ({_who(privileged)} must not set securityContext.privileged=true)"
    if adding := _whose(spec, _extra_capabilities):
        contexts = (one.get("securityContext") or {} for one in _containers(spec, *_GROUPS))
        listed = ", ".join(
            f'"{item}"' for item in sorted(set().union(*map(_extra_capabilities, contexts)))
        )
        yield f"non-default capabilities ({_who(adding)} must not include {listed} in securityContext.capabilities.add)"
    if paths := [
        f'"{volume["name"]}"'
        for volume in spec.get("volumes") or ()
        if volume.get("hostPath") is not None
    ]:
        yield f"hostPath volumes (volume{'s' if len(paths) > 1 else ''} {', '.join(paths)})"
    every = _containers(spec, "initContainers", "containers")
    yield from _host_ports(every)
    if hosts := [container["name"] for container in every if host_process(container, spec)]:
        who = "pod" if (pod.get("windowsOptions") or {}).get("hostProcess") else _who(hosts)
        yield f"hostProcess ({who} must not set securityContext.windowsOptions.hostProcess=true)"
    if sysctls := [
        item["name"] for item in pod.get("sysctls") or () if item.get("name") not in _SAFE_SYSCTLS
    ]:
        yield f"forbidden sysctls ({', '.join(sysctls)})"
    if (unconfined := _whose(spec, _unconfined)) or _unconfined(pod):
        who = _who(unconfined) if unconfined else "pod"
        yield f'seccompProfile ({who} must not set securityContext.seccompProfile.type to "Unconfined")'


def _host_ports(containers: list[Obj]) -> Iterator[str]:
    used = {
        one.get("name", ""): [
            port["hostPort"] for port in one.get("ports") or () if port.get("hostPort")
        ]
        for one in containers
    }
    ports = [str(port) for found in used.values() for port in found]
    names = [name for name, found in used.items() if found]
    if names:
        verb = "uses" if len(names) == 1 else "use"
        plural = "s" if len(ports) > 1 else ""
        yield f"hostPort ({_who(names)} {verb} hostPort{plural} {', '.join(dict.fromkeys(ports))})"


def _restricted(spec: Obj) -> Iterator[str]:
    pod = spec.get("securityContext") or {}
    linux = (spec.get("os") or {}).get("name") != "windows"
    if linux and (
        whose := _whose(spec, lambda context: context.get("allowPrivilegeEscalation") is not False)
    ):
        words = f"({_who(whose)} must set securityContext.allowPrivilegeEscalation=false)"
        yield f"allowPrivilegeEscalation != false {words}"
    if linux and (whose := _whose(spec, _keeps_capabilities)):
        yield f'unrestricted capabilities ({_who(whose)} must set securityContext.capabilities.drop=["ALL"])'
    others = [
        volume for volume in spec.get("volumes") or () if not _RESTRICTED_VOLUMES & volume.keys()
    ]
    if volumes := [
        f'volume "{volume["name"]}"' for volume in others if volume.get("hostPath") is None
    ]:
        yield f"restricted volume types ({', '.join(volumes)})"
    root = _whose(spec, lambda context: context.get("runAsNonRoot") is not True)
    if root and pod.get("runAsNonRoot") is not True:
        yield f"runAsNonRoot != true (pod or {_who(root)} must set securityContext.runAsNonRoot=true)"
    if (zero := _whose(spec, lambda context: context.get("runAsUser") == 0)) or pod.get(
        "runAsUser"
    ) == 0:
        yield f"runAsUser=0 ({_who(zero) if zero else 'pod'} must not set runAsUser=0)"
    free = _whose(spec, lambda context: not context.get("seccompProfile"))
    if linux and free and not pod.get("seccompProfile"):
        words = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
        yield f"seccompProfile (pod or {_who(free)} {words})"
