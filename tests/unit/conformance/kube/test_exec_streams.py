# SPDX-License-Identifier: Apache-2.0
"""A stream of an exec carries lines in both directions until it ends, and reports its end once."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from conformance.kube import answers, channels
from conformance.kube.channels import ExecBroken
from conformance.kube.client import Kube
from conformance.kube.streaming import ExecEnd
from tests.unit.conformance.kube.execs import Listener, flood, run, stream


def test_a_stream_carries_lines_both_ways_until_it_is_closed(kube: Kube, api: Any) -> None:
    def serve(channel: Any, _: Any) -> None:
        while (frame := channel.receive()) is not None and frame[0] == 0:
            channel.send(1, frame[1][:3])
            channel.send(1, frame[1][3:].replace(b"\n", b"\r\n"))
        channel.status(0)
        channel.close()

    api.exec, listener = serve, Listener()
    one = stream(kube, listener)
    one.send(b"first line")
    one.send(b"second")
    listener.wait(lambda: len(listener.lines) == 2)
    assert listener.lines == [b"first line", b"second"]
    one.close()
    assert one.ended
    assert listener.ends == [ExecEnd(0, "", "")]


def test_a_stream_that_is_cut_says_so_once(kube: Kube, api: Any) -> None:
    def serve(channel: Any, _: Any) -> None:
        channel.send(2, b"oh no")
        channel.cut()

    api.exec, listener = serve, Listener()
    one = stream(kube, listener)
    listener.wait(lambda: listener.ends)
    assert listener.ends == [ExecEnd(None, "the connection was cut", "oh no")]
    one.send(b"too late")
    one.close()


def test_a_stream_on_which_nothing_is_heard_is_pinged_and_then_given_up(
    kube: Kube, api: Any
) -> None:
    hold = threading.Event()
    api.exec, listener = (lambda channel, _: hold.wait(3)), Listener()
    stream(kube, listener, silence=0.3)
    listener.wait(lambda: listener.ends)
    hold.set()
    assert "nothing was received for" in listener.ends[0].problem


def test_pongs_keep_an_idle_stream_alive(kube: Kube, api: Any) -> None:
    api.exec, listener = (lambda channel, _: channel.receive()), Listener()
    one = stream(kube, listener, silence=0.3)
    time.sleep(0.7)
    assert not one.ended
    one.close()


def test_a_line_of_250_windows_endpoints_passes_and_one_beyond_16_mb_does_not(
    kube: Kube, api: Any
) -> None:
    api.exec = flood(12 << 20, b"x" * 65536)
    assert len(run(kube, within=60).stdout) == 12 << 20
    api.exec = flood(20 << 20, b"x" * 65536)
    with pytest.raises(ExecBroken, match="a line of the command's output exceeds 16 MB"):
        run(kube, within=60)


def test_a_stream_ends_with_a_line_beyond_16_mb(kube: Kube, api: Any) -> None:
    api.exec, listener = flood(20 << 20, b"x" * 65536), Listener()
    one = stream(kube, listener, silence=30)
    with listener.changed:
        assert listener.changed.wait_for(lambda: listener.ends, 60)
    assert listener.ends[0].problem == "a line of the command's output exceeds 16 MB"
    assert len(one.unfinished) <= (16 << 20) + 65536


def test_a_stream_may_carry_more_than_one_answer_may_hold(
    kube: Kube, api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channels, "ANSWER", 1 << 20)
    api.exec, listener = flood(4 << 20, b"x" * 65535 + b"\n"), Listener()
    stream(kube, listener)
    with listener.changed:
        assert listener.changed.wait_for(lambda: listener.ends, 60)
    assert (len(listener.lines), listener.ends) == (64, [ExecEnd(0, "", "")])


def test_a_long_line_is_looked_at_once() -> None:
    """Twice the line takes about twice the time; a line that is split again at each chunk takes four times as long."""

    def seconds(chunks: int) -> float:
        lines, begin = answers.Lines("a line"), time.process_time()
        for _ in range(chunks):
            assert lines.add(b"x" * 1024) == []
        assert lines.add(b"\nrest") == [b"x" * 1024 * chunks]
        assert lines.unfinished == b"rest"
        return time.process_time() - begin

    seconds(100)
    small, large = min(seconds(1000) for _ in range(3)), min(seconds(8000) for _ in range(3))
    assert large < 24 * small


def test_lines_end_where_they_end_however_they_are_cut() -> None:
    text = b"a\r\n\nbc\r\nd"
    for size in range(1, len(text) + 1):
        lines, found = answers.Lines("a line"), list[bytes]()
        for start in range(0, len(text), size):
            found += lines.add(text[start : start + size])
        assert (found, bytes(lines.unfinished)) == ([b"a", b"", b"bc"], b"d")


def test_a_stream_whose_listener_fails_ends_with_that_error(kube: Kube, api: Any) -> None:
    def serve(channel: Any, _: Any) -> None:
        channel.send(1, b"a line\n")
        channel.receive()

    def fail(line: bytes) -> None:
        raise ValueError(f"{line!r} is no request")

    api.exec, listener = serve, Listener()
    listener.line = fail  # type: ignore[method-assign]
    one = stream(kube, listener)
    listener.wait(lambda: listener.ends)
    (end,) = listener.ends
    assert (end.exit_code, one.ended) == (None, True)
    assert end.problem.startswith("the connection broke: ")
    assert "b'a line' is no request" in end.problem
