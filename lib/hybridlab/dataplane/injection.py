# SPDX-License-Identifier: Apache-2.0
"""Rules that are deliberately wrong: ``table ip fault`` on every node, ``table bridge fault`` in
the underlay.

The tables exist, empty, from the start, so that injecting and removing a fault are one transaction
each. Every rule has its fault's name as a comment, by which :meth:`Injections.in_kernel` reads back
the rules that are really there.
"""

import re
from collections.abc import Sequence

from hybridlab.kernel.nft import Nft
from hybridlab.kernel.wire import Refused

NODE_TABLE = """
table ip fault {
  chain f_raw { type filter hook prerouting priority -300; policy accept; }
  chain f_out { type filter hook output priority -150; policy accept; }
  chain f_fwd { type filter hook forward priority -200; policy accept; }
  chain f_in { type filter hook input priority -150; policy accept; }
  chain f_post { type filter hook postrouting priority 150; policy accept; }
  chain f_dnat { type nat hook prerouting priority -110; policy accept; }
  chain f_odnat { type nat hook output priority -110; policy accept; }
  chain f_snat { type nat hook postrouting priority 90; policy accept; }
}
"""

FABRIC_TABLE = """
table bridge fault {
  chain f_fwd { }
  chain bridged { type filter hook forward priority -200; policy accept; jump f_fwd; }
  chain router { type filter hook output priority -200; policy accept; jump f_fwd; }
}
"""

NODE_CHAINS = {
    "f_raw": "ip fault",
    "f_out": "ip fault",
    "f_fwd": "ip fault",
    "f_in": "ip fault",
    "f_post": "ip fault",
    "f_dnat": "ip fault",
    "f_odnat": "ip fault",
    "f_snat": "ip fault",
    "f_policy": "ip cali",
    "f_new": "ip cali",
    "f_deny": "ip cali",
    "f_host": "ip cali",
}
"""The table of each chain.

``f_policy`` comes before all other rules of policy, so that ``accept`` there skips them. ``f_new``
comes before the rule that drops packets to a pod without a program. ``f_deny`` comes before the
rule that drops what policy denies. ``f_host`` handles packets that the node itself sends to its
pods.
"""

FABRIC_CHAINS = {"f_fwd": "bridge fault"}

_NAME = re.compile(r"[A-Za-z0-9_.:/ -]{1,80}")
_RULE_LINE = re.compile(r'^\s*(?P<rule>.+?) comment "fault:(?P<name>[^"]+)"$')
_CHAIN_LINE = re.compile(r"^\s*chain (?P<chain>\S+) \{$")


class Injections:
    """The fault rules of a namespace."""

    def __init__(self, nft: Nft, chains: dict[str, str]) -> None:
        self._nft = nft
        self._chains = chains
        self._faults: dict[str, tuple[tuple[str, str], ...]] = {}

    def set(self, name: str, rules: Sequence[tuple[str, str]]) -> None:
        """Replace the rules of a fault by these rules; raise Refused, NftError."""
        if not _NAME.fullmatch(name):
            raise Refused(f"fault name {name!r}: expected at most 80 letters, digits and _.:/-")
        for chain, _ in rules:
            if chain not in self._chains:
                raise Refused(
                    f"fault {name}: there is no chain {chain}; "
                    f"the chains are {', '.join(self._chains)}"
                )
        self._replace({**self._faults, name: tuple(rules)})

    def clear(self, name: str) -> None:
        """Remove a fault's rules; do nothing if there are none."""
        self._replace({n: rules for n, rules in self._faults.items() if n != name})

    def _replace(self, faults: dict[str, tuple[tuple[str, str], ...]]) -> None:
        commands = []
        for chain, table in self._chains.items():
            before = _of_chain(self._faults, chain)
            after = _of_chain(faults, chain)
            if before != after:
                commands.append(f"flush chain {table} {chain}")
                commands += [
                    f'add rule {table} {chain} {rule} comment "fault:{n}"' for n, rule in after
                ]
        if commands:
            self._nft.run("\n".join(commands))
        self._faults = faults

    def in_kernel(self) -> dict[str, list[str]]:
        """Map each fault's name to its rules in the kernel now, as ``chain: rule``."""
        found: dict[str, list[str]] = {}
        for table in sorted(set(self._chains.values())):
            chain = ""
            for line in self._nft.run(f"list table {table}").splitlines():
                if header := _CHAIN_LINE.match(line):
                    chain = header["chain"]
                elif (rule := _RULE_LINE.match(line)) and chain in self._chains:
                    found.setdefault(rule["name"], []).append(f"{chain}: {rule['rule']}")
        return found


def _of_chain(faults: dict[str, tuple[tuple[str, str], ...]], chain: str) -> list[tuple[str, str]]:
    return [
        (name, rule) for name, rules in faults.items() for where, rule in rules if where == chain
    ]
