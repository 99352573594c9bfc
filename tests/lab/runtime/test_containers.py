# SPDX-License-Identifier: Apache-2.0
"""The life of containers: start, end, logs and files; no process of a stopped container
continues."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hybridlab.runtime.contract import RuntimeRefused
from hybridlab.runtime.model import ContainerSpec, ExecSpec
from hybridlab.runtime.streams import LazyReader

if TYPE_CHECKING:
    from tests.lab.runtime.conftest import Lab

SERVERCORE = "mcr.microsoft.com/windows/servercore:ltsc2022"
LOOP = ("sh", "-c", "while true; do sleep 3600; done")


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something outside this process; the lab's own timeout bounds it."""
    while not condition():  # noqa: ASYNC110 - another process sends no event
        await asyncio.sleep(0.01)


def processes(marker: str) -> list[str]:
    """Command lines on this machine that contain ``marker``: labd's are seen from outside."""
    lines = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if marker in line:
                lines.append(line)
    return lines


def test_a_main_process_ends_with_its_status_and_its_output_in_the_log(lab: Lab) -> None:
    container = lab.start(
        "ends", "busybox", command=("sh", "-c", "echo out; echo err >&2; printf partial; exit 3")
    )
    ended = lab.ended(container)
    assert (ended.exit_code, ended.reason) == (3, "Error")
    assert sorted(lab.log(container).split()) == ["err", "out", "partial"]


@pytest.mark.parametrize(
    ("image", "command", "words"),
    [
        ("busybox", "nosuch", 'exec: "nosuch": executable file not found in $PATH: unknown'),
        (
            "busybox",
            "/bin/nosuch",
            'exec: "/bin/nosuch": stat /bin/nosuch: no such file or directory: unknown',
        ),
        (SERVERCORE, "nosuch.exe", "The system cannot find the file specified.: unknown"),
    ],
)
def test_a_missing_command_ends_the_container_with_the_runtimes_words(
    lab: Lab, image: str, command: str, words: str
) -> None:
    ended = lab.ended(lab.start(f"missing-{abs(hash(command))}", image, command=(command,)))
    assert (ended.exit_code, ended.reason) == (128, "ContainerCannotRun")
    assert ended.message.endswith(words)


def test_exec_words_a_missing_command_as_the_runtimes_do(lab: Lab) -> None:
    linux = lab.start("words-linux", "busybox", command=("sleep", "3600"))
    windows = lab.start("words-windows", SERVERCORE, command=("powershell", "Start-Sleep 3600"))
    assert lab.exec(linux, "curl", "x").result.start_error == (
        "OCI runtime exec failed: exec failed: unable to start container process: "
        'exec: "curl": executable file not found in $PATH: unknown'
    )
    error = lab.exec(windows, "nc", "x").result.start_error
    assert error is not None
    assert "hcs::System::CreateProcess" in error
    assert error.endswith("The system cannot find the file specified.: unknown")


def test_what_the_image_has_and_the_lab_has_not_is_not_emulated(lab: Lab) -> None:
    linux = lab.start("honest-linux", "busybox:1.36", command=("sleep", "3600"))
    windows = lab.start("honest-windows", SERVERCORE, command=("powershell", "Start-Sleep 3600"))
    ran = lab.exec(linux, "traceroute", "x")
    assert (ran.code, ran.out, ran.err) == (
        1,
        "",
        "not emulated: traceroute in image busybox:1.36\n",
    )
    ran = lab.exec(linux, "sh", "-c", "traceroute x")
    assert (ran.code, ran.err) == (1, "not emulated: traceroute in image busybox:1.36\n")
    ran = lab.exec(windows, "netsh", "int")
    assert (ran.code, ran.err) == (1, f"not emulated: netsh in image {SERVERCORE}\n")
    ran = lab.exec(windows, "powershell", "Get-HnsNetwork")
    assert (ran.code, ran.err) == (
        1,
        "not emulated: cmdlet Get-HnsNetwork outside a HostProcess container\n",
    )


def test_nothing_of_a_stopped_container_lives_on(lab: Lab) -> None:
    marker = "7654321"
    main = lab.start("stopped", "busybox", command=("sh", "-c", f"sleep {marker} & sleep {marker}"))
    aside = lab.start("aside", "busybox", command=("sleep", "3600"))

    async def background(container: str) -> None:
        await lab.execute(container, "sh", "-c", f"(setsid sleep {marker} &) ; sleep {marker}")

    async def scenario() -> None:
        tasks = [asyncio.create_task(background(container)) for container in (main, aside)]
        await until(lambda: len(processes(f"sleep {marker}")) >= 6)
        for container in (main, aside):
            await lab.runtime.stop(container, grace=0)
        await asyncio.gather(*tasks)

    lab.run(scenario())
    assert processes(marker) == []
    assert lab.exits[main].exit_code == 137


