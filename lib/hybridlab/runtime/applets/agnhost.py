# SPDX-License-Identifier: Apache-2.0
"""Kubernetes' agnhost: ``pause``, ``connect``, ``netexec``, ``porter`` and ``serve-hostname``, with
the messages of its source code.

On Windows ``connect`` reports a refused TCP connection as ``OTHER: ... actively refused it.``: the
program compares the error with a number that Winsock never returns (golang/go#45621). Other
subcommands, TLS and SCTP are not emulated.
"""

import asyncio
import contextlib
import errno
import os
import re
import socket
import time
from urllib.parse import parse_qs

from hybridlab.runtime.applet import Applet, Process
from hybridlab.runtime.applets import dns, http
from hybridlab.runtime.applets.busybox import idle
from hybridlab.runtime.applets.console import err, not_emulated, out
from hybridlab.runtime.applets.porter import answer_each, porter
from hybridlab.runtime.applets.refusals import heard_late

_REFUSED = "connectex: No connection could be made because the target machine actively refused it."
_RESET = "wsarecv: An existing connection was forcibly closed by the remote host."


class _BadFlag(Exception):
    """A wrong flag; the message is for standard error."""


def _duration(text: str) -> float:
    units = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
    if text == "0":
        return 0.0
    if not re.fullmatch(r"(\d+(\.\d+)?(ms|s|m|h))+", text):
        raise _BadFlag(
            f'Error: invalid argument "{text}" for "--timeout" flag: time: invalid duration "{text}"'
        )
    return sum(
        float(number) * units[unit]
        for number, _, unit in re.findall(r"(\d+(\.\d+)?)(ms|s|m|h)", text)
    )


def _parse(
    words: tuple[str, ...], known: dict[str, str], switches: frozenset[str] = frozenset()
) -> tuple[dict[str, str], list[str]]:
    """Return the values of flags in Go's forms ``--name=value``, ``--name value`` or, for
    ``switches``, ``--name``; and the other words. Raise _BadFlag."""
    given = dict(known)
    rest = []
    queue = list(words)
    while queue:
        word = queue.pop(0)
        if not word.startswith("-"):
            rest.append(word)
            continue
        name, equals, value = word.lstrip("-").partition("=")
        if name not in known:
            raise _BadFlag(f"Error: unknown flag: --{name}")
        if name in switches:
            given[name] = value if equals else "true"
            if given[name] not in {"true", "false"}:
                raise _BadFlag(
                    f'Error: invalid argument "{value}" for "--{name}" flag: strconv.ParseBool'
                )
            continue
        if not equals and not queue:
            raise _BadFlag(f"Error: flag needs an argument: --{name}")
        given[name] = value if equals else queue.pop(0)
    return given, rest


async def agnhost(process: Process) -> int:
    """Run the subcommand."""
    subcommands: dict[str, Applet] = {
        "pause": _pause,
        "connect": _connect,
        "netexec": _netexec,
        "porter": porter,
        "serve-hostname": _serve_hostname,
    }
    if len(process.argv) < 2:
        await out(process, "Usage:\n  app [command]")
        return 0
    run = subcommands.get(process.argv[1])
    if run is None:
        return await not_emulated(process, f"agnhost {process.argv[1]}")
    try:
        return await run(process)
    except _BadFlag as bad:
        await err(process, str(bad))
        return 1


async def _pause(process: Process) -> int:
    await out(process, "Paused")
    return await idle(process)


def _is_windows(process: Process) -> bool:
    return process.settings.get("os") == "windows"


def _dial_error(process: Process, where: str, error: OSError) -> str:
    number = error.errno or 0
    if number == errno.ECONNREFUSED:
        return (
            f"dial tcp {where}: {_REFUSED}"
            if _is_windows(process)
            else f"dial tcp {where}: connect: connection refused"
        )
    if number == errno.ETIMEDOUT:
        return f"dial tcp {where}: connect: connection timed out"
    return f"dial tcp {where}: connect: {os.strerror(number).lower()}"


def _lookup_error(process: Process, host: str, error: Exception) -> str:
    server = process.net.nameservers[0] if process.net.nameservers else "127.0.0.1"
    if isinstance(error, dns.NameNotFound):
        return (
            f"lookup {host}: no such host"
            if _is_windows(process)
            else f"lookup {host} on {server}:53: no such host"
        )
    return f"lookup {host} on {server}:53: read udp {process.net.address}->{server}:53: i/o timeout"


