# SPDX-License-Identifier: Apache-2.0
"""Delivers a VXLAN network identifier (VNI) to every node. A node that has received the setting may
still use another VNI.

On Linux, Felix takes the VNI from the FelixConfiguration, restarts and makes its device again.
Windows nodes take the VNI from the environment of calico-node-windows and from the CNI
configuration. The operator renders both from the FelixConfiguration and replaces the pods. If
Calico was installed by manifests, the DaemonSet is edited instead (claims.md, VXLAN-9).
"""

import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from conformance.disrupt.awaiting import until_nothing_is_missing
from conformance.disrupt.disruption import Disruption
from conformance.disrupt.felix import NAMESPACES
from conformance.errors import MissingCapability
from conformance.facts.felix_settings import DEFAULTS, FelixSettings
from conformance.kube.client import Obj
from conformance.kube.pod_state import is_ready
from conformance.kube.refused import ApiRefused
from conformance.model.change import ObjectRef
from conformance.model.facts import Facts
from conformance.probe.host import Hosts

V3 = "projectcalico.org/v3"
CRD = "crd.projectcalico.org/v1"
VARIABLE = "VXLAN_VNI"
"""Environment variable of calico-node-windows that Felix and the CNI installer read
(felix-service.ps1)."""
DEVICE = "vxlan.calico"
WINDOWS = "calico-node-windows"
BEYOND = 1 << 16
"""The lowest VNI that needs more than 16 bits."""
CONFIGURED = re.compile(r'"vxlan_vni"\s*:\s*"?(\d+)')
"""Matches the VNI in the CNI configuration."""


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """A delivery that reached every node."""

    vni: int
    before: int
    seconds: float


@dataclass(eq=False)
class Vni(Disruption):
    """The VNI of a cluster."""

    hosts: Hosts = field(kw_only=True)
    facts: Facts = field(kw_only=True)

    def configured(self) -> int:
        """Return the VNI that Windows nodes are configured with, or Calico's default."""
        settings = FelixSettings(self._default, self.facts.felix_overrides)
        found = settings.everywhere("vxlanVNI", self.facts.by_os("windows")).values()
        return int(next((one.value for one in found if one.value), DEFAULTS["vxlanVNI"]))

    def _default(self) -> tuple[Obj | None, str]:
        """Return FelixConfiguration default, and the API that serves it."""
        for api in (V3, CRD):
            try:
                found = self.kube.find(api, "FelixConfiguration", "default")
            except ApiRefused as refusal:
                if api == CRD or refusal.code < 500:
                    raise
                continue  # Calico's API server is away; its storage holds the same object
            if found is not None:
                return found, api
        return None, ""

    def device(self, node: str) -> int | None:
        """Return the VNI of a Linux node's VXLAN device; None if there is no such device.  Raise
        ProbeBroken."""
        link = self.hosts.linux(node).link(DEVICE)
        return link.vxlan.vni if link and link.vxlan else None

    def sent(self, node: str) -> set[int]:
        """Return the VNIs with which a Windows node sends packets to other nodes. Raise
        ProbeBroken."""
        return {
            remote.vni
            for network in self.hosts.hns_networks(node)
            for remote in network.remote_subnets
            if network.pods and remote.vni is not None
        }

    def vsid(self, node: str) -> int | None:
        """Return the VSID of a Windows node's pod network; None if there is no such network. Raise
        ProbeBroken."""
        return next(
            (
                subnet.vsid
                for network in self.hosts.hns_networks(node)
                if network.pods
                for subnet in network.subnets
                if subnet.vsid is not None
            ),
            None,
        )

    def deliver(self, vni: int, *, linux: Sequence[str], windows: Sequence[str]) -> Delivery:
        """Write the VNI and wait until these nodes have the setting. Raise MissingCapability (the
        VNI cannot be written here), EnvironmentBroken (a node did not get it in time)."""
        before = self.configured()
        daemonset = self.possible()
        self.journal.patch(FELIX, {"spec": {"vxlanVNI": vni}}, f"gives every node VNI {vni}")
        if self.facts.install.value != "operator":
            self.journal.patch(
                ObjectRef(
                    api_version="apps/v1",
                    kind="DaemonSet",
                    name=WINDOWS,
                    namespace=daemonset["metadata"]["namespace"],
                ),
                _with_variable(daemonset, str(vni)),
                f"gives Windows nodes VNI {vni}",
            )
        return Delivery(
            vni=vni, before=before, seconds=self.delivered(vni, linux=linux, windows=windows)
        )

    def delivered(self, vni: int, *, linux: Sequence[str], windows: Sequence[str]) -> float:
        """Wait until these nodes have the setting, and return the seconds. Raise EnvironmentBroken,
        naming the nodes that do not have it.
        """

        def missing() -> list[str]:
            unrendered = [reason for node in windows if (reason := self._unrendered(node, vni))]
            if unrendered:  # therefore no node needs to be read yet
                return unrendered
            on_linux = [
                f"Linux node {node}: {DEVICE} has VNI {found}"
                for node in linux
                if (found := self.device(node)) != vni
            ]
            return on_linux or [
                reason for node in windows if (reason := self._unwritten(node, vni))
            ]

        return until_nothing_is_missing(
            missing,
            within=self.patience.vni_delivery,
            every=self.patience.poll_every,
            clock=self.clock,
            description=f"every node has been given VNI {vni}",
            late=f"VNI {vni} was not delivered to every node",
        )

    def possible(self) -> Obj:
        """Return the DaemonSet of calico-node on Windows. Raise MissingCapability if no VNI can be
        delivered."""
        if not self.kube.discovery.serves(V3, "FelixConfiguration"):
            raise MissingCapability(
                f"a VNI is written through {V3}, which is not served",
                "install Calico's API server (APIServer default)",
            )
        if self.kube.find(V3, "FelixConfiguration", "default") is None:
            raise MissingCapability(
                "there is no FelixConfiguration default, so no VNI can be changed and restored",
                "create it with Calico's own defaults",
            )
        found = self._daemonset()
        pods = found["spec"]["template"]["spec"] if found else {}
        if found is None or (self.facts.install.value != "operator" and not _entries(pods)):
            raise MissingCapability(
                "this cluster has nothing that delivers a VNI to Windows nodes: no "
                f"DaemonSet {WINDOWS} with {VARIABLE}, and no operator",
                "install Calico for Windows by its operator; an installation by hand must "
                "be repeated with another VNI",
            )
        return found

    def _daemonset(self) -> Obj | None:
        return next(
            (
                daemonset
                for space in NAMESPACES
                if (daemonset := self.kube.find("apps/v1", "DaemonSet", WINDOWS, space))
            ),
            None,
        )

    def _unrendered(self, node: str, vni: int) -> str:
        """Return a description of what calico-node-windows of a Windows node lacks, or an empty
        string if it has the VNI."""
        pods = [
            pod
            for space in NAMESPACES
            for pod in self.kube.objects("v1", "Pod", space, labels=f"k8s-app={WINDOWS}")
            if pod["spec"].get("nodeName") == node and not pod["metadata"].get("deletionTimestamp")
        ]
        values = {entry.get("value") for pod in pods for entry in _entries(pod["spec"])}
        if values != {str(vni)}:
            return f"Windows node {node}: {VARIABLE} is {', '.join(map(str, values)) or 'not set'}"
        if not all(map(is_ready, pods)):
            return f"Windows node {node}: {WINDOWS} is not ready"
        return ""

    def _unwritten(self, node: str, vni: int) -> str:
        """Return a description of what a Windows node's CNI configuration lacks, or an empty string
        if it has the VNI."""
        written = CONFIGURED.search(
            self.hosts.cni_configuration(node, cni_files(self._daemonset()))
        )
        if written and int(written[1]) == vni:
            return ""
        return (
            f"Windows node {node}: its CNI configuration has VNI "
            f"{written[1] if written else 'unset'}"
        )


