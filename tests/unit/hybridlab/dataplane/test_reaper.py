# SPDX-License-Identifier: Apache-2.0
"""pid 1's duty, in a process of the test's own, because it collects every child there is."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

from hybridlab.kernel import reaper

LIBRARY = str(Path(reaper.__file__).resolve().parents[2])

SCRIPT = textwrap.dedent("""
    import asyncio, ctypes, os, signal, time
    from hybridlab.kernel.reaper import Reaper

    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: orphans come here, as they come to pid 1
    SH = "/bin/sh"

    def start(command):
        return lambda: os.posix_spawn(SH, [SH, "-c", command], os.environ)

    async def main():
        reaper = Reaper()
        at_once = [reaper.spawn(start(f"exit {number}")) for number in range(20)]
        print([await child.wait() for child in at_once] == list(range(20)))

        sleeping = reaper.spawn(start("exec sleep 60"))
        print(sleeping.running)
        sleeping.kill(signal.SIGTERM)
        print(await sleeping.wait(), sleeping.running)
        sleeping.kill()

        from_threads = await asyncio.gather(
            *(asyncio.to_thread(reaper.spawn, start("exit 7")) for _ in range(5))
        )
        print([await child.wait() for child in from_threads])

        def start_that_returns_late():
            pid = start("exit 3")()
            time.sleep(0.05)  # it has ended and its SIGCHLD has come before its pid is known
            return pid

        late = await asyncio.to_thread(reaper.spawn, start_that_returns_late)
        print(await asyncio.wait_for(late.wait(), 2))

        parent = reaper.spawn(start("sleep 0.05 & exit 0"))
        print(await parent.wait())
        children = f"/proc/self/task/{os.getpid()}/children"
        while open(children).read():
            await asyncio.sleep(0.01)
        print("no orphan left")

    asyncio.run(main())
""")


def test_own_children_are_told_and_orphans_are_collected() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([LIBRARY, *sys.path])},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    expected = ["True", "True", "-15 False", "[7, 7, 7, 7, 7]", "3", "0", "no orphan left"]
    assert (done.stdout.splitlines(), done.stderr) == (expected, "")
