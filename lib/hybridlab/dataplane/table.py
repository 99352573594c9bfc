# SPDX-License-Identifier: Apache-2.0
"""An nft table that is changed by difference: chains, sets and verdict maps.

Policy and services define the content of chains, sets and map entries. This module finds the
differences from the kernel and applies them in one transaction. Base chains (with a hook) and fixed
parts are created once from text and are not managed here. A transaction that exceeds an ordinary
user's socket buffer (about 1,100 rules) is applied in parts: first sets and chains, then the
entries that lead to them. So at no time more traffic is allowed than before or after the change.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from hybridlab.kernel.nft import Nft, NftTooLong

_K = TypeVar("_K")
_V = TypeVar("_V")

Rules = tuple[str, ...]
"""nft rule texts, in order."""


@dataclass(frozen=True)
class SetContent:
    """A named set: its declaration (``type ipv4_addr; flags interval;``) and its members."""

    declaration: str
    members: frozenset[str]


@dataclass
class TableChange:
    """The new state of parts of a table; None removes a part. Parts that the change does not
    mention stay."""

    chains: dict[str, Rules | None] = field(default_factory=dict)
    sets: dict[str, SetContent | None] = field(default_factory=dict)
    entries: dict[tuple[str, str], str | None] = field(default_factory=dict)
    """The verdict of each entry, by map and key."""


class Table:
    """The managed part of ``table FAMILY NAME`` in one network namespace."""

    def __init__(self, nft: Nft, name: str) -> None:
        self._nft = nft
        self._name = name
        self.chains: dict[str, Rules] = {}
        """The chains in the kernel."""
        self._sets: dict[str, SetContent] = {}
        self._entries: dict[tuple[str, str], str] = {}

    def adopt(self, *, chains: Mapping[str, Rules], sets: Mapping[str, str]) -> None:
        """Manage the chains and empty sets (name to declaration) with which the table was
        created."""
        self.chains.update(chains)
        self._sets.update(
            {n: SetContent(declaration, frozenset()) for n, declaration in sets.items()}
        )

    def has_set(self, name: str) -> bool:
        return name in self._sets

    def run(self, command: str) -> str:
        """Run a command that changes no managed part, and return its output."""
        return self._nft.run(command)

    def apply(self, change: TableChange) -> None:
        """Apply the change in one transaction. If NftError is raised, nothing has changed, unless
        the change had to be split."""
        real = self._reduce(change)
        steps = [step for step in self._steps(real) if step]
        if not steps:
            return
        try:
            self._nft.run("\n".join(line for step in steps for line in step))
        except NftTooLong:
            for batch in _batches(steps):
                self._nft.run("\n".join(batch))
        self._remember(real)

    def _reduce(self, change: TableChange) -> TableChange:
        """Return the change without the parts that are already in place."""
        return TableChange(
            chains={n: c for n, c in change.chains.items() if self.chains.get(n) != c},
            sets={n: c for n, c in change.sets.items() if self._sets.get(n) != c},
            entries={k: v for k, v in change.entries.items() if self._entries.get(k) != v},
        )

    def _remember(self, change: TableChange) -> None:
        _update(self.chains, change.chains)
        _update(self._sets, change.sets)
        _update(self._entries, change.entries)

    def _steps(self, change: TableChange) -> Iterator[list[str]]:
        """Yield groups of commands, some of them empty. Each group may be applied alone if the
        groups are applied in this order."""
        table = f"ip {self._name}"
        chains, removed = _split(change.chains)
        sets, gone = _split(change.sets)
        yield [f"add chain {table} {name}" for name in chains if name not in self.chains]
        yield from (list(self._fill_set(table, name, content)) for name, content in sets.items())
        for name, rules in chains.items():
            flush = [f"flush chain {table} {name}"] if name in self.chains else []
            yield [*flush, *(f"add rule {table} {name} {rule}" for rule in rules)]
        yield list(self._change_entries(table, change.entries))
        yield [f"{verb} chain {table} {name}" for verb in ("flush", "delete") for name in removed]
        yield [f"delete set {table} {name}" for name in gone]

    def _fill_set(self, table: str, name: str, content: SetContent) -> Iterator[str]:
        if name in self._sets:
            yield f"flush set {table} {name}"
        else:
            yield f"add set {table} {name} {{ {content.declaration} }}"
        if content.members:
            yield f"add element {table} {name} {{ {', '.join(sorted(content.members))} }}"

    def _change_entries(
        self, table: str, entries: Mapping[tuple[str, str], str | None]
    ) -> Iterator[str]:
        yield from (
            f"delete element {table} {name} {{ {key} }}"
            for (name, key), _ in entries.items()
            if (name, key) in self._entries
        )
        yield from (
            f"add element {table} {name} {{ {key} : {verdict} }}"
            for (name, key), verdict in entries.items()
            if verdict is not None
        )


_LINES_PER_BATCH = 400


def _batches(steps: Sequence[list[str]]) -> Iterator[list[str]]:
    batch: list[str] = []
    for step in steps:
        if batch and len(batch) + len(step) > _LINES_PER_BATCH:
            yield batch
            batch = []
        batch = batch + step
    if batch:
        yield batch


def _split(change: Mapping[str, _V | None]) -> tuple[dict[str, _V], list[str]]:
    """Return the new parts, and the names of the parts to remove."""
    kept = {name: value for name, value in change.items() if value is not None}
    return kept, [name for name in change if name not in kept]


def _update(current: dict[_K, _V], change: Mapping[_K, _V | None]) -> None:
    for key, value in change.items():
        if value is None:
            current.pop(key, None)
        else:
            current[key] = value