def _split(target: str) -> tuple[str, int]:
    host, colon, port = target.rpartition(":")
    if not colon or not port.isdigit():
        raise _BadFlag(f"UNKNOWN: address {target}: missing port in address")
    return host, int(port)


async def _connect(process: Process) -> int:
    given, rest = _parse(
        process.argv[2:],
        {"timeout": "0", "protocol": "tcp", "udp-data": "hostname", "sctp-data": "hostname"},
    )
    if len(rest) != 1:
        raise _BadFlag(f"Error: accepts 1 arg(s), received {len(rest)}")
    if given["protocol"] == "sctp":
        return await not_emulated(process, "agnhost connect --protocol=sctp")
    if given["protocol"] not in ("tcp", "udp"):
        await err(process, f'Unsupported protocol "{given["protocol"]}"')
        return 1
    timeout = _duration(given["timeout"])
    host, port = _split(rest[0])
    try:
        address = (await process.net.resolve(host))[0]
    except (dns.NameNotFound, dns.ResolverSilent) as error:
        await err(process, f"DNS: {_lookup_error(process, host, error)}")
        return 1
    if given["protocol"] == "udp":
        word = await _connect_udp(process, address, port, timeout, given["udp-data"])
    else:
        word = await _connect_tcp(process, address, port, timeout)
    if word:
        await err(process, word)
        return 1
    return 0


async def _connect_tcp(process: Process, address: str, port: int, limit: float) -> str:
    try:
        async with asyncio.timeout(limit or None):
            _, writer = await heard_late(http.connect(process.net, address, port), process.settings)
    except TimeoutError:
        return "TIMEOUT"
    except OSError as error:
        if error.errno == errno.ECONNREFUSED and not _is_windows(process):
            return "REFUSED"
        return "OTHER: " + _dial_error(process, f"{address}:{port}", error)
    http.abort(writer)
    return ""


async def _connect_udp(process: Process, address: str, port: int, limit: float, data: str) -> str:
    loop = asyncio.get_running_loop()
    with process.net.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect((address, port))
            await loop.sock_sendall(sock, f"{data}\n".encode())
            async with asyncio.timeout(limit or None):
                await loop.sock_recv(sock, 2048)
        except TimeoutError:
            return "TIMEOUT"
        except OSError as error:
            local = "{}:{}".format(*sock.getsockname())
            if error.errno != errno.ECONNREFUSED:
                return "OTHER: " + _dial_error(process, f"{address}:{port}", error)
            return (
                f"UNKNOWN: read udp {local}->{address}:{port}: {_RESET}"
                if _is_windows(process)
                else "REFUSED"
            )
    return ""


