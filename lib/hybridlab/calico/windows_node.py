"""Calico on one Windows node: the CNI configuration on its disk, the VNI that Felix was started with, and HNS.

A VNI gets here by two ways, both read when calico-node-windows starts: ``VXLAN_VNI`` in the environment of Felix, and
the CNI configuration that ``install-cni`` writes (operator: ConfigMap ``cni-config-windows``; otherwise the image's
template with ``VXLAN_VNI`` filled in).  Neither changes an HNS network that is there.
"""

from __future__ import annotations

import json
from typing import Any

from hybridlab.calico.installation import windows_cni
from hybridlab.profiles.machines import Machine
from hybridlab.profiles.model import Profile
from hybridlab.windows.hns import POD_MAC_PREFIX
from hybridlab.windows.hns_networks import Hns

DEFAULT_VNI = 4096


class WindowsNode:
    """What Calico has on one Windows node."""

    def __init__(self, machine: Machine, profile: Profile) -> None:
        self.machine = machine
        self.hns = Hns(machine.name)
        self._profile = profile
        self._plugin: dict[str, Any] = {}
        self.cni_text = ""
        """The CNI configuration as it is on the node's disk."""
        self.felix_vni = profile.network.vxlan_vni
        """``VXLAN_VNI`` of the Felix that started last."""
        self.process: int | None = None
        """Process id of Felix; None while it does not run."""
        self._last_process = 4000 + 4 * machine.index
        self.install_cni(json.dumps(windows_cni(profile), indent=2))

    @property
    def cni_path(self) -> str:
        """Where the CNI configuration is: an operator writes a list of plugins, the image's template is one plugin."""
        directory = "C:" + self._profile.windows.cni_config_dir.replace("/", "\\")
        name = "10-calico.conflist" if self._profile.calico.install == "operator" else "10-calico.conf"
        return f"{directory}\\{name}"

    def install_cni(self, text: str) -> None:
        """Write the CNI configuration.  Raises ValueError for one that is none; what was there stays."""
        try:
            document = json.loads(text)
            plugin = (document.pop("plugins", None) or [{}])[0]
            if not isinstance(plugin, dict):
                raise TypeError("a plugin is no object")
        except (ValueError, TypeError, AttributeError, LookupError) as error:
            raise ValueError(f"the CNI configuration is no JSON object with a list of plugins: {error}") from error
        self._plugin = plugin
        operator = self._profile.calico.install == "operator"
        self.cni_text = text if operator else json.dumps(document | self._plugin, indent=2)

    def configure(self, felix: dict[str, str], cni: dict[str, str]) -> None:
        """calico-node-windows starts: take what the environments of ``felix`` and ``install-cni`` deliver.

        What is missing or no number stays as it was.
        """
        given = felix.get("VXLAN_VNI", "")
        if given.isdecimal():
            self.felix_vni = int(given)
        text = cni.get("CNI_NETWORK_CONFIG", "")
        if not text:
            document = windows_cni(self._profile)
            document["plugins"][0]["vxlan_vni"] = self.felix_vni
            text = json.dumps(document, indent=2)
        self.install_cni(text)

    @property
    def cni_vni(self) -> int:
        """``vxlan_vni`` of the CNI configuration.  Raises ValueError for one that is no number."""
        given = self._plugin.get("vxlan_vni") or DEFAULT_VNI
        try:
            return int(given)
        except (TypeError, ValueError) as error:
            raise ValueError(f"vxlan_vni of the CNI configuration is {given!r}, which is no number") from error

    @property
    def mac_prefix(self) -> str:
        """First two bytes of the pods' MAC addresses."""
        return str(self._plugin.get("vxlan_mac_prefix") or POD_MAC_PREFIX).lower().replace("-", ":")

    @property
    def pod_policies(self) -> list[dict[str, Any]]:
        """What the CNI plugin gives every endpoint besides its ACLs."""
        return [policy["Value"] for policy in self._plugin.get("policies") or ()]

    def felix_started(self) -> None:
        """Felix has a process."""
        self._last_process += 4 * 17
        self.process = self._last_process

    def felix_ended(self) -> None:
        """Felix has none any more."""
        self.process = None
