# SPDX-License-Identifier: Apache-2.0
"""Golden conversations with an agent are compared word for word; the message names the line that
differs."""

from __future__ import annotations

import json
import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance.errors import ProbeBroken
from conformance.kube.transcript import forget
from conformance.probe import golden, protocol
from conformance.probe.golden import Servers, serving
from tests.contract.loopback import servers

PROGRAM = protocol.AGENTS["linux"]
STREAMS = protocol.STREAM_AGENTS["linux"]


def test_the_packaged_conversations_are_the_golden_ones() -> None:
    tool = runpy.run_path(str(Path(__file__).parents[3] / "tools" / "package_golden.py"))
    text = tool["PACKAGED"].read_text()
    assert text == tool["packaged"](), "python tools/package_golden.py"
    assert len(golden.conversations()) > 190
    assert len(golden.conversations("stream agent")) > 10


def by_themselves(program: str) -> int:
    """Return the number of conversations that need no servers."""
    return sum("beside" not in item for item in golden.conversations(program))


def test_the_real_agent_keeps_to_those_that_need_no_servers(
    kube: Any, agents: Any, make: Any
) -> None:
    timings = make.settings.timings.linux
    with servers() as ports:
        pod = make.workload("echo", namespace="ns")
        held = golden.hold(kube, pod, PROGRAM, timings, forget, echo_port=ports["$ECHO"])
    assert held == by_themselves("agent") > 100
    assert len(agents.started) == 1, "one agent holds all of them"


@pytest.mark.parametrize(
    ("program", "name"), [(PROGRAM, "agent"), (STREAMS, "stream agent")], ids=["agent", "stream"]
)
@pytest.mark.parametrize("where", ["their own pod", "another pod"])
def test_the_real_agents_keep_to_all_of_them_with_the_servers(
    *, kube: Any, agents: Any, make: Any, program: protocol.Program, name: str, where: str
) -> None:
    timings = make.settings.timings.linux
    with servers() as ports:
        pod = make.workload("echo", namespace="ns")
        other = (
            pod
            if where == "their own pod"
            else replace(make.workload("linux"), address="127.0.0.1")
        )
        with serving(kube, other, timings, forget) as beside:
            held = golden.hold(
                kube, pod, program, timings, forget, echo_port=ports["$ECHO"], servers=beside
            )
    assert held == len(golden.conversations(name)) > by_themselves(name)
    assert len(agents.started) == 2, "the servers and one agent"


def test_servers_that_are_not_reached_are_told_as_the_network_s_fault(
    kube: Any, agents: Any, make: Any
) -> None:
    timings, pod = make.settings.timings.linux, make.workload("echo", namespace="ns")
    away = Servers(
        make.workload("linux"), {"$HTTP": golden.CLOSED_PORT, "$SAME": golden.CLOSED_PORT}
    )
    away = replace(away, pod=replace(away.pod, address="127.0.0.1"))
    with pytest.raises(ProbeBroken) as caught:
        golden.hold(kube, pod, PROGRAM, timings, forget, servers=away)
    first, *_, do = str(caught.value).splitlines()
    assert "'the servers are reached' (with servers in n/linux" in first
    assert "the network between them may be the reason" in first
    assert do.startswith("  do       check whether the two pods reach each other")


@pytest.mark.parametrize(
    ("script", "words"), [(lambda channel, _: channel.receive(), "wrote nothing"), (None, "")]
)
def test_servers_that_do_not_start_are_told(
    *, kube: Any, agents: Any, make: Any, script: Any, words: str
) -> None:
    agents.script = [script or ends]
    patience = replace(make.settings.timings.linux, agent_hello=1.0)
    with (
        pytest.raises(
            ProbeBroken, match=f"golden_server.py in .*: it {words or 'ended .status 3'}"
        ),
        serving(kube, make.workload(), patience, forget),
    ):
        pass


def test_an_agent_that_says_something_else_is_told_with_both_lines(
    kube: Any, agents: Any, make: Any
) -> None:
    def serve(channel: Any, _: Any) -> None:
        hello = {
            "type": "hello",
            "protocol": 2,
            "program": "agent.py",
            "sha256": PROGRAM.sha256,
            "up_ms": 1,
        }
        for document in (hello, {"type": "beat", "up_ms": 2, "open": "0"}):
            channel.send(1, protocol.MARK + json.dumps(document).encode() + b"\n")
        while channel.receive() is not None:
            pass

    agents.script = [serve]
    with pytest.raises(ProbeBroken) as caught:
        golden.hold(kube, make.workload(), PROGRAM, make.settings.timings.linux, forget)
    first, expected, observed, do = str(caught.value).splitlines()
    assert first.startswith(
        "agent agent.py in n/client (linux, node w1) does not follow the probe protocol: golden"
    )
    assert first.endswith("'ping is answered by a beat': line.open: expected 0, found '0'")
    assert '"open": 0' in expected
    assert '"open": "0"' in observed
    assert "report both lines" in do


def ends(channel: Any, _: Any) -> None:
    channel.send(2, b"no such module")
    channel.status(3)
    channel.close()


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (lambda channel, _: channel.receive(), "it wrote nothing within 1 s"),
        (ends, "status 3.*no such module"),
    ],
)
def test_an_agent_that_says_nothing_or_ends_is_told(
    *, kube: Any, agents: Any, make: Any, script: Any, words: str
) -> None:
    agents.script = [script]
    patience = replace(make.settings.timings.linux, agent_hello=1.0)
    with pytest.raises(ProbeBroken, match=words):
        golden.hold(kube, make.workload(), PROGRAM, patience, forget)
