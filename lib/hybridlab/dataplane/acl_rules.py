# SPDX-License-Identifier: Apache-2.0
"""A Windows endpoint's ACL list as nft rules: one chain for each direction, the entries by
priority.

The module only returns text. A chain decides about a packet as HNS does: the first entry that
matches decides. If no entry matches, the packet is dropped, unless the direction has no entry at
all. Entries for the host's firewall are left out, since they do not apply to the endpoint.
"""

from collections.abc import Iterable

from hybridlab.dataplane.model import Acl
from hybridlab.dataplane.rules import DENY, any_of, collapsed, comment, ports

_ANY_PROTOCOL = 256
_WITH_PORTS = "{ tcp, udp, udplite, sctp }"


def acl_rules(acls: Iterable[Acl], direction: str) -> tuple[str, ...]:
    """Return the rules of a direction, ``In`` or ``Out``."""
    asked = [acl for acl in acls if acl.direction == direction and acl.rule_type == "Switch"]
    rules = [_rule(acl) for acl in sorted(asked, key=lambda acl: acl.priority)]
    return (*rules, f'{DENY} comment "end of list"') if rules else ()


def _rule(acl: Acl) -> str:
    local, remote = ("daddr", "saddr") if acl.direction == "In" else ("saddr", "daddr")
    local_port, remote_port = ("dport", "sport") if acl.direction == "In" else ("sport", "dport")
    parts: list[str | None] = []
    if acl.protocol != _ANY_PROTOCOL:
        parts.append(f"meta l4proto {acl.protocol}")
    elif acl.local_ports or acl.remote_ports:
        parts.append(f"meta l4proto {_WITH_PORTS}")
    parts.extend(
        any_of(f"ip {end}", "", collapsed(networks))
        for end, networks in ((local, acl.local), (remote, acl.remote))
        if networks
    )
    parts += [*ports(local_port, acl.local_ports), *ports(remote_port, acl.remote_ports)]
    verdict = "return" if acl.action == "Allow" else DENY
    return " ".join([*(part for part in parts if part), verdict, *comment(acl.id)])
