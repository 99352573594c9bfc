# SPDX-License-Identifier: Apache-2.0
"""A container's environment, command and arguments as a kubelet computes them."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal

from hybridlab.api.contract import Obj, quantity

_REFERENCE = re.compile(r"\$(?:\$|\(([^()$]*)\))")
_SUBSCRIPT = re.compile(r"^metadata\.(labels|annotations)\['([^']+)'\]$")


class ConfigError(Exception):
    """A container's configuration names an object that does not exist
    (CreateContainerConfigError)."""


@dataclass(frozen=True, kw_only=True)
class Sources:
    """The API objects from which a container's variables and files get their values."""

    named: Mapping[str, Callable[[str, str], Obj | None]]
    """Maps ``configmaps``, ``secrets`` and ``persistentvolumeclaims`` to a function that returns
    the object with a namespace and name."""
    services: Callable[[str], Iterable[Obj]]
    """Returns the Services of a namespace."""
    allocatable: Mapping[str, str]
    """The allocatable resources of the node."""


@dataclass(frozen=True, kw_only=True)
class PodFields:
    """The fields of a running pod that its specification does not contain yet."""

    pod: Obj
    addresses: tuple[str, ...]
    host_address: str


def expand(text: str, values: Mapping[str, str]) -> str:
    """Replace ``$(NAME)`` if the name is known; ``$$`` is a dollar sign."""

    def one(found: re.Match[str]) -> str:
        name = found.group(1)
        return "$" if name is None else values.get(name, found.group(0))

    return _REFERENCE.sub(one, text)


def environment(facts: PodFields, container: Obj, sources: Sources) -> dict[str, str]:
    """Return all variables by name.  Raise :class:`ConfigError`."""
    namespace = facts.pod["metadata"]["namespace"]
    links = facts.pod["spec"].get("enableServiceLinks", True)
    services = dict(_service_variables(namespace, sources, links=links))
    result: dict[str, str] = {}
    for source in container.get("envFrom") or ():
        prefix = source.get("prefix") or ""
        for name, value in _all_of(source, namespace, sources).items():
            result[prefix + name] = value
    for entry in container.get("env") or ():
        own = _value(entry, facts, container, sources, {**services, **result})
        if own is not None:
            result[entry["name"]] = own
    return {**services, **result}


