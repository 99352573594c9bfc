"""busybox ``nslookup``: the old applet of 1.28 and before, and the newer one that asks the server itself.

Which one runs follows the image's tag: manuals recommend busybox:1.28 exactly because the newer one asks a short name
with every search suffix and fails when any of them does not exist.
"""

import re

from hybridlab.runtime.applet import Process
from hybridlab.runtime.applets import dns
from hybridlab.runtime.applets.console import err, not_emulated, out
from hybridlab.runtime.images import split_reference

_SILENT = ";; connection timed out; no servers could be reached"


async def nslookup(process: Process) -> int:
    """Run one nslookup NAME [SERVER]."""
    words = [word for word in process.argv[1:] if not word.startswith("-")]
    flags = [word for word in process.argv[1:] if word.startswith("-")]
    kinds = ["A", "AAAA"]
    for flag in flags:
        found = re.fullmatch(r"-(?:type|query|querytype|q)=(a|aaaa|srv|ptr)", flag, re.IGNORECASE)
        if not found:
            return await not_emulated(process, f"nslookup {flag}")
        kinds = [found[1].upper()]
    if not words or len(words) > 2:
        await err(process, "Usage: nslookup [-type=QUERY_TYPE] HOST [DNS_SERVER]")
        return 1
    server = words[1] if len(words) == 2 else (process.net.nameservers[0] if process.net.nameservers else "")
    if not dns.is_address(server):
        return await not_emulated(process, f"nslookup with server {server!r}")
    if _is_old(str(process.settings.get("image", ""))):
        return await _old(process, words[0], server)
    return await _new(process, words[0], server, kinds)


def _is_old(image: str) -> bool:
    version = re.match(r"1\.(\d+)", split_reference(image)[1]) if image else None
    return bool(version and int(version[1]) <= 28)


def reverse_name(address: str) -> str:
    """The in-addr.arpa name of a dotted quad."""
    return ".".join(reversed(address.split("."))) + ".in-addr.arpa"


async def _pointer(process: Process, address: str, server: str) -> str:
    try:
        answer = await dns.query(process.net, reverse_name(address), "PTR", server=server)
    except (dns.ResolverSilent, OSError):
        return ""
    return f" {answer.addresses[0]}" if answer.addresses else ""


async def _old(process: Process, name: str, server: str) -> int:
    pointer = await _pointer(process, server, server)
    await out(process, f"Server:    {server}", f"Address 1: {server}{pointer}", "")
    try:
        addresses = await process.net.resolve(name)
    except (dns.NameNotFound, dns.ResolverSilent):
        await err(process, f"nslookup: can't resolve '{name}': Name or service not known")
        return 1
    lines = [f"Name:      {name}"]
    for number, address in enumerate(addresses, 1):
        lines.append(f"Address {number}: {address}{await _pointer(process, address, server)}")
    await out(process, *lines)
    return 0


async def _new(process: Process, name: str, server: str, kinds: list[str]) -> int:
    if dns.is_address(name):
        names, kinds = [reverse_name(name)], ["PTR"]
    elif "." in name:
        names = [name.rstrip(".")]
    else:
        names = [f"{name}.{search}" for search in process.net.searches] or [name]
    answers = []
    for full in names:
        for kind in kinds:
            try:
                answers.append((full, kind, await dns.query(process.net, full, kind, server=server)))
            except dns.ResolverSilent:
                await out(process, _SILENT, "")
                return 1
            except OSError:
                await err(process, f"nslookup: write to '{server}': Connection refused")
                await out(process, _SILENT, "")
                return 1
    await out(process, f"Server:\t\t{server}", f"Address:\t{server}:53", "")
    status = 0
    for full, kind, answer in answers:
        if answer.rcode != "NOERROR":
            await out(process, f"** server can't find {full}: {answer.rcode}", "")
            status = 1
        elif not answer.addresses:
            await out(process, f"*** Can't find {full}: No answer", "")
        elif kind == "PTR":
            await out(process, *(f"{full}\tname = {target}" for target in answer.addresses), "")
        elif kind == "SRV":
            await out(process, *(f"{full}\tservice = {target}" for target in answer.addresses), "")
        else:
            await out(
                process, *(line for a in answer.addresses for line in (f"Name:\t{answer.name}", f"Address: {a}")), ""
            )
    return status
