# SPDX-License-Identifier: Apache-2.0
"""One table lists what the suite changes and restores: every change has a row, and every row has a
change."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import conformance
from conformance.disrupt.drain import Drain
from conformance.disrupt.felix import Felix
from conformance.disrupt.kube_proxy import KubeProxy
from conformance.disrupt.overlay_change import OverlayChange
from conformance.disrupt.own_node_status import OwnNodeStatus
from conformance.disrupt.own_pool import OwnPool
from conformance.disrupt.procedure import HNS_NETWORK
from conformance.disrupt.third_party import ThirdPartyPods
from conformance.disrupt.vni import Vni
from conformance.errors import Nonconformance
from conformance.journal.fields import touched
from conformance.journal.journalled import Journalled
from conformance.journal.record import Entry, dump, load
from conformance.journal.redaction import JournalRefused
from conformance.journal.restorable import OLD, ROWS, _row, by_hand, refusal
from conformance.kube.changes import Changes, reference
from conformance.kube.guard import merged
from conformance.kube.ownership import CORDON_ANNOTATION, Ownership
from conformance.model.change import ObjectRef
from conformance.settings import Settings
from conformance.undo.healers import healers_of
from tests.unit.conformance.builders import a_pod, a_workload, some_facts
from tests.unit.conformance.disrupt.conftest import Cluster
from tests.unit.conformance.disrupt.test_ending_policy import Story
from tests.unit.conformance.disrupt.test_vni import Hosts, prepare

CALLS = {
    "vni.py": 2, "own_node_status.py": 1, "own_pool.py": 2, "drain.py": 1, "healer.py": 1, "felix.py": 1,
    "kube_proxy.py": 1, "third_party.py": 1, "full_node.py": 1, "overlay_change.py": 2,
}  # fmt: skip
"""Journalled changes by file of ``disrupt``; each is made below (full_node's cordon as drain's)."""
LIB = Path(conformance.__file__).parent
SUITES = LIB.parent.parent / "suites"
V3 = "projectcalico.org/v3"


class Written(Cluster):
    """A cluster that has what was written to it."""

    def patch(
        self, target: ObjectRef, merge_patch: Mapping[str, Any], why: str, *, foreign: bool = True
    ) -> Any:
        changed = merged(self.others[target.kind, target.name], merge_patch)
        self.others[target.kind, target.name] = changed
        return changed

    def create(self, obj: Any, why: str, *, foreign: bool = True) -> Any:
        made = merged(obj, {"metadata": {"uid": f"uid-{obj['kind']}"}})
        self.others[obj["kind"], obj["metadata"]["name"]] = made
        return made


class Book:
    """A journal that keeps what is written to it, as it stands in the ConfigMap."""

    within = 0.0

    def __init__(self) -> None:
        self.written: dict[str, Entry] = {}

    def key(self) -> str:
        return f"{len(self.written) + 1:020d}-main"

    def write(self, entry: Entry) -> Entry:
        self.written[entry.key] = load(dump(entry))
        return entry

    def mark(self, entry: Entry, state: str) -> Entry:
        return entry

    def close(self, entry: Entry) -> None: ...


def healer_names() -> list[str]:
    changes: Any = Changes(None, Ownership("r1"))  # type: ignore[arg-type]
    return list(healers_of(changes, None, Settings()))  # type: ignore[arg-type]


@pytest.fixture
def book() -> Book:
    return Book()


@pytest.fixture
def written(cluster: Cluster) -> Written:
    node = {
        "metadata": {"name": "w1", "uid": "uid-w1", "annotations": {CORDON_ANNOTATION: "r0"}},
        "spec": {},
    }
    other: Any = {"metadata": {"name": "l1", "uid": "uid-l1"}, "spec": {"unschedulable": False}}
    return Written(pods=cluster.pods, others={("Node", "w1"): node, ("Node", "l1"): other})


@pytest.fixture
def journalled(written: Written, book: Book) -> Journalled:
    changes: Any = written
    journal: Any = book
    return Journalled(
        changes, journal, dict.fromkeys(healer_names(), lambda run, arguments: None), lambda: None
    )


@pytest.fixture
def everything(
    *, written: Any, journalled: Any, patience: Any, clock: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Every change that the code beside this test journals."""
    nodes = dict(written.others)
    monkeypatch.setattr(Vni, "delivered", lambda *_, **__: 0.0)
    for install in ("operator", "manifest"):
        prepare(written, felix={} if install == "operator" else None)
        written.others |= nodes
        for name, version in (("FelixConfiguration", V3), ("DaemonSet", "apps/v1")):
            found = next(item for (kind, _), item in written.others.items() if kind == name)
            found["metadata"] = {**found.get("metadata", {}), "uid": f"uid-{name}"}
            found["apiVersion"] = version
        containers = written.others["DaemonSet", "calico-node-windows"]["spec"]["template"]["spec"][
            "initContainers"
        ]
        containers[0]["env"] = [
            {
                "name": "VXLAN_VNI",
                "valueFrom": {"configMapKeyRef": {"key": "vni", "name": "calico-windows"}},
            }
        ]
        facts = some_facts(install=install)
        Vni(written, journalled, patience, clock, hosts=Hosts(), facts=facts).deliver(  # type: ignore[arg-type]
            4097, linux=[], windows=[]
        )
    written.pods += [
        a_pod("logs", "w1", owner="DaemonSet", namespace="ops"),
        a_pod(
            "proxy",
            "w1",
            owner="DaemonSet",
            namespace="kube-system",
            labels={"k8s-app": "kube-proxy"},
        ),
        a_pod(
            "felix-l",
            "l1",
            owner="DaemonSet",
            namespace="kube-system",
            labels={"k8s-app": "calico-node"},
        ),
    ]
    HNS_NETWORK.note(journalled, "w1")
    for node in ("w1", "l1"):
        Drain(written, journalled, patience, clock=clock).drain(node)
    theirs = ThirdPartyPods(written, journalled, patience, clock=clock)
    theirs.renewed("w1", *theirs.note("w1"))
    numbers = iter(range(1, 99))
    processes: Any = SimpleNamespace(
        ids=lambda pod: {next(numbers)}, end=lambda pod: None, ready=lambda pod: True
    )
    services: Any = SimpleNamespace(
        ids=lambda node: {next(numbers)}, end=lambda node: None, ready=lambda node: True
    )
    felix = Felix(
        written, journalled, lambda node: "windows" if node[0] == "w" else "linux", lambda os: patience, clock=clock,
        processes=processes, services=services,
    )  # fmt: skip
    felix.restart("l1")
    felix.restart_each(["w1"])
    written.pods = [
        pod for pod in written.pods if not pod["metadata"]["name"].startswith("felix-w")
    ]
    felix.restart_each(["w1"])  # as a service
    KubeProxy(written, journalled, patience, clock=clock).restart("w1")
    context: Any = SimpleNamespace()
    with pytest.raises(Nonconformance):
        OwnPool(journalled, context).keeps_its_block_size(because="a test")
    linux: Any = SimpleNamespace(name="l1")
    OwnNodeStatus(journalled, context, clock, period=10.0, windows=[], linux=linux)._request("w1")

    _change_overlay(written, journalled, monkeypatch)

    class Ending(Story):
        def procedure(self, name: str, arguments: Any, why: str) -> str:
            held = {**arguments, "node": "w1", "namespace": "calico-demo-r1-main"}
            journalled.procedure(name, held, why)
            return super().procedure(name, arguments, why)

    Ending().run()


