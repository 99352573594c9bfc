# SPDX-License-Identifier: Apache-2.0
"""Execs into the containers of a node, and their logs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hybridlab.api.contract import ApiError, StreamCut, Streams
from tests.unit.hybridlab.builders import a_pod
from tests.unit.hybridlab.controllers.stand_ins import Cluster, in_cluster


class Channel:
    def __init__(self) -> None:
        self.data = b""

    async def send(self, data: bytes) -> None:
        self.data += data


def test_exec_carries_all_streams_and_the_exit_status() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.client.create("pods", a_pod())
        found = await cluster.running("web")
        agent = cluster.control_plane.node_agent(found["spec"]["nodeName"])
        assert agent is not None
        stdin = asyncio.StreamReader()
        stdin.feed_data(b"given")
        stdin.feed_eof()
        out, err = Channel(), Channel()
        ended = await agent.exec(
            found, "main", ("x",), Streams(stdin=stdin, stdout=out, stderr=err)
        )
        assert (ended.exit_code, out.data, err.data) == (3, b"out:given", b"err")
        refused = await agent.exec(
            found, "main", ("absent",), Streams(stdin=None, stdout=out, stderr=err)
        )
        assert refused.start_error == 'exec: "absent": not found'
        with pytest.raises(ApiError, match=r'container not found \("other"\)'):
            await agent.exec(found, "other", ("x",), Streams(stdin=None, stdout=out, stderr=err))

    in_cluster(scenario)


def test_a_command_that_runs_holds_one_end_of_each_of_its_three_pipes() -> None:
    """A process that held both ends would waste descriptors: of 793 descriptors of a lab 612 were
    pipes."""

    async def scenario(cluster: Cluster) -> None:
        await cluster.client.create("pods", a_pod())
        found = await cluster.running("web")
        kubelet = cluster.control_plane.kubelets[found["spec"]["nodeName"]]
        streams = Streams(stdin=asyncio.StreamReader(), stdout=Channel(), stderr=Channel())
        before = pipes()
        waiting = asyncio.create_task(kubelet.exec(found, "main", ("wait",), streams))
        for _ in range(20):
            await asyncio.sleep(0)
        assert pipes() - before == 3
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert pipes() == before

    in_cluster(scenario)


def pipes() -> int:
    """Ends of pipes that this process has open."""
    return sum(
        str(path.readlink()).startswith("pipe:")
        for path in Path("/proc/self/fd").iterdir()
        if path.is_symlink()
    )


def test_a_node_whose_network_breaks_cuts_its_execs_and_takes_new_ones() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.client.create("pods", a_pod())
        found = await cluster.running("web")
        kubelet = cluster.control_plane.kubelets[found["spec"]["nodeName"]]
        streams = Streams(stdin=None, stdout=Channel(), stderr=Channel())
        waiting = asyncio.create_task(kubelet.exec(found, "main", ("wait",), streams))
        await asyncio.sleep(0)
        kubelet.cut_streams()
        with pytest.raises(StreamCut):
            await waiting
        assert (await kubelet.exec(found, "main", ("x",), streams)).exit_code == 3

    in_cluster(scenario)


def test_logs_are_cut_to_the_last_lines_and_stamped() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.client.create("pods", a_pod())
        found = await cluster.running("web")
        cluster.runtime.lines[cluster.runtime.started[0].id] = [b"one\n", b"two\n", b"three\n"]
        agent = cluster.control_plane.kubelets[found["spec"]["nodeName"]]

        async def read(**more: Any) -> list[bytes]:
            options = {
                "follow": False,
                "previous": False,
                "tail_lines": None,
                "since_seconds": None,
            }
            chosen = {**options, "timestamps": False, "limit_bytes": None, **more}
            return [line async for line in agent.logs(found, "main", **chosen)]

        assert await read(tail_lines=2) == [b"two\n", b"three\n"]
        assert await read(limit_bytes=6) == [b"one\n", b"tw"]
        assert (await read(tail_lines=1, timestamps=True))[0].split(b" ")[1] == b"three\n"
        with pytest.raises(ApiError, match="previous terminated container"):
            await read(previous=True)

    in_cluster(scenario)
