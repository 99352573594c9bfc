# SPDX-License-Identifier: Apache-2.0
"""The time that each part of a run takes: ``python -m benchmarks.anatomy reports/latest``.

Reads the conformance.json of any run and prints tables for docs/performance.md: tests by what they
use exclusively, tests by area, and the most expensive claims with the rows of the detection table
in which they are red.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.seconds import report
from tests.detection.table import RED, read

DEAREST = 12
"""The number of claims that are listed."""


def kind(test: Mapping[str, Any]) -> str:
    """Return what a test has to itself: ``cluster`` or ``node``; ``shared`` if it has neither."""
    return str(test["exclusive"]).partition(" ")[0] or "shared"


def area(test: Mapping[str, Any]) -> str:
    """Return the folder of a test."""
    return str(test["test"].split("::")[0].split("/")[-2])


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    """Return a Markdown table."""
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    yield from (f"| {' | '.join(map(str, row))} |" for row in rows)


def lines(plain: Mapping[str, Any]) -> Iterator[str]:
    """Return the tables of a report."""
    tests = [test for test in plain["tests"] if test["ran"]]
    workers = {test["worker"] for test in tests}
    ran = plain["run"]
    yield f"{len(tests)} tests, {len(workers)} workers, {ran['seconds']:.0f} s"
    yield ""
    for title, of in (("turn", kind), ("area", area)):
        seconds, waited, count = Counter[str](), Counter[str](), Counter[str]()
        for test in tests:
            seconds[of(test)] += test["seconds"]
            waited[of(test)] += test["waited"]
            count[of(test)] += 1
        rows = [
            (name, count[name], round(found), round(waited[name]))
            for name, found in seconds.most_common()
        ]
        yield from table((title, "tests", "worker-seconds", "waited for a turn, s"), rows)
        yield ""
    red = Counter(claim for row in read().rows for claim, word in row.expect.items() if word in RED)
    cost: Counter[str] = Counter()
    for test in tests:
        for claim in test["claims"]:
            cost[claim] += test["seconds"]
    dearest = [
        (claim, round(seconds), red[claim], f"{seconds / red[claim]:.1f}" if red[claim] else "-")
        for claim, seconds in cost.most_common(DEAREST)
    ]
    yield from table(("claim", "worker-seconds", "rows in which it is red", "s a row"), dearest)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path, help="folder of a run, or its conformance.json")
    print(*lines(report(parser.parse_args().report)), sep="\n")


if __name__ == "__main__":
    main()
