# SPDX-License-Identifier: Apache-2.0
"""CNI network configurations: the templates that Calico's installers fill in, and the files on a
Windows node."""

import json
import re
from dataclasses import dataclass

_PLACEHOLDER = re.compile(r'(?<!["\w])__\w+__(?!["\w])')
"""Matches a placeholder that stands for a number: ``"mtu": __CNI_MTU__``. Placeholders in quotes
are JSON already."""


@dataclass(frozen=True, kw_only=True)
class CniConfig:
    """Calico's entry in a network configuration. Fields that the entry lacks are empty strings."""

    plugin: str = ""
    """Type of the CNI plugin: ``calico``."""
    ipam: str = ""
    """Type of the IPAM plugin: ``calico-ipam``, ``host-local``."""


def read(text: str | None) -> CniConfig:
    """Return Calico's entry of a configuration or of a list of configurations; an empty entry if
    Calico has none, or if the configuration cannot be read."""
    try:
        whole = json.loads(_PLACEHOLDER.sub("0", text or ""))
    except ValueError:
        return CniConfig()
    plugins = whole.get("plugins", [whole]) if isinstance(whole, dict) else []
    for plugin in plugins:
        if isinstance(plugin, dict) and plugin.get("type") == "calico":
            return CniConfig(
                plugin="calico", ipam=str((plugin.get("ipam") or {}).get("type") or "")
            )
    return CniConfig()


def on_node(text: str) -> CniConfig:
    """Return the plugin and the IPAM of a node's concatenated configuration files; an empty entry
    if there are no files, if they disagree, or if they are not JSON.

    Only the first plugin of a list counts, since it makes the interface. The plugin is its
    ``type``, such as ``azure-vnet``.
    """
    found = set[tuple[str, str]]()
    decoder = json.JSONDecoder()
    at = text.find("{")
    while at >= 0:
        try:
            whole, at = decoder.raw_decode(text, at)
        except ValueError:
            return CniConfig()
        found.update(
            (str(plugin.get("type") or ""), str((plugin.get("ipam") or {}).get("type") or ""))
            for plugin in whole.get("plugins", [whole])[:1]
        )
        at = text.find("{", at)
    plugin, ipam = next(iter(found)) if len(found) == 1 else ("", "")
    return CniConfig(plugin=plugin, ipam=ipam)
