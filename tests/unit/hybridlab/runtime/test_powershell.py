# SPDX-License-Identifier: Apache-2.0
"""The small PowerShell: language, cmdlets, error texts and exit codes, against servers on 127.0.0.1."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from hybridlab.powershell.applets import applets

from .conftest import Ran, http_answer, silent, tcp

if TYPE_CHECKING:
    from .conftest import Harness, Serve

POWERSHELL = applets()["powershell"]


def run(harness: Harness, *argv: str) -> Ran:
    ran = harness.run(POWERSHELL, "powershell", *argv)
    return Ran(ran.code, ran.out.replace("\r\n", "\n"), ran.err.replace("\r\n", "\n"))


def against(harness: Harness, serve: Serve, script: str) -> Ran:
    async def scenario() -> Ran:
        async with tcp(serve) as port:
            return await harness.call(
                POWERSHELL, "powershell", "-Command", script.replace("PORT", str(port))
            )

    ran = asyncio.run(scenario())
    return Ran(ran.code, ran.out.replace("\r\n", "\n"), ran.err.replace("\r\n", "\n"))


@pytest.mark.parametrize(
    ("script", "output"),
    [
        ("'hello'", "hello\n"),
        ('\'it\'\'s \' + 3 + " ""x"""', 'it\'s 3 "x"\n'),
        ("$x = 5; $x += 2; $x + 3", "10\n"),
        ("Write-Host one two; echo three", "one two\nthree\n"),
        ("1, 2, 3 | % { $_ + 2 }", "3\n4\n5\n"),
        ("1, 2, 3 | ? { $_ -gt 1 } | Select-Object -First 1", "2\n"),
        ("if (2 -lt 1) { 'a' } else { 'c' }; if ('X' -eq 'x') { 'b' }", "c\nb\n"),
        ("$i = 0; while ($i -lt 3) { $i += 1 }; $i", "3\n"),
        ("foreach ($n in 'a','b') { $n }", "a\nb\n"),
        (
            "$h = @{}; $h['b'] = 'x'; $h['B']; $h.Set_Item('b', 'y'); foreach ($k in $h.Keys) { $k + $h.Item($k) }",
            "x\nby\n",
        ),
        ("'{0}-{1}' -f 'a', 7", "a-7\n"),
        (
            "try { 'a'; Get-Content C:\\no -ErrorAction Stop; 'b' } catch { 'c'; $_.FullyQualifiedErrorId }",
            "a\nc\nPathNotFound,Microsoft.PowerShell.Commands.GetContentCommand\n",
        ),
        ("$null -eq $env:MISSING", "True\n"),
        ("'abc' -match 'b(.)'; $Matches[1]", "True\nc\n"),
        ("'ABC' -cmatch 'b'; 'abc' -notmatch 'x' -and 'a' -ceq 'a'", "False\nTrue\n"),
        ("$env:POD_NAME; hostname", "web\npod\n"),
        ("'x' # more", "x\n"),
        ("[Text.Encoding]::UTF8.GetBytes('hé')", "104\n195\n169\n"),
    ],
)
def test_the_language_computes_what_powershell_does(
    harness: Harness, script: str, output: str
) -> None:
    harness.env["POD_NAME"] = "web"
    ran = run(harness, "-NoProfile", "-Command", script)
    assert ran == Ran(0, output, "")


@pytest.mark.parametrize(
    ("script", "construct"),
    [
        ("Get-Process", "cmdlet Get-Process"),
        ("function f { 1 }; f", "the keyword function"),
        ("try { 1 } catch { 2 } finally { 3 }", "the keyword finally"),
        ("throw 'x'", "the keyword throw"),
        ("foreach ($n in 1, 2) { break }", "the keyword break"),
        ("if (1) { 2 } elseif (3) { 4 }", "the keyword elseif"),
        ("& { param($x) $x } 1", "the keyword param"),
        ("for ($i = 0; $i -lt 3; $i += 1) { $i }", "the keyword for"),
        ("Get-Date", "cmdlet Get-Date"),
        ("'a b' -split ' '", "operator -split"),
        ("'x' -like 'x*'", "operator -like"),
        ("if (-not 1) { 2 }", "the operator -not before an operand"),
        ("$i = 0; $i++", "the operator ++"),
        ("7 / 2", "the operator /"),
        ("7 - 2", "the operator -"),
        ("1..3", "the number 1."),
        ("1.5", "the number 1.5"),
        ("Write-Output 007", "the number 007"),
        ("[math]::Max(1, 2)", "the type [math]"),
        ("[long]3", "the type [long]"),
        ("$x = [System.IO.File]::ReadAllText('x')", "the type [io.file]"),
        ("Get-Content x -TotalCount 1", "parameter -TotalCount of Get-Content"),
        ("Write-Host -Object x", "parameter -Object of Write-Host"),
        (
            "Invoke-WebRequest http://127.0.0.1 -Proxy http://127.0.0.1",
            "parameter -Proxy of Invoke-WebRequest",
        ),
        (
            "Invoke-WebRequest http://127.0.0.1 -Timeout 3",
            "parameter -Timeout of Invoke-WebRequest",
        ),
        ("Invoke-WebRequest http://127.0.0.1 -TimeoutSec", "these arguments of Invoke-WebRequest"),
        ("notepad x", "command notepad"),
        ("New-Object Net.WebClient", "New-Object Net.WebClient"),
        ("'x'.Trim()", "method Trim of this value"),
        ("& { 1 }", "a command that is not a name"),
        ("'x' > C:\\file", "redirection"),
        ("hostname 2>$null", "redirection"),
        ("$missing", "the variable $missing, which this script does not set"),
        ("$global:x = 1", "the variable $global:x"),
        ('"a $env:POD_NAME"', "$ and ` in a double-quoted text"),
        ("@{ a = 1 }", "a hashtable with entries"),
        ("$ErrorActionPreference = 'Inquire'", "the ErrorAction inquire"),
        ("'a' -match '(?<name>a)'", "the regular expression '(?<name>a)'"),
        ("exit 300", "exit status 300"),
    ],
)
def test_what_it_does_not_know_is_named_and_fails(
    harness: Harness, script: str, construct: str
) -> None:
    ran = run(harness, script)
    assert ran.code == 1
    assert ran.err.lower() == f"not emulated: {construct}\n".lower()


