# SPDX-License-Identifier: Apache-2.0
"""A long outage of the API server in the middle of a change, which the run must then restore.

``python -m tests.reliability.outage --seconds 300``. It makes two runs of the disruptive suites,
each on its own lab beside a workload of another owner. The first loses the API server while Felix
restarts, the second while a node is drained for VXLAN-10. Afterwards ``--restore`` runs, and the
cluster is compared with its state before. Exits with 1 if anything is left.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tests.reliability import snapshot
from tests.reliability.ending import end_on_sigterm
from tests.reliability.hit_run import Point, harness
from tests.reliability.kills import Kill, one_point

POINTS = (
    Point(number=0, victim="api", changed=True, after=1.0),
    Point(number=1, victim="api", changed=True, after=1.0, drained=1),
)


def lost(point: Point, seconds: float) -> Kill:
    """Make the API server unreachable for one run, for this number of seconds; then restore and
    compare."""
    with harness("default", unreachable=seconds, bystander="plain") as one:
        return one_point(one, point, snapshot.take(one.kube))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each outage and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.reliability.outage", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0, help="default: %(default)g")
    options = parser.parse_args(arguments)
    end_on_sigterm()
    failed = 0
    for point in POINTS:
        kill = lost(point, options.seconds)
        failed += kill.failed or bool(kill.missed)
        state = kill.missed or "; ".join(kill.left) or "nothing left"
        print(
            f"{options.seconds:g} s without the API server in {kill.phase or 'nothing'}: {state}; "
            f"{kill.open_at_hit} open changes before, {kill.open_entries} when the run had ended, "
            f"--restore took {kill.seconds:.1f} s and ended with {kill.exit_code}",
            flush=True,
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
