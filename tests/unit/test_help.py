# SPDX-License-Identifier: Apache-2.0
"""The help of each command says what it is for, an example, and its exit codes."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import pytest

from conformance.cli import make_parser
from hybridlab.cli.main import parser


def commands(top: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield a program's parser, and those of its commands."""
    yield top
    for action in top._actions:
        if isinstance(action, argparse._SubParsersAction):
            for one in action.choices.values():
                yield from commands(one)


COMMANDS = [*commands(make_parser()), *commands(parser())]


@pytest.mark.parametrize("one", COMMANDS, ids=lambda one: one.prog)
def test_a_commands_help_has_its_purpose_an_example_and_its_exit_codes(
    one: argparse.ArgumentParser,
) -> None:
    text = one.format_help()
    assert one.description
    assert "exit codes: " in text
    assert one.prog.split()[0] in text.partition("\nexample")[2].partition("exit codes: ")[0]
