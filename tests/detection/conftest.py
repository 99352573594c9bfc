# SPDX-License-Identifier: Apache-2.0
"""Rows of the detection table start labs and runs and take minutes in all, so they run only on
request, by ``-m detection``."""

from __future__ import annotations

import time

import pytest

from tests.detection import choice
from tests.detection.table import Row, Table, shipped

SAYS = pytest.StashKey[list[str]]()
"""Lines that are printed at the end of the run: the rows that were left out."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("detection", "detection rows (with -m detection)")
    group.addoption(
        "--detection-claim",
        metavar="ID",
        default="",
        help="run only the rows that include this claim, and only this claim in each row",
    )
    group.addoption(
        "--detection-whole", action="store_true", help="run every claim on each row's lab"
    )
    group.addoption(
        "--detection-labs", type=int, metavar="N", default=0,
        help="run at most N rows: those that the change since its base concerns, others by the commit's id",
    )  # fmt: skip
    group.addoption(
        "--detection-minutes",
        type=float,
        metavar="M",
        default=0.0,
        help="begin no further row after M minutes",
    )
    group.addoption(
        "--detection-powershell",
        metavar="PROGRAM",
        default="",
        help="run the probe programs of Windows pods by this pwsh, and wait longer for their start",
    )
    group.addoption(
        "--detection-outcomes",
        metavar="FILE",
        default="",
        help="append each row's verdicts to this file, for tests.detection.compare",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[SAYS] = []


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize the test with the rows of this run. Rows of the same lab follow each other, so
    that the lab is started once."""
    if not metafunc.definition.get_closest_marker("detection_row"):
        return
    table = shipped()
    rows = _rows(metafunc.config, table)
    labs = [row.lab for row in rows]
    rows = sorted(rows, key=lambda row: labs.index(row.lab))
    metafunc.parametrize("row", rows, ids=[row.name for row in rows])


def _rows(config: pytest.Config, table: Table) -> list[Row]:
    claim, labs = config.getoption("--detection-claim"), config.getoption("--detection-labs")
    if claim and claim not in table.clean:
        raise pytest.UsageError(
            f"--detection-claim={claim}: no file in tests/detection/rows has a clean verdict of this claim"
        )
    rows = table.concerning(claim) if claim else list(table.rows)
    if config.getoption("--detection-whole"):
        rows = [row.of_all_claims() for row in rows]
    if not labs or "detection" not in str(config.getoption("-m")):
        return rows
    choosing = choice.chosen(table, rows, choice.change(), labs)
    left_out = ", ".join(row.name for row in choosing.left_out)
    config.stash[SAYS] += [
        choosing.says,
        *(
            [f"detection: rows left out although the change concerns them: {left_out}"]
            if left_out
            else []
        ),
    ]
    return list(choosing.rows)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    asked = "detection" in str(config.getoption("-m"))
    left_out = [item for item in items if item.get_closest_marker("detection") and not asked]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def begun() -> float:
    """Return the time at which the first row began, by the monotonic clock."""
    return time.monotonic()


@pytest.fixture
def in_time(request: pytest.FixtureRequest, begun: float) -> None:
    """Skip the row if there is no time for it. A row that differed is always run once more, since
    otherwise its failure would be lost."""
    minutes = request.config.getoption("--detection-minutes")
    again = getattr(request.node, "execution_count", 1) > 1  # the count of --reruns
    if minutes and not again and time.monotonic() - begun > minutes * 60:
        request.config.stash[SAYS].append(
            f"detection: row left out, since {minutes:g} minutes have passed: {request.node.name}"
        )
        pytest.skip(f"the limit of {minutes:g} minutes has passed")


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    for line in config.stash[SAYS]:
        terminalreporter.write_line(line)
