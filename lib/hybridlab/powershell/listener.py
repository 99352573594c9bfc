# SPDX-License-Identifier: Apache-2.0
"""System.Net.HttpListener: prefixes, GetContext, and the request and response objects of a simple web server."""

import asyncio
import contextlib
import re

from hybridlab.powershell.addresses import ip_address
from hybridlab.powershell.faults import Fault, call_fault
from hybridlab.powershell.objects import NetObject, to_text
from hybridlab.powershell.operators import to_int
from hybridlab.powershell.shell import Shell
from hybridlab.powershell.syntax import NotEmulated
from hybridlab.runtime.applets import http

_SERVER = "Microsoft-HTTPAPI/2.0"


def _fault(method: str, message: str, identity: str = "HttpListenerException") -> Fault:
    return call_fault(method, 0, message, identity)


class _Listener:
    """A listener whose connections wait in a queue for the next GetContext, as in http.sys."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._prefixes: list[tuple[int, str]] = []
        self._contexts: asyncio.Queue[NetObject] = asyncio.Queue()
        self._servers = contextlib.AsyncExitStack()
        self.listening = False

    def add(self, prefix: object) -> None:
        match = re.fullmatch(r"http://([^/:]+)(?::(\d+))?(/(?:.*/)?)", to_text(prefix))
        if not match:
            raise NotEmulated(f"HttpListener with the prefix {to_text(prefix)}")
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
            await self._servers.enter_async_context(
                http.http_server(sock, self._serve, server=_SERVER, odd=http.HTTP_SYS)
            )
        self.listening = True

    async def stop(self) -> None:
        self.listening = False
        await self._servers.aclose()

    async def _serve(self, request: http.Request) -> http.Reply:
        if not any(
            request.path.startswith(path)
            for port, path in self._prefixes
            if port == request.local[1]
        ):
            return http.Reply(
                404, b"<HTML><BODY><h2>Not Found</h2></BODY></HTML>", "text/html; charset=us-ascii"
            )
        response = _Response()
        await self._contexts.put(
            NetObject(
                "System.Net.HttpListenerContext", Request=_request(request), Response=response.shown
            )
        )
        return await response.reply

    async def get_context(self) -> NetObject:
        if not self.listening:
            raise _fault("GetContext", "The object is not listening.", "InvalidOperationException")
        return await self._contexts.get()


def _request(request: http.Request) -> NetObject:
    url = f"http://{request.headers.get('host', f'{request.local[0]}:{request.local[1]}')}{request.target}"
    peer = NetObject(
        "System.Net.IPEndPoint", Address=ip_address(request.peer[0]), Port=request.peer[1]
    )
    return NetObject(
        "System.Net.HttpListenerRequest", Url=NetObject("System.Uri", text=url), RemoteEndPoint=peer
    )


class _Response:
    """The response that a script writes until it closes the response."""

    def __init__(self) -> None:
        self.reply: asyncio.Future[http.Reply] = asyncio.get_running_loop().create_future()
        self._body = b""
        stream = NetObject("System.Net.HttpResponseStream")
        stream.method("Write", self._write)
        self.shown = NetObject(
            "System.Net.HttpListenerResponse",
            StatusCode=200,
            ContentLength64=0,
            OutputStream=stream,
        )
        self.shown.method("Close", self._close)

    def _write(self, data: object, start: object, count: object) -> None:
        if not isinstance(data, bytes):
            raise NotEmulated("OutputStream.Write of a value that is not an array of bytes")
        first = to_int(start)
        self._body += data[first : first + to_int(count)]

    def _close(self) -> None:
        if not self.reply.done():
            self.reply.set_result(http.Reply(to_int(self.shown.get("StatusCode")), self._body, ""))


def http_listener(shell: Shell) -> object:
    """Return a new System.Net.HttpListener."""
    listener = _Listener(shell)
    prefixes = NetObject("System.Net.HttpListenerPrefixCollection")
    prefixes.method("Add", listener.add)
    made = NetObject("System.Net.HttpListener", Prefixes=prefixes)
    made.put("IsListening", lambda: listener.listening)
    made.method("Start", listener.start)
    made.method("GetContext", listener.get_context)
    shell.closing.push_async_callback(listener.stop)
    return made
