# SPDX-License-Identifier: Apache-2.0
"""Registry keys as PowerShell's ConvertTo-Json prints them, one a line, and what the session says
of itself."""

from __future__ import annotations

import json

import pytest

from conformance.errors import ProbeBroken
from conformance.probe.windows_host import differences

ROOT = "Microsoft.PowerShell.Core\\Registry::HKEY_LOCAL_MACHINE\\"
STATE = {
    "HnsAclUpdateChange": 1,
    "PSPath": f"{ROOT}SYSTEM\\CurrentControlSet\\Services\\hns\\State",
    "PSDrive": {},
}
NET = {
    "Release": 528449,
    "Install": 1,
    "PSPath": f"{ROOT}SOFTWARE\\Microsoft\\NET Framework Setup\\NDP\\v4\\Full",
}


def test_values_by_key_and_name_without_what_the_provider_adds() -> None:
    said = "\r\n".join(
        [json.dumps(STATE), json.dumps(NET), "LanguageMode=FullLanguage", "Culture=de-DE"]
    )
    assert differences(said, "node win") == {
        "hns\\State HnsAclUpdateChange": "1", ".NET Release": "528449",
        "LanguageMode": "FullLanguage", "Culture": "de-DE",
    }  # fmt: skip


@pytest.mark.parametrize("said", ["{", '{"HnsAclUpdateChange": 1}'])
def test_a_key_that_cannot_be_read_is_a_broken_probe(said: str) -> None:
    with pytest.raises(ProbeBroken, match="garbled registry key"):
        differences(said, "node win")
