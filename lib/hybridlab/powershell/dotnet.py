"""The .NET types that probing scripts use: Dns, TcpClient, Encoding, Console, Environment, and constructors."""

from __future__ import annotations

import asyncio
import base64
import errno
import math
import os
import re
import time
import uuid
from collections.abc import Coroutine
from decimal import Decimal
from typing import Any

from hybridlab.powershell import regex
from hybridlab.powershell.addresses import ip_address
from hybridlab.powershell.clock import DateTime, TimeSpan
from hybridlab.powershell.conversion import invalid_cast, to_int, to_number
from hybridlab.powershell.faults import Fault, call_fault
from hybridlab.powershell.flow import Exit
from hybridlab.powershell.formats import format_text
from hybridlab.powershell.listener import http_listener
from hybridlab.powershell.numbers import Long
from hybridlab.powershell.objects import ArrayList, Awaitable, HashTable, NetObject, to_text
from hybridlab.powershell.shell import Library, Shell
from hybridlab.powershell.syntax import NotEmulated
from hybridlab.runtime.applets import dns, http
from hybridlab.runtime.applets.refusals import heard_late

_SOCKET_WORDS = {
    errno.ECONNREFUSED: (
        "No connection could be made because the target machine actively refused it",
        "ConnectionRefused",
    ),
    errno.ETIMEDOUT: (
        "A connection attempt failed because the connected party did not properly respond after a period of time, or "
        "established connection failed because connected host has failed to respond",
        "TimedOut",
    ),
    errno.ENETUNREACH: ("A socket operation was attempted to an unreachable network", "NetworkUnreachable"),
    errno.EHOSTUNREACH: ("A socket operation was attempted to an unreachable host", "HostUnreachable"),
    errno.ECONNRESET: ("An existing connection was forcibly closed by the remote host", "ConnectionReset"),
}


async def _dns(shell: Shell, name: str, arguments: list[object] | None) -> object:
    wanted = {"gethostaddresses": 1, "gethostentry": 1, "gethostname": 0}.get(name)
    if arguments is None or len(arguments) != wanted:
        raise NotEmulated(f"[Net.Dns]::{name}")
    if name == "gethostname":
        return shell.process.net.hostname
    if not to_text(arguments[0]) or isinstance(arguments[0], (list, NetObject)):
        raise NotEmulated(f"[Net.Dns]::{name} of this value")
    try:
        found = [ip_address(text) for text in await shell.process.net.resolve(to_text(arguments[0]), timeout=15.0)]
    except dns.NameNotFound:
        method = "GetHostAddresses" if name == "gethostaddresses" else "GetHostEntry"
        raise call_fault(method, len(arguments), "No such host is known", "SocketException") from None
    except dns.ResolverSilent:
        words = "This is usually a temporary error during hostname resolution and means that the local server did not "
        words += "receive a response from an authoritative server"
        raise call_fault("GetHostAddresses", len(arguments), words, "SocketException") from None
    if name == "gethostentry":
        return NetObject(
            "System.Net.IPHostEntry",
            shown=("HostName", "Aliases", "AddressList"),
            HostName=to_text(arguments[0]),
            Aliases=[],
            AddressList=found,
        )
    return found


def _encoding(name: str) -> NetObject:
    made = NetObject("System.Text.Encoding", text=f"System.Text.{name.upper()}Encoding")
    made.method("GetBytes", lambda text: to_text(text).encode(name, "replace"))

    def get_string(data: object, start: object = 0, count: object = None) -> str:
        raw = bytes(int(to_number(byte)) for byte in data) if isinstance(data, list) else bytes(data)  # type: ignore[call-overload]
        first = int(to_number(start))
        return (
            raw[first : first + int(to_number(count))].decode(name, "replace")
            if count is not None
            else raw[first:].decode(name, "replace")
        )

    made.method("GetString", get_string)
    return made


