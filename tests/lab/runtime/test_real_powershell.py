# SPDX-License-Identifier: Apache-2.0
"""A real PowerShell runs the probe programs in a lab's Windows containers, and no other program
there.

Tests of what both can do also run with the lab's stand-in.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hybridlab.cli import powershell
from hybridlab.runtime.model import PowerShell, ProbeSpec

from .conftest import SERVERCORE, Lab, Ran, content, labs

pytestmark = [pytest.mark.powershell, pytest.mark.xdist_group("real-powershell")]
PROGRAMS = Path(__file__).parents[3] / "manifests" / "probes"
MARK = "@@PROBE@@ "
IDLE = ("powershell.exe", "-Command", "Start-Sleep 3600")
OPTIONS = ("-NoLogo", "-NoProfile", "-NonInteractive", "-ExecutionPolicy", "Bypass")
PROTOCOL = "# probe-protocol: 2\n"


@pytest.fixture(scope="module")
def named() -> PowerShell:
    assert shutil.which("pwsh"), "no pwsh on the PATH"
    return powershell.named("pwsh")


@pytest.fixture(scope="module")
def real(named: PowerShell) -> Iterator[Lab]:
    for lab in labs(named, stop_grace_max_ms=10_000):
        lab.within = 120
        yield lab


@pytest.fixture(scope="module")
def stand_in() -> Iterator[Lab]:
    yield from labs(stop_grace_max_ms=10_000)


@pytest.fixture(params=["stand-in", "real"])
def either(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param.replace("-", "_"))


def program(name: str, old: str = "", new: str = "") -> dict[str, str]:
    """A probe program as a mounted file, changed where that is said."""
    text = (PROGRAMS / name).read_text()
    assert old in text
    return {f"C:\\probe\\{name}": content(text.replace(old, new) if old else text)}


def file(name: str, *arguments: str) -> tuple[str, ...]:
    return ("powershell.exe", *OPTIONS, "-File", f"C:\\probe\\{name}", *arguments)


def own(text: str, name: str = "own.ps1") -> dict[str, str]:
    """A program of a test's own, which a real PowerShell runs as it speaks the protocol."""
    return {f"C:\\probe\\{name}": content(PROTOCOL + text)}


def documents(ran: Ran) -> list[dict[str, Any]]:
    return [
        json.loads(line.removeprefix(MARK))
        for line in ran.out.splitlines()
        if line.startswith(MARK)
    ]


async def logged(lab: Lab, container: str, words: str) -> str:
    """The first line of a container's log that has these words."""
    async for _, line in lab.runtime.logs(container, follow=True):
        if words in line.decode():
            return line.decode()
    raise AssertionError(f"the container ended without {words!r}")


def quit_at_once(*batches: dict[str, Any]) -> bytes:
    lines = (*batches, {"type": "quit"})
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


# --- the same as the stand-in ---


def test_an_agent_takes_its_input_and_ends_with_status_0(either: Lab, real: Lab) -> None:
    container = either.start("agent", SERVERCORE, command=IDLE, files=program("matrix-agent.ps1"))
    batch = {
        "type": "batch",
        "batch": "b",
        "attempts": [{"id": 1, "kind": "tcp", "host": "127.0.0.1", "port": 9, "give_up_ms": 2000}],
    }
    ran = either.exec(container, *file("matrix-agent.ps1"), stdin=quit_at_once(batch))
    hello, *others = documents(ran)
    assert (ran.code, hello["type"], hello["program"]) == (0, "hello", "matrix-agent.ps1"), ran
    results = [one for said in others if said["type"] == "results" for one in said["results"]]
    assert [one["verdict"] for one in results] == ["REFUSED"], ran
    assert ("PowerShell 7" in hello["runtime"]) == (either is real)


def test_a_server_as_main_command_answers_pods_and_ends_at_the_signal(either: Lab) -> None:
    server = either.start(
        "server",
        SERVERCORE,
        command=file("echo-server.ps1", "-Ports", "8080,80"),
        files=program("echo-server.ps1"),
        env=(("POD_NAMESPACE", "demo"), ("POD_NAME", "Server"), ("NODE_NAME", "w1")),
    )
    line = json.loads(either.run(logged(either, server, "listening")).partition(MARK)[2])
    assert line["ports"] == [8080, 80]
    client = either.start("client", "busybox", command=("sleep", "3600"))
    for port in (80, 8080):
        ran = either.exec(
            client, "wget", "-q", "-O", "-", f"http://{either.address('server')}:{port}/x"
        )
        said = json.loads(ran.out)
        assert (said["client"], said["pod"], said["node"]) == (
            either.address("client"),
            "demo/Server",
            "w1",
        ), ran
    either.run(either.runtime.stop(server, grace=10))
    assert either.ended(server).exit_code == 143


