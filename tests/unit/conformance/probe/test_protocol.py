# SPDX-License-Identifier: Apache-2.0
"""The suite sends and understands exactly the lines of the protocol's golden examples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conformance.errors import ProbeBroken
from conformance.model.attempt import Attempt, Kind
from conformance.model.endpoint import Addressing, Target
from conformance.model.observation import Verdict
from conformance.probe import protocol
from conformance.probe.clocks import unix

GOLDEN = Path(__file__).parents[3] / "contract" / "golden"
ATTEMPTS = [json.loads(line) for line in (GOLDEN / "attempts.jsonl").read_text().splitlines()]
RESULTS = [json.loads(line) for line in (GOLDEN / "results.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("example", ATTEMPTS, ids=lambda one: one["case"])
def test_an_attempt_is_sent_as_the_golden_example_says(example: dict[str, Any], make: Any) -> None:
    model = dict(example["model"])
    if "target" in model:
        model["target"] = Target(path=Addressing.POD_IP, **model["target"])
    attempt = Attempt(source=make.workload(), **{**model, "kind": Kind(model["kind"])})
    assert {"id": 0, **protocol.spec(attempt)} == example["spec"]


@pytest.mark.parametrize("example", RESULTS, ids=lambda one: one["case"])
def test_a_result_means_what_the_golden_example_says(example: dict[str, Any], make: Any) -> None:
    one, when = make.attempt(80), protocol.When(1.0, "the agent", started=0.5, error=0.25)
    if example["means"] is None:
        with pytest.raises(ProbeBroken):
            protocol.observation(one, example["result"], when)
        return
    seen = protocol.observation(one, example["result"], when, tries=2)
    assert (seen.at, seen.tries, seen.attempt, seen.clock) == (unix(1.0), 2, one, "the agent")
    for name, value in example["means"].items():
        found: Any = getattr(seen, name)
        found = (
            found.decode()
            if isinstance(found, bytes)
            else list(found)
            if isinstance(found, tuple)
            else found
        )
        assert found == value, name


def test_every_verdict_of_the_model_is_in_the_document() -> None:
    text = (Path(__file__).parents[4] / "docs" / "probe-protocol.md").read_text()
    assert [word for word in Verdict if f"| `{word}` |" not in text] == []


def test_a_batch_is_one_ascii_line(make: Any) -> None:
    attempt = Attempt(source=make.workload(), kind=Kind.DNS, give_up_after=1, query="bücher.test")
    line = protocol.batch_line("b", [protocol.spec(attempt)])
    assert b"\n" not in line
    assert json.loads(line.decode("ascii"))["attempts"][0]["query"] == "bücher.test"


@pytest.mark.parametrize("noise", [b"", b"WARNING: slow", b"#< CLIXML", b'{"type":"result"}'])
def test_a_line_without_the_mark_is_noise(noise: bytes) -> None:
    assert protocol.read_line(noise) is None


@pytest.mark.parametrize(
    "line", [b"@@PROBE@@ {", b"@@PROBE@@ []", b'@@PROBE@@ {"batch":"b"}', b"@@PROBE@@ "]
)
def test_a_marked_line_that_is_no_message_is_garbled_not_noise(line: bytes) -> None:
    with pytest.raises(protocol.Garbled):
        protocol.read_line(line)


def test_a_mark_behind_noise_on_the_same_line_is_found() -> None:
    assert protocol.read_line(b'\x00\xff@@PROBE@@ {"type":"beat"}') == {"type": "beat"}


def test_another_program_or_protocol_is_a_stranger() -> None:
    program = protocol.AGENTS["linux"]
    good = {"protocol": 2, "sha256": program.sha256}
    assert protocol.other_program(good, program) == ""
    assert "speaks protocol 1" in protocol.other_program({**good, "protocol": 1}, program)
    assert "is not this suite's agent.py" in protocol.other_program(
        {**good, "sha256": "0" * 64}, program
    )
    assert protocol.other_program({}, program)


@pytest.mark.parametrize("kind", [Kind.TCP, Kind.HTTP, Kind.UDP])
def test_an_attempt_without_a_target_is_refused(kind: Kind, make: Any) -> None:
    with pytest.raises(ValueError, match="only DNS attempts may have no target"):
        protocol.spec(Attempt(source=make.workload(), kind=kind, give_up_after=1))


def test_an_attempt_in_milliseconds_by_mistake_or_without_time_is_refused(make: Any) -> None:
    with pytest.raises(ValueError, match="give_up_after"):
        protocol.spec(make.attempt(80, give_up=0.0))


def test_an_identity_line_says_the_port_and_a_page_says_nothing() -> None:
    line = b'{"client": "192.0.2.1", "client_port": 5, "server": "192.0.2.2", "server_port": 8080, "pod": "ns/a"}\n'
    assert protocol.identity({}, line) == ("192.0.2.1", "ns/a", 8080)
    head = {"x-probe-client": "192.0.2.1", "x-probe-pod": "ns/a"}
    assert protocol.identity(head, line) == ("192.0.2.1", "ns/a", 8080)
    assert protocol.identity(head, b"pages of text") == ("192.0.2.1", "ns/a", 0)
    assert protocol.identity({}, b"<H1>{</H1>") == ("", "", 0)
