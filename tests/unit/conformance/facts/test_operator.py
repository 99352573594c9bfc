# SPDX-License-Identifier: Apache-2.0
"""Facts about the input of Calico's operator and the objects that it renders: as demanded, or the
values that exist instead."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from conformance.errors import MissingCapability, NotAboutThisCluster
from conformance.facts.objects import CalicoObjects
from conformance.facts.operator import OperatorFacts
from conformance.kube.refused import ApiRefused
from conformance.model.facts import Fact
from tests.unit.conformance.builders import Obj, an_object
from tests.unit.conformance.facts.test_objects import V3, Objects, facts, values

API = "operator.tigera.io/v1"


class Served(Objects):
    """Objects that are got by name, too."""

    def get(self, api: str, kind: str, name: str, namespace: str | None = None) -> Obj:
        if (api, kind) not in self.there:
            raise MissingCapability(f"{kind} is not served", "-")
        found = self.find(api, kind, name, namespace)
        if found is None:
            raise ApiRefused(404, "NotFound", "not found", f"GET {kind}")
        return found


INSTALLATION = an_object("default", serviceCIDRs=["10.96.0.0/12"], calicoNetwork={"ipPools": [
    {"cidr": "10.1.0.0/16", "encapsulation": "VXLAN"}]})  # fmt: skip
CONFIG = {
    "metadata": {"name": "kubernetes-services-endpoint", "namespace": "tigera-operator"},
    "data": {"KUBERNETES_SERVICE_HOST": "h", "KUBERNETES_SERVICE_PORT": "6443"},
}


def status(name: str, **conditions: str) -> Obj:
    told = [{"type": kind, "status": value, "message": "m"} for kind, value in conditions.items()]
    return {"metadata": {"name": name}, "status": {"conditions": told}}


def daemons(*containers: str, ready: int = 2, owner: str = "", **spec: Any) -> Obj:
    pods = {"hostNetwork": True, "nodeSelector": {"kubernetes.io/os": "windows"},
            "securityContext": {"windowsOptions": {"hostProcess": True}}} | spec  # fmt: skip
    meta: Obj = {"name": "calico-node-windows", "namespace": "calico-system"}
    if owner:
        meta["ownerReferences"] = [{"kind": owner, "name": "default"}]
    return {
        "metadata": meta,
        "spec": {
            "template": {"spec": pods | {"containers": [{"name": name} for name in containers]}}
        },
        "status": {"desiredNumberScheduled": 2, "numberReady": ready},
    }


def reads(*, mode: str = "vxlan", strict: bool = True, **there: list[Obj]) -> OperatorFacts:
    objects: dict[tuple[str, str], list[Obj]] = {
        (API, "Installation"): there.get("installation", [INSTALLATION]),
        (API, "TigeraStatus"): there.get("status", [status("calico-windows", Available="True")]),
        ("v1", "ConfigMap"): there.get("config", [CONFIG]),
        ("apps/v1", "DaemonSet"): there.get("daemons", [daemons("felix", "node", "install-cni")]),
        (V3, "IPAMConfiguration"): [an_object("default", strictAffinity=strict)],
    }
    known = replace(
        facts(),
        cni=Fact("Calico", "c"),
        ipam=Fact("calico-ipam", "i"),
        mode=Fact(mode, "m"),  # type: ignore[arg-type]
    )
    kube: Any = Served(objects)
    return OperatorFacts(CalicoObjects(kube, known))


def test_all_that_is_demanded_is_there() -> None:
    assert set(values(reads().demands()).values()) == {"as the operator requires"}


def test_what_is_missing_is_named() -> None:
    bare = an_object("default", calicoNetwork={"ipPools": [{"cidr": "10.1.0.0/16"}]})
    assert values(reads(installation=[bare], config=[], strict=False).demands()) == {
        "serviceCIDRs": "none",
        "the API server's address": "no KUBERNETES_SERVICE_HOST and no KUBERNETES_SERVICE_PORT",
        "encapsulation of 10.1.0.0/16": "IPIP",
        "IPAMConfiguration default .spec.strictAffinity": "false",
    }


def test_another_plugin_needs_neither_encapsulation_nor_strict_affinity() -> None:
    other = an_object("default", serviceCIDRs=["10.96.0.0/12"], cni={"type": "AmazonVPC"})
    assert set(values(reads(installation=[other]).demands())) == {
        "serviceCIDRs",
        "the API server's address",
    }


def test_the_outcome_is_the_status_and_the_ready_pods() -> None:
    assert set(values(reads().outcome()).values()) == {"Available", "all ready"}
    degraded = [status("calico-windows", Degraded="True", Available="False")]
    found = values(reads(status=degraded, daemons=[daemons("felix", ready=1)]).outcome())
    assert list(found.values()) == ["calico-windows is degraded: m", "1 of 2 ready"]


def test_the_shape_follows_mode_and_plugin() -> None:
    assert set(values(reads().shape()).values()) == {"as the operator renders it"}
    found = values(reads(mode="bgp", daemons=[daemons("felix", "node", hostNetwork=False)]).shape())
    wrong = {name: value for name, value in found.items() if value != "as the operator renders it"}
    assert wrong == {
        "hostNetwork": "false instead of true",
        "container confd": "false instead of true",
        "container install-cni": "false instead of true",
    }


def test_only_what_the_installation_owns_was_laid_by_the_operator() -> None:
    assert list(values(reads().on_windows()).values()) == ["nothing"]
    owned = [daemons("felix", owner="Installation")]
    assert list(values(reads(daemons=owned).on_windows()).values()) == [
        "DaemonSet calico-system/calico-node-windows"
    ]
    with pytest.raises(NotAboutThisCluster, match="Calico's operator"):
        reads(installation=[]).on_windows()


@pytest.mark.parametrize(
    ("status", "count"),
    [
        ({"desiredNumberScheduled": 2, "numberReady": 2}, "all ready"),
        ({"desiredNumberScheduled": 2, "numberReady": 1}, "1 of 2 ready"),
        ({"desiredNumberScheduled": 1}, "0 of 1 ready"),
        ({"desiredNumberScheduled": 0, "numberReady": 0}, "0 of 0 ready"),
        ({}, "0 of 0 ready"),
    ],
)
def test_pods_are_all_ready_only_where_some_are_wanted(status: Obj, count: str) -> None:
    found = values(reads(daemons=[daemons("felix") | {"status": status}]).outcome())
    assert found["DaemonSet calico-system/calico-node-windows"] == count


@pytest.mark.parametrize(
    ("statuses", "reported"),
    [
        ([status("calico-windows", Available="True")], "Available"),
        ([status("calico", Degraded="True")], "none"),
        (
            [status("calico-windows", Available="True"), status("calico", Degraded="True")],
            "Available",
        ),
        ([status("calico-windows", Progressing="True")], "calico-windows is progressing"),
    ],
)
def test_the_status_of_windows_alone_counts(statuses: list[Obj], reported: str) -> None:
    found = values(reads(status=statuses).outcome())
    assert found["TigeraStatus calico-windows"] == reported


@pytest.mark.parametrize(
    ("mode", "cni", "containers"),
    [
        ("vxlan", "Calico", {"felix": True, "node": True, "confd": False, "install-cni": True}),
        ("bgp", "Calico", {"felix": True, "node": True, "confd": True, "install-cni": True}),
        ("policy-only", "AzureVNET", {"felix": True, "node": True, "install-cni": False}),
        ("policy-only", None, {"felix": True, "node": True}),
    ],
)
def test_mode_and_plugin_decide_which_containers_the_operator_renders(
    mode: str, cni: str | None, containers: dict[str, bool]
) -> None:
    rendered = [name for name, there in containers.items() if there]
    read = reads(mode=mode, daemons=[daemons(*rendered)])
    read._facts = replace(read._facts, cni=Fact(cni, "c"))
    found = values(read.shape())
    assert {name for name in found if name.startswith("container ")} == {
        f"container {name}" for name in containers
    }
    assert set(found.values()) == {"as the operator renders it"}