def test_a_mounted_file_that_is_replaced_is_what_runs_next(either: Lab) -> None:
    container = either.start("updated", SERVERCORE, command=IDLE, files=program("stream-agent.ps1"))
    assert either.exec(container, *file("stream-agent.ps1"), stdin=quit_at_once()).code == 0
    update = {"C:\\probe\\stream-agent.ps1": content("'no probe program'")}
    either.run(either.runtime.update_files(container, update))
    ran = either.exec(container, *file("stream-agent.ps1"))
    assert (ran.code, "not emulated: the script file" in ran.err) == (1, True), ran
    read = either.exec(container, "powershell", "Get-Content C:\\probe\\stream-agent.ps1")
    assert read.out == "'no probe program'\r\n"


def test_a_program_that_is_replaced_is_the_one_that_a_process_reads(real: Lab) -> None:
    container = real.start("replaced", SERVERCORE, command=IDLE, files=own("'first'"))
    assert real.exec(container, *file("own.ps1")).out.strip() == "first"
    real.run(real.runtime.update_files(container, own("'second'")))
    assert real.exec(container, *file("OWN.ps1")).out.strip() == "second"


def test_a_command_that_is_cut_off_is_killed(either: Lab) -> None:
    container = either.start("cut", SERVERCORE, command=IDLE, files=program("echo-server.ps1"))
    serve = file("echo-server.ps1", "-Ports", "8088")

    async def begun() -> None:
        call = asyncio.create_task(either.execute(container, *serve))
        client = await either.started("asks", "busybox", command=("sleep", "3600"))
        get = ("wget", "-q", "-O", "-", f"http://{either.address('cut')}:8088/")
        while not (await either.execute(client, *get)).out:
            if call.done():
                # .NET's HttpListener on Linux breaks where a client comes between listen and accept
                assert "Value cannot be null" in call.result().err, call.result()
                call = asyncio.create_task(either.execute(container, *serve))
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        while (await either.execute(client, *get)).out:
            pass

    either.run(begun())
    either.run(either.runtime.stop(container, grace=1))
    assert either.ended(container).exit_code == 143


def test_the_kubelet_probes_by_exec(either: Lab) -> None:
    files = program("echo-server.ps1") | program("matrix-agent.ps1")
    container = either.start("probed", SERVERCORE, command=IDLE, files=files)

    def probed(name: str, within: float) -> tuple[bool, str]:
        argv = file(name)
        spec = ProbeSpec(kind="exec", node="w1", container=container, argv=argv, timeout=within)
        result = either.run(either.runtime.probe(spec))
        return result.ok, result.message

    ok, message = probed("echo-server.ps1", 5)
    assert (ok, "timed out after 5s" in message) == (False, True), message
    ok, message = probed("matrix-agent.ps1", 60)
    assert (ok, '"hello"' in message) == (True, True), message


def test_at_a_terminal_ctrl_c_ends_a_program(either: Lab) -> None:
    container = either.start("typed", SERVERCORE, command=IDLE, files=program("matrix-agent.ps1"))
    ran = either.exec(container, *file("matrix-agent.ps1"), stdin=b"\x03", tty=True)
    assert ran.code == 130


# --- nothing falls back ---


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("matrix-agent.ps1", "'PowerShell ' +", "'planted ' +"),
        ("stream-agent.ps1", "'PowerShell ' +", "'planted ' +"),
        ("echo-server.ps1", "program = 'echo-server.ps1'", "program = 'planted 1'"),
    ],
)
def test_a_change_of_a_program_shows(
    real: Lab, stand_in: Lab, name: str, old: str, new: str
) -> None:
    server = "echo" in name
    for lab in (real, stand_in):
        container = lab.start(
            "planted",
            SERVERCORE,
            command=file(name, "-Ports", "81") if server else IDLE,
            files=program(name, old, new),
        )
        if lab is stand_in:
            ran = None if server else lab.exec(container, *file(name), stdin=b"")
            said = ran.err if ran else lab.log(container, follow=True)
            assert "is not recorded" in said
        elif server:
            assert "planted" in lab.run(logged(lab, container, MARK))
        else:
            ran = lab.exec(container, *file(name), stdin=quit_at_once())
            assert documents(ran)[0]["runtime"].startswith("planted "), ran


@pytest.mark.parametrize(
    "words",
    [
        ("cmd", "/c", "powershell -File C:\\probe\\matrix-agent.ps1"),
        ("cmd.exe", "/s", "/c", "powershell.exe -NoProfile -File C:\\probe\\matrix-agent.ps1"),
        ("powershell", "powershell -File C:\\probe\\matrix-agent.ps1"),
        ("powershell", "-Command", "& C:\\probe\\matrix-agent.ps1"),
    ],
)
def test_a_probe_program_that_another_program_starts_is_not_emulated(
    real: Lab, words: tuple[str, ...]
) -> None:
    container = real.start("inner", SERVERCORE, command=IDLE, files=program("matrix-agent.ps1"))
    ran = real.exec(container, *words, stdin=quit_at_once())
    assert (ran.code, ran.err.startswith("not emulated: "), ran.out) == (1, True, ""), ran