def command_line(
    container: Obj, values: Mapping[str, str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return ``command`` and ``args`` with their references expanded."""
    command = container.get("command") or ()
    args = container.get("args") or ()
    return tuple(expand(word, values) for word in command), tuple(
        expand(word, values) for word in args
    )


def _all_of(source: Obj, namespace: str, sources: Sources) -> dict[str, str]:
    read = _read(source, "Ref", namespace, sources)
    return texts(read[2]) if read and read[2] else {}


def _read(
    source: Obj, suffix: str, namespace: str, sources: Sources
) -> tuple[str, Obj, Obj | None] | None:
    """Return kind, reference and content of the ConfigMap or Secret that a source names.

    ``suffix`` is the end of the source's key that names the object. The content is None if the
    object is optional and does not exist. The result is None if the source names neither kind.
    Raise ConfigError.
    """
    objects = (("ConfigMap", "configMap", "configmaps"), ("Secret", "secret", "secrets"))
    for kind, word, resource in objects:
        if (reference := source.get(word + suffix)) is None:
            continue
        obj = sources.named[resource](namespace, reference.get("name", ""))
        if obj is None and not reference.get("optional"):
            raise ConfigError(f'{kind.lower()} "{reference.get("name", "")}" not found')
        return kind, reference, obj
    return None


def texts(obj: Obj) -> dict[str, str]:
    """Return the data of a ConfigMap or Secret, as text."""
    if obj["kind"] == "Secret":
        return {
            key: decoded(value).decode(errors="replace")
            for key, value in (obj.get("data") or {}).items()
        }
    return dict(obj.get("data") or {})


def decoded(text: str) -> bytes:
    """Return the bytes of a Secret's value."""
    import base64  # only pods with secrets need it

    return base64.b64decode(text)


def _value(
    entry: Obj, facts: PodFields, container: Obj, sources: Sources, known: Mapping[str, str]
) -> str | None:
    source = entry.get("valueFrom")
    if not source:
        return expand(entry.get("value") or "", known)
    if "fieldRef" in source:
        return field(source["fieldRef"]["fieldPath"], facts)
    if "resourceFieldRef" in source:
        return resource_field(source["resourceFieldRef"], facts.pod, container, sources.allocatable)
    namespace = facts.pod["metadata"]["namespace"]
    read = _read(source, "KeyRef", namespace, sources)
    if read is None:
        raise ConfigError(f"not emulated: valueFrom {', '.join(source)}")
    kind, reference, obj = read
    if obj is None:
        return None
    values = texts(obj)
    if reference["key"] not in values:
        if reference.get("optional"):
            return None
        raise ConfigError(
            f"couldn't find key {reference['key']} in {kind} {namespace}/{reference['name']}"
        )
    return values[reference["key"]]


def field(path: str, facts: PodFields) -> str:
    """Return the value of a downward API field.  Raise :class:`ConfigError`."""
    meta = facts.pod["metadata"]
    spec = facts.pod["spec"]
    found = _SUBSCRIPT.match(path)
    if found:
        return str((meta.get(found.group(1)) or {}).get(found.group(2), ""))
    known: dict[str, Callable[[], str]] = {
        "metadata.name": lambda: meta["name"],
        "metadata.namespace": lambda: meta["namespace"],
        "metadata.uid": lambda: meta["uid"],
        "metadata.labels": lambda: _pairs(meta.get("labels")),
        "metadata.annotations": lambda: _pairs(meta.get("annotations")),
        "spec.nodeName": lambda: spec["nodeName"],
        "spec.serviceAccountName": lambda: spec.get("serviceAccountName", "default"),
        "status.hostIP": lambda: facts.host_address,
        "status.hostIPs": lambda: facts.host_address,
        "status.podIP": lambda: facts.addresses[0] if facts.addresses else "",
        "status.podIPs": lambda: ",".join(facts.addresses),
    }
    if path not in known:
        raise ConfigError(f"unsupported fieldPath: {path}")
    return known[path]()


def _pairs(values: Mapping[str, str] | None) -> str:
    return "\n".join(f'{key}="{value}"' for key, value in sorted((values or {}).items()))


def resource_field(reference: Obj, pod: Obj, container: Obj, allocatable: Mapping[str, str]) -> str:
    """Return ``limits.cpu`` or a similar field in units of the divisor, rounded up; without a
    limit, the node's amount.
    """
    wanted = reference.get("containerName")
    if wanted:
        container = next(
            (each for each in pod["spec"]["containers"] if each["name"] == wanted), container
        )
    kind, _, name = reference["resource"].partition(".")
    given = ((container.get("resources") or {}).get(kind) or {}).get(name)
    if given is None:
        given = allocatable.get(name, "0") if kind == "limits" else "0"
    divisor = quantity(str(reference.get("divisor") or "1")) or Decimal(1)
    return str(math.ceil(quantity(str(given)) / divisor))


def _service_variables(
    namespace: str, sources: Sources, *, links: bool
) -> Iterator[tuple[str, str]]:
    chosen = [
        service
        for service in sources.services("default")
        if service["metadata"]["name"] == "kubernetes"
    ]
    if links:
        here = sorted(
            sources.services(namespace), key=lambda service: str(service["metadata"]["name"])
        )
        chosen += [service for service in here if service["metadata"]["name"] != "kubernetes"]
    for service in chosen:
        address = service["spec"].get("clusterIP")
        ports = service["spec"].get("ports") or ()
        if not address or address == "None" or not ports:
            continue
        name = service["metadata"]["name"].upper().replace("-", "_")
        yield f"{name}_SERVICE_HOST", address
        yield f"{name}_SERVICE_PORT", str(ports[0]["port"])
        first = True
        for port in ports:
            if port.get("name"):
                yield (
                    f"{name}_SERVICE_PORT_{port['name'].upper().replace('-', '_')}",
                    str(port["port"]),
                )
            protocol = (port.get("protocol") or "TCP").lower()
            url = f"{protocol}://{address}:{port['port']}"
            if first:
                yield f"{name}_PORT", url
                first = False
            prefix = f"{name}_PORT_{port['port']}_{protocol.upper()}"
            yield prefix, url
            yield f"{prefix}_PROTO", protocol
            yield f"{prefix}_PORT", str(port["port"])
            yield f"{prefix}_ADDR", address
