# SPDX-License-Identifier: Apache-2.0
"""What the network has on one Windows node: HNS, the CNI configuration on its disk, what Felix was started with.

Settings get here by two ways, both read when calico-node-windows starts: the environment of Felix, and the CNI
configuration that ``install-cni`` writes (operator: ConfigMap ``cni-config-windows``; otherwise the image's template,
filled in from the environment).  Neither changes an HNS network that is there.
"""

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from hybridlab.profiles.machines import Machine
from hybridlab.windows import cni_kubeconfig
from hybridlab.windows.hns_networks import Hns


class WindowsNode:
    """What the network of pods has on one Windows node."""

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
        """``cni_path``: of the CNI configuration, with slashes; ``template`` makes its content from an environment."""
        self.machine = machine
        self.hns = hns
        self._list = cni_path.endswith(".conflist")
        self.cni_path = "C:" + cni_path.replace("/", "\\")
        """Where the CNI configuration is: an operator writes a list of plugins, the image's template is one plugin."""
        self._template = template
        self._accepted = accepted
        self.plugin: dict[str, Any] = {}
        """The CNI plugin's configuration as it was installed last."""
        self.cni_text = ""
        """The CNI configuration as it is on the node's disk."""
        self.environment = dict(environment)
        """What the Felix that started last was told of the network."""
        self.token_of = time.time()
        """When the token in the CNI plugin's kubeconfig was asked for, Unix seconds."""
        self.old_tokens: dict[str, float] = {}
        """When it was asked for instead, by the fault that wants it."""
        self.process: int | None = None
        """Process id of Felix; None while it does not run."""
        self._kubeconfig = self.cni_path.rpartition("\\")[0] + "\\calico-kubeconfig"
        self._last_process = 4000 + 4 * machine.index
        self.install_cni(json.dumps(template(environment), indent=2))

    def install_cni(self, text: str) -> None:
        """Write the CNI configuration.  Raises ValueError for one that is none; what was there stays."""
        try:
            document = json.loads(text)
            plugin = (document.pop("plugins", None) or [{}])[0]
            if not isinstance(plugin, dict):
                raise TypeError("a plugin is no object")
        except (ValueError, TypeError, AttributeError, LookupError) as error:
            raise ValueError(
                f"the CNI configuration is no JSON object with a list of plugins: {error}"
            ) from error
        self.plugin = plugin
        self.cni_text = text if self._list else json.dumps(document | plugin, indent=2)

    def configure(self, felix: Mapping[str, str], cni: Mapping[str, str]) -> None:
        """calico-node-windows starts: take what the environments of ``felix`` and ``install-cni`` deliver.

        What is missing or makes no sense stays as it was.
        """
        self.environment |= self._accepted(felix)
        text = cni.get("CNI_NETWORK_CONFIG", "")
        self.install_cni(text or json.dumps(self._template(self.environment), indent=2))
        self.token_of = time.time()

    @property
    def cni_files(self) -> dict[str, str]:
        """What the CNI plugin has on the node's disk: path to text."""
        began = min((self.token_of, *self.old_tokens.values()))
        return {self.cni_path: self.cni_text, self._kubeconfig: cni_kubeconfig.text(began)}

    @property
    def pod_policies(self) -> list[dict[str, Any]]:
        """What the CNI plugin gives every endpoint besides its ACLs."""
        return [policy["Value"] for policy in self.plugin.get("policies") or ()]

    def felix_started(self) -> None:
        self._last_process += 4 * 17
        self.process = self._last_process

    def felix_ended(self) -> None:
        """Felix has none any more."""
        self.process = None
