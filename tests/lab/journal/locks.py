# SPDX-License-Identifier: Apache-2.0
"""Short times of a run lock, for tests that lose the lock."""

from __future__ import annotations

from dataclasses import replace

from conformance.settings import RunTimings, load_timings


def lock_timings(*, stale: float, wait: float, poll_every: float) -> RunTimings:
    """A lab's timings, but for these of the run lock, in seconds."""
    run = load_timings(lab=True).run
    return replace(run, lock_stale=stale, lock_wait=wait, lock_poll=poll_every)
