# SPDX-License-Identifier: Apache-2.0
"""The checks of the values of a pod's spec, alone or as a template."""

from collections.abc import Iterator
from typing import Any

from hybridlab.api.contract import Obj
from hybridlab.api.errors import (
    Cause,
    duplicate,
    forbidden_field,
    invalid_value,
    required,
    unsupported,
)
from hybridlab.api.kinds.metadata import key_problem, label_problems, value_problem
from hybridlab.api.kinds.strategy import label_problem, port_problems
from hybridlab.api.kinds.values import at_least_zero, in_range, invalid_if, malformed, one_of
from hybridlab.api.kinds.windows_user import user_name_problems
from hybridlab.api.quantities import quantity

_PULL = ("Always", "IfNotPresent", "Never")
_RESTART = ("Always", "OnFailure", "Never")
_DNS = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_MOST_SECONDS = 2**31 - 1
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_NODE_OPERATORS = ("DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn")
_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")


def pod_spec_problems(spec: Obj, at: str = "spec") -> Iterator[Cause]:
    """Yield the faults of a pod's spec, with its defaults filled in."""
    volumes = spec.get("volumes") or []
    yield from _unique_names(volumes, f"{at}.volumes")
    names = {volume.get("name") for volume in volumes}
    if not spec.get("containers"):
        yield required(f"{at}.containers")
    observed: set[str] = set()
    for group, here, container in _containers(spec, at):
        yield from _container_problems(container, here, names, spec, init=group == "initContainers")
        if container.get("name") in observed:
            yield duplicate(f"{here}.name", container["name"])
        observed.add(container.get("name", ""))
    yield from one_of(f"{at}.restartPolicy", spec.get("restartPolicy"), _RESTART)
    yield from _dns_problems(spec, at)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None:
        yield from in_range(f"{at}.activeDeadlineSeconds", deadline, 1, _MOST_SECONDS)
    yield from label_problems(spec.get("nodeSelector") or {}, f"{at}.nodeSelector")
    if spec.get("hostname"):
        yield from malformed(f"{at}.hostname", spec["hostname"], label_problem(spec["hostname"]))
    for index, toleration in enumerate(spec.get("tolerations") or ()):
        yield from _toleration_problems(toleration, f"{at}.tolerations[{index}]")
    yield from _affinity_problems(spec.get("affinity") or {}, f"{at}.affinity")
    yield from _os_problems(spec, at)
    yield from user_name_problems(spec, at)
    yield from _host_process_problems(spec, at)


def _containers(spec: Obj, at: str) -> Iterator[tuple[str, str, Obj]]:
    """Yield each container and init container, as (field of the spec, path, container)."""
    for group in ("containers", "initContainers"):
        yield from (
            (group, f"{at}.{group}[{index}]", container)
            for index, container in enumerate(spec.get(group) or ())
        )


def _dns_problems(spec: Obj, at: str) -> Iterator[Cause]:
    if spec.get("dnsPolicy") not in _DNS:
        yield unsupported(f"{at}.dnsPolicy", spec.get("dnsPolicy"), _DNS)
    elif spec["dnsPolicy"] == "None" and not (spec.get("dnsConfig") or {}).get("nameservers"):
        detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
        yield required(f"{at}.dnsConfig.nameservers", detail)


def _name_problems(name: str, at: str) -> Iterator[Cause]:
    if not name:
        yield required(at)
    else:
        yield from malformed(at, name, label_problem(name))


def _unique_names(items: list[Any], at: str) -> Iterator[Cause]:
    observed: set[str] = set()
    for index, item in enumerate(items):
        name = item.get("name", "")
        here = f"{at}[{index}].name"
        yield from _name_problems(name, here)
        if name in observed and label_problem(name) is None:
            yield duplicate(here, name)
        observed.add(name)


def _container_problems(
    container: Obj, at: str, volumes: set[Any], spec: Obj, *, init: bool
) -> Iterator[Cause]:
    yield from _name_problems(container.get("name", ""), f"{at}.name")
    image = container.get("image", "")
    if not image:
        yield required(f"{at}.image")
    elif image != image.strip():
        yield invalid_value(f"{at}.image", image, "must not have leading or trailing whitespace")
    yield from one_of(f"{at}.imagePullPolicy", container.get("imagePullPolicy"), _PULL)
    yield from _port_problems(container.get("ports") or [], at, spec)
    yield from _environment_problems(container, at, volumes)
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if probe in container:
            if init and container.get("restartPolicy") != "Always":
                yield forbidden_field(
                    f"{at}.{probe}",
                    "may not be set for init containers without restartPolicy=Always",
                )
            yield from _probe_problems(
                container[probe], f"{at}.{probe}", once=probe != "readinessProbe"
            )
    for hook, handler in (container.get("lifecycle") or {}).items():
        if isinstance(handler, dict):  # stopSignal is no hook, and is a string
            yield from _handler_ports(handler, f"{at}.lifecycle.{hook}")
    yield from _resource_problems(container.get("resources") or {}, f"{at}.resources")


