# SPDX-License-Identifier: Apache-2.0
"""Pods may send packets up to their own MTU, and up to the other end's MTU if that is smaller."""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import Any

import pytest

from hybridlab.api.contract import Obj
from hybridlab.dataplane.sandbox_socket import sandbox_socket
from hybridlab.profiles.load import load
from tests.lab.controllers.test_whole_cluster import demo_pod
from tests.lab.controllers.whole_lab import WholeLab

AGNHOST = "registry.k8s.io/e2e-test-images/agnhost:2.53"
HEADERS = 28
"""Of IPv4 and UDP."""
IP_MTU_DISCOVER, IP_PMTUDISC_DO = 10, 2
"""linux/in.h: nothing is cut up."""
ARRIVES_WITHIN = 5.0


async def sent(lab: WholeLab, client: Obj, server: Obj, size: int) -> str:
    """What becomes of one IP packet of this size: ``arrives``, ``lost``, or the error of sending it (again)."""
    kind = (socket.AF_INET, socket.SOCK_DGRAM)
    listener = await sandbox_socket(lab.channel, server["metadata"]["uid"], *kind)
    sender = await sandbox_socket(lab.channel, client["metadata"]["uid"], *kind)
    with listener, sender:
        listener.setblocking(False)
        listener.bind(("0.0.0.0", 0))
        sender.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
        target = (server["status"]["podIP"], listener.getsockname()[1])
        for _ in range(
            20
        ):  # a packet may be lost while a path is new; a router's refusal reaches the next one
            try:
                sender.sendto(bytes(size - HEADERS), target)
                async with asyncio.timeout(ARRIVES_WITHIN / 20):
                    found = await asyncio.get_running_loop().sock_recv(listener, 65535)
                return "arrives" if len(found) == size - HEADERS else "cut"
            except TimeoutError:
                continue
            except OSError as error:
                return errno.errorcode[error.errno or 0]
    return "lost"


async def paths(lab: WholeLab, builds: dict[str, str]) -> dict[tuple[str, str, int], str]:
    """Every path between two Linux and two Windows pods on nodes of their own, by client, server and size."""
    await lab.client.create("namespaces", {"metadata": {"name": "demo"}})
    for name, build in builds.items():
        await lab.client.create("pods", demo_pod(name, AGNHOST, build, args=["pause"]), "demo")
    for name in ("linux-1", "linux-2"):
        pod: Any = demo_pod(name, AGNHOST, args=["pause"])
        pod["spec"]["nodeName"] = name
        await lab.client.create("pods", pod, "demo")
    pods = {pod["metadata"]["name"]: pod for pod in await lab.all_ready("demo", 2 + len(builds))}
    return {
        (client, server, size): await sent(lab, pods[client], pods[server], size)
        for client in pods
        for server in pods
        if client != server
        for size in (1440, 1441, 1448, 1450, 1451)
    }


@pytest.mark.parametrize(
    ("profile", "builds", "linux"),
    [
        ("untainted", {"windows": "10.0.20348", "windows-two": "10.0.20348"}, 1450),
        ("default", {"windows": "10.0.20348", "windows-old": "10.0.17763"}, 1440),
    ],
)
def test_pods_send_packets_that_fill_their_mtu(
    profile: str, builds: dict[str, str], linux: int
) -> None:
    """Where the Installation sets 1440, Linux pods alone follow: a Windows pod's larger packets do not fit there."""

    async def run() -> None:
        async with asyncio.timeout(120), WholeLab(load(profile)) as lab:
            seen = await paths(lab, builds)
            own = {"lin": linux, "win": 1450}
            for (client, server, size), outcome in seen.items():
                fits = size <= min(own[client[:3]], own[server[:3]])
                assert outcome == ("arrives" if fits else "EMSGSIZE"), (client, server, size)

    asyncio.run(run())