def _change_overlay(written: Any, journalled: Journalled, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another port, and pools in cross-subnet mode and back."""
    pool = {
        "apiVersion": V3,
        "kind": "IPPool",
        "metadata": {"name": "default-ipv4-ippool", "uid": "uid-pool"},
        "spec": {"vxlanMode": "Always"},
    }
    written.others["IPPool", "default-ipv4-ippool"] = pool
    pod = a_workload(node="l1")
    monkeypatch.setattr(OverlayChange, "_until", lambda *_: None)
    story: Any = SimpleNamespace(
        journal=journalled,
        begin=lambda: 4096,
        now=SimpleNamespace(
            linux_nodes=["l1"], among=[], between=[(pod, replace(pod, os="windows").tcp(80))]
        ),
        vni=SimpleNamespace(
            kube=SimpleNamespace(objects=lambda *_: [pool]),
            hosts=SimpleNamespace(linux=lambda node: SimpleNamespace(routes=())),
        ),
        expect=SimpleNamespace(
            of_claim=lambda claim: SimpleNamespace(
                limitation=lambda change, *_: change.apply(), context=None
            )
        ),
    )
    change = OverlayChange(story, SimpleNamespace(), on_lab=True)  # type: ignore[arg-type]
    change._configure(4790)
    change.cross_subnet(because="a test")


@pytest.mark.usefixtures("everything")
def test_every_change_fits_the_table_and_every_row_has_its_change(book: Book) -> None:
    entries = list(book.written.values())
    assert {entry.label: refusal(entry) for entry in entries if refusal(entry)} == {}
    used = [row for entry in entries if (row := _row(entry))]
    assert [row.what for row in ROWS if row not in used] == []
    fields = {(row.what, path) for row in ROWS for path in row.fields}
    changed = {
        (row.what, one.path) for entry in entries if (row := _row(entry)) for one in entry.fields
    }
    assert changed == fields


def test_every_journalled_change_of_the_code_is_made_above() -> None:
    found: dict[str, int] = {}
    for path in [*LIB.rglob("*.py"), *SUITES.rglob("*.py")]:
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and _is_journalled(call.func):
                found[path.name] = found.get(path.name, 0) + 1
    assert found == CALLS


def _is_journalled(called: ast.expr) -> bool:
    if not isinstance(called, ast.Attribute) or called.attr not in (
        "patch",
        "create",
        "procedure",
        "delete_owned_pod",
    ):
        return False
    whose = called.value
    name = (
        whose.attr
        if isinstance(whose, ast.Attribute)
        else whose.id
        if isinstance(whose, ast.Name)
        else ""
    )
    return name.lstrip("_") in ("journal", "journalled", "plainly")


def test_every_procedure_has_a_healer_and_every_healer_its_procedure() -> None:
    named = [match[1] for row in ROWS if (match := re.match(r'"procedure","([^"]+)"', row.what))]
    assert sorted(named) == sorted(healer_names())


NODE = ObjectRef(api_version="v1", kind="Node", name="w1")
FELIX = ObjectRef(api_version=V3, kind="FelixConfiguration", name="default")
WINDOWS = ObjectRef(
    api_version="apps/v1", kind="DaemonSet", name="calico-node-windows", namespace="calico-system"
)
SHARED_POOL = ObjectRef(api_version=V3, kind="IPPool", name="default-ipv4-ippool")
POOL = ObjectRef(api_version=V3, kind="IPPool", name="calico-demo-r-main-pool")


def mode(name: str) -> Any:
    return {"spec": {"vxlanMode": name}}


def patch(target: ObjectRef, before: Any, change: Any, **more: Any) -> Entry:
    entry = Entry(
        key="1-main",
        run="r",
        act="patch",
        why="x",
        target=target,
        uid="u",
        fields=touched(before, change),
    )
    return replace(entry, **more)


def daemonset(value: str = "4096", **more: Any) -> Any:
    container = {"name": "felix", "image": "calico", "env": [{"name": "VXLAN_VNI", "value": value}]}
    return {"spec": {"template": {"spec": {"containers": [container | more]}}}}


def procedure(name: str, arguments: Any, **more: Any) -> Entry:
    entry = Entry(
        key="1-main",
        run="r",
        act="procedure",
        why="x",
        procedure=name,
        arguments=arguments,
        target=NODE,
        uid="u",
    )
    return replace(entry, **more)


VNI = patch(FELIX, {"spec": {"vxlanVNI": 4096}}, {"spec": {"vxlanVNI": 4097}})
CORDON = patch(NODE, {"spec": {}}, {"spec": {"unschedulable": True}})
PODS = {"node": "w1", "pods": [{"namespace": "ops", "name": "logs", "uid": "u"}]}
POLICIES = {"node": "w1", "namespace": "calico-demo-r-gw0", "policies": ["a", "b"]}


@pytest.mark.parametrize(
    "entry",
    [
        VNI, CORDON, patch(WINDOWS, daemonset(), daemonset("4097")), patch(WINDOWS, daemonset(""), daemonset("4097")),
        patch(replace(WINDOWS, namespace="kube-system"), daemonset(), daemonset("16777215")),
        patch(FELIX, {"spec": {}}, {"spec": {"vxlanVNI": 1}}),
        patch(FELIX, {"spec": {"vxlanVNI": 16777215}}, {"spec": {"vxlanVNI": 9999999}}),
        patch(FELIX, {"spec": {}}, {"spec": {"vxlanPort": 4790}}),
        patch(FELIX, {"spec": {"vxlanPort": 4790}}, {"spec": {"vxlanPort": 4789}}),
        patch(SHARED_POOL, mode("Always"), mode("CrossSubnet")),
        replace(VNI, act="create", target=POOL, fields=()),
        procedure("hns-network", {"node": "w1"}), procedure("daemonset-pods", PODS),
        procedure("policy-that-may-end-felix", POLICIES),
    ],
    ids=str,
)  # fmt: skip
def test_what_the_suite_changes_fits(entry: Entry) -> None:
    assert refusal(entry) == ""
    assert refusal(load(dump(entry))) == ""


SECRET: Any = {
    "env": [{"name": "VXLAN_VNI", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]
}
REFUSED = {
    "a pool without encapsulation": patch(
        SHARED_POOL, {"spec": {"vxlanMode": "Always"}}, {"spec": {"vxlanMode": "Never"}}
    ),
    "a shared pool disabled": patch(SHARED_POOL, {"spec": {}}, {"spec": {"disabled": True}}),
    "a port that is none": patch(FELIX, {"spec": {}}, {"spec": {"vxlanPort": 0}}),
    "another kind": replace(VNI, target=replace(NODE, kind="Namespace")),
    "a ClusterRoleBinding": replace(
        VNI, target=ObjectRef(api_version="rbac.authorization.k8s.io/v1", kind="ClusterRoleBinding", name="default")
    ),
    "another API": replace(VNI, target=replace(FELIX, api_version="example.org/v1")),
    "another object": replace(VNI, target=replace(FELIX, name="node.w1")),
    "a namespace": replace(VNI, target=replace(FELIX, namespace="tenant")),
    "another field": patch(FELIX, {"spec": {"a": 1}}, {"spec": {"a": 2}}),
    "one field too many": patch(FELIX, {"spec": {"vxlanVNI": 1}}, {"spec": {"vxlanVNI": 2, "a": 2}}),
    "the whole spec": patch(FELIX, {}, {"spec": None}),
    "no field": replace(VNI, fields=()),
    "a VNI that is none": patch(FELIX, {"spec": {"vxlanVNI": 0}}, {"spec": {"vxlanVNI": 2}}),
    "a VNI that is no number": patch(FELIX, {"spec": {"vxlanVNI": "4096"}}, {"spec": {"vxlanVNI": 2}}),
    "a VNI that is true": patch(FELIX, {"spec": {"vxlanVNI": True}}, {"spec": {"vxlanVNI": 2}}),
    "a VNI that is too large": patch(FELIX, {"spec": {"vxlanVNI": 16777216}}, {"spec": {"vxlanVNI": 2}}),
    "a variable that is too large": patch(WINDOWS, daemonset("16777216"), daemonset("4097")),
    "a VNI in lines": patch(FELIX, {"spec": {"vxlanVNI": 4096}}, {"spec": {"vxlanVNI": "2\n"}}),
    "no uid": replace(VNI, uid=""),
    "a cordon in place of none": patch(NODE, {"spec": {"unschedulable": True}}, {"spec": {"unschedulable": None}}),
    "a taint": patch(NODE, {"spec": {"taints": []}}, {"spec": {"taints": None}}),
    "another annotation": patch(NODE, {"metadata": {}}, {"metadata": {"annotations": {"a": "b"}}}),
    "parents that there are not": replace(VNI, fields=(replace(VNI.fields[0], parents=-1),)),
    "another image": patch(WINDOWS, daemonset(image="evil"), daemonset("4097")),
    "a privileged container": patch(WINDOWS, daemonset(securityContext={"privileged": True}), daemonset("4097")),
    "a variable from a Secret": patch(WINDOWS, daemonset(**SECRET), daemonset("4097")),
    "no list of containers": patch(WINDOWS, {"spec": {"template": {"spec": {"containers": 7}}}}, daemonset("4097")),
    "a VNI in words": patch(WINDOWS, daemonset("; rm"), daemonset("4097")),
    "another DaemonSet": patch(replace(WINDOWS, name="calico-node"), daemonset(), daemonset("4097")),
    "in a tenant's namespace": patch(replace(WINDOWS, namespace="tenant"), daemonset(), daemonset("4097")),
    "somebody's pool": replace(VNI, act="create", target=replace(POOL, name="default"), fields=()),
    "another run's pool": replace(VNI, act="create", target=replace(POOL, name="calico-demo-s-x"), fields=()),
    "a namespace that was made": replace(VNI, act="create", target=replace(NODE, kind="Namespace"), fields=()),
    "fields of an object that was made": replace(VNI, act="create", target=POOL),
    "a key that is no name": replace(VNI, key="a/b"),
    "a run that is no name": replace(VNI, run="r -n x"),
    "another procedure": procedure("drain", {"node": "w1"}),
    "a procedure on another node": procedure("hns-network", {"node": "w2"}),
    "a procedure on no node": procedure("hns-network", {}),
    "a procedure with more words": procedure("hns-network", {"node": "w1", "force": True}),
    "a procedure elsewhere": procedure("hns-network", {"node": "w1"}, target=replace(FELIX, name="w1")),
    "a procedure with fields": procedure("hns-network", {"node": "w1"}, fields=VNI.fields),
    "a node that is a command": procedure("hns-network", {"node": "w1; x"}, target=replace(NODE, name="w1; x")),
    "pods that are none": procedure("daemonset-pods", {**PODS, "pods": ["logs"]}),
    "pods of a Deployment's": procedure("daemonset-pods", {**PODS, "pods": [{**PODS["pods"][0], "kind": "x"}]}),  # type: ignore[dict-item]
    "policies elsewhere": procedure("policy-that-may-end-felix", {**POLICIES, "namespace": "tenant"}),
    "policies of another run": procedure("policy-that-may-end-felix", {**POLICIES, "namespace": "calico-demo-s-a"}),
    "a format without marks": replace(VNI, run=""),
}  # fmt: skip


@pytest.mark.parametrize("entry", REFUSED.values(), ids=REFUSED.keys())
def test_nothing_else_fits(entry: Entry) -> None:
    assert refusal(load(dump(entry))) != ""


@pytest.mark.parametrize(
    "name", ["another kind", "another image", "in a tenant's namespace", "a node that is a command"]
)
def test_no_command_is_said_for_what_does_not_fit(name: str) -> None:
    assert by_hand(REFUSED[name]) == ""
    assert by_hand(replace(REFUSED[name], run="")) == ""


@pytest.mark.parametrize(
    ("entry", "command"),
    [
        (VNI, "kubectl patch felixconfiguration.projectcalico.org default --type=merge -p "
              """'{"spec": {"vxlanVNI": 4096}}'"""),
        (CORDON, """kubectl patch node w1 --type=merge -p '{"spec": {"unschedulable": null}}'"""),
        (patch(WINDOWS, daemonset(), daemonset("4097")),
         "kubectl set env -n calico-system daemonset/calico-node-windows VXLAN_VNI=4096"),
        (replace(VNI, act="create", target=POOL, fields=()),
         "kubectl delete ippool.projectcalico.org calico-demo-r-main-pool"),
        (procedure("hns-network", {"node": "w1"}, target=None, uid=""),
         "kubectl drain w1 --ignore-daemonsets, restart the node, kubectl uncordon w1"),
    ],
    ids=["VNI", "cordon", "DaemonSet", "pool", "procedure"],
)  # fmt: skip
def test_an_entry_of_an_earlier_release_is_refused_with_the_command_that_fixes_it(
    entry: Entry, command: str
) -> None:
    old = replace(entry, run="")
    assert refusal(old) == OLD
    assert by_hand(old) == command


def test_a_change_outside_the_table_is_not_made(
    journalled: Journalled, written: Written, book: Book
) -> None:
    before = dict(written.others)
    for change in (
        lambda: journalled.patch(NODE, {"spec": {"taints": []}}, "a test"),
        lambda: journalled.create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}}, "a test"
        ),
        lambda: journalled.procedure("hns-network", {"node": "w1", "force": True}, "a test"),
    ):
        with pytest.raises(JournalRefused, match="nothing was changed"):
            change()
    assert (written.others, book.written) == (before, {})
    assert reference({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "w1"}}) == NODE
