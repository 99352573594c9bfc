# SPDX-License-Identifier: Apache-2.0
"""The line between the cluster and labd: calls, errors, descriptors, events, cancellation, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hybridlab.kernel.wire import CallFailed, Channel, ChannelClosed, DescriptorReply, Refused


@dataclass(frozen=True)
class Shape:
    name: str
    sizes: tuple[int, ...]


@contextlib.asynccontextmanager
async def line(handlers: Any = None, on_event: Any = None) -> AsyncIterator[Any]:
    """(the caller's end, the answering end)."""
    ours, theirs = socket.socketpair()
    caller = Channel(ours, peer="labd", on_event=on_event)
    answerer = Channel(theirs, peer="the cluster", handlers=handlers)
    try:
        yield caller, answerer
    finally:
        caller.close()
        answerer.close()


def run(scenario: Any) -> Any:
    return asyncio.run(asyncio.wait_for(scenario, 5))


def open_descriptors() -> Any:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_calls_cross_with_shapes_and_answers_may_overtake_each_other() -> None:
    async def echo(params: Any, fds: Any) -> Any:
        await asyncio.sleep(params["wait"])
        return params

    async def scenario() -> None:
        async with line({"echo": echo}) as (caller, _):
            slow = asyncio.ensure_future(
                caller.call("echo", {"wait": 0.05, "shape": Shape("a", (1, 2))})
            )
            assert await caller.call("echo", {"wait": 0}) == {"wait": 0}
            assert not slow.done()
            assert (await slow)["shape"] == {"name": "a", "sizes": [1, 2]}

    run(scenario())


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (Refused("no such pod x"), "Refused", "no such pod x"),
        (ValueError("oops"), "ValueError", r"ValueError\('oops'\)"),
    ],
)
def test_a_refusal_arrives_with_the_other_sides_words(error: Any, kind: str, words: str) -> None:
    async def refuse(params: Any, fds: Any) -> None:
        raise error

    async def scenario() -> None:
        async with line({"refuse": refuse}) as (caller, _):
            with pytest.raises(CallFailed, match=words) as caught:
                await caller.call("refuse")
            assert caught.value.kind == kind
            with pytest.raises(
                CallFailed, match="there is no method other; the methods are refuse"
            ):
                await caller.call("other")

    run(scenario())


def test_descriptors_belong_to_their_message_in_both_directions() -> None:
    async def swap(params: Any, fds: Any) -> DescriptorReply:
        assert not any(os.get_inheritable(fd) for fd in fds)
        texts = [os.read(fd, 100).decode() for fd in fds]
        for fd in fds:
            os.close(fd)
        reading, writing = os.pipe()
        os.write(writing, f"{params} {texts}".encode())
        os.close(writing)
        return DescriptorReply(len(fds), [reading])

    def pipe_with(text: Any) -> Any:
        reading, writing = os.pipe()
        os.write(writing, text.encode())
        os.close(writing)
        return reading

    async def scenario() -> None:
        before = open_descriptors()
        async with line({"swap": swap}) as (caller, _):

            async def one(number: Any) -> None:
                mine = [pipe_with(f"{number}.{i}") for i in range(number % 4)]
                try:
                    result, fds = await caller.call_fds("swap", number, fds=mine)
                finally:
                    for fd in mine:
                        os.close(fd)
                text = os.read(fds[0], 1000).decode()
                os.close(fds[0])
                assert (result, text) == (
                    number % 4,
                    f"{number} {[f'{number}.{i}' for i in range(number % 4)]}",
                )

            await asyncio.gather(*(one(number) for number in range(40)))
        assert open_descriptors() == before

    run(scenario())


def test_messages_larger_than_the_sockets_buffer_keep_their_order_and_descriptors() -> None:
    async def length(params: Any, fds: Any) -> list[Any]:
        for fd in fds:
            os.close(fd)
        return [len(params), len(fds)]

    async def scenario() -> None:
        before = open_descriptors()
        async with line({"length": length}) as (caller, _):
            null = os.open(os.devnull, os.O_RDONLY)
            sizes = [3_000_000, 10, 1_000_000, 0]
            calls = [
                caller.call("length", "x" * size, fds=[null] * i) for i, size in enumerate(sizes)
            ]
            assert await asyncio.gather(*calls) == [[size, i] for i, size in enumerate(sizes)]
            os.close(null)
        assert open_descriptors() == before

    run(scenario())


def test_cancelling_a_call_cancels_its_handler() -> None:
    async def scenario() -> None:
        begun, ended = asyncio.Event(), asyncio.Event()

        async def wait(params: Any, fds: Any) -> None:
            begun.set()
            try:
                await asyncio.Future()
            finally:
                ended.set()

        async with line({"wait": wait}) as (caller, _):
            call = asyncio.ensure_future(caller.call("wait"))
            await begun.wait()
            call.cancel()
            await ended.wait()
            with pytest.raises(asyncio.CancelledError):
                await call

    run(scenario())


def test_events_arrive_in_order() -> None:
    async def scenario() -> None:
        seen: asyncio.Queue[Any] = asyncio.Queue()
        async with line(on_event=lambda event, params: seen.put_nowait((event, params))) as (
            _,
            answerer,
        ):
            for number in range(3):
                answerer.emit("exit", number)
            assert [await seen.get() for _ in range(3)] == [("exit", 0), ("exit", 1), ("exit", 2)]

    run(scenario())


@pytest.mark.parametrize("who", ["caller", "answerer"])
def test_the_end_of_one_side_ends_the_other_its_calls_and_its_handlers(who: str) -> None:
    async def scenario() -> None:
        begun, cancelled = asyncio.Event(), asyncio.Event()

        async def wait(params: Any, fds: Any) -> None:
            begun.set()
            try:
                await asyncio.Future()
            finally:
                cancelled.set()

        async with line({"wait": wait}) as (caller, answerer):
            call = asyncio.ensure_future(caller.call("wait"))
            await begun.wait()
            {"caller": caller, "answerer": answerer}[who].close()
            with pytest.raises(ChannelClosed, match="labd is gone"):
                await call
            await cancelled.wait()
            await asyncio.gather(caller.wait_closed(), answerer.wait_closed())
            with pytest.raises(ChannelClosed):
                await caller.call("wait")

    run(scenario())


def test_a_line_that_is_no_json_ends_the_channel_with_the_reason() -> None:
    async def scenario() -> None:
        ours, theirs = socket.socketpair()
        channel = Channel(ours, peer="labd")
        theirs.sendall(b"Traceback (most recent call last)\n")
        assert (
            await channel.wait_closed()
            == "received a line that is not JSON: b'Traceback (most recent call last)'"
        )
        theirs.close()

    run(scenario())
