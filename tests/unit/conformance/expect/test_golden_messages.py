# SPDX-License-Identifier: Apache-2.0
"""The texts of failures, letter by letter: the first line is enough at 3 a.m., and the rest has
the reason and the observations."""

from __future__ import annotations

import pytest

from conformance.expect.explain import message
from conformance.model.attempt import Attempt, Kind
from conformance.model.observation import Observation, Verdict
from tests.unit.conformance.builders import a_workload
from tests.unit.conformance.expect.stand_ins import target

STRANGER = a_workload("stranger", "windows")


def tcp(verdict: Verdict, **more: object) -> Observation:
    attempt = Attempt(source=STRANGER, target=target(), kind=Kind.TCP, give_up_after=5.0)
    return Observation(attempt=attempt, verdict=verdict, at=0.0, **{"seconds": 0.012, **more})  # type: ignore[arg-type]


def dns(verdict: Verdict, **more: object) -> Observation:
    attempt = Attempt(
        source=STRANGER, kind=Kind.DNS, give_up_after=5.0, query="web.demo.svc.cluster.local."
    )
    return Observation(attempt=attempt, verdict=verdict, at=0.0, **{"seconds": 0.004, **more})  # type: ignore[arg-type]


GOLDEN = [
    pytest.param(
        [tcp(Verdict.CONNECTED, detail="HTTP/1.1 200 OK", status=200, seen_client="192.168.0.5")]
        * 3,
        "TIMED_OUT",
        {"policies": "ns/allow-friend, applied 31 s ago"},
        """\
POL-1: windows-1 to 192.168.0.9 (80/tcp): expected TIMED_OUT, \
observed CONNECTED (3 tries, 30.0 s)
  path      ns/stranger (windows, node windows-1) -> 192.168.0.9:80/tcp
  because   its namespace lacks team=friend
  observed  CONNECTED after 12 ms; HTTP/1.1 200 OK; HTTP 200; the server saw 192.168.0.5
  policies  ns/allow-friend, applied 31 s ago""",
        id="open where it is to be closed",
    ),
    pytest.param(
        [
            tcp(Verdict.CONNECTED),
            *[tcp(Verdict.TIMED_OUT, seconds=5.0, detail="no answer to the first packet")] * 4,
        ],
        "CONNECTED",
        {},
        """\
POL-1: windows-1 to 192.168.0.9 (80/tcp): expected CONNECTED, observed TIMED_OUT 4 times, \
CONNECTED 1 time, last TIMED_OUT (5 tries, 30.0 s)
  path      ns/stranger (windows, node windows-1) -> 192.168.0.9:80/tcp
  because   its namespace lacks team=friend
  observed  TIMED_OUT after 5000 ms; no answer to the first packet""",
        id="closed where it is to be open",
    ),
    pytest.param(
        [tcp(Verdict.REFUSED, seconds=2.02, detail="ConnectionRefused/10061", tries=2)],
        "TIMED_OUT",
        {"beside": "1 of 2 attempts were as expected"},
        """\
POL-1: windows-1 to 192.168.0.9 (80/tcp): expected TIMED_OUT, \
observed REFUSED (2 tries, 30.0 s)
  path      ns/stranger (windows, node windows-1) -> 192.168.0.9:80/tcp
  because   its namespace lacks team=friend
  observed  REFUSED after 2020 ms; ConnectionRefused/10061
  beside    1 of 2 attempts were as expected""",
        id="refused is no denial",
    ),
    pytest.param(
        [dns(Verdict.RESOLVED, answers=("203.0.113.9",))] * 3,
        "RESOLVED to 10.96.0.7",
        {},
        """\
POL-1: windows-1 to DNS A web.demo.svc.cluster.local.: expected RESOLVED to 10.96.0.7, \
observed RESOLVED to 203.0.113.9 (3 tries, 30.0 s)
  path      ns/stranger (windows, node windows-1) -> DNS A web.demo.svc.cluster.local.
  because   its namespace lacks team=friend
  observed  RESOLVED after 4 ms; answers 203.0.113.9""",
        id="a name with a wrong address",
    ),
    pytest.param(
        [],
        "CONNECTED",
        {},
        """\
POL-1: windows-1 to 192.168.0.9 (80/tcp): expected CONNECTED, \
observed nothing (0 tries, 30.0 s)
  path      ns/stranger (windows, node windows-1) -> 192.168.0.9:80/tcp
  because   its namespace lacks team=friend
  observed  nothing was observed""",
        id="nothing was seen",
    ),
]


@pytest.mark.parametrize(("seen", "expected", "further", "golden"), GOLDEN)
def test_a_failure_reads_letter_by_letter_as_agreed(
    seen: list[Observation], expected: str, further: dict[str, str], golden: str
) -> None:
    attempt = seen[0].attempt if seen else tcp(Verdict.CONNECTED).attempt
    text = message.explanation(
        ["POL-1"],
        attempt,
        expected=expected,
        because="its namespace lacks team=friend",
        observations=seen,
        seconds=30.0,
        further=further,
    )
    assert str(text) == golden


def test_a_matrix_marks_the_wrong_cells_and_only_those() -> None:
    rows = [
        ("friend -> server", "CONNECTED", "CONNECTED", True),
        ("stranger -> server", "TIMED_OUT", "CONNECTED", False),
    ]
    assert message.table(rows) == (
        "attempt             expected  | observed\n"
        "friend -> server    CONNECTED | CONNECTED\n"
        "stranger -> server  TIMED_OUT | CONNECTED  <---- WRONG"
    )
