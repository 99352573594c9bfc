# SPDX-License-Identifier: Apache-2.0
"""Two runs on one cluster: one holds the run lock; the other waits, stops, or takes over a stale
lock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from conformance.errors import ClusterUnusable, LockLost
from conformance.journal.lease import RUN_LOCK, RunLock
from conformance.journal.liveness import Life
from conformance.kube.changes import Changes
from conformance.kube.client import Kube
from conformance.kube.ownership import Ownership
from conformance.settings import RunTimings
from tests.lab.journal.locks import lock_timings

Make = Callable[..., RunLock]
PATIENT = lock_timings(stale=30, wait=0, poll_every=0.05)


class Told(list[str]):
    """The messages of locks."""


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def make(kube: Kube, told: Told) -> Iterator[Make]:
    made: list[RunLock] = []

    def lock(run: str, timings: RunTimings = PATIENT, **more: Any) -> RunLock:
        made.append(RunLock(kube, Ownership(run), timings, tell=told.append, **more))
        return made[-1]

    yield lock
    for run_lock in made:
        run_lock.release()


def holder(kube: Kube) -> str:
    found = kube.find(RUN_LOCK.api_version, RUN_LOCK.kind, RUN_LOCK.name, RUN_LOCK.namespace)
    return str(found["spec"]["holderIdentity"]).partition(" ")[0] if found else ""


def silence(lock: RunLock) -> None:
    """As a run that was killed: it renews nothing, and gives nothing back."""
    lock._stop.set()
    lock._mine = None


def test_the_second_run_stops_and_says_who_has_it_since_when(make: Make) -> None:
    make("first").acquire()
    with pytest.raises(
        ClusterUnusable,
        match=r"^run first of \S+@\S+, since \d{4}-\d\d-\d\dT[\d:]+Z has the run lock",
    ):
        make("second").acquire()


def test_the_second_run_waits_until_the_first_gives_it_back(make: Make, kube: Kube) -> None:
    states: list[str] = []
    first = make("first")
    second = make(
        "second", lock_timings(stale=30, wait=20, poll_every=0.05), progress=states.append
    )
    first.acquire()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(second.acquire)
        while not states:
            time.sleep(0.02)
        assert holder(kube) == "first"
        first.release()
        waiting.result()
    assert holder(kube) == "second"
    assert states[0].startswith("waiting for the run lock: run first of ")


def test_it_is_gone_when_it_was_given_back(make: Make, kube: Kube) -> None:
    lock = make("first")
    lock.acquire()
    lock.check()
    lock.release()
    assert holder(kube) == ""
    with pytest.raises(
        LockLost, match="does not exist: it was never taken, or somebody has deleted it"
    ):
        lock.check()


def test_of_many_that_ask_at_once_one_gets_it(make: Make) -> None:
    locks = [make(f"r{number}") for number in range(8)]

    def take(lock: RunLock) -> bool:
        try:
            lock.acquire()
        except ClusterUnusable:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(take, locks)) == 1


def test_a_stale_one_is_taken_over_and_that_is_said_aloud(
    make: Make, kube: Kube, told: Told
) -> None:
    first = make("first", lock_timings(stale=1, wait=0, poll_every=0.05))
    first.acquire()
    silence(first)
    make("second", lock_timings(stale=1, wait=20, poll_every=0.05)).acquire()
    assert holder(kube) == "second"
    assert [line.partition(" of ")[0] for line in told] == [
        "this run takes the run lock over from run first"
    ]


def test_one_that_is_renewed_does_not_go_stale(make: Make, kube: Kube) -> None:
    make("first", lock_timings(stale=1, wait=0, poll_every=0.05)).acquire()
    with pytest.raises(ClusterUnusable):
        make("second", lock_timings(stale=1, wait=2.5, poll_every=0.05)).acquire()
    assert holder(kube) == "first"


def test_one_whose_holder_is_proved_dead_is_taken_over_at_once(make: Make, kube: Kube) -> None:
    first = make("first")
    first.acquire()
    silence(first)
    make("second", life=lambda lease: Life.DEAD).acquire()
    assert holder(kube) == "second"


def test_one_that_is_stale_is_left_alone_while_a_process_of_its_run_lives(
    make: Make, kube: Kube
) -> None:
    first = make("first", lock_timings(stale=1, wait=0, poll_every=0.05))
    first.acquire()
    silence(first)
    with pytest.raises(ClusterUnusable, match=r"^run first of .* did not release it"):
        make(
            "second", lock_timings(stale=1, wait=2, poll_every=0.05), life=lambda lease: Life.ALIVE
        ).acquire()
    assert holder(kube) == "first"


@pytest.mark.parametrize("known", [Life.ALIVE, Life.UNKNOWN])
def test_who_is_in_a_hurry_does_not_wait_for_a_holder_that_lives(
    make: Make, kube: Kube, known: Life
) -> None:
    make("first", lock_timings(stale=1, wait=0, poll_every=0.05)).acquire()
    second = make(
        "second", lock_timings(stale=1, wait=60, poll_every=0.05), life=lambda lease: known
    )
    with pytest.raises(ClusterUnusable, match=r"^run first of .* is alive; wait for it to end$"):
        second.acquire(patient=False)
    assert holder(kube) == "first"


def test_a_run_that_lost_it_changes_nothing_more(make: Make, told: Told) -> None:
    first = make("first", lock_timings(stale=0.4, wait=0, poll_every=0.05))
    first.acquire()
    first.check()
    make("second", life=lambda lease: Life.DEAD).acquire()
    with pytest.raises(
        LockLost, match=r"run second of .* has taken the run lock .* from this run, first"
    ):
        first.check()
    while not first.lost:
        time.sleep(0.02)
    assert any(
        "from now on this run changes nothing beyond its own namespaces" in line for line in told
    )


def test_another_process_of_the_run_sees_it(make: Make) -> None:
    make("first").acquire()
    make("first").check()


def test_somebody_else_s_write_to_the_lease_is_no_loss(make: Make, kube: Kube) -> None:
    lock = make("first")
    lock.acquire()
    Changes(kube, Ownership("x")).patch(
        RUN_LOCK, {"metadata": {"annotations": {"a": "b"}}}, "a test", foreign=True
    )
    lock.renew()
    lock.renew()
    assert holder(kube) == "first"


def test_a_renewal_never_writes_over_another_holder(make: Make, kube: Kube) -> None:
    first = make("first")
    first.acquire()
    make("second", life=lambda lease: Life.DEAD).acquire()
    with pytest.raises(LockLost):
        first.renew()
    assert holder(kube) == "second"
