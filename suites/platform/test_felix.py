# SPDX-License-Identifier: Apache-2.0
"""Felix, without which nothing is programmed, runs on every Windows node."""

from conformance.fixtures import FelixRuns
from conformance.marks import verifies


@verifies("PLAT-14")
def test_felix_runs_on_every_ready_windows_node(felix_runs: FelixRuns) -> None:
    felix_runs.everywhere(because="only a node's own Felix programs the node's policies and routes")