class _NetExec:
    def __init__(self, process: Process) -> None:
        self.process = process
        self.udp_ready = False

    async def web(self, request: http.Request) -> http.Reply:
        query = {
            key: values[0] for key, values in parse_qs(request.target.partition("?")[2]).items()
        }
        if request.body and "form" in request.headers.get("content-type", ""):
            query |= {
                key: values[0] for key, values in parse_qs(request.body.decode("latin-1")).items()
            }
        text = "text/plain; charset=utf-8"
        match request.path.lower():
            case "/":
                now = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
                return http.Reply(200, f"NOW: {now} +0000 UTC".encode(), text)
            case "/clientip":
                return http.Reply(200, "{}:{}".format(*request.peer).encode(), text)
            case "/hostname":
                return http.Reply(200, self.process.net.hostname.encode(), text)
            case "/echo":
                status = (
                    int(query.get("code", "200")) if query.get("code", "200").isdigit() else 400
                )
                return http.Reply(status, query.get("msg", "").encode(), text)
            case "/healthz":
                return http.Reply(200 if self.udp_ready else 412, b"", text)
            case "/header":
                return http.Reply(
                    200, request.headers.get(query.get("key", "").lower(), "").encode(), text
                )
            case "/dial" | "/shell" | "/upload" | "/exit" | "/shutdown" | "/redirect":
                return http.Reply(501, f"not emulated: netexec {request.path}\n".encode(), text)
        return http.Reply(404, b"404 page not found\n", text)

    async def udp(self, sock: socket.socket) -> None:
        """Answer datagrams one by one until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            with contextlib.suppress(ConnectionError):
                data, peer = await loop.sock_recvfrom(sock, 2048)
                answer = self._datagram(data.decode(errors="replace").strip(), peer)
                if answer:
                    await loop.sock_sendto(sock, answer.encode(), peer)

    def _datagram(self, text: str, peer: tuple[str, int]) -> str:
        word, _, rest = text.partition(" ")
        match word.lower():
            case "hostname":
                return self.process.net.hostname
            case "clientip":
                return "{}:{}".format(*peer)
            case "echo":
                return rest
        return f"Unknown UDP command: {text}" if text else ""


async def _netexec(process: Process) -> int:
    given, rest = _parse(
        process.argv[2:],
        {
            "http-port": "8080",
            "udp-port": "8081",
            "sctp-port": "-1",
            "delay-shutdown": "0",
            "tls-cert-file": "",
            "tls-private-key-file": "",
            "http-override": "",
            "udp-listen-addresses": "",
        },
    )
    for name in ("tls-cert-file", "http-override", "udp-listen-addresses"):
        if given[name]:
            return await not_emulated(process, f"agnhost netexec --{name}")
    if given["sctp-port"] != "-1":
        return await not_emulated(process, "agnhost netexec --sctp-port")
    if rest:
        raise _BadFlag(f'Error: unknown command "{rest[0]}" for "netexec"')
    process.outlives_term = int(given["delay-shutdown"]) > 0
    serving = asyncio.create_task(_serve(process, given))
    ending = asyncio.create_task(_after_term(process, int(given["delay-shutdown"])))
    try:
        done, _ = await asyncio.wait({serving, ending}, return_when=asyncio.FIRST_COMPLETED)
        return done.pop().result()
    finally:
        serving.cancel()
        ending.cancel()
        await asyncio.gather(serving, ending, return_exceptions=True)


async def _after_term(process: Process, seconds: int) -> int:
    """Wait until the process has received SIGTERM and a further number of seconds has passed."""
    await process.terminated.wait()
    await err(process, f"Sleeping {seconds} seconds before terminating...")
    await asyncio.sleep(seconds)
    return 0


async def _serve(process: Process, given: dict[str, str]) -> int:
    ports = int(given["http-port"]), int(given["udp-port"])
    server = _NetExec(process)
    try:
        web = http.listen(process.net, ports[0])
    except OSError as error:
        await err(process, f"listen tcp :{ports[0]}: bind: {os.strerror(error.errno or 0).lower()}")
        return 1
    async with http.http_server(web, server.web):
        await err(process, f"Started HTTP server on port {ports[0]}")
        if ports[1] == -1:
            server.udp_ready = True
            await asyncio.get_running_loop().create_future()
        try:
            udp = http.listen(process.net, ports[1], kind=socket.SOCK_DGRAM)
        except OSError as error:
            await err(
                process, f"listen udp :{ports[1]}: bind: {os.strerror(error.errno or 0).lower()}"
            )
            return 1
        with udp:
            await err(process, f"Started UDP server on port {ports[1]}")
            server.udp_ready = True
            await server.udp(udp)
    return 0


async def _serve_hostname(process: Process) -> int:
    given, rest = _parse(
        process.argv[2:],
        {"tcp": "false", "udp": "false", "http": "true", "close": "false", "port": "9376"},
        frozenset({"tcp", "udp", "http", "close"}),
    )
    tcp, udp, web = (given[name] == "true" for name in ("tcp", "udp", "http"))
    if rest:
        raise _BadFlag(f'Error: unknown command "{rest[0]}" for "serve-hostname"')
    if web and (tcp or udp):
        await err(process, "Can't server TCP/UDP mode and HTTP mode at the same time")
        return 1
    if given["close"] == "true":
        return await not_emulated(process, "agnhost serve-hostname --close")
    name = process.net.hostname.encode()
    port = int(given["port"])

    async def hello(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            writer.write(name)
            await writer.drain()
        writer.close()

    async def page(_: http.Request) -> http.Reply:
        return http.Reply(200, name, "text/plain; charset=utf-8")

    async with contextlib.AsyncExitStack() as servers:
        try:
            if web:
                await servers.enter_async_context(
                    http.http_server(http.listen(process.net, port), page)
                )
            if tcp:
                await servers.enter_async_context(
                    await asyncio.start_server(hello, sock=http.listen(process.net, port))
                )
            datagrams = http.listen(process.net, port, kind=socket.SOCK_DGRAM) if udp else None
        except OSError as error:
            await err(
                process,
                f"Error from net.Listen(): listen :{port}: bind: {os.strerror(error.errno or 0).lower()}",
            )
            return 1
        await err(process, f"Serving on port {port}.")
        if datagrams is None:
            await asyncio.get_running_loop().create_future()
            return 0
        with datagrams:
            await answer_each(datagrams, name)
    return 0
