# SPDX-License-Identifier: Apache-2.0
"""Both programs and the lab's stand-in keep to the golden conversations, over real sockets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.contract.golden_lines import carry_out, conversations
from tests.contract.programs import STREAM_AGENTS


@pytest.mark.parametrize(
    "conversation", conversations("conversations.jsonl"), ids=lambda one: one["case"]
)
def test_an_agent_keeps_to_the_golden_conversation(
    conversation: dict[str, Any],
    ports: dict[str, int],
    any_agent: list[str],
    converse: Callable[..., Any],
) -> None:
    if conversation.get("needs") == "ipv6" and "$SIX" not in ports:
        pytest.skip("no IPv6 on this machine's loopback")
    carry_out(conversation, ports, converse(*any_agent))


@pytest.mark.parametrize("program", STREAM_AGENTS)
@pytest.mark.parametrize(
    "conversation", conversations("streams.jsonl"), ids=lambda one: one["case"][:60]
)
def test_a_stream_agent_keeps_to_the_golden_conversation(
    conversation: dict[str, Any], program: str, ports: dict[str, int], converse: Callable[..., Any]
) -> None:
    carry_out({"skip": ["beat"], **conversation}, ports, converse(*STREAM_AGENTS[program]))
