# SPDX-License-Identifier: Apache-2.0
"""Only the end of a token leaves the host, wherever in the payload it stands."""

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
    assert token_ends(printed({"exp": found[1]}), "node w") == [END]


@pytest.mark.parametrize("more", [{}, {"aud": ["abc"], "iat": 1}])
def test_the_end_is_found_where_it_stands_first(more: dict[str, object]) -> None:
    found = re.search(LOOKS_FOR, kubeconfig({"exp": int(END.timestamp()), **more}))
    assert found, "an end that stands first is not found"
    assert len(found[1]) <= 24
    assert token_ends(printed({"exp": found[1]}), "node w") == [END]


def test_a_token_without_an_end_has_none() -> None:
    assert not re.search(LOOKS_FOR, kubeconfig({"aud": ["abc"], "iat": 5, "sub": "nobody"}))
    assert token_ends(printed({"exp": ""}), "node w") == [None]
    assert token_ends(printed([{"exp": ""}, {"exp": ""}]), "node w") == [None, None]
    nothing: tuple[object, ...] = (None, {})
    for none in nothing:
        assert token_ends(printed(none, {"C:\\k": error("PathNotFound,Get")}), "node w") == []


def test_a_kubeconfig_that_cannot_be_read_is_a_broken_probe() -> None:
    text = printed(None, {"C:\\k": error("GetContentReaderUnauthorizedAccessError,Get")})
    with pytest.raises(ProbeBroken, match=r"node w: C:\\k: GetContent.* one\ntwo"):
        token_ends(text, "node w")


def error(identity: str) -> dict[str, str]:
    return {"id": identity, "message": "one\ntwo"}


def printed(tokens: object, errors: object = None) -> str:
    return json.dumps({"tokens": tokens, "errors": errors or {}}) + "\r\n"


@pytest.mark.parametrize(
    "text",
    [
        "",
        '{"tokens": {"exp": "ImV4',
        "{}",
        "[]",
        "token",
        *(
            printed(tokens)
            for tokens in ({"exp": "ImV4cCI6"}, {"exp": "!"}, {"exp": 5}, {"what": ""}, ["x"])
        ),
    ],
)
def test_an_output_that_is_cut_off_or_garbled_is_a_broken_probe_and_is_not_shown(text: str) -> None:
    with pytest.raises(
        ProbeBroken,
        match=r"^node w: cni_token.ps1 printed (no complete object|a token with unexpected)",
    ):
        token_ends(text, "node w")


def test_the_program_has_nothing_that_a_command_line_of_windows_changes() -> None:
    assert not set('"%^\n') & set(CNI_TOKENS)
