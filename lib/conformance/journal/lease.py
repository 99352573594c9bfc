# SPDX-License-Identifier: Apache-2.0
"""The run lock: a coordination Lease that prevents two runs from disrupting one cluster at the same
time.

A run with exclusive tests holds the lock from its first such test to its last. A process that
restores changes of dead runs holds the lock while it does so. A run that finds the lock taken
waits, and stops if this takes too long. A holder that does not renew the lock within the lease's
duration counts as dead. The duration is measured on the observer's clock (as in client-go's leader
election), so that clocks need not agree. A holder never counts as dead while one of its processes
is known to live.
"""

from __future__ import annotations

import datetime
import getpass
import os
import platform
import threading
from collections.abc import Callable
from typing import Any

from conformance.errors import ClusterUnusable, LockLost, SuiteError
from conformance.journal.liveness import Life, holds
from conformance.journal.store import ensure_namespace
from conformance.kube.changes import Changes
from conformance.kube.client import Kube, Obj
from conformance.kube.ownership import SYSTEM_NAMESPACE, Ownership
from conformance.kube.refused import ApiRefused, ApiUnreachable
from conformance.kube.rights import Right
from conformance.model.change import Change, ObjectRef
from conformance.settings import RunTimings
from conformance.timing import SYSTEM_CLOCK, Clock, until

RUN_LOCK = ObjectRef(
    api_version="coordination.k8s.io/v1", kind="Lease", name="run-lock", namespace=SYSTEM_NAMESPACE
)
RENEWALS = 4
"""The number of renewals in the time after which a lease counts as stale. Three of them may
fail."""


LOCK_RIGHTS = tuple(
    Right(
        verb,
        "leases",
        "coordination.k8s.io",
        SYSTEM_NAMESPACE,
        needed_for="keep runs from disrupting each other",
    )
    for verb in ("get", "create", "update", "delete")
)
"""Rights that the lock requires. Without them no exclusive test is run."""


