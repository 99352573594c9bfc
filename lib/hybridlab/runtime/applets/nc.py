"""busybox ``nc`` as ``make defconfig`` builds it: client, ``-z`` probe and ``-u``.

Messages and exit statuses were measured on busybox 1.35 with its upstream configuration: an open port is named on
standard error, a refusal is silent with a single ``-v``.  Left out: ``-l``, ``-e`` (starts programs), port names.
"""

from __future__ import annotations

import asyncio
import errno
import getopt
import os
import socket
from dataclasses import dataclass

from hybridlab.runtime.applet import Process
from hybridlab.runtime.applets import dns
from hybridlab.runtime.applets.console import err, not_emulated

_USAGE = """BusyBox v1.36.1 multi-call binary.

Usage: nc [OPTIONS] HOST PORT  - connect
nc [OPTIONS] -l -p PORT [HOST] [PORT]  - listen"""


@dataclass
class _Options:
    udp: bool = False
    verbose: int = 0
    wait: float | None = None
    scan: bool = False


@dataclass
class _Counters:
    sent: int = 0
    received: int = 0


async def nc(process: Process) -> int:
    """Run one nc."""
    options = _Options()
    try:
        flags, words = getopt.gnu_getopt(list(process.argv[1:]), "lkp:uvw:zni:s:o:e:q:4t")
        for flag, value in flags:
            _apply(options, flag, value)
    except (getopt.GetoptError, ValueError) as error:
        text = str(error).replace("option -", "invalid option -- '").replace(" not recognized", "'")
        await err(process, f"nc: {text}" if "invalid option" in text else "nc: bad usage", _USAGE)
        return 1
    if any(flag in ("-l", "-e", "-o", "-s", "-i") for flag, _ in flags):
        return await not_emulated(process, f"nc with {' '.join(process.argv[1:])}")
    if len(words) < 2 or not words[1].isdigit():
        if len(words) >= 2:
            await err(process, f"nc: bad port '{words[1]}'")
        else:
            await err(process, _USAGE)
        return 1
    return await _client(process, options, words[0], int(words[1]))


def _apply(options: _Options, flag: str, value: str) -> None:
    match flag:
        case "-u":
            options.udp = True
        case "-v":
            options.verbose += 1
        case "-w":
            options.wait = float(value)
        case "-z":
            options.scan = True


async def _client(process: Process, options: _Options, host: str, port: int) -> int:
    try:
        address = (await process.net.resolve(host))[0]
    except (dns.NameNotFound, dns.ResolverSilent):
        await err(process, f"nc: bad address '{host}'")
        return 1
    who = f"{host} ({address}:{port})"
    sock = process.net.socket(socket.AF_INET, socket.SOCK_DGRAM if options.udp else socket.SOCK_STREAM)
    counters = _Counters()
    status = 1
    with sock:
        try:
            async with asyncio.timeout(options.wait):
                await asyncio.get_running_loop().sock_connect(sock, (address, port))
            if options.udp and options.scan:
                await _udp_test(sock, options.wait or 1.0)
        except TimeoutError:
            await _failed(process, options, who, errno.ETIMEDOUT)
        except OSError as error:
            await _failed(process, options, who, error.errno or 0)
        else:
            if options.verbose:
                await err(process, f"{who} open")
            status = 0 if options.scan else await _pump(process, sock, options, counters)
    if options.verbose > 1:
        await err(process, f"sent {counters.sent}, rcvd {counters.received}")
    return status


async def _failed(process: Process, options: _Options, who: str, number: int) -> None:
    """With one -v a refusal is silent, everything else is said; without -v nothing is."""
    if options.verbose > 1 or (options.verbose and number != errno.ECONNREFUSED):
        await err(process, f"nc: {who}: {os.strerror(number)}")


async def _udp_test(sock: socket.socket, wait: float) -> None:
    """Two datagrams: the second send reports the ICMP error that the first one provoked."""
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(sock, b"\0")
    await asyncio.sleep(min(wait, 1.0))
    await loop.sock_sendall(sock, b"\0")


async def _pump(process: Process, sock: socket.socket, options: _Options, counters: _Counters) -> int:
    loop = asyncio.get_running_loop()

    async def send() -> None:
        while data := await process.stdin.read(8192):
            await loop.sock_sendall(sock, data)
            counters.sent += len(data)
        if not options.udp:
            sock.shutdown(socket.SHUT_WR)

    sender = asyncio.create_task(send())
    try:
        while True:
            async with asyncio.timeout(options.wait):
                data = await loop.sock_recv(sock, 8192)
            if not data and not options.udp:
                return 0
            counters.received += len(data)
            await process.stdout.write(data)
    except TimeoutError:
        return 0 if counters.received else 1
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        await err(process, f"nc: net read: {os.strerror(error.errno or 0)}")
        return 1
    finally:
        sender.cancel()
        await asyncio.gather(sender, return_exceptions=True)
