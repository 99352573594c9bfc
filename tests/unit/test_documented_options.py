"""Options that the field guide and the page about images name exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from conformance.plugin import options

DOCS = Path(__file__).parents[2] / "docs"
OTHERS = {"--network-policy"}
"""Of other programs, named where no command of them stands."""


class Registered:
    """Stands in for pytest's parser and its groups, and notes the options."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def getgroup(self, *_: Any) -> Registered:
        return self

    def addoption(self, name: str, **_: Any) -> None:
        self.names.add(name)


@pytest.mark.parametrize("page", ["field-guide.md", "images.md"])
def test_every_option_of_the_suites_commands_exists(page: str) -> None:
    registered: Any = Registered()
    options.add_options(registered)
    text = (DOCS / page).read_text(encoding="utf-8")
    commands: list[str] = re.findall(r"^pytest .*$|`pytest [^`]*`|`(?=--)[^`]*`", text, re.MULTILINE)
    named = {name for command in commands for name in re.findall(r"(?<![\w-])--[a-z-]+", command.partition("#")[0])}
    assert len(named) > 5
    assert named - OTHERS - registered.names == set()
