"""busybox ``nslookup`` of 1.29 and later, which asks the server itself: a short name with every search suffix.

It fails when any of them does not exist, for which manuals recommend busybox:1.28, whose applet is not emulated.
"""

import re

from hybridlab.runtime.applet import Process
from hybridlab.runtime.applets import dns
from hybridlab.runtime.applets.console import err, not_emulated, out
from hybridlab.runtime.images import split_reference

_SILENT = ";; connection timed out; no servers could be reached"
_LAST_OLD = 28
"""Of busybox 1.N."""


async def nslookup(process: Process) -> int:
    """Run one nslookup NAME [SERVER]: A and AAAA records."""
    words = process.argv[1:]
    version = re.match(r"1\.(\d+)", split_reference(str(process.settings.get("image", "")))[1])
    if any(word.startswith("-") or dns.is_address(word) for word in words[:1]) or len(
        words
    ) not in (1, 2):
        return await not_emulated(process, " ".join(process.argv))
    if version and int(version[1]) <= _LAST_OLD:
        return await not_emulated(process, f"nslookup of busybox {version[0]}")
    name = words[0]
    server = (
        words[1]
        if len(words) == 2
        else (process.net.nameservers[0] if process.net.nameservers else "")
    )
    if not dns.is_address(server):
        return await not_emulated(process, f"nslookup with server {server!r}")
    names = (
        [name.rstrip(".")]
        if "." in name
        else [f"{name}.{search}" for search in process.net.searches] or [name]
    )
    answers = []
    for full in names:
        for kind in ("A", "AAAA"):
            try:
                answers.append((full, await dns.query(process.net, full, kind, server=server)))
            except dns.ResolverSilent:
                await out(process, _SILENT, "")
                return 1
            except OSError:
                await err(process, f"nslookup: write to '{server}': Connection refused")
                await out(process, _SILENT, "")
                return 1
    await out(process, f"Server:\t\t{server}", f"Address:\t{server}:53", "")
    status = 0
    for full, answer in answers:
        if answer.rcode != "NOERROR":
            await out(process, f"** server can't find {full}: {answer.rcode}", "")
            status = 1
        elif not answer.addresses and not answer.aliases:
            await out(process, f"*** Can't find {full}: No answer", "")
        else:
            lines = [f"{name}\tcanonical name = {target}" for name, target in answer.aliases]
            lines += [
                line
                for a in answer.addresses
                for line in (f"Name:\t{answer.name}", f"Address: {a}")
            ]
            await out(process, *lines, "")
    return status
