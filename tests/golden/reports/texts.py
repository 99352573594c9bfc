# SPDX-License-Identifier: Apache-2.0
"""The output of comparisons, gates and reruns for the stored reports, as text files.

``python -m tests.golden.reports.texts`` writes the files again. The sets here are frozen, so that
the texts change only with the rules and not with the suite's tests.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

from conformance.catalog import catalog
from conformance.qualify.again import to_run_again
from conformance.qualify.compare import as_markdown, as_text, compare
from conformance.qualify.gate import exit_code, judge
from conformance.qualify.sets import Demand, GateSet
from conformance.qualify.stored import Report, parse

FOLDER = Path(__file__).parent
DEMO = GateSet(
    name="demo",
    purpose="the demo's policy does what it says",
    demands=tuple(
        Demand(claim=claim, parts=("",)) for claim in ("DEMO-2", "DEMO-5", "DEMO-6", "DEMO-7")
    ),
)
POLICY_RULES = GateSet(
    name="policy rules",
    purpose="what rules say is enforced: Services that they name, their edits, and staged ones not at all",
    demands=(
        Demand(claim="XPOL-7", parts=("protocol, linux client", "protocol, windows client")),
        Demand(claim="XPOL-12", parts=("linux server", "windows server")),
        Demand(claim="XPOL-14", parts=("linux server", "windows server")),
    ),
)
"""Claims that unmodified Calico releases violate."""
SHIPPED = ("v3.31-as-shipped", "v3.32-as-shipped")
COMPARED = (
    SHIPPED,
    ("healthy", "leak"),
    ("leak", "rerun"),
    ("healthy", "sick"),
    ("healthy", "without-v3"),
    ("healthy", "cut-short"),
)


def stored(name: str) -> Report:
    """Return one of the stored reports."""
    with gzip.open(FOLDER / f"{name}.json.gz", "rt", encoding="utf-8") as file:
        return parse(json.load(file), name)


def names() -> list[str]:
    """Return the names of all reports."""
    return sorted(path.name.removesuffix(".json.gz") for path in FOLDER.glob("*.json.gz"))


def texts() -> Iterator[tuple[str, str]]:
    """Yield the file names with their contents."""
    for old, new in COMPARED:
        found = compare(stored(old), stored(new))
        yield f"diff-{old}-{new}.txt", f"{as_text(found)}exit code {found.exit_code}\n"
    yield "diff-healthy-leak.md", as_markdown(compare(stored("healthy"), stored("leak")))
    for name in names():
        results = judge(stored(name), [POLICY_RULES if name in SHIPPED else DEMO], (), catalog())
        lines = [
            line
            for result in results
            for line in (result.headline, *(f"  {each}" for each in result.obstacles))
        ]
        yield f"gate-{name}.txt", "\n".join([*lines, f"exit code {exit_code(results)}"]) + "\n"
    for name in ("leak", "rerun", "sick", "cut-short"):
        report = stored(name)
        yield (
            f"rerun-{name}.txt",
            "\n".join(to_run_again(report, report.plain["suite"]["catalog"])) + "\n",
        )


def main() -> None:
    """Write the files."""
    for name, content in texts():
        (FOLDER / name).write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
