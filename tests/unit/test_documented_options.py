# SPDX-License-Identifier: Apache-2.0
"""Options in the field guide and on the page about images exist, and are written in a form that
pytest accepts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from conformance.plugin import options

DOCS = Path(__file__).parents[2] / "docs"
LIBRARY = DOCS.parent / "lib" / "conformance"
OTHERS = {"--network-policy", "--network-plugin-mode", "--os-sku", "--hours", "--role", "--with"}
OTHERS |= {"--server", "--minutes"}
"""Of other programs, named where no command of them stands."""


class Registered:
    """Stands in for pytest's parser and its groups, and notes the options."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def getgroup(self, *_: Any, **__: Any) -> Registered:
        return self

    def addoption(self, name: str, **_: Any) -> None:
        self.names.add(name)


@pytest.mark.parametrize("page", ["field-guide.md", "images.md"])
def test_every_option_of_the_suites_commands_exists(page: str) -> None:
    registered: Any = Registered()
    options.add_options(registered)
    text = (DOCS / page).read_text(encoding="utf-8")
    commands: list[str] = re.findall(
        r"^pytest .*$|`pytest [^`]*`|`(?=--)[^`]*`", text, re.MULTILINE
    )
    named = {
        name
        for command in commands
        for name in re.findall(r"(?<![\w-])--[a-z-]+", command.partition("#")[0])
    }
    assert len(named) > 5
    assert named - OTHERS - registered.names == set()


def test_nothing_tells_a_user_to_write_a_path_apart_from_its_option() -> None:
    """Before pytest knows the option it takes such a path for the place of the tests, and finds no suite there."""
    apart = re.compile(
        rf"(?:{'|'.join(options.WITH_PATHS)}) +(?:PATH|FILE|DIR|REPORT|[\w./-]+\.ya?ml)\b"
    )
    texts = [
        *DOCS.glob("*.md"),
        DOCS.parent / "README.md",
        *LIBRARY.rglob("*.py"),
        *LIBRARY.rglob("*.yaml"),
    ]
    found = [
        f"{path.relative_to(DOCS.parent)}: {line.strip()}"
        for path in texts
        for line in path.read_text(encoding="utf-8").splitlines()
        if apart.search(line)
        and "hybridlab" not in line
        and "``--" not in line  # hybridlab's options; docstrings
    ]
    assert found == []


def test_every_option_with_a_path_is_named_where_the_guide_says_how_paths_are_written() -> None:
    text = (
        (DOCS / "field-guide.md")
        .read_text(encoding="utf-8")
        .partition("**Write paths")[2]
        .partition("\n\n")[0]
    )
    assert [name for name in options.WITH_PATHS if f"`{name}" not in text] == []
