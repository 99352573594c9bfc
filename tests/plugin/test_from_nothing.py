# SPDX-License-Identifier: Apache-2.0
"""A claim is not CONFIRMED if its test has no body, no expectation or no denial, or did not reach a
build."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .conftest import ROOT, Project, Run

SUITE = """
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Decision

pytestmark = pytest.mark.undecided


def way(half, build="20348", verdict=ClaimVerdict.CONFIRMED):
    return Decision(
        source="linux-1", target=f"on-{build}", builds=(build,), about=(build,), verdict=verdict, reason="so it was",
        halves=(half,),
    )


@pytest.fixture
def early(record):
    record.decided(way("open"))


@verifies("CONN-1")
def test_decides(record):
    record.decided(way("open"))

@verifies("CONN-2")
def test_returns_early(record):
    return
    record.decided(way("open"))

@verifies("CONN-4")
def test_has_only_what_its_fixture_decided(early):
    pass

@verifies("POL-1")
def test_sees_open_paths_alone(record):
    record.decided(way("open"))

@verifies("DEMO-7")
def test_sees_closed_paths(record):
    record.decided(way("open"), way("closed"))

@verifies("ENC-8")
def test_reads(record):
    record.decided(Decision(source="", target="", builds=(), about=(), verdict=ClaimVerdict.CONFIRMED, reason="Never",
                        halves=("read",)))

@verifies("ENC-5")
def test_reads_a_requirement(record):
    record.decided(Decision(source="", target="", builds=(), about=(), halves=("read",), reason="Disabled",
                            verdict=ClaimVerdict.CONFIRMED))

@verifies("CONN-6")
def test_meets_a_sick_node(record):
    record.decided(way("open"), way("open", "17763", ClaimVerdict.INCONCLUSIVE))
"""
SKIPS_CALLS = """
import pytest

@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    return True
"""


EXPECTS = """
import sys
sys.path.insert(0, "{root}")
from dataclasses import replace
from conformance.expect.case import Paths
from conformance.expect.subjects.readings import Readings
from conformance.expect.context import Context, Sink
from conformance.expect.traffic import Expect
from conformance.model.facts import Fact
from conformance.model.observation import Verdict
from conformance.settings import load_timings
from tests.unit.conformance.builders import a_workload
from tests.unit.conformance.expect.stand_ins import ScriptedProber, observation
from tests.unit.conformance.pods.test_worker_pods import Deployer, worker_pods

pytestmark = pytest.mark.undecided
SHUT = []


def pod(name, address):
    return replace(a_workload(name, "windows"), address=address, windows_build="20348.2762")


CLIENT, STRANGER, SERVER, OTHER = (pod(name, f"192.168.0.{number}") for number, name in enumerate("csrv", 1))


def answer(attempt, number):
    closed = SHUT and attempt.source.pod == STRANGER.pod and attempt.target.host == SERVER.address
    return observation(attempt, Verdict.TIMED_OUT if closed else Verdict.CONNECTED)


@pytest.fixture
def expect(record):
    SHUT.clear()
    prober = ScriptedProber({client.pod: [answer] for client in (CLIENT, STRANGER)})
    sink = Sink()
    sink.keep = lambda decisions: record.decided(*decisions)
    return Expect(prober, load_timings(), Context(("POL-1",), sink), prober.clock)


@verifies("CONN-1")
def test_reaches(expect):
    expect.reachable([(CLIENT, SERVER.tcp(9))], because="it is open")

@verifies("POL-1")
def test_is_denied(expect):
    ways = [(CLIENT, SERVER.tcp(9)), (STRANGER, OTHER.tcp(9))]
    shut = [(STRANGER, SERVER.tcp(9))]
    expect.control([*ways, *shut], because="before")
    SHUT.append(True)
    expect.matrix(
        Paths(ways, open=True, because="the policy"), Paths(shut, open=False, because="the policy")
    )

@verifies("DEMO-1")
@verifies("XHOST-1")
def test_starts(expect, record):
    deployer = Deployer()
    deployer.as_they_are("windows-server-1", "windows-server-2")
    pods = worker_pods(deployer)
    pods.keep = lambda seen: record.decided(*seen)
    there = [replace(pod, windows_build="20348.2762") for pod in pods.start("windows-server", because="it starts")]
    expect.started(there, because="it starts")

@verifies("ENC-5")
def test_reads(expect):
    Readings(expect.context).that({"BGP": Fact("Disabled", "x")}, "Disabled", because="so it is", do="-")
"""
EMPTIES_EXPECTATIONS = """
import enum, importlib, inspect, pkgutil
import conformance.expect

def nothing(*_, **__):
    return []

for info in pkgutil.iter_modules(conformance.expect.__path__):
    module = importlib.import_module("conformance.expect." + info.name)
    for _, kind in inspect.getmembers(module, inspect.isclass):
        if kind.__module__ != module.__name__ or issubclass(kind, enum.Enum) or kind.__name__ == "Context":
            continue
        for name, method in list(vars(kind).items()):
            if inspect.isfunction(method) and not name.startswith("_"):
                setattr(kind, name, nothing)