def test_a_cancelled_exec_is_killed(lab: Lab) -> None:
    marker = "7654322"
    container = lab.start("cancelled", "busybox", command=("sleep", "3600"))

    async def scenario() -> None:
        null = os.open(os.devnull, os.O_RDWR)
        spec = ExecSpec(container=container, argv=("sh", "-c", f"sleep {marker}; true"))
        call = asyncio.create_task(lab.runtime.exec(spec, stdin=None, stdout=null, stderr=null))
        await until(lambda: bool(processes(f"sleep {marker}")))
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        await until(lambda: not processes(f"sleep {marker}"))
        os.close(null)

    lab.run(scenario())


def test_exec_statuses_are_the_shells(lab: Lab) -> None:
    container = lab.start("statuses", "busybox", command=("sleep", "3600"))
    assert lab.exec(container, "sh", "-c", "exit 7").code == 7
    assert lab.exec(container, "sh", "-c", "kill -9 $$").code == 137
    assert lab.exec(container, "false").code == 1
    assert lab.exec(container, "true").code == 0


def test_standard_input_reaches_programs_and_applets(lab: Lab) -> None:
    container = lab.start("stdin", "busybox", command=("sleep", "3600"))
    assert lab.exec(container, "cat", stdin=b"hello").out == "hello"
    assert lab.exec(container, "cat").out == ""


def test_logs_follow_until_the_container_ends(lab: Lab) -> None:
    container = lab.start(
        "followed", "busybox", command=("sh", "-c", "echo one; sleep 0.05; echo two")
    )
    assert lab.log(container, follow=True) == "one\ntwo\n"
    container = lab.start("appended", "quay.io/calico/typha:v3.31.2")
    lab.run(lab.runtime.append_log(container, "Felix did something"))
    assert lab.log(container).endswith("container)\nFelix did something\n")


def test_mounted_files_are_read_and_follow_their_config_map(lab: Lab) -> None:
    files = {"/probe/x.sh": "ZWNobyBmaXJzdA=="}  # echo first
    container = lab.start("mounted", "busybox", command=("sleep", "3600"), files=files)
    assert lab.exec(container, "sh", "/probe/x.sh").out == "first\n"
    lab.run(lab.runtime.update_files(container, {"/probe/x.sh": "ZWNobyBzZWNvbmQ="}))
    assert lab.exec(container, "sh", "/probe/x.sh").out == "second\n"


def test_an_empty_dir_is_shared_by_the_containers_of_a_pod_only(lab: Lab) -> None:
    lab.run(lab.pod("pair", "l1"))
    one = lab.start("pair", "busybox", command=("sleep", "3600"), empty_dirs={"/cache": "shared"})
    two = lab.start("second", "busybox", pod="pair", command=LOOP, empty_dirs={"/data": "shared"})
    other = lab.start("stranger", "busybox", command=LOOP, empty_dirs={"/data": "shared"})
    lab.exec(one, "sh", "-c", "echo hello > /cache/file")
    assert lab.exec(two, "cat", "/data/file").out == "hello\n"
    assert lab.exec(other, "ls", "/data").out == ""


def test_a_pod_has_its_own_name_resolver_and_address(lab: Lab) -> None:
    container = lab.start("named", "python:3.12-alpine", command=("sleep", "3600"))
    ran = lab.exec(container, "sh", "-c", "hostname; cat /etc/resolv.conf; grep named /etc/hosts")
    assert ran.out.splitlines() == [
        "named",
        "search demo.svc.cluster.local svc.cluster.local cluster.local",
        "nameserver 10.96.0.10",
        "options ndots:5",
        f"{lab.address('named')}\tnamed",
    ]


