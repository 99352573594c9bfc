# SPDX-License-Identifier: Apache-2.0
"""Marks of exclusive turns in the run's folder, until their changes are restored and verified.

A mark is made while the test holds the locks of its turn, and removed before the locks are
released. Therefore a mark that a later turn finds is from a worker that died, or from a test whose
changes could not be restored. The process that the user started restores the changes of a dead
worker. Until then, the result of another test would not be about the cluster.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from conformance.model.codec import from_plain, to_plain
from conformance.model.file_name import file_name
from conformance.run.directory import write_whole
from conformance.schedule.scheduler_lock import Exclusivity
from conformance.timing import until

LOOK_EVERY = 0.1
"""The interval, in seconds, between two checks for marks, which are files of this machine."""


@dataclass(frozen=True, kw_only=True)
class ExclusiveMark:
    """The turn of a test that may have left the cluster changed."""

    test: str
    worker: str
    exclusivity: Exclusivity
    problem: str = ""
    """Why the cluster may not be as before, in one line; empty while the test runs, and after its
    worker has died."""
    everywhere: bool = False
    """True if the problem affects the whole cluster, although the test had nodes to itself."""

    def forbids(self, exclusivity: Exclusivity) -> bool:
        """Return whether this mark forbids a turn. It forbids every turn except turns on other
        nodes."""
        return self.everywhere or not (
            self.exclusivity.kind == exclusivity.kind == "node"
            and not set(self.exclusivity.nodes) & set(exclusivity.nodes)
        )


class Unrestored:
    """The marks of a run, as one of its processes finds them.

    ``within``: seconds for which a test waits until a dead worker's changes are restored; a process
    waits that long only once for each mark.
    """

    def __init__(self, folder: Path, *, within: float) -> None:
        self._folder = folder
        self._within = within
        self._waited_for: set[ExclusiveMark] = set()

    def mark(self, mark: ExclusiveMark) -> None:
        """Leave a mark, or replace it; it is written whole or not at all."""
        write_whole(self._file(mark), to_plain(mark))

    def settle(self, mark: ExclusiveMark, problem: str = "", *, everywhere: bool = False) -> None:
        """Record that the test's changes are restored. With ``problem``, record that they cannot be
        restored, so that no test waits for it any more."""
        if problem:
            self.mark(replace(mark, problem=problem, everywhere=everywhere))
        else:
            self._file(mark).unlink(missing_ok=True)

    def settle_all(self, worker: str, problem: str) -> None:
        """Settle the marks of a dead worker's turns, as :meth:`settle` does; an empty name means
        all workers."""
        for mark in self.marks():
            if not mark.problem and worker in ("", mark.worker):
                self.settle(mark, problem)

    def marks(self) -> list[ExclusiveMark]:
        found = []
        for path in sorted(self._folder.glob("*.json")):
            try:
                found.append(from_plain(ExclusiveMark, json.loads(path.read_text())))
            except FileNotFoundError:  # settled meanwhile
                continue
        return found

    def before(self, exclusivity: Exclusivity, who: str, tell: Callable[[str], None]) -> str:
        """Wait until no mark forbids a turn. Return in one line why the turn is still forbidden;
        empty: it is allowed.

        ``tell`` receives a line if a wait is necessary.
        """

        def forbidding() -> list[ExclusiveMark]:
            return [mark for mark in self.marks() if mark.forbids(exclusivity)]

        found = forbidding()
        if waits_for := [
            mark for mark in found if not mark.problem and mark not in self._waited_for
        ]:
            first = waits_for[0]
            tell(
                f"{who} waits until the changes of {first.test} are restored, since its worker "
                f"{first.worker} died"
            )
            found = until(
                forbidding,
                lambda left: not left or any(mark.problem for mark in left),
                within=self._within,
                every=LOOK_EVERY,
                description=f"the changes of {first.test} are restored",
            ).last
            self._waited_for |= {mark for mark in found if not mark.problem}
        if not found:
            return ""
        first = next((mark for mark in found if mark.problem), found[0])
        why = (
            first.problem
            or f"its worker {first.worker} died, and its changes were not restored in {self._within:g} s"
        )
        return (
            f"{first.exclusivity} may differ from its state before {first.test}, whose changes are "
            f"not restored: {why}"
        )

    def _file(self, mark: ExclusiveMark) -> Path:
        return self._folder / (file_name(str(mark.exclusivity).replace(" ", "-")) + ".json")
