# SPDX-License-Identifier: Apache-2.0
"""docs/lab.md promises the PowerShell commands that the lab has, each with its parameters, and no others."""

from tests.unit.hybridlab.powershell.promised import section, written


def test_the_page_lists_every_command_that_the_registry_has() -> None:
    renew = "write it anew: python -m tests.unit.hybridlab.powershell.promised"
    assert written() == section(), renew
