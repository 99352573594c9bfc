# SPDX-License-Identifier: Apache-2.0
"""Standard input is read only if requested, output is complete, and logs are bounded."""

from __future__ import annotations

import asyncio
import os

import pytest

from hybridlab.runtime import logs
from hybridlab.runtime.files import MemoryFiles
from hybridlab.runtime.logs import LogBuffer
from hybridlab.runtime.streams import FdOutput, LazyReader


def test_standard_input_is_left_alone_until_it_is_read() -> None:
    async def scenario() -> tuple[bytes, bytes]:
        read, write = os.pipe()
        os.write(write, b"for the shell\n")
        reader = LazyReader(read)
        await asyncio.sleep(0.01)
        first = os.read(read, 100)
        os.write(write, b"for the applet\n")
        os.close(write)
        rest = await reader.read()
        reader.stop()
        os.close(read)
        return first, rest

    assert asyncio.run(scenario()) == (b"for the shell\n", b"for the applet\n")


def test_output_arrives_whole_through_a_slow_pipe_that_stays_blocking() -> None:
    data = os.urandom(300_000)

    async def scenario() -> bytes:
        read, write = os.pipe()
        reader = LazyReader(read)
        task = asyncio.create_task(FdOutput(write).write(data))
        await asyncio.sleep(0.01)
        assert os.get_blocking(write), "the open file is shared with real processes"
        got = await reader.readexactly(len(data))
        await task
        reader.stop()
        os.close(read)
        os.close(write)
        return got

    assert asyncio.run(scenario()) == data


def test_a_log_keeps_its_newest_lines_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "MAX_LINES", 3)

    async def scenario() -> list[bytes]:
        buffer = LogBuffer()
        stream = buffer.stream()
        await stream.write(b"1\n2\n3\n4\npart")
        await stream.write(b"ial")
        stream.flush()
        return [line async for _, line in buffer.read(follow=False)]

    assert asyncio.run(scenario()) == [b"3\n", b"4\n", b"partial\n"]


def test_following_a_log_ends_with_it_and_misses_nothing() -> None:
    async def scenario() -> list[bytes]:
        buffer = LogBuffer()
        buffer.append(b"before")

        async def write() -> None:
            for number in range(3):
                await asyncio.sleep(0)
                buffer.append(str(number).encode())
            buffer.close()

        task = asyncio.create_task(write())
        lines = [line async for _, line in buffer.read(follow=True)]
        await task
        return lines

    assert asyncio.run(scenario()) == [b"before\n", b"0\n", b"1\n", b"2\n"]


def test_windows_paths_are_one_whatever_their_case_and_slashes() -> None:
    files = MemoryFiles("windows")
    files.write(r"C:\Probe\X.ps1", b"x")
    assert files.read("c:/probe/x.PS1") == b"x"
    with pytest.raises(FileNotFoundError):
        files.read(r"C:\probe\y.ps1")


def test_volumes_are_shared_below_their_mount_only() -> None:
    volume: dict[str, bytes] = {}
    one, two = MemoryFiles("linux"), MemoryFiles("linux")
    one.share("/cache", volume)
    two.share("/data", volume)
    one.write("/cache/a", b"1")
    one.write("/cacheb", b"2")
    assert two.read("/data/a") == b"1"
    with pytest.raises(FileNotFoundError):
        two.read("/datab")
