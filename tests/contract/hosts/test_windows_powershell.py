# SPDX-License-Identifier: Apache-2.0
"""Every Windows program uses only what Windows PowerShell 5.1 on .NET Framework 4.7.2 has.

PowerShell 7, which executes the programs in tests, accepts much more. Its parser lists the names
that a program uses; the tables of ``tests/golden/windows-powershell`` list the names that 5.1 has.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from conformance.expect.subjects import commands
from tests.contract.hosts.harness import Harness
from tests.contract.hosts.programs import programs

pytestmark = pytest.mark.powershell
ROOT = Path(__file__).parents[3]
TABLES = ROOT / "tests" / "golden" / "windows-powershell"
ACCELERATORS = {
    "bool": "System.Boolean",
    "byte": "System.Byte",
    "char": "System.Char",
    "double": "System.Double",
    "int": "System.Int32",
    "decimal": "System.Decimal",
    "hashtable": "System.Collections.Hashtable",
    "long": "System.Int64",
    "regex": "System.Text.RegularExpressions.Regex",
    "string": "System.String",
    "type": "System.Type",
    "void": "System.Void",
    "object": "System.Object",
    "array": "System.Array",
}
"""Names of types that PowerShell itself has."""
OUTSIDE_OF_COMMANDS = {
    **dict.fromkeys(
        ("Get-HnsNetwork", "Get-HnsEndpoint", "Get-HnsPolicyList", "Remove-HnsNetwork"),
        "module HostNetworkingService, microsoft/SDN hns.psm1",
    ),
    **dict.fromkeys(
        ("Get-BgpRouter", "Get-BgpPeer", "Get-BgpCustomRoute", "Get-BgpRouteInformation"),
        "module RemoteAccess, Microsoft's reference",
    ),
}
"""Commands that the machine of the table did not have, with their source."""
OUTSIDE_OF_TYPES = {
    "ordered": "about_Hash_Tables: since 3.0",
    "ref": "about_Ref",
    "switch": "System.Management.Automation.SwitchParameter",
}
OUTSIDE_OF_MEMBERS = {
    **dict.fromkeys(("BgpIdentifier", "LocalASN"), "Get-BgpRouter"),
    **dict.fromkeys(("PeerName", "PeerIPAddress", "ConnectivityStatus"), "Get-BgpPeer"),
    **dict.fromkeys(("Network",), "Get-BgpCustomRoute"),
    **dict.fromkeys(
        ("DestinationNetwork", "NextHop", "LearnedFromPeer"), "Get-BgpRouteInformation"
    ),
    **dict.fromkeys(("ExecutablePath", "CommandLine", "ProcessId"), "Win32_Process"),
    "HotFixID": "Win32_QuickFixEngineering",
    "CurrentTimeZone": "Win32_OperatingSystem",
    "LoadPercentage": "Win32_Processor",
    **dict.fromkeys(("FreePhysicalMemory", "TotalVisibleMemorySize"), "Win32_OperatingSystem"),
    "ReturnValue": "Win32_Process.Create",
    "ID": "HNS networks and endpoints",
    "FullyQualifiedErrorId": "System.Management.Automation.ErrorRecord",
    "SessionState": "System.Management.Automation.EngineIntrinsics",
    "LanguageMode": "System.Management.Automation.SessionState",
    "PSObject": "about_Intrinsic_Members",
    "PSVersion": "about_Automatic_Variables: $PSVersionTable",
    "GetResult": "System.Runtime.CompilerServices.TaskAwaiter, whose namespace the table lacks",
    "StatusCode": "WebResponseObject",
    "Content": "WebResponseObject",
}
"""Members of objects of no type in the table, with whose they are."""


@functools.cache
def types() -> dict[str, list[str]]:
    """Type to its members, all names in lower case."""
    found = {}
    for line in (TABLES / "net-framework-4.7.2.tsv").read_text(encoding="utf-8").splitlines():
        name, members = line.split("\t")
        found[name.lower()] = members.lower().split(" ")
    return found


@functools.cache
def any_member() -> frozenset[str]:
    """Members of objects of any type: ``.name``, and ``.name(2)`` for each number of parameters."""
    return frozenset(
        one
        for members in types().values()
        for member in members
        if member.startswith(".")
        for one in spread(member)
    )


def spread(member: str) -> Iterator[str]:
    name, _, numbers = member.rstrip(")").partition("(")
    yield from ([f"{name}({number})" for number in numbers.split(",")] if numbers else [name])


@functools.cache
def all_commands() -> dict[str, set[str]]:
    """Command to its parameters, all in lower case."""
    rows = (TABLES / "commands-5.1.tsv").read_text(encoding="utf-8").splitlines()
    split = (f"{row}\t\t\t".split("\t") for row in rows)
    return {name.lower(): set(parameters.lower().split()) for name, _, _, parameters, *_ in split}


COMMON = {"erroraction", "verbose", "debug", "warningaction", "errorvariable", "outvariable"}
ALIASES = {
    "iwr": "Invoke-WebRequest",
    "%": "ForEach-Object",
    "?": "Where-Object",
    "select": "Select-Object",
}


def known_type(name: str) -> str:
    """The type's name in the table; empty: 4.7.2 has none."""
    plain = re.sub(r"\[.+\]$", "`1", name.removesuffix("[]")).lower()
    for one in (ACCELERATORS.get(plain, "").lower(), plain, f"system.{plain}"):
        if one in types():
            return one
    return ""


