# SPDX-License-Identifier: Apache-2.0
"""Locks on files in the run's folder: a fair queue for exclusive tests across the run's processes.

Every test passes a first lock (the turnstile) and takes its other locks there, so that shared tests
cannot starve a test that waits for an exclusive turn. An exclusive test waits until all processes
have run their shared tests, in whatever order tests are distributed; otherwise, shared tests would
wait for it.

Tests that need nodes to themselves do not pass the turnstile, since no shared test is left by then.
They take all of their nodes at once or none, so that a test that waits for one node blocks no other
node. The other tests take the locks in the same order: cluster, then nodes by name. The kernel
frees the locks of a process that dies.
"""

import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from conformance.model.file_name import file_name

TURNSTILE = "turnstile"
CLUSTER = "cluster"
LATER = ("node", "cluster", "last")
"""The kinds of turns after shared turns. Each kind begins once no process has tests of the earlier
kinds left, since those tests would otherwise wait for it. A process that ends or dies has no tests
left."""
ExclusivityKind = Literal["shared", "node", "cluster", "last"]


@dataclass(frozen=True, kw_only=True)
class Exclusivity:
    """The resources that a test has to itself."""

    kind: ExclusivityKind = "shared"
    node: str = ""
    """The node that the test has to itself. If the test has the cluster to itself, this is the node
    for changes of a single node."""
    also: tuple[str, ...] = ()
    """Further nodes that the test has to itself, one for each other Windows build. The test uses
    its nodes one after the other."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """Return the nodes that the test has to itself, its main node first."""
        return (self.node, *self.also) if self.node else ()

    @property
    def exclusive(self) -> bool:
        """Return whether no other test on the same resources may run at the same time as this
        test."""
        return self.kind in ("node", "cluster")

    def __str__(self) -> str:
        """Return ``node win-1`` or ``cluster``, for reports; empty for a shared turn."""
        return {
            "shared": "",
            "last": "",
            "node": f"node {', '.join(self.nodes)}",
            "cluster": "cluster",
        }[self.kind]


SHARED = Exclusivity()


class HeldLocks:
    """The locks of one test's turn."""

    def __init__(self, asked: float) -> None:
        self.asked = asked
        """The moment when the turn was requested, in seconds of the machine's monotonic clock,
        which all processes share."""
        self.began = asked
        """The moment when the turn began."""
        self.released = asked
        """The moment when the turn's locks were released."""
        self._descriptors: list[int] = []

    @property
    def waited(self) -> float:
        """Return the seconds that the test waited for its turn."""
        return self.began - self.asked

    def release(self) -> None:
        """Release the locks; idempotent."""
        descriptors = self._descriptors
        self._descriptors = []
        self.released = time.monotonic()
        for descriptor in descriptors:
            os.close(descriptor)

    def release_after(self, work: Iterable[Future[Any]], then: Callable[[], None]) -> None:
        """Release the locks once all ``work`` has ended. The test started this work without waiting
        for it."""
        under_way = [future for future in work if not future.done()]
        if not under_way:
            self.release()
            then()
            return

        def finish() -> None:
            wait(under_way)
            self.release()
            then()

        threading.Thread(target=finish, name="gate").start()


