# SPDX-License-Identifier: Apache-2.0
"""``--dry-run``: the selected tests as far as they go without changing or probing anything, every change printed.

Where a test goes on by what the cluster would have answered, it ends here, and says so.  The door to the API server
refuses everything but reading.
"""

from collections.abc import Generator
from typing import Any

import pytest

from conformance.errors import MissingCapability, first_line
from conformance.model.counted import counted
from conformance.plugin.state import State

NAME = "conformance-rehearsal"
"""The name of the plugin, by which fixtures find it."""
SHOWN = 40
"""Lines of a change's content that are printed; programs and the like are longer."""
REMEDY = "run it without --dry-run"
SIGN = "dry run: "


class Rehearsal:
    """The hooks of a dry run."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.count = 0
        self.begun = 0
        """Tests that would run."""

    def tell(self, text: str) -> None:
        """One change's line, or its content."""
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
            print(f"{text}\n", end="", flush=True)  # at once: several threads make changes

    @pytest.hookimpl
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._say(f"\n{nodeid}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """No letters between the lines."""
        return (
            None if report.when == "teardown" or report.passed else ("rehearsed", "", "REHEARSED")
        )

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_setup(self) -> Generator[None, object, object]:
        """What cannot be set up without changing anything ends the test; one that would not run never gets here."""
        self.begun += 1
        return (yield from self._as_far_as_it_goes())

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self) -> Generator[None, object, object]:
        """However it ends, it has decided nothing."""
        yield from self._as_far_as_it_goes()
        raise MissingCapability("dry run: nothing was changed and nothing was asked", REMEDY)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_teardown(self) -> Generator[None, object, object]:
        """Clearing up after nothing may not find what it looks for."""
        try:
            return (yield)
        except Exception as error:
            self._say(f"clearing up goes on as the cluster answers ({first_line(error)})")
            return None

    def _as_far_as_it_goes(self) -> Generator[None, object, object]:
        try:
            return (yield)
        except pytest.skip.Exception:
            raise
        except Exception as end:
            why = f"{type(end).__name__}: {first_line(end)}"
            self._say(f"from here on it goes as the cluster answers ({why})")
            raise MissingCapability(
                f"dry run: it goes on as the cluster answers ({why})", REMEDY
            ) from None

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """How much it was, and what it does not know; the controller says what would not run."""
        if not self.begun:
            terminalreporter.write_line(f"{SIGN}nothing would run, so nothing would be changed")
            return
        terminalreporter.write_line(
            f"{SIGN}{counted(self.count, 'change')} would be made up to there, and none was; "
            "what a test changes beyond its namespaces it puts back, and the namespaces go at the end.  "
            "Not known: addresses of pods that are not there (written 0.0.0.0), "
            "and what tests do by the cluster's answers"
        )
