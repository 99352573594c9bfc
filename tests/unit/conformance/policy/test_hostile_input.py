# SPDX-License-Identifier: Apache-2.0
"""No file ends ``calico-conformance policy`` in a traceback: it is read, or refused in one line
with exit code 4."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conformance.cli import main
from conformance.errors import UsageProblem
from conformance.offline import inputs
from conformance.offline.summary import Summary
from conformance.offline.text import text
from conformance.policy.reach import Reach
from tests.detection import choice
from tests.unit.conformance.policy import hostile

LONGEST_LINE = 600
ANY = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=20),
        st.text(alphabet="()!&|'= ab", max_size=30),
    ),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
VALID = hostile.valid()
PLACES = list(hostile.places_of(VALID))


def refusal(objects: list[Any]) -> str:
    """Why some objects are refused; empty: they are read and answered."""
    try:
        reach = Reach(inputs.given(inputs.finite(objects, "file"), "file").objects)
        assert list(text(Summary(reach), whole=False))
    except UsageProblem as problem:
        return str(problem)
    return ""


def test_the_valid_objects_are_answered() -> None:
    assert refusal(VALID) == ""


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(PLACES), ANY, st.sampled_from(hostile.HOWS))
def test_any_value_anywhere_is_read_or_refused_in_one_line(path: Any, value: Any, how: str) -> None:
    why = refusal(hostile.changed(VALID, path, value, how))
    assert "\n" not in why
    assert len(why) <= LONGEST_LINE


@pytest.mark.parametrize("seed", [2, 5, 88, 148, 216, choice.turn(10_000, choice.commit())])
def test_several_strange_values_together(seed: int) -> None:
    """The first seeds once gave refusals of several lines, or of 24,000 characters."""
    chance = random.Random(seed)
    told = [refusal(hostile.at_random(chance, VALID)) for _ in range(100)]
    assert [why for why in told if "\n" in why or len(why) > LONGEST_LINE] == []
    assert len(set(told)) > 20


@pytest.mark.parametrize("content", hostile.TEXTS, ids=lambda content: repr(content[:24]))
def test_a_text_that_is_no_object_is_one_line(content: bytes, capsys: Any, tmp_path: Path) -> None:
    file = tmp_path / "file.yaml"
    file.write_bytes(content)
    assert main(["policy", str(file)]) in (0, 4)
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err
    assert printed.err.count("\n") <= 1
    assert len(printed.err) <= LONGEST_LINE
    assert printed.err.startswith("ERROR: ") or not printed.err


def test_an_endless_number_and_an_endless_value_are_refused_by_name() -> None:
    number = hostile.changed(
        VALID, (4, "spec", "containers", 0, "ports", 0, "containerPort"), float("inf"), "replaced"
    )
    assert refusal(number).startswith("Pod a/p: cannot be read: OverflowError")
    aliases = hostile.changed(VALID, (4, "spec", "nodeSelector"), hostile.BOMB, "replaced")
    assert refusal(aliases) == "manifest file: it contains itself, or has 5,000,000 values"