def lacks(named: list[list[Any]]) -> list[str]:
    """Return the names in a program that PowerShell 5.1 does not have."""
    own = {words[1].lower() for words in named if words[0] in ("function", "key")}
    return [problem for words in named if (problem := _lacking(words, own))]


def _lacking(words: list[Any], own: set[str]) -> str:
    kind, name, *more = words
    if kind == "syntax":
        return f"newer syntax: {name}"
    if kind == "type" or (kind == "new" and name):
        outside = name in OUTSIDE_OF_TYPES
        if not outside and not known_type(name.removesuffix("[]")):
            return f"type {name}"
        if (
            kind == "new"
            and not name.endswith("[]")
            and not _has(known_type(name), "..ctor", more[0])
        ):
            return f"{name} of {more[0]} arguments"
    if kind == "command" and name.lower() not in own and name not in OUTSIDE_OF_COMMANDS:
        return _command(ALIASES.get(name.lower(), name), more)
    if kind == "member":
        return _member(name, more[0], more[1], own)
    return ""


def _has(owner: str, member: str, number: int) -> bool:
    wanted = {member} if number < 0 else {f"{member}({number})", f"{member}(*)"}
    return any(not wanted.isdisjoint(spread(one)) for one in types().get(owner, ()))


def _command(name: str, given: list[str]) -> str:
    known = all_commands().get(name.lower())
    if known is None:
        return f"command {name}"
    for parameter in given:
        fits = [one for one in known | COMMON if one.startswith(parameter.lower())]
        if not fits:
            return f"{name} -{parameter}"
    return ""


def _member(owner: str, name: str, number: int, own: set[str]) -> str:
    key = name.lower()
    if owner:
        type_ = known_type(owner)
        constructor = key == "new"
        if owner in OUTSIDE_OF_TYPES or owner == "?" or (constructor and owner.endswith("[]")):
            return ""
        found = _has(type_, "..ctor" if constructor else f"::{key}", number)
        return "" if found else f"[{owner}]::{name}, arguments: {number}"
    wanted = {f".{key}"} if number < 0 else {f".{key}({number})", f".{key}(*)"}
    if not wanted.isdisjoint(any_member()) or name in OUTSIDE_OF_MEMBERS:
        return ""
    return "" if number < 0 and key in own else f".{name}, arguments: {number}"


def inline() -> Iterator[tuple[str, str]]:
    """Scripts in the commands of manifests."""
    for path in sorted((ROOT / "manifests").rglob("*.yaml")):
        for document in yaml.safe_load_all(re.sub(r"\$\{\w+\}|\{\{.*?\}\}", "x", path.read_text())):
            for number, script in enumerate(_scripts(document)):
                yield f"{path.relative_to(ROOT)} {number}", script


