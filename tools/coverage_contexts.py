# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest that names each running test to coverage: ``-p tools.coverage_contexts``.

Coverage itself can name test functions, but not the test for which a fixture runs.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest
from coverage import Coverage


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Record everything that runs from now on, fixtures included, as part of this test; parameters
    are left out of its name."""
    coverage = Coverage.current()
    if coverage is None:
        return (yield)
    coverage.switch_context(item.nodeid.partition("[")[0])
    try:
        return (yield)
    finally:
        coverage.switch_context("")