FELIX = ObjectRef(api_version=V3, kind="FelixConfiguration", name="default")


def cni_files(daemonset: Obj | None) -> list[str]:
    """Return the paths to which ``install-cni`` of a DaemonSet writes the CNI configuration,
    according to its environment."""
    spec = daemonset["spec"]["template"]["spec"] if daemonset else {}
    names = [str(entry["value"]) for entry in _entries(spec, "CNI_CONF_NAME") if entry.get("value")]
    folders = [str(entry["value"]) for entry in _entries(spec, "CNI_NET_DIR") if entry.get("value")]
    return [_windows_path(f"{folder}/{name}") for folder in folders for name in names]


def _windows_path(path: str) -> str:
    """Translate a path in a container to a path on the host. The container has the host's disk C:
    at ``/host``, or is of a HostProcess pod."""
    plain = path.removeprefix("/host").replace("/", "\\")
    return f"C:{plain}" if plain.startswith("\\") else plain


def _entries(spec: Obj, name: str = VARIABLE) -> list[dict[str, Any]]:
    containers = [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]
    return [
        entry
        for container in containers
        for entry in container.get("env") or []
        if entry.get("name") == name
    ]


def _with_variable(daemonset: Obj, value: str) -> Obj:
    """Return the merge patch that gives the variable another value. The patch has whole lists,
    since a merge patch replaces a list as a whole."""
    spec = copy.deepcopy(daemonset["spec"]["template"]["spec"])
    for entry in _entries(spec):
        entry.pop("valueFrom", None)
        entry["value"] = value
    lists = {key: spec[key] for key in ("initContainers", "containers") if spec.get(key)}
    return {"spec": {"template": {"spec": lists}}}
