# SPDX-License-Identifier: Apache-2.0
"""The choice of paths if many nodes are covered: each ordered pair of nodes has a path."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from conformance.expect.case import Case
from conformance.expect.context import World
from conformance.expect.crossing import Crossing
from conformance.expect.engine.pairs import key
from conformance.expect.figures import PolicyChange
from conformance.expect.traffic import Expect
from conformance.model.endpoint import Addressing, Pair, Target, Workload
from conformance.model.observation import Verdict
from tests.unit.conformance.builders import a_workload, an_expect
from tests.unit.conformance.expect.stand_ins import ScriptedProber, observation

BUILDS = ("", "17763.6414", "20348.2762")
quick = settings(deadline=None, max_examples=40)
sizes = some.integers(1, 30)
bounds = some.integers(1, 300)
numbers = some.integers(0, 2**32 - 1)


def a_pod_on(role: str, place: int, windows: int) -> Workload:
    """Return a pod on the node of this place; the first ``windows`` nodes are Windows."""
    build = BUILDS[1 + place % 2] if place < windows else ""
    return a_workload(
        f"{role}-{place}",
        "windows" if build else "linux",
        node=f"node-{place}",
        address=f"192.168.{role == 'server'}.{place}",
        windows_build=build,
    )


@cache
def a_mesh(size: int, windows: int = 0) -> list[Pair]:
    """Return the paths of a client on each node to a server on each node."""
    clients = [a_pod_on("client", place, windows) for place in range(size)]
    servers = [a_pod_on("server", place, windows) for place in range(size)]
    return [(client, server.tcp(80)) for client in clients for server in servers]


def a_crossing(size: int, most: int, number: int = 0) -> Crossing:
    return Crossing([f"node-{place}" for place in range(size)], number, most)


def crossed(pairs: Any) -> list[tuple[str, str]]:
    """Return the ordered pairs of nodes of some paths."""
    return sorted((source.node, target.backends[0].node) for source, target in pairs)


@quick
@given(sizes, bounds)
def test_slices_cross_every_ordered_pair_of_nodes_exactly_once(size: int, most: int) -> None:
    crossing, mesh = a_crossing(size, most), a_mesh(size)
    slices = crossing.sliced(mesh, lambda pair: pair)
    assert crossed(pair for part in slices for pair in part) == crossed(mesh)
    assert len(slices) == crossing.slices


@quick
@given(sizes, bounds)
def test_a_slice_has_at_most_the_bound_or_each_node_once(size: int, most: int) -> None:
    slices = a_crossing(size, most).sliced(a_mesh(size), lambda pair: pair)
    assert max(map(len, slices)) <= max(most, size)
    if size * size <= most:
        assert len(slices) == 1, "nothing is left out where all can be asked at once"


@quick
@given(sizes, bounds, numbers, some.integers(0, 9))
def test_a_sample_leaves_out_no_client_no_server_and_no_two_builds(
    size: int, most: int, number: int, windows: int
) -> None:
    mesh = a_mesh(size, windows)
    sample = a_crossing(size, most, number).sample(mesh)

    def ends(pairs: list[Pair]) -> list[set[Any]]:
        servers = [(source, target.backends[0]) for source, target in pairs]
        return [
            {source.uid for source, _ in servers},
            {server.uid for _, server in servers},
            {(source.build, server.build) for source, server in servers},
        ]

    assert ends(sample) == ends(mesh)
    builds = len(ends(mesh)[2])
    assert len(sample) <= max(most, size) + builds, "bounded, whatever the size"


@quick
@given(sizes, bounds, numbers)
def test_a_sample_is_the_same_each_time_and_samples_of_all_numbers_cross_every_pair(
    size: int, most: int, number: int
) -> None:
    mesh, crossing = a_mesh(size), a_crossing(size, most, number)
    sample = crossing.sample(mesh)
    assert sample == a_crossing(size, most, number).sample(mesh)
    chosen = set(sample)
    assert [pair for pair in mesh if pair in chosen] == sample, "in the order of the paths"
    samples = [
        replace(crossing, number=number + other).sample(mesh) for other in range(crossing.slices)
    ]
    assert set(crossed(pair for sample in samples for pair in sample)) == set(crossed(mesh))


@quick
@given(some.integers(2, 20), some.integers(1, 60), numbers)
def test_each_port_keeps_the_same_pairs_of_nodes(size: int, most: int, number: int) -> None:
    mesh = a_mesh(size)
    two_ports = [*mesh, *((source, target.backends[0].udp(53)) for source, target in mesh)]
    sample = a_crossing(size, most, number).sample(two_ports)
    by_port = [crossed(each for each in sample if each[1].port == port) for port in (80, 53)]
    assert by_port[0] == by_port[1], "a closed port keeps an open one beside it"


def test_what_is_not_between_two_covered_nodes_belongs_to_all_slices() -> None:
    crossing = a_crossing(20, 20, 7)
    server = a_pod_on("server", 3, 0)
    of_two = replace(server.tcp(80), backends=(server, a_pod_on("server", 4, 0)))
    beyond = Target(host="198.51.100.1", port=80, protocol="tcp", path=Addressing.EXTERNAL)
    elsewhere = a_workload("client", node="not covered")
    pairs = [
        (a_pod_on("client", 1, 0), of_two),
        (a_pod_on("client", 1, 0), beyond),
        (elsewhere, server.tcp(80)),
    ]
    assert crossing.sample(pairs) == pairs


def test_what_is_added_to_a_slice_is_a_path_that_the_test_knows() -> None:
    crossing = a_crossing(20, 20, 0)
    client = a_pod_on("client", 1, 0)
    servers = [a_pod_on("server", place, 0).tcp(80) for place in (7, 9)]
    in_slice = [
        (a_pod_on("client", place, 0), target)
        for place, target in zip((7, 9), servers, strict=True)
    ]
    row = [*((client, target) for target in servers), *in_slice]
    assert crossing.sample(row, {key(*row[1])}) == [row[1], *in_slice]
    assert crossing.sample(row, {key(*row[0])}) == [row[0], *in_slice]


# --- an expectation ------------------------------------------------------------------


class Changed(World):
    """A world in which the test has changed policies once ``made``."""

    made = False

    def change(self) -> PolicyChange | None:
        return PolicyChange(what="policy", at=0.0, enforced_at="target") if self.made else None


class Policies:
    """Policies that close port 8080."""

    def __init__(self, world: Changed) -> None:
        self.world = world

    def apply(self) -> None:
        self.world.made = True


class Town(ScriptedProber):
    """A prober whose servers close port 8080 once the policies are made; counts attempts."""

    def __init__(self, world: Changed) -> None:
        super().__init__({})
        self.world = world
        self.paths: list[set[tuple[str, int]]] = []
        self.sent = 0

    def _answer(self, attempt: Any) -> Any:
        closed = self.world.made and attempt.target.port == 8080
        self.sent += 1
        return observation(attempt, Verdict.TIMED_OUT if closed else Verdict.CONNECTED)


def an_expectation(size: int, most: int, number: int = 5) -> tuple[Expect, Town, Changed]:
    world = Changed()
    prober = Town(world)
    expect = an_expect(prober, "POL-1", kept=[], world=world)
    return replace(expect, crossing=a_crossing(size, most, number)), prober, world


def test_open_paths_alone_are_all_asked_slice_by_slice() -> None:
    expect, _, _ = an_expectation(9, 20)
    clients = [a_pod_on("client", place, 2) for place in range(9)]
    servers = [a_pod_on("server", place, 2) for place in range(9)]
    batches: list[int] = []
    asking = expect.prober.asking

    def counting() -> Any:
        new = asking()
        begin = new.begin

        def counted(attempts: Any) -> Any:
            batches.append(len(attempts))
            return begin(attempts)

        new.begin = counted  # type: ignore[method-assign]
        return new

    expect.prober.asking = counting  # type: ignore[method-assign]
    expect.matrix(Case(clients, servers, tcp=80, open=True, because="all is open"))
    decided = expect.context.sink.decisions
    assert len({(one.source, one.target) for one in decided}) == 81
    assert max(batches) <= 20, "no more are asked at once"


def test_a_test_with_denials_asks_a_slice_before_during_and_after_its_policies() -> None:
    expect, _, world = an_expectation(9, 20)
    clients = [a_pod_on("client", place, 2) for place in range(9)]
    servers = [a_pod_on("server", place, 2) for place in range(9)]
    expect.change(
        Policies(world),
        Case(clients, servers, tcp=80, open=True, because="allowed"),
        Case(clients, servers, tcp=8080, open=False, because="not allowed"),
    )
    decided = {(one.source, one.target) for one in expect.context.sink.decisions}
    assert {source for source, _ in decided} == {target for _, target in decided}
    assert len({source for source, _ in decided}) == 9
    assert len(decided) <= 20 + 9


def test_attempts_are_bounded_over_all_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conformance.expect.path_decisions.ATTEMPTS", 40.0)
    monkeypatch.setattr("conformance.expect.path_decisions.MANY", 8)
    seconds, sent = [], []
    for size in (4, 8):
        expect, prober, world = an_expectation(size, 1000)
        clients = [a_pod_on("client", place, 0) for place in range(size)]
        servers = [a_pod_on("server", place, 0) for place in range(size)]
        began = prober.clock.now
        expect.change(
            Policies(world),
            Case(clients, servers, tcp=80, open=True, because="allowed"),
            Case(clients, servers, tcp=8080, open=False, because="not allowed"),
        )
        seconds.append(prober.clock.now - began)
        sent.append(prober.sent)
    assert sent[1] / seconds[1] <= 2 * 40, f"{sent[1]} attempts in {seconds[1]:.1f} s"
