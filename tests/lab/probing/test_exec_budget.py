# SPDX-License-Identifier: Apache-2.0
"""Runs with four and with eight workers stay within their budget of execs, as the recorded
intervals show."""

from __future__ import annotations

import json
from typing import Any

import pytest

from conformance.model.codec import from_plain
from conformance.model.probing import Interval, Probing
from conformance.report.probing import at_once
from tests.detection import runner

CLAIMS = ("CONN-1", "CONN-2", "CONN-3", "CONN-4", "CONN-5", "CONN-6")
PATIENCE = {
    "exec_overhead": "20 s",
    "agent_hello": "20 s",
    "agent_slot": "60 s",
    "service_effect": "20 s",
}
"""Eight workers whose execs cost 2 s keep the lab busy: what is shown is the budget, not how soon a Service follows."""
pytestmark = [pytest.mark.xdist_group("exec-budget"), pytest.mark.whole_run]


@pytest.fixture(scope="module", params=[4, 8], ids=lambda workers: f"-n {workers}")
def ran(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], dict[str, Probing]]:
    """The report, and what each worker recorded.  An exec costs 2 s, so that starts would overlap."""
    folder = tmp_path_factory.mktemp("budget")
    with runner.lab(folder, ("timing.exec_cost_ms=2000",), "", profile="default") as where:
        outcome = runner.run(where, folder, CLAIMS, request.param, PATIENCE)
    assert outcome.exit_code == 0, outcome.output
    recorded = (folder / "reports" / "latest" / ".run" / "probing").resolve().glob("*.json")
    return outcome.report, {
        path.stem: from_plain(Probing, json.loads(path.read_text())) for path in recorded
    }


def intervals(recorded: dict[str, Probing], prefix: str) -> dict[str, list[Interval]]:
    found: dict[str, list[Interval]] = {}
    for interval in (entry for used in recorded.values() for entry in used.intervals):
        if interval.name.startswith(prefix):
            found.setdefault(interval.name, []).append(interval)
    return found


def test_no_more_than_two_powershells_start_at_once_on_a_node(ran: Any) -> None:
    _, recorded = ran
    starts = intervals(recorded, "powershell-")
    assert len(starts) == 2
    peaks = {at_once(used) for used in starts.values()}
    assert max(peaks) <= 2
    if len(recorded) > 4:  # so many would start more at once if they were let
        assert peaks == {2}


def test_no_more_agents_live_at_once_than_are_allowed(ran: Any) -> None:
    report, recorded = ran
    (agents,) = intervals(recorded, "agent").values()
    limit = dict(next(iter(recorded.values())).limits)["agent"]
    assert 4 < at_once(agents) <= limit == 60
    assert report["probing"]["agents_at_once"] == at_once(agents)


def test_no_slot_was_ever_in_two_hands(ran: Any) -> None:
    _, recorded = ran
    for used in intervals(recorded, "").values():
        for number in {interval.number for interval in used}:
            assert at_once([interval for interval in used if interval.number == number]) == 1


def test_the_report_counts_execs_per_node_and_they_are_one_per_pod(ran: Any) -> None:
    report, recorded = ran
    assert len(recorded) >= 4
    nodes = report["probing"]["nodes"]
    assert {node["os"] for node in nodes} == {"linux", "windows"}
    agents = sum(node["agents"] for node in nodes)
    assert agents == len(intervals(recorded, "agent")["agent"])
    assert sum(node["attempts"] for node in nodes) > 5 * agents
    assert report["probing"]["processes"] == len(recorded)
