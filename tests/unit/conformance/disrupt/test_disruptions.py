# SPDX-License-Identifier: Apache-2.0
"""A dry run describes commands that change a node, and what it would journal; it runs none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from conformance.disrupt.disruptions import Disruptions
from conformance.journal import Journal, Journalled
from conformance.journal.journalling import Plainly
from conformance.kube.changes import Changes
from conformance.kube.execute import ExecResult
from conformance.kube.ownership import Ownership
from conformance.model.change import ObjectRef
from conformance.settings import Settings, load_timings
from conformance.timing import ImaginedClock


class Hosts:
    """Keeps what is run on hosts and in pods."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, str]] = []

    def on_windows(self, node: str) -> Any:
        return SimpleNamespace(pod=f"host of {node}")

    def command(self, pod: Any, argv: Any) -> ExecResult:
        self.ran.append((pod.pod, argv[-1]))
        return ExecResult(0, f"{len(self.ran)}".encode(), b"", 0.0)


def parts(cluster: Any, hosts: Any, told: list[str], *, dry_run: bool) -> Disruptions:
    facts: Any = SimpleNamespace(
        install=SimpleNamespace(value="manual"),
        nodes=[SimpleNamespace(name=name, os="windows") for name in ("w1", "w9")],
        felix_pods="k8s-app=calico-node-windows",
    )
    changes = Changes(cluster, Ownership("r1"), dry_run=dry_run, tell=told.append)
    return Disruptions(
        changes=changes,
        journal=Plainly(changes),
        facts=facts,
        settings=Settings(timings=load_timings()),
        hosts=hosts,
        clock=ImaginedClock(),
    )


@pytest.mark.parametrize(
    ("node", "said"),
    [
        ("w1", "dry run: end the process of Felix in pod calico-system/felix-w"),
        ("w9", "dry run: restart service CalicoFelix of node w9"),
    ],
)
def test_a_dry_run_describes_what_a_real_run_does_by_a_command(
    cluster: Any, node: str, said: str
) -> None:
    cluster.pods[0]["spec"]["containers"] = [{"name": "felix"}]
    told: list[str] = []
    hosts = Hosts()
    parts(cluster, hosts, told, dry_run=True).felix.restart_each([node])
    assert (told, hosts.ran) == ([said], [])
    parts(cluster, hosts, told, dry_run=False).felix.restart_each([node])
    assert told == [said]
    assert {pod for pod, _ in hosts.ran} == {"felix-w" if node == "w1" else "host of w9"}


def test_a_dry_run_describes_each_entry_with_its_values_and_writes_none(cluster: Any) -> None:
    told: list[str] = []
    cluster.others["Node", "w1"] = {"metadata": {"name": "w1", "uid": "u"}, "spec": {}}
    changes = Changes(cluster, Ownership("r1"), dry_run=True, tell=told.append)
    journal = Journal(cluster, changes.run, within=0.0, describe=told.append)
    one = Journalled(changes, journal, {"felix-restart": lambda run, arguments: None}, lambda: None)
    node = ObjectRef(api_version="v1", kind="Node", name="w1")
    one.patch(node, {"spec": {"unschedulable": True}}, "drains it")
    one.close(one.procedure("felix-restart", {"node": "w1"}, "Felix restarts"))
    marked = '.metadata.annotations["calico-conformance/cordoned"]'
    assert [line for line in told if line.startswith("journal: ")] == [
        f"journal: patch Node w1 (v1) .spec.unschedulable, {marked}: drains it "
        f"(.spec.unschedulable absent -> True, {marked} absent -> 'r1')",
        'journal: procedure felix-restart {"node": "w1"} Node w1 (v1): Felix restarts',
    ]
    assert [line for line in told if line.startswith("dry run: ")] == [
        "dry run: patch Node w1 (v1): drains it",
        "dry run: patch Node w1 (v1): Felix restarts",
    ]
    assert cluster.log == []
