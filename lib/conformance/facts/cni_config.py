"""The CNI network configuration that Calico's installers are given, before they fill in its placeholders."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

_PLACEHOLDER = re.compile(r'(?<!["\w])__\w+__(?!["\w])')
"""A placeholder that stands for a number: ``"mtu": __CNI_MTU__``.  Those in quotes are JSON already."""


@dataclass(frozen=True, kw_only=True)
class CniConfig:
    """What Calico's entry in a network configuration says; empty where it says nothing."""

    plugin: str = ""
    """``calico``."""
    ipam: str = ""
    """Type of the IPAM plugin: ``calico-ipam``, ``host-local``."""


def read(text: str | None) -> CniConfig:
    """Calico's entry of a configuration or a list of them; an empty one where it cannot be read or has none."""
    try:
        whole = json.loads(_PLACEHOLDER.sub("0", text or ""))
    except ValueError:
        return CniConfig()
    plugins = whole.get("plugins", [whole]) if isinstance(whole, dict) else []
    for plugin in plugins:
        if isinstance(plugin, dict) and plugin.get("type") == "calico":
            return CniConfig(plugin="calico", ipam=str((plugin.get("ipam") or {}).get("type") or ""))
    return CniConfig()
