# SPDX-License-Identifier: Apache-2.0
"""``birdcl``, the client of BIRD, which calico-node runs on Linux nodes."""

import getopt
from typing import Any

from hybridlab.runtime.applet import HostProblem, Process
from hybridlab.runtime.applets.console import err, not_emulated, out

GREETING = "BIRD v0.3.3+birdv1.6.8 ready."
LINE = "{name:<8} {proto:<8} {table:<8} {state:<5}  {since:<10}  {info}"


async def birdcl(process: Process) -> int:
    """Run ``birdcl [-s SOCKET] [-r] show protocols``; the columns are those of BIRD 1.6
    (nest/proto.c).
    """
    try:
        _, words = getopt.gnu_getopt(list(process.argv[1:]), "s:r")
    except getopt.GetoptError as error:
        await err(process, f"birdcl: {error}")
        return 1
    asked = " ".join(words)
    if asked != "show protocols" or process.host is None:
        return await not_emulated(process, f"birdcl {asked}")
    try:
        rows: Any = await process.host.ask(asked, {})
    except HostProblem as problem:
        await err(process, str(problem))
        return 1
    head = {name: name for name in ("name", "proto", "table", "state", "since", "info")}
    await out(process, GREETING, *(LINE.format(**row) for row in (head, *rows)))
    return 0
