# SPDX-License-Identifier: Apache-2.0
"""The state of restoring the changes that tests made outside the run's namespaces, as far as a
process of the run knows."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from conformance.errors import SuiteError, first_line
from conformance.model.change import PutBack
from conformance.model.counted import lasting
from conformance.run.directory import Epoch
from conformance.run.run import Run
from conformance.run.unrestored import Unrestored
from conformance.timing import Deadline


class Restoration:
    """The state of restoring, which the processes of a run share in its folder."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.epoch = Epoch(run.directory)
        self.unrestored = (
            Unrestored(run.directory.unrestored, within=run.settings.timings.run.put_back)
            if run.directory
            else None
        )
        """The marks of exclusive turns; None in a run that touches nothing."""
        self.not_put_back = ""
        """Why the observations of a test would show nothing, in one line. The reason is that nobody
        knows whether the changes of an earlier test, or of the test's own earlier attempt, were
        restored."""

        self.everywhere = False
        """True if the problem of :attr:`not_put_back` also affects tests on other nodes."""

    @contextmanager
    def putting_back(self, *, everywhere: bool = False) -> Iterator[None]:
        """Wrap the restoring of a test's changes. A failure also affects the later tests.

        ``everywhere``: a failure also affects tests that have other nodes to themselves.
        """
        try:
            yield
        except BaseException as error:  # pytest-timeout raises no Exception
            self.not_put_back = self.not_put_back or first_line(error)
            self.everywhere = self.everywhere or everywhere
            raise

    def put_back(self, worker: str = "") -> tuple[str, ...]:
        """Restore the changes that a dead worker left, and return one line for each change.

        ``worker``: its id; empty, at the run's end: the changes of all processes of the run. At the
        run's end, an API server that does not answer is tried again for a long time. Tests that
        wait for the restoration go on afterwards. Only the controller calls this.
        """
        run = self.run
        done = self._put_back_once(worker)
        deadline = Deadline(run.settings.timings.run.put_back_away)
        patient = not (worker or run.choice.own_lab or run.interrupted)
        while (
            run.provider
            and run.connection
            and patient
            and done.problem
            and run.reach.gone
            and not deadline.expired
        ):
            text = (
                "the API server does not answer; this run tries for up to "
                f"{lasting(deadline.remaining)} to restore what it has changed"
            )
            run.progress().tell(f"{text}: {done.problem}")
            run.alive.doing(text)
            try:
                if not run.provider.answers_again(
                    run.connection, run.settings, within=deadline.remaining
                ):
                    break
                run.progress().tell(
                    "the API server answers again: this run restores what it has changed"
                )
                done = self._put_back_once(
                    worker, check=run.lock().check
                )  # under the lock, since another run may have restored them meanwhile
            # after Ctrl-C the report is still written, and names the changes that stay
            except KeyboardInterrupt:
                break
        self.epoch.advance()  # a living worker would have done this
        if self.unrestored:
            self.unrestored.settle_all(worker, done.problem)
        return done.lines

    def _put_back_once(self, worker: str, *, check: Callable[[], object] = lambda: None) -> PutBack:
        run = self.run
        if not run.provider or not run.connection or not run.inspection:
            return PutBack()
        try:
            check()
            return run.provider.put_back(run.connection, run.settings, run.inspection.facts, worker)
        except SuiteError as error:
            why = (
                f"it is not known whether everything was restored: {first_line(error)}; pytest "
                "--restore"
            )
            return PutBack(lines=(why,), problem=why)
