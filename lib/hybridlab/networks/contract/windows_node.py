# SPDX-License-Identifier: Apache-2.0
"""The network on one Windows node: HNS, the CNI configuration on its disk, Felix' settings at its
start.

Settings arrive in two ways, and both are read when calico-node-windows starts: by the environment
of Felix, and by the CNI configuration that ``install-cni`` writes (operator: ConfigMap
``cni-config-windows``; otherwise the image's template, filled in from the environment). Neither
changes an existing HNS network.
"""

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from hybridlab.profiles.machines import Machine
from hybridlab.windows import cni_kubeconfig
from hybridlab.windows.hns_networks import Hns


class WindowsNode:
    """The network of pods on one Windows node."""

    def __init__(
        self,
        machine: Machine,
        hns: Hns,
        cni_path: str,
        *,
        template: Callable[[Mapping[str, str]], dict[str, Any]],
        accepted: Callable[[Mapping[str, str]], dict[str, str]],
        environment: Mapping[str, str],
    ) -> None:
        """Set up the node. ``cni_path``: the path of the CNI configuration, with slashes;
        ``template`` makes its content from an environment."""
        self.machine = machine
        self.hns = hns
        self._list = cni_path.endswith(".conflist")
        self.cni_path = "C:" + cni_path.replace("/", "\\")
        """The path of the CNI configuration. An operator writes a list of plugins (``.conflist``);
        the image's template is a single plugin."""
        self._template = template
        self._accepted = accepted
        self.plugin: dict[str, Any] = {}
        """The CNI plugin's configuration as it was last installed."""
        self.cni_text = ""
        """The CNI configuration as it is on the node's disk."""
        self.environment = dict(environment)
        """The network settings of the Felix that started last."""
        self.token_of = time.time()
        """The time at which the token in the CNI plugin's kubeconfig was requested, in Unix
        seconds."""
        self.old_tokens: dict[str, float] = {}
        """The time at which each fault pretends that the token was requested, by the id of the
        fault."""
        self.process: int | None = None
        """The process id of Felix; None while it does not run."""
        self._kubeconfig = self.cni_path.rpartition("\\")[0] + "\\calico-kubeconfig"
        self._last_process = 4000 + 4 * machine.index
        self.install_cni(json.dumps(template(environment), indent=2))

    def install_cni(self, text: str) -> None:
        """Write the CNI configuration.  Raise ValueError for an invalid text; the file then stays
        as it was."""
        try:
            document = json.loads(text)
            plugin = (document.pop("plugins", None) or [document])[0]
            if not isinstance(plugin, dict):
                raise TypeError("a plugin is not an object")
        except (ValueError, TypeError, AttributeError, LookupError) as error:
            raise ValueError(
                f"the CNI configuration is not a JSON object with a list of plugins: {error}"
            ) from error
        self.plugin = plugin
        self.cni_text = text if self._list else json.dumps(document | plugin, indent=2)

    def configure(self, felix: Mapping[str, str], cni: Mapping[str, str]) -> None:
        """Apply the environments of ``felix`` and ``install-cni`` when calico-node-windows
        starts.

        Missing or invalid values leave the earlier value in place.
        """
        self.environment |= self._accepted(felix)
        text = cni.get("CNI_NETWORK_CONFIG", "")
        self.install_cni(text or json.dumps(self._template(self.environment), indent=2))
        self.token_of = time.time()

    @property
    def cni_files(self) -> dict[str, str]:
        """Return the files of the CNI plugin on the node's disk: path to text."""
        if self.plugin.get("type", "calico") != "calico":
            return {self.cni_path: self.cni_text}
        began = min((self.token_of, *self.old_tokens.values()))
        return {self.cni_path: self.cni_text, self._kubeconfig: cni_kubeconfig.text(began)}

    @property
    def pod_policies(self) -> list[dict[str, Any]]:
        """Return the policies that the CNI plugin gives every endpoint, apart from ACLs."""
        plugin = self.plugin.get("delegate") or self.plugin
        # azure-vnet lists them under the second name
        listed = plugin.get("policies") or plugin.get("AdditionalArgs") or ()
        return [policy["Value"] for policy in listed]

    def felix_started(self) -> None:
        self._last_process += 4 * 17
        self.process = self._last_process

    def felix_ended(self) -> None:
        """Record that the process of Felix has ended."""
        self.process = None
