# SPDX-License-Identifier: Apache-2.0
"""The interface between pytest and clusters: a run's calls to the code that opens a cluster."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Protocol

from conformance.facts.room import Room
from conformance.foreign.beforehand import Beforehand
from conformance.model.change import PutBack
from conformance.model.facts import Facts
from conformance.model.installed import Installed
from conformance.run.choice import Choice, How
from conformance.run.directory import RunDirectory
from conformance.settings import OwnPod, Settings


@dataclass(frozen=True, kw_only=True)
class Connection:
    """The data with which each process of the run reaches the cluster; workers get it as JSON,
    without credentials."""

    how: How
    label: str
    """Text for the header: the API server and the run's user."""
    kubeconfig: str | None = None
    context: str | None = None
    external_target: str | None = None
    """The external target that the cluster announces, ``ADDRESS[:PORT]``."""
    unverified: str = ""
    """Why the API server's answers may come from another party; empty: the server is verified."""


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """The findings about a cluster before anything was changed."""

    facts: Facts
    reasons: tuple[str, ...] = ()
    """All reasons why a run is impossible here; empty: it is possible."""
    no_lock: str = ""
    """Why the run lock cannot be taken here, so that no exclusive test runs; empty: the lock can be
    taken."""
    not_opted_in: str = ""
    """Why the run may change nothing that the whole cluster shares; empty: the run may change it.
    """
    third_party_pods: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The pods of other owners' DaemonSets on each Windows node. A new HNS network would cut these
    pods off; only runs that may make such a network read them."""
    lacking: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Rights that the user lacks, keyed by the purpose that needs them
    (``conformance.facts.rights.NEEDS``)."""
    prepared: int = 0
    """The number of workers for which the cluster's owner has prepared namespaces; only with
    ``--namespaces-prefix``."""
    room: dict[str, Room] = field(default_factory=dict)
    """The remaining room for pods on each Windows node; nodes whose room is not known are left out.
    """
    policies: Beforehand = field(default_factory=Beforehand)
    token_ends: float | None = None
    """The Unix time at which the user's token ends, if nothing renews it; None: not known, or
    never."""
    own_pod: OwnPod | None = None
    """The run's own pod; None: the run is not in a pod of the cluster."""
    installed: Installed = field(default_factory=Installed)
    """The cluster's identity and the versions that run on it."""


class Lock(Protocol):
    """The lock that keeps other runs from disrupting the cluster."""

    lost: str
    """How the lock was lost; empty if it was not lost."""

    def acquire(self) -> None:
        """Take the lock, and keep it. Raise ClusterUnusable."""

    def check(self) -> object:
        """Raise LockLost if this run does not hold it."""

    def release(self) -> None:
        """Release the lock; harmless if it is not held."""


class Provider(Protocol):
    """Opens the cluster in the controller, connects to it in every process that runs tests."""

    def begin(self, choice: Choice, settings: Settings, run: RunDirectory) -> None:
        """Start slow preparations (a lab) and return at once."""

    def open(self, choice: Choice, settings: Settings, run: RunDirectory) -> Connection:
        """Wait until the cluster can be reached.  Raise UsageProblem or ClusterUnusable."""

    def inspect(self, connection: Connection, settings: Settings) -> Inspection:
        """Return facts and preflight.  Raise UsageProblem or ClusterUnusable."""

    def connect(self, connection: Connection, settings: Settings, run: RunDirectory) -> Any:
        """Return this process' connection to the cluster, for fixtures."""

    def enter(self, test: str) -> None:
        """Attribute later requests to the cluster to the test with this node id."""

    def lock(
        self,
        connection: Connection,
        settings: Settings,
        *,
        tell: Callable[[str], None],
        progress: Callable[[str], None],
    ) -> Lock:
        """Return the run's lock for this process. The lock is not taken yet."""

    def unrestored(self, connection: Connection, settings: Settings, facts: Facts) -> list[str]:
        """Return one line for each change of dead runs that is not restored, and a line of advice.

        This is for a process that has just taken the run lock, perhaps from a dead run. Raise
        SuiteError.
        """

    def clean_up(self, connection: Connection, settings: Settings) -> list[str]:
        """Remove the objects that processes of the run have left on the cluster. Return one line
        per object: the object is removed, or why it stays."""

    def put_back(
        self, connection: Connection, settings: Settings, facts: Facts, worker: str
    ) -> PutBack:
        """Restore and verify the changes that a dead process of the run did not restore. An empty
        ``worker`` stands for all processes.

        Raise SuiteError.
        """

    def last_look(
        self, connection: Connection, settings: Settings, nodes: Collection[str], seconds: float
    ) -> list[str]:
        """Return notes about the last ``seconds`` of the logs of Calico and kube-proxy on these
        nodes.
        """

    def answers_again(self, connection: Connection, settings: Settings, *, within: float) -> bool:
        """After the API server was given up, wait until it answers again. Return whether it does so
        ``within`` seconds."""

    def interrupt(self, seconds: float) -> None:
        """End this process' waits; for some seconds only the cleanup may use the cluster.

        Takes no lock, since signal handlers call it.
        """

    def close(self) -> None:
        """End the preparations. Harmless if there are none, or if called twice."""
