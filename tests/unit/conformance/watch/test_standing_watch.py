# SPDX-License-Identifier: Apache-2.0
"""The test that judges a standing watch ends it, and receives what the watch has recorded during
the run."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.errors import EnvironmentBroken
from conformance.expect.subjects.standing_watch import Kept, Watched
from conformance.foreign.policy_events import PolicyEvents
from conformance.foreign.snapshot import STAGED
from conformance.kube.ownership import Ownership
from conformance.kube.reach import ApiGone
from conformance.model.attempt import Attempt, Kind
from conformance.model.codec import from_plain, to_plain
from conformance.model.observation import Observation, Verdict
from conformance.run.directory import RunDirectory
from conformance.settings import Timings, load_timings
from conformance.watch import result, standing_watch
from tests.unit.conformance.builders import a_workload, an_object


def patience(seconds: float) -> Timings:
    plain = load_timings(lab=True)
    pods = replace(plain.windows, image_pull=seconds, pod_ready=0.0, warm_up=0.0, agent_slot=0.0)
    return replace(plain, windows=pods, run=replace(plain.run, watch_least=0.0, denial_watch=0.0))


def test_what_was_kept_is_told_with_the_turns_of_all_processes(tmp_path: Path) -> None:
    directory, _ = RunDirectory.create(tmp_path)
    kept = Kept(
        began=1.0,
        ended=9.0,
        paths=(),
        events=((2.0, "Pod a/b was created"),),
        unwatched={"linux-1": "it is gone"},
    )
    (directory.shared / result.ANSWER).write_text(json.dumps(to_plain(kept)))
    for worker in ("gw0", "gw1"):
        line = {"test": f"of {worker}", "worker": worker, "began": 1.0}
        (directory.turns / f"{worker}.jsonl").write_text(json.dumps(line) + "\n")
        (directory.turns / f"{worker}.began").write_text(json.dumps(line) + "\n")
    told, turns = result.end_watch(directory, patience(5.0))
    assert told == kept
    assert [turn["test"] for turn in turns] == ["of gw0", "of gw1"]
    assert (directory.shared / result.ENDS).exists()


def test_a_watch_whose_process_is_gone_is_not_waited_for_without_end(tmp_path: Path) -> None:
    directory, _ = RunDirectory.create(tmp_path)
    with pytest.raises(EnvironmentBroken, match="the standing watch did not end within 0 s"):
        result.end_watch(directory, patience(0.1))


def test_the_turn_of_a_process_that_died_in_it_lasts_until_now(tmp_path: Path) -> None:
    directory, _ = RunDirectory.create(tmp_path)
    began = time.monotonic()
    line = {"test": "drain", "worker": "gw0", "kind": "node", "nodes": ["linux-1"], "began": began}
    (directory.turns / "gw0.began").write_text(json.dumps(line) + "\n")
    (turn,) = result.turns(directory)
    assert (turn["test"], turn["nodes"]) == ("drain", ["linux-1"])
    assert turn["released"] >= began


def test_a_covered_node_of_which_nothing_was_asked_is_told_unless_its_reason_was() -> None:
    one = Attempt(source=a_workload("client"), target=None, kind=Kind.TCP, give_up_after=1.0)
    path = Watched(node="linux-1", way="in", attempt=one)
    found = standing_watch.unasked(["linux-1", "linux-2", "windows-2019"], {"linux-2"}, [path])
    assert found == {
        "windows-2019": "the watch's pods on the node never existed, so they were not probed"
    }


def test_what_is_watched_here_no_test_watches_for_as_long_as_its_denial_is_seen_or_may_be_soon(
    tmp_path: Path,
) -> None:
    directory, _ = RunDirectory.create(tmp_path)
    watch: Any = object.__new__(standing_watch.Watch)
    watch._directory, watch._timings, watch._turns, watch._began = (
        directory,
        load_timings(lab=True),
        set(),
        0.0,
    )
    target = a_workload("web").tcp(8080)
    one = Attempt(source=a_workload("client"), target=target, kind=Kind.HTTP, give_up_after=1.0)
    enters = Watched(node="linux-1", way="in", attempt=one)
    leaves, free = replace(enters, way="out"), replace(enters, node="linux-2", way="free")
    watch._paths = [enters, leaves, free]

    def taken() -> list[str]:
        watch._take_turns()
        return sorted(path.name for path in directory.watches.iterdir())

    directory.take("denial-source-linux-1")  # by a test, before
    assert taken() == ["denial-source-linux-1", "denial-target-linux-1"]
    assert watch._turns == {"denial-target-linux-1"}
    watch._began = time.monotonic() - 100
    assert taken() == ["denial-source-linux-1"]  # no denial was seen, and it is too late for one
    dropped = Observation(attempt=one, verdict=Verdict.TIMED_OUT, at=0.0, seconds=1.0)
    for at in (1.0, 2.0):
        enters.record(at, dropped)
    assert taken() == ["denial-source-linux-1", "denial-target-linux-1"]
    enters.gone = 1.0
    assert taken() == ["denial-source-linux-1"]


def test_the_watch_waits_with_its_end_until_a_policy_had_to_be_back(tmp_path: Path) -> None:
    directory, _ = RunDirectory.create(tmp_path)
    watch: Any = object.__new__(standing_watch.Watch)
    watch._directory, watch._timings = directory, load_timings(lab=True)
    watch._began, watch._end_asked = 1.0, 0.0
    enters = watched("in", (100.0, LOST), (101.0, CONNECTED))
    watch._paths = [watched("free", (100.0, CONNECTED)), enters]
    assert not watch._is_to_end(101.0)  # nobody asked
    (directory.shared / result.ENDS).touch()
    assert not watch._is_to_end(101.0)
    enters.gone = 101.0
    assert watch._is_to_end(102.0)
    enters.gone = 0.0
    assert not watch._is_to_end(112.0)
    assert watch._is_to_end(114.0)
    enters.record(105.0, Observation(attempt=enters.attempt, verdict=LOST, at=0.0, seconds=1.0))
    assert watch._is_to_end(105.0)


class Served:
    """A cluster whose API for Calico's policies is served, with one Tier."""

    discovery = SimpleNamespace(
        serves=lambda api, kind: api != "crd.projectcalico.org/v1" and "Baseline" not in kind
    )

    def objects_at(self, api: str, kind: str) -> tuple[list[dict[str, Any]], str]:
        tier = {"metadata": {"name": "early"}, "spec": {"defaultAction": "Pass"}}
        return ([tier] if kind == "Tier" else [], "1")


