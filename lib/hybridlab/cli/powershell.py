# SPDX-License-Identifier: Apache-2.0
"""The folders of the PowerShell that a user names for Windows pods; PowerShell itself reports
them."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
from pathlib import Path

from hybridlab.cluster.exits import USAGE, Stop
from hybridlab.kernel import namespaces
from hybridlab.runtime.model import PowerShell

_WITHIN = 60.0
"""The time limit, in seconds, for PowerShell's start; even a cold start on a busy machine takes
much less."""
_ASKED = (
    "$PSHOME; [System.Runtime.InteropServices.RuntimeEnvironment]::GetRuntimeDirectory(); "
    "'' + $PSVersionTable.PSVersion"
)
_QUIET = {
    "POWERSHELL_TELEMETRY_OPTOUT": "1",
    "POWERSHELL_UPDATECHECK": "Off",
    "DOTNET_EnableDiagnostics": "0",
}
_SYSTEM = ("/usr/bin", "/usr/lib", "/etc", "/root", "/home", "/var/lib", "/proc", "/dev")
"""Folders that must not be visible in a container, nor any folder that contains them."""


def named(program: str) -> PowerShell:
    """Return the folders of the PowerShell that ``program`` starts. Raise Stop if it starts no
    PowerShell on this machine."""
    path = shutil.which(program)
    if path is None:
        raise Stop(USAGE, f"--powershell={program}: this program does not exist")
    status, lines, error = _asked(path)
    if status or len(lines) < 3 or not lines[2][:1].isdigit():
        said = f": {error}" if error else ""
        raise Stop(USAGE, f"--powershell={program}: does not run as PowerShell 7 here{said}")
    home = Path(lines[0]).resolve()
    runtime = Path(lines[1]).resolve()
    dotnet = home if runtime == home else runtime.parents[min(2, len(runtime.parents) - 1)]
    for folder, has in ((home, "pwsh.dll"), (dotnet, "pwsh" if dotnet == home else "dotnet")):
        if _shows_more(folder):
            raise Stop(
                USAGE,
                f"--powershell={program}: its folder {folder} also contains files of the system "
                "or of a user, which pods must not see; "
                "name a PowerShell that has a folder of its own",
            )
        if not (folder / has).is_file():
            raise Stop(USAGE, f"--powershell={program}: its folder {folder} does not contain {has}")
    return PowerShell(home=str(home), dotnet=str(dotnet), version=lines[2])


def _asked(path: str) -> tuple[int, list[str], str]:
    """Run a PowerShell that prints its folders. Return its exit status, its lines, and its first
    line on standard error.

    Raise Stop.
    """
    words = [path, "-NoLogo", "-NoProfile", "-NonInteractive", "-Command", _ASKED]
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **_QUIET},
            start_new_session=True,  # to kill programs that it starts, too
            preexec_fn=lambda: namespaces.die_with_parent(signal.SIGKILL),  # noqa: PLW1509
        )
    except OSError as error:
        raise Stop(USAGE, f"--powershell={path}: cannot be run: {error.strerror}") from error
    try:
        out, err = process.communicate(timeout=_WITHIN)
    except subprocess.TimeoutExpired:
        raise Stop(USAGE, f"--powershell={path}: printed nothing within {_WITHIN:g} s") from None
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    lines = out.decode(errors="replace").split("\n")
    errors = err.decode(errors="replace").strip().splitlines()
    return process.returncode, [line.strip() for line in lines], errors[0] if errors else ""


def _shows_more(folder: Path) -> bool:
    """Return whether a folder is, or contains, a user's home or a folder of the system."""
    homes = {Path.home(), *(Path(entry.pw_dir) for entry in pwd.getpwall() if entry.pw_dir)}
    closed = {path.resolve() for path in (*homes, *map(Path, _SYSTEM))}
    return any(folder == path or folder in path.parents for path in closed)
