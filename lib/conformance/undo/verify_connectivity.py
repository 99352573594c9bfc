# SPDX-License-Identifier: Apache-2.0
"""Checks by traffic that a cluster is restored: pods, Services and names from disrupted nodes.

Pods of both operating systems must reach each other, within and between nodes. On a Windows node
with a new HNS network, Services may not work until kube-proxy restarts
(``conformance.disrupt.kube_proxy``). In this case the check restarts kube-proxy and reports it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from conformance.errors import ControlBroken, Nonconformance, SuiteError, first_line
from conformance.expect.context import Context
from conformance.expect.traffic import Expect
from conformance.kube.changes import Changes
from conformance.kube.client import Kube
from conformance.kube.ownership import Ownership
from conformance.model.endpoint import SYSTEMS, Pair
from conformance.model.facts import Facts
from conformance.pods.deploy import Pods
from conformance.pods.placement import Placement
from conformance.pods.roles import DEMO_PORT
from conformance.pods.services import Services, cluster_domain
from conformance.pods.worker_pods import WorkerPods
from conformance.probe.prober import Prober
from conformance.settings import Cover, Settings

RESTORED = "everything that was changed has been put back, and no policy is in force"


@dataclass(frozen=True, kw_only=True)
class Disrupted:
    """The changed nodes, and how Services on them can be made to work again."""

    nodes: Sequence[str] = ()
    """Nodes that were drained, or whose network or Felix was touched."""
    revive: Mapping[str, Callable[[], object]] = field(default_factory=dict)
    """A function for each node whose HNS network may be new; it restarts kube-proxy on this node.
    """


NOTHING_DISRUPTED = Disrupted()


def connectivity_problem(
    kube: Kube,
    facts: Facts,
    settings: Settings,
    *,
    process: str = "",
    disrupted: Disrupted = NOTHING_DISRUPTED,
    tell: Callable[[str], None] = lambda line: None,
) -> str:
    """Return one line about pods that do not reach each other or Services; empty if all do.

    ``process`` signs the created objects (``journal.liveness``); ``tell`` receives a line for each
    observation and action at disrupted nodes.
    """
    run = Ownership(settings.run_id, "whole", process)
    settings = replace(settings, worker=run.worker)
    changes = Changes(kube, run)
    pods = Pods(kube, changes, facts, settings)
    placement = Placement(
        facts, settings.tolerations, cover=_cover(facts, settings, disrupted.nodes)
    )
    with TemporaryDirectory(prefix="calico-conformance-") as folder:
        prober = Prober(kube, Path(folder), settings)
        worker_pods = WorkerPods(pods, placement)
        problem = ""
        try:
            clients = [client for os in SYSTEMS for client in worker_pods.clients(os)]
            servers = [
                server.tcp(DEMO_PORT) for os in SYSTEMS for server in worker_pods.servers(os)
            ]
            expect = Expect(prober, settings.timings, Context(claims=("after restore",)))
            problem = "not every pod reaches every other pod"
            expect.reachable(clients, servers, because=RESTORED)
            problem = "it is not known whether Services work"
            services = Services(changes, worker_pods, cluster_domain(kube))
            server = worker_pods.servers("linux").first

            def pairs(node: str) -> list[Pair]:
                at_node = [client for client in clients if client.node == node]
                return [
                    (at, goal(server))
                    for at in at_node
                    for goal in (services.by_address, services.by_name)
                ]

            problem = services_problem(expect, disrupted, pairs, tell)
        except (Nonconformance, SuiteError) as found_out:
            problem = f"{problem}: {first_line(found_out)}"
        finally:
            worker_pods.close()
            prober.close()
            left = _removed(pods)
    return problem or left


def services_problem(
    expect: Expect,
    disrupted: Disrupted,
    pairs: Callable[[str], Sequence[Pair]],
    tell: Callable[[str], None],
) -> str:
    """Describe in one line the disrupted nodes from which Services do not work by address and by
    name; empty if there are none.

    If Services still do not work and the node's HNS network may be new, its kube-proxy is
    restarted. Raise ProbeBroken, EnvironmentBroken.
    """
    alive = []
    problems = []
    for node in disrupted.nodes:
        through = pairs(node)
        if not through:
            tell(f"node {node} takes no pods, so Services were not checked from this node")
            continue
        dead = _dead(expect, through)
        if dead and node in disrupted.revive:
            disrupted.revive[node]()
            tell(
                f"kube-proxy on node {node} was restarted, since Services did not work there: "
                f"{dead}"
            )
            dead = _dead(expect, through)
        if dead:
            problems.append(f"Services do not work from node {node}: {dead}")
        else:
            alive.append(node)
    if alive:
        tell(f"Services work by ClusterIP and by name from {', '.join(alive)}")
    return "; ".join(problems)


def _dead(expect: Expect, pairs: Sequence[Pair]) -> str:
    """Return which of these paths to Services does not work, in one line; empty if all work."""
    try:
        expect.control(pairs, because=RESTORED)
    except ControlBroken as dead:
        return first_line(dead)
    return ""


def _cover(facts: Facts, settings: Settings, disrupted: Sequence[str]) -> Cover:
    """Return the nodes that a run would cover, together with the disrupted nodes."""
    placement = Placement(facts, settings.tolerations, cover=settings.cover)
    usual = [covered.node.name for os in SYSTEMS for covered in placement.coverage(os)]
    return Cover(nodes=tuple(dict.fromkeys([*usual, *disrupted])))


def _removed(pods: Pods) -> str:
    """Remove the pods of this check. Return in one line why they could not be removed; empty if
    they were removed."""
    try:
        pods.remove()
    except SuiteError as error:
        return f"pods of the connectivity check were left: {first_line(error)}"
    return ""
