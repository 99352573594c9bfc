# SPDX-License-Identifier: Apache-2.0
"""The settings of Felix on each node, and the source of each setting. The environment of Felix has
precedence, then ``FelixConfiguration node.NAME``, then ``default`` (projectcalico/calico
felix/config/config_params.go). k0s sets VNI and port of VXLAN by the environment, and has no
FelixConfiguration. The environment and the configurations of nodes are read once, when the run
begins. FelixConfiguration default is read anew each time, since the suite changes it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from conformance.facts.calico_workloads import CalicoWorkloads
from conformance.facts.reading import Reading
from conformance.facts.workloads import described, variable
from conformance.kube.client import Obj
from conformance.kube.fields import value_at
from conformance.model.facts import Fact, NodeFacts

VARIABLES = {
    "vxlanVNI": "FELIX_VXLANVNI",
    "vxlanPort": "FELIX_VXLANPORT",
    "vxlanMTU": "FELIX_VXLANMTU",
    "ipipEnabled": "FELIX_IPINIPENABLED",
    "wireguardEnabled": "FELIX_WIREGUARDENABLED",
    "bpfEnabled": "FELIX_BPFENABLED",
}
"""The environment variable that overrides each field of FelixConfiguration."""
DEFAULTS = {"vxlanVNI": 4096, "vxlanPort": 4789}
"""Calico's defaults for these fields of FelixConfiguration."""
WINDOWS_VNI = "VXLAN_VNI"
"""The variable from which felix-service.ps1 sets FELIX_VXLANVNI on Windows. The operator renders it
from FelixConfiguration, unless the environment also overrides it on Linux."""
OF_NODE = "node."
Overrides = dict[str, dict[str, Fact[str]]]
"""For ``linux``, ``windows`` or ``node.NAME``: the settings that override FelixConfiguration
default, by field."""


def is_on(value: object) -> bool:
    """Return whether Felix reads a value as true (projectcalico/calico
    felix/config/param_types.go)."""
    return str(value).lower() in ("true", "1", "yes", "y", "t")


def overrides(
    reading: Reading,
    found: CalicoWorkloads,
    configurations: Iterable[Obj],
    nodes: Iterable[NodeFacts],
) -> Overrides:
    """Read the settings that override FelixConfiguration default on these nodes.
    ``configurations``: all existing FelixConfigurations, including configurations of deleted
    nodes."""
    reported: Overrides = {
        "linux": _environment(reading, found.linux, VARIABLES),
        "windows": _environment(reading, found.windows, VARIABLES),
    }
    if "vxlanVNI" in reported["linux"]:
        reported["windows"] = (
            _environment(reading, found.windows, {"vxlanVNI": WINDOWS_VNI}) | reported["windows"]
        )
    theirs = {f"{OF_NODE}{node.name}" for node in nodes}
    for one in configurations:
        name = str(one["metadata"]["name"])
        if name in theirs:
            reported[name] = {
                field: Fact(str(value), f"FelixConfiguration {name} .spec.{field}")
                for field in VARIABLES
                if (value := value_at(one, "spec", field)) is not None
            }
    return {name: fields for name, fields in reported.items() if fields}


def _environment(
    reading: Reading, daemonset: Obj | None, names: Mapping[str, str]
) -> dict[str, Fact[str]]:
    given = {field: variable(reading, daemonset, name) for field, name in names.items()}
    return {
        field: Fact(value, f"{names[field]}={value} of {described(daemonset)}")
        for field, value in given.items()
        if value
    }


def ruled(overriding: Mapping[str, Mapping[str, Fact[str]]], field: str) -> str:
    """Return the sources that override FelixConfiguration default for a field; an empty string if
    there are none."""
    return " and ".join(
        dict.fromkeys([fields[field].source for fields in overriding.values() if field in fields])
    )


@dataclass(frozen=True)
class FelixSettings:
    """The configuration of one cluster's Felix."""

    default: Callable[[], tuple[Obj | None, str]]
    """A function that returns FelixConfiguration default and the API that serves it."""
    overriding: Mapping[str, Mapping[str, Fact[str]]]

    def on(self, field: str, node: NodeFacts) -> Fact[str]:
        """Return the value of a field on a node; the value is unknown if nothing sets the field."""
        return self._override(field, node) or next(iter(self._in_default(field).values()))

    def everywhere(self, field: str, nodes: Iterable[NodeFacts]) -> dict[str, Fact[str]]:
        """Return all values of a field on these nodes, by their sources; a value is unknown if
        nothing sets the field. A source that has no effect on any of these nodes does not count:
        the FelixConfiguration of a deleted node, or a value that the environment overrides."""
        overrides_on = [self._override(field, node) for node in nodes]
        found = {fact.source: fact for fact in overrides_on if fact}
        return found if all(overrides_on) else found | self._in_default(field)

    def _override(self, field: str, node: NodeFacts) -> Fact[str] | None:
        """Return the setting that overrides FelixConfiguration default on a node; None if there is
        none."""
        places = (self.overriding.get(name, {}) for name in (node.os, f"{OF_NODE}{node.name}"))
        return next((fields[field] for fields in places if field in fields), None)

    def _in_default(self, field: str) -> dict[str, Fact[str]]:
        name = f"FelixConfiguration default .spec.{field}"
        found, api = self.default()
        value = value_at(found, "spec", field)
        if value is not None:
            return {name: Fact(str(value), f"{name} ({api})")}
        text = f"{name} ({api}) is not set" if found else "there is no FelixConfiguration default"
        return {name: Fact(None, text)}
