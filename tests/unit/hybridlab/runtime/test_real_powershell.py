# SPDX-License-Identifier: Apache-2.0
"""Only as many PowerShells start at a time as there are cores; a start lasts until a line."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import pytest

from hybridlab.runtime import real_powershell
from hybridlab.runtime.files import place
from hybridlab.runtime.model import PowerShell
from hybridlab.runtime.real_powershell import PowerShells, command, environment

from .conftest import BufferOutput


class FakeRun:
    """A process that the test ends."""

    def __init__(self, out: int) -> None:
        self.out = os.dup(out)
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.killed = False

    def write(self, data: bytes) -> None:
        os.write(self.out, data)

    def end(self, status: int = 0) -> None:
        self.ended.set_result(status)

    async def wait(self) -> int:
        return await asyncio.shield(self.ended)

    def kill(self) -> None:
        self.killed = True
        if self.out >= 0:
            os.close(self.out)
        self.out = -1


class FakeHost:
    """Starts what the test ends."""

    def __init__(self) -> None:
        self.runs: list[FakeRun] = []

    async def start(
        self,
        argv: tuple[str, ...],
        env: Mapping[str, str],
        stdin: int | None,
        stdout: int,
        stderr: int,
    ) -> FakeRun:
        self.runs.append(FakeRun(stdout))
        return self.runs[-1]


class Scene:
    """Four PowerShells that are wanted at once on two cores."""

    def __init__(self) -> None:
        self.host = FakeHost()
        host: Any = self.host
        self.shells = PowerShells()
        self.outputs = [(BufferOutput(), BufferOutput()) for _ in range(4)]
        self.tasks = [
            asyncio.create_task(self.shells.run(host, ("x",), {}, None, both))
            for both in self.outputs
        ]

    async def settled(self) -> int:
        """How many have been started."""
        for _ in range(20):
            await asyncio.sleep(0)
        await asyncio.sleep(0.02)
        return len(self.host.runs)

    async def end(self) -> list[Any]:
        for task in self.tasks:
            task.cancel()
        return await asyncio.gather(*self.tasks, return_exceptions=True)


def scene(
    monkeypatch: pytest.MonkeyPatch, play: Callable[[Scene], Coroutine[Any, Any, None]]
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208

    async def whole() -> None:
        one = Scene()
        try:
            await play(one)
        finally:
            await one.end()
        assert all(run.killed for run in one.host.runs)

    asyncio.run(whole())
    assert len(os.listdir("/proc/self/fd")) <= before, "descriptors are left"  # noqa: PTH208


def test_the_next_starts_with_the_first_line_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(one: Scene) -> None:
        assert await one.settled() == 2
        one.host.runs[1].write(b"begin")
        assert await one.settled() == 2, "a part of a line is no line"
        one.host.runs[1].write(b"ning\nmore")
        assert await one.settled() == 3
        one.host.runs[1].write(b" lines\nand more\n")
        assert await one.settled() == 3, "a start counted twice"
        assert bytes(one.outputs[1][0].data) == b"beginning\nmore lines\nand more\n"

    scene(monkeypatch, play)


def test_the_next_starts_when_one_ends_or_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(one: Scene) -> None:
        assert await one.settled() == 2
        one.host.runs[0].end(3)
        assert await one.settled() == 3
        assert await one.tasks[0] == 3
        one.tasks[1].cancel()
        assert await one.settled() == 4

    scene(monkeypatch, play)


def test_a_start_lasts_no_longer_than_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(real_powershell, "START_BOUND", 0.3)

    async def play(one: Scene) -> None:
        assert await one.settled() == 2
        await asyncio.sleep(0.4)
        assert await one.settled() == 4
        assert not any(task.done() for task in one.tasks), "the programs go on"

    scene(monkeypatch, play)


def test_who_waits_for_a_start_can_be_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(one: Scene) -> None:
        assert await one.settled() == 2
        one.tasks[2].cancel()
        one.host.runs[0].write(b"\n")
        assert await one.settled() == 3
        one.host.runs[2].write(b"the fourth\n")
        await one.settled()
        assert bytes(one.outputs[3][0].data) == b"the fourth\n"

    scene(monkeypatch, play)


def test_what_was_written_before_the_end_arrives_though_another_holds_the_pipe(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def play(one: Scene) -> None:
        await one.settled()
        one.host.runs[0].write(b"last words")  # and the write end stays open
        one.host.runs[0].end()
        assert await asyncio.wait_for(one.tasks[0], 5) == 0
        assert bytes(one.outputs[0][0].data) == b"last words"

    scene(monkeypatch, play)


def test_the_pods_variables_do_not_change_the_runtime() -> None:
    found = environment(
        {"POD_NAME": "x", "Dotnet_Startup_Hooks": "y", "LD_PRELOAD": "z", "HOME": "w"}
    )
    assert found["POD_NAME"] == "x"
    assert found["HOME"] == "/root"
    assert not {"Dotnet_Startup_Hooks", "LD_PRELOAD"} & set(found)


@pytest.mark.parametrize(
    ("dotnet", "begins"),
    [("/x", ("/opt/powershell/pwsh",)), ("/y", ("/opt/dotnet/dotnet", "/opt/powershell/pwsh.dll"))],
    ids=["beside it", "of its own"],
)
def test_it_is_started_by_its_net(dotnet: str, begins: tuple[str, ...]) -> None:
    shell = PowerShell(home="/x", dotnet=dotnet, version="7")
    found = command(shell, ("-File", "/c/x.ps1"))
    assert found[: len(begins)] == begins
    assert found[-2:] == ("-File", "/c/x.ps1")
    assert "-NoProfile" in found


@pytest.mark.parametrize(
    ("path", "working_dir", "found"),
    [
        ("C:\\Probe\\X.ps1", "", "/c/probe/x.ps1"),
        ("D:/a/B", "", "/d/a/b"),
        ("\\a", "", "/c/a"),
        ("x.ps1", "C:\\Probe", "/c/probe/x.ps1"),
        ("", "", "/c/"),
    ],
)
def test_a_path_of_windows_has_its_place(path: str, working_dir: str, found: str) -> None:
    assert place(path, working_dir) == found
