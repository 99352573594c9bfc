"""System.Net.HttpListener: prefixes, GetContext, and the request and response objects of a simple web server."""

import asyncio
import contextlib
import re
import socket

from hybridlab.powershell.addresses import ip_address
from hybridlab.powershell.conversion import to_number
from hybridlab.powershell.faults import Fault
from hybridlab.powershell.objects import NetObject, to_text
from hybridlab.powershell.shell import Shell
from hybridlab.powershell.syntax import NotEmulated
from hybridlab.runtime.applets import http

_SERVER = "Microsoft-HTTPAPI/2.0"


def _fault(method: str, message: str, identity: str = "HttpListenerException") -> Fault:
    return Fault(
        f'Exception calling "{method}" with "0" argument(s): "{message}"',
        "NotSpecified: (:) [], MethodInvocationException",
        identity,
        kind="System.Management.Automation.MethodInvocationException",
    )


class _Listener:
    """Connections wait in a queue until the script asks for the next context, as in http.sys."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._prefixes: list[tuple[int, str]] = []
        self._contexts: asyncio.Queue[NetObject] = asyncio.Queue()
        self._servers = contextlib.AsyncExitStack()
        self._sockets: list[socket.socket] = []
        self.listening = False

    def add(self, prefix: object) -> None:
        match = re.fullmatch(r"http://([^/:]+)(?::(\d+))?(/.*)", to_text(prefix))
        if not match:
            if to_text(prefix).startswith("https://"):
                raise NotEmulated("HttpListener with https")
            message = "Only Uri prefixes ending in '/' are allowed."
            raise Fault(
                f'Exception calling "Add" with "1" argument(s): "{message}"',
                "NotSpecified: (:) [], MethodInvocationException",
                "ArgumentException",
            )
        self._prefixes.append((int(match[2] or 80), match[3]))

    async def start(self) -> None:
        for port in sorted({port for port, _ in self._prefixes}):
            try:
                sock = http.listen(self._shell.process.net, port)
            except OSError:
                await self._servers.aclose()
                words = f"Failed to listen on prefix 'http://*:{port}/' because it conflicts with an existing "
                words += "registration on the machine."
                raise _fault("Start", words) from None
            await self._servers.enter_async_context(http.http_server(sock, self._serve, server=_SERVER))
        self.listening = True

    async def stop(self) -> None:
        self.listening = False
        await self._servers.aclose()

    async def _serve(self, request: http.Request) -> http.Reply:
        if not any(request.path.startswith(path) for port, path in self._prefixes if port == request.local[1]):
            return http.Reply(404, b"<HTML><BODY><h2>Not Found</h2></BODY></HTML>", "text/html; charset=us-ascii")
        response = _Response()
        await self._contexts.put(
            NetObject("System.Net.HttpListenerContext", Request=_request(request), Response=response.shown)
        )
        return await response.reply

    async def get_context(self) -> NetObject:
        if not self.listening:
            raise _fault("GetContext", "The object is not listening.", "InvalidOperationException")
        return await self._contexts.get()


def _endpoint(peer: tuple[str, int]) -> NetObject:
    return NetObject("System.Net.IPEndPoint", text=f"{peer[0]}:{peer[1]}", Address=ip_address(peer[0]), Port=peer[1])


def _request(request: http.Request) -> NetObject:
    host = request.headers.get("host", f"{request.local[0]}:{request.local[1]}")
    url = f"http://{host}{request.target}"
    uri = NetObject(
        "System.Uri",
        text=url,
        AbsoluteUri=url,
        AbsolutePath=request.path,
        LocalPath=request.path,
        Host=host,
        PathAndQuery=request.target,
        Query=request.target[len(request.path) :],
    )
    return NetObject(
        "System.Net.HttpListenerRequest",
        Url=uri,
        RawUrl=request.target,
        HttpMethod=request.method,
        RemoteEndPoint=_endpoint(request.peer),
        LocalEndPoint=_endpoint(request.local),
        UserHostName=host,
        UserAgent=request.headers.get("user-agent"),
    )


class _Response:
    """What the script writes until it closes the response."""

    def __init__(self) -> None:
        self.reply: asyncio.Future[http.Reply] = asyncio.get_running_loop().create_future()
        self._body = b""
        stream = NetObject("System.Net.HttpResponseStream")
        stream.method("Write", self._write)
        stream.method("Close", self._close)
        stream.method("Flush", lambda: None)
        self.shown = NetObject(
            "System.Net.HttpListenerResponse",
            StatusCode=200,
            StatusDescription="OK",
            ContentLength64=0,
            ContentType=None,
            KeepAlive=True,
            OutputStream=stream,
        )
        self.shown.method("Close", self._close)
        self.shown.method("AddHeader", self._add_header)
        self._headers: dict[str, str] = {}

    def _add_header(self, name: object, value: object) -> None:
        self._headers[to_text(name)] = to_text(value)

    def _write(self, data: object, start: object, count: object) -> None:
        raw = bytes(int(to_number(item)) for item in data) if isinstance(data, list) else bytes(data)  # type: ignore[call-overload]
        first = int(to_number(start))
        self._body += raw[first : first + int(to_number(count))]

    def _close(self, data: object = b"", _block: object = False) -> None:
        if isinstance(data, (bytes, list)) and data:
            self._write(data, 0, len(data))
        if not self.reply.done():
            status = int(to_number(self.shown.get("StatusCode")))
            kind = to_text(self.shown.get("ContentType"))
            keep = bool(self.shown.get("KeepAlive"))
            self.reply.set_result(http.Reply(status, self._body, kind, self._headers, keep))


def http_listener(shell: Shell, arguments: list[object]) -> object:
    """New-Object System.Net.HttpListener."""
    listener = _Listener(shell)
    prefixes = NetObject("System.Net.HttpListenerPrefixCollection")
    prefixes.method("Add", listener.add)
    made = NetObject("System.Net.HttpListener", Prefixes=prefixes)
    made.put("IsListening", lambda: listener.listening)
    made.method("Start", listener.start)
    made.method("Stop", listener.stop)
    made.method("Close", listener.stop)
    made.method("GetContext", listener.get_context)
    shell.closing.push_async_callback(listener.stop)
    return made
