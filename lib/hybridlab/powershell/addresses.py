# SPDX-License-Identifier: Apache-2.0
"""System.Net.IPAddress objects, as Dns and HttpListener return them to scripts."""

from hybridlab.powershell.objects import NetObject

_ADDRESS_FLAGS = (
    "IsIPv6Multicast",
    "IsIPv6LinkLocal",
    "IsIPv6SiteLocal",
    "IsIPv6Teredo",
    "IsIPv4MappedToIPv6",
)


def ip_address(text: str) -> NetObject:
    """Return a System.Net.IPAddress."""
    flags = dict.fromkeys(_ADDRESS_FLAGS, False)
    shown = ("Address", "AddressFamily", "ScopeId", *_ADDRESS_FLAGS, "IPAddressToString")
    number = int.from_bytes(bytes(int(part) for part in text.split(".")), "little")
    return NetObject(
        "System.Net.IPAddress",
        flags,
        text=text,
        shown=shown,
        Address=number,
        AddressFamily="InterNetwork",
        ScopeId=None,
        IPAddressToString=text,
    )
