# SPDX-License-Identifier: Apache-2.0
"""Open changes of other living runs. Such a change may explain a lost path, and nothing else. If
all paths are as expected, no journal is read. A journal that cannot be read, or a run without an
open change, excuses nothing."""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress

from conformance.errors import SuiteError
from conformance.journal import liveness
from conformance.journal.lease import held_by, is_silent, lasts
from conformance.journal.liveness import Life
from conformance.journal.mark import believed
from conformance.journal.record import Entry
from conformance.journal.store import entries_of, journals
from conformance.kube.client import Kube, Obj
from conformance.kube.fields import value_at
from conformance.kube.ownership import RUN_LABEL, is_of, labels_of
from conformance.timing import SYSTEM_CLOCK, Clock

VNI = ("spec", "vxlanVNI")
LOOK_EVERY = 1.0
"""The interval, in seconds, between two checks whether a run of another machine renews its run
lock."""


class OtherRuns:
    """The changes of other runs on one cluster.

    Open changes are remembered, since a change may end just before the journals are read.
    """

    exempt = "wait until that run has ended, then run again (pytest --janitor --dry-run lists what runs have left)"

    def __init__(
        self,
        kube: Kube,
        run: str,
        *,
        doubt: Callable[[Kube, Entry], str] = believed,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Set up the record of changes. ``doubt`` returns why an entry must not be applied, or an
        empty string if it may be applied."""
        self._kube = kube
        self._run = run
        self._doubt = doubt
        self._clock = clock
        self._seen: dict[tuple[str, str], tuple[float, Obj, Entry]] = {}
        """The open entries that were read so far, by run and key. Each value has the time when the
        entry was last found open (``time.monotonic``), its journal, and the entry."""
        self._is_current: bool | None = None
        """How :meth:`look` works. True: it reads nothing again. False: it reads once more. None: it
        reads at each call."""
        self._living: dict[str, bool] = {}
        """True for each run that lives, False for each that does not, among the runs that were
        checked since the last read."""

    @contextmanager
    def one_look(self) -> Iterator[None]:
        """Read journals and leases at most once in a block that needs them for many paths."""
        self._is_current = False
        try:
            yield
        finally:
            self._is_current = None

    def look(self) -> None:
        """Remember the open changes that could close a path."""
        if self._is_current:
            return
        self._is_current = None if self._is_current is None else True
        self._living = {}
        now = time.monotonic()
        with suppress(SuiteError):
            for journal in journals(self._kube):
                run = journal["metadata"]["labels"][RUN_LABEL]
                with suppress(SuiteError):  # a journal may be unreadable
                    for entry in entries_of(journal) if run != self._run else ():
                        matters = entry.open and (_node(entry) or _is_vni(entry))
                        if matters and not self._doubt(self._kube, entry):
                            self._seen[run, entry.key] = (now, journal, entry)

    def excuse(self, nodes: Sequence[str], since: float | None = None) -> str:
        """Describe a living run's change that may have cut off a path between these nodes; an empty
        string if there is none.

        ``since``: the time of the first attempt on the path (``time.monotonic``); None means now.
        """
        across = len(set(nodes)) > 1
        return self._first(
            lambda entry: _node(entry) in nodes or (across and _is_vni(entry)), since
        )

    def of_vni(self) -> str:
        """Describe the change of a living run that has given nodes another VNI; an empty string if
        there is none."""
        return self._first(_is_vni, None)

    def _first(self, fits: Callable[[Entry], bool], since: float | None) -> str:
        since = time.monotonic() if since is None else since
        self.look()
        found = [
            (run, journal, entry)
            for (run, _), (at, journal, entry) in self._seen.items()
            if at >= since and fits(entry)
        ]
        with suppress(SuiteError):
            for run, journal, _ in found:
                if run not in self._living:
                    self._living[run] = self._lives(run, journal)
            texts = (
                f"run {run} is changing the cluster: {entry.label}"
                for run, _, entry in found
                if self._living[run]
            )
            return next(texts, "")
        return ""

    def _lives(self, run: str, journal: Obj) -> bool:
        """Return whether a run is alive. A run on another machine counts as alive if it renews or
        releases its run lock."""
        lease = held_by(self._kube, run)
        life = liveness.of([journal, *([lease] if lease else [])])
        if life is not Life.UNKNOWN or lease is None:
            return life is Life.ALIVE
        return not is_silent(
            self._kube, run, lease, seconds=lasts(lease), every=LOOK_EVERY, clock=self._clock
        )


def beside(kube: Kube, run: str, nodes: Collection[str]) -> list[str]:
    """Return a line for each other run that has pods on these nodes and is not known to be dead."""
    pods: dict[str, list[Obj]] = {}
    for pod in kube.objects("v1", "Pod", labels=RUN_LABEL):
        if is_of(pod) and (other := labels_of(pod)[RUN_LABEL]) != run:
            pods.setdefault(other, []).append(pod)
    found = []
    for other, theirs in pods.items():
        shared = sorted({str(value_at(pod, "spec", "nodeName")) for pod in theirs} & set(nodes))
        if shared and liveness.of(theirs) is not Life.DEAD:
            found.append(
                f"run {other} has pods on {', '.join(shared)}: let parts of a run follow one "
                "another, or use other nodes (--nodes); wait for that run, or if it is dead: "
                f"pytest --restore --run={other}"
            )
    return found


def _node(entry: Entry) -> str:
    """Return the only node that a change concerns; an empty string if there is none."""
    if entry.target is not None:
        return entry.target.name if entry.target.kind == "Node" else ""
    return str(entry.arguments.get("node") or "")


def _is_vni(entry: Entry) -> bool:
    return any(field.path == VNI for field in entry.fields)
