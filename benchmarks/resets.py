# SPDX-License-Identifier: Apache-2.0
"""The time that the lab takes to reprogram a Windows pod with connections: ``python -m
benchmarks.resets``.

Prints a Markdown table for docs/performance.md: the duration of the call that changes the policy,
and the time from its beginning until the far ends of all (idle) connections were reset.
"""

from __future__ import annotations

import asyncio
import contextlib
import selectors
import socket
import statistics
import time

from benchmarks import machine
from hybridlab.dataplane.contract import Dataplane, remote_dataplane
from hybridlab.dataplane.model import Acl, EndpointProgram, NodeSpec, PodPort, PodSpec, PolicyUpdate
from hybridlab.dataplane.sandbox_socket import sandbox_socket
from hybridlab.kernel.wire import Channel
from hybridlab.labd.launch import LabdSettings, launch

ROUNDS = 10
PORT = 8080
ALLOW_ALL = EndpointProgram(acls=(Acl(action="Allow", direction="In", priority=1000),))


async def build(plane: Dataplane) -> None:
    """Build one Windows node with two pods."""
    await plane.add_node(NodeSpec(name="w", os="windows", address="10.0.0.10", prefix_length=24))
    port = PodPort(gateway="192.168.0.1")
    for number, name in enumerate(("far", "pod"), start=5):
        await plane.add_pod(
            PodSpec(
                id=name,
                node="w",
                name=name,
                namespace="b",
                address=f"192.168.0.{number}",
                port=port,
            )
        )
    await plane.update_policy(
        "w", PolicyUpdate(endpoints={"far": EndpointProgram(), "pod": EndpointProgram()})
    )


def one_round(
    runner: asyncio.Runner, channel: Channel, plane: Dataplane, count: int
) -> tuple[float, float]:
    """Return the seconds of the call, and the seconds until every far end was reset."""
    with contextlib.ExitStack() as opened, selectors.DefaultSelector() as waiting:
        listener = opened.enter_context(runner.run(sandbox_socket(channel, "pod")))
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("0.0.0.0", PORT))
        listener.listen(count)
        listener.setblocking(True)
        for _ in range(count):
            far = opened.enter_context(runner.run(sandbox_socket(channel, "far")))
            far.setblocking(True)
            far.connect(("192.168.0.6", PORT))
            opened.enter_context(listener.accept()[0])
            waiting.register(far, selectors.EVENT_READ)
        begin = time.perf_counter()
        runner.run(
            plane.update_policy("w", PolicyUpdate(endpoints={"pod": ALLOW_ALL}, reset=("pod",)))
        )
        called = time.perf_counter() - begin
        while waiting.get_map():
            ready = waiting.select(10)
            if not ready:
                raise SystemExit(
                    f"{len(waiting.get_map())} of {count} connections were not reset within 10 s"
                )
            for key, _ in ready:
                waiting.unregister(key.fileobj)
        return called, time.perf_counter() - begin


def main() -> None:
    labd = launch(LabdSettings(services=("dataplane",)))
    print(machine.describe(), "\n")
    print("| idle connections of a Windows pod | the call | all far ends reset | range | rounds |")
    print("| --- | --- | --- | --- | --- |")
    with asyncio.Runner() as runner:
        try:
            channel = runner.run(labd.connect())
            plane = remote_dataplane(channel)
            runner.run(build(plane))
            for count in (0, 1, 50, 500):
                found = [one_round(runner, channel, plane, count) for _ in range(ROUNDS)]
                call, ended = (
                    statistics.median(times) * 1000 for times in zip(*found, strict=True)
                )
                all_ends = [times[1] * 1000 for times in found]
                between = f"{min(all_ends):.3g} to {max(all_ends):.3g} ms"
                print(f"| {count} | {call:.2g} ms | {ended:.3g} ms | {between} | {ROUNDS} |")
        finally:
            runner.run(labd.close())


if __name__ == "__main__":
    main()
