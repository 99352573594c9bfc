# SPDX-License-Identifier: Apache-2.0
"""The files of the probe programs follow the rules of the places where they run."""

from __future__ import annotations

import ast
import hashlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tree_sitter
import tree_sitter_pwsh

PROGRAMS = Path(__file__).parents[2] / "manifests" / "probes"
POWERSHELL = sorted(PROGRAMS.glob("*.ps1"))
PYTHON = sorted(PROGRAMS.glob("*.py"))
CMDLETS = {"New-Object", "ConvertTo-Json", "ConvertFrom-Json", "Where-Object", "ForEach-Object"}
"""What both Windows PowerShell 5.1 and PowerShell 7 have, on server core."""
PARSER = tree_sitter.Parser(tree_sitter.Language(tree_sitter_pwsh.language()))


def nodes(node: Any) -> Iterator[Any]:
    yield node
    for child in node.children:
        yield from nodes(child)


def wrong(source: bytes) -> list[str]:
    """Places that are not PowerShell."""
    return [
        f"line {node.start_point[0] + 1}: {node.text[:60]!r}"
        for node in nodes(PARSER.parse(source).root_node)
        if node.type == "ERROR" or node.is_missing
    ]


def named(path: Path) -> str:
    return path.name


@pytest.mark.parametrize("path", [*POWERSHELL, *PYTHON], ids=named)
def test_a_program_is_ascii_with_unix_lines_and_begins_with_the_protocol_line(path: Path) -> None:
    content = path.read_bytes()
    content.decode("ascii")
    assert b"\r" not in content
    assert content.startswith(b"# probe-protocol: 2\n")


@pytest.mark.parametrize("path", POWERSHELL, ids=named)
def test_a_powershell_program_parses(path: Path) -> None:
    assert wrong(path.read_bytes()) == []


@pytest.mark.parametrize(
    "broken", [b"if ($a) {", b"function { }", b"$x = @(1, 2", b"foreach ($a in $b { }"]
)
def test_what_is_not_powershell_does_not_parse(broken: bytes) -> None:
    assert wrong(broken)


@pytest.mark.parametrize("path", POWERSHELL, ids=named)
def test_a_powershell_program_calls_only_its_own_functions_and_cmdlets_of_both_editions(
    path: Path,
) -> None:
    root = PARSER.parse(path.read_bytes()).root_node
    own = {node.text.decode() for node in nodes(root) if node.type == "function_name"}
    called = {node.text.decode() for node in nodes(root) if node.type == "command_name"}
    called = {name for name in called if not name[0].isdigit()}  # the parser takes 0..15 for one
    assert own
    assert called - own - CMDLETS - {"Set-StrictMode"} == set()


@pytest.mark.parametrize("path", POWERSHELL, ids=named)
def test_a_powershell_program_avoids_the_traps_of_exec(path: Path) -> None:
    text = path.read_text(encoding="ascii")
    code = "\n".join(
        line.partition("#")[0] if line.lstrip().startswith("#") else line
        for line in text.splitlines()
    )
    assert not re.search(r"\$input\b", code, re.IGNORECASE), (
        "powershell.exe then swallows standard input until its end"
    )
    assert "[Console]::OutputEncoding" not in code, "throws without a console"
    assert "Write-Host" not in code
    assert "UTF8Encoding($false)" in code, "no byte order mark in front of the first line"
    assert "$ProgressPreference = 'SilentlyContinue'" in code
    assert "exit 3" in code
    for seven_only in ("??", "?.", "-Parallel", " && ", " || ", "-AsHashtable"):
        assert seven_only not in code


@pytest.mark.parametrize("path", POWERSHELL, ids=named)
def test_a_powershell_program_waits_for_nothing_but_its_queue(path: Path) -> None:
    """Every call that could wait is begun and tells its end to one queue.

    In .NET Framework each Task.WaitAny that times out leaves a continuation on every task.
    """
    code = path.read_text(encoding="ascii").replace(
        "$udp.Receive([ref]$from)", ""
    )  # in the warm-up, after Available
    called = set(
        re.findall(r"\.(\w+)\(", "\n".join(line.partition("# ")[0] for line in code.splitlines()))
    )
    assert not called & {
        "CopyTo",
        "Read",
        "ReadByte",
        "ReadLine",
        "ReadToEnd",
        "GetContext",
        "AcceptTcpClient",
    }
    assert not called & {"Receive", "WaitOne", "Wait", "WaitAny", "WaitAll", "Sleep"}
    assert "TryTake" in called


@pytest.mark.parametrize("path", POWERSHELL, ids=named)
def test_a_powershell_program_assigns_no_automatic_variable(path: Path) -> None:
    code = "\n".join(
        line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")
    )
    names = "this|args|error|event|host|matches|home|pid|sender|foreach|switch|stacktrace|null|true|false|_"
    assert not re.findall(rf"\$(?:{names})\s*=[^=]", code, re.IGNORECASE)