def test_what_a_host_process_container_runs_stays_emulated(real: Lab) -> None:
    container = real.start(
        "host",
        "mcr.microsoft.com/oss/kubernetes/windows-host-process-containers-base-image:v1.0.0",
        system="windows",
        host_process=True,
        host_network=True,
        node="w1",
        command=IDLE,
        files=program("matrix-agent.ps1"),
    )
    ran = real.exec(container, *file("matrix-agent.ps1"), stdin=quit_at_once())
    assert "PowerShell 7" not in documents(ran)[0]["runtime"], ran


# --- its surroundings ---


def test_its_environment_is_the_pods_and_a_fixed_list(
    real: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = "[Environment]::GetEnvironmentVariables() | ConvertTo-Json -Compress"
    container = real.start(
        "variables",
        SERVERCORE,
        command=IDLE,
        files=own(script),
        env=(("Pod_Own", "x y"), ("DOTNET_STARTUP_HOOKS", "/x.dll"), ("HOME", "C:\\x")),
    )
    found = json.loads(real.exec(container, *file("own.ps1")).out)
    assert found.pop("Pod_Own") == "x y"
    assert {name for name in found if name.startswith("DOTNET")} == {
        "DOTNET_ROOT",
        "DOTNET_CLI_TELEMETRY_OPTOUT",
        "DOTNET_EnableDiagnostics",
        "DOTNET_MULTILEVEL_LOOKUP",
        "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT",
        "DOTNET_TieredPGO",
    }
    others = {name for name in found if not name.startswith("DOTNET")}
    assert others <= {
        "COMPUTERNAME",
        "HOME",
        "PATH",
        "Path",
        "POWERSHELL_TELEMETRY_OPTOUT",
        "POWERSHELL_UPDATECHECK",
        "POWERSHELL_DISTRIBUTION_CHANNEL",
        "PSModulePath",
        "TMPDIR",
    }, others
    assert found["HOME"] == "/root"


def test_it_writes_nowhere_outside_and_has_no_privileges(real: Lab, named: PowerShell) -> None:
    script = """
        foreach ($place in $PSHOME, '/opt/dotnet', '/usr/bin', '/lib', '/proc/sys/kernel') {
            try { [System.IO.File]::WriteAllText("$place/written", 'x'); "wrote $place" } catch { }
        }
        foreach ($place in 'HOME') { if ([System.IO.Directory]::Exists($place)) { "sees $place" } }
        ([System.IO.File]::ReadAllText('/proc/self/status') -split "`n") -match '^CapBnd'
        @([System.IO.Directory]::GetDirectories('/proc') -match '/[0-9]+$').Count -lt 4
    """
    script = script.replace("HOME'", f"{named.home}'")
    container = real.start("closed", SERVERCORE, command=IDLE, files=own(script))
    bound, few = real.exec(container, *file("own.ps1")).out.split()[1:]
    assert int(bound, 16) & (1 << 21 | 1 << 12) == 0, "neither SYS_ADMIN nor NET_ADMIN"
    assert few == "True"


def test_containers_of_a_pod_share_a_volume_with_what_is_emulated(real: Lab) -> None:
    script = "[System.IO.File]::WriteAllText('/c/shared/said.txt', 'by a process')"
    shared = {"C:\\shared": "volume"}
    writer = real.start("both", SERVERCORE, command=IDLE, files=own(script), empty_dirs=shared)
    reader = real.start("both", SERVERCORE, command=IDLE, empty_dirs=shared)
    assert real.exec(writer, *file("own.ps1")).code == 0
    read = "Get-Content C:\\Shared\\said.txt"
    for container in (writer, reader):
        assert real.exec(container, "powershell", read).out == "by a process\r\n"


def test_exit_codes_and_both_outputs_arrive_whole(real: Lab) -> None:
    script = "[Console]::Out.Write('o' * 300000); [Console]::Error.Write('e' * 300000); exit 3"
    container = real.start("codes", SERVERCORE, command=IDLE, files=own(script))
    ran = real.exec(container, *file("own.ps1"))
    assert (ran.code, len(ran.out), len(ran.err)) == (3, 300000, 300000)
    main = real.start("main", SERVERCORE, command=file("own.ps1"), files=own("'said'; exit 4"))
    assert real.ended(main).exit_code == 4
    assert real.log(main).strip() == "said"


def test_a_program_that_is_killed_says_so(real: Lab) -> None:
    script = "[System.Diagnostics.Process]::GetCurrentProcess().Kill()"
    container = real.start("killed", SERVERCORE, command=IDLE, files=own(script))
    assert real.exec(container, *file("own.ps1")).code == 137


def test_a_powershell_that_cannot_start_in_a_pod_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "pwsh.dll").write_text("garbled")
    (tmp_path / "dotnet").mkdir()
    launcher = tmp_path / "dotnet" / "dotnet"
    launcher.write_text("#!/bin/sh\necho it lacks a library >&2; exit 1\n")
    launcher.chmod(0o755)
    broken = PowerShell(home=str(tmp_path), dotnet=str(tmp_path / "dotnet"), version="7.0.0")
    from hybridlab.labd.launch import LabdFailed

    with pytest.raises(
        LabdFailed,
        match=rf"PowerShell 7.0.0 \({tmp_path}\) in a pod: exit status 1, it lacks a library",
    ):
        next(iter(labs(broken)))
