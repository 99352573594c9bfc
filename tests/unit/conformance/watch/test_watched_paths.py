# SPDX-License-Identifier: Apache-2.0
"""The paths that the standing watch probes, and those that it stops probing when pods have
changed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from conformance.model.endpoint import Addressing, Target, Workload
from conformance.settings import load_timings
from conformance.watch.standing_watch import Pair, Watch
from tests.unit.conformance.builders import a_workload


class Services:
    """Stand-in: each pod has a Service, by whose address it is asked."""

    def by_address(self, pod: Workload) -> Target:
        return Target(
            host="10.96.0.1", port=80, protocol="tcp", path=Addressing.CLUSTER_IP, backends=(pod,),
            name=f"Service of {pod.pod}",
        )  # fmt: skip


def a_watch() -> Any:
    watch: Any = object.__new__(Watch)
    watch._paths, watch._services, watch._domain = [], Services(), "cluster.local"
    watch._timings = load_timings(lab=True)
    return watch


def pair(node: str, made: int = 1) -> Pair:
    """Return the watched and the free pod of a node; the watched one was made so often."""
    return (
        a_workload(f"{node}-watched", node=node, uid=f"{node}-watched-{made}"),
        a_workload(f"{node}-free", node=node),
    )


def asked(watch: Any) -> set[str]:
    """Return the paths that are asked now; each of them once."""
    now = [
        SimpleNamespace(path=path, ends="->".join(end.pod for end in path.ends))
        for path in watch._paths
        if not path.gone
    ]
    found = [f"{one.path.way} {one.path.protocol} {one.ends}".replace("  ", " ") for one in now]
    assert len(found) == len(set(found))
    return set(found)


def test_each_node_is_asked_from_and_to_the_next_one() -> None:
    watch = a_watch()
    watch._connect([pair("a"), pair("b")])
    assert asked(watch) == {
        "in tcp b-free->a-watched", "in udp b-free->a-watched", "in tcp a-free->b-watched",
        "in udp a-free->b-watched", "out tcp a-watched->b-free", "out udp a-watched->b-free",
        "out tcp b-watched->a-free", "out udp b-watched->a-free",
        "allowed tcp b-watched->a-watched", "allowed tcp a-watched->b-watched",
        "free tcp b-free->a-free", "free tcp a-free->b-free",
        "dns a-free", "dns b-free", "service tcp a-free->b-free", "service tcp b-free->a-free",
    }  # fmt: skip
    assert {path.node for path in watch._paths if path.ends[-1].pod == "a-watched"} == {"a"}


def test_paths_between_pods_that_did_not_change_are_asked_on_and_not_twice() -> None:
    watch = a_watch()
    watch._connect([pair("a"), pair("b")])
    first = list(watch._paths)
    watch._connect([pair("a"), pair("b")])
    assert watch._paths == first
    assert not any(path.gone for path in first)


def test_paths_of_a_pod_that_was_replaced_are_given_up_and_begin_anew() -> None:
    watch = a_watch()
    watch._connect([pair("a"), pair("b")])
    before = asked(watch)
    watch._connect([pair("a", made=2), pair("b")])
    assert asked(watch) == before
    gone = [path for path in watch._paths if path.gone]
    assert len(gone) == 6
    assert {"a-watched-1" in (end.uid for end in path.ends) for path in gone} == {True}
    since = [path.gone for path in gone]
    watch._connect([pair("a", made=2), pair("b")])
    assert [path.gone for path in watch._paths if path.gone] == since


def test_a_node_alone_is_asked_within_itself_and_no_pod_asks_itself() -> None:
    watch = a_watch()
    watch._connect([pair("a")])
    assert asked(watch) == {
        "in tcp a-free->a-watched", "in udp a-free->a-watched", "out tcp a-watched->a-free",
        "out udp a-watched->a-free", "dns a-free",
    }  # fmt: skip
