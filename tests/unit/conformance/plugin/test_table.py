# SPDX-License-Identifier: Apache-2.0
"""The table's fixtures are built from existing fixtures, of the types that their classes need."""

from __future__ import annotations

import inspect
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from conformance.expect.context import Context
from conformance.plugin.fixtures import disruption, reading, run, streams, table, traffic, worker

AREAS = (run, worker, traffic, reading, table, streams, disruption)
FIXTURES = {
    name: one for area in AREAS for name, one in vars(area).items() if type(one) is type(table.page)
}


def given(name: str) -> Any:
    """The type that a fixture gives."""
    found = get_type_hints(FIXTURES[name]).get("return")
    return (get_args(found) or (found,))[0] if "Iterator" in str(found) else found


@pytest.mark.parametrize(
    "name", [name for name, one in vars(table).items() if type(one) is type(table.page)]
)
def test_a_fixture_of_the_table_gets_what_its_class_asks_for(name: str) -> None:
    kind = given(name)
    taken = list(inspect.signature(kind).parameters.values())
    names = FIXTURES[name].names
    assert len([item for item in taken if item.default is item.empty]) <= len(names) <= len(taken)
    assert {one.partition(".")[0] for one in names} == set(
        inspect.signature(FIXTURES[name]).parameters
    )
    hints = (
        get_type_hints(kind)
        if not hasattr(kind.__init__, "__code__")
        else get_type_hints(kind.__init__)
    )
    for item, fixture in zip(taken, names, strict=False):
        if "." in fixture:  # its attribute
            continue
        wanted = get_origin(hints[item.name]) or hints[item.name]
        found = get_origin(given(fixture)) or given(fixture)
        fits = found is Any or getattr(wanted, "_is_protocol", False) or issubclass(found, wanted)
        assert fits, (item.name, fixture)


def test_an_attribute_of_an_attribute_is_given() -> None:
    context = Context()
    given_to = next(
        table.made(lambda keep: iter([keep]), "context.sink.keep").__wrapped__(context=context)
    )
    assert next(given_to) == context.sink.keep