async def _encodings(shell: Shell, name: str, arguments: list[object] | None) -> object:
    names = {"utf8": "utf-8", "ascii": "ascii", "unicode": "utf-16-le"}
    if arguments is not None or name not in names:
        raise NotEmulated(f"[Text.Encoding]::{name}")
    return _encoding(names[name])


async def _convert(shell: Shell, name: str, arguments: list[object] | None) -> object:
    match name, arguments:
        case "tobase64string", [data]:
            raw = bytes(data) if isinstance(data, (bytes, list)) else b""
            return base64.b64encode(raw).decode()
        case "frombase64string", [text]:
            return base64.b64decode(to_text(text))
    raise NotEmulated(f"[Convert]::{name}")


async def _console(shell: Shell, name: str, arguments: list[object] | None) -> object:
    writer = NetObject("System.IO.TextWriter")
    stream = shell.process.stderr if name == "error" else shell.process.stdout

    async def write(text: object = "", end: str = "") -> None:
        await stream.write((to_text(text) + end).encode())

    async def write_line(text: object = "") -> None:
        await write(text, "\r\n")

    writer.method("Write", write)
    writer.method("WriteLine", write_line)
    writer.method("Flush", lambda: None)
    match name:
        case "out" | "error":
            return writer
        case "writeline" | "write" if arguments is not None:
            return await writer.call(name, arguments)
    raise NotEmulated(f"[Console]::{name}")


async def _datetime(shell: Shell, name: str, arguments: list[object] | None) -> object:
    match name, arguments:
        case "now", None:
            return DateTime.now()
        case "utcnow", None:
            return DateTime.now(utc=True)
    raise NotEmulated(f"[datetime]::{name}")


async def _guid(shell: Shell, name: str, arguments: list[object] | None) -> object:
    if (name, arguments) != ("newguid", []):
        raise NotEmulated(f"[guid]::{name}")
    text = str(uuid.uuid4())
    return NetObject("System.Guid", text=text, table=("Guid",), Guid=text)


async def _string(shell: Shell, name: str, arguments: list[object] | None) -> object:
    match name, arguments:
        case "isnullorempty", [text] if text is None or isinstance(text, str):
            return not text
        case "isnullorwhitespace", [text] if text is None or isinstance(text, str):
            return not text or not text.strip()
        case "join", [separator, list() as items]:
            return to_text(separator).join(to_text(item) for item in items)
        case "empty", None:
            return ""
        case "format", [str() as template, *items] if not any(isinstance(item, list) for item in items):
            return format_text(template, items)
    raise NotEmulated(f"[string]::{name}")


async def _math(shell: Shell, name: str, arguments: list[object] | None) -> object:
    if not arguments or any(
        isinstance(argument, bool) or not isinstance(argument, (int, float)) for argument in arguments
    ):
        raise NotEmulated(f"[math]::{name}")
    numbers = [argument for argument in arguments if isinstance(argument, (int, float))]
    same = len({type(number) for number in numbers}) == 1
    match name, numbers:
        case (("max" | "min"), [_, _]) if same:
            return max(numbers) if name == "max" else min(numbers)
        case "abs", [int() as one] if type(one) is int:
            return abs(one)
        case (("floor" | "ceiling"), [one]) if isinstance(one, float):
            return float(math.floor(one) if name == "floor" else math.ceil(one))
        case "round", [float() as one]:
            return float(round(Decimal(one)))
    raise NotEmulated(f"[math]::{name} of these numbers")


async def _regex(shell: Shell, name: str, arguments: list[object] | None) -> object:
    match name, arguments:
        case "match", [text, pattern]:
            found = regex.compiled(to_text(pattern), sensitive=True).search(to_text(text))
            value = found[0] if found else ""
            return NetObject(
                "System.Text.RegularExpressions.Match", text=value, Value=value, Success=found is not None,
                Index=found.start() if found else 0, Length=len(value),
            )  # fmt: skip
        case "ismatch", [text, pattern]:
            return bool(regex.compiled(to_text(pattern), sensitive=True).search(to_text(text)))
        case "replace", [text, pattern, str() as replacement]:
            return regex.replace(to_text(pattern), replacement, to_text(text), sensitive=True)
        case "escape", [text] if re.fullmatch(r"[\w./:]*", to_text(text), re.ASCII):
            return to_text(text).replace(".", "\\.")
    raise NotEmulated(f"[regex]::{name}")


