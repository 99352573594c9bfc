# SPDX-License-Identifier: Apache-2.0
"""Delays the SYNs that pods repeat, if the lab assumes that pods repeat them later than Linux does.

The kernel repeats a SYN 1, 3, 7, ... seconds after the first, and only root of the machine can
change that. A SYN that is repeated too early is dropped at the sender's own node.
"""

from hybridlab import assumed
from hybridlab.dataplane.model import OS

NAMES: dict[OS, str] = {"windows": "syn-again", "linux": "syn-again-linux"}
HELD = {"1": 0, "3": 2500, "7": 6500}
"""The milliseconds for which repeated SYNs are held back, by the seconds between a SYN and its
first repetition."""


def base_table(node_os: OS, prefix: str) -> str:
    """Return the table for pods of a node; return an empty string if the lab assumes the kernel's
    own times."""
    if not (held := assumed.one_of(NAMES[node_os], HELD)):
        return ""
    syn = f'iifname "{prefix}*" tcp flags & (fin | syn | rst | ack) == syn'
    flow = "ip saddr . tcp sport . ip daddr . tcp dport"
    return f"""
table ip syns {{
  set sent {{
    type ipv4_addr . inet_service . ipv4_addr . inet_service
    flags dynamic,timeout; timeout {held}ms;
  }}
  chain y_pre {{
    type filter hook prerouting priority raw; policy accept;
    {syn} {flow} @sent drop
    {syn} add @sent {{ {flow} }}
  }}
}}
"""
