# SPDX-License-Identifier: Apache-2.0
"""The nginx image without configuration: its welcome page on port 80, index.html from a mounted
volume, and an access log."""

import asyncio
import os
import posixpath
import time

from hybridlab.runtime.applet import Process
from hybridlab.runtime.applets import http
from hybridlab.runtime.applets.console import err, not_emulated

_VERSION = "1.27.5"
_ROOT = "/usr/share/nginx/html"
_CONFIGURATION = ("/etc/nginx/nginx.conf", "/etc/nginx/conf.d/default.conf")

_WELCOME = b"""<!DOCTYPE html>
<html>
<head>
<title>Welcome to nginx!</title>
</head>
<body>
<h1>Welcome to nginx!</h1>
<p>If you see this page, the nginx web server is successfully installed and
working. Further configuration is required.</p>

<p><em>Thank you for using nginx.</em></p>
</body>
</html>
"""
_TYPES = {
    ".html": "text/html",
    ".txt": "text/plain",
    ".json": "application/json",
    ".css": "text/css",
}


def _error_page(status: int, reason: str) -> bytes:
    title = f"{status} {reason}"
    return (
        f"<html>\r\n<head><title>{title}</title></head>\r\n<body>\r\n<center><h1>{title}</h1></center>\r\n"
        f"<hr><center>nginx/{_VERSION}</center>\r\n</body>\r\n</html>\r\n"
    ).encode()


async def nginx(process: Process) -> int:
    """Run ``nginx -g 'daemon off;'``; a mounted configuration is not read and therefore refused."""
    arguments = process.argv[1:]
    if arguments == ("-v",):
        await err(process, f"nginx version: nginx/{_VERSION}")
        return 0
    if arguments not in ((), ("-g", "daemon off;")):
        return await not_emulated(process, " ".join(process.argv))
    for name in _CONFIGURATION:
        if _file(process, name) is not None:
            return await not_emulated(process, f"nginx with its own configuration {name}")
    try:
        sock = http.listen(process.net, 80)
    except OSError as error:
        why = f"({error.errno}: {os.strerror(error.errno or 0)})"
        await err(process, f"nginx: [emerg] bind() to 0.0.0.0:80 failed {why}")
        return 1

    async def handle(request: http.Request) -> http.Reply:
        reply = _page(process, request)
        when = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime())
        agent = request.headers.get("user-agent", "-")
        line = f'"{request.method} {request.target} HTTP/1.1" {reply.status} {len(reply.body)} "-" "{agent}" "-"\n'
        await process.stdout.write(f"{request.peer[0]} - - [{when}] {line}".encode())
        return reply

    async with http.http_server(sock, handle, server=f"nginx/{_VERSION}"):
        await err(
            process,
            f"{time.strftime('%Y/%m/%d %H:%M:%S', time.gmtime())} [notice] 1#1: start worker processes",
        )
        await asyncio.get_running_loop().create_future()
    return 0


def _page(process: Process, request: http.Request) -> http.Reply:
    if request.method not in ("GET", "HEAD"):
        return http.Reply(405, _error_page(405, "Not Allowed"), "text/html", reason="Not Allowed")
    path = posixpath.normpath("/" + request.path.lstrip("/"))
    name = "/index.html" if path == "/" else path
    body = _file(process, _ROOT + name)
    if body is None and name == "/index.html":
        body = _WELCOME
    if body is None:
        return http.Reply(404, _error_page(404, "Not Found"), "text/html")
    kind = _TYPES.get(posixpath.splitext(name)[1], "application/octet-stream")
    return http.Reply(200, body, kind, {"Accept-Ranges": "bytes"})


def _file(process: Process, path: str) -> bytes | None:
    try:
        return process.files.read(path)
    except OSError:
        return None