def test_command_words_are_joined_into_a_script(harness: Harness) -> None:
    script = "(iwr -UseBasicParsing http://127.0.0.1:PORT/).Content"
    ran = against(harness, http_answer("<title>Welcome</title>"), script)
    assert ran == Ran(0, "<title>Welcome</title>\n", "")
    assert run(harness, "Write-Output", "a,", "b") == Ran(0, "a\nb\n", "")


def test_the_command_of_calicos_own_windows_specs_tells_by_its_exit_status(
    harness: Harness,
) -> None:
    """As e2e/pkg/utils/conncheck has it (projectcalico/calico@6ad21471)."""
    script = "Invoke-WebRequest 127.0.0.1:PORT -UseBasicParsing -TimeoutSec 1 -DisableKeepAlive -ErrorAction Stop | Out-Null"
    assert against(harness, http_answer("a page"), script) == Ran(0, "", "")
    assert against(harness, silent, script).code == 1
    assert run(harness, "Start-Sleep", "1").code == 0  # what its pods run


def test_a_web_response_is_listed_as_5_1_lists_it(harness: Harness) -> None:
    page = "<html><body><H1>Windows Container Web Server</H1><p>IP 10.1.2.3 callerCount 1 </body></html>"
    ran = against(
        harness,
        http_answer(page),
        "Invoke-WebRequest -Uri http://127.0.0.1:PORT -UseBasicParsing -TimeoutSec 5",
    )
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[2:6] == [
        "StatusCode        : 200",
        "StatusDescription : OK",
        "Content           : <html><body><H1>Windows Container Web Server</H1><p>IP",
        "                    10.1.2.3 callerCount 1 </body></html>",
    ]
    names = [line.split(" :")[0].strip() for line in lines if line[:1].isalpha()]
    assert names == [
        *(
            "StatusCode",
            "StatusDescription",
            "Content",
            "RawContent",
            "Forms",
            "Headers",
            "Images",
            "InputFields",
        ),
        *("Links", "ParsedHtml", "RawContentLength"),
    ]


def test_long_bodies_are_cut_in_the_list_and_whole_in_the_property(harness: Harness) -> None:
    body = "x" * 1000
    ran = against(harness, http_answer(body), "iwr http://127.0.0.1:PORT -UseBasicParsing")
    assert "..." in ran.out
    ran = against(
        harness, http_answer(body), "(iwr http://127.0.0.1:PORT -UseBasicParsing).Content.Length"
    )
    assert ran.out == "1000\n"


def test_a_timeout_is_worded_and_placed_as_5_1_does(harness: Harness) -> None:
    ran = against(
        harness,
        silent,
        "Invoke-WebRequest -Uri http://127.0.0.1:PORT -UseBasicParsing -TimeoutSec 1",
    )
    assert (ran.code, ran.out) == (1, "")
    lines = ran.err.splitlines()
    assert lines[:2] == ["Invoke-WebRequest : The operation has timed out.", "At line:1 char:1"]
    assert lines[2].startswith("+ Invoke-WebRequest -Uri http://127.0.0.1:")
    assert lines[2].endswith(" ...")
    assert lines[3] == "+ " + "~" * 67
    assert "CategoryInfo          : InvalidOperation: (System.Net.HttpWebRequest:Http" in lines[4]
    assert "FullyQualifiedErrorId : WebCmdletWebResponseException,Microsoft.PowerShel" in ran.err


