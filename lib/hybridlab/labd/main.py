"""labd: pid 1 of the lab's namespaces, one asyncio loop that answers the cluster's calls.

Composition only: what it offers comes from the data plane and from the container runtime, each a class with
``handlers()``.  labd ends when the channel to the cluster does (end-of-file), and with it all that is inside.
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
import socket
import sys
import time
import traceback
from collections.abc import Sequence

import orjson

from hybridlab.dataplane.service import DataplaneService
from hybridlab.kernel import enter, preflight
from hybridlab.kernel.lack import Lack
from hybridlab.kernel.reaper import Reaper
from hybridlab.kernel.sandbox import Sandboxes
from hybridlab.kernel.shapes import from_json
from hybridlab.kernel.wire import Channel
from hybridlab.labd.host import RemoteHost
from hybridlab.labd.launch import FAILED, READY, LabdSettings


def report_failure(control: int, lacks: Sequence[Lack]) -> None:
    """Tell the launcher, without a loop, why there will be no lab."""
    line = orjson.dumps({"event": FAILED, "params": {"lacks": list(lacks)}}) + b"\n"
    with socket.socket(fileno=os.dup(control)) as sock:
        sock.sendall(line)


def run(control: int, settings_json: str, probe: int, begun: float) -> int:
    """Be labd until the cluster is gone; the exit status."""
    times = {"imported": _ms(begun)}
    try:
        lacks = preflight.read_probe(probe)
        times["probed"] = _ms(begun)
        if lacks:
            report_failure(control, lacks)
            return 1
        enter.mount_own_proc()
        _raise_descriptor_limit()
        logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="labd %(levelname)s %(name)s: %(message)s")
        settings = from_json(LabdSettings, orjson.loads(settings_json))
        asyncio.run(_serve(control, settings, times, begun))
    except BaseException:  # pid 1 must not unwind into the interpreter it was forked from
        traceback.print_exc()
        sys.stderr.flush()
        return 1
    return 0


async def _serve(control: int, settings: LabdSettings, times: dict[str, float], begun: float) -> None:
    loop = asyncio.get_running_loop()
    # The loop and the programming thread hand the interpreter's lock to each other at every system call.
    sys.setswitchinterval(0.0002)
    channel = Channel(socket.socket(fileno=control), peer="the cluster")
    loop.add_signal_handler(signal.SIGTERM, channel.close, "labd got SIGTERM")
    reaper = Reaper()
    sandboxes = Sandboxes()
    dataplane = DataplaneService(sandboxes)
    if "dataplane" in settings.services:
        await dataplane.start()
        for method, handler in dataplane.handlers().items():
            channel.register(method, handler)
    if "runtime" in settings.services:
        from hybridlab.runtime.service import RuntimeService
        from hybridlab.windows.powershell.applets import applets

        runtime = RuntimeService(
            sandboxes=sandboxes,
            emit=channel.emit,
            reaper=reaper,
            applet_settings=settings.applet_settings,
            servers={"coredns": dataplane.resolver.serve},
            windows_applets=applets(),
            host_of=lambda node: RemoteHost(channel, node),
        )
        for method, handler in runtime.handlers().items():
            channel.register(method, handler)
    times["ready"] = _ms(begun)
    channel.emit(READY, {"times": times})
    reason = await channel.wait_closed()
    logging.getLogger(__name__).info("ends: %s", reason)
    dataplane.close()


def _ms(begun: float) -> float:
    return round((time.perf_counter() - begun) * 1e3, 1)


def _raise_descriptor_limit() -> None:
    """A pod costs a descriptor, a node five, a socket one: take all that is allowed."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
