# SPDX-License-Identifier: Apache-2.0
"""Generations in the connection mark, which end a Windows pod's connections when its policy
changes.

HNS loses the state of an endpoint's flows when its ACL list is replaced. Here every list has a
number, its generation. A connection that policy allows is marked with the generations of the
Windows pods at its ends: the 16 upper bits have the generation of the pod that opened the
connection, and the 16 lower bits have the generation of its peer. 0 means no pod of this node, or a
pod to which its own node connected: such connections do not end. A packet of an established
connection with an outdated mark is stale. A stale packet to the pod is answered with a TCP reset to
its sender; a stale packet from the pod vanishes (calico#10199 reports both). For protocols other
than TCP, the new list decides about a stale packet as about a first packet, and allowed packets
mark the connection again. The number changes in the transaction that changes the rules, so that no
packet passes with an old number.

An end that receives nothing from the pod does not notice the change: ``dataplane.resets`` resets
it.
"""

from hybridlab.dataplane.table import Rules

UNPROGRAMMED = 1
"""The generation of a pod whose policy was not programmed yet."""
_LAST = 0xFFFF
_OPENED_BY = 0xFFFF0000
_OPENED_TO = 0x0000FFFF
_HANDSHAKE = "tcp flags & (syn | ack | rst)"

MARK_UNPROGRAMMED = f"ct mark set ct mark and {_OPENED_TO:#010x} or {UNPROGRAMMED << 16:#x}"
"""The statement for packets that a pod may send before its policy is programmed."""

FORWARD = """
    ct state established iifname vmap @fromest
    ct state established oifname vmap @toest"""
INPUT = """
    ct state established iifname vmap @fromest"""
UNKNOWN_FLOW = """
    meta l4proto tcp ct state new tcp flags & (fin | syn | rst | ack) != syn drop"""
"""Rules of the base chains: FORWARD and INPUT come before the rule that accepts established
connections, UNKNOWN_FLOW after it."""


TABLES = f"""
  map fromest {{ type ifname : verdict; }}
  map toest {{ type ifname : verdict; }}
  chain to-stale {{
    tcp flags & rst == rst return
    {_HANDSHAKE} == (syn | ack) drop
    reject with tcp reset
  }}
  chain c_output {{
    type filter hook output priority filter; policy accept;
    ct state established meta l4proto tcp oifname vmap @toest
  }}"""
"""Maps and chains that the rules need, and the chain for packets that the node itself sends on a
connection that a pod opened to it."""


def after(generation: int) -> int:
    """Return the next generation."""
    return generation + 1 if generation < _LAST else UNPROGRAMMED + 1


def stale(mark: int, *, opened: bool, generation: int) -> bool:
    """Return whether an earlier ACL list of the pod allowed the connection; ``opened``: the pod
    opened it."""
    half = mark >> 16 if opened else mark & _OPENED_TO
    return half not in {0, generation}


def chains(interface: str, generation: int) -> dict[str, Rules | None]:
    """Return a pod's chains in addition to its policy; ``fn-`` and ``tn-`` call the policy, and
    mark the connection after it."""
    upper = generation << 16
    as_opener = f"{{ 0x0, {upper:#x} }}"
    as_target = f"{{ 0x0, {generation:#x} }}"
    # Policy decides again about a repeated SYN: its connection has not begun.
    again = f"{_HANDSHAKE} == syn goto"
    mark_opener = f"ct mark set ct mark and {_OPENED_TO:#010x} or {upper:#x}"
    mark_target = f"ct mark set ct mark and {_OPENED_BY:#010x} or {generation:#x}"
    other = "meta l4proto != tcp"
    return {
        f"fn-{interface}": (f"jump fw-{interface}", mark_opener),
        f"tn-{interface}": (f"jump tw-{interface}", mark_target),
        f"fe-{interface}": (
            f"ct direction original ct mark and {_OPENED_BY:#010x} {as_opener} return",
            f"ct direction reply ct mark and {_OPENED_TO:#010x} {as_target} return",
            f"{other} jump fw-{interface}",
            f"{other} ct direction original {mark_opener} return",
            f"{other} {mark_target} return",
            f"{again} fn-{interface}",
            "drop",
        ),
        f"te-{interface}": (
            f"ct direction original ct mark and {_OPENED_TO:#010x} {as_target} return",
            f"ct direction reply ct mark and {_OPENED_BY:#010x} {as_opener} return",
            f"{other} jump tw-{interface}",
            f"{other} ct direction original {mark_target} return",
            f"{other} {mark_opener} return",
            f"{again} tn-{interface}",
            "goto to-stale",
        ),
    }


def entries(interface: str) -> dict[tuple[str, str], str]:
    """Return the base chains' targets for a pod's interface."""
    key = f'"{interface}"'
    return {
        ("fromwl", key): f"goto fn-{interface}",
        ("towl", key): f"goto tn-{interface}",
        ("fromest", key): f"jump fe-{interface}",
        ("toest", key): f"jump te-{interface}",
    }