@pytest.mark.parametrize("path", POWERSHELL, ids=named)
def test_a_powershell_program_compares_without_regard_to_culture_and_with_regard_to_case(
    path: Path,
) -> None:
    code = "\n".join(
        line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")
    )
    assert not re.search(r" -(match|notmatch|replace|like|contains|in) ", code)


@pytest.mark.parametrize("path", POWERSHELL, ids=named)
def test_a_powershell_program_reads_its_own_hash_where_fips_algorithms_alone_are_allowed(
    path: Path,
) -> None:
    """There .NET Framework's SHA256.Create() throws, as its SHA256Managed is not validated: the program would end."""
    lines = path.read_text(encoding="ascii").splitlines()
    managed = [number for number, line in enumerate(lines) if "SHA256]::Create()" in line]
    assert managed
    for number in managed:
        assert (
            "try { $sha = New-Object System.Security.Cryptography.SHA256CryptoServiceProvider }"
            in lines[number - 1]
        )
        assert lines[number].strip().startswith("catch {")


def test_nothing_expires_at_the_first_look() -> None:
    """Events that came while the program had no processor enter its queue only after the first
    check."""
    matrix, stream = (
        (PROGRAMS / name).read_text() for name in ("matrix-agent.ps1", "stream-agent.ps1")
    )
    assert re.search(
        r"if \(\$S\.asked -lt 0\).*?elseif \(Test-Over[^\n]*\n\s*Stop-Expired \$S",
        matrix,
        re.DOTALL,
    )
    assert matrix.count("Stop-Expired $S") == 1
    assert not re.findall(r"\$Now -ge [^)]*(?:deadline|Deadline|stall)", stream)
    assert len(re.findall(r"\$over = Test-Over |elseif \(\(Test-Over ", stream)) == 4


@pytest.mark.parametrize("name", ["matrix-agent.ps1", "stream-agent.ps1"])
def test_powershell_never_reads_so_error_nor_beside_a_pending_receive(name: str) -> None:
    """Reading it clears it, and the call that is under way would not learn of it."""
    text = (PROGRAMS / name).read_text().replace("$udp.Receive([ref]$from)", "")
    assert not re.search(r"GetSocketOption|SocketOptionName|\.Receive\(|\.Peek\b", text)


def test_every_look_into_a_dns_answer_is_within_its_bounds() -> None:
    """Strict mode 2.0 reads an index out of range as nothing, so as 0: as the end of a name, or an answer of none."""
    root = PARSER.parse((PROGRAMS / "matrix-agent.ps1").read_bytes()).root_node
    bodies = [node.text.decode() for node in nodes(root) if node.type == "function_statement"]
    lookers = {body.split()[1].partition("(")[0]: body for body in bodies if "$Packet[$" in body}
    assert set(lookers) == {"Read-Number"}
    assert "throw 'cut short'" in lookers["Read-Number"].partition("$Packet[$")[0]


def test_the_sections_of_stream_agents_are_the_same_in_both_languages() -> None:
    def sections(name: str) -> list[str]:
        return re.findall(r"# --- ([\w ]+?) -+", (PROGRAMS / name).read_text())

    assert [
        section
        for section in sections("stream-agent.ps1")
        if section not in ("lines out", "markers")
    ] == sections("stream_agent.py")
    assert sections("echo-server.ps1") == sections("echo_server.py")


@pytest.mark.parametrize("path", PYTHON, ids=named)
def test_a_python_program_is_python_3_8_and_imports_the_standard_library_only(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 8))
    imported = {
        alias.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    imported |= {
        str(node.module).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
    }
    assert imported <= sys.stdlib_module_names
    methods = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not methods & {"removeprefix", "removesuffix"}, "these came with Python 3.9"


def test_the_lab_has_recorded_the_windows_programs_as_they_are() -> None:
    recorded = Path(__file__).parents[2] / "lib" / "hybridlab" / "probe_programs" / "recorded.json"
    assert json.loads(recorded.read_text()) == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in POWERSHELL
    }, (
        "compare the changed program with docs/probe-protocol.md and what the lab emulates, then record it"
    )


@pytest.mark.parametrize("path", [*PYTHON, *POWERSHELL], ids=lambda path: path.name)
def test_no_program_reads_a_wall_clock_which_may_jump(path: Path) -> None:
    text = path.read_text(encoding="ascii")
    assert not re.search(
        r"\btime\.(time|time_ns|localtime|gmtime)\b|\bdatetime\b|Get-Date|DateTime|TickCount", text
    )
