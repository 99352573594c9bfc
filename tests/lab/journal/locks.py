# SPDX-License-Identifier: Apache-2.0
"""Timings of the run lock for tests that lose the lock."""

from __future__ import annotations

from dataclasses import replace

from conformance.settings import RunTimings, load_timings


def lock_timings(*, stale: float, wait: float, poll_every: float) -> RunTimings:
    """Return a lab's timings with these values of the run lock, in seconds."""
    run = load_timings(lab=True).run
    return replace(run, lock_stale=stale, lock_wait=wait, lock_poll=poll_every)
