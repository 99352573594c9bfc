# SPDX-License-Identifier: Apache-2.0
"""Facts from objects name the object and the field; the commands that repair them work on that
cluster."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.errors import MissingCapability
from conformance.facts.objects import CalicoObjects
from conformance.facts.remedies import Remedies
from conformance.kube.refused import ApiRefused
from conformance.model.builds import BuildUnderCalico
from conformance.model.endpoint import OS
from conformance.model.facts import Fact, Facts, NodeFacts
from tests.unit.conformance.builders import Obj, a_node, an_object, some_facts

V3, CRD, OPERATOR = "projectcalico.org/v3", "crd.projectcalico.org/v1", "operator.tigera.io/v1"


@dataclass
class Objects:
    """Objects by API and kind; what is not a key is not served."""

    there: dict[tuple[str, str], list[Obj]]
    forbidden: set[str] = field(default_factory=set)

    @property
    def discovery(self) -> Any:
        return SimpleNamespace(serves=lambda api, kind: (api, kind) in self.there)

    def objects(self, api: str, kind: str, namespace: str | None = None, **_: str) -> list[Obj]:
        if kind in self.forbidden:
            raise ApiRefused(403, "Forbidden", f"may not list {kind}", f"GET {kind}")
        found = self.there.get((api, kind), [])
        return [item for item in found if namespace in (None, item["metadata"].get("namespace"))]

    def get(self, api: str, kind: str, name: str) -> Obj:
        (found,) = [o for o in self.objects(api, kind) if o["metadata"]["name"] == name]
        return found

    def find(self, api: str, kind: str, name: str, namespace: str | None = None) -> Obj | None:
        return next(
            (obj for obj in self.objects(api, kind, namespace) if obj["metadata"]["name"] == name),
            None,
        )


def node(name: str, os: OS, **more: Any) -> NodeFacts:
    return a_node(name, os, kernel_version="10.0.20348.2762", **more)


def facts(
    install: str | None = "operator",
    datastore: str | None = "kubernetes",
    more: tuple[NodeFacts, ...] = (),
) -> Facts:
    nodes = (node("lin", "linux"), node("win", "windows"), *more)
    known = {"mode": "vxlan", "datastore": datastore, "install": install}
    return some_facts(*nodes, calico_version="v3.31.2", **known)


def reads(
    there: dict[tuple[str, str], list[Obj]], of: Facts | None = None, **more: Any
) -> CalicoObjects:
    return CalicoObjects(Objects(there, **more), of or facts())  # type: ignore[arg-type]


def values(found: dict[str, Fact[Any]]) -> dict[str, Any]:
    return {name: fact.value for name, fact in found.items()}


def test_builds_and_versions_are_told_of_each_node_with_its_own_calico() -> None:
    known = facts(more=(node("win-2", "windows", windows_build=(20348, 1)),))
    known = replace(known, calico_on_nodes={"win-2": Fact("v3.29.1", "image of its pod")})
    found = reads({}, known)
    assert values(found.windows_builds()) == {
        "build of node win": None, "build of node win-2": BuildUnderCalico((20348, 1), "v3.29.1"),
    }  # fmt: skip
    assert (
        str(found.windows_builds()["build of node win-2"].value) == "20348.1 under Calico v3.29.1"
    )
    assert values(found.calico_version()) == {
        "Calico's version": "v3.31.2", "Calico's version on node win-2": "v3.29.1",
    }  # fmt: skip


def test_a_build_under_an_unknown_calico_is_not_judged_and_the_version_is_what_is_asked_for() -> (
    None
):
    own = node("win-2", "windows", windows_build=(18362, 1256))
    known = replace(facts(more=(own,)), calico_on_nodes={"win-2": Fact(None, "not known: no pod")})
    with pytest.raises(MissingCapability) as caught:
        reads({}, known).windows_builds()
    assert "Calico's version on node win-2 is not known" in str(caught.value)
    assert "--windows-calico-version" in str(caught.value)


def test_pools_are_read_where_they_are_served_and_disabled_ones_left_out() -> None:
    pools = [
        an_object("a", cidr="192.168.0.0/16", ipipMode="Always", vxlanMode="Never"),
        an_object("b", cidr="10.0.0.0/16", disabled=True, ipipMode="Always"),
        an_object("c", cidr="fd00::/48"),
        an_object("d", cidr="172.16.0.0/16", vxlanMode="Always"),
    ]
    found = reads({(CRD, "IPPool"): pools}).pools("ipipMode")
    assert values(found) == {
        "IPPool a .spec.ipipMode": "Always",
        "IPPool d .spec.ipipMode": "Never",
    }
    assert found["IPPool a .spec.ipipMode"].source == ".spec.ipipMode (crd.projectcalico.org/v1)"


@pytest.mark.parametrize(
    ("pool", "bgp", "shape"),
    [
        ({"vxlanMode": "Always"}, "Disabled", "VXLAN with BGP disabled"),
        ({"vxlanMode": "CrossSubnet"}, "Disabled", "VXLAN CrossSubnet with BGP disabled"),
        ({"ipipMode": "Always"}, "Enabled", "IPIP Always with BGP enabled"),
        (
            {"ipipMode": "Never", "vxlanMode": "Never"},
            "Enabled",
            "no encapsulation with BGP enabled",
        ),
        (
            {"vxlanMode": "Always", "ipipMode": "Always"},
            None,
            "VXLAN and IPIP Always with BGP enabled",
        ),
    ],
)
def test_a_pool_and_bgp_make_a_shape(pool: Obj, bgp: str | None, shape: str) -> None:
    installation = an_object("default", calicoNetwork={"bgp": bgp} if bgp else {})
    there = {
        (V3, "IPPool"): [an_object("a", cidr="192.168.0.0/16", **pool)],
        (OPERATOR, "Installation"): [installation],
    }
    assert values(reads(there).shapes()) == {"IPPool a": shape}


def test_bgp_is_read_from_the_configuration_map_or_the_mesh_where_no_operator_is() -> None:
    config = {
        "metadata": {"name": "calico-config", "namespace": "kube-system"},
        "data": {"calico_backend": "vxlan"},
    }
    assert values(reads({("v1", "ConfigMap"): [config]}).bgp()) == {"BGP": "Disabled"}
    mesh = {(CRD, "BGPConfiguration"): [an_object("default", nodeToNodeMeshEnabled=True)]}
    assert values(reads(mesh).bgp()) == {"BGP": "Enabled"}
    assert reads({}).bgp()["BGP"].value is None


def test_strict_affinity_is_false_where_there_is_no_such_object() -> None:
    assert list(values(reads({(V3, "IPAMConfiguration"): []}).strict_affinity()).values()) == [
        False
    ]
    there = {(CRD, "IPAMConfig"): [an_object("default", strictAffinity=True)]}
    assert values(reads(there).strict_affinity()) == {
        "IPAMConfig default .spec.strictAffinity": True
    }


def affinity(where: str, cidr: str, **more: Any) -> Obj:
    return an_object(
        f"{where}-{cidr}", node=where, cidr=cidr, state="confirmed", deleted="false", **more
    )


def test_only_confirmed_blocks_of_windows_nodes_count() -> None:
    there = {
        (V3, "BlockAffinity"): [
            affinity("win", "192.168.7.64/26"),
            {
                **affinity("win", "192.168.7.128/26"),
                "spec": {"node": "win", "cidr": "x", "state": "pending"},
            },
            affinity("lin", "192.168.8.0/26"),
        ]
    }
    assert values(reads(there).blocks()) == {"blocks of node win": ["192.168.7.64/26"]}
    assert values(reads({(V3, "BlockAffinity"): []}).blocks()) == {"blocks of node win": []}


@pytest.mark.parametrize(
    ("addresses", "told"),
    [
        (["fd00::5", "10.244.1.5"], "in its node's podCIDR"),
        (["10.244.1.5", "fd00::5"], "in its node's podCIDR"),
        (["10.9.9.9"], "10.9.9.9"),
        (["fd00::5"], None),
    ],
)
def test_a_pods_address_is_that_of_ipv4_whichever_comes_first(
    addresses: list[str], told: str | None
) -> None:
    node = an_object("win", podCIDRs=["fd00::/64", "10.244.1.0/24"])
    pod = an_object("web", namespace="demo", nodeName="win")
    pod["status"] = {"podIP": addresses[0], "podIPs": [{"ip": one} for one in addresses]}
    found = reads({("v1", "Node"): [node], ("v1", "Pod"): [pod]})
    assert list(values(found.in_pod_cidr("win")).values()) == ([told] if told else [])


def test_what_may_not_be_read_is_not_run_with_the_right_that_is_missing() -> None:
    there: dict[tuple[str, str], list[Obj]] = {(CRD, "BlockAffinity"): []}
    with pytest.raises(MissingCapability, match="give the run the right to list it"):
        reads(there, forbidden={"BlockAffinity"}).blocks()
    with pytest.raises(MissingCapability, match="neither by projectcalico"):
        reads({}).blocks()


@pytest.mark.parametrize(
    ("install", "datastore", "phrase"),
    [
        ("operator", "kubernetes", "vxlan on kubernetes"),
        (None, "kubernetes", "vxlan on kubernetes"),
        ("manual", "etcd", "vxlan on etcd by manual"),
        (None, "etcd", None),
        ("operator", None, None),
    ],
)
def test_the_way_of_installation_counts_under_etcd_alone(
    install: str | None, datastore: str | None, phrase: str | None
) -> None:
    assert values(reads({}, facts(install, datastore)).datastore()) == {
        "mode and datastore": phrase
    }


def remedies(install: str, *served: tuple[str, str]) -> Remedies:
    return Remedies(Objects({item: [] for item in served}), facts(install))  # type: ignore[arg-type]


def test_the_command_for_strict_affinity_is_one_that_this_cluster_knows() -> None:
    assert remedies("operator", (V3, "IPAMConfiguration")).strict_affinity() == (
        "kubectl patch ipamconfigurations.projectcalico.org default --type=merge "
        """-p '{"spec":{"strictAffinity":true}}'"""
    )
    assert (
        "ipamconfigs.crd.projectcalico.org"
        in remedies("manual", (CRD, "IPAMConfig")).strict_affinity()
    )
    assert remedies("manual").strict_affinity() == "calicoctl ipam configure --strictaffinity=true"


def test_what_the_operator_owns_is_mended_at_the_installation() -> None:
    assert "kubectl patch installation default" in remedies("operator").bgp_disabled()
    assert "kubectl patch installation default" in remedies("operator").encapsulation()
    assert "installation" not in remedies("manual").bgp_disabled()
    assert (
        remedies("manual", (V3, "IPPool"))
        .encapsulation()
        .startswith("kubectl patch ippools.projectcalico.org")
    )
    assert remedies("manual").encapsulation().startswith("calicoctl patch ippool")


@pytest.mark.parametrize(
    ("install", "kept"),
    [
        ("manifest", ""),
        ("agent", "HelmChartConfig rke2-calico"),
        ("platform", "AKS keeps the Installation"),
    ],
)
def test_an_operator_on_linux_alone_keeps_pools_and_bgp_all_the_same(
    install: str, kept: str
) -> None:
    found = remedies(install, ("operator.tigera.io/v1", "Installation"))
    for command in (found.bgp_disabled(), found.encapsulation()):
        assert command.startswith("kubectl patch installation default")
        assert kept in command


def test_disabled_pools_count_for_their_kind_while_they_have_blocks() -> None:
    pools = [
        an_object("a", cidr="10.1.0.0/16", vxlanMode="Always"),
        an_object("b", cidr="10.2.0.0/16", ipipMode="CrossSubnet", disabled=True),
        an_object("c", cidr="10.3.0.0/16", disabled=True),
        an_object("six", cidr="fd00::/64"),
    ]
    block = an_object("x", cidr="10.2.0.0/26")
    assert list(
        values(reads({(V3, "IPPool"): pools, (V3, "IPAMBlock"): [block]}).pool_kinds()).values()
    ) == [["IPIP", "VXLAN"]]
    assert list(
        values(reads({(V3, "IPPool"): pools, (V3, "IPAMBlock"): []}).pool_kinds()).values()
    ) == [["VXLAN"]]


def test_pools_for_pods_anywhere_have_no_selector() -> None:
    pools = [
        an_object("a", cidr="10.1.0.0/16", nodeSelector="all()"),
        an_object("b", cidr="10.2.0.0/16", nodeSelector="zone == 'b'"),
        an_object("c", cidr="10.3.0.0/16", namespaceSelector="team == 'c'"),
        an_object("d", cidr="10.4.0.0/16", allowedUses=["Tunnel"]),
    ]
    found = reads({(V3, "IPPool"): pools})
    assert values(found.pool_cidrs(anywhere=True)) == {"IPPool a": "10.1.0.0/16"}
    assert list(values(found.pool_cidrs())) == ["IPPool a", "IPPool b", "IPPool c"]
