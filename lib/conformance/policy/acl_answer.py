# SPDX-License-Identifier: Apache-2.0
"""The answer of an endpoint's access rules to a packet. A pure function."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from conformance.policy.acl_list import ANY_PROTOCOL, HnsRule, Ranges

Answer = Literal["Allow", "Block", ""]
"""The answer. Empty: no rule matches the packet, or the answer depends on the client's port, which
is not known.
"""


@dataclass(frozen=True)
class Packet:
    """The first packet of a path, as it passes the endpoint of one end."""

    direction: Literal["In", "Out"]
    protocol: int
    local: int
    """The address of the endpoint."""
    remote: int
    port: int
    """The server's port."""


def answer(rules: Sequence[HnsRule], packet: Packet) -> Answer:
    """Return the action of the first rule that matches a packet."""
    for rule in rules:
        if not _is_for(rule, packet):
            continue
        is_out = packet.direction == "Out"
        of_client = rule.local_ports if is_out else rule.remote_ports
        of_server = rule.remote_ports if is_out else rule.local_ports
        if of_client:
            return ""
        if _holds(of_server, packet.port):
            return "Allow" if rule.action == "Allow" else "Block"
    return ""


def _is_for(rule: HnsRule, packet: Packet) -> bool:
    return (
        rule.direction == packet.direction
        and rule.protocol in (ANY_PROTOCOL, packet.protocol)
        and _holds(rule.local, packet.local)
        and _holds(rule.remote, packet.remote)
    )


def _holds(ranges: Ranges, value: int) -> bool:
    return not ranges or any(first <= value <= last for first, last in ranges)
