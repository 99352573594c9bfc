# SPDX-License-Identifier: Apache-2.0
"""The real runtimes' messages when a command cannot be started: runc on Linux, hcsshim on
Windows."""

import errno
import os

from hybridlab.runtime.model import OS

START_ERROR_STATUS = 128
"""containerd's exit code for a container whose process never started."""


def reason(argv0: str, number: int = errno.ENOENT) -> str:
    """Return runc's message for a failed exec. The message differs, because runc looks a bare name
    up in $PATH and opens a path."""
    if "/" in argv0:
        words = {errno.ENOENT: "no such file or directory", errno.EACCES: "permission denied"}
        return f'exec: "{argv0}": stat {argv0}: {words.get(number, os.strerror(number).lower())}'
    if number == errno.ENOENT:
        return f'exec: "{argv0}": executable file not found in $PATH'
    return f'exec: "{argv0}": {os.strerror(number).lower()}'


def exec_failed(
    system: OS, container: str, argv: tuple[str, ...], number: int = errno.ENOENT
) -> str:
    """Return the message of a failed exec."""
    if system == "windows":
        return (
            f"failed to exec in container: failed to start exec: hcs::System::CreateProcess {container}: "
            f"The system cannot find the file specified.: unknown"
        )
    return f"OCI runtime exec failed: exec failed: unable to start container process: {reason(argv[0], number)}: unknown"


def exec_timed_out(system: OS, container: str) -> str:
    """Return the message of an exec that a busy node did not start in time."""
    why = f"hcs::System::CreateProcess {container}: The wait operation timed out."
    return (
        f"failed to exec in container: failed to start exec: {why if system == 'windows' else 'deadline exceeded'}"
        + (": unknown")
    )


def create_failed(
    system: OS, container: str, argv: tuple[str, ...], number: int = errno.ENOENT
) -> str:
    """Return the message of a container whose main process cannot be started."""
    if system == "windows":
        return (
            "failed to create containerd task: failed to create shim task: "
            f"hcs::System::CreateProcess {container}: The system cannot find the file specified.: unknown"
        )
    return (
        "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create "
        f"failed: unable to start container process: error during container init: {reason(argv[0], number)}: unknown"
    )
