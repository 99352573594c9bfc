# SPDX-License-Identifier: Apache-2.0
"""Compare the decisions of two source trees on the rows of the detection table.

Record on each tree, then compare::

    pytest tests/detection -m detection --detection-outcomes before.jsonl
    python -m tests.detection.compare before.jsonl after.jsonl

Claims, verdicts, the nodes of each decision and exit codes are compared, messages are not.  A
refactoring must show no difference.  Exits with 1 if the trees differ, and with 4 if they share
no row.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

Recorded = Mapping[str, Any]
"""A recorded row: ``row``, ``exit_code``, ``verdicts`` by claim, ``decisions`` by claim."""


def record(row: str, report: Mapping[str, Any], exit_code: int) -> Recorded:
    """Return what a row's run decided, without anything that differs from run to run."""
    claims = [claim for claim in report["claims"] if claim["verdict"] and claim["results"]]
    return {
        "row": row,
        "exit_code": exit_code,
        "verdicts": {claim["id"]: claim["verdict"] for claim in claims},
        "decisions": {claim["id"]: sorted(set(_decisions(claim))) for claim in claims},
    }


def _decisions(claim: Mapping[str, Any]) -> Iterator[str]:
    for result in claim["results"]:
        part = f" ({result['part']})" if result.get("part") else ""
        yield f"{result['verdict']}{part}"
        for decision in result["decisions"]:
            nodes = f"{decision['source'] or '-'} -> {decision['target'] or '-'}"
            yield f"{decision['verdict']}{part} {nodes}"


def read(path: Path) -> dict[str, Recorded]:
    """Return the newest recording of each row in a file of JSON lines."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return {entry["row"]: entry for entry in map(json.loads, lines)}


def differences(before: Recorded, after: Recorded) -> list[str]:
    """Return a line for the exit code and each claim on which two recordings of a row differ."""
    row = before["row"]
    lines = []
    if before["exit_code"] != after["exit_code"]:
        lines.append(f"{row}: exit code {before['exit_code']} before, {after['exit_code']} after")
    for claim in sorted({*before["verdicts"], *after["verdicts"]}):
        verdicts = [side["verdicts"].get(claim, "not run") for side in (before, after)]
        if verdicts[0] != verdicts[1]:
            lines.append(f"{row}: {claim} {verdicts[0]} before, {verdicts[1]} after")
            continue
        was, now = (set(side["decisions"].get(claim, ())) for side in (before, after))
        lines += [f"{row}: {claim} lost the decision {each}" for each in sorted(was - now)]
        lines += [f"{row}: {claim} has the new decision {each}" for each in sorted(now - was)]
    return lines


def main(arguments: list[str] | None = None) -> int:
    """Print the differences of two files and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.detection.compare", description=__doc__)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    options = parser.parse_args(arguments)
    before = read(options.before)
    after = read(options.after)
    common = [row for row in before if row in after]
    found = [line for row in common for line in differences(before[row], after[row])]
    for line in found:
        print(line)
    alone = len(before) + len(after) - 2 * len(common)
    print(f"{len(common)} rows compared, {len(found)} differences, {alone} rows in one file alone")
    if not common:
        return 4
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
