# SPDX-License-Identifier: Apache-2.0
"""A table changed by difference: only what differs is sent, in an order without a gap, split when it must be."""

from __future__ import annotations

from typing import Any

import pytest

from hybridlab.dataplane.table import SetContent, Table, TableChange
from hybridlab.kernel.nft import Nft, NftError, NftTooLong

ADDRESSES = "type ipv4_addr; flags interval;"


class RecordingNft(Nft):
    def __init__(self, limit: int = 10_000) -> None:  # without a namespace
        self.limit = limit
        self.transactions: list[list[str]] = []
        self.error: NftError | None = None

    def run(self, commands: str) -> str:
        lines = commands.splitlines()
        if self.error:
            raise self.error
        if len(lines) > self.limit:
            raise NftTooLong("too long")
        self.transactions.append(lines)
        return ""


def members(*values: Any) -> SetContent:
    return SetContent(ADDRESSES, frozenset(values))


def test_everything_of_a_change_is_one_transaction_in_a_safe_order() -> None:
    nft = RecordingNft()
    Table(nft, "t").apply(
        TableChange(
            entries={("m", "k"): "goto c"},
            chains={"c": ("ip saddr @s accept", "drop")},
            sets={"s": members("10.0.0.1")},
        )
    )
    assert nft.transactions == [
        [
            "add chain ip t c",
            f"add set ip t s {{ {ADDRESSES} }}",
            "add element ip t s { 10.0.0.1 }",
            "add rule ip t c ip saddr @s accept",
            "add rule ip t c drop",
            "add element ip t m { k : goto c }",
        ]
    ]


def test_what_is_so_already_is_not_sent_again() -> None:
    nft = RecordingNft()
    table = Table(nft, "t")
    change = TableChange(
        chains={"c": ("drop",)}, sets={"s": members("10.0.0.1")}, entries={("m", "k"): "goto c"}
    )
    table.apply(change)
    table.apply(change)
    table.apply(
        TableChange(chains={"gone": None}, sets={"gone": None}, entries={("m", "gone"): None})
    )
    assert len(nft.transactions) == 1


def test_replacing_flushes_and_removing_undoes_references_first() -> None:
    nft = RecordingNft()
    table = Table(nft, "t")
    table.apply(
        TableChange(
            chains={"a": ("goto b",), "b": ("drop",)},
            entries={("m", "k"): "goto a"},
            sets={"s": members()},
        )
    )
    table.apply(
        TableChange(
            chains={"a": ("accept",), "b": None}, entries={("m", "k"): None}, sets={"s": None}
        )
    )
    assert nft.transactions[1] == [
        "flush chain ip t a",
        "add rule ip t a accept",
        "delete element ip t m { k }",
        "flush chain ip t b",
        "delete chain ip t b",
        "delete set ip t s",
    ]


def test_a_refused_change_is_tried_again_whole() -> None:
    nft = RecordingNft()
    table = Table(nft, "t")
    nft.error = NftError("no")
    with pytest.raises(NftError):
        table.apply(TableChange(chains={"c": ("drop",)}))
    nft.error = None
    table.apply(TableChange(chains={"c": ("drop",)}))
    assert nft.transactions == [["add chain ip t c", "add rule ip t c drop"]]


def test_a_change_too_long_for_the_socket_is_split_with_rules_before_what_leads_to_them() -> None:
    nft = RecordingNft(limit=450)
    chains: dict[str, tuple[str, ...] | None] = {
        f"c{i}": tuple(f"rule {i} {j}" for j in range(100)) for i in range(9)
    }
    entries: dict[tuple[str, str], str | None] = {("m", f"k{i}"): f"goto c{i}" for i in range(9)}
    Table(nft, "t").apply(TableChange(chains=chains, entries=entries))
    assert len(nft.transactions) > 2
    sent = [line for lines in nft.transactions for line in lines]
    assert len(sent) == 9 + 900 + 9
    assert all(line.startswith("add element") for line in sent[-9:])
    assert all(line.startswith("add chain") for line in sent[:9])
