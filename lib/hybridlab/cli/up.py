# SPDX-License-Identifier: Apache-2.0
"""``hybridlab up``: put a lab together, print that it is ready, keep it until a signal, and end it.

labd is started first. While labd enters its namespaces on one core, this process imports the API
server's libraries and makes certificates on another core.
"""

from __future__ import annotations

import gc
import os
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hybridlab.cli import powershell
from hybridlab.cluster import kubeconfig, rundir
from hybridlab.cluster.ending import EndRequest
from hybridlab.cluster.exits import ENVIRONMENT, USAGE, Stop
from hybridlab.kernel import open_files
from hybridlab.labd.launch import LabdFailed, LabdSettings, launch
from hybridlab.profiles.check import ProfileError
from hybridlab.profiles.load import load
from hybridlab.profiles.model import Profile

if TYPE_CHECKING:  # labd is started before faults are imported
    from hybridlab.faults.model import Taps


def run(
    *,
    profile_name: str,
    overrides: Sequence[str],
    kubeconfig_path: Path | None,
    port: int,
    ready_fd: int | None,
    powershell_program: str | None = None,
    taps: Taps | None = None,
) -> int:
    """Run a lab from start to end and return the exit code. Raise Stop for an impossible request."""
    begun = time.monotonic()
    end = EndRequest()
    end.listen()
    try:
        profile = load(profile_name, overrides)
    except ProfileError as error:
        raise Stop(USAGE, str(error)) from error
    nodes = sum(group.count for group in profile.nodes)
    if problem := open_files.lack(nodes):
        raise Stop(ENVIRONMENT, problem)
    if kubeconfig_path is not None:
        kubeconfig.check_writable(kubeconfig_path)
    if ready_fd is not None:
        _check_descriptor(ready_fd)
    real = powershell.named(powershell_program) if powershell_program is not None else None
    if real:
        profile = _labelled(profile, f"PowerShell-{real.version}")
    listener = _listen(port)
    # Collecting garbage while hundreds of modules are imported frees nothing and costs a fifth of the
    # start.
    gc.disable()
    settings = LabdSettings(applet_settings=_applet_settings(profile), nodes=nodes, powershell=real)
    labd = launch(settings)
    # Not before labd's start: labd passes the limit with which it was started on to pods' programs.
    open_files.raise_limit()

    # Imported only now, while labd starts on the other core, so that the lab is ready earlier.
    import asyncio

    from hybridlab.cluster.lab import Setting, run_until_signal

    directory = rundir.create()
    # absolute, since other commands read the path from other directories
    path = (kubeconfig_path or directory.kubeconfig).absolute()
    setting = Setting(
        profile=profile,
        listener=listener,
        labd=labd,
        directory=directory,
        kubeconfig=path,
        begun=begun,
        taps=taps,
        powershell=real.version if real else "",
    )
    try:
        return asyncio.run(
            run_until_signal(
                setting, lambda line: _say_ready(line, ready_fd, setting.kubeconfig), end
            )
        )
    except LabdFailed as error:
        raise Stop(ENVIRONMENT, _lacks(error)) from error
    finally:
        end.ignore()
        labd.kill()
        kubeconfig.remove_if_ours(path, directory.path)
        directory.remove()


def _labelled(profile: Profile, agents: str) -> Profile:
    """Return a profile in which a label on the Windows nodes names the program that runs their
    probe programs."""
    groups = (
        replace(group, labels={**group.labels, "hybridlab.windows-agents": agents})
        if group.os == "windows"
        else group
        for group in profile.nodes
    )
    return replace(profile, nodes=tuple(groups))


def _applet_settings(profile: Profile) -> dict[str, float | str | int]:
    timing = profile.timing
    return {
        "powershell_start_ms": timing.powershell_start_ms,
        "windows_refused_ms": timing.windows_refused_ms,
        "windows_probe_open_limit": profile.windows.probe_open_limit,
    }


def _check_descriptor(number: int) -> None:
    try:
        os.fstat(number)
    except OSError as error:
        raise Stop(USAGE, f"--ready-fd {number}: is not an open file descriptor") from error


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen(512)
    except OSError as error:
        listener.close()
        why = f"port {port} on 127.0.0.1 cannot be used: {error.strerror}"
        raise Stop(ENVIRONMENT, f"{why}; name another port with --port") from error
    return listener


def _lacks(error: LabdFailed) -> str:
    """Return one line for each feature that this machine lacks, with its remedy."""
    if not error.lacks:
        return str(error)
    between = "\n  " if len(error.lacks) > 1 else " "
    return between.join(["this machine cannot run a lab:", *map(str, error.lacks)])


def _say_ready(line: str, ready_fd: int | None, kubeconfig: Path) -> None:
    gc.freeze()
    gc.enable()
    print(line, flush=True)
    if sys.stdout.isatty():
        command = f"export KUBECONFIG={kubeconfig}; kubectl get nodes"
        print(f"  in another terminal: {command}\n  Ctrl-C ends the lab", flush=True)
    if ready_fd is not None:
        os.write(ready_fd, f"{line}\n".encode())
        os.close(ready_fd)
