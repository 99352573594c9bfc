# SPDX-License-Identifier: Apache-2.0
"""Windows' console tools: ping, ipconfig, hostname, findstr, and the part of cmd that starts them.

Texts are those of the English Windows Server. As on Windows, ``ping`` exits with 0 when any reply
came back, including "Destination host unreachable". cmd runs one command with ``/c``, with
redirection to NUL; other uses are not emulated.
"""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import replace

from hybridlab.runtime.applet import Applet, Process
from hybridlab.runtime.applets import dns, icmp
from hybridlab.runtime.applets.busybox import interfaces
from hybridlab.runtime.applets.console import not_emulated
from hybridlab.runtime.streams import NullOutput

_STDERR = r"\s*2>\s*(?:nul|&1)"
_STDOUT = r"\s*1?>\s*nul"


async def crlf(process: Process, *lines: str) -> None:
    """Write lines to standard output with Windows' line endings."""
    await process.stdout.write("".join(f"{line}\r\n" for line in lines).encode())


async def hostname(process: Process) -> int:
    """Run ``hostname``, which prints the computer's name."""
    if len(process.argv) > 1:
        return await not_emulated(process, " ".join(process.argv))
    await crlf(process, process.net.hostname)
    return 0


async def findstr(process: Process) -> int:
    """Run ``findstr WORD FILE``: print the lines of a file that contain a word, which must consist
    of letters."""
    words = process.argv[1:]
    if len(words) != 2 or not words[0].isalpha():
        return await not_emulated(process, " ".join(process.argv))
    try:
        lines = process.files.read(words[1]).decode("utf-8-sig", "replace").splitlines()
    except OSError:
        await process.stderr.write(f"FINDSTR: Cannot open {words[1]}\r\n".encode())
        return 1
    found = [line for line in lines if words[0] in line]
    await crlf(process, *found)
    return 0 if found else 1


async def ipconfig(process: Process) -> int:
    """Run ``ipconfig``; ``/all`` adds further fields that the lab can fill."""
    if [word.lower() for word in process.argv[1:]] not in ([], ["/all"]):
        return await not_emulated(process, " ".join(process.argv))
    full = len(process.argv) > 1
    lines = ["", "Windows IP Configuration", ""]
    if full:
        lines += [f"   Host Name . . . . . . . . . . . . : {process.net.hostname}", ""]
    for interface in interfaces(process.net):
        if interface.is_loopback:
            continue
        suffix = process.net.searches[0] if process.net.searches else ""
        lines += [
            "",
            "Ethernet adapter vEthernet (Ethernet):",
            "",
            f"   Connection-specific DNS Suffix  . : {suffix}",
        ]
        if full:
            lines.append(
                f"   Physical Address. . . . . . . . . : {interface.mac.upper().replace(':', '-')}"
            )
        lines += [
            f"   IPv4 Address. . . . . . . . . . . : {interface.address}",
            f"   Subnet Mask . . . . . . . . . . . : {interface.netmask}",
        ]
        if full and process.net.nameservers:
            first, *others = process.net.nameservers
            lines.append(f"   DNS Servers . . . . . . . . . . . : {first}")
            lines += [f"{'':39}{server}" for server in others]
    await crlf(process, *lines)
    return 0


async def ping(process: Process) -> int:
    """Run ``ping [-n COUNT] [-w MS] [-l SIZE] [-t] [-4] HOST``."""
    count = 4
    wait = 4000
    size = 32
    host = ""
    words = list(process.argv[1:])
    while words:
        word = words.pop(0)
        if word in ("-n", "-w", "-l") and words and words[0].isdigit():
            value = int(words.pop(0))
            count = value if word == "-n" else count
            wait = value if word == "-w" else wait
            size = value if word == "-l" else size
        elif word == "-t":
            count = 0
        elif word == "-4":
            continue
        elif word.startswith(("-", "/")) or host:
            return await not_emulated(process, " ".join(process.argv))
        else:
            host = word
    try:
        address = (await process.net.resolve(host))[0]
    except (dns.NameNotFound, dns.ResolverSilent):
        await crlf(
            process,
            f"Ping request could not find host {host}. Please check the name and try again.",
        )
        return 1
    shown = address if host == address else f"{host} [{address}]"
    await crlf(process, "", f"Pinging {shown} with {size} bytes of data:")
    return await _pings(process, address, count, wait / 1000, size)


async def _pings(process: Process, address: str, count: int, wait: float, size: int) -> int:
    sent = received = 0
    identity = icmp.new_identity()
    times: list[int] = []
    while not count or sent < count:
        found = await icmp.echo(
            process.net, address, sent & 0xFFFF, size=size, limit=wait, identity=identity
        )
        sent += 1
        match found.kind:
            case "reply":
                received += 1
                times.append(int(found.milliseconds))
                spent = f"time={times[-1]}ms" if times[-1] else "time<1ms"
                line = f"Reply from {found.source}: bytes={size} {spent} TTL={found.ttl}"
            case "unreachable":
                received += 1
                line = f"Reply from {found.source}: Destination host unreachable."
            case "unsendable":
                line = "PING: transmit failed. General failure. "
            case _:
                line = "Request timed out."
        await crlf(process, line)
        if not count or sent < count:
            await asyncio.sleep(1)
    lost = sent - received
    lines = [
        "",
        f"Ping statistics for {address}:",
        f"    Packets: Sent = {sent}, Received = {received}, Lost = {lost} ({100 * lost // sent}% loss),",
    ]
    if times:
        lines += [
            "Approximate round trip times in milli-seconds:",
            f"    Minimum = {min(times)}ms, Maximum = {max(times)}ms, Average = {sum(times) // len(times)}ms",
        ]
    await crlf(process, *lines)
    return 0 if received else 1


def cmd(others: Mapping[str, Applet]) -> Applet:
    """Run ``cmd``, which starts the applets in ``others`` (names without ``.exe``)."""

    async def run(process: Process) -> int:
        words = [*process.argv[1:]]
        while words and words[0].lower() in ("/s", "/q", "/d"):
            words.pop(0)
        if not words:
            if process.stdin.at_eof() or not await process.stdin.read(1):
                version = process.settings.get("windows_version", "10.0.20348.1")
                await crlf(
                    process,
                    f"Microsoft Windows [Version {version}]",
                    "(c) Microsoft Corporation. All rights reserved.",
                )
                return 0
            return await not_emulated(process, "interactive cmd")
        if words[0].lower() not in ("/c", "/k") or words[0].lower() == "/k":
            return await not_emulated(process, f"cmd {words[0]}")
        return await _command(process, " ".join(words[1:]).strip(), others)

    return run


async def _command(process: Process, text: str, others: Mapping[str, Applet]) -> int:
    if re.search(_STDERR, text, re.IGNORECASE):
        process = replace(process, stderr=process.stdout if "&1" in text else NullOutput())
        text = re.sub(_STDERR, "", text, flags=re.IGNORECASE)
    if re.search(_STDOUT, text, re.IGNORECASE):
        process = replace(process, stdout=NullOutput())
        text = re.sub(_STDOUT, "", text, flags=re.IGNORECASE)
    words = [quoted or bare for quoted, bare in re.findall(r'"([^"]*)"|(\S+)', text)]
    if not words:
        return 0
    name = words[0].lower().replace("/", "\\").rsplit("\\", 1)[-1].removesuffix(".exe")
    if name not in others or any(mark in text for mark in "|<>^&%"):
        return await not_emulated(process, f"cmd /c {text}")
    return await others[name](replace(process, argv=tuple(words)))
