# SPDX-License-Identifier: Apache-2.0
"""Logs: which container, which part of its log, and why there is none."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.unit.hybridlab.builders import a_pod

PODS = "/api/v1/namespaces/default/pods"


def test_the_log_comes_as_text_with_the_options_passed_on(run: Any) -> None:
    async def scenario(api: Any) -> None:
        await api.running_pod("p")
        text = await api.get(
            f"{PODS}/p/log?follow=true&tailLines=5&timestamps=true&sinceSeconds=9&limitBytes=100"
        )
        assert text == "one\ntwo\n"
        assert api.agent.asked == {
            "container": "main",
            "follow": True,
            "previous": False,
            "tail_lines": 5,
            "since_seconds": 9,
            "timestamps": True,
            "limit_bytes": 100,
        }

    run(scenario)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("two/log", "a container name must be specified for pod two, choose one of: [main side]"),
        ("p/log?container=ghost", "container ghost is not valid for pod p"),
        ("p/log?previous=true", 'previous terminated container "main" in pod "p" not found'),
        ("p/log?tailLines=x", "must be a number"),
        ("waiting/log", 'container "main" in pod "waiting" is waiting to start: ContainerCreating'),
        (
            "pulling/log",
            'container "main" in pod "pulling" is waiting to start: trying and failing to pull image',
        ),
    ],
)
def test_a_log_that_cannot_be_had_is_refused_in_the_real_words(
    run: Any, query: str, words: str
) -> None:
    async def scenario(api: Any) -> None:
        await api.running_pod("p")
        await api.running_pod(
            "two", containers=[{"name": "main", "image": "i"}, {"name": "side", "image": "i"}]
        )
        for name, reason in (("waiting", "ContainerCreating"), ("pulling", "ErrImagePull")):
            await api.running_pod(name)
            states = [{"name": "main", "state": {"waiting": {"reason": reason}}}]
            await api.patch(f"{PODS}/{name}/status", {"status": {"containerStatuses": states}})
        answer = await api.call("GET", f"{PODS}/{query}")
        assert (answer.code, words in answer.body["message"]) == (400, True), answer.body

    run(scenario)


def test_a_restarted_container_has_a_previous_log(run: Any) -> None:
    async def scenario(api: Any) -> None:
        await api.running_pod("p")
        ended = {"exitCode": 1, "reason": "Error"}
        states = [{"name": "main", "state": {"running": {}}, "lastState": {"terminated": ended}}]
        await api.patch(f"{PODS}/p/status", {"status": {"containerStatuses": states}})
        assert await api.get(f"{PODS}/p/log?previous=true") == "one\ntwo\n"
        assert api.agent.asked["previous"] is True

    run(scenario)


def test_options_of_a_log_that_make_no_sense_are_422(run: Any) -> None:
    async def scenario(api: Any) -> None:
        await api.running_pod("p")
        answer = await api.call("GET", f"{PODS}/p/log?limitBytes=0")
        words = 'PodLogOptions "p" is invalid: limitBytes: Invalid value: 0: must be greater than or equal to 1'
        assert (answer.code, answer.body["message"]) == (422, words)

    run(scenario)


def test_a_pod_that_runs_nowhere_has_an_empty_log(run: Any) -> None:
    async def scenario(api: Any) -> None:
        await api.create(PODS, a_pod("p"))
        answer = await api.call("GET", f"{PODS}/p/log")
        assert (answer.code, answer.body) == (204, "")

    run(scenario)


def test_a_client_that_leaves_a_followed_log_is_no_error_of_the_server(
    run: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(api: Any) -> None:
        ended = asyncio.Event()

        async def endless(*_: Any, **__: Any) -> AsyncIterator[bytes]:
            try:
                while (
                    True
                ):  # a line in every round of the loop in which the connection is taken down
                    yield b"line\n"
                    await asyncio.sleep(0)
            finally:
                ended.set()

        monkeypatch.setattr(api.agent, "logs", endless)
        await api.running_pod("p")
        headers = {"Authorization": "Bearer admin-token"}
        async with api.session.get(
            f"{api.server.url}{PODS}/p/log?follow=true", headers=headers, ssl=api.tls
        ) as reply:
            assert await reply.content.readline() == b"line\n"
        await ended.wait()

    with caplog.at_level(logging.ERROR):
        run(scenario)
    assert [record.getMessage() for record in caplog.records] == []