def test_the_other_web_errors_have_their_own_words(harness: Harness, closed_port: int) -> None:
    def first_line(script: str) -> str:
        ran = run(harness, script)
        assert ran.code == 1
        return ran.err.splitlines()[0]

    refused = first_line(f"Invoke-WebRequest http://127.0.0.1:{closed_port} -UseBasicParsing")
    assert refused == "Invoke-WebRequest : Unable to connect to the remote server"
    unknown = first_line("Invoke-WebRequest http://nosuch/ -UseBasicParsing")
    assert unknown == "Invoke-WebRequest : The remote name could not be resolved: 'nosuch'"
    ran = against(
        harness, http_answer("", "404 Not Found"), "iwr http://127.0.0.1:PORT/x -UseBasicParsing"
    )
    assert ran.err.splitlines()[0] == "iwr : The remote server returned an error: (404) Not Found."
    ran = against(harness, http_answer("page"), "iwr http://127.0.0.1:PORT/")
    assert "Internet" in ran.err.splitlines()[0]
    assert ran.code == 1


def test_an_error_ends_its_statement_and_the_last_one_decides_the_exit_code(
    harness: Harness,
) -> None:
    ran = run(harness, "Invoke-WebRequest http://nosuch -UseBasicParsing; 'after'")
    assert (ran.code, ran.out) == (0, "after\n")
    ran = run(
        harness,
        "$ErrorActionPreference = 'Stop'; Invoke-WebRequest http://nosuch -UseBasicParsing; 'after'",
    )
    assert (ran.code, ran.out) == (1, "")
    ran = run(
        harness,
        "try { iwr http://nosuch -UseBasicParsing -ErrorAction Stop } catch { 'caught'; exit 3 }",
    )
    assert (ran.code, ran.out) == (3, "caught\n")
    assert run(harness, "exit 5").code == 5


def test_what_is_no_powershell_runs_nothing(harness: Harness) -> None:
    ran = run(harness, "'before'; if (1 { 'x' }")
    assert ran == Ran(1, "", "not emulated: the text at character 17: {\n")
    assert run(harness, "'before'; 'x").err == "not emulated: the text at character 11: 'x\n"


def test_of_script_files_the_probe_programs_alone_are_run(harness: Harness) -> None:
    harness.files.write(r"C:\scripts\hello.ps1", b"'from a file'\r\nexit 4\r\n")
    ran = run(harness, "-NoProfile", "-File", r"C:\scripts\hello.ps1")
    refused = "not emulated: the script file C:\\scripts\\hello.ps1, which is not a probe program\n"
    assert ran == Ran(1, "", refused)
    ran = run(harness, "-File", r"C:\scripts\nosuch.ps1")
    assert (ran.code, "a script file that does not exist" in ran.err) == (1, True)


@pytest.mark.parametrize(
    "argv", [("-EncodedCommand", "x"), ("-ExecutionPolicy", "Restricted"), ("-Command", "-"), ()]
)
def test_another_command_line_is_refused(harness: Harness, argv: tuple[str, ...]) -> None:
    ran = run(harness, *argv)
    assert ran.code == 1
    assert ran.err.startswith("not emulated: ")


def test_a_tcp_client_tells_open_from_refused(harness: Harness, closed_port: int) -> None:
    script = (
        "$c = New-Object Net.Sockets.TcpClient; try { $c.ConnectAsync('127.0.0.1', PORT).Wait(5000) }"
        " catch { 'REFUSED' }; $c.Close()"
    )
    assert against(harness, silent, script).out == "True\n"
    assert run(harness, script.replace("PORT", str(closed_port))).out == "REFUSED\n"


def test_powershell_starts_as_slowly_as_it_is_told(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []

    async def sleep(seconds: float, result: object = None) -> None:
        slept.append(seconds)

    monkeypatch.setattr("hybridlab.powershell.command_line.asyncio.sleep", sleep)
    harness.settings["powershell_start_ms"] = 2500
    assert run(harness, "1").out == "1\n"
    assert slept == [2.5]


def test_a_new_pods_first_action_is_tried_again_while_it_fails_at_once(
    harness: Harness, closed_port: int
) -> None:
    manifest = Path(__file__).parents[4] / "manifests" / "new-pod" / "windows.yaml"
    first = yaml.safe_load(manifest.read_text())["spec"]["containers"][0]["command"]
    harness.env |= {
        "TARGET_HOST": "127.0.0.1",
        "TARGET_PORT": str(closed_port),
        "GIVE_UP_MS": "1000",
        "NETWORK_MS": "50",
    }
    assert harness.run(POWERSHELL, *first) == Ran(4, "", "")

    async def opens_later() -> Ran:
        running = asyncio.create_task(harness.call(POWERSHELL, *first))
        await asyncio.sleep(0.3)
        server = await asyncio.start_server(silent, "127.0.0.1", closed_port)
        try:
            return await running
        finally:  # from Python 3.12 on, `async with` would wait for the connection, which is kept
            server.close()

    harness.env["NETWORK_MS"] = "4000"
    assert asyncio.run(opens_later()) == Ran(0, "", "")
    with socket.create_server(
        ("127.0.0.1", 0), backlog=0
    ) as full:  # further connections get no answer
        harness.env |= {"TARGET_PORT": str(full.getsockname()[1]), "GIVE_UP_MS": "100"}
        with socket.create_connection(full.getsockname()):
            assert harness.run(POWERSHELL, *first) == Ran(3, "", "")