"""
EMPTIES_CLOSED_HALVES = """
from conformance.expect.traffic import Expect

true = Expect._decide
Expect._decide = lambda self, open, closed, *rest, **named: true(self, open, [], *rest, **named)
"""


@pytest.fixture(scope="module")
def expecting(make_project: Callable[[], Project]) -> Project:
    """Real expectations over a scripted network."""
    one = make_project()
    one.suite(EXPECTS.replace("{root}", str(ROOT)))
    (one.path / "empties_expectations.py").write_text(EMPTIES_EXPECTATIONS)
    (one.path / "empties_closed_halves.py").write_text(EMPTIES_CLOSED_HALVES)
    return one


@pytest.fixture(scope="module")
def project(make_project: Callable[[], Project]) -> Project:
    one = make_project()
    one.suite(SUITE)
    (one.path / "skips_calls.py").write_text(SKIPS_CALLS)
    return one


@pytest.fixture(scope="module")
def run(project: Project) -> Run:
    return project.run("-n", "0")


def confirmed(run: Run) -> int:
    return int(run.report["counts"].get("CONFIRMED", 0))


@pytest.mark.parametrize("arguments", [["--setup-plan"], ["--setup-only"], ["-p", "skips_calls"]])
def test_a_run_that_leaves_out_calls_confirms_nothing(
    project: Project, arguments: list[str]
) -> None:
    found = project.run("-n", "0", *arguments)
    assert confirmed(found) == 0, found.out
    assert found.verdict("CONN-1") == "NOT_RUN"
    assert "decided nothing" in found.claim("CONN-1")["reason"]


def test_expectations_that_are_emptied_confirm_nothing(expecting: Project) -> None:
    assert confirmed(expecting.run("-n", "0")) == 5
    found = expecting.run("-n", "0", "-p", "empties_expectations")
    assert confirmed(found) == 0, found.out
    assert {
        found.verdict(claim) for claim in ("CONN-1", "POL-1", "DEMO-1", "XHOST-1", "ENC-5")
    } == {"NOT_RUN"}


def test_expectations_without_closed_halves_confirm_no_denial(expecting: Project) -> None:
    found = expecting.run("-n", "0", "-p", "empties_closed_halves")
    assert (found.verdict("CONN-1"), found.verdict("POL-1")) == ("CONFIRMED", "NOT_RUN")
    assert "no path was found closed" in found.claim("POL-1")["reason"]


def test_only_expectations_confirm() -> None:
    quiet = ("kube", "facts", "pods", "probe", "policy", "disrupt", "undo")
    files = [file for room in quiet for file in (ROOT / "lib" / "conformance" / room).rglob("*.py")]
    assert [
        file.name for file in files if "ClaimVerdict.CONFIRMED" in file.read_text(encoding="utf-8")
    ] == []


def test_a_body_that_decides_confirms(run: Run) -> None:
    assert run.verdict("CONN-1") == run.verdict("DEMO-7") == "CONFIRMED"


@pytest.mark.parametrize("claim", ["CONN-2", "CONN-4"])
def test_a_body_that_decides_nothing_does_not(run: Run, claim: str) -> None:
    assert run.verdict(claim) == "NOT_RUN"


def test_open_paths_alone_confirm_no_denial(run: Run) -> None:
    assert run.verdict("POL-1") == "NOT_RUN"
    assert "no path was found closed" in run.claim("POL-1")["reason"]


def test_a_limitation_that_was_only_read_is_partly_not_run_and_says_how_to_run_it(run: Run) -> None:
    found = run.claim("ENC-8")
    assert (found["verdict"], found["missing_parts"]) == ("NOT_RUN", ["active half"])
    assert "it was only read, not tested by a change" in found["reason"]
    assert found["remedy"]


def test_a_requirement_can_be_read_and_says_that_its_active_half_was_not_run(run: Run) -> None:
    assert run.verdict("ENC-5") == "CONFIRMED"
    line = next(
        number
        for number, line in enumerate(run.out.splitlines())
        if line.startswith("CONFIRMED    ENC-5")
    )
    assert "it was only read, not tested by a change" in run.out.splitlines()[line + 1]


def test_a_node_that_could_not_be_judged_makes_the_test_an_error_and_is_named_by_its_build(
    run: Run,
) -> None:
    found = run.claim("CONN-6")
    assert (found["verdict"], found["builds"]) == (
        "INCONCLUSIVE",
        {"17763": "INCONCLUSIVE", "20348": "CONFIRMED"},
    )
    assert "INCONCLUSIVE on 17763, CONFIRMED on 20348" in run.out
    assert run.code == 6


def test_a_claim_says_on_which_builds_it_was_decided(run: Run) -> None:
    assert run.claim("CONN-1")["builds"] == {"20348": "CONFIRMED"}
    assert "CONFIRMED    CONN-1    on 20348: " in run.out
