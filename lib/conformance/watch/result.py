# SPDX-License-Identifier: Apache-2.0
"""The result of a run's standing watch: it is passed in files from the process that watches to the
test that judges it."""

import json
import time
from typing import Any

from conformance.errors import EnvironmentBroken
from conformance.expect.subjects.standing_watch import BESIDE, Kept, Watched
from conformance.model.codec import from_plain
from conformance.run.directory import BEGUN, RunDirectory
from conformance.settings import Timings
from conformance.timing import until

NAP = 0.1
"""The pause, in seconds, between two checks whether the watch has ended."""
NOTED = 5
"""The maximum number of gaps that get a separate note."""
AFTER = 5.0
"""Seconds for which the changes of a turn may still have an effect after its end."""
ENDS = "watch-ends"
"""The file that asks the watch to end."""
ANSWER = "watch.json"
"""The file with the records of the watch."""


def end_watch(directory: RunDirectory, timings: Timings) -> tuple[Kept, list[dict[str, Any]]]:
    """End the run's watch; return its records and the run's turns so far.

    Raise EnvironmentBroken if the watch does not end in time.
    """
    answer = directory.shared / ANSWER
    pods = timings.windows
    run = timings.run
    within = pods.image_pull + pods.pod_ready + pods.warm_up + pods.agent_slot
    within += max(run.watch_least, run.denial_watch)
    (directory.shared / ENDS).touch()
    if not until(
        answer.exists, bool, within=within, every=NAP, description="the standing watch ends"
    ).converged:
        raise EnvironmentBroken(
            f"the standing watch did not end within {within:.0f} s; its process may be gone"
        )
    return from_plain(Kept, json.loads(answer.read_text())), turns(directory)


def gaps(directory: RunDirectory) -> list[str]:
    """Return a note for each time in which DNS or a Service did not answer the watch's pods. Times
    in which a test had the node or the cluster to itself get no note. Return nothing if the watch
    has not ended."""
    answer = directory.shared / ANSWER
    if not answer.exists():
        return []
    kept = from_plain(Kept, json.loads(answer.read_text()))
    alone = turns(directory)
    found = [
        (began, ended, path)
        for path in kept.paths
        if path.way in BESIDE
        for began, ended in path.gaps()
        if not any(
            (turn.get("kind") == "cluster" or path.node in turn.get("nodes", ()))
            and turn["began"] <= ended
            and began <= turn["released"] + AFTER
            for turn in alone
        )
    ]
    now = time.time() - time.monotonic()
    notes = [
        f"{_asked(path)} did not answer pods of node {path.node} for {ended - began:.1f} s, at "
        f"{time.strftime('%H:%M:%SZ', time.gmtime(now + began))}; no document promises a bound"
        for began, ended, path in sorted(found, key=lambda gap: gap[0])
    ]
    more = len(notes) - NOTED
    return [*notes[:NOTED], *([f"{more} more such gaps"] if more > 0 else [])]


def _asked(path: Watched) -> str:
    target = path.attempt.target
    return target.name if target else "the cluster's DNS"


def turns(directory: RunDirectory) -> list[dict[str, Any]]:
    """Return the run's turns. The turn of a process that died during its turn has no end, and lasts
    until now."""

    def read(pattern: str) -> dict[tuple[str, str, float], dict[str, Any]]:
        lines = [
            json.loads(line)
            for path in sorted(directory.turns.glob(pattern))
            for line in path.read_text().splitlines()
        ]
        return {(turn["test"], turn["worker"], turn["began"]): turn for turn in lines}

    ended = read("*.jsonl")
    now = time.monotonic()
    begun = [turn for key, turn in read(f"*{BEGUN}").items() if key not in ended]
    return [*ended.values(), *(turn | {"released": now} for turn in begun)]