class RunLock:
    """A run's hold of the lock. One process takes and renews it; every process of the run may
    :meth:`check` it.
    """

    def __init__(
        self,
        kube: Kube,
        run: Ownership,
        timings: RunTimings,
        *,
        tell: Callable[[str], None],
        progress: Callable[[str], None] = lambda line: None,
        life: Callable[[Obj], Life] = lambda lease: Life.UNKNOWN,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Set up the lock. ``tell`` receives messages for all readers, ``progress`` the present
        wait (``what: state``).

        ``life`` returns the state of a lease's holder. From a dead holder, the lock is taken at
        once, although it is not stale yet. From a living holder, even a stale lock is not taken:
        its workers may go on after the process that renews the lock was killed.
        """
        self.kube = kube
        self.run = run
        self.timings = timings
        self.lost = ""
        """How the lock was lost; empty if it was not lost."""
        self._changes = Changes(kube, run)
        self._tell = tell
        self._progress = progress
        self._life = life
        self._clock = clock
        self._mine: Obj | None = None
        self._seen: tuple[str, float] = ("", 0.0)
        self._living = False
        """True if the holder was known to be alive at the last check."""
        self._stop = threading.Event()
        self._keeper: threading.Thread | None = None

    def acquire(self, *, patient: bool = True) -> None:
        """Take the lock, and renew it from now on. Raise ClusterUnusable if the lock cannot be
        taken. The message names a missing right, or the holder and since when it has held the lock.

        ``patient``: wait also for a holder that is known to live.
        """
        try:
            settled = until(
                self._attempt,
                lambda other: other is None or (self._living and not patient),
                within=self.timings.lock_wait,
                every=self.timings.lock_poll,
                description="the run lock is free",
                clock=self._clock,
            )
        except (ApiRefused, ApiUnreachable) as error:
            why = error.message if isinstance(error, ApiRefused) else error
            raise ClusterUnusable(
                [f"the run lock ({RUN_LOCK.label}) cannot be taken: {why}"]
            ) from error
        if settled.last is not None:
            so = (
                " and is alive; wait for it to end"
                if settled.converged
                else f", and did not release it within {settled.seconds:.0f} s; wait for that run, "
                "or run without --allow-disruptive"
            )
            raise ClusterUnusable([f"{settled.last} has the run lock ({RUN_LOCK.label}){so}"])
        self._keeper = threading.Thread(target=self._keep, name="run-lock", daemon=True)
        self._keeper.start()

    def renew(self) -> None:
        """Renew the lease, to show that the run is alive. Raise LockLost, ApiRefused,
        ApiUnreachable."""
        assert self._mine is not None  # the lock was acquired
        try:
            self._mine = self._put(self._mine, self._mine["spec"] | {"renewTime": _now()})
        except ApiRefused as refusal:
            if refusal.code not in (404, 409):
                raise
            # the run still holds the lock: only the object's version is newer
            self._mine = self.check()

    def release(self) -> None:
        """Release the lock; do nothing if it is not held. An error is only reported, since the next
        run will find the lock stale.
        """
        self._stop.set()
        if self._keeper:
            self._keeper.join()
        mine = self._mine
        self._mine = None
        if mine is None or self.lost:
            return
        body: Obj = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {key: mine["metadata"][key] for key in ("uid", "resourceVersion")},
        }
        try:
            self._changes.make(_change("delete", "the run is over", body))
        except SuiteError as error:
            self._tell(f"the run lock could not be released: {str(error).splitlines()[0]}")

    def check(self) -> Obj:
        """Read the lease again, and return it if this run holds it; otherwise raise LockLost.

        Without the lock, this run may make no further change outside its own namespaces.
        """
        found = self.kube.find(
            RUN_LOCK.api_version, RUN_LOCK.kind, RUN_LOCK.name, RUN_LOCK.namespace
        )
        if found is None:
            raise LockLost(
                f"the run lock ({RUN_LOCK.label}) does not exist: it was never taken, or somebody has deleted it"
            )
        if _holding(found) != self.run.run:
            raise LockLost(
                f"{_who(found)} has taken the run lock ({RUN_LOCK.label}) from this run, {self.run.run}"
            )
        return found

    def _attempt(self) -> str | None:
        """Take the lock if this is allowed, and return None; otherwise return the holder of the
        lock."""
        self._living = False
        found = self.kube.find(
            RUN_LOCK.api_version, RUN_LOCK.kind, RUN_LOCK.name, RUN_LOCK.namespace
        )
        try:
            if found is None:
                self._create()
                return None
            who = _who(found)
            if self._is_gone(found):
                if _holding(found) not in ("", self.run.run):
                    self._tell(f"this run takes the run lock over from {who}")
                self._mine = self._put(found, self._spec(found))
                return None
        except ApiRefused as refusal:
            if refusal.code not in (404, 409) and not _on_its_way_out(refusal):
                raise
            return "another run"  # the other run was faster; the next attempt finds its name
        self._progress(f"waiting for the run lock: {who} has it")
        return who

    def _is_gone(self, found: Obj) -> bool:
        """Return whether the lease has no holder, a dead holder, or a holder that did not renew it
        in time by this process' own clock."""
        # no run holds the lease, or this run could not release it earlier
        if _holding(found) in ("", self.run.run):
            return True
        life = self._life(found)
        if life is not Life.UNKNOWN:
            self._living = life is Life.ALIVE
            return life is Life.DEAD
        version = str(found["metadata"]["resourceVersion"])
        now = self._clock.monotonic()
        if version != self._seen[0]:
            self._living = bool(self._seen[0])
            self._seen = (version, now)
        return now - self._seen[1] >= float(
            found["spec"].get("leaseDurationSeconds") or self.timings.lock_stale
        )

    def _create(self) -> None:
        ensure_namespace(self.kube, self.run)
        self._mine = self._changes.create(
            {
                "apiVersion": RUN_LOCK.api_version,
                "kind": RUN_LOCK.kind,
                "metadata": {"name": RUN_LOCK.name, "namespace": RUN_LOCK.namespace},
                "spec": self._spec(None),
            },
            "keeps other runs from disrupting this one",
            foreign=True,
        )

    def _spec(self, old: Obj | None) -> dict[str, Any]:
        now = _now()
        return {
            "holderIdentity": f"{self.run.run} {_user()}@{platform.node()}",
            "acquireTime": now,
            "renewTime": now,
            "leaseDurationSeconds": max(1, round(self.timings.lock_stale)),
            "leaseTransitions": int((old or {"spec": {}})["spec"].get("leaseTransitions") or 0)
            + (old is not None),
        }

    def _put(self, old: Obj, spec: dict[str, Any]) -> Obj:
        """Write the lease if it still has the version of ``old``. Raise ApiRefused (409) if it was
        changed meanwhile."""
        kept = {
            name: old["metadata"][name] for name in ("name", "namespace", "uid", "resourceVersion")
        }
        body: Obj = {
            "apiVersion": RUN_LOCK.api_version,
            "kind": RUN_LOCK.kind,
            "metadata": kept,
            "spec": spec,
        }
        done = self._changes.make(_change("replace", "this run holds it", body))
        assert done is not None  # only a deletion or a dry run returns nothing
        return done

    def _keep(self) -> None:
        failing = False
        while not self._stop.wait(self.timings.lock_stale / RENEWALS):
            try:
                self.renew()
                failing = False
            except LockLost as lost:
                self.lost = str(lost)
                self._tell(
                    f"{lost}: from now on this run changes nothing beyond its own namespaces"
                )
                return
            except SuiteError as error:
                if not failing:
                    self._tell(
                        "the run lock could not be renewed; this run tries again: "
                        f"{str(error).splitlines()[0]}"
                    )
                failing = True


def held_by(kube: Kube, run: str) -> Obj | None:
    """Return the run lock if this run holds it, otherwise None."""
    found = kube.find(RUN_LOCK.api_version, RUN_LOCK.kind, RUN_LOCK.name, RUN_LOCK.namespace)
    return found if found is not None and holds(found, run) else None


def is_silent(
    kube: Kube, run: str, lease: Obj, *, seconds: float, every: float, clock: Clock
) -> bool:
    """Return whether a run does not renew its run lock within this number of seconds."""
    version = version_of(lease)

    def renewed() -> bool:
        now = held_by(kube, run)
        return now is None or version_of(now) != version

    return not until(
        renewed,
        bool,
        within=seconds,
        every=every,
        description=f"run {run} renews its run lock",
        clock=clock,
    ).converged


def lasts(lease: Obj) -> float:
    """Return the number of seconds for which a lease is valid without renewal."""
    return float(lease["spec"].get("leaseDurationSeconds") or 0)


def version_of(lease: Obj) -> tuple[str, str]:
    """Return uid and version of a lease."""
    return str(lease["metadata"]["uid"]), str(lease["metadata"]["resourceVersion"])


def _change(verb: Any, why: str, body: Obj) -> Change:
    return Change(verb=verb, target=RUN_LOCK, why=why, body=body, cluster_scoped_or_foreign=True)


def _holder(lease: Obj) -> str:
    return str((lease.get("spec") or {}).get("holderIdentity") or "")


def _holding(lease: Obj) -> str:
    """Return the run that holds the lease; an empty string if no run does."""
    return _holder(lease).partition(" ")[0]


def _on_its_way_out(refusal: ApiRefused) -> bool:
    """Return whether the request was refused because the namespace is being deleted. The last run
    that cleans up deletes it."""
    causes = (refusal.status.get("details") or {}).get("causes") or []
    return refusal.forbidden and any(
        cause.get("reason") == "NamespaceTerminating" for cause in causes
    )


def _who(lease: Obj) -> str:
    """Return the holder in words: ``run 3f2a1c of user@host, since 2026-03-01T10:00:00Z``."""
    run, _, owner = _holder(lease).partition(" ")
    since = (
        str((lease.get("spec") or {}).get("acquireTime") or "").partition(".")[0].removesuffix("Z")
    )
    return f"run {run or 'unknown'}{f' of {owner}' if owner else ''}{f', since {since}Z' if since else ''}"


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return str(os.getuid())
