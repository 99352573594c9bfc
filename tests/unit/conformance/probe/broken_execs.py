# SPDX-License-Identifier: Apache-2.0
"""Ways in which an agent's exec breaks, each as a conversation that the fake API server holds in
the agent's place."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def greet(channel: Any, make: Any, **change: Any) -> None:
    hello = {
        "type": "hello", "protocol": 2, "up_ms": 1, "open_limit": 4000, "program": "agent.py", "os": "linux",
        "sha256": hashlib.sha256(make.agent.read_bytes()).hexdigest(),
    }  # fmt: skip
    say(channel, hello | change)


def say(channel: Any, document: Any) -> None:
    channel.send(1, b"@@PROBE@@ " + json.dumps(document).encode() + b"\n")


def lost_status(channel: Any, make: Any) -> None:
    channel.close()


def nothing_at_all(channel: Any, make: Any) -> None:
    channel.status(0)
    channel.close()


def wrong_binary(channel: Any, make: Any) -> None:
    channel.send(1, b"BusyBox v1.37 multi-call binary\n")
    channel.status(0)
    channel.close()


def missing_binary(channel: Any, make: Any) -> None:
    channel.status(None, message='exec: "python3": executable file not found in $PATH')
    channel.close()


def no_container(channel: Any, make: Any) -> None:
    channel.status(None, message='unable to upgrade connection: container not found ("agent")')
    channel.close()


def stranger(channel: Any, make: Any) -> None:
    greet(channel, make, sha256="0" * 64)
    channel.receive()


def old_protocol(channel: Any, make: Any) -> None:
    greet(channel, make, protocol=0)
    channel.receive()


def never_says_hello(channel: Any, make: Any) -> None:
    channel.receive()


def cut_when_asked(channel: Any, make: Any) -> None:
    greet(channel, make)
    channel.receive()
    channel.cut()


def half_an_answer(channel: Any, make: Any) -> None:
    greet(channel, make)
    channel.receive()
    channel.send(1, b'@@PROBE@@ {"type":"results","batch":"b1","resu')
    channel.cut()


def garbled_answer(channel: Any, make: Any) -> None:
    greet(channel, make)
    channel.receive()
    channel.send(1, b'@@PROBE@@ {"type":"results",,}\n')
    channel.receive()


def empty_results(channel: Any, make: Any) -> None:
    greet(channel, make)
    channel.receive()
    say(channel, {"type": "results", "batch": "b1", "left": 0, "results": []})
    channel.receive()


def results_of_something_else(channel: Any, make: Any) -> None:
    greet(channel, make)
    channel.receive()
    say(
        channel,
        {
            "type": "results",
            "batch": "b1",
            "left": 0,
            "results": [{"id": 7, "verdict": "TIMED_OUT", "ms": 1}],
        },
    )
    channel.receive()


def says_it_could_not_try(channel: Any, make: Any) -> None:
    greet(channel, make)
    while (frame := channel.receive()) is not None and b"batch" in frame[1]:
        batch = json.loads(frame[1])["batch"]
        broken = {"id": 0, "verdict": "BROKEN", "detail": "EMFILE"}
        say(channel, {"type": "results", "batch": batch, "left": 0, "results": [broken]})


def refuses_the_line(channel: Any, make: Any) -> None:
    greet(channel, make)
    channel.receive()
    say(channel, {"type": "error", "batch": "b1", "message": "kind 'tcp' is not known"})
    channel.receive()


def half_a_line(channel: Any, make: Any) -> None:
    channel.send(1, b'@@PROBE@@ {"type":"hel')
    channel.receive()


def killed(channel: Any, make: Any) -> None:
    greet(channel, make)
    channel.receive()
    channel.send(2, b"Killed")
    channel.status(137)
    channel.close()


BREAKS = [
    (lost_status, "the exit status never arrived"),
    (
        nothing_at_all,
        "another program answered in its place: it sent no hello, and exited with status 0",
    ),
    (half_a_line, 'its last line was cut short: \'@@PROBE@@ {"type":"hel'),
    (wrong_binary, "BusyBox"),
    (missing_binary, "executable file not found"),
    (stranger, "is not this suite's agent.py"),
    (old_protocol, "speaks protocol 0"),
    (never_says_hello, "sent no hello"),
    (cut_when_asked, "the connection was cut"),
    (half_an_answer, "the connection was cut"),
    (garbled_answer, "garbled line"),
    (empty_results, "does not match"),
    (results_of_something_else, "does not match"),
    (says_it_could_not_try, "EMFILE"),
    (refuses_the_line, "refused a batch"),
    (killed, "status 137"),
]
