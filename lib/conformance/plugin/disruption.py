"""Fixtures for looking into nodes and for changing more than the run's own namespaces.

Puts the parts together; decides nothing.  Host pods are the worker's; changes are each test's own, and put back.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from conformance.cluster.journal import Journalled
from conformance.cluster.objects import CalicoObjects
from conformance.cluster.vxlan import VxlanFacts
from conformance.disrupt.drain import Drain
from conformance.disrupt.felix import Felix
from conformance.disrupt.patience import Patience
from conformance.disrupt.procedure import Procedure
from conformance.disrupt.vni import Vni
from conformance.disrupt.vni_change import Parties, VniChange
from conformance.expect.traffic import Expect
from conformance.kube.changes import Changes
from conformance.kube.client import Kube
from conformance.model.change import ObjectRef
from conformance.model.endpoint import OS, Workload
from conformance.model.facts import Facts
from conformance.plugin import state
from conformance.plugin.recorder import Recorder
from conformance.plugin.transcript import ExecTranscript
from conformance.pods.cast import Cast
from conformance.pods.deploy import Pods, Wish
from conformance.pods.host_pods import HostPods
from conformance.pods.placement import Placement
from conformance.probe.host import Hosts
from conformance.probe.literal import Literal
from conformance.probe.prober import Prober
from conformance.settings import Settings


@pytest.fixture(scope="session")
def host_pods(deployer: Pods) -> HostPods:
    """The worker's pods in hosts of nodes."""
    return HostPods(deployer)


@pytest.fixture
def hosts(cast: Cast, host_pods: HostPods, prober: Prober, settings: Settings, witness: ExecTranscript) -> Hosts:
    """Looking into nodes; ``linux-node`` serves for its own node."""

    def on_linux(node: str) -> Workload:
        (usual,) = cast.there("linux-node")
        return usual if usual.node == node else host_pods.on(node)

    run = Literal(prober.kube, prober.slots, transcript=witness.literal, counts=prober.counts).run
    return Hosts(run, host_pods.on, on_linux, settings.timings)


@pytest.fixture
def vxlan(cluster: Kube, facts: Facts, hosts: Hosts, calico: CalicoObjects) -> VxlanFacts:
    """What nodes and objects say about the overlay."""
    return VxlanFacts(cluster, facts, hosts, calico)


@pytest.fixture
def felix(cluster: Kube, journalled: Journalled, facts: Facts, settings: Settings) -> Felix:
    """Restarts of Felix."""
    return Felix(cluster, journalled, os_of(facts), patience_of(settings))


@pytest.fixture
def drain(changes: Changes, journalled: Journalled, settings: Settings) -> Drain:
    """Drains of Windows nodes."""
    return Drain(changes, journalled, patience_of(settings)("windows"))


@pytest.fixture
def vni(
    *,
    cluster: Kube,
    changes: Changes,
    journalled: Journalled,
    facts: Facts,
    settings: Settings,
    hosts: Hosts,
    felix: Felix,
    drain: Drain,
    deployer: Pods,
    placement: Placement,
    prober: Prober,
    expect: Expect,
    record: Recorder,
    pytestconfig: pytest.Config,
) -> Iterator[VniChange]:
    """The story of a VNI that is changed under pods; put back, and verified, whatever happened."""
    patience = patience_of(settings)("windows")
    windows = placement.usable("windows")
    newcomers = Newcomers(deployer, placement)

    def as_now() -> Parties:
        prober.revalidate()  # agents of pods that were drained
        return parties(deployer, placement)

    story = VniChange(
        vni=Vni(cluster, journalled, hosts, facts, patience),
        procedure=Procedure(drain, felix, hosts, patience),
        journal=journalled,
        expect=expect,
        parties=as_now,
        newcomers=newcomers.arrive,
        windows=[one.name for one in windows],
        lifted=lambda reason: record.lifted(reason, "VXLAN-9"),
    )
    record.touched(["linux", "windows"])
    yield story
    try:
        with state.of(pytestconfig).putting_back():
            story.put_back()
    finally:
        newcomers.leave()


# --- how --------------------------------------------------------------------------------------------------------------


def os_of(facts: Facts) -> Callable[[str], OS]:
    """A node's operating system by its name."""
    systems = {node.name: node.os for node in facts.nodes}
    return systems.__getitem__


def patience_of(settings: Settings) -> Callable[[OS], Patience]:
    """What the run's timings say about disruptions."""

    def patience(os: OS) -> Patience:
        own, run = settings.timings.of(os), settings.timings.run
        return Patience(
            felix_restart=own.felix_restart, drain=own.drain, vni_delivery=run.vni_delivery,
            evict_again=run.evict_again, poll_every=own.poll_every,
        )  # fmt: skip

    return patience


def parties(deployer: Pods, placement: Placement) -> Parties:
    """The pods of the story as they are now: those of the worker's cast, found again after a drain."""
    linux, windows = placement.usable("linux"), placement.usable("windows")
    wishes = [
        Wish(role=f"{os}-{kind}", node=nodes[0])
        for os, nodes in (("linux", linux), ("windows", windows))
        for kind in ("client", "server")
    ]
    wishes += [Wish(role="linux-peer", node=linux[1])] if len(linux) > 1 else []
    wishes += [Wish(role="windows-peer", node=windows[1])] if len(windows) > 1 else []
    found = deployer.deploy(wishes)
    return Parties(
        linux_client=found["linux-client"],
        linux_server=found["linux-server"],
        linux_elsewhere=found.get("linux-peer", found["linux-server"]),
        windows_client=found["windows-client"],
        windows_server=found["windows-server"],
        windows_elsewhere=found.get("windows-peer"),
    )


class Newcomers:
    """New pods on every Windows node, networked while something holds; removed again."""

    _numbers = itertools.count(1)

    def __init__(self, deployer: Pods, placement: Placement) -> None:
        self._deployer, self._placement = deployer, placement
        self._made: list[str] = []

    def arrive(self) -> None:
        """Have one networked on each node.  Raises EnvironmentBroken as deploying does."""
        wishes = [
            Wish(role="windows-peer", node=node, name=f"windows-newcomer-{next(self._numbers)}")
            for node in self._placement.usable("windows")
        ]
        self._made += [one.called for one in wishes]
        self._deployer.deploy(wishes)

    def leave(self) -> None:
        """Remove them."""
        for name in self._made:
            target = ObjectRef(api_version="apps/v1", kind="Deployment", name=name, namespace=self._deployer.namespace)
            self._deployer.changes.delete(target, "its test is over")
        self._made.clear()
