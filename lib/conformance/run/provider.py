# SPDX-License-Identifier: Apache-2.0
"""The seam between pytest and clusters: what a run asks of whoever opens them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from conformance.foreign.beforehand import Beforehand
from conformance.model.change import PutBack
from conformance.model.facts import Facts
from conformance.model.installed import Installed
from conformance.run.choice import Choice, How
from conformance.run.directory import RunDirectory
from conformance.schedule.workers import Room
from conformance.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Connection:
    """How every process of the run reaches the cluster; handed to workers as JSON, so without
    credentials."""

    how: How
    label: str
    """For the header: the API server and who the run is there."""
    kubeconfig: str | None = None
    context: str | None = None
    external_target: str | None = None
    """External target announced by the cluster, ``ADDRESS[:PORT]``."""


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """What was found out before anything was changed."""

    facts: Facts
    reasons: tuple[str, ...] = ()
    """Why a run is impossible here, all at once; none: it is possible."""
    no_lock: str = ""
    """Why the run lock cannot be taken here, so that nothing exclusive runs; empty: it can."""
    not_opted_in: str = ""
    """Why nothing may be changed here that the whole cluster shares; empty: it may."""
    third_party_pods: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Windows node to pods of other people's DaemonSets there, which a new HNS network costs their
    own; only where one may be made."""
    lacking: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Rights that the user does not have, by what needs them
    (``conformance.facts.rights.NEEDS``)."""
    prepared: int = 0
    """Workers for which the cluster's owner has prepared namespaces; only with
    ``--namespaces-prefix``."""
    room: dict[str, Room] = field(default_factory=dict)
    """Windows nodes with what they have left for pods; those of which it is not known are not
    there."""
    policies: Beforehand = field(default_factory=Beforehand)
    token_ends: float | None = None
    """Seconds since 1970 at which the user's token ends, where nothing renews it; None: not known,
    or never."""
    installed: Installed = field(default_factory=Installed)
    """Which cluster it is and which versions run on it."""


class Lock(Protocol):
    """What keeps other runs from disrupting the cluster."""

    lost: str
    """How it was lost; empty while it was not."""

    def acquire(self) -> None:
        """Take it, and keep it.  Raises ClusterUnusable."""

    def check(self) -> object:
        """Raise LockLost when this run does not hold it."""

    def release(self) -> None:
        """Give it back; harmless when it is not held."""


class Provider(Protocol):
    """Opens the cluster in the controller, connects to it in every process that runs tests."""

    def begin(self, choice: Choice, settings: Settings, run: RunDirectory) -> None:
        """Start what takes time (a lab) and return at once."""

    def open(self, choice: Choice, settings: Settings, run: RunDirectory) -> Connection:
        """Wait until the cluster can be reached.  Raises UsageProblem or ClusterUnusable."""

    def inspect(self, connection: Connection, settings: Settings) -> Inspection:
        """Facts and preflight.  Raises UsageProblem or ClusterUnusable."""

    def connect(self, connection: Connection, settings: Settings, run: RunDirectory) -> Any:
        """This process's door to the cluster, for fixtures."""

    def enter(self, test: str) -> None:
        """From here on what is asked of the cluster is asked for this test (its node id)."""

    def lock(
        self,
        connection: Connection,
        settings: Settings,
        *,
        tell: Callable[[str], None],
        progress: Callable[[str], None],
    ) -> Lock:
        """Return the run's lock, as this process sees it; not yet taken."""

    def unrestored(self, connection: Connection, settings: Settings, facts: Facts) -> list[str]:
        """Return what runs that died have changed and not put back, and what to do about it; one
        line each.

        For who has just taken the run lock, perhaps from one of them.  Raises SuiteError.
        """

    def clean_up(self, connection: Connection, settings: Settings) -> list[str]:
        """Remove what processes of the run have left on the cluster; one line per thing that was
        left."""

    def put_back(
        self, connection: Connection, settings: Settings, facts: Facts, worker: str
    ) -> PutBack:
        """Put back, and verify, what a process of the run (empty: any) has changed and did not live
        to put back.

        Raises SuiteError.
        """

    def answers_again(self, connection: Connection, settings: Settings, *, within: float) -> bool:
        """Wait until the API server, which was given up as gone, answers again; whether it does
        ``within`` seconds."""

    def interrupt(self, seconds: float) -> None:
        """End what this process waits for; only clearing up may ask the cluster, for so many
        seconds.

        Called by handlers of signals: takes no lock.
        """

    def close(self) -> None:
        """End what was begun; harmless when nothing was, or twice."""
