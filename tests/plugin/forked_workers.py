# SPDX-License-Identifier: Apache-2.0
"""Forked workers of pytest-xdist, from a process that stays as it was before the run began.

A worker imports the same modules as its controller, and most of a short run is spent on imports.
Here execnet's ``popen`` gateways request a fork from that process. Everything else is unchanged:
pipes, environment, folder, signals and death.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import random
import select
import signal
import socket
import sys
from pathlib import Path
from typing import Any, NoReturn

from execnet import gateway_io
from execnet.gateway_base import Popen2IO

_LARGEST = 1 << 20
"""The maximum number of bytes of a request, which contains one environment."""


def use() -> None:
    """Fork the process that makes workers, and let this process's workers come from it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LARGEST)
    if os.fork() == 0:
        ours.close()
        _fork_on_request(theirs)
    theirs.close()

    class Forked(gateway_io.Popen2IOMaster):
        """The controller's end of one worker."""

        def __init__(self, _args: object, execmodel: Any) -> None:
            stdin, out = os.pipe()
            into, stdout = os.pipe()
            request = json.dumps([str(Path.cwd()), dict(os.environ)]).encode()
            socket.send_fds(ours, [request], [stdin, stdout])
            self.pid = int(ours.recv(32))
            os.close(stdin)
            os.close(stdout)
            self._process = os.pidfd_open(self.pid)
            Popen2IO.__init__(self, os.fdopen(out, "wb"), os.fdopen(into, "rb"), execmodel)

        def wait(self) -> int:
            select.select([self._process], [], [])
            return 0

        def kill(self) -> None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    gateway_io.Popen2IOMaster = Forked  # type: ignore[misc, assignment]


def _fork_on_request(asked: socket.socket) -> NoReturn:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system collects the workers
    while True:
        request, descriptors, _, _ = socket.recv_fds(asked, _LARGEST, 2)
        if not request:  # the controller is gone
            os._exit(0)
        pid = os.fork()
        if pid == 0:
            asked.close()
            _work(*json.loads(request), *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        asked.send(str(pid).encode())


def _work(folder: str, environment: dict[str, str], stdin: int, stdout: int) -> NoReturn:
    """Do what ``python -c`` does with execnet's first line."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for descriptor, place in ((stdin, 0), (stdout, 1)):
        os.dup2(descriptor, place)
        os.close(descriptor)
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[:] = ["-c"]
    random.seed()
    own: dict[str, Any] = {"__name__": "__main__"}
    try:
        exec(eval(sys.stdin.readline()), own)
    finally:
        atexit._run_exitfuncs()
        os._exit(0)
