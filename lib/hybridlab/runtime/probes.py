# SPDX-License-Identifier: Apache-2.0
"""Kubelet probes over the network, from the node's namespace; messages are those of the kubelet."""

import asyncio
import os

from hybridlab.runtime.applet import Net
from hybridlab.runtime.applets import http
from hybridlab.runtime.model import ProbeResult, ProbeSpec
from hybridlab.runtime.streams import LazyReader

_MAX_OUTPUT = 10 << 10
"""The maximum number of bytes of a probe's output that a kubelet stores."""


async def network(net: Net, spec: ProbeSpec) -> ProbeResult:
    """Run an http or tcp probe. A network failure raises no error: it is the probe's result."""
    where = f"{spec.address}:{spec.port}"
    try:
        async with asyncio.timeout(spec.timeout):
            if spec.kind == "tcp":
                _, writer = await http.connect(net, spec.address, spec.port)
                http.abort(writer)
                return ProbeResult(ok=True, message="")
            url = http.Url(
                spec.address, spec.port, spec.path if spec.path.startswith("/") else "/" + spec.path
            )
            headers = {"User-Agent": "kube-probe/1.34", "Accept": "*/*", "Connection": "close"}
            answer = await http.request(net, url, spec.address, headers=headers)
    except TimeoutError:
        if spec.kind == "tcp":
            return ProbeResult(ok=False, message=f"dial tcp {where}: i/o timeout")
        words = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
        return ProbeResult(ok=False, message=f'Get "http://{where}{spec.path}": {words}')
    except http.BadAnswer:
        return ProbeResult(ok=False, message=f'Get "http://{where}{spec.path}": EOF')
    except OSError as error:
        words = f"dial tcp {where}: connect: {os.strerror(error.errno or 0).lower()}"
        return ProbeResult(
            ok=False,
            message=words if spec.kind == "tcp" else f'Get "http://{where}{spec.path}": {words}',
        )
    ok = 200 <= answer.status < 400
    return ProbeResult(
        ok=ok, message="" if ok else f"HTTP probe failed with statuscode: {answer.status}"
    )


class Collector:
    """Reads a pipe in the background while a command writes to it; owns the descriptor."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._reader = LazyReader(fd)
        self._task = asyncio.create_task(self._reader.read())

    async def finish(self) -> str:
        """Return the written text; call it after the write end was closed. It does not wait for
        other processes that still have that end open."""
        try:
            async with asyncio.timeout(0.2):
                data = await asyncio.shield(self._task)
        except TimeoutError:
            self._task.cancel()
            data = b""
        finally:
            self._reader.stop()
            os.close(self._fd)
        return data[:_MAX_OUTPUT].decode(errors="replace")
