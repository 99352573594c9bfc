"""What tests change beyond the run's namespaces is put back: whether it was, as one process of the run knows it."""

from collections.abc import Iterator
from contextlib import contextmanager

from conformance.errors import SuiteError, first_line
from conformance.model.change import PutBack
from conformance.run.directory import Epoch
from conformance.run.run import Run
from conformance.run.unrestored import Unrestored


class Restoration:
    """Shared by the processes of a run by way of its directory."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.epoch = Epoch(run.directory)
        within = run.settings.timings.run.put_back
        self.unrestored = Unrestored(run.directory.unrestored, within=within) if run.directory else None
        """None in a run that touches nothing."""
        self.not_put_back = ""
        """Why what a test would see says nothing, in one line: what one before it has changed, or itself when it was
        tried before, is not known to be put back."""

        self.everywhere = False
        """Whether it concerns tests of other nodes, too."""

    @contextmanager
    def putting_back(self, *, everywhere: bool = False) -> Iterator[None]:
        """Around what puts back what a test has changed: a failure there concerns the tests after it as well.

        ``everywhere``: also those that have other nodes to themselves.
        """
        try:
            yield
        except BaseException as error:  # also of pytest-timeout
            self.not_put_back = self.not_put_back or first_line(error)
            self.everywhere = self.everywhere or everywhere
            raise

    def put_back(self, worker: str = "") -> tuple[str, ...]:
        """Put back what processes of the run (empty: any of them) have changed and did not live to put back.

        One line each, and tests that wait for it go on.  Controller only.
        """
        run = self.run
        if not run.provider or not run.connection or not run.inspection:
            return ()
        try:
            done = run.provider.put_back(run.connection, run.settings, run.inspection.facts, worker)
        except SuiteError as error:
            why = f"not known whether everything was put back: {first_line(error)}; pytest --restore"
            done = PutBack(lines=(why,), problem=why)
        self.epoch.advance()  # as the worker would have done
        if self.unrestored:
            self.unrestored.settle_all(worker, done.problem)
        return done.lines