def following(*, is_over: bool = False) -> PolicyEvents:
    """What a watch records of what others do."""
    run = Ownership("ab12", "watch")
    return PolicyEvents(Served(), run, "calico-demo-ab12-watch", lambda: is_over, 1.0)  # type: ignore[arg-type]


def test_policies_of_all_kinds_are_followed_and_tiers_each_by_one_api() -> None:
    kinds = following().kinds()
    calico = {
        ("projectcalico.org/v3", kind)
        for kind in ("GlobalNetworkPolicy", "NetworkPolicy", "Tier", *STAGED)
    }
    newest = {
        ("policy.networking.k8s.io/v1alpha2", kind)
        for kind in ("AdminNetworkPolicy", "ClusterNetworkPolicy")
    }
    pods = {("v1", "Pod"), ("v1", "Service")}
    assert set(kinds) == {*pods, ("networking.k8s.io/v1", "NetworkPolicy"), *calico, *newest}
    assert len(kinds) == len(set(kinds))


def test_what_others_do_to_policies_is_kept_with_the_policy_before_and_after() -> None:
    watch, api, kind = following(), "projectcalico.org/v3", "GlobalNetworkPolicy"
    watch.record(api, kind, an_object("wide", tier="early", order=1), "was created")
    watch.record(api, kind, an_object("wide", tier="early", order=2), "was changed")
    watch.record(api, "Tier", an_object("early", defaultAction="Deny"), "was changed")
    watch.record(api, kind, an_object("wide", tier="early", order=2), "was deleted")
    watch.record(api, "Tier", an_object("early"), "was deleted")
    assert [(one.what, [each.spec["order"] for each in one.policies]) for one in watch.edits] == [
        ("GlobalNetworkPolicy wide was created", [1]),
        ("GlobalNetworkPolicy wide was changed", [1, 2]),
        ("Tier early was changed", [2]), ("GlobalNetworkPolicy wide was deleted", [2, 2]),
    ]  # fmt: skip
    assert from_plain(
        Kept, to_plain(Kept(began=0.0, ended=1.0, paths=(), foreign=tuple(watch.edits)))
    ).foreign


def test_what_somebody_does_to_the_watchs_own_policies_is_kept_until_they_are_taken_away() -> None:
    watch, api = following(), "networking.k8s.io/v1"
    own = an_object("in", Ownership("ab12", "watch").labels, namespace="calico-demo-ab12-watch")
    watch.record(api, "NetworkPolicy", own, "was created")
    watch.record(api, "NetworkPolicy", own, "was changed")  # an annotation
    assert watch.edits == []
    watch.record(api, "NetworkPolicy", own | {"spec": {"ingress": [{}]}}, "was changed")
    watch.record(
        api,
        "NetworkPolicy",
        own | {"metadata": own["metadata"] | {"namespace": "calico-demo-ab12-gw0"}},
        "was deleted",
    )
    watch.is_over = lambda: True
    watch.record(api, "NetworkPolicy", own, "was deleted")
    told = "NetworkPolicy calico-demo-ab12-watch/in was changed by another user"
    assert [(one.what, one.policies) for one in watch.edits] == [(told, ())]


