# SPDX-License-Identifier: Apache-2.0
"""A forged journal is refused by name and left alone; it changes nothing and stops no run.

A user with the role ``edit`` can write ConfigMaps in the namespace that runs share, and read uids.
This user cannot mark nodes, Calico's settings or namespaces.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from conformance.journal.fields import touched
from conformance.journal.record import Entry, dump
from conformance.kube.changes import Changes
from conformance.kube.ownership import SYSTEM_NAMESPACE, Ownership
from conformance.model.change import ObjectRef
from tests.reliability import hit_run, snapshot

pytestmark = [pytest.mark.xdist_group("forged-journals"), pytest.mark.whole_run]
WITHIN = 120.0
"""Seconds; only a run that hangs is caught."""
V3 = "projectcalico.org/v3"
FELIX = ObjectRef(api_version=V3, kind="FelixConfiguration", name="default")
TENANT, SYSTEM = (
    ObjectRef(api_version="v1", kind="Namespace", name=name) for name in ("tenant", "kube-system")
)
POOL = ObjectRef(api_version=V3, kind="IPPool", name="calico-demo-f5-main-pool")
PRIVILEGED = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}
CONSENT = {"metadata": {"labels": {"calico-conformance/cluster-disruptive": "allowed"}}}
DEEP = "[" * 100_000
NO_MARK = "does not carry the mark calico-conformance/change-1-main"
WHY = {
    "f1": """patch Namespace tenant (v1) .metadata.labels["pod-security.kubernetes.io/enforce"]: x: this suite""",
    "f2": """kube-system (v1) .metadata.labels["calico-conformance/cluster-disruptive"]: x: this suite""",
    "f3": f".spec.vxlanVNI: x: FelixConfiguration default (projectcalico.org/v3) {NO_MARK}",
    "f4": f"Node windows (v1): x: Node windows (v1) {NO_MARK}",
    "f5": f"create IPPool {POOL.name} (projectcalico.org/v3): x: IPPool {POOL.name} (projectcalico.org/v3) {NO_MARK}",
}


@pytest.fixture(scope="module")
def harness() -> Iterator[hit_run.Harness]:
    with hit_run.harness("small", ()) as one:
        yield one


def undoing(current: dict[str, Any], label: dict[str, Any]) -> Any:
    """Fields by which a restore would give an object the label, since a run had taken it away."""
    wanted = {**current, "metadata": {**current["metadata"], **label["metadata"]}}
    return touched(wanted, {"metadata": {"labels": dict.fromkeys(label["metadata"]["labels"])}})


@pytest.fixture(scope="module")
def forged(harness: hit_run.Harness) -> dict[str, Entry]:
    """The entry of each run that there never was, in a journal of its name."""
    kube = harness.kube
    harness.lab.kubectl("create", "namespace", "tenant")
    harness.lab.kubectl("create", "namespace", SYSTEM_NAMESPACE)
    spec = {"cidr": "198.19.0.0/24", "blockSize": 26, "disabled": True, "nodeSelector": "!all()"}
    pool = {"apiVersion": V3, "kind": "IPPool", "metadata": {"name": POOL.name}, "spec": spec}
    Changes(kube, Ownership("f5")).create(
        pool, "an administrator's, with the labels of a run", foreign=True
    )
    entries: dict[str, Entry] = {}
    for run, target, label in (("f1", TENANT, PRIVILEGED), ("f2", SYSTEM, CONSENT)):
        current = kube.get(target.api_version, target.kind, target.name)
        fields = undoing(current, label)
        entries[run] = Entry(
            key="1-main",
            run=run,
            act="patch",
            why="x",
            target=target,
            uid=current["metadata"]["uid"],
            fields=fields,
        )
    felix = kube.get(V3, FELIX.kind, FELIX.name)
    changed = touched(
        felix | {"spec": felix["spec"] | {"vxlanVNI": 4500}}, {"spec": {"vxlanVNI": 4096}}
    )
    uid = felix["metadata"]["uid"]
    entries["f3"] = Entry(
        key="1-main", run="f3", act="patch", why="x", target=FELIX, uid=uid, fields=changed
    )
    node = next(
        item["metadata"]
        for item in kube.objects("v1", "Node")
        if "windows" in item["metadata"]["name"]
    )
    entries["f4"] = Entry(
        key="1-main", run="f4", act="procedure", why="x", procedure="hns-network", arguments={"node": node["name"]},
        target=ObjectRef(api_version="v1", kind="Node", name=node["name"]), uid=node["uid"],
    )  # fmt: skip
    entries["f5"] = Entry(key="1-main", run="f5", act="create", why="x", target=POOL)
    for run, entry in entries.items():
        write(harness, run, {entry.key: dump(entry)})
    write(
        harness, "f6", {"1-main": "no entry", "2-main": DEEP, "3-main": json.dumps({"fields": 1})}
    )
    return entries


def write(harness: hit_run.Harness, run: str, data: dict[str, str]) -> None:
    labels = {
        "calico-conformance/journal": "true", "calico-conformance/run": run,
        "app.kubernetes.io/managed-by": "calico-windows-conformance",
    }  # fmt: skip
    meta = {"name": f"journal-{run}", "namespace": SYSTEM_NAMESPACE, "labels": labels}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
    harness.lab.kubectl("apply", "-f", "-", stdin=json.dumps(body))


def journals(harness: hit_run.Harness) -> dict[str, Any]:
    found = harness.kube.objects(
        "v1", "ConfigMap", SYSTEM_NAMESPACE, labels="calico-conformance/journal=true"
    )
    return {item["metadata"]["name"]: item["data"] for item in found}


def without_runs(taken: snapshot.Snapshot) -> tuple[Any, ...]:
    """The cluster but for what its runs lock and note."""
    kept = tuple(name for name in taken.ours if SYSTEM_NAMESPACE not in name)
    return taken.objects, taken.pods, taken.problems, kept


def run(harness: hit_run.Harness, *arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        harness.command(*arguments), cwd=harness.project, env=harness.environment, capture_output=True, text=True,
        timeout=WITHIN, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--restore",), 6),
        (("--janitor",), 6),
        (("--janitor", "--dry-run"), 0),
        (("-n", "2", "--allow-cluster-disruptive"), 0),
        (("-k", "shares_the_cluster", "-n", "0"), 0),
    ],
    ids=["restore", "janitor", "janitor-dry-run", "disruptive-run", "other-run"],
)
def test_forged_journals_are_refused_by_name_and_left_alone(
    harness: hit_run.Harness, forged: dict[str, Entry], arguments: tuple[str, ...], code: int
) -> None:
    before, written = without_runs(snapshot.take(harness.kube)), journals(harness)
    assert len(written) == len(forged) + 1
    found, output = run(harness, *arguments)
    assert found == code, output
    refused = [
        line for line in output.splitlines() if line.startswith("run f") and ": refused: " in line
    ]
    assert sorted(line[4:6] for line in refused) == sorted(forged), output
    for line in refused:
        assert WHY[line[4:6]] in line
    assert (
        output.count("run f6: its journal: ConfigMap calico-conformance-system/journal-f6: entry ")
        == 3
    )
    assert "Traceback" not in output
    assert without_runs(snapshot.take(harness.kube)) == before, "nothing of the cluster was changed"
    assert journals(harness) == written, "nor were the journals"
