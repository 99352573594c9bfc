"""Rows of the detection table start labs and runs, minutes in all: they are run when asked for, by ``-m detection``."""

from __future__ import annotations

import pytest

from tests.detection import shard


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--detection-shares", type=int, metavar="N", default=1,
        help="with -m detection: run one Nth of the rows, chosen by the id of the commit that is checked out",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "detection: a whole run of the suite on a lab that is wrong on purpose")
    config.addinivalue_line("markers", "detection_row: one row of the table; a share of the rows is taken from these")


def pytest_report_header(config: pytest.Config) -> str | None:
    of = config.getoption("--detection-shares", default=1)
    if of == 1:
        return None
    commit = shard.commit()
    return f"detection: share {shard.chosen(of, commit) + 1} of {of}, chosen by commit {commit[:12]}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    rows = [item for item in items if item.get_closest_marker("detection")]
    if "detection" in str(config.getoption("-m")):
        of = config.getoption("--detection-shares", default=1)
        table = [item for item in rows if item.get_closest_marker("detection_row")]
        kept = shard.share(table, shard.chosen(of, shard.commit()) if of > 1 else 0, of)
        left_out = [item for item in table if item not in kept]
    else:
        left_out = rows
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
