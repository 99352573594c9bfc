# SPDX-License-Identifier: Apache-2.0
"""The lab's log is bounded: a message is counted after the tenth time, and no log grows beyond its size."""

from __future__ import annotations

import errno
import io
import logging

import pytest

from hybridlab.kernel import log, open_files


@pytest.fixture
def handler(monkeypatch: pytest.MonkeyPatch) -> log.BoundedHandler:
    handler = log.BoundedHandler("lab")
    handler.setStream(io.StringIO())
    return handler


def say(handler: log.BoundedHandler, message: str, error: BaseException | None = None) -> None:
    cause = (type(error), error, None) if error else None
    handler.emit(logging.LogRecord("asyncio", logging.ERROR, "", 0, message, None, cause))


def lines(handler: log.BoundedHandler) -> list[str]:
    return str(handler.stream.getvalue()).splitlines()


def test_a_message_is_written_ten_times_and_counted_from_then_on(
    handler: log.BoundedHandler,
) -> None:
    for number in range(12_914):
        say(handler, f"socket {number} of 0x7f{number:x} cannot be accepted")
    say(handler, "something else")
    found = lines(handler)
    assert [line for line in found if "repeated" not in line] == [
        *(
            f"lab ERROR asyncio: socket {number} of 0x7f{number:x} cannot be accepted"
            for number in range(10)
        ),
        "lab ERROR asyncio: something else",
    ]
    assert [line.split(":")[0] for line in found if "repeated" in line] == [
        "repeated 90 more times",
        "repeated 990 more times",
        "repeated 9,990 more times",
    ]
    stream = handler.stream
    handler.close()
    last = "repeated 12,904 more times: lab ERROR asyncio: socket # of # cannot be accepted"
    assert str(stream.getvalue()).splitlines()[-1] == last


def test_a_log_has_a_size_and_says_that_it_is_full(
    handler: log.BoundedHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = "".join(chr(97 + number) for number in range(26)) * 400
    for number in range(2000):
        say(
            handler,
            f"{chr(97 + number % 26)}{chr(97 + number // 26 % 26)}{chr(97 + number // 676)}{words}",
        )
    found = str(handler.stream.getvalue())
    assert log.SIZE - 11_000 < len(found) < log.SIZE + 200
    assert found.splitlines()[-1] == "this log is full (8 MB); further lines only count repetitions"


def test_a_lack_of_open_files_is_told_and_not_logged(
    handler: log.BoundedHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(open_files, "_listeners", [told.append])
    say(
        handler,
        "socket.accept() out of system resource",
        OSError(errno.EMFILE, "Too many open files"),
    )
    assert len(told) == 1
    assert lines(handler) == []
