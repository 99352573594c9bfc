# SPDX-License-Identifier: Apache-2.0
"""The requests to IPAM in annotations of a pod and its namespace, as Calico's CNI plugin reads
them.

``ipAddrsNoIpam`` needs a feature that is off in the lab's CNI configuration, as in Calico's by
default.
"""

import ipaddress
import json
from collections.abc import Mapping

from hybridlab.networks.contract.addresses import AddressError, Wish

PREFIX = "cni.projectcalico.org/"


def wish_of(pod: Mapping[str, str], namespace: Mapping[str, str]) -> Wish:
    """Return the pools or addresses that annotations request; a pod's pools override its
    namespace's. Raise AddressError.
    """
    if f"{PREFIX}ipAddrsNoIpam" in pod:
        raise AddressError("requested feature is not enabled: ip_addrs_no_ipam")
    name = f"{PREFIX}ipv4pools"
    pools = _strings(name, pod.get(name) or namespace.get(name) or "[]")
    name = f"{PREFIX}ipAddrs"
    addresses = _strings(name, pod.get(name) or "[]")
    if len(addresses) > 1:
        raise AddressError(f"not emulated: {name} with {len(addresses)} addresses")
    try:
        return Wish(
            pools=pools, address=str(ipaddress.IPv4Address(addresses[0])) if addresses else ""
        )
    except ValueError as error:
        raise AddressError(f"{name}: {error}") from None


def _strings(name: str, text: str) -> tuple[str, ...]:
    """Return the list of strings in an annotation's JSON text. Raise AddressError."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise AddressError(f"{name}: {error}") from None
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise AddressError(f"{name}: {text} is not a list of strings")
    return tuple(found)
