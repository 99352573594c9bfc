"""Fixtures of the table are made of fixtures that there are, of the types that their classes ask for."""

from __future__ import annotations

import inspect
from typing import Any, get_args, get_type_hints

import pytest

from conformance.plugin.fixtures import disruption, reading, run, streams, table, traffic, worker

AREAS = (run, worker, traffic, reading, table, streams, disruption)
FIXTURES = {name: one for area in AREAS for name, one in vars(area).items() if type(one) is type(table.page)}


def given(name: str) -> Any:
    """The type that a fixture gives."""
    found = get_type_hints(FIXTURES[name]).get("return")
    return (get_args(found) or (found,))[0] if "Iterator" in str(found) else found


@pytest.mark.parametrize("name", [name for name, one in vars(table).items() if type(one) is type(table.page)])
def test_a_fixture_of_the_table_gets_what_its_class_asks_for(name: str) -> None:
    kind = given(name)
    asked = [item for item in inspect.signature(kind).parameters.values() if item.default is item.empty]
    names = list(inspect.signature(FIXTURES[name]).parameters)
    assert len(names) == len(asked)
    hints = get_type_hints(kind) if not hasattr(kind.__init__, "__code__") else get_type_hints(kind.__init__)
    for item, fixture in zip(asked, names, strict=True):
        wanted = hints[item.name]
        found = given(fixture)
        fits = found is Any or getattr(wanted, "_is_protocol", False) or issubclass(found, wanted)
        assert fits, (item.name, fixture)