def test_python_in_a_pod_is_a_real_interpreter_on_the_pods_network(lab: Lab) -> None:
    server = "import http.server; http.server.test(http.server.SimpleHTTPRequestHandler, port=8000)"
    container = lab.start("pyserver", "python:3.12-alpine", command=("python3", "-u", "-c", server))
    client = lab.start("pyclient", "busybox", command=("sleep", "3600"))
    script = f"until nc -z -w 1 {lab.address('pyserver')} 8000; do sleep 0.02; done; wget -q -O - http://{lab.address('pyserver')}:8000/etc/hostname"
    assert lab.exec(client, "sh", "-c", script).out == "pyserver\n"
    assert "GET /etc/hostname" in lab.log(container)
    check = "import ssl, json, sqlite3, asyncio, sys; print(sys.prefix)"
    assert lab.exec(container, "python3", "-c", check).out == "/usr/local\n"


def test_an_unknown_image_is_refused(lab: Lab) -> None:
    assert not lab.runtime.image("example.com/nosuch:1").known
    lab.run(lab.pod("unknown", "l1"))
    with pytest.raises(RuntimeRefused, match="not in the lab's image table"):
        lab.start("unknown", "example.com/nosuch:1")


def test_exec_in_a_container_that_ended_says_so(lab: Lab) -> None:
    container = lab.start("gone", "busybox", command=("true",))
    lab.ended(container)
    assert lab.exec(container, "true").result.start_error == "container gone is not running"
    lab.run(lab.runtime.remove(container))
    with pytest.raises(RuntimeRefused, match="no container"):
        lab.exec(container, "true")


def test_a_terminal_echoes_and_has_a_shell_with_job_control(lab: Lab) -> None:
    container = lab.start("tty", "busybox", command=("sleep", "3600"))
    ran = lab.exec(container, "sh", stdin=b"test -t 0 && echo $((40+2))\nexit 5\n", tty=True)
    assert ran.code == 5
    assert "42\r\n" in ran.out
    assert "can't access tty" not in ran.out


def test_ctrl_c_in_a_terminal_ends_programs_and_applets(lab: Lab) -> None:
    container = lab.start("ctrl-c", "busybox", command=("sleep", "3600"))

    async def typed(*argv: str, first: bytes) -> tuple[int | None, bytes]:
        """Type Ctrl-C once the command has said ``first``."""
        keys, screen = os.pipe(), os.pipe()
        spec = ExecSpec(container=container, argv=argv, tty=True)
        call = asyncio.create_task(
            lab.runtime.exec(spec, stdin=keys[0], stdout=screen[1], stderr=screen[1])
        )
        reader = LazyReader(screen[0])
        shown = await reader.readuntil(first)
        os.write(keys[1], b"\x03")
        result = await call
        reader.stop()
        for fd in (*keys, *screen):
            os.close(fd)
        return result.exit_code, shown

    ran = lab.run(typed("sh", "-c", "echo ready; exec sleep 3600", first=b"ready\r\n"))
    assert ran == (130, b"ready\r\n")
    code, _ = lab.run(typed("ping", "127.0.0.1", first=b"seq=0"))
    assert code == 130


def test_a_container_stopped_while_it_starts_is_stopped(lab: Lab) -> None:
    async def scenario() -> list[str]:
        found = []
        for number, command in enumerate((LOOP, ("sleep", "3600"))):
            pod = await lab.pod(f"hasty-{number}", "l1")
            spec = ContainerSpec(
                id=f"hasty-{number}",
                pod=pod.id,
                name="c",
                os="linux",
                image="busybox",
                command=command,
            )
            await asyncio.gather(lab.runtime.start(spec), lab.runtime.stop(spec.id, grace=0))
            await lab.runtime.remove(spec.id)
            found += processes("while true; do sleep 3600; done; hasty")
        return found

    assert lab.run(scenario()) == []
    # without grace a runtime sends SIGKILL alone, to programs and applets
    assert {lab.exits["hasty-0"].exit_code, lab.exits["hasty-1"].exit_code} == {137}


def test_commands_cancelled_at_any_moment_leave_nothing(lab: Lab) -> None:
    marker = "7654323"

    async def scenario() -> None:
        container = await lab.started("fickle", "busybox", command=("sleep", "3600"))
        null = os.open(os.devnull, os.O_RDWR)
        spec = ExecSpec(container=container, argv=("sh", "-c", f"sleep {marker}; true"))
        for delay in (0.0, 0.001, 0.003, 0.006, 0.01, 0.03, 0.001, 0.002):
            call = asyncio.create_task(lab.runtime.exec(spec, stdin=None, stdout=null, stderr=null))
            await asyncio.sleep(delay)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
        os.close(null)
        await lab.runtime.stop(container, grace=0)

    lab.run(scenario())
    assert processes(f"sleep {marker}") == []
