# SPDX-License-Identifier: Apache-2.0
"""Both programs and the lab's stand-in follow the golden conversations, over real sockets."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from tests.contract.golden_lines import can_share, carry_on, carry_out, conversations, renamed
from tests.contract.programs import STREAM_AGENTS

NUMBERS = itertools.count()
"""Of conversations of one process about streams, which a program that is watched tells apart by
their names."""


@pytest.mark.parametrize(
    "conversation", conversations("conversations.jsonl"), ids=lambda one: one["case"]
)
def test_an_agent_keeps_to_the_golden_conversation(
    conversation: dict[str, Any],
    ports: dict[str, int],
    any_agent: list[str],
    converse: Callable[..., Any],
    share: Callable[..., Any],
) -> None:
    if conversation.get("needs") == "ipv6" and "$SIX" not in ports:
        pytest.skip("no IPv6 on this machine's loopback")
    if can_share(conversation):
        carry_on(conversation, ports, share(any_agent))
    else:
        carry_out(conversation, ports, converse(*any_agent))


@pytest.mark.parametrize("program", STREAM_AGENTS)
@pytest.mark.parametrize(
    "conversation", conversations("streams.jsonl"), ids=lambda one: one["case"][:60]
)
def test_a_stream_agent_keeps_to_the_golden_conversation(
    conversation: dict[str, Any],
    program: str,
    ports: dict[str, int],
    converse: Callable[..., Any],
    share: Callable[..., Any],
) -> None:
    conversation = {"skip": ["beat"], **conversation}
    if can_share(conversation):
        carry_on(renamed(conversation, f"-{next(NUMBERS)}"), ports, share(STREAM_AGENTS[program]))
    else:
        carry_out(conversation, ports, converse(*STREAM_AGENTS[program]))


def test_few_conversations_need_a_program_of_their_own() -> None:
    alone = [one["case"] for one in conversations("conversations.jsonl") if not can_share(one)]
    assert sorted(alone) == [
        "a last line without LF is dropped", "after quit nothing is begun", "end of input",
        "end of input with open attempts", "hello and quit", "quit with open attempts",
    ]  # fmt: skip
    alone = [one["case"] for one in conversations("streams.jsonl") if not can_share(one)]
    assert alone == ["watching all streams"]
