# SPDX-License-Identifier: Apache-2.0
"""Decisions name nodes and Windows builds; the verdict with the highest precedence is that of a
pair, and of a build."""

from __future__ import annotations

from dataclasses import replace

import pytest

from conformance.model.builds import build_name
from conformance.model.claim import ClaimResult, ClaimVerdict
from conformance.model.codec import from_plain, to_plain
from conformance.model.decision import Decision
from conformance.model.decision import decisions_about as seen
from conformance.model.endpoint import OS, Addressing, Target, Workload
from conformance.verdicts.decisions import by_build, folded, over_builds
from tests.unit.conformance.builders import a_workload

V = ClaimVerdict


def pod(node: str, build: str = "") -> Workload:
    os: OS = "windows" if build else "linux"
    return a_workload(f"on-{node}", os, node=node, windows_build=build)


LINUX, OLD, NEW = pod("linux-1"), pod("win-2019", "17763.6414"), pod("win-2022", "20348.2762")


@pytest.mark.parametrize(
    ("build", "name"),
    [
        ((17763, 1432), "17763"),
        ((17763, 6414), "17763"),
        ((17763, 1431), "17763 before .1432"),
        ((20348, 1), "20348"),
        ((26100, 2314), "26100"),
        (None, "unknown"),
    ],
)
def test_17763_is_two_builds_and_any_other_is_one(build: tuple[int, int] | None, name: str) -> None:
    assert build_name(build) == name


def test_a_way_names_both_nodes_and_the_builds_of_the_windows_ones() -> None:
    (one,) = seen(LINUX, OLD.tcp(80), V.CONFIRMED, "why", "open")
    assert (one.source, one.target, one.builds, one.about) == (
        "linux-1",
        "win-2019",
        ("17763",),
        ("17763",),
    )
    (one,) = seen(OLD, NEW.tcp(80), V.CONFIRMED, "why", "open")
    assert one.about == one.builds == ("17763", "20348")


def test_a_policy_s_verdict_is_about_the_build_that_enforces_it() -> None:
    (one,) = seen(OLD, NEW.tcp(80), V.VIOLATED, "why", "closed", enforced_at="target")
    assert (one.builds, one.about) == (("17763", "20348"), ("20348",))
    (one,) = seen(OLD, LINUX.tcp(80), V.VIOLATED, "why", "closed", enforced_at="target")
    assert one.about == (
        "17763",
    )  # where Linux enforces, the only Windows end is what the part is about


def test_a_service_with_backends_on_two_nodes_is_two_ways_and_a_target_outside_is_one() -> None:
    service = Target(
        host="10.96.0.7",
        port=80,
        protocol="tcp",
        path=Addressing.CLUSTER_IP,
        backends=(OLD, NEW, OLD),
    )
    assert [item.target for item in seen(LINUX, service, V.CONFIRMED, "why", "open")] == [
        "win-2019",
        "win-2022",
    ]
    assert [item.target for item in seen(LINUX, None, V.CONFIRMED, "why", "behaviour")] == [""]


def node_port(at: Workload, *backends: Workload) -> Target:
    return Target(
        host="10.0.0.12",
        port=31000,
        protocol="tcp",
        path=Addressing.NODE_PORT,
        backends=backends,
        at=at,
    )


def test_a_node_port_s_way_ends_at_the_node_that_was_called() -> None:
    (one,) = seen(LINUX, node_port(OLD, NEW, LINUX), V.VIOLATED, "why", "open")
    assert (one.target, one.about, one.builds) == ("win-2019", ("17763",), ("17763", "20348"))


def test_a_linux_node_s_node_port_counts_for_the_backend_s_build_unless_it_is_wrong() -> None:
    well, wrong = (
        seen(LINUX, node_port(LINUX, OLD), word, "why", "open")
        for word in (V.CONFIRMED, V.VIOLATED)
    )
    assert [(one.target, one.about) for one in (*well, *wrong)] == [
        ("linux-1", ("17763",)),
        ("linux-1", ()),
    ]
    to_linux = seen(LINUX, node_port(LINUX, LINUX), V.CONFIRMED, "why", "open")
    assert by_build(folded([*to_linux, *well])) == {"17763": V.CONFIRMED}
    assert by_build(folded([*well, *wrong])) == {}


def test_policy_at_the_target_is_enforced_where_a_node_port_s_backend_is() -> None:
    (one,) = seen(LINUX, node_port(OLD, NEW), V.VIOLATED, "why", "closed", enforced_at="target")
    assert (one.target, one.about) == ("win-2022", ("20348",))


