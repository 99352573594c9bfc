# SPDX-License-Identifier: Apache-2.0
"""Streams through the fake API server, whose execs run the real Linux stream agent on this machine."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from conformance.errors import EnvironmentBroken, ProbeBroken
from conformance.model.stream import StreamVerdict
from conformance.probe import protocol
from conformance.probe.prober import Prober
from conformance.probe.streams import Streams

HOME = "127.0.0.1"


@pytest.fixture
def streams(prober: Prober) -> Iterator[Streams]:
    quick = replace(
        prober.settings.timings.linux,
        stream_heartbeat=0.02,
        exec_overhead=1.0,
        agent_hello=1.0,
        tcp_give_up=0.5,
    )
    prober.agents.settings = replace(
        prober.settings, timings=replace(prober.settings.timings, linux=quick)
    )
    one = Streams(prober)
    yield one
    one.shut()


def pair(make: Any) -> tuple[Any, Any]:
    # A pod in a node's network, so that the port is any free one of this machine.
    return make.workload("client", address=HOME), make.workload(
        "server", address=HOME, host_network=True
    )


def test_streams_of_a_pair_share_two_agents_and_are_seen_at_both_ends(
    streams: Streams, agents: Any, make: Any
) -> None:
    several = streams.open([pair(make)] * 3)
    states = streams.look(several)
    assert (
        [state.client.verdict for state in states]
        == [state.server.verdict for state in states]
        == [StreamVerdict.SURVIVED] * 3
    )
    assert [query["command"][-1] for query in agents.started] == ["/probe/stream_agent.py"] * 2
    assert {stream.target.host for stream in several} == {HOME}
    streams.close(several)


def test_an_agent_that_holds_streams_is_not_ended_for_another(
    streams: Streams, prober: Prober, make: Any
) -> None:
    (stream,) = streams.open([pair(make)])
    assert all(agent.busy for agent in stream.agents)
    streams.close([stream])
    assert not any(agent.busy for agent in stream.agents)


def test_an_end_that_gives_up_resets_the_other(streams: Streams, make: Any) -> None:
    (stream,) = streams.open([pair(make)])
    assert streams.abort(stream, "server").verdict is StreamVerdict.ABORTED
    while streams.look_at(stream, "client").verdict is StreamVerdict.SURVIVED:
        pass
    assert streams.look_at(stream, "client").verdict is StreamVerdict.RESET
    with pytest.raises(ProbeBroken, match=r"server of stream s1 .* is not known"):
        streams.look([stream])


def test_an_agent_that_is_gone_is_a_broken_probe(streams: Streams, make: Any) -> None:
    (stream,) = streams.open([pair(make)])
    stream.agents[1].close()
    with pytest.raises(ProbeBroken, match="closed by the suite"):
        streams.look([stream])


def test_a_pod_that_is_gone_explains_its_agent(streams: Streams, agents: Any, make: Any) -> None:
    (stream,) = streams.open([pair(make)])
    agents.pods["server"] = {
        **agents.pod(Request("server"))[1],
        "metadata": {"name": "server", "uid": "another"},
    }
    stream.agents[1].close()
    with pytest.raises(EnvironmentBroken, match="replaced"):
        streams.look([stream])


class Request:
    def __init__(self, pod: str) -> None:
        self.path = f"/api/v1/namespaces/n/pods/{pod}"


def test_an_agent_that_breaks_at_its_start_is_started_again(
    streams: Streams, agents: Any, make: Any
) -> None:
    agents.script.append(lambda channel, query: channel.close())
    (stream,) = streams.open([pair(make)])
    assert not streams.look([stream])[0].lost
    assert len(agents.started) == 3


@pytest.mark.parametrize(
    "answer",
    [
        {"ends": []},
        {"ends": [{"side": "opened", "verdict": "BROKEN", "detail": "heartbeat 7 after 5"}]},
    ],
    ids=["unknown", "no verdict"],
)
def test_what_the_protocol_calls_no_verdict_is_none(
    streams: Streams, make: Any, monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any]
) -> None:
    (stream,) = streams.open([pair(make)])
    monkeypatch.setattr(streams, "_ask", lambda agent, job: answer)
    with pytest.raises(ProbeBroken):
        streams.look([stream])


def test_an_answer_without_its_clock_is_garbled(
    streams: Streams, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (stream,) = streams.open([pair(make)])

    def answered(line: Callable[[str], bytes], within: float) -> dict[str, Any]:
        assert json.loads(line("b"))["type"] == "stream-report"
        return {"type": "result", "ends": []}

    monkeypatch.setattr(stream.agents[0], "request", answered)
    with pytest.raises(ProbeBroken, match="garbled"):
        streams.look([stream])


def test_each_system_has_its_program() -> None:
    assert {os: program.name for os, program in protocol.STREAM_AGENTS.items()} == {
        "linux": "stream_agent.py", "windows": "stream-agent.ps1",
    }  # fmt: skip
