# SPDX-License-Identifier: Apache-2.0
"""busybox ``nc -z`` as ``make defconfig`` builds it: it tests whether a TCP port is open.

Messages and exit statuses were measured on busybox 1.35 with its upstream configuration: an open
port is named on standard error, a refusal is silent with a single ``-v``. Options that send or
accept data are not emulated.
"""

import asyncio
import errno
import getopt
import os
import socket

from hybridlab.runtime.applet import Process
from hybridlab.runtime.applets import dns
from hybridlab.runtime.applets.console import err, not_emulated

_USAGE = """BusyBox v1.36.1 multi-call binary.

Usage: nc [OPTIONS] HOST PORT  - connect
nc [OPTIONS] -l -p PORT [HOST] [PORT]  - listen"""
_EMULATED = {"-z", "-v", "-w", "-n", "-4"}


async def nc(process: Process) -> int:
    """Run one ``nc`` command."""
    try:
        flags, words = getopt.gnu_getopt(list(process.argv[1:]), "lkp:uvw:zni:s:o:e:q:4t")
        waits = [float(value) for flag, value in flags if flag == "-w"]
    except (getopt.GetoptError, ValueError) as error:
        text = str(error).replace("option -", "invalid option -- '").replace(" not recognized", "'")
        await err(process, f"nc: {text}" if "invalid option" in text else "nc: bad usage", _USAGE)
        return 1
    given = [flag for flag, _ in flags]
    if len(words) < 2 or not words[1].isdigit():
        await err(process, f"nc: bad port '{words[1]}'" if len(words) > 1 else _USAGE)
        return 1
    if "-z" not in given or not _EMULATED.issuperset(given):
        return await not_emulated(process, f"nc {' '.join(process.argv[1:])}")
    return await _scan(
        process,
        words[0],
        int(words[1]),
        verbose=given.count("-v"),
        wait=waits[-1] if waits else None,
    )


async def _scan(process: Process, host: str, port: int, *, verbose: int, wait: float | None) -> int:
    try:
        address = (await process.net.resolve(host))[0]
    except (dns.NameNotFound, dns.ResolverSilent):
        await err(process, f"nc: bad address '{host}'")
        return 1
    number = 0
    with process.net.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        try:
            async with asyncio.timeout(wait):
                await asyncio.get_running_loop().sock_connect(sock, (address, port))
        except TimeoutError:
            number = errno.ETIMEDOUT
        except OSError as error:
            number = error.errno or errno.EIO
    who = f"{host} ({address}:{port})"
    if not number and verbose:
        await err(process, f"{who} open")
    elif verbose > 1 or (verbose and number != errno.ECONNREFUSED):
        await err(process, f"nc: {who}: {os.strerror(number)}")
    if verbose > 1:
        await err(process, "sent 0, rcvd 0")
    return 1 if number else 0
