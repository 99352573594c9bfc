"""The .NET types that probing scripts use: Dns, Encoding, Stopwatch, TcpClient and HttpListener."""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

from hybridlab.powershell.addresses import ip_address
from hybridlab.powershell.conversion import invalid_cast, to_int, to_number
from hybridlab.powershell.faults import call_fault
from hybridlab.powershell.listener import http_listener
from hybridlab.powershell.numbers import Long
from hybridlab.powershell.objects import Awaitable, NetObject, to_text
from hybridlab.powershell.shell import Library, Shell
from hybridlab.powershell.syntax import NotEmulated
from hybridlab.runtime.applets import dns, http
from hybridlab.runtime.applets.refusals import heard_late


async def _dns(shell: Shell, name: str, arguments: list[object] | None) -> object:
    if name != "gethostaddresses" or arguments is None or len(arguments) != 1:
        raise NotEmulated(f"[Net.Dns]::{name}")
    if not to_text(arguments[0]) or isinstance(arguments[0], (list, NetObject)):
        raise NotEmulated(f"[Net.Dns]::{name} of this value")
    try:
        return [ip_address(text) for text in await shell.process.net.resolve(to_text(arguments[0]), timeout=15.0)]
    except dns.NameNotFound:
        raise call_fault("GetHostAddresses", 1, "No such host is known", "SocketException") from None
    except dns.ResolverSilent:
        words = "This is usually a temporary error during hostname resolution and means that the local server did not "
        words += "receive a response from an authoritative server"
        raise call_fault("GetHostAddresses", 1, words, "SocketException") from None


async def _encodings(shell: Shell, name: str, arguments: list[object] | None) -> object:
    names = {"utf8": "utf-8", "ascii": "ascii", "unicode": "utf-16-le"}
    if arguments is not None or name not in names:
        raise NotEmulated(f"[Text.Encoding]::{name}")
    made = NetObject("System.Text.Encoding", text=f"System.Text.{name.upper()}Encoding")
    made.method("GetBytes", lambda text: to_text(text).encode(names[name], "replace"))
    return made


async def _stopwatch(shell: Shell, name: str, arguments: list[object] | None) -> object:
    if name != "startnew" or arguments != []:
        raise NotEmulated(f"[Diagnostics.Stopwatch]::{name}")
    start = time.monotonic()
    watch = NetObject("System.Diagnostics.Stopwatch")
    watch.put("ElapsedMilliseconds", lambda: Long((time.monotonic() - start) * 1000))
    return watch


def _task(work: Coroutine[Any, Any, object]) -> NetObject:
    running = asyncio.ensure_future(work)
    running.add_done_callback(lambda done: done.cancelled() or done.exception())
    waiting = Awaitable(running)

    async def wait(milliseconds: object = None) -> bool:
        finished = await waiting.wait(None if milliseconds is None else float(to_number(milliseconds)))
        if finished and (error := running.exception()) is not None:
            raise call_fault("Wait", 1, "One or more errors occurred.", "AggregateException") from error
        return finished

    made = NetObject("System.Threading.Tasks.Task")
    made.put("IsCompleted", running.done)
    made.put("IsFaulted", lambda: running.done() and not running.cancelled() and running.exception() is not None)
    made.method("Wait", wait)
    return made


def tcp_client(shell: Shell, arguments: list[object]) -> object:
    """System.Net.Sockets.TcpClient: ConnectAsync and closing."""
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

    def close() -> None:
        client.put("Connected", _connected_of_closed)
        for writer in connection:
            http.abort(writer)

    client = NetObject("System.Net.Sockets.TcpClient", Connected=False, SendTimeout=0, ReceiveTimeout=0, NoDelay=False)
    client.method("ConnectAsync", lambda host, port: _task(connect(host, port)))
    client.method("Close", close)
    client.method("Dispose", close)
    if arguments:
        raise NotEmulated("New-Object Net.Sockets.TcpClient with arguments")
    return client


def _connected_of_closed() -> object:
    """.NET Framework looks into a socket that is no longer there; what PowerShell makes of that was not seen."""
    raise NotEmulated("property Connected of a closed TcpClient in 5.1")


def add_to(library: Library) -> None:
    """Register types and constructors."""
    library.types |= {"net.dns": _dns, "text.encoding": _encodings, "diagnostics.stopwatch": _stopwatch}
    library.constructors |= {"net.httplistener": http_listener, "net.sockets.tcpclient": tcp_client}
