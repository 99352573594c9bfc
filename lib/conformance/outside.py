# SPDX-License-Identifier: Apache-2.0
"""The error message if a blank separates a path from its option, so that pytest read another
project's settings.

Before pytest knows an option, it takes a separate path for the place of the tests: with ``--timings
/tmp/x.yaml``, ``/tmp`` becomes the root, the checkout's ``conftest.py`` is not loaded, and pytest
prints ``unrecognized arguments: --timings``. Therefore this module is the suite's only entry point
for pytest: it refuses such a command line, and does nothing in any other run.
"""

import difflib
from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> Generator[None]:
    """Raise UsageError for options of the suite that are still not registered after all conftest.py
    files are loaded."""
    yield
    given = [flag for flag in parser.parse_known_and_unknown_args(args)[1] if flag.startswith("--")]
    if early_config.pluginmanager.has_plugin("conformance.plugin"):
        _suggest(parser, given)
        return
    unknown = [flag for flag in given if "=" not in flag]
    from conformance.plugin.options import (
        WITH_PATHS,  # imported only here: this hook runs in every project
    )

    for option in WITH_PATHS:
        if option in unknown:
            raise pytest.UsageError(
                f"{option} PATH: write {option}=PATH; apart from its option pytest takes the path for the place of the "
                f"tests (rootdir is {early_config.rootpath}), where the suite is not"
            )


def _suggest(parser: pytest.Parser, unknown: list[str]) -> None:
    """Raise UsageError if an unknown option is similar to an option of the suite; the message names
    the suite's option."""
    names = [
        name for group in parser._groups for option in group.options for name in option.names()
    ]
    for flag in unknown:
        if near := difflib.get_close_matches(flag.partition("=")[0], names, 1, 0.8):
            raise pytest.UsageError(f"{flag}: no such option; did you mean {near[0]}?")
