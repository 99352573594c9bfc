# SPDX-License-Identifier: Apache-2.0
"""The target outside the cluster comes from an option, or from the ready line of the run's own
lab."""

from __future__ import annotations

import pytest

from conformance.errors import UsageProblem
from conformance.run.clusters import OUTSIDE
from conformance.run.provider import Connection
from conformance.run.run import with_external_target
from conformance.settings import Settings, external_target

LAB = Connection(how="lab", label="", external_target="198.51.100.10")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("198.51.100.10", ("198.51.100.10", 80)), ("192.0.2.1:443", ("192.0.2.1", 443))],
)
def test_an_address_may_have_a_port(text: str, expected: tuple[str, int]) -> None:
    assert external_target(text) == expected


@pytest.mark.parametrize(
    "text", ["example.org", "198.51.100.10:", "198.51.100.10:0", "198.51.100.10:70000", "::1"]
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(UsageProblem, match=f"--external-target {text}: expected an IPv4 address"):
        external_target(text)


def test_a_lab_names_its_own_unless_an_option_does() -> None:
    assert with_external_target(LAB, Settings()).external_target == ("198.51.100.10", 80)
    assert with_external_target(
        LAB, Settings(external_target=("192.0.2.1", 443))
    ).external_target == (
        "192.0.2.1",
        443,
    )


def test_a_cluster_that_names_none_has_none() -> None:
    assert (
        with_external_target(Connection(how="kubeconfig", label=""), Settings()).external_target
        is None
    )
    assert with_external_target(None, Settings()).external_target is None


def test_it_is_read_from_the_line_by_which_a_lab_says_that_it_is_ready() -> None:
    line = (
        "hybridlab ready: profile default, kubeconfig /k, outside host 198.51.100.10, after 0.5 s"
    )
    found = OUTSIDE.search(line)
    assert found
    assert found["address"] == "198.51.100.10"
    assert (
        OUTSIDE.search("hybridlab ready: profile default, kubeconfig /outside host/k, after 0.5 s")
        is None
    )
