# SPDX-License-Identifier: Apache-2.0
"""A literal command must agree with the attempts; only a command that connects where the
attempts do not is a violation."""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from conformance.errors import Nonconformance, ProbeBroken
from conformance.expect.context import Context, Sink
from conformance.expect.engine.at_once import at_once
from conformance.expect.subjects.commands import Commands
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Decision
from conformance.model.endpoint import Workload
from conformance.settings import load_timings
from tests.unit.conformance.builders import a_workload
from tests.unit.conformance.expect.stand_ins import target

CLIENT, WINDOWS = a_workload("linux-client"), a_workload("windows-client", "windows")
SERVER = target()
PAGE = "StatusCode        : 200\nContent           : <title>Welcome to nginx!</title>"
TIMED_OUT = "Invoke-WebRequest : The operation has timed out.\nAt line:1 char:1"


@dataclass
class Ended:
    exit_code: int
    output: str
    seconds: float = 2.34


def commands(exit_code: int, output: str, ran: list[Sequence[str]] | None = None) -> Commands:
    def run(where: Workload, argv: Sequence[str], within: float) -> Ended:
        assert within > 5.0
        if ran is not None:
            ran.append(argv)
        return Ended(exit_code, output)

    return Commands(run, load_timings(), Context(claims=("DEMO-7",)))


def test_the_commands_are_the_demos_to_the_letter() -> None:
    ran: list[Sequence[str]] = []
    commands(0, "192.168.0.9 (192.168.0.9:80) open", ran).nc_opens([(CLIENT, SERVER)], because="x")
    commands(0, PAGE, ran).web_request_shows([(WINDOWS, SERVER)], "Welcome to nginx!", because="x")
    assert [" ".join(argv) for argv in ran] == [
        "nc -vz 192.168.0.9 80",
        "powershell Invoke-WebRequest -Uri http://192.168.0.9 -UseBasicParsing -TimeoutSec 5",
    ]


@pytest.mark.parametrize(
    ("exit_code", "output"),
    [
        (1, "nc: 192.168.0.9 (192.168.0.9:80): Connection timed out"),
        (0, ""),
        (0, "192.168.0.9 (192.168.0.9:443) open"),
    ],
)
def test_a_command_that_fails_where_attempts_connect_breaks_the_probe(
    exit_code: int, output: str
) -> None:
    with pytest.raises(
        ProbeBroken,
        match=r"^DEMO-7: linux-1 to .* nc -vz: expected exit code 0.*1 try, 2\.3 s(?s:.*)ns/linux-client",
    ) as broken:
        commands(exit_code, output).nc_opens([(CLIENT, SERVER)], because="nothing forbids it")
    assert "attempts on this path connected" in str(broken.value)
    assert "nothing forbids it" in str(broken.value)


def test_a_page_without_the_expected_text_breaks_the_probe() -> None:
    with pytest.raises(ProbeBroken, match="printed  StatusCode : 200 Content : something else"):
        commands(0, "StatusCode : 200\nContent : something else").web_request_shows(
            [(WINDOWS, SERVER)], "Welcome to nginx!", because="x"
        )


def test_an_output_that_is_wrapped_in_the_middle_of_words_says_the_same() -> None:
    wrapped = PAGE.replace("to nginx", "to ng\n                    inx")
    commands(0, wrapped).web_request_shows([(WINDOWS, SERVER)], "Welcome to nginx!", because="x")
    late = TIMED_OUT.replace("operation has", "opera\ntion has")
    commands(1, late).web_request_times_out([(WINDOWS, SERVER)], because="x")


def test_a_command_that_times_out_as_documented_agrees_with_a_denial() -> None:
    commands(1, TIMED_OUT).web_request_times_out([(WINDOWS, SERVER)], because="x")


def test_a_command_that_gets_through_a_denial_is_a_violation() -> None:
    with pytest.raises(Nonconformance, match=r"observed exit code 0 \(1 try, 2\.3 s\)") as failed:
        commands(0, PAGE).web_request_times_out(
            [(WINDOWS, SERVER)], because="only linux-client is allowed"
        )
    assert "the denial does not hold" in str(failed.value)


def test_a_command_that_fails_otherwise_under_a_denial_breaks_the_probe() -> None:
    with pytest.raises(ProbeBroken, match="failed for another reason"):
        commands(1, "powershell: not recognized").web_request_times_out(
            [(WINDOWS, SERVER)], because="x"
        )


CLIENTS = [
    a_workload(f"windows-{number}", "windows", node=f"windows-{number}") for number in (1, 2, 3)
]


@pytest.mark.parametrize(
    ("answers", "raised", "verdicts"),
    [
        (["through", "denied", "through"], Nonconformance, ["VIOLATED", "CONFIRMED", "VIOLATED"]),
        (
            ["broken", "denied", "through"],
            Nonconformance,
            ["INCONCLUSIVE", "CONFIRMED", "VIOLATED"],
        ),
        (["broken", "denied", "gone"], ProbeBroken, ["INCONCLUSIVE", "CONFIRMED", "INCONCLUSIVE"]),
    ],
)
def test_every_pair_is_decided_whatever_the_others_said_and_the_failures_are_named(
    answers: list[str], raised: type[Exception], verdicts: list[str]
) -> None:
    ends = {
        "through": Ended(0, PAGE),
        "denied": Ended(1, TIMED_OUT),
        "broken": Ended(1, "not recognized"),
    }
    kept: list[Decision] = []
    by_pod = dict(zip((client.pod for client in CLIENTS), answers, strict=True))

    def run(where: Workload, argv: Sequence[str], within: float) -> Ended:
        if by_pod[where.pod] == "gone":
            raise ProbeBroken(f"exec in {where.label} failed")
        return ends[by_pod[where.pod]]

    command = Commands(run, load_timings(), Context(claims=("DEMO-7",), sink=Sink(kept)))
    with pytest.raises(raised) as failed:
        command.web_request_times_out(
            [(client, SERVER) for client in CLIENTS], because="only linux-client is allowed"
        )
    assert [(seen.source, seen.verdict) for seen in kept] == [
        (one.node, ClaimVerdict[word]) for one, word in zip(CLIENTS, verdicts, strict=True)
    ]
    (note,) = failed.value.__notes__
    other = next(one for one, word in zip(CLIENTS, verdicts, strict=True) if word != "CONFIRMED" and
                 one.node not in str(failed.value).splitlines()[0])  # fmt: skip
    assert note.startswith("  also      ")
    assert other.node in note


def test_commands_of_several_routes_run_at_the_same_time() -> None:
    both = threading.Barrier(2)

    def run(where: Workload, argv: Sequence[str], within: float) -> Ended:
        both.wait(5.0)
        return Ended(1, TIMED_OUT)

    said = Commands(run, load_timings(), Context(claims=("DEMO-7",)))
    said.web_request_times_out([(WINDOWS, SERVER), (WINDOWS, target("192.168.0.10"))], because="x")


def test_an_interrupted_wait_for_commands_waits_for_none_of_them() -> None:
    never, main = threading.Event(), threading.get_ident()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        threading.Timer(0.1, lambda: signal.pthread_kill(main, signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            at_once([lambda: never.wait(30.0)])
    finally:
        signal.signal(signal.SIGINT, before)
        never.set()


def test_what_one_call_raises_is_told_by_its_own_result() -> None:
    def breaks() -> str:
        raise ValueError("no")

    broken, fine = at_once([breaks, lambda: "yes"])
    assert (str(broken.exception()), fine.result()) == ("no", "yes")