def _scripts(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for value in node.values():
            yield from _scripts(value)
    elif isinstance(node, list):
        words = [str(item) for item in node]
        if "-Command" in words and any("powershell" in word.lower() for word in words):
            yield " ".join(words[words.index("-Command") + 1 :])
        for value in node:
            yield from _scripts(value)


TARGET: Any = SimpleNamespace(host="10.0.0.1", port=8080)


def sources() -> dict[str, str]:
    """Every Windows program by its place."""
    files = {
        str(path.relative_to(ROOT)): path.read_text(encoding="ascii")
        for path in sorted((ROOT / "manifests").rglob("*.ps1"))
    }
    page = (ROOT / "docs" / "windows-programs.md").read_text(encoding="utf-8")
    fenced = re.findall(r"```powershell\n(.*?)```", page, re.DOTALL)
    documented = {f"docs/windows-programs.md {n}": text for n, text in enumerate(fenced)}
    demo = {"the demo's command": " ".join(commands._web_request(TARGET)[1:])}
    return {**files, **dict(inline()), **programs(), **documented, **demo}


@pytest.fixture(scope="module")
def harness() -> Iterator[Harness]:
    one = Harness()
    yield one
    one.end()


@pytest.mark.parametrize("place", sources())
def test_a_program_uses_nothing_that_5_1_lacks(harness: Harness, place: str) -> None:
    assert lacks(harness.named(sources()[place])) == []


@pytest.mark.parametrize(
    ("planted", "found"),
    [
        ("$x = $null ?? 1", "newer syntax: $null ?? 1"),
        ("$x ??= 1", "newer syntax: $x ??= 1"),
        ("$x = ${a}?.b", "newer syntax: ${a}?.b"),
        ("$x = ${a}?[0]", "newer syntax: ${a}?[0]"),
        ("$true ? 1 : 2", "newer syntax: $true ? 1 : 2"),
        ("'a' && 'b'", "newer syntax: 'a' && 'b'"),
        ('"`u{20ac}"', 'newer syntax: "`u{20ac}"'),
        ("$x = 5u", "newer syntax: 5u"),
        ("$x = [Math]::Clamp(1, 2, 3)", "[Math]::Clamp, arguments: 3"),
        ("'{}' | ConvertFrom-Json -AsHashtable", "ConvertFrom-Json -AsHashtable"),
        ("1 | ForEach-Object -Parallel { }", "ForEach-Object -Parallel"),
        ("Get-Uptime", "command Get-Uptime"),
        ("$x = [System.Half]::new()", "type System.Half"),
        (
            "$x = [System.IO.File]::ReadAllTextAsync('x')",
            "[System.IO.File]::ReadAllTextAsync, arguments: 1",
        ),
        (
            "$x = New-Object System.Net.Sockets.UnixDomainSocketEndPoint('x')",
            "type System.Net.Sockets.UnixDomainSocketEndPoint",
        ),
        ("$x = 'a'.EnumerateRunes()", ".EnumerateRunes, arguments: 0"),
        ("ConvertTo-Json -EscapeHandling EscapeNonAscii", "ConvertTo-Json -EscapeHandling"),
    ],
)
def test_what_5_1_lacks_is_found(harness: Harness, planted: str, found: str) -> None:
    path = ROOT / "manifests" / "probes" / "stream-agent.ps1"
    text = path.read_text(encoding="ascii")
    for script in (planted, text.replace("Set-StrictMode -Version 2.0\n", planted + "\n", 1)):
        assert found in lacks(harness.named(script))


def test_every_exception_is_used() -> None:
    text = "\n".join(sources().values())
    names = (*OUTSIDE_OF_COMMANDS, *OUTSIDE_OF_TYPES, *OUTSIDE_OF_MEMBERS)
    assert [name for name in names if name not in text] == []
