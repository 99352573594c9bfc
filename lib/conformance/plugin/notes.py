# SPDX-License-Identifier: Apache-2.0
"""Notes of a run's report: tests that it left out, verdicts that it lost, and why it ended
early."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from conformance.catalog.suite_tests import suite_tests
from conformance.kube.reach import Reach
from conformance.model.counted import counted
from conformance.model.facts import Facts
from conformance.plugin.judge.stash import LATER
from conformance.plugin.state import SUITES
from conformance.qualify.sets import suite_parts
from conformance.report.run import SHARD
from conformance.schedule.order import order
from conformance.schedule.plan import PlannedTest
from conformance.verdicts.acceptable import about_the_cluster
from conformance.verdicts.claims import ClaimOutcome, TestOutcome

AGENT_NOT_EXECUTED = (
    "no PowerShell ran in Windows pods: the lab emulates the suite's probe programs as "
    "docs/probe-protocol.md describes"
)
AGENTS = "hybridlab.windows-agents"
"""The label of a lab's Windows node that names the interpreter of the node's probe programs
(docs/lab.md)."""
QUICK = (
    "quick run (--quick): a part of the tests, those that show most known faults in a few minutes; "
    "it qualifies nothing"
)


def windows_agents(facts: Facts) -> str:
    """Return which interpreter ran the Windows agents of a lab."""
    ran = sorted({node.labels[AGENTS] for node in facts.nodes if AGENTS in node.labels})
    if not ran:
        return AGENT_NOT_EXECUTED
    return f"Windows agents: {', '.join(ran).replace('-', ' ', 1)} inside the lab"


def watch_left_out(config: pytest.Config, planned: Sequence[PlannedTest], watch: int) -> str:
    """Return a note if ``-k`` leaves out the test that judges the standing watch."""
    tests = suite_tests(config.rootpath / SUITES) if config.option.keyword else []
    is_planned = any(test.exclusivity.kind == "last" for test in planned)
    if is_planned or not any(test.is_last for test in tests) or not watch:
        return ""
    return (
        f"-k {config.option.keyword!r} leaves the standing watch out: whether policies "
        "stay in force throughout the run was not observed (`or standing_watch` in -k includes it)"
    )


def selection(option: Any, part: str) -> str:
    """Return how many tests a quick run, or a part of a run, selected. Return an empty string for
    any other run. ``part``: the value of ``--shard``."""
    shard = f"{SHARD}{part} (--shard): the other tests are in the other parts" if part else ""
    return QUICK if option.quick else shard


def loss_of_cluster(reach: Reach) -> str:
    """Return a note if the API server cannot be reached, or could not be reached for a time. Return
    an empty string if it always answered."""
    if (gone := reach.gone) and not reach.unusable:
        return (
            f"{gone}; the remaining tests are INCONCLUSIVE, and objects of the run may still exist"
        )
    back = reach.was_gone
    return f"{back}; it answers again, and the remaining tests are INCONCLUSIVE" if back else ""


def cut_short(tests: Sequence[TestOutcome], *, interrupted: bool) -> str:
    """Return why the run did not reach its end. Return an empty string if it did."""
    if late := sum(test.remedy == LATER for test in tests):
        return f"{counted(late, 'planned test was', 'planned tests were')} not run, because --max-minutes had passed"
    lost = sum(1 for test in tests if not test.ran)
    if lost:
        return (
            f"{counted(lost, 'planned test was', 'planned tests were')} not run, because the run ended before "
            f"{'it' if lost == 1 else 'them'}"
        )
    return "the run ended before its tests were known" if interrupted and not tests else ""


def cost_of(why: str, tests: Sequence[TestOutcome]) -> str:
    """Return ``why`` with the claims that have no verdict for this reason; an empty string if there
    are no such claims."""
    costs = {result.claim for test in tests for result in test.results if result.reason == why}
    return f"{why}; not decided for that reason: {', '.join(sorted(costs))}" if costs else ""


def with_shares(claims: Sequence[ClaimOutcome]) -> tuple[ClaimOutcome, ...]:
    """Return claims, each with the share that a quick run decided."""
    found = []
    for claim in claims:
        decided = [result for result in claim.results if about_the_cluster(result.verdict)]
        share = order().share(
            claim.claim.id,
            [result.test for result in decided],
            [result.part for result in decided],
            len(suite_parts().get(claim.claim.id, ())),
        )
        found.append(replace(claim, share=share))
    return tuple(found)
