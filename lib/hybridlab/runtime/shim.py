# SPDX-License-Identifier: Apache-2.0
"""Applets for shells: a small program in the container passes its arguments and descriptors to labd
and waits.

The program needs only a Python interpreter and the standard library's ``_socket``. Started with
``-I -S`` it takes about as long as a small C program with many libraries. Each container has its
own Unix socket, by which labd identifies it.
"""

import array
import asyncio
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping

from hybridlab.kernel import open_files

SOCKET_PATH = "/run/lab-applets"
"""The path of the Unix socket in every container with a file system of its own."""
HOME = "/usr/libexec/lab"
"""The directory of the interpreter in every container, separate from the image's own."""

_PROGRAM = f"""import _socket, os, sys
line = _socket.socket(_socket.AF_UNIX)
try:
    line.connect("{SOCKET_PATH}")
except OSError as error:
    os.write(2, f"not emulated: {{sys.argv[0]}}: no applets in this container: {{error}}\\n".encode())
    sys.exit(1)
try:
    here = os.getcwd()
except OSError:
    here = "/"
words = [here, str(len(sys.argv)), *sys.argv, *(f"{{k}}={{v}}" for k, v in os.environ.items())]
data = "\\0".join(words).encode("utf-8", "surrogateescape")
rights = b"".join(n.to_bytes(4, sys.byteorder) for n in (0, 1, 2))
message = len(data).to_bytes(4, "big") + data
sent = line.sendmsg([message], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
while sent < len(message):
    sent += line.send(message[sent:])
status = line.recv(1)
os._exit(status[0] if status else 1)
"""


def program(library_path: str) -> str:
    """Return the shim's text. ``library_path``: the directory of the interpreter's own libpython,
    if it has one.
    """
    interpreter = f"{HOME}/bin/python3 -IS"
    if library_path:  # a #! line passes only one argument, hence env -S
        interpreter = f"/usr/bin/env -S LD_LIBRARY_PATH={library_path} {interpreter}"
    return f"#!{interpreter}\n{_PROGRAM}"


Run = Callable[[tuple[str, ...], Mapping[str, str], str, tuple[int, int, int]], Awaitable[int]]
"""Runs an applet: receives argv, environment, working directory and the three descriptors, and
returns the exit status."""

_MAX_MESSAGE = 4 << 20


class ShimServer:
    """The server that answers the shims of a container until it is closed."""

    def __init__(self, listener: socket.socket, run: Run) -> None:
        self._listener = listener
        self._run = run
        self._tasks: set[asyncio.Task[None]] = set()
        listener.setblocking(False)
        asyncio.get_running_loop().add_reader(listener, self._accept)

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError as error:
            open_files.notice(error)
            return
        connection.setblocking(False)
        task = asyncio.create_task(self._serve(connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, connection: socket.socket) -> None:
        fds: list[int] = []
        with connection:
            try:
                words = await _receive(connection, fds)
                if len(fds) < 3 or len(words) < 3 or not words[1].isdigit():
                    return
                count = int(words[1])
                argv = tuple(words[2 : 2 + count])
                env = dict(w.partition("=")[::2] for w in words[2 + count :])
                work = asyncio.ensure_future(
                    self._run(argv, env, words[0], (fds[0], fds[1], fds[2]))
                )
                gone = asyncio.ensure_future(asyncio.get_running_loop().sock_recv(connection, 1))
                try:
                    await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    gone.cancel()
                    work.cancel()
                    await asyncio.gather(work, gone, return_exceptions=True)
                if not work.cancelled():
                    connection.send(bytes([work.result() & 0xFF]))
            except OSError:
                return  # the shim is gone
            finally:
                for fd in fds:
                    os.close(fd)

    async def close(self) -> None:
        """Stop accepting and cancel the applets that run."""
        asyncio.get_running_loop().remove_reader(self._listener)
        self._listener.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _receive(connection: socket.socket, fds: list[int]) -> list[str]:
    """Return the words of a request; its descriptors are appended to ``fds``."""
    loop = asyncio.get_running_loop()
    data = b""
    wanted = 4
    while len(data) < wanted:
        ready = asyncio.Event()
        loop.add_reader(connection, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(connection)
        chunk, ancillary, _, _ = connection.recvmsg(
            65536, socket.CMSG_SPACE(12), socket.MSG_CMSG_CLOEXEC
        )
        for level, kind, payload in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                received = array.array("i")
                received.frombytes(payload[: len(payload) - len(payload) % received.itemsize])
                fds.extend(received)
        if not chunk:
            return []
        data += chunk
        if len(data) >= 4:
            wanted = 4 + min(struct.unpack("!I", data[:4])[0], _MAX_MESSAGE)
    return data[4:wanted].decode("utf-8", "surrogateescape").split("\0")
