# SPDX-License-Identifier: Apache-2.0
"""At whatever point a run dies while it changes the VNI, its journal is enough for another
process to restore everything."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from conformance.disrupt.disruptions import Disruptions
from conformance.disrupt.drain import Drain
from conformance.disrupt.patience import patience_of
from conformance.disrupt.procedure import HNS_NETWORK, Procedure
from conformance.disrupt.vni import Vni
from conformance.errors import MissingCapability, ProbeBroken
from conformance.facts.detect import detect
from conformance.journal import Journal, Journalled, Outcome
from conformance.journal.journalling import Plainly
from conformance.journal.restore import restore
from conformance.kube import execute
from conformance.kube.access import from_kubeconfig
from conformance.kube.changes import Changes
from conformance.kube.client import Kube
from conformance.kube.ownership import Ownership
from conformance.model.endpoint import Workload
from conformance.model.facts import Facts
from conformance.pods.deploy import Pods, Wish
from conformance.pods.host_pods import HostPods
from conformance.probe.host import Hosts
from conformance.settings import Settings, load_timings
from conformance.undo.healers import healers_of
from tests.lab.lab_process import RunningLab, running_lab

NODE, LINUX = "windows", "linux"
OLD, NEW = 4096, 4097


class Dies(Exception):
    """The run is killed here."""


@dataclass
class Harness:
    """A lab with a Windows pod, and the parts that a run would have."""

    kube: Kube
    facts: Facts
    settings: Settings
    pods: Pods
    hosts: Hosts
    lab: RunningLab

    def run(self, name: str) -> Changes:
        return Changes(self.kube, Ownership(name))

    def vsid(self) -> int | None:
        return self.vni(self.run("look")).vsid(NODE)

    def vni(self, journal: Any) -> Vni:
        return self.disruptions(self.run("look"), journal, self.hosts).vni

    def procedure(self, changes: Changes, journal: Any, hosts: Hosts) -> Procedure:
        return self.disruptions(changes, journal, hosts).procedure

    def disruptions(self, changes: Changes, journal: Any, hosts: Hosts) -> Disruptions:
        return Disruptions(
            changes=changes,
            journal=journal,
            facts=self.facts,
            settings=self.settings,
            hosts=hosts,
        )

    def networked(self) -> None:
        """Wait until the Windows pod is there, on any network."""
        node = next(item for item in self.facts.nodes if item.name == NODE)
        self.pods.deploy([Wish(role="windows-server", node=node)])


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    with running_lab(tmp_path_factory.mktemp("lab"), "--profile", "small") as lab:
        kube = Kube(from_kubeconfig(lab.kubeconfig))
        timings = load_timings(lab=True)
        windows = replace(
            timings.windows, exec_overhead=5.0
        )  # a third of what a failing HNS is asked again for
        settings = Settings(timings=replace(timings, windows=windows))
        facts = detect(kube, evidence="lab")
        pods = Pods(kube, Changes(kube, Ownership("dead")), facts, settings)
        host_pods = HostPods(pods)

        def run(workload: Workload, argv: Any, within: float) -> Any:
            return execute.run(
                kube, workload.namespace, workload.pod, workload.container, argv, within=within
            )

        one = Harness(
            kube,
            facts,
            settings,
            pods,
            Hosts(run, host_pods.on, host_pods.on, settings.timings),
            lab,
        )
        one.networked()
        yield one
        kube.close()


def dying(real: Any, name: str) -> Any:
    """The same object, whose method kills the run after it has done its work."""

    class Dying:
        def __getattr__(self, asked: str) -> Any:
            found = getattr(real, asked)
            if asked != name:
                return found

            def dies(*words: Any, **more: Any) -> Any:
                found(*words, **more)
                raise Dies

            return dies

    return Dying()


@pytest.mark.parametrize(
    "point",
    ["delivered", "cordoned", "network removed", "Felix restarted", "healed"],
    ids=lambda one: one.replace(" ", "-"),
)
def test_another_process_puts_back_vni_network_and_node(harness: Harness, point: str) -> None:
    changes, journal = harness.run("dead"), Journal(harness.kube, Ownership("dead"), within=5.0)
    healers = healers_of(changes, harness.facts, harness.settings)
    journalled = Journalled(changes, journal, healers, lambda: None)
    acts: dict[str, Callable[[], Procedure]] = {
        "cordoned": lambda: harness.procedure(changes, dying(journalled, "patch"), harness.hosts),
        "network removed": lambda: harness.procedure(
            changes, journalled, dying(harness.hosts, "remove_hns_networks")
        ),
        "Felix restarted": lambda: harness.procedure(
            changes, dying(journalled, "delete_owned_pod"), harness.hosts
        ),
        "healed": lambda: harness.procedure(changes, journalled, harness.hosts),
    }
    HNS_NETWORK.note(journalled, NODE)
    harness.vni(journalled).deliver(NEW, linux=[LINUX], windows=[NODE])
    assert harness.vsid() == OLD
    if point in acts:
        procedure = acts[point]()
        procedure._drain.uncordon = lambda node: None  # type: ignore[method-assign] # the dead clear up nothing
        with contextlib.suppress(Dies):
            procedure.new_network(NODE)
    if point == "healed":
        Drain(changes, journalled, patience_of(harness.settings)("windows")).uncordon(NODE)
        harness.networked()
        assert harness.vsid() == NEW

    later = harness.run("later")
    again = healers_of(later, detect(harness.kube, evidence="lab"), harness.settings)
    done = restore(Journal(harness.kube, Ownership("dead"), within=5.0), changes, again)

    assert {restored.outcome for restored in done} <= {Outcome.RESTORED, Outcome.UNCHANGED}, [
        str(restored) for restored in done
    ]
    assert harness.vni(later).configured() == OLD
    assert not harness.kube.get("v1", "Node", NODE)["spec"].get("unschedulable")
    harness.vni(later).delivered(OLD, linux=[LINUX], windows=[NODE])
    harness.networked()
    assert harness.vsid() == OLD
    assert not [
        entry
        for entry in Journal(harness.kube, Ownership("dead"), within=5.0).entries()
        if entry.open
    ]
    assert [obj["metadata"]["name"] for obj in harness.kube.objects("v1", "Namespace") if _is_there(obj)] == [
        "calico-demo-dead-main", "calico-demo-dead-main-host",
    ]  # fmt: skip


BUDGET = """\
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: keep, namespace: calico-demo-dead-main}
spec: {minAvailable: 1, selector: {matchLabels: {app: windows-server}}}
"""


def test_a_budget_that_forbids_the_drain_is_named_and_nothing_is_touched(harness: Harness) -> None:
    changes = harness.run("dead")
    procedure = harness.procedure(changes, Plainly(changes), harness.hosts)
    procedure.refuse_budgets(NODE)
    harness.lab.kubectl("apply", "-f", "-", stdin=BUDGET)
    try:
        before = harness.kube.objects("v1", "Pod", fields=f"spec.nodeName={NODE}")
        with pytest.raises(
            MissingCapability,
            match=r"eviction of pod .* was refused: .*disruption budget keep needs 1 healthy pods",
        ):
            procedure.refuse_budgets(NODE)
        after = harness.kube.objects("v1", "Pod", fields=f"spec.nodeName={NODE}")
        assert [(pod["metadata"]["uid"], pod["status"]["phase"]) for pod in after] == [
            (pod["metadata"]["uid"], pod["status"]["phase"]) for pod in before
        ]
        assert not harness.kube.get("v1", "Node", NODE)["spec"].get("unschedulable")
    finally:
        harness.lab.kubectl("delete", "pdb", "keep", "-n", "calico-demo-dead-main")


@pytest.mark.parametrize("answer", ["error", "silent"])
def test_an_hns_that_fails_has_not_lost_its_network(harness: Harness, answer: str) -> None:
    config = ("--kubeconfig", str(harness.lab.kubeconfig))
    injected = harness.lab.hybridlab(
        "faults", *config, "inject", "hns-fails", f"node={NODE}", f"answer={answer}"
    )
    identity = injected.stdout.strip()
    try:
        with pytest.raises(ProbeBroken, match=r"HNS failed|HNS gave no answer"):
            harness.vsid()
    finally:
        harness.lab.hybridlab("faults", *config, "heal", identity)
    assert harness.vsid() == OLD


def _is_there(namespace: dict[str, Any]) -> bool:
    """A namespace of the suite's that is not on its way out."""
    meta = namespace["metadata"]
    return bool(meta["name"].startswith("calico-demo-") and not meta.get("deletionTimestamp"))