def test_of_several_verdicts_on_a_pair_the_worst_counts_and_every_half_is_kept() -> None:
    ways = [
        *seen(LINUX, OLD.tcp(80), V.CONFIRMED, "open as it is to be", "open"),
        *seen(LINUX, OLD.tcp(80), V.VIOLATED, "it leaks", "closed"),
        *seen(LINUX, NEW.tcp(80), V.CONFIRMED, "closed", "closed"),
    ]
    first, second = folded(ways)
    assert (first.verdict, first.reason, first.halves) == (
        V.VIOLATED,
        "it leaks",
        ("closed", "open"),
    )
    assert second.verdict is V.CONFIRMED
    assert by_build([first, second]) == {"17763": V.VIOLATED, "20348": V.CONFIRMED}


def ways(**verdicts: ClaimVerdict) -> list[Decision]:
    """What was seen between pairs of three nodes: ``old_new`` from the 2019 node to the 2022 one."""
    pods = {"linux": LINUX, "old": OLD, "new": NEW}
    pairs = {way: [pods[end] for end in way.split("_")] for way in verdicts}
    return [
        item
        for way, (a, b) in pairs.items()
        for item in seen(a, b.tcp(80), verdicts[way], way, "open")
    ]


def test_what_is_wrong_between_two_windows_nodes_is_blamed_on_the_one_that_is_wrong_elsewhere_too() -> (
    None
):
    wrong_with_old = ways(
        linux_old=V.VIOLATED, old_new=V.VIOLATED, new_old=V.VIOLATED, new_linux=V.CONFIRMED
    )
    assert by_build(wrong_with_old) == {"17763": V.VIOLATED, "20348": V.CONFIRMED}


@pytest.mark.parametrize(
    "others",
    [
        {},
        {"linux_old": V.CONFIRMED, "linux_new": V.CONFIRMED},
        {"linux_old": V.VIOLATED},
        {"linux_old": V.VIOLATED, "linux_new": V.INCONCLUSIVE},
        {"linux_old": V.VIOLATED, "linux_new": V.VIOLATED},
    ],
)
def test_both_builds_are_blamed_while_nothing_else_tells_which_it_is(
    others: dict[str, ClaimVerdict],
) -> None:
    found = by_build(ways(old_new=V.VIOLATED, **others))
    assert found == {"17763": V.VIOLATED, "20348": V.VIOLATED}


def test_a_limitation_that_one_build_still_shows_is_not_lifted() -> None:
    (way,) = seen(LINUX, OLD.tcp(80), V.LIFTED, "it works", "behaviour")
    (other,) = seen(LINUX, NEW.tcp(80), V.CONFIRMED, "it fails", "behaviour")
    builds = by_build([way, other])
    assert builds == {"17763": V.LIFTED, "20348": V.CONFIRMED}
    assert over_builds([V.LIFTED, V.CONFIRMED], builds) is V.CONFIRMED
    assert over_builds([V.VIOLATED, V.LIFTED, V.CONFIRMED], builds) is V.VIOLATED


def test_what_is_confirmed_beside_it_on_the_same_build_does_not_hide_that_a_limitation_is_lifted() -> (
    None
):
    (way,) = seen(OLD, None, V.LIFTED, "ping beyond the cluster is answered", "behaviour")
    (control,) = seen(OLD, LINUX, V.CONFIRMED, "ping within the cluster is answered", "open")
    builds = by_build([way, control])
    assert builds == {"17763": V.LIFTED}
    assert over_builds([V.CONFIRMED, V.LIFTED], builds) is V.LIFTED


@pytest.mark.parametrize("word", [V.LIFTED, V.NOT_OBSERVED, V.ADVISED])
def test_what_is_said_of_a_way_stands_whatever_else_was_open_between_the_two_nodes(word: V) -> None:
    (way,) = seen(LINUX, OLD.tcp(80), word, "so it is", "behaviour")
    (one,) = folded([replace(way, verdict=V.CONFIRMED, halves=("open",)), way])
    assert (one.verdict, one.reason, one.halves) == (word, "so it is", ("behaviour", "open"))


def test_a_decision_survives_json() -> None:
    (way,) = seen(LINUX, NEW.tcp(80), V.CONFIRMED, "why", "open")
    decision = replace(way, claim="CONN-3", part="linux->windows pod-ip", test="t::a")
    result = ClaimResult(
        claim="CONN-3", verdict=V.CONFIRMED, test="t::a", reason="why", decisions=(decision,)
    )
    assert from_plain(ClaimResult, to_plain(result)) == result


def test_what_was_seen_may_have_the_words_that_part_several_symptoms() -> None:
    (decision,) = seen(
        None, None, ClaimVerdict.VIOLATED, "so", "open", symptom=("up", "down; not configured")
    )
    assert decision.symptoms == [("up", "down, not configured")]