async def _environment(shell: Shell, name: str, arguments: list[object] | None) -> object:
    match name, arguments:
        case "machinename", None:
            return shell.process.net.hostname[:15].upper()
        case "newline", None:
            return "\r\n"
        case "getenvironmentvariable", [text]:
            return shell.environment_variable(to_text(text))
        case "exit", [status]:
            code = to_int(status)
            if not 0 <= code <= 255:
                raise NotEmulated(f"exit status {code}")
            raise Exit(code)
    raise NotEmulated(f"[Environment]::{name}")


async def _ip_address_type(shell: Shell, name: str, arguments: list[object] | None) -> object:
    match name, arguments:
        case "any", None:
            return ip_address("0.0.0.0")
        case "loopback", None:
            return ip_address("127.0.0.1")
        case "parse", [text]:
            if not dns.is_address(to_text(text)):
                raise call_fault("Parse", 1, "An invalid IP address was specified.", "FormatException")
            return ip_address(to_text(text))
    raise NotEmulated(f"[Net.IPAddress]::{name}")


async def _stopwatch(shell: Shell, name: str, arguments: list[object] | None) -> object:
    if name != "startnew" or arguments != []:
        raise NotEmulated(f"[Diagnostics.Stopwatch]::{name}")
    start = time.monotonic()
    watch = NetObject("System.Diagnostics.Stopwatch")
    stopped: list[float] = []

    def seconds() -> float:
        return (stopped[0] if stopped else time.monotonic()) - start

    watch.put("ElapsedMilliseconds", lambda: Long(seconds() * 1000))
    watch.put("Elapsed", lambda: TimeSpan(int(seconds() * 10_000_000)))
    watch.put("IsRunning", lambda: not stopped)

    def stop() -> None:
        if not stopped:
            stopped.append(time.monotonic())

    watch.method("Stop", stop)
    return watch


async def _thread(shell: Shell, name: str, arguments: list[object] | None) -> object:
    if name != "sleep" or arguments is None or len(arguments) != 1 or not isinstance(arguments[0], int):
        raise NotEmulated(f"[Threading.Thread]::{name}")
    await asyncio.sleep(max(arguments[0], 0) / 1000)
    return None


def _task(work: Coroutine[Any, Any, object], method: str, count: int) -> NetObject:
    """A Task; also the IAsyncResult of the older pattern."""
    running = asyncio.ensure_future(work)
    running.add_done_callback(lambda done: done.cancelled() or done.exception())
    waiting = Awaitable(running)

    async def wait(milliseconds: object = None) -> bool:
        finished = await waiting.wait(None if milliseconds is None else float(to_number(milliseconds)))
        if finished and (error := running.exception()) is not None:
            raise call_fault("Wait", 1, "One or more errors occurred.", "AggregateException") from error
        return finished

    async def wait_one(milliseconds: object = None, _exit: object = False) -> bool:
        return await waiting.wait(None if milliseconds is None else float(to_number(milliseconds)))

    handle = NetObject("System.Threading.WaitHandle")
    handle.method("WaitOne", wait_one)
    handle.method("Close", lambda: None)
    made = NetObject("System.Threading.Tasks.Task", AsyncWaitHandle=handle)
    made.put("IsCompleted", running.done)
    made.put("IsFaulted", lambda: running.done() and not running.cancelled() and running.exception() is not None)
    made.method("Wait", wait)
    made.running = running  # type: ignore[attr-defined]
    return made


