"""A failed truth table is also a drawing: well-formed, with wrong cells marked, and nothing taken for markup."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from conformance.errors import Nonconformance
from conformance.expect.context import Context
from conformance.expect.picture import Cell, draw
from conformance.expect.traffic import Expect
from conformance.model.observation import Verdict
from conformance.settings import load_timings
from tests.unit.conformance.expect.stand_ins import BYSTANDER, ScriptedProber, target, workload

SVG = "{http://www.w3.org/2000/svg}"


def cell(*, source: str = "a", goal: str = "x", observed: str = "CONNECTED", right: bool = True) -> Cell:
    return Cell(source=source, target=goal, expected="CONNECTED", observed=observed, right=right)


def texts(svg: str) -> list[str]:
    return ["".join(element.itertext()) for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def framed(svg: str) -> list[str]:
    return [
        element.get("stroke", "") for element in ElementTree.fromstring(svg).iter(f"{SVG}rect") if element.get("stroke")
    ]


def test_wrong_cells_and_only_they_are_marked() -> None:
    svg = draw("POL-1", [cell(), cell(goal="y", observed="TIMED_OUT", right=False), cell(source="b")])
    assert framed(svg).count("#c0392b") == 1
    assert svg.count("url(#wrong)") == 1
    assert "POL-1: 1 of 3 wrong" in texts(svg)


def test_every_path_stands_in_both_tables() -> None:
    svg = draw("POL-1", [cell(observed="REFUSED", right=False)])
    assert texts(svg).count("CONNECTED") == 1
    assert texts(svg).count("REFUSED") == 1


def test_text_is_not_markup() -> None:
    assert "<b>&" in texts(draw("x", [cell(source="<b>&")]))


def test_a_matrix_that_fails_is_drawn_and_one_that_holds_is_not() -> None:
    drawn: dict[str, str] = {}
    context = Context(claims=("POL-1",), draw=drawn.__setitem__)
    friend, stranger = workload("friend"), workload("stranger", "windows")
    prober = ScriptedProber({"friend": [Verdict.CONNECTED], "stranger": [Verdict.CONNECTED]})
    expect = Expect(prober, load_timings(), context, prober.clock)
    expect.reachable([friend, stranger], target(), because="it is open")
    assert drawn == {}
    with pytest.raises(Nonconformance):
        expect.blocked(stranger, target(), because="a policy denies it", beside=[friend, (stranger, BYSTANDER)])
    assert framed(drawn["matrix"]).count("#c0392b") == 1
