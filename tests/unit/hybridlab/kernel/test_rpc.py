# SPDX-License-Identifier: Apache-2.0
"""A Protocol's calls over a channel: the implementation gets what the caller gives, and errors say which call."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from hybridlab.kernel.rpc import Server, client
from hybridlab.kernel.wire import Channel, Refused


@dataclass(frozen=True)
class Box:
    name: str
    sizes: tuple[int, ...] = ()


class StoreError(Exception):
    pass


class Store(Protocol):
    async def put(self, box: Box | None, *, at: str = "shelf") -> Box | None: ...

    async def rules(self, rules: Sequence[tuple[str, str]]) -> dict[str, list[str]]: ...

    async def wait(self) -> None: ...


class Counted(Store, Protocol):
    def count(self) -> int: ...


class Shop:
    def __init__(self) -> None:
        self.given: list[object] = []
        self.waiting = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def put(self, box: Box | None, *, at: str = "shelf") -> Box | None:
        self.given.append((box, at))
        if box is not None and box.name == "heavy":
            raise Refused("the box heavy is too heavy")
        return box

    async def rules(self, rules: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
        self.given.append(rules)
        return {chain: [rule] for chain, rule in rules}

    async def wait(self) -> None:
        self.waiting.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


@contextlib.asynccontextmanager
async def shop() -> AsyncIterator[tuple[Store, Shop, Channel]]:
    """(the store as the caller sees it, the one that answers, the caller's end of the channel)."""
    ours, theirs = socket.socketpair()
    near, far = Channel(ours, peer="the shop"), Channel(theirs, peer="the caller")
    answering = Shop()
    Server(Store, far).answer_with(answering)
    try:
        yield client(Store, near, StoreError), answering, near
    finally:
        near.close()
        far.close()


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 5))


def test_arguments_and_results_arrive_as_the_protocols_types() -> None:
    async def scenario() -> None:
        async with shop() as (store, answering, _):
            assert await store.put(Box("b", (1, 2)), at="floor") == Box("b", (1, 2))
            assert await store.put(box=None) is None
            assert await store.rules([("in", "drop")]) == {"in": ["drop"]}
            assert answering.given == [
                (Box("b", (1, 2)), "floor"),
                (None, "shelf"),
                [("in", "drop")],
            ]

    run(scenario)


def test_a_refusal_is_the_callers_error_and_names_the_call() -> None:
    async def scenario() -> None:
        async with shop() as (store, _, _):
            with pytest.raises(StoreError, match=r"^Store\.put: the box heavy is too heavy$"):
                await store.put(Box("heavy"))

    run(scenario)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"box": {"name": 7}, "at": "x"}, "box.name: expected str, got int 7"),
        ({"box": None}, "expected parameters box, at, got box"),
        (None, "expected parameters box, at, got None"),
    ],
)
def test_arguments_of_another_shape_never_reach_the_implementation(
    params: object, words: str
) -> None:
    async def scenario() -> None:
        async with shop() as (_, answering, channel):
            with pytest.raises(Exception, match=words):
                await channel.call("Store.put", params)
            assert answering.given == []

    run(scenario)


def test_a_caller_who_is_cancelled_cancels_the_implementation() -> None:
    async def scenario() -> None:
        async with shop() as (store, answering, _):
            call = asyncio.ensure_future(store.wait())
            await answering.waiting.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await answering.cancelled.wait()

    run(scenario)


def test_descriptors_that_nobody_asked_for_are_closed() -> None:
    async def scenario() -> None:
        async with shop() as (_, _, channel):
            before = open_descriptors()
            await channel.call("Store.rules", {"rules": []}, fds=[0])
            assert open_descriptors() == before

    run(scenario)


def test_what_is_no_coroutine_function_comes_by_hand_or_not_at_all() -> None:
    class ByHand:
        def count(self) -> int:
            return 3

    class Nothing:
        async def call(self, method: str, params: object = None) -> Any:
            raise AssertionError(method)

    assert client(Counted, Nothing(), StoreError, by_hand=ByHand()).count() == 3
    with pytest.raises(TypeError, match="count of Counted cannot be a plain call"):
        client(Counted, Nothing(), StoreError)