def _resource_problems(resources: Obj, at: str) -> Iterator[Cause]:
    """Return the problems of a container's requests and limits."""
    limits = resources.get("limits") or {}
    requests = resources.get("requests") or {}
    for group, amounts in (("limits", limits), ("requests", requests)):
        for resource, amount in amounts.items():
            here = f"{at}.{group}[{resource}]"
            yield from invalid_if(
                "/" not in resource and resource not in _RESOURCES and "hugepages-" not in resource,
                here,
                resource,
                "must be a standard resource type or fully qualified",
            )
            yield from invalid_if(
                quantity(amount) < 0, here, amount, "must be greater than or equal to 0"
            )
    for resource, amount in requests.items():
        limit = limits.get(resource)
        if limit is not None and quantity(amount) > quantity(limit):
            detail = f"must be less than or equal to {resource} limit of {limit}"
            yield invalid_value(f"{at}.requests", amount, detail)


def _environment_problems(container: Obj, at: str, volumes: set[Any]) -> Iterator[Cause]:
    """Yield the faults of a container's variables and mounts."""
    for index, variable in enumerate(container.get("env") or ()):
        if not variable.get("name"):
            yield required(f"{at}.env[{index}].name")
        if variable.get("value") and variable.get("valueFrom"):
            detail = "may not be specified when `value` is not empty"
            yield invalid_value(f"{at}.env[{index}].valueFrom", "", detail)
    paths: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        here = f"{at}.volumeMounts[{index}]"
        if mount.get("name") not in volumes:
            yield Cause.of("FieldValueNotFound", f"{here}.name", mount.get("name", ""), "")
        path = mount.get("mountPath")
        yield from invalid_if(path in paths, f"{here}.mountPath", path, "must be unique")
        paths.add(mount.get("mountPath", ""))


def _port_problems(ports: list[Obj], at: str, spec: Obj) -> Iterator[Cause]:
    names: set[str] = set()
    for index, port in enumerate(ports):
        here = f"{at}.ports[{index}]"
        number = port.get("containerPort", 0)
        if number == 0:
            yield required(f"{here}.containerPort")
        else:
            yield from in_range(f"{here}.containerPort", number, 1, 65535)
        if "hostPort" in port:
            yield from in_range(f"{here}.hostPort", port["hostPort"], 1, 65535)
        yield from invalid_if(
            spec.get("hostNetwork") and port.get("hostPort", number) != number,
            f"{here}.hostPort",
            port.get("hostPort"),
            "must match `containerPort` when `hostNetwork` is true",
        )
        yield from one_of(f"{here}.protocol", port.get("protocol"), _PROTOCOLS)
        name = port.get("name")
        if name:
            yield from port_problems(name, f"{here}.name")
            if name in names:
                yield duplicate(f"{here}.name", name)
            names.add(name)


def _handler_ports(handler: Obj, at: str) -> Iterator[Cause]:
    """Yield the problems of the port of a probe or a lifecycle hook."""
    for name in ("httpGet", "tcpSocket", "grpc"):
        if "port" in (handler.get(name) or {}):
            yield from port_problems(handler[name]["port"], f"{at}.{name}.port")


def _probe_problems(probe: Obj, at: str, *, once: bool) -> Iterator[Cause]:
    handlers = [name for name in _HANDLERS if name in probe]
    if not handlers:
        yield required(at, "must specify a handler type")
    yield from (
        forbidden_field(f"{at}.{extra}", "may not specify more than 1 handler type")
        for extra in handlers[1:]
    )
    yield from _handler_ports(probe, at)
    threshold = probe.get("successThreshold", 1)
    yield from invalid_if(once and threshold != 1, f"{at}.successThreshold", threshold, "must be 1")
    for name in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "failureThreshold"):
        yield from at_least_zero(f"{at}.{name}", probe.get(name, 0))
    if "exec" in probe and not (probe["exec"] or {}).get("command"):
        yield required(f"{at}.exec.command")


def _toleration_problems(toleration: Obj, at: str) -> Iterator[Cause]:
    key = toleration.get("key", "")
    operator = toleration.get("operator", "")
    if key:
        yield from malformed(f"{at}.key", key, key_problem(key))
    yield from invalid_if(
        not key and operator != "Exists",
        f"{at}.operator",
        operator,
        'operator must be Exists when `key` is empty, which means "match all values and all keys"',
    )
    if operator not in {"", "Equal", "Exists"}:
        yield unsupported(f"{at}.operator", operator, ("Equal", "Exists"))
    elif operator == "Exists" and toleration.get("value"):
        detail = "value must be empty when `operator` is 'Exists'"
        yield invalid_value(f"{at}.operator", toleration["value"], detail)
    elif toleration.get("value") and (problem := value_problem(toleration["value"])):
        yield invalid_value(f"{at}.operator", toleration["value"], problem)
    effect = toleration.get("effect", "")
    if effect:
        yield from one_of(f"{at}.effect", effect, _EFFECTS)
    yield from invalid_if(
        "tolerationSeconds" in toleration and effect != "NoExecute",
        f"{at}.effect",
        effect,
        "effect must be 'NoExecute' when `tolerationSeconds` is set",
    )


