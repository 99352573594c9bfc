# SPDX-License-Identifier: Apache-2.0
"""The option ``--every-probe``: use every probe of the golden tables, whereas a gate uses every
fifth."""

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
    """Return the slice of each pod's probes: all probes, or every fifth, beginning with a probe
    that the commit chooses."""
    if request.config.getoption("--every-probe", default=False):
        return slice(None)
    return slice(choice.turn(OF, choice.commit()), None, OF)
