# SPDX-License-Identifier: Apache-2.0
"""``--dry-run``: runs the selected tests without changing or probing anything, and prints every
change.

A test ends where its next step depends on the cluster's answers, and the output reports this.
Requests to the API server other than reads are refused.
"""

from collections.abc import Generator
from typing import Any

import pytest

from conformance.errors import MissingCapability, first_line, reason_of
from conformance.model.counted import counted
from conformance.plugin.state import State
from conformance.printing import say

NAME = "conformance-rehearsal"
"""The name of the plugin, by which fixtures find it."""
SHOWN = 40
"""The most lines of a change's content that are printed; programs, for example, are longer."""
REMEDY = "run it without --dry-run"
SIGN = "dry run: "


class Rehearsal:
    """The hooks of a dry run."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.count = 0
        self.begun = 0
        """The number of tests that would run."""

    def tell(self, text: str) -> None:
        """Print a change's line, or its content."""
        lines = text.splitlines()
        if text.startswith(SIGN):
            self.count += 1
            self._say(text)
        elif len(lines) <= SHOWN:
            self._say("\n".join(f"  {line}" for line in lines))
        else:
            self._say(f"  ({counted(len(lines), 'line')})")

    def _say(self, text: str) -> None:
        with self.state.run.uncaptured():
            say(*text.split("\n"))

    @pytest.hookimpl
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._say(f"\n{nodeid}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Return no letters for tests, since letters would appear between the printed lines."""
        return (
            None if report.when == "teardown" or report.passed else ("rehearsed", "", "REHEARSED")
        )

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_setup(self) -> Generator[None, object, object]:
        """End a test where its set-up depends on the cluster's answers. Tests that would not run
        have been skipped earlier."""
        self.begun += 1
        return (yield from self._as_far_as_it_goes())

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self) -> Generator[None, object, object]:
        """Run the body; its result decides nothing."""
        yield from self._as_far_as_it_goes()
        raise MissingCapability("dry run: nothing was changed, and no request was sent", REMEDY)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_teardown(self) -> Generator[None, object, object]:
        """Ignore errors while cleaning up, since the dry run has created nothing."""
        try:
            return (yield)
        except Exception as error:
            self._say(f"the clean-up depends on the cluster's answers ({first_line(error)})")
            return None

    def _as_far_as_it_goes(self) -> Generator[None, object, object]:
        try:
            return (yield)
        except pytest.skip.Exception:
            raise
        except Exception as end:
            why = reason_of(end)
            self._say(f"from here on it depends on the cluster's answers ({why})")
            raise MissingCapability(
                f"dry run: the rest depends on the cluster's answers ({why})", REMEDY
            ) from None

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the number of changes, and unknown facts; the controller prints the tests that
        would not run."""
        if not self.begun:
            terminalreporter.write_line(f"{SIGN}nothing would run, so nothing would be changed")
            return
        terminalreporter.write_line(
            f"{SIGN}{counted(self.count, 'change')} would be made up to this point; "
            "nothing was changed.  A test restores its changes outside its namespaces, and the "
            "namespaces are removed at the end.  Not known: addresses of pods that do not exist "
            "(written 0.0.0.0), and steps that depend on the cluster's answers"
        )
