"""Epochs of a run: one ends with each exclusive test, which may have changed pods under others' feet."""

from __future__ import annotations

from collections.abc import Callable

from conformance.plugin.rundir import RunDirectory


class Epoch:
    """One process's view: what it keeps from test to test is looked at again when an epoch has ended meanwhile."""

    def __init__(self, run: RunDirectory | None) -> None:
        self._run = run
        self._known = 0
        self._revalidate: list[Callable[[], object]] = []

    def register(self, revalidate: Callable[[], object]) -> None:
        """Have this called before the first test of each later epoch."""
        self._revalidate.append(revalidate)

    def forget(self, revalidate: Callable[[], object]) -> None:
        """What it would look at is gone."""
        self._revalidate.remove(revalidate)

    def advance(self) -> None:
        """An exclusive test has ended, or is about to be tried again."""
        if self._run:
            self._run.advance_epoch()

    def catch_up(self) -> None:
        """Look again at what was kept from an earlier epoch.  Raises what looking raises, and then is behind still."""
        if not self._run:
            return
        now = self._run.epoch()
        if now != self._known:
            for revalidate in list(self._revalidate):
                revalidate()
            self._known = now
