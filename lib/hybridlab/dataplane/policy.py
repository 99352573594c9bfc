# SPDX-License-Identifier: Apache-2.0
"""Policy at a node's pod interfaces: ``table ip cali``, changed by difference and atomically.

It applies to every packet that a pod sends or receives (forward, and input for pod to own node; the
node's own packets to its pods are always allowed), after established connections were accepted and
invalid packets dropped::

    from-wl: iifname vmap @fromwl -> goto fw-POD   then what an unprogrammed pod may send
    to-wl:   oifname vmap @towl   -> goto tw-POD   then what an unprogrammed pod may get

A pod's chain per direction holds its first tier; every further tier has its own chain. ``pass``
goes to the next tier's chain, and so does the end of a tier that passes. ``allow`` returns (the
policy of the connection's other end still decides), ``deny`` drops silently. A direction without
tiers is open, and so is the end of a last tier that passes: there Calico's profile decides, and it
allows.

Linux: selectors are named sets, refilled without touching rules. Windows: an endpoint's program is
its ACL list, a chain per direction; a new list replaces the whole old list, as in HNS. Established
connections end with the old list if the update requests it (``dataplane.generations``).
"""

from collections.abc import Sequence
from typing import TypeVar

from hybridlab import assumed
from hybridlab.dataplane import generations
from hybridlab.dataplane.acl_rules import acl_rules
from hybridlab.dataplane.model import OS, EndpointProgram, PolicyUpdate, Tier
from hybridlab.dataplane.rules import (
    DENY,
    SET_DECLARATION,
    Rendered,
    SetKind,
    append_rule,
    nft_set_name,
    set_elements,
)
from hybridlab.dataplane.table import Rules, SetContent, Table, TableChange
from hybridlab.kernel.nft import Nft
from hybridlab.kernel.wire import Refused

_T = TypeVar("_T")

DENIALS = {
    "TIMED_OUT": "drop",
    "REFUSED": "meta l4proto tcp reject with tcp reset\n    reject with icmp port-unreachable",
}
"""The rules that cause a denial by Windows, by the result that clients observe."""
EARLY = "early"
"""Counts the TCP packets that opened connections of Windows pods without a program."""


def base_table(node_os: OS, prefix: str) -> str:
    """Return the fixed part of the table; ``prefix``: how the names of pods' interfaces begin.

    Calico on Linux drops a pod's traffic until Felix has programmed its endpoint; on Windows, the
    CNI plugin blocks ingress only. Four chains are for faults. ``f_policy`` lets traffic skip
    policy. ``f_new`` lets traffic reach pods without a program. ``f_deny`` answers traffic that
    policy denies. ``f_host`` applies policy to the node's own traffic.
    """
    tables = forward = inwards = unknown_flow = ""
    unknown_source = denial = "drop"
    if node_os == "windows":
        denial = assumed.one_of("denied", DENIALS)
        tables = generations.TABLES
        forward = generations.FORWARD
        inwards = generations.INPUT
        unknown_flow = generations.UNKNOWN_FLOW
        unknown_source = (
            f"meta l4proto tcp counter name {EARLY}\n    {generations.MARK_UNPROGRAMMED}"
        )
    return f"""
table ip cali {{
  map fromwl {{ type ifname : verdict; }}
  map towl {{ type ifname : verdict; }}
  counter {EARLY} {{ }}{tables}
  chain f_policy {{
  }}
  chain f_new {{
  }}
  chain f_deny {{
  }}
  chain deny {{
    jump f_deny
    {denial}
  }}
  chain from-wl {{
    iifname vmap @fromwl
    {unknown_source}
  }}
  chain to-wl {{
    oifname vmap @towl
    jump f_new
    drop
  }}
  chain f_host {{
    type filter hook output priority filter; policy accept;
  }}
  chain c_forward {{
    type filter hook forward priority filter; policy accept;
    jump f_policy{forward}
    ct state established,related accept
    ct state invalid drop{unknown_flow}
    iifname "{prefix}*" jump from-wl
    oifname "{prefix}*" jump to-wl
  }}
  chain c_input {{
    type filter hook input priority filter; policy accept;
    jump f_policy{inwards}
    ct state established,related accept
    ct state invalid drop{unknown_flow}
    iifname "{prefix}*" jump from-wl
  }}
}}
"""


