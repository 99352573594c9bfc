# SPDX-License-Identifier: Apache-2.0
"""``--every-probe``: the golden tables by every probe, where a gate takes every fifth."""

from __future__ import annotations

import pytest

from tests.detection import choice

OF = 5


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--every-probe",
        action="store_true",
        help="hold the oracle against all probes of the tables",
    )


@pytest.fixture(scope="session")
def chosen(request: pytest.FixtureRequest) -> slice:
    """Which probes of each pod are asked: every one, or every fifth, from one that the commit chooses."""
    if request.config.getoption("--every-probe", default=False):
        return slice(None)
    return slice(choice.turn(OF, choice.commit()), None, OF)
