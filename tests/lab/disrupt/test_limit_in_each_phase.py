# SPDX-License-Identifier: Apache-2.0
"""A test that reaches its limit is INCONCLUSIVE and leaves nothing behind, in whatever phase it
is."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance.kube.access import from_kubeconfig
from conformance.kube.client import Kube
from conformance.kube.ownership import SYSTEM_NAMESPACE
from tests.lab.lab_process import RunningLab, running_lab
from tests.reliability.hit_run import environment
from tests.reliability.source import ROOT

pytestmark = [pytest.mark.xdist_group("limit"), pytest.mark.whole_run]
VNI = "conformance.disrupt.vni_change VniChange"
PROCEDURE = "conformance.disrupt.procedure Procedure"
DRAIN = "conformance.disrupt.drain Drain"
FELIX = "conformance.disrupt.felix Felix"
STREAMS = "conformance.expect.subjects.connections_during_change ConnectionsDuringChange"
OF_VXLAN_10 = {
    "prepared": f"{VNI} prepare 0",
    "delivered": f"{VNI} deliver 0",
    "marked and not noted": "conformance.journal.store Journal write 0 now",
    "waited for": "conformance.disrupt.vni Vni delivered 0",
    "drained": f"{DRAIN} drain 0",
    "emptied": f"{DRAIN} emptied 0",
    "network removed": "conformance.probe.host Hosts remove_hns_networks 0",
    "removal seen": f"{PROCEDURE} _removed 0",
    "Felix restarted": f"{FELIX} restart 0",
    "pods renewed": f"{PROCEDURE} _renew 0",
    "uncordoned": f"{DRAIN} uncordon 0",
    "networked": f"{PROCEDURE} _networked 0",
    "heals": f"{VNI} heals 0",
}
OF_RST_3 = {
    "streams begun": f"{STREAMS} begin 0",
    "policies made": f"{STREAMS} under 0",
    "restart begun": f"{FELIX} restart_each 0",
    "process ended": f"{FELIX} _restart_process 0",
    "ready again": f"{FELIX} _until 0",
    "streams judged": f"{STREAMS} survive_or_reconnect 0",
    "policies removed": "conformance.expect.traffic Expect removed 0",
}
PHASES = [
    *(("VXLAN-10", *phase) for phase in OF_VXLAN_10.items()),
    *(("RST-3", *phase) for phase in OF_RST_3.items()),
]
TESTS = {
    "VXLAN-10": ("suites/vxlan/test_vni.py", "-k", "procedure"),
    "RST-3": ("suites/resets/test_felix_restart.py", "-k", "stream"),
}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    with running_lab(tmp_path_factory.mktemp("lab"), "--profile", "small") as one:
        yield one


def own_marks(node: dict[str, Any]) -> list[str]:
    """Return the annotations and labels of a node that are the suite's; Felix has others."""
    meta = node["metadata"]
    names = [*meta.get("annotations", ()), *meta.get("labels", ())]
    return [name for name in names if name.startswith("calico-conformance")]


def state_of(kube: Kube) -> dict[str, Any]:
    """Return all that a disruptive test changes and nobody else does."""
    felix = kube.get("projectcalico.org/v3", "FelixConfiguration", "default")
    nodes = kube.objects("v1", "Node")
    return {
        "VNI": felix["spec"].get("vxlanVNI"),
        "marks of nodes": [
            (node["spec"].get("unschedulable"), node["spec"].get("taints"), own_marks(node))
            for node in nodes
        ],
        "namespaces": sorted(
            space["metadata"]["name"]
            for space in kube.objects("v1", "Namespace")
            if not space["metadata"].get("deletionTimestamp")
            and space["metadata"]["name"] != SYSTEM_NAMESPACE  # it stays for other runs
        ),
        "policies": [
            item["metadata"]["name"]
            for kind in ("NetworkPolicy", "GlobalNetworkPolicy")
            for item in kube.objects("projectcalico.org/v3", kind)
        ],
    }


@pytest.mark.parametrize(
    ("claim", "phase", "place"),
    PHASES,
    ids=[f"{claim} {phase}".replace(" ", "-") for claim, phase, _ in PHASES],
)
def test_a_limit_in_this_phase_leaves_nothing_behind(
    lab: RunningLab, tmp_path: Path, claim: str, phase: str, place: str
) -> None:
    kube = Kube(from_kubeconfig(lab.kubeconfig))
    before = state_of(kube)
    command = [
        sys.executable, "-m", "pytest", "-p", "no:cacheprovider",
        "-p", "tests.lab.disrupt.over_limit", f"--kubeconfig={lab.kubeconfig}",
        f"--report-dir={tmp_path}", "-n", "0", "--no-watch",
        "--allow-disruptive", "--allow-cluster-disruptive",
        f"--timings={ROOT / 'lib/conformance/settings/lab.yaml'}", *TESTS[claim],
    ]  # fmt: skip
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment(tmp_path) | {"OVER_LIMIT": place},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    out = done.stdout + done.stderr
    assert done.returncode == 6, out
    report = json.loads((tmp_path / "latest" / "conformance.json").read_text())
    (found,) = [item for item in report["claims"] if item["id"] == claim]
    assert found["verdict"] == "INCONCLUSIVE"
    assert {item["reason"].partition(" (")[0] for item in found["results"]} == {
        "the test has not ended within its limit"
    }, out
    assert list((tmp_path / "latest" / "attachments").glob("*/stacks_of_all_threads.txt"))
    assert "not restored" not in out
    assert state_of(kube) == before
    journals = kube.objects("v1", "ConfigMap", labels="calico-conformance/journal=true")
    assert journals == [], "no journal is left"
    kube.close()
