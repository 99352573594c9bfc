# SPDX-License-Identifier: Apache-2.0
"""Each command of the suite in the examples and on the pages about images is one that its program
accepts: options, arguments and modules exist."""

from __future__ import annotations

import argparse
import importlib.util
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from conformance.cli import OF_JOBS, make_parser
from conformance.jobs.commands import COMMANDS
from conformance.plugin import options
from tests.unit.test_documented_options import Registered

ROOT = Path(__file__).parents[2]
FILES = sorted(
    [
        *(ROOT / "docs" / "examples" / "ci").iterdir(),
        *(ROOT / ".github" / "workflows").glob("*.yaml"),
        ROOT / "docs" / "examples" / "sonobuoy-plugin.yaml",
        ROOT / "docs" / "in-cluster.md",
        ROOT / "docs" / "images.md",
    ]
)
PROGRAM = re.compile(r"(?:^|[\s'\"/(])(calico-conformance|pytest) ([^|;&>#\n`]*)")
MODULE = re.compile(r"\bpython -m ([\w.]+)")
OF_PYTEST = {"-p", "-k", "-n", "-q", "-v", "-x", "-m"}
OTHERS = {"pip"}
"""Modules of the environment, not of the project."""


def words(command: str) -> list[str]:
    """The words of a command up to a quote that the file closes after it, as Groovy does."""
    for end in (command, command.rstrip().rstrip("'\"),")):
        try:
            return shlex.split(end)
        except ValueError:
            continue
    raise AssertionError(f"no words of a shell: {command}")


def commands(path: Path) -> list[list[str]]:
    text = re.sub(r"\\\n\s*", " ", path.read_text(encoding="utf-8"))
    return [[name, *words(rest)] for name, rest in PROGRAM.findall(text)]


@pytest.fixture(scope="module")
def of_pytest() -> set[str]:
    registered: Any = Registered()
    options.add_options(registered)
    names: set[str] = registered.names
    return names | OF_PYTEST


def problem(given: list[str], of_pytest: set[str]) -> str:
    """What is wrong with a command; empty: nothing."""
    name, *rest = given
    if name == "calico-conformance" and rest[:1] != ["run"]:
        own, _, of_the_run = map(list, partitioned(rest))
        try:
            if own[0] in OF_JOBS:
                parser = argparse.ArgumentParser(allow_abbrev=False, exit_on_error=False)
                COMMANDS[own[0]][0](parser)
                parser.parse_args(own[1:])
            else:
                make_parser().parse_args(own)
        except (Exception, SystemExit) as error:
            return str(error)
        rest = of_the_run
    named = {word.partition("=")[0] for word in rest if re.match(r"-{1,2}[a-z]", word)}
    return ", ".join(sorted(named - of_pytest))


def partitioned(given: list[str]) -> tuple[list[str], list[str], list[str]]:
    at = given.index("--") if "--" in given else len(given)
    return given[:at], given[at : at + 1], given[at + 1 :]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_each_command_is_accepted(path: Path, of_pytest: set[str]) -> None:
    found = [(shlex.join(given), problem(given, of_pytest)) for given in commands(path)]
    assert [each for each in found if each[1]] == []
    for module in set(MODULE.findall(path.read_text(encoding="utf-8"))) - OTHERS:
        assert importlib.util.find_spec(module), module


@pytest.mark.parametrize(
    "command",
    [
        "calico-conformance show reports/latest --markdown",
        "calico-conformance matrix --html=x",
        "calico-conformance job --image=x -- --somke",
        "calico-conformance merge a b",
        "pytest --require=core --allow-disruption",
    ],
)
def test_a_command_that_its_program_refuses_is_found(command: str, of_pytest: set[str]) -> None:
    assert problem(shlex.split(command), of_pytest)
