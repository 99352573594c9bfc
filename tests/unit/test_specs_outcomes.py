# SPDX-License-Identifier: Apache-2.0
"""The failures of Kubernetes' policy specs that a documented limit of Windows explains."""

from tests.contract.specs.run import Outcome

NAMED_PORT = "Netpol should allow ingress access on one named port"


def test_a_documented_limit_explains_paths_that_stay_closed_on_windows_alone() -> None:
    outcome = Outcome(NAMED_PORT, "failed", "Had 3 wrong results in reachability matrix")
    assert "XPOL-4" in outcome.limit("windows")
    assert outcome.limit("linux") == ""
    assert Outcome("Netpol should support allow-all policy", "failed").limit("windows") == ""


def test_no_limit_explains_a_path_that_is_open_against_the_policy() -> None:
    assert Outcome(NAMED_PORT, "failed", has_leak=True).limit("windows") == ""
