# SPDX-License-Identifier: Apache-2.0
"""A lab whose Windows pods run a real PowerShell ends like any other and leaves nothing behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hybridlab.cli import powershell
from tests.lab.lab_process import RunningLab, hybridlab, running_lab
from tests.lab.lifecycle import traces
from tests.lab.lifecycle.unprivileged import unprivileged_launcher

pytestmark = [
    pytest.mark.powershell,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on the PATH"),
]
PROGRAM = Path(__file__).parents[3] / "manifests" / "probes" / "echo-server.ps1"
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: server, namespace: default}
spec:
  nodeSelector: {kubernetes.io/os: windows}
  terminationGracePeriodSeconds: 0
  tolerations: [{operator: Exists}]
  volumes: [{name: probe, configMap: {name: probe}}]
  containers:
  - name: main
    image: mcr.microsoft.com/windows/servercore:ltsc2022
    command: [powershell.exe, -NoProfile, -File, 'C:\\probe\\echo-server.ps1']
    volumeMounts: [{name: probe, mountPath: 'C:\\probe'}]
    readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}
"""
UP = ("-m", "hybridlab", "up", "--profile", "small", "--powershell=pwsh")


@pytest.mark.parametrize("after", [0.2, 0.5, 0.8, 1.1, 1.5, 2.0, 3.0])
def test_killed_while_it_starts(tmp_path: Path, after: float) -> None:
    process = subprocess.Popen(
        [sys.executable, *UP, "--kubeconfig", str(tmp_path / "kubeconfig")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    time.sleep(after)
    found = traces.of(process.pid)
    process.kill()
    process.wait()
    assert found.left() == []


@pytest.mark.parametrize("point", ["starts", "runs", "labd"])
def test_killed_while_a_program_of_a_pod(tmp_path: Path, point: str) -> None:
    with running_lab(tmp_path, *UP[3:]) as lab:
        if point == "starts":
            lab.kubectl("create", "configmap", "probe", f"--from-file={PROGRAM}")
            lab.kubectl("apply", "-f", "-", stdin=POD)
            time.sleep(0.5)
        else:
            assert "listening" in served(lab)
        found = traces.of(lab.process.pid)
        assert point == "starts" or len(found.processes) >= 4, "no program runs"
        victim = next(
            pid
            for pid, role in found.processes.items()
            if role == ("labd" if point == "labd" else "up")
        )
        os.kill(victim, signal.SIGKILL)
        lab.process.wait(timeout=20)
        assert found.left() == []


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that other users can be shown, unlike pytest's own."""
    made = Path(tempfile.mkdtemp(prefix="hybridlab-powershell-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def copied(folder: Path, *, to: str) -> tuple[Path, Path]:
    """The root of .NET and ``$PSHOME``, copied, the latter to ``to``."""
    found = powershell.named("pwsh")
    return (
        shutil.copytree(found.dotnet, folder / "net"),
        shutil.copytree(found.home, folder / to),
    )


def a_tool(folder: Path) -> Path:
    """PowerShell as .NET installs tools: a program that starts another and waits for it."""
    net, home = copied(folder, to=".store/any/unix")
    shim = "Microsoft.PowerShell.GlobalTool.Shim"
    for name in (f"{shim}.dll", f"{shim}.deps.json", f"{shim}.runtimeconfig.json"):
        shutil.copy(home / name, home.parent / name)
    run = f'DOTNET_ROOT={net} PATH={net}:$PATH {net}/dotnet {home.parent}/{shim}.dll "$@"'
    return script(folder / "pwsh", f"export DOTNET_SYSTEM_GLOBALIZATION_INVARIANT=1; {run}")


def a_wrapper(folder: Path) -> Path:
    """A script that replaces itself."""
    net, home = copied(folder, to="powershell")
    words = "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT=1 exec"
    return script(folder / "pwsh", f'{words} {net}/dotnet {home}/pwsh.dll "$@"')


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("made", [a_tool, a_wrapper])
def test_a_program_runs_in_a_pod_by_a_powershell_that_is_installed_as(
    folder: Path, tmp_path: Path, made: Callable[[Path], Path]
) -> None:
    with running_lab(tmp_path, "--profile", "small", f"--powershell={made(folder)}") as lab:
        assert "listening" in served(lab)


def test_an_ordinary_user_runs_a_program_in_a_pod(folder: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("not started as root: the other tests already run as an ordinary user")
    (folder / "user").mkdir()
    user = unprivileged_launcher(folder / "user")
    assert not isinstance(user, str), user
    program = a_wrapper(folder)
    with running_lab(
        user.directory,
        *("--profile", "small", f"--powershell={program}"),
        launcher=user.launcher,
        environment=user.environment,
    ) as lab:
        assert "listening" in served(lab)
        found = traces.of(lab.process.pid)
        lab.process.kill()
        lab.process.wait(timeout=20)
        assert found.left() == []


def served(lab: RunningLab) -> str:
    """Start the pod, and return what its log says once it listens."""
    lab.kubectl("create", "configmap", "probe", f"--from-file={PROGRAM}")
    lab.kubectl("apply", "-f", "-", stdin=POD)
    lab.kubectl("wait", "--for=condition=Ready", "pod/server", "--timeout=50s")
    deadline = time.monotonic() + 30  # it listens before it says so
    while not (said := lab.kubectl("logs", "server").stdout):
        assert time.monotonic() < deadline, "it listens and says nothing"
    return said


@pytest.mark.parametrize(
    ("program", "code", "words"),
    [("/bin/true", 4, "does not run as PowerShell 7 here"), ("nowhere", 4, "does not exist")],
)
def test_what_is_no_powershell_is_refused_before_anything_starts(
    program: str, code: int, words: str
) -> None:
    done = hybridlab("up", f"--powershell={program}")
    assert (done.returncode, done.stdout) == (code, "")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
