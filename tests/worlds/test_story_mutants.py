# SPDX-License-Identifier: Apache-2.0
"""The committed stories are chosen by stale data planes, and the stale data planes that they do
not show are named."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

from conformance.stories.model import story
from tests.unit.conformance.stories.test_classes import TABLE
from tests.worlds.story_chooser import CAST, FEWEST, composed
from tests.worlds.story_mutants import (
    ADDRESS,
    FORGETS,
    MUTANTS,
    OF_ONE,
    READDRESSED,
    SHARED,
    committed,
    default,
    events_of,
    rows,
    seen_by,
    shown,
)

MOST = 500
MOST_UNSEEN = 10
PAGE = Path("docs/stories.md")
POLICY = {
    "apiVersion": "projectcalico.org/v3",
    "kind": "NetworkPolicy",
    "metadata": {"name": "p", "namespace": "${a}"},
    "spec": {"selector": "role == 'member'", "types": ["Ingress"]},
}
SELECTS = {"selector": "role == 'member'", "types": ["Ingress"]}
OPEN = POLICY | {"spec": {**SELECTS, "ingress": [{"action": "Allow"}]}}
FORGOTTEN = ("all policies", "policies for ingress", "Calico's policies", "labels of members")


def names(*events: dict[str, object]) -> set[str]:
    told = story.read("s", {"claim": "POL-1", "objects": [POLICY], "events": list(events)})
    return {str(mutant) for mutant in shown(told)}


def test_a_stale_data_plane_is_shown_by_what_follows_its_event_alone() -> None:
    assert names({"pods": "again"}) == {
        f"{os} forgets {what} when: pod made again"
        for os in ("linux", "windows")
        for what in (*FORGOTTEN, SHARED)
    }  # fmt: skip
    assert not any("pod replaced" in name for name in names({"pods": "again"}))
    edits = names({"put": OPEN})
    assert "linux forgets the event itself when: action or traffic edited" in edits
    assert not any("all policies" in name for name in edits), "nothing is closed any more"


def test_a_data_plane_that_keeps_old_addresses_is_shown_at_the_other_end_of_a_path() -> None:
    peers = {
        "policyTypes": ["Ingress"],
        "podSelector": {},
        "ingress": [
            {
                "from": [
                    {"namespaceSelector": {}, "podSelector": {"matchLabels": {"role": "member"}}}
                ]
            }
        ],
    }
    of_b = {
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": {"name": "only-members", "namespace": "${b}"}, "spec": peers,
    }  # fmt: skip
    jobs: list[dict[str, object]] = [{"pods": "gone"}, {"pods": "succeeded"}, {"pods": "again"}]
    given = {"claim": "POL-1", "objects": [of_b], "events": jobs}
    found = {mutant for mutant in shown(story.read("s", given)) if mutant.forgets == ADDRESS}
    assert {mutant.event for mutant in found} == {
        "pod deleted or evicted", "pod has ended", "pod made again",
    }  # fmt: skip
    assert {mutant.os for mutant in found} == {"linux", "windows"}
    assert not any(ADDRESS in name for name in names(*jobs)), "no other end asks who they are"


def test_there_are_not_too_many_of_them_and_each_event_has_some() -> None:
    assert len(MUTANTS) == len(set(MUTANTS)) <= MOST
    assert {mutant.event for mutant in MUTANTS} == {one.name for one in TABLE.classes}
    assert {mutant.forgets for mutant in MUTANTS} > {ADDRESS, *FORGETS}
    assert set(READDRESSED) | set(OF_ONE) < {one.name for one in TABLE.classes}


def test_the_page_says_what_the_stories_that_ship_show_and_names_what_none_does() -> None:
    page = PAGE.read_text("utf-8")
    seen = seen_by(committed())
    unseen = [str(mutant) for mutant, times in seen.items() if not times]
    assert [row for row in rows(seen_by(default()), seen) if row not in page] == []
    assert len(unseen) <= MOST_UNSEEN
    assert [name for name in unseen if name not in page] == []


def test_the_same_seed_composes_the_same_story_of_events_that_show_their_classes() -> None:
    missing = Counter({one.name: 1 for one in TABLE.classes})
    first, again = (composed(Random(1), missing) for _ in range(2))
    assert first.text == again.text
    assert len(first.happens) >= FEWEST
    classes = [found for _, found in events_of(first.story)][1:]
    assert classes == [{one["shows"]} for one in first.happens]


def test_the_cast_has_events_of_every_class() -> None:
    assert {one["shows"] for one in CAST["events"]} == {one.name for one in TABLE.classes}