class ReadWriteGate:
    """The queue of one run. Each process of the run has its own object, on the same files."""

    def __init__(self, locks: Path, nodes: Iterable[str], *, patience: float) -> None:
        """Set up the queue. ``patience``: the seconds after which a waiting test reports which test
        it waits for."""
        self._locks = locks
        self._nodes = sorted(nodes)
        self._patience = patience
        self._before: dict[str, int] = {}
        """The descriptor of a lock for each kind of turn. This process holds the lock, shared with
        other processes, as long as it has tests of earlier kinds left."""

    def arrive(self) -> None:
        """Make other processes' exclusive turns wait until this process reaches its own exclusive
        turns, or calls :meth:`leave`."""
        for kind in LATER:
            self._before[kind] = self._lock(
                f"before-{kind}", "", lambda line: None, exclusive=False, sign=False
            )

    def leave(self, *kinds: str) -> None:
        """Let tests of these kinds begin (default: of all kinds), since this process has no test
        left that must run before them. Idempotent."""
        for kind in kinds or LATER:
            descriptor = self._before.pop(kind, None)
            if descriptor is not None:
                os.close(descriptor)

    def enter(self, exclusivity: Exclusivity, who: str, tell: Callable[[str], None]) -> HeldLocks:
        """Wait for a turn. ``who``: the test's name, for messages of tests that wait for it.
        ``tell`` is called if the wait is long."""
        hold = HeldLocks(time.monotonic())
        held = hold._descriptors
        try:
            self._wait_for_those_before(exclusivity, who, tell)
            with self._turnstile(exclusivity, who, tell):
                whole = exclusivity.kind == "cluster"
                held.append(self._lock(CLUSTER, who, tell, exclusive=whole, sign=whole))
                if exclusivity.kind == "node":
                    held.extend(
                        self._all_at_once(
                            [f"node-{name}" for name in sorted(exclusivity.nodes)], who, tell
                        )
                    )
                for name in self._nodes if exclusivity.kind == "shared" else ():
                    held.append(self._lock(f"node-{name}", who, tell, exclusive=False, sign=False))
        except BaseException:
            hold.release()
            raise
        hold.began = time.monotonic()
        return hold

    @contextmanager
    def _turnstile(
        self, exclusivity: Exclusivity, who: str, tell: Callable[[str], None]
    ) -> Iterator[None]:
        if exclusivity.kind == "node":
            yield
            return
        turnstile = self._lock(
            TURNSTILE, who, tell, exclusive=True, sign=exclusivity.kind == "cluster"
        )
        try:
            yield
        finally:
            os.close(turnstile)

    def _wait_for_those_before(
        self, exclusivity: Exclusivity, who: str, tell: Callable[[str], None]
    ) -> None:
        if exclusivity.kind in LATER:
            self.leave(*LATER[: LATER.index(exclusivity.kind) + 1])
            os.close(
                self._lock(f"before-{exclusivity.kind}", who, tell, exclusive=True, sign=False)
            )

    def _all_at_once(
        self, names: Sequence[str], who: str, tell: Callable[[str], None]
    ) -> list[int]:
        """Take all of these locks at once, and return their file descriptors. While this waits for
        one of the locks, it holds none of them."""
        taken: dict[str, int] = {}

        def let_go() -> None:
            while taken:
                os.close(taken.popitem()[1])

        try:
            while busy := next(
                (name for name in names if name not in taken and not self._take(name, taken)), None
            ):
                let_go()
                taken[busy] = self._lock(busy, who, tell, exclusive=True, sign=False)
            for descriptor in taken.values():
                _sign(descriptor, who)
        except BaseException:
            let_go()
            raise
        return list(taken.values())

    def _take(self, name: str, taken: dict[str, int]) -> bool:
        """Try to take a lock. Return whether this succeeded, and if so, add the lock to
        ``taken``."""
        descriptor = os.open(self._locks / file_name(name), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        taken[name] = descriptor
        return True

    def _lock(
        self, name: str, who: str, tell: Callable[[str], None], *, exclusive: bool, sign: bool
    ) -> int:
        descriptor = os.open(self._locks / file_name(name), os.O_RDWR | os.O_CREAT, 0o600)
        kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
        try:
            try:
                fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                self._wait(descriptor, kind, f"{who} waits for {_holder(descriptor)}", tell)
            if sign:
                _sign(descriptor, who)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _wait(self, descriptor: int, kind: int, line: str, tell: Callable[[str], None]) -> None:
        timer = threading.Timer(self._patience, tell, [line])
        timer.daemon = True
        timer.start()
        try:
            fcntl.flock(descriptor, kind)
        finally:
            timer.cancel()


def _sign(descriptor: int, who: str) -> None:
    os.truncate(descriptor, 0)
    os.pwrite(descriptor, who.encode(), 0)


def _holder(descriptor: int) -> str:
    """Return the exclusive test that last signed a lock's file.

    Tests that share a lock do not sign it, since signing would take longer.
    """
    return os.pread(descriptor, 4096, 0).decode(errors="replace") or "tests under way"