class PolicyTable:
    """All of a node's endpoints: their interfaces, programs and the IP sets that the programs
    use."""

    def __init__(self, nft: Nft, node_os: OS) -> None:
        self._table = Table(nft, "cali")
        self._by_lists = node_os == "windows"
        self._sets: dict[str, tuple[str, ...]] = {}
        self._programs: dict[str, EndpointProgram] = {}
        self._interfaces: dict[str, str] = {}
        self._chains_of: dict[str, frozenset[str]] = {}
        self._sets_of: dict[str, frozenset[tuple[SetKind, str]]] = {}
        self._generations: dict[str, int] = {}
        self._early = 0
        self._early_before: dict[str, int] = {}
        """The value of the counter ``early`` that was last read before an endpoint was added, for
        each endpoint without a program."""

    def add_interface(self, endpoint: str, interface: str, *, open_at_first: bool = False) -> None:
        """Record that the pod's host-side interface exists; a program that arrived earlier takes
        effect now.

        Without a program the pod receives nothing, or everything with ``open_at_first``.
        """
        self._interfaces[endpoint] = interface
        if open_at_first:
            self._programs.setdefault(endpoint, EndpointProgram())
        if endpoint in self._programs:
            self._apply([endpoint])
        else:
            self._early_before[endpoint] = self._early

    def remove_interface(self, endpoint: str) -> None:
        """Remove a deleted pod's chains and program."""
        interface = self._interfaces.pop(endpoint, None)
        self._programs.pop(endpoint, None)
        self._generations.pop(endpoint, None)
        self._early_before.pop(endpoint, None)
        if interface is not None:
            self._table.apply(self._without(endpoint, interface))
            self._chains_of.pop(endpoint, None)
            self._sets_of.pop(endpoint, None)

    def generation(self, endpoint: str) -> int | None:
        """Return the number of a Windows pod's list; None on Linux."""
        return self._generation(endpoint) if self._by_lists else None

    def _generation(self, endpoint: str) -> int:
        return self._generations.get(endpoint, generations.UNPROGRAMMED)

    def update(self, update: PolicyUpdate) -> tuple[str, ...]:
        """Apply an update as one transaction; return the endpoints of ``update.reset`` that may
        have connections to end. Raise Refused for a set that is used but was never sent."""
        self._refuse_unknown_sets(update)
        known = [endpoint for endpoint in update.reset if endpoint in self._interfaces]
        new = [endpoint for endpoint in known if endpoint not in self._chains_of]
        before = (self._sets, self._programs, self._generations)
        if self._by_lists:
            self._generations = self._generations | {
                e: generations.after(self.generation(e) or 0) for e in update.reset
            }
        self._sets = _without(self._sets, update.removed_sets) | update.sets
        self._programs = _without(self._programs, update.removed_endpoints) | update.endpoints
        try:
            self._apply(self._concerned(update), update)
        except Exception:
            self._sets, self._programs, self._generations = before
            raise
        quiet = self._opened_nothing(new) if new else set()
        return tuple(endpoint for endpoint in known if endpoint not in quiet)

    def _opened_nothing(self, new: Sequence[str]) -> set[str]:
        """Return the new Windows pods that have opened no connection before their first policy was
        programmed."""
        listed = self._table.run(f"list counter ip cali {EARLY}")
        self._early = int(listed.partition("packets ")[2].partition(" ")[0])
        return {
            endpoint for endpoint in new if self._early_before.pop(endpoint, None) == self._early
        }

    def _refuse_unknown_sets(self, update: PolicyUpdate) -> None:
        known = (self._sets.keys() - set(update.removed_sets)) | update.sets.keys()
        programs = self._programs | update.endpoints
        for endpoint, program in programs.items():
            if endpoint in update.removed_endpoints:
                continue
            if endpoint in update.endpoints or update.removed_sets:
                missing = program.named_sets() - known
                if missing:
                    raise Refused(
                        f"the program of endpoint {endpoint} names IP sets that were never sent or are "
                        f"removed: {', '.join(sorted(missing))}"
                    )

    def _concerned(self, update: PolicyUpdate) -> list[str]:
        """Return the endpoints whose rules must be written again."""
        concerned = [
            e for e in dict.fromkeys((*update.endpoints, *update.reset)) if e in self._interfaces
        ]
        concerned = [e for e in concerned if e in self._programs]
        kept = {*update.removed_endpoints, *update.held}
        return [e for e in concerned if e not in kept]

    def _apply(self, endpoints: Sequence[str], update: PolicyUpdate | None = None) -> None:
        change = TableChange()
        chains_of = dict(self._chains_of)
        sets_of = dict(self._sets_of)
        for endpoint in update.removed_endpoints if update else ():
            interface = self._interfaces.get(endpoint)
            if interface is not None:
                gone = self._without(endpoint, interface)
                change.chains |= gone.chains
                change.entries |= gone.entries
            chains_of.pop(endpoint, None)
            sets_of.pop(endpoint, None)
        for endpoint in endpoints:
            chains, sets = self._render(endpoint)
            change.chains |= dict.fromkeys(
                self._chains_of.get(endpoint, frozenset()) - chains.keys()
            )
            change.chains |= chains
            interface = self._interfaces[endpoint]
            change.entries |= self._entries(interface)
            chains_of[endpoint] = frozenset(chains)
            sets_of[endpoint] = sets
        if not self._by_lists:
            needed = {named for endpoint in endpoints for named in sets_of[endpoint]}
            self._change_sets(change, needed, update)
        self._table.apply(change)
        self._chains_of = chains_of
        self._sets_of = sets_of

    def _change_sets(
        self, change: TableChange, needed: set[tuple[SetKind, str]], update: PolicyUpdate | None
    ) -> None:
        """Change sets. A set exists in the kernel from the first rule on that uses it, since that
        rule determines its kind."""
        kinds: tuple[SetKind, ...] = ("addresses", "endpoints")
        for name in update.sets if update else ():
            needed |= {
                (kind, name) for kind in kinds if self._table.has_set(nft_set_name(kind, name))
            }
        for kind, name in needed:
            content = SetContent(
                SET_DECLARATION[kind], frozenset(set_elements(kind, self._sets[name]))
            )
            change.sets[nft_set_name(kind, name)] = content
        for name in set(update.removed_sets) - update.sets.keys() if update else ():
            for kind in kinds:
                change.sets[nft_set_name(kind, name)] = None

    def _render(
        self, endpoint: str
    ) -> tuple[dict[str, Rules | None], frozenset[tuple[SetKind, str]]]:
        program = self._programs[endpoint]
        interface = self._interfaces[endpoint]
        chains: dict[str, Rules | None] = {}
        sets: set[tuple[SetKind, str]] = set()
        if self._by_lists:
            for prefix, direction in (("fw", "Out"), ("tw", "In")):
                chains[f"{prefix}-{interface}"] = acl_rules(program.acls, direction)
            return chains | generations.chains(interface, self._generation(endpoint)), frozenset()
        for prefix, tiers in (("fw", program.egress), ("tw", program.ingress)):
            for chain, rendered in _tier_chains(f"{prefix}-{interface}", tiers):
                chains[chain] = tuple(rendered.rules)
                sets |= rendered.sets
        return chains, frozenset(sets)

    def _entries(self, interface: str) -> dict[tuple[str, str], str]:
        """Return the verdict map entries for a pod's interface: the chain to which each map
        leads."""
        if self._by_lists:
            return generations.entries(interface)
        key = f'"{interface}"'
        return {("fromwl", key): f"goto fw-{interface}", ("towl", key): f"goto tw-{interface}"}

    def _without(self, endpoint: str, interface: str) -> TableChange:
        chains = self._chains_of.get(endpoint, frozenset())
        return TableChange(
            chains=dict.fromkeys(chains), entries=dict.fromkeys(self._entries(interface))
        )


def _without(items: dict[str, _T], names: Sequence[str]) -> dict[str, _T]:
    return {name: item for name, item in items.items() if name not in names}


def _tier_chains(name: str, tiers: tuple[Tier, ...]) -> list[tuple[str, Rendered]]:
    """Return the chain of each tier; the first has the endpoint's own name, and exists even without
    tiers."""
    if not tiers:
        return [(name, Rendered())]
    names = [name] + [f"{name}-{number}" for number in range(1, len(tiers))]
    chains = []
    for number, tier in enumerate(tiers):
        passed = f"goto {names[number + 1]}" if number + 1 < len(tiers) else "return"
        rendered = Rendered()
        for rule in tier.rules:
            append_rule(rule, accept="return", next_tier=passed, into=rendered)
        end = DENY if tier.end == "deny" else passed
        rendered.rules.append(f'{end} comment "end of tier {tier.name[:80]}"')
        chains.append((names[number], rendered))
    return chains
