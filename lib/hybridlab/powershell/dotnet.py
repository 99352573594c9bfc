# SPDX-License-Identifier: Apache-2.0
"""The .NET types that probing scripts use: Dns, Encoding, Stopwatch, TcpClient and HttpListener."""

import asyncio
import errno
import time

from hybridlab import assumed
from hybridlab.powershell.addresses import ip_address
from hybridlab.powershell.faults import call_fault
from hybridlab.powershell.listener import http_listener
from hybridlab.powershell.objects import NetObject, to_text
from hybridlab.powershell.operators import to_int
from hybridlab.powershell.regex import compiled
from hybridlab.powershell.shell import Library, Shell
from hybridlab.powershell.syntax import NotEmulated
from hybridlab.runtime.applets import dns, http
from hybridlab.runtime.applets.refusals import heard_late


async def _dns(shell: Shell, name: str, arguments: list[object] | None) -> object:
    wanted = arguments[0] if arguments and len(arguments) == 1 else None
    if name != "gethostaddresses" or not wanted or not isinstance(wanted, str):
        raise NotEmulated(f"[Net.Dns]::{name}: only GetHostAddresses with one non-empty string")
    try:
        return [ip_address(text) for text in await shell.process.net.resolve(wanted, timeout=15.0)]
    except dns.NameNotFound:
        raise call_fault(
            "GetHostAddresses", 1, "No such host is known", "SocketException"
        ) from None
    except dns.ResolverSilent:
        words = "This is usually a temporary error during hostname resolution and means that the local server did not "
        words += "receive a response from an authoritative server"
        raise call_fault("GetHostAddresses", 1, words, "SocketException") from None


async def _encodings(shell: Shell, name: str, arguments: list[object] | None) -> object:
    if arguments is not None or name != "utf8":
        raise NotEmulated(f"[Text.Encoding]::{name}")
    made = NetObject("System.Text.UTF8Encoding")
    made.method("GetBytes", lambda text: to_text(text).encode("utf-8", "replace"))
    return made


async def _stopwatch(shell: Shell, name: str, arguments: list[object] | None) -> object:
    if name != "startnew" or arguments != []:
        raise NotEmulated(f"[Diagnostics.Stopwatch]::{name}")
    start = time.monotonic()
    watch = NetObject("System.Diagnostics.Stopwatch")
    watch.put("ElapsedMilliseconds", lambda: int((time.monotonic() - start) * 1000))
    return watch


async def _regex(shell: Shell, name: str, arguments: list[object] | None) -> object:
    if name != "matches" or arguments is None or len(arguments) != 2:
        raise NotEmulated(f"[regex]::{name} of these values")
    text, pattern = map(to_text, arguments)
    if any(ord(letter) > 0xFFFF for letter in text):
        raise NotEmulated("[regex]::Matches of a character of two code units")
    found = compiled(pattern, sensitive=True).finditer(text)
    return [NetObject("System.Text.RegularExpressions.Match", {"Value": one[0]}) for one in found]


_SOCKET_ERRORS = {
    errno.ECONNREFUSED: assumed.words("refused-words")[1].partition("/")[0],
    errno.ECONNRESET: assumed.words("reset-words")[1].partition("/")[0],
    errno.EHOSTUNREACH: "HostUnreachable",
    errno.ENETUNREACH: "NetworkUnreachable",
    errno.ETIMEDOUT: "TimedOut",
}
"""The System.Net.Sockets.SocketError of each error number of the kernel."""


def _aggregate(words: str, error: BaseException) -> NetObject | None:
    """Return the AggregateException that contains the SocketException for ``error``; None if its
    error number is not in the table."""
    number = error.errno if isinstance(error, OSError) else None
    if number not in _SOCKET_ERRORS:
        return None
    cause = NetObject(
        "System.Net.Sockets.SocketException",
        Message=str(error),
        SocketErrorCode=_SOCKET_ERRORS[number],
        InnerException=None,
    )
    return NetObject("System.AggregateException", Message=words, InnerException=cause)


def tcp_client(shell: Shell) -> object:
    """Return a System.Net.Sockets.TcpClient with Close and ConnectAsync.

    Of the task that ConnectAsync returns, only Wait is emulated.
    """
    connection: list[asyncio.StreamWriter] = []

    async def connect(host: str, port: int) -> None:
        address = (await shell.process.net.resolve(host))[0]
        connecting = http.connect(shell.process.net, address, port)
        connection.append((await heard_late(connecting, shell.process.settings))[1])

    def connect_async(host: object, port: object) -> NetObject:
        running = asyncio.ensure_future(connect(to_text(host), to_int(port)))
        running.add_done_callback(lambda done: done.cancelled() or done.exception())

        async def wait(milliseconds: object) -> bool:
            """Return true if the connection is established in time. Raise Fault if it failed."""
            done, _ = await asyncio.wait({running}, timeout=to_int(milliseconds) / 1000)
            words = "One or more errors occurred."
            if done and (error := running.exception()) is not None:
                raise call_fault(
                    "Wait", 1, words, "AggregateException", _aggregate(words, error)
                ) from error
            return bool(done)

        task = NetObject("System.Threading.Tasks.Task")
        task.method("Wait", wait)
        return task

    def close() -> None:
        for writer in connection:
            http.abort(writer)

    client = NetObject("System.Net.Sockets.TcpClient")
    client.method("ConnectAsync", connect_async)
    client.method("Close", close)
    return client


def add_to(library: Library) -> None:
    """Register types and constructors."""
    library.types |= {
        "net.dns": _dns,
        "regex": _regex,
        "text.encoding": _encodings,
        "diagnostics.stopwatch": _stopwatch,
    }
    library.constructors |= {"net.httplistener": http_listener, "net.sockets.tcpclient": tcp_client}
