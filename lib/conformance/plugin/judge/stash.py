# SPDX-License-Identifier: Apache-2.0
"""Values that the judge stores with each test, and its advice about tests that should be run
later."""

import pytest

from conformance.report import junit
from conformance.schedule.plan import PlannedTest
from conformance.verdicts.claims import TestOutcome
from conformance.verdicts.prospect import Prospect
from conformance.verdicts.statement import Statement

OUTCOME = junit.OUTCOME
"""User property that carries a test's outcome as JSON."""
PLANNED = pytest.StashKey[PlannedTest]()
PROSPECT = pytest.StashKey[Prospect]()
STATEMENT = pytest.StashKey[Statement]()
EARLIER = pytest.StashKey[list[TestOutcome]]()
"""The outcomes of a test's earlier attempts."""
PUT_OFF = pytest.StashKey[bool]()
"""True: the test is run once more at the end, since the disturbance may have passed. False: the
second run has begun or ended."""
WAITS = "run once more later"
"""The status that pytest first shows for a test that is run once more, in place of passed or
failed."""
BEGAN = pytest.StashKey[float]()
"""The time when the test's first attempt began, in Unix seconds."""
SECONDS = pytest.StashKey[float]()
WAITED = pytest.StashKey[float]()
"""The seconds until the test's turn came."""
LATER = "give the run more minutes, or continue it with  calico-conformance rerun"
"""Advice about a test that did not begin within ``--max-minutes``."""
AGAIN = "repair that, then continue the run with  calico-conformance rerun"
"""Advice about a test that did not begin because no test could decide anything any more."""
