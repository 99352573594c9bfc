# SPDX-License-Identifier: Apache-2.0
"""Of a token only its end leaves the host, wherever in its payload that stands."""

from __future__ import annotations

import base64
import json
import re
from datetime import UTC, datetime

import pytest

from conformance.errors import ProbeBroken
from conformance.probe.windows_host import CNI_TOKENS, token_ends

END = datetime(2026, 11, 27, 9, 30, 5, tzinfo=UTC)
LOOKS_FOR = CNI_TOKENS.partition("cmatch '")[2].partition("'")[0]


def kubeconfig(payload: dict[str, object]) -> str:
    text = (
        base64.urlsafe_b64encode(json.dumps(payload, separators=(",", ":")).encode())
        .decode()
        .rstrip("=")
    )
    return f"users:\n- name: calico\n  user:\n    token: eyJhbGciOiJSUzI1NiJ9.{text}.c2lnbmF0dXJl\n"


@pytest.mark.parametrize("audience", ["a", "ab", "abc", "abcd"])
@pytest.mark.parametrize(
    "more", [{}, {"iat": 1, "sub": "system:serviceaccount:calico-system:calico-cni-plugin"}]
)
def test_the_end_is_found_at_each_of_the_places_where_it_can_begin(
    audience: str, more: dict[str, object]
) -> None:
    text = kubeconfig({"aud": [audience], "exp": int(END.timestamp()), **more})
    found = re.search(LOOKS_FOR, text)
    assert found
    assert len(found[1]) <= 24
    assert token_ends(f"token {found[1]}\r\nend\r\n", "node w") == [END]


def test_a_token_without_an_end_has_none() -> None:
    assert not re.search(LOOKS_FOR, kubeconfig({"aud": ["abc"], "iat": 5, "sub": "nobody"}))
    assert token_ends("token\nend", "node w") == [None]
    assert token_ends("end", "node w") == []


@pytest.mark.parametrize(
    "text", ["", "token ImV4", "token ImV4cCI6\nend", "token !\nend", "what\nend"]
)
def test_an_output_that_is_cut_off_or_garbled_is_a_broken_probe_and_is_not_shown(text: str) -> None:
    with pytest.raises(
        ProbeBroken, match=r"^node w: cni_token\.ps1 printed (no end|a line of another shape)$"
    ):
        token_ends(text, "node w")


def test_the_program_has_nothing_that_a_command_line_of_windows_changes() -> None:
    assert not set('"%^\n') & set(CNI_TOKENS)
