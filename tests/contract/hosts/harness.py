# SPDX-License-Identifier: Apache-2.0
"""A PowerShell that executes programs for Windows hosts, with functions of the cmdlets' names
(``harness.ps1``).

It runs without privileges in pid, mount and network namespaces of its own, where every file system
but its folder for temporary files is read-only.
"""

from __future__ import annotations

import json
import select
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.contract.processes import Process
from tests.contract.programs import startable

PROGRAM = Path(__file__).with_name("harness.ps1")
PWSH = ("pwsh", "-NoLogo", "-NoProfile", "-NonInteractive", "-File", str(PROGRAM))
ALONE = (
    "unshare",
    "--user",
    "--map-root-user",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount",
    "--net",
    "--ipc",
    "--mount-proc",
)
READ_ONLY = """
mount -t tmpfs tmpfs "$TMPDIR"
while read -r _ place _; do
  case $place in "$TMPDIR"|/proc*|/dev*) ;; *) mount -o remount,bind,ro "$place" ;; esac
done </proc/mounts 2>/dev/null
export HOME="$TMPDIR" DOTNET_EnableDiagnostics=0 POWERSHELL_TELEMETRY_OPTOUT=1
exec setpriv --no-new-privs --inh-caps=-all --bounding-set=-all "$@" 2>/dev/null
"""
"""Makes file systems read-only. A file system that cannot be remounted was read-only before, or is
locked for all users without privileges."""


class Refused(Exception):
    """The program uses a name that the tests do not replace; it was not executed, or not to its
    end."""


@dataclass(frozen=True)
class Ended:
    """The output and the calls of a program."""

    output: str
    exit: int
    problem: str = ""
    calls: list[list[str]] = field(default_factory=list)
    """Name and arguments of each call of a replaced function."""


class Harness:
    """A running PowerShell."""

    def __init__(self) -> None:
        startable(PWSH)
        if not shutil.which("unshare") or subprocess.run([*ALONE, "true"], check=False).returncode:
            pytest.skip("no namespaces of one's own on this machine")
        self.program = Process(
            [*ALONE, "sh", "-c", READ_ONLY, "sh", *PWSH],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def ask(self, **case: Any) -> dict[str, Any]:
        pipes = self.program.popen
        assert pipes.stdin
        assert pipes.stdout
        pipes.stdin.write(json.dumps(case).encode() + b"\n")
        pipes.stdin.flush()
        assert select.select([pipes.stdout], [], [], 120)[0], "it answers nothing"
        found: dict[str, Any] = json.loads(pipes.stdout.readline() or b'{"broken": "it ended"}')
        assert "broken" not in found, found
        return found

    def run(self, script: str, functions: dict[str, str] | None = None) -> Ended:
        """Execute a program. ``functions`` maps names to bodies. Raise Refused."""
        found = self.ask(script=script, functions=functions or {})
        if "refused" in found:
            raise Refused("; ".join(found["refused"]))
        output = "".join(f"{line}\r\n" for line in found["output"])
        calls = [[str(word) for word in call] for call in found["calls"]]
        return Ended(output, found["exit"], found["problem"] + "".join(found["errors"]), calls)

    def named(self, script: str) -> list[list[Any]]:
        """Return the names of .NET and PowerShell that a program uses."""
        found: list[list[Any]] = self.ask(script=script, named=True)["named"]
        return found

    def end(self) -> None:
        self.program.end()
