# SPDX-License-Identifier: Apache-2.0
"""The lab's assumptions: the code reads each value, and refuses a value that it cannot have.

tests/lab/cluster/test_assumed_values.py shows what other values do.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import hybridlab
from hybridlab import assumed
from hybridlab.dataplane import syn_again
from hybridlab.dataplane.policy import DENIALS, base_table

LIB = Path(hybridlab.__file__).parent


@pytest.mark.parametrize("name", assumed.assumptions())
def test_the_code_reads_every_value(name: str) -> None:
    assert "made_by" not in assumed.assumptions()[name]
    texts = (path.read_text("utf-8") for path in LIB.rglob("*.py"))
    assert any(re.search(rf'"{name}"', text) for text in texts)


def with_value(monkeypatch: pytest.MonkeyPatch, name: str, value: Any) -> None:
    other = {**assumed.assumptions(), name: {**assumed.assumptions()[name], "value": value}}
    monkeypatch.setattr(assumed, "assumptions", lambda: other)


def test_a_value_that_the_lab_cannot_have_is_not_emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    with_value(monkeypatch, "syn-again", 2)
    with pytest.raises(ValueError, match="not emulated: syn-again: 2; the lab supports 1, 3, 7"):
        syn_again.base_table("windows", "cali")
    assert syn_again.base_table("linux", "cali") == "", "the kernel does it"


def test_rules_are_as_assumed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert DENIALS["REFUSED"] not in base_table("windows", "cali")
    with_value(monkeypatch, "denied", "REFUSED ConnectionRefused/10061")
    assert DENIALS["REFUSED"] in base_table("windows", "cali")
    assert DENIALS["REFUSED"] not in base_table("linux", "cali"), "it is about Windows"
    with_value(monkeypatch, "syn-again-linux", 7)
    assert "timeout 6500ms" in syn_again.base_table("linux", "cali")
