# SPDX-License-Identifier: Apache-2.0
"""Several things that take their time, done at once: in a thread each, and told in the order they were named in."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from typing import TypeVar

T = TypeVar("T")


def at_once(calls: Sequence[Callable[[], T]]) -> list[Future[T]]:
    """What became of each call, once all have ended; the result of one that raised raises that.

    Whoever is interrupted meanwhile waits for none of them: the threads end with their process.
    """
    futures = [Future[T]() for _ in calls]
    for call, future in zip(calls, futures, strict=True):
        threading.Thread(
            target=_carry_out, args=(call, future), name="at once", daemon=True
        ).start()
    wait(futures)
    return futures


def _carry_out(call: Callable[[], T], future: Future[T]) -> None:
    try:
        future.set_result(call())
    except BaseException as error:  # who asks for the result hears of it
        future.set_exception(error)
