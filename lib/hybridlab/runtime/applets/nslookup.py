# SPDX-License-Identifier: Apache-2.0
"""busybox ``nslookup`` of 1.29 and later, which queries the server itself: it appends every search
suffix to a short name.

The command fails if any of these names does not exist. Manuals therefore recommend busybox:1.28,
whose applet is not emulated.
"""

import re
from collections.abc import Sequence

from hybridlab.runtime.applet import Process
from hybridlab.runtime.applets import dns
from hybridlab.runtime.applets.console import err, not_emulated, out
from hybridlab.runtime.images import split_reference

_SILENT = ";; connection timed out; no servers could be reached"
_LAST_OLD = 28
"""The last release with the older applet: N of version 1.N of busybox."""


async def nslookup(process: Process) -> int:
    """Run one ``nslookup NAME [SERVER]``, which requests A and AAAA records."""
    words = process.argv[1:]
    version = re.match(r"1\.(\d+)", split_reference(str(process.settings.get("image", "")))[1])
    if len(words) not in (1, 2) or words[0].startswith("-") or dns.is_address(words[0]):
        return await not_emulated(process, " ".join(process.argv))
    if version and int(version[1]) <= _LAST_OLD:
        return await not_emulated(process, f"nslookup of busybox {version[0]}")
    server = (*words[1:], *process.net.nameservers, "")[0]
    if not dns.is_address(server):
        return await not_emulated(process, f"nslookup with server {server!r}")
    try:
        answers = [
            (name, await dns.query(process.net, name, kind, server=server))
            for name in _full_names(words[0], process.net.searches)
            for kind in ("A", "AAAA")
        ]
    except dns.ResolverSilent:
        await out(process, _SILENT, "")
        return 1
    except OSError:
        await err(process, f"nslookup: write to '{server}': Connection refused")
        await out(process, _SILENT, "")
        return 1
    await out(process, f"Server:\t\t{server}", f"Address:\t{server}:53", "")
    for name, answer in answers:
        await out(process, *_shown(name, answer), "")
    return 0 if all(answer.rcode == "NOERROR" for _, answer in answers) else 1


def _full_names(name: str, searches: Sequence[str]) -> list[str]:
    if "." in name:
        return [name.rstrip(".")]
    return [f"{name}.{search}" for search in searches] or [name]


def _shown(name: str, answer: dns.Answer) -> list[str]:
    if answer.rcode != "NOERROR":
        return [f"** server can't find {name}: {answer.rcode}"]
    if not answer.addresses and not answer.aliases:
        return [f"*** Can't find {name}: No answer"]
    lines = [f"{alias}\tcanonical name = {target}" for alias, target in answer.aliases]
    for address in answer.addresses:
        lines += [f"Name:\t{answer.name}", f"Address: {address}"]
    return lines
