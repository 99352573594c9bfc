# SPDX-License-Identifier: Apache-2.0
"""When something goes wrong inside the server, the client is told, or cut off; never left with half an answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from hybridlab.api.errors import bad_request

PODS = "/api/v1/namespaces/default/pods"


def test_a_body_above_the_limit_is_413(run: Any) -> None:
    async def scenario(api: Any) -> None:
        body = {"metadata": {"name": "big"}, "data": {"x": "y" * (3 * 1024 * 1024)}}
        answer = await api.call("POST", "/api/v1/namespaces/default/configmaps", body)
        assert (answer.code, answer.body["message"]) == (
            413,
            "Request entity too large: limit is 3145728",
        )

    run(scenario)


def test_a_body_that_is_no_json_is_400(run: Any) -> None:
    async def scenario(api: Any) -> None:
        headers = {"Content-Type": "application/json"}
        answer = await api.call(
            "POST", "/api/v1/namespaces/default/configmaps", b"kind: ConfigMap", headers=headers
        )
        assert (
            answer.code,
            "json parse error: invalid character 'k' looking" in answer.body["message"],
        ) == (400, True)

    run(scenario)


class Breaking:
    """A kubelet that breaks at once, or in the middle of a log."""

    def __init__(self, *, late: bool) -> None:
        self._late = late

    async def logs(self, pod: Any, container: str, **options: Any) -> AsyncIterator[bytes]:
        if self._late:
            yield b"one\n"
        raise bad_request("the log is lost")

    async def exec(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("labd is gone")


def test_a_log_that_cannot_begin_is_refused_and_one_that_breaks_is_cut_off(run: Any) -> None:
    async def early(api: Any) -> None:
        await api.running_pod("p")
        answer = await api.call("GET", f"{PODS}/p/log")
        assert (answer.code, answer.body["message"]) == (400, "the log is lost")

    async def late(api: Any) -> None:
        await api.running_pod("p")
        with pytest.raises(aiohttp.ClientError):
            await api.call("GET", f"{PODS}/p/log")
        assert (await api.call("GET", "/healthz")).code == 200

    run(early, agent_of=lambda node: Breaking(late=False))
    run(late, agent_of=lambda node: Breaking(late=True))


def test_an_exec_whose_agent_breaks_says_so_on_the_error_channel(run: Any) -> None:
    async def scenario(api: Any) -> None:
        await api.running_pod("p")
        url = f"{api.server.url}{PODS}/p/exec?command=x&stdout=1"
        headers = {"Authorization": "Bearer admin-token"}
        protocols = ["v5.channel.k8s.io"]
        async with api.session.ws_connect(
            url, protocols=protocols, headers=headers, ssl=api.tls
        ) as socket:
            message = await socket.receive(timeout=5)
            assert message.data[0] == 3
            assert b"labd is gone" in message.data

    run(scenario, agent_of=lambda node: Breaking(late=False))


def test_stopping_ends_open_watches(api: Any) -> None:
    import asyncio

    async def main() -> None:
        async with asyncio.timeout(5), api() as it:
            headers = {"Authorization": "Bearer admin-token"}
            url = f"{it.server.url}/api/v1/namespaces?watch=true"
            reply = await it.session.get(url, headers=headers, ssl=it.tls)
            await reply.content.readline()
            await it.server.stop()
            with pytest.raises(aiohttp.ClientError):
                await it.session.get(url, headers=headers, ssl=it.tls)

    asyncio.run(main())
