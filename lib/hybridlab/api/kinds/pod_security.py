# SPDX-License-Identifier: Apache-2.0
"""Pod Security admission: the pods that a namespace's ``pod-security.kubernetes.io/enforce`` label
refuses.

Levels privileged, baseline and restricted follow the Pod Security Standards (v1.34), with the
wording of the real plugin. ``warn`` gives warnings. ``audit`` and pinned versions of the standards
have no effect here.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

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
    """Return the fields of a pod's spec that a level forbids, in the real plugin's wording."""
    controls = {"baseline": _BASELINE, "restricted": (*_BASELINE, *_RESTRICTED)}.get(level, ())
    return [words for control in controls for words in control(spec)]


def _containers(spec: Obj, *groups: str) -> list[Obj]:
    return [container for group in groups for container in spec.get(group) or ()]


def _with_context(spec: Obj, wrong: Callable[[Obj], object]) -> list[str]:
    """Return the names of the containers with a security context for which ``wrong`` is true."""
    return [
        container.get("name", "")
        for container in _containers(spec, *_GROUPS)
        if wrong(container.get("securityContext") or {})
    ]


def _who(names: list[str]) -> str:
    quoted = ", ".join(f'"{name}"' for name in names)
    return f"container {quoted}" if len(names) == 1 else f"containers {quoted}"


def _extra_capabilities(context: Obj) -> set[str]:
    return set((context.get("capabilities") or {}).get("add") or ()) - _BASELINE_CAPABILITIES


@dataclass(frozen=True)
class _ContextControl:
    """A control of the Pod Security Standards that concerns the security contexts of a pod's
    containers."""

    wrong: Callable[[Obj], object]
    """Returns whether a security context violates the control."""
    words: str
    """The plugin's message for the violation; ``{who}`` stands for the containers, or the pod."""
    linux_only: bool = False
    pod: Literal["ignored", "excuses", "counts"] = "ignored"
    """The effect of the pod's own context: none ("ignored"); if it is right, it makes up for wrong
    contexts of the containers ("excuses"); or it must be right as well ("counts")."""

    def __call__(self, spec: Obj) -> Iterator[str]:
        if self.linux_only and (spec.get("os") or {}).get("name") == "windows":
            return
        names = _with_context(spec, self.wrong)
        violated: object = names
        if self.pod == "excuses":
            violated = names and self.wrong(spec.get("securityContext") or {})
        elif self.pod == "counts":
            violated = names or self.wrong(spec.get("securityContext") or {})
        if violated:
            yield self.words.format(who=_who(names) if names else "pod")


def _host_namespaces(spec: Obj) -> Iterator[str]:
    if spaces := [
        f"{name}=true" for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name)
    ]:
        yield f"host namespaces ({', '.join(spaces)})"


def _added_capabilities(spec: Obj) -> Iterator[str]:
    if adding := _with_context(spec, _extra_capabilities):
        contexts = [item.get("securityContext") or {} for item in _containers(spec, *_GROUPS)]
        listed = ", ".join(
            f'"{item}"' for item in sorted(set().union(*map(_extra_capabilities, contexts)))
        )
        yield f"non-default capabilities ({_who(adding)} must not include {listed} in securityContext.capabilities.add)"


def _host_paths(spec: Obj) -> Iterator[str]:
    if paths := [
        f'"{volume["name"]}"'
        for volume in spec.get("volumes") or ()
        if volume.get("hostPath") is not None
    ]:
        yield f"hostPath volumes (volume{'s' if len(paths) > 1 else ''} {', '.join(paths)})"


def _host_ports(spec: Obj) -> Iterator[str]:
    used = {
        container.get("name", ""): [
            port["hostPort"] for port in container.get("ports") or () if port.get("hostPort")
        ]
        for container in _containers(spec, "initContainers", "containers")
    }
    ports = [str(port) for found in used.values() for port in found]
    names = [name for name, found in used.items() if found]
    if names:
        verb = "uses" if len(names) == 1 else "use"
        plural = "s" if len(ports) > 1 else ""
        yield f"hostPort ({_who(names)} {verb} hostPort{plural} {', '.join(dict.fromkeys(ports))})"


def _host_processes(spec: Obj) -> Iterator[str]:
    every = _containers(spec, "initContainers", "containers")
    if hosts := [container["name"] for container in every if host_process(container, spec)]:
        pod = spec.get("securityContext") or {}
        who = "pod" if (pod.get("windowsOptions") or {}).get("hostProcess") else _who(hosts)
        yield f"hostProcess ({who} must not set securityContext.windowsOptions.hostProcess=true)"


def _sysctls(spec: Obj) -> Iterator[str]:
    pod = spec.get("securityContext") or {}
    if sysctls := [
        item["name"] for item in pod.get("sysctls") or () if item.get("name") not in _SAFE_SYSCTLS
    ]:
        yield f"forbidden sysctls ({', '.join(sysctls)})"


def _volume_types(spec: Obj) -> Iterator[str]:
    others = [
        volume for volume in spec.get("volumes") or () if not _RESTRICTED_VOLUMES & volume.keys()
    ]
    if volumes := [
        f'volume "{volume["name"]}"' for volume in others if volume.get("hostPath") is None
    ]:
        yield f"restricted volume types ({', '.join(volumes)})"


_BASELINE: tuple[Callable[[Obj], Iterator[str]], ...] = (
    _host_namespaces,
    _ContextControl(
        lambda context: context.get("privileged"),
        "privileged ({who} must not set securityContext.privileged=true)",
    ),
    _added_capabilities,
    _host_paths,
    _host_ports,
    _host_processes,
    _sysctls,
    _ContextControl(
        lambda context: (context.get("seccompProfile") or {}).get("type") == "Unconfined",
        'seccompProfile ({who} must not set securityContext.seccompProfile.type to "Unconfined")',
        pod="counts",
    ),
)
_RESTRICTED: tuple[Callable[[Obj], Iterator[str]], ...] = (
    _ContextControl(
        lambda context: context.get("allowPrivilegeEscalation") is not False,
        "allowPrivilegeEscalation != false "
        "({who} must set securityContext.allowPrivilegeEscalation=false)",
        linux_only=True,
    ),
    _ContextControl(
        lambda context: "ALL" not in ((context.get("capabilities") or {}).get("drop") or ()),
        'unrestricted capabilities ({who} must set securityContext.capabilities.drop=["ALL"])',
        linux_only=True,
    ),
    _volume_types,
    _ContextControl(
        lambda context: context.get("runAsNonRoot") is not True,
        "runAsNonRoot != true (pod or {who} must set securityContext.runAsNonRoot=true)",
        pod="excuses",
    ),
    _ContextControl(
        lambda context: context.get("runAsUser") == 0,
        "runAsUser=0 ({who} must not set runAsUser=0)",
        pod="counts",
    ),
    _ContextControl(
        lambda context: not context.get("seccompProfile"),
        "seccompProfile (pod or {who} must set securityContext.seccompProfile.type to "
        '"RuntimeDefault" or "Localhost")',
        linux_only=True,
        pod="excuses",
    ),
)
