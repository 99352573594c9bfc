# SPDX-License-Identifier: Apache-2.0
"""labd: pid 1 of the lab's namespaces, with one asyncio loop that answers the cluster's calls.

This module only puts parts together: it offers the contracts of the data plane and of the container
runtime. labd ends with the channel to the cluster (end-of-file), and everything inside ends with
labd.
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import traceback
from collections.abc import Sequence

import orjson

from hybridlab.dataplane.contract import Dataplane
from hybridlab.dataplane.sandbox_socket import serve_sockets
from hybridlab.dataplane.service import DataplaneService
from hybridlab.kernel import enter, log, open_files, preflight
from hybridlab.kernel.lack import Lack
from hybridlab.kernel.nft import keep_numbers
from hybridlab.kernel.reaper import Reaper
from hybridlab.kernel.rpc import Server
from hybridlab.kernel.sandbox import Sandboxes
from hybridlab.kernel.shapes import from_json
from hybridlab.kernel.wire import Channel
from hybridlab.labd.host import RemoteHost, remote_hosts
from hybridlab.labd.launch import FAILED, READY, LabdSettings


def report_failure(control: int, lacks: Sequence[Lack]) -> None:
    """Send the launcher the reason why no lab can start, without an event loop."""
    line = orjson.dumps({"event": FAILED, "params": {"lacks": list(lacks)}}) + b"\n"
    with contextlib.suppress(BrokenPipeError), socket.socket(fileno=os.dup(control)) as sock:
        sock.sendall(line)  # fails if the launcher has ended meanwhile


def run(control: int, settings_json: str, probe: int) -> int:
    """Run labd until the cluster is gone; return the exit status."""
    try:
        lacks = preflight.read_probe(probe)
        if lacks:
            report_failure(control, lacks)
            return 1
        enter.mount_own_proc()
        open_files.raise_limit()
        # programs in pods must not inherit an ignored SIGINT from a shell
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        log.begin("labd")
        settings = from_json(LabdSettings, orjson.loads(settings_json))
        keep_numbers(settings.nodes + 1)  # for the nodes and the underlay
        asyncio.run(_serve(control, settings))
    except BaseException:  # pid 1 must not unwind into the interpreter it was forked from
        traceback.print_exc()
        sys.stderr.flush()
        return 1
    finally:
        logging.shutdown()
    return 0


async def _serve(control: int, settings: LabdSettings) -> None:
    loop = asyncio.get_running_loop()
    # The loop and the programming thread hand the interpreter's lock to each other at every system
    # call.
    sys.setswitchinterval(0.0002)
    channel = Channel(socket.socket(fileno=control), peer="the cluster")
    open_files.listen(lambda lack: loop.call_soon_threadsafe(channel.end, lack))
    loop.add_signal_handler(signal.SIGTERM, channel.close, "labd got SIGTERM")
    reaper = Reaper()
    sandboxes = Sandboxes()
    dataplane = DataplaneService(sandboxes)
    if "dataplane" in settings.services:
        await dataplane.start()
        Server(Dataplane, channel).answer_with(dataplane)
        serve_sockets(sandboxes, channel)
    if "runtime" in settings.services:
        from hybridlab.powershell.applets import applets, probe_program
        from hybridlab.runtime.contract import Containers
        from hybridlab.runtime.descriptors import EXIT_EVENT, serve_streams
        from hybridlab.runtime.real_powershell import RealWindows
        from hybridlab.runtime.service import RuntimeService, Windows

        hosts = remote_hosts(channel)
        powershell = settings.powershell
        real = RealWindows(powershell, probe_program) if powershell else None
        runtime = RuntimeService(
            sandboxes=sandboxes,
            on_exit=lambda ended: channel.emit(EXIT_EVENT, ended),
            reaper=reaper,
            applet_settings=settings.applet_settings,
            servers={"coredns": dataplane.resolver.serve},
            windows=Windows(applets(), real),
            host_of=lambda node: RemoteHost(hosts, node),
        )
        Server(Containers, channel).answer_with(runtime)
        serve_streams(runtime, channel)
        if lack := await runtime.try_powershell():
            channel.emit(FAILED, {"lacks": [lack]})
            await channel.wait_closed()
            return
    channel.emit(READY)
    logging.getLogger(__name__).debug("ends: %s", await channel.wait_closed())
    dataplane.close()
