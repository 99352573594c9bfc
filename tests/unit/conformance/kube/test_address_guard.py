# SPDX-License-Identifier: Apache-2.0
"""Changes that may give a Windows node a second block of addresses are refused, whatever they
declare."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from conformance.kube.changes import Changes
from conformance.kube.client import Kube
from conformance.kube.guard import GuardRefused, check
from conformance.kube.ownership import Ownership
from conformance.model.change import Change, ObjectRef

RUN = Ownership("r1", "gw0")
ROOT = Path(__file__).parents[4]
OWN = "calico-demo-r1-gw0-second"
LINUX = {"kubernetes.io/os": "linux"}
POOLS = '["second-pool"]'


def change(
    verb: Any, kind: str, name: str, body: Any = None, namespace: str | None = None
) -> Change:
    target = ObjectRef(api_version="v1", kind=kind, name=name, namespace=namespace)
    return Change(verb=verb, target=target, why="a test", body=body, cluster_scoped_or_foreign=True)


def pool(verb: Any, spec: Any = None, name: str = OWN) -> Change:
    return change(verb, "IPPool", name, None if spec is None else {"spec": spec})


def asking(verb: Any, kind: str, annotation: str, spec: dict[str, Any] | None = None) -> Change:
    meta = {"annotations": {f"cni.projectcalico.org/{annotation}": POOLS}}
    pods = {"metadata": meta, "spec": spec or {}}
    body = pods if kind in ("Pod", "Namespace") else {"spec": {"template": pods}}
    return change(verb, kind, "calico-demo-r1-gw0", body, "calico-demo-r1-gw0")


@pytest.mark.parametrize(
    "wrong",
    [
        pool("create", {"cidr": "10.9.0.0/16"}),
        pool("apply", {"cidr": "10.9.0.0/16", "disabled": False}),
        pool("replace", {"cidr": "10.9.0.0/16"}),
        pool("patch", {"disabled": False}),
        pool("patch", {"disabled": None}),
        change("patch", "IPPool", OWN, [{"op": "remove", "path": "/spec/disabled"}]),
    ],
)
def test_no_pool_is_made_or_left_enabled(wrong: Change) -> None:
    with pytest.raises(GuardRefused, match="second block; set disabled: true"):
        check(wrong, RUN)


@pytest.mark.parametrize(
    "wrong",
    [
        pool("patch", {"disabled": True}, "default-ipv4-ippool"),
        pool("patch", {"nodeSelector": "!all()"}, "default-ipv4-ippool"),
        pool("patch", {"vxlanMode": "Never"}, "default-ipv4-ippool"),
        pool("patch", {"vxlanMode": "Always", "disabled": True}, "default-ipv4-ippool"),
        pool("apply", {"vxlanMode": "Always"}, "default-ipv4-ippool"),
        pool("apply", {"cidr": "192.168.0.0/16", "disabled": True}, "default-ipv4-ippool"),
        pool("delete", name="default-ipv4-ippool"),
        pool("delete", name="calico-demo-r2-gw0-second"),
        pool("create", {"cidr": "10.9.0.0/16", "disabled": True}, "second"),
    ],
)
def test_nobody_elses_pool_is_disabled_or_changed(wrong: Change) -> None:
    with pytest.raises(
        GuardRefused, match="does not belong to this run, and Windows nodes may have blocks in it"
    ):
        check(wrong, RUN)


@pytest.mark.parametrize("mode", ["Always", "CrossSubnet"])
def test_how_packets_of_a_pool_travel_may_be_patched_since_addresses_stay(mode: str) -> None:
    check(pool("patch", {"vxlanMode": mode}, "default-ipv4-ippool"), RUN)


def test_a_disabled_pool_of_the_run_comes_and_goes() -> None:
    check(pool("create", {"cidr": "10.9.0.0/16", "disabled": True}), RUN)
    check(pool("patch", {"natOutgoing": True}), RUN)
    check(pool("delete"), RUN)


@pytest.mark.parametrize(
    "wrong",
    [
        change("patch", "Installation", "default", {"spec": {"calicoNetwork": {"ipPools": []}}}),
        change("patch", "Installation", "default", {"spec": {"calicoNetwork": None}}),
        change("patch", "Installation", "default", {"spec": None}),
        change(
            "patch",
            "Installation",
            "default",
            [{"op": "remove", "path": "/spec/calicoNetwork/ipPools/0"}],
        ),
        change(
            "apply", "Installation", "default", {"spec": {"calicoNetwork": {"bgp": "Disabled"}}}
        ),
        change("delete", "Installation", "default"),
    ],
)
def test_the_operator_changes_no_pool_for_the_suite(wrong: Change) -> None:
    with pytest.raises(GuardRefused, match=r"patch it without spec\.calicoNetwork\.ipPools"):
        check(wrong, RUN)


def test_the_operators_other_settings_may_be_patched() -> None:
    check(
        change(
            "patch", "Installation", "default", {"spec": {"calicoNetwork": {"bgp": "Disabled"}}}
        ),
        RUN,
    )
    check(change("patch", "Installation", "default", {"spec": {"variant": "Calico"}}), RUN)


@pytest.mark.parametrize("kind", ["IPAMBlock", "BlockAffinity", "IPAMHandle"])
@pytest.mark.parametrize("verb", ["create", "patch", "delete"])
def test_ipams_own_account_of_blocks_is_left_alone(kind: str, verb: str) -> None:
    with pytest.raises(GuardRefused, match="records for IPAM"):
        check(change(verb, kind, "windows-2022-192-168-0-0-26", {"spec": {}}), RUN)


@pytest.mark.parametrize("annotation", ["ipv4pools", "ipv6pools", "ipAddrs", "ipAddrsNoIpam"])
@pytest.mark.parametrize("kind", ["Pod", "Deployment", "DaemonSet", "Namespace"])
@pytest.mark.parametrize(
    "os", [{}, {"nodeSelector": {"kubernetes.io/os": "windows"}}, {"os": {"name": "windows"}}]
)
def test_no_pod_that_may_be_windows_asks_for_a_pool_or_an_address(
    kind: str, annotation: str, os: dict[str, Any]
) -> None:
    with pytest.raises(
        GuardRefused,
        match=f"{annotation} may give a Windows pod an address outside its node's block",
    ):
        check(asking("apply", kind, annotation, os), RUN)


@pytest.mark.parametrize("kind", ["Pod", "Deployment", "DaemonSet"])
def test_a_linux_pod_may_ask_for_a_pool(kind: str) -> None:
    check(asking("apply", kind, "ipv4pools", {"nodeSelector": LINUX}), RUN)
    check(asking("apply", kind, "ipv4pools", {"os": {"name": "linux"}}), RUN)


def test_a_json_patch_that_asks_for_a_pool_is_refused() -> None:
    path = "/spec/template/metadata/annotations/cni.projectcalico.org~1ipv4pools"
    with pytest.raises(GuardRefused, match="ipv4pools may give"):
        check(
            change("patch", "Deployment", "d", [{"op": "add", "path": path, "value": POOLS}]), RUN
        )


def test_the_refusal_comes_before_anything_is_sent(api: Any, kube: Kube) -> None:
    with pytest.raises(
        GuardRefused,
        match=r"refused to patch IPPool default-ipv4-ippool \(v1\): try: the pool does not belong",
    ):
        Changes(kube, RUN).patch(
            ObjectRef(api_version="v1", kind="IPPool", name="default-ipv4-ippool"), {"spec": {"disabled": True}}, "try",
            foreign=True,
        )  # fmt: skip
    assert api.requests == []


def test_neither_suites_nor_manifests_ask_for_pools_or_addresses() -> None:
    asked = re.compile(r"cni\.projectcalico\.org/ip|kind: (IPPool|IPAMBlock|BlockAffinity)\b")
    files = [*(ROOT / "manifests").rglob("*.yaml"), *(ROOT / "suites").rglob("*.py")]
    assert [str(path) for path in files if asked.search(path.read_text())] == []
    assert len(files) > 50


def test_what_changes_a_cluster_is_sent_where_the_guard_is_asked() -> None:
    """By the door to the API and by calicoctl's; questions about rights, and for a token, are posted too."""
    sending, asking_the_guard = set(), set()
    for path in (ROOT / "lib/conformance").rglob("*.py"):
        text = path.read_text()
        if re.search(r"\.request\(\s*\"(POST|PUT|PATCH|DELETE)\"|self\._calicoctl\)", text):
            sending.add(path.name)
        if "guard.check(" in text:
            asking_the_guard.add(path.name)
    assert (
        sending - {"rights.py", "runner.py"} == asking_the_guard == {"changes.py", "calico_api.py"}
    )