def tcp_client(shell: Shell, arguments: list[object]) -> object:
    """System.Net.Sockets.TcpClient: connecting and closing; its streams are not emulated."""
    connection: list[asyncio.StreamWriter] = []

    async def connect(host: object, port: object) -> None:
        process = shell.process
        address = (await process.net.resolve(to_text(host)))[0]
        try:
            number = to_int(port)
        except ValueError as error:
            raise invalid_cast(error) from None
        connecting = http.connect(process.net, address, number)
        _, writer = await heard_late(connecting, process.settings)
        connection.append(writer)
        client.put("Connected", True)

    async def connect_now(host: object, port: object) -> None:
        try:
            await connect(host, port)
        except (OSError, dns.NameNotFound, dns.ResolverSilent) as error:
            raise _socket_fault("Connect", 2, error, f"{to_text(host)}:{to_text(port)}") from None

    async def end_connect(result: NetObject) -> None:
        try:
            await result.running  # type: ignore[attr-defined]
        except (OSError, dns.NameNotFound, dns.ResolverSilent) as error:
            raise _socket_fault("EndConnect", 1, error, "") from None

    def close() -> None:
        client.put("Connected", False if shell.seven else _connected_of_closed)
        for writer in connection:
            http.abort(writer)

    client = NetObject("System.Net.Sockets.TcpClient", Connected=False, SendTimeout=0, ReceiveTimeout=0, NoDelay=False)
    client.method("Connect", connect_now)
    client.method("ConnectAsync", lambda host, port: _task(connect(host, port), "ConnectAsync", 2))
    client.method(
        "BeginConnect", lambda host, port, callback=None, state=None: _task(connect(host, port), "BeginConnect", 4)
    )
    client.method("EndConnect", end_connect)
    client.method("Close", close)
    client.method("Dispose", close)
    if not arguments:
        return client
    if len(arguments) != 2:
        raise NotEmulated("New-Object Net.Sockets.TcpClient with these arguments")

    async def connected() -> NetObject:
        try:
            await connect(*arguments)
        except (OSError, dns.NameNotFound, dns.ResolverSilent) as error:
            raise _socket_fault(".ctor", 2, error, f"{to_text(arguments[0])}:{to_text(arguments[1])}") from None
        return client

    return connected()


def _socket_fault(method: str, count: int, error: Exception, where: str) -> Fault:
    if isinstance(error, OSError):
        words, name = _SOCKET_WORDS.get(error.errno or 0, (os.strerror(error.errno or 0), "SocketError"))
    else:
        words, name = "No such host is known", "HostNotFound"
    fault = call_fault(method, count, f"{words} {where}".strip(), "SocketException")
    number = {"ConnectionRefused": 10061, "TimedOut": 10060, "ConnectionReset": 10054, "HostNotFound": 11001}.get(
        name, 0
    )
    kind = "System.Net.Sockets.SocketException"
    fault.inner = NetObject(kind, Message=words, SocketErrorCode=name, ErrorCode=number, NativeErrorCode=number)
    return fault


def _empty(made: object, arguments: list[object]) -> object:
    if arguments:
        raise NotEmulated("a collection with arguments")
    return made


def _connected_of_closed() -> object:
    """.NET Framework looks into a socket that is no longer there; what PowerShell makes of that was not seen."""
    raise NotEmulated("property Connected of a closed TcpClient in 5.1")


def add_to(library: Library) -> None:
    """Register types and constructors."""
    library.types |= {
        "net.dns": _dns,
        "text.encoding": _encodings,
        "convert": _convert,
        "console": _console,
        "environment": _environment,
        "net.ipaddress": _ip_address_type,
        "ipaddress": _ip_address_type,
        "diagnostics.stopwatch": _stopwatch,
        "threading.thread": _thread,
        "datetime": _datetime,
        "guid": _guid,
        "string": _string,
        "math": _math,
        "regex": _regex,
    }
    library.constructors |= {
        "net.httplistener": http_listener,
        "net.sockets.tcpclient": tcp_client,
        "text.utf8encoding": lambda shell, arguments: _encoding("utf-8"),
        "collections.hashtable": lambda shell, arguments: _empty(HashTable(), arguments),
        "collections.arraylist": lambda shell, arguments: _empty(ArrayList(), arguments),
    }