def test_policies_of_the_run_of_other_namespaces_and_twins_are_not_kept() -> None:
    watch, api = following(), "projectcalico.org/v3"
    watch.record(
        api, "GlobalNetworkPolicy", an_object("own", Ownership("ab12", "gw0").labels), "was created"
    )
    watch.record(api, "NetworkPolicy", an_object("deny", namespace="web"), "was created")
    watch.record(
        api,
        "NetworkPolicy",
        an_object("knp.default.deny", namespace="calico-demo-ab12-watch"),
        "was created",
    )
    watch.record("v1", "Service", an_object("shop", namespace="web"), "was created")
    assert watch.edits == []
    assert [text for _, text in watch.events] == ["Service web/shop was created"]
    watch.record(
        api,
        "NetworkPolicy",
        an_object("generated", namespace="calico-demo-ab12-watch-elsewhere"),
        "was created",
    )
    assert len(watch.edits) == 1


def watched(way: str, *answers: tuple[float, Verdict]) -> Watched:
    """A path of node linux-1 with these answers at these seconds."""
    source = a_workload("client", node="linux-1")
    target = a_workload("web").tcp(80) if way in ("service", "in") else None
    kind = Kind.DNS if target is None else Kind.TCP
    one = Attempt(source=source, target=target, kind=kind, give_up_after=1.0, query="kubernetes")
    path = Watched(node="linux-1", way=way, attempt=one)  # type: ignore[arg-type]
    for at, verdict in answers:
        path.record(at, Observation(attempt=one, verdict=verdict, at=0.0, seconds=0.0))
    return path


def notes(directory: RunDirectory, *paths: Watched) -> list[str]:
    kept = Kept(began=0.0, ended=99.0, paths=paths)
    (directory.shared / result.ANSWER).write_text(json.dumps(to_plain(kept)))
    return result.gaps(directory)


OK, FAILED, CONNECTED, LOST = (
    Verdict.RESOLVED,
    Verdict.DNS_FAILED,
    Verdict.CONNECTED,
    Verdict.TIMED_OUT,
)


def test_gaps_above_a_second_are_noted_with_node_length_and_time(tmp_path: Path) -> None:
    directory, _ = RunDirectory.create(tmp_path)
    assert result.gaps(directory) == []
    dns = watched("dns", (1.0, OK), (2.0, FAILED), (3.0, FAILED), (5.5, OK))
    service = watched("service", (1.0, CONNECTED), (2.0, LOST), (4.0, CONNECTED))
    short = watched("dns", (1.0, OK), (2.0, FAILED), (2.9, OK))
    denied = watched("free", (1.0, CONNECTED), (2.0, LOST), (9.0, CONNECTED))
    crossed = ((1.0, OK), (2.0, FAILED), (5.5, OK), (3.0, FAILED), (5.6, OK))
    (overlapping,) = notes(directory, watched("dns", *crossed))
    assert " for 3.6 s" in overlapping
    first, second = notes(directory, dns, service, short, denied)
    assert "the cluster's DNS did not answer pods of node linux-1 for 3.5 s, at " in first
    assert "web, linux" in second
    assert " for 2.0 s" in second


def test_a_gap_while_the_run_had_the_node_to_itself_is_its_own_doing(tmp_path: Path) -> None:
    directory, _ = RunDirectory.create(tmp_path)
    line = {"test": "t", "worker": "gw0", "kind": "node", "nodes": ["linux-1"], "began": 2.0}
    (directory.turns / "gw0.jsonl").write_text(json.dumps({**line, "released": 3.0}) + "\n")
    assert notes(directory, watched("dns", (1.0, OK), (2.0, FAILED), (5.5, OK))) == []
    assert notes(directory, watched("dns", (1.0, OK), (20.0, FAILED), (25.5, OK))) != []


def test_a_watch_that_cannot_remove_its_pods_leaves_the_report_and_the_cleanup_to_the_run() -> None:
    def refused() -> None:
        raise ApiGone("GET pods", "the run was interrupted")

    watch: Any = object.__new__(standing_watch.Watch)
    watch._run = SimpleNamespace(stays=False)
    watch._timings = load_timings(lab=True)
    watch._thread = threading.Thread(target=int, daemon=True)
    watch._deployer = SimpleNamespace(remove=refused)
    watch.begin()
    watch.end()
