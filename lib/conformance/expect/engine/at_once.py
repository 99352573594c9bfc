# SPDX-License-Identifier: Apache-2.0
"""Makes slow calls at the same time, in threads; their results have the order of the calls."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from typing import TypeVar

T = TypeVar("T")


def at_once(calls: Sequence[Callable[[], T]]) -> list[Future[T]]:
    """Make all calls at once, and return a future for each once all calls have ended. The result of
    a future raises the exception of its call.

    After an interruption, the function does not wait for the calls: their threads end with the
    process.
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
    except BaseException as error:  # raised where the result is read
        future.set_exception(error)
