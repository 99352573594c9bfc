# SPDX-License-Identifier: Apache-2.0
"""Runs scripts in the emulated PowerShell, in this process, with three ports of 127.0.0.1."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hybridlab.powershell.applets import applets
from tests.unit.hybridlab.runtime.conftest import Harness, Ran, silent, tcp

GOLDEN = Path(__file__).parent / "golden"
PAGE = b"This is a Calico for Windows porter"
AT_ONCE = 8
"""The number of scripts that run at the same time; most slow scripts only wait."""


@dataclass(frozen=True)
class Answer:
    """The result of a script."""

    exit: int
    stdout: tuple[str, ...]
    stderr: str

    @property
    def refused(self) -> str:
        """Return the construct that is not emulated; empty if the script ran."""
        said = self.stderr.rstrip("\n")
        return (
            said.rpartition("not emulated: ")[2]
            if self.exit == 1 and "not emulated: " in said
            else ""
        )


def cases(name: str) -> list[dict[str, Any]]:
    """Return the cases of a golden file."""
    return [json.loads(line) for line in (GOLDEN / name).read_text(encoding="utf-8").splitlines()]


def lines(text: str) -> tuple[str, ...]:
    """Return output in the form of the golden files."""
    found = [
        re.sub(r":\d{5}", "@PORT@", line.rstrip())
        for line in text.replace("\r\n", "\n").split("\n")
    ]
    while found and not found[-1]:
        found.pop()
    return tuple(found)


async def _porter(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        if length := re.search(rb"content-length: *(\d+)", head, re.IGNORECASE):
            await reader.readexactly(int(length[1]))
        answer = (
            b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n"
        )
        writer.write(answer + b"Content-Length: %d\r\n\r\n" % len(PAGE))
        writer.write(b"" if head.startswith(b"HEAD") else PAGE)
        await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    writer.close()


def _argv(harness: Harness, case: Mapping[str, Any], ports: Mapping[str, int]) -> list[str]:
    def fill(text: str) -> str:
        return re.sub("@(plain|closed|silent)@", lambda found: str(ports[found[1]]), text)

    match case["how"]:
        case "argv":
            return [fill(word) for word in case["script"]]
        case "command" | "encoded":
            return ["-NoProfile", "-Command", fill(case["script"])]
        case "file":
            harness.files.write(r"C:\scripts\t.ps1", fill(case["script"]).encode())
            return ["-NoProfile", "-File", r"C:\scripts\t.ps1"]
    raise ValueError(case["how"])


async def _run(case: Mapping[str, Any], ports: Mapping[str, int]) -> Answer:
    harness = Harness()
    harness.env["POD_NAME"] = "web"
    try:
        ran = await harness.call(
            applets()["powershell"], "powershell", *_argv(harness, case, ports)
        )
    except TimeoutError:
        ran = Ran(-1, "", "it did not end")
    return Answer(ran.code, lines(ran.out), ran.err)


async def _run_all(wanted: Sequence[Mapping[str, Any]]) -> dict[str, Answer]:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound but not listening, so that it refuses connections
        async with tcp(_porter) as plain, tcp(silent) as mute:
            ports = {"plain": plain, "silent": mute, "closed": unused.getsockname()[1]}
            free = asyncio.Semaphore(AT_ONCE)

            async def one(case: Mapping[str, Any]) -> tuple[str, Answer]:
                async with free:
                    return case["id"], await _run(case, ports)

            return dict(await asyncio.gather(*(one(case) for case in wanted)))


def answers(wanted: Sequence[Mapping[str, Any]]) -> dict[str, Answer]:
    """Map the ids of cases to PowerShell's results."""
    return asyncio.run(_run_all(wanted))
