# SPDX-License-Identifier: Apache-2.0
"""The lab's stand-in for a Windows probe program, as a process of this machine that holds
conversations."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from hybridlab.probe_programs.run import run
from hybridlab.runtime.applet import Process
from tests.unit.hybridlab.windows.loopback import LoopbackNet, Script


class Pipe:
    """Standard output that is flushed with every write."""

    async def write(self, data: bytes) -> None:
        os.write(1, data)


async def main(script: str, content: bytes) -> int:
    stdin = asyncio.StreamReader(limit=1 << 22)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(stdin), sys.stdin
    )
    process = Process(
        argv=("powershell.exe",), env=os.environ, net=LoopbackNet(), files=Script(content), stdin=stdin, stdout=Pipe(),
        stderr=Pipe(), settings={},
    )  # fmt: skip
    return await run(process, script, content, sys.argv[2:])


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1], Path(sys.argv[1]).read_bytes())))