def _affinity_problems(affinity: Obj, at: str) -> Iterator[Cause]:
    node = affinity.get("nodeAffinity") or {}
    needed = node.get("requiredDuringSchedulingIgnoredDuringExecution")
    if needed is not None:
        here = f"{at}.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
        if not needed.get("nodeSelectorTerms"):
            yield required(here, "must have at least one node selector term")
        for index, term in enumerate(needed.get("nodeSelectorTerms") or ()):
            for number, item in enumerate(term.get("matchExpressions") or ()):
                yield from invalid_if(
                    item.get("operator") not in _NODE_OPERATORS,
                    f"{here}[{index}].matchExpressions[{number}].operator",
                    item.get("operator", ""),
                    "not a valid selector operator",
                )
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = (affinity.get(kind) or {}).get(
            "requiredDuringSchedulingIgnoredDuringExecution"
        ) or ()
        for index, term in enumerate(terms):
            if not term.get("topologyKey"):
                field = f"{at}.{kind}.requiredDuringSchedulingIgnoredDuringExecution[{index}].topologyKey"
                yield required(field, "can not be empty")


_POD_FIELDS_NOT_ON_WINDOWS = ("hostPID", "hostIPC", "hostUsers", "shareProcessNamespace")
_POD_CONTEXT_NOT_ON_WINDOWS = (
    "appArmorProfile", "seLinuxOptions", "seccompProfile", "fsGroup", "fsGroupChangePolicy", "sysctls", "runAsUser",
    "runAsGroup", "supplementalGroups", "supplementalGroupsPolicy",
)  # fmt: skip
_CONTEXT_NOT_ON_WINDOWS = (
    "appArmorProfile", "seLinuxOptions", "seccompProfile", "capabilities", "readOnlyRootFilesystem", "privileged",
    "allowPrivilegeEscalation", "procMount", "runAsUser", "runAsGroup",
)  # fmt: skip
_ON_WINDOWS = "cannot be set for a windows pod"
_NOT_ON_LINUX = "windows options cannot be set for a linux pod"


def _os_problems(spec: Obj, at: str) -> Iterator[Cause]:
    """Yield the problems of spec.os, and of fields that the operating system in spec.os does not
    have. Without spec.os there are no problems."""
    if "os" not in spec:
        return
    name = spec["os"].get("name", "")
    if not name:
        yield required(f"{at}.os.name")
    elif name not in {"linux", "windows"}:
        yield unsupported(f"{at}.os", name, ("linux", "windows"))
    if name == "windows":
        yield from (
            forbidden_field(f"{at}.{field}", _ON_WINDOWS)
            for field in _POD_FIELDS_NOT_ON_WINDOWS
            if spec.get(field) or (field == "hostUsers" and field in spec)
        )
    contexts = [
        (at, spec, _POD_CONTEXT_NOT_ON_WINDOWS),
        *((here, own, _CONTEXT_NOT_ON_WINDOWS) for _, here, own in _containers(spec, at)),
    ]
    for here, holder, not_on_windows in contexts:
        context = holder.get("securityContext") or {}
        foreign, detail = {
            "windows": (not_on_windows, _ON_WINDOWS),
            "linux": (("windowsOptions",), _NOT_ON_LINUX),
        }.get(name, ((), ""))
        yield from (
            forbidden_field(f"{here}.securityContext.{field}", detail)
            for field in foreign
            if context.get(field) is not None
        )


def host_process(container: Obj, spec: Obj) -> bool:
    """Return whether a container runs as a Windows HostProcess container."""
    for context in (container.get("securityContext"), spec.get("securityContext")):
        options = (context or {}).get("windowsOptions") or {}
        if options.get("hostProcess") is not None:
            return bool(options["hostProcess"])
    return False


def _host_process_problems(spec: Obj, at: str) -> Iterator[Cause]:
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    flags = [host_process(container, spec) for container in containers]
    if not any(flags):
        return
    yield from invalid_if(
        not all(flags),
        at,
        "",
        "If pod contains any hostProcess containers "
        "then all containers must be HostProcess containers",
    )
    yield from invalid_if(
        not spec.get("hostNetwork"),
        f"{at}.hostNetwork",
        False,
        "hostNetwork must be true if pod contains any hostProcess containers",
    )
