"""Says in plain words that a path stood apart from its option, so that pytest read another project's settings.

Before pytest knows an option, it takes a path that stands by itself for the place of the tests: ``--timings
/tmp/x.yaml`` makes ``/tmp`` the root, the checkout's ``conftest.py`` is not loaded, and pytest says ``unrecognized
arguments: --timings``.  This is therefore the suite's only entry point for pytest.  It refuses such a command line,
and does nothing in any other run.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> Generator[None]:
    """Raise UsageError for options of the suite that nobody has registered once the conftest.py files are loaded."""
    yield
    unknown = [flag for flag in parser.parse_known_and_unknown_args(args)[1] if "=" not in flag]
    if not unknown or early_config.pluginmanager.has_plugin("conformance.plugin"):
        return
    from conformance.plugin.options import WITH_PATHS  # only where it is needed: this hook is called in every project

    for option in WITH_PATHS:
        if option in unknown:
            raise pytest.UsageError(
                f"{option} PATH: write {option}=PATH; apart from its option pytest takes the path for the place of the "
                f"tests (rootdir is {early_config.rootpath}), where the suite is not"
            )
