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


def printed(keys: object, errors: object = None) -> str:
    said = {
        "keys": keys,
        "LanguageMode": "FullLanguage",
        "Culture": "de-DE",
        "errors": errors or {},
    }
    return json.dumps(said) + "\r\n"


SESSION = {"LanguageMode": "FullLanguage", "Culture": "de-DE"}


def test_values_by_key_and_name_without_what_the_provider_adds() -> None:
    assert differences(printed([json.dumps(STATE), json.dumps(NET)]), "node win") == {
        "hns\\State HnsAclUpdateChange": "1", ".NET Release": "528449", **SESSION,
    }  # fmt: skip


@pytest.mark.parametrize("none", [None, {}])
def test_a_key_that_is_not_there_is_no_difference(none: object) -> None:
    missing = {"HKLM:\\A": {"id": "PathNotFound,Get", "message": "Cannot find path"}}
    assert differences(printed(none, missing), "node win") == SESSION


def test_a_key_that_is_there_and_cannot_be_read_is_told_beside_the_others() -> None:
    broken = {"HKLM:\\A": {"id": "InvalidCast", "message": "one\ntwo"}}
    assert differences(printed(json.dumps(STATE), broken), "node win") == {
        "hns\\State HnsAclUpdateChange": "1", "HKLM:\\A error": "InvalidCast one\ntwo", **SESSION,
    }  # fmt: skip


@pytest.mark.parametrize("key", ["{", '{"HnsAclUpdateChange": 1}', 5])
def test_a_key_that_cannot_be_understood_is_a_broken_probe(key: object) -> None:
    with pytest.raises(ProbeBroken, match="garbled registry key"):
        differences(printed(key), "node win")


@pytest.mark.parametrize("said", ["", "{", "[]", "LanguageMode=FullLanguage"])
def test_an_output_that_is_cut_off_is_a_broken_probe(said: str) -> None:
    with pytest.raises(ProbeBroken, match=r"node win: registry\.ps1 printed no complete object"):
        differences(said, "node win")
