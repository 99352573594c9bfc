# SPDX-License-Identifier: Apache-2.0
"""The effect that a foreign policy could have on a path: certain, possible, or none. A wrong
answer hides a defect or invents one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from conformance.policy.foreign import End, ForeignPolicy, Observed, Way
from conformance.policy.oracle import fields
from conformance.policy.oracle.policies import TIER, Direction, Tier
from conformance.policy.oracle.switches import PROMISE
from conformance.policy.oracle.world import NetworkSet, Pod
from conformance.policy.truth import Truth

RUN = {
    "calico-conformance/run": "ab12",
    "kubernetes.io/metadata.name": "demo",
    "projectcalico.org/name": "demo",
}


def pod(app: str, address: str, **known: Any) -> Pod:
    """A pod of which the service account alone is not known."""
    own = {"app": app}
    there: dict[str, Any] = {
        "namespace": "demo", "name": app, "address": fields.address(address), "os": "linux", "node": "n",
        "own": own, "labels": {**own, "projectcalico.org/namespace": "demo"}, "namespace_labels": RUN,
        "account": "", "account_labels": None, "ports": None,
    }  # fmt: skip
    return Pod(**there | known)


def end(app: str, address: str, columns: Any = (PROMISE,), **known: Any) -> End:
    member = pod(app, address, **known)
    return End(member=member, address=member.address, columns=columns)


SERVER, CLIENT = end("server", "192.168.1.7"), end("client", "192.168.2.9")
DENY, ALLOW, PASS, LOG = ({"action": action} for action in ("Deny", "Allow", "Pass", "Log"))
FROM_X = {"action": "Deny", "source": {"selector": "app == 'x'"}}
DNS = {"action": "Allow", "protocol": "UDP", "destination": {"ports": [53]}}


def allow_from(net: str) -> dict[str, Any]:
    return {"action": "Allow", "source": {"nets": [net]}}


def let_in(*peers: dict[str, Any]) -> dict[str, Any]:
    return {"podSelector": {}, "ingress": [{"from": list(peers)}]}


def way(
    direction: Direction = "ingress", protocol: str = "TCP", ports: tuple[int, ...] = (8080,)
) -> Way:
    end, other = (SERVER, CLIENT) if direction == "ingress" else (CLIENT, SERVER)
    return Way(direction=direction, end=end, other=other, protocol=protocol, ports=ports)


def policy(
    kind: str = "GlobalNetworkPolicy", *, passes: bool = False, later: bool = False, **spec: Any
) -> ForeignPolicy:
    api = {
        "NetworkPolicy": "networking.k8s.io/v1",
        "GlobalNetworkPolicy": "projectcalico.org/v3",
    }.get(kind, "policy.networking.k8s.io/v1alpha1")
    tier = (
        Tier(spec["tier"], 2e6 if later else 5.0, "Pass" if passes else "Deny")
        if "tier" in spec
        else TIER
    )
    return ForeignPolicy(
        kind=kind, name="one", namespace="demo" if kind == "NetworkPolicy" else "", api=api, uid="u", version="1",
        spec=spec, tier=tier,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "seen", "truth"),
    [
        ({"types": ["Ingress"], "ingress": [DENY]}, "closed", True),
        ({"types": ["Ingress"]}, "closed", True),  # the end of the tier
        ({"types": ["Egress"], "egress": [DENY]}, "closed", False),  # another direction
        ({"selector": "app == 'other'", "types": ["Ingress"]}, "closed", False),
        ({"selector": "app == 'server'", "types": ["Ingress"]}, "closed", True),
        ({"selector": "app ~ 'server'", "types": ["Ingress"]}, "closed", None),  # cannot be read: as one that selects
        ({"selector": "pcsa.team == 'web'", "types": ["Ingress"]}, "closed", None),  # accounts' labels are not read
        ({"namespaceSelector": "!has(calico-conformance/run)", "types": ["Ingress"]}, "closed", False),
        ({"types": ["Ingress"], "ingress": [ALLOW]}, "closed", False),
        ({"types": ["Ingress"], "ingress": [ALLOW]}, "open", True),
        ({"types": ["Ingress"], "ingress": [PASS]}, "open", True),  # leaves the suite's own in this tier out
        ({"types": ["Ingress"], "ingress": [DNS]}, "open", False),
        ({"types": ["Ingress"], "ingress": [DNS]}, "closed", True),
        ({"types": ["Ingress"], "ingress": [LOG, DENY]}, "closed", True),
        ({"types": ["Ingress"], "ingress": [FROM_X, ALLOW]}, "closed", False),
        ({"types": ["Ingress"], "ingress": [allow_from("192.168.2.0/24")]}, "closed", False),
        ({"types": ["Ingress"], "ingress": [allow_from("10.0.0.0/8")]}, "closed", True),
        ({"types": ["Ingress"], "ingress": [{"action": "Allow", "http": {"methods": ["GET"]}}]}, "closed", None),
        ({"types": ["Ingress"], "doNotTrack": True}, "closed", False),  # for hosts alone
        ({"serviceAccountSelector": "has(x)", "types": ["Ingress"]}, "closed", None),  # accounts are not read
    ],
)  # fmt: skip
def test_calicos(spec: dict[str, Any], seen: Observed, truth: Truth) -> None:
    assert policy(**spec).could(way(), seen) is truth


@pytest.mark.parametrize(
    ("source", "nets", "truth"),
    [
        ({"selector": "name == 'private'"}, ["192.168.0.0/16"], True),
        ({"selector": "name == 'private'"}, ["10.0.0.0/8"], False),
        ({"selector": "name == 'other'"}, ["192.168.0.0/16"], False),
        (
            {"selector": "name == 'private'", "namespaceSelector": "global()"},
            ["192.168.0.0/16"],
            True,
        ),
        ({"notSelector": "name == 'private'"}, ["192.168.0.0/16"], False),
        ({"notSelector": "name == 'private'"}, ["10.0.0.0/8"], True),
    ],
)
def test_a_rule_by_labels_may_choose_an_address_by_a_set_of_networks(
    source: dict[str, Any], nets: list[str], truth: Truth
) -> None:
    deny = policy(types=["Ingress"], ingress=[{"action": "Deny", "source": source}, ALLOW])
    private = NetworkSet(None, {"name": "private"}, {}, fields.nets(nets, "") or ())
    assert replace(deny, sets=(private,)).could(way(), "closed") is truth


def test_what_a_tier_passes_and_what_comes_after_default_open_and_close_nothing_by_default() -> (
    None
):
    early = policy(
        tier="security", passes=True, types=["Ingress", "Egress"], egress=[DNS], ingress=[LOG]
    )
    assert early.could(way(), "closed") is False
    assert early.could(way("egress"), "closed") is False
    assert early.could(way("egress"), "open") is False
    assert early.could(way("egress", "UDP", (53,)), "open") is True
    assert policy(tier="security", types=["Ingress"], ingress=[PASS]).could(way(), "open") is False
    assert (
        policy(tier="baseline", later=True, types=["Ingress"], ingress=[ALLOW]).could(way(), "open")
        is False
    )
    assert policy(tier="baseline", later=True, types=["Ingress"]).could(way(), "closed") is True


def test_what_allows_all_egress_opens_nothing_that_is_closed_at_the_servers_end() -> None:
    open_egress = policy(types=["Egress"], egress=[ALLOW])
    assert open_egress.could(way("ingress"), "open") is False
    assert open_egress.could(way("egress"), "open") is True


@pytest.mark.parametrize(
    ("spec", "direction", "closed", "opened"),
    [
        ({"podSelector": {}}, "ingress", True, False),
        ({"podSelector": {}}, "egress", False, False),
        ({"podSelector": {}, "policyTypes": ["Egress"]}, "egress", True, False),
        ({"podSelector": {"matchLabels": {"app": "x"}}}, "ingress", False, False),
        ({"podSelector": {}, "ingress": [{}]}, "ingress", False, True),
        (let_in({"podSelector": {"matchLabels": {"app": "client"}}}), "ingress", False, True),
        ({"podSelector": {}, "ingress": [{"ports": [{"port": 80}]}]}, "ingress", True, False),
        ({"podSelector": {}, "ingress": [{"ports": [{"port": 8000, "endPort": 9000}]}]}, "ingress", False, True),
        ({"podSelector": {}, "ingress": [{"ports": [{"port": "http"}]}]}, "ingress", None, None),
        (let_in({"ipBlock": {"cidr": "192.168.0.0/16", "except": ["192.168.2.0/24"]}}),
         "ingress", True, False),
    ],
)  # fmt: skip
def test_kubernetes(
    spec: dict[str, Any], direction: Direction, closed: Truth, opened: Truth
) -> None:
    one = policy("NetworkPolicy", **spec)
    assert (one.could(way(direction), "closed"), one.could(way(direction), "open")) == (
        closed,
        opened,
    )


def test_an_admin_policy_denies_only_what_a_rule_names() -> None:
    everybody: dict[str, Any] = {"namespaces": {}}
    deny = policy(
        "AdminNetworkPolicy", subject=everybody, ingress=[{"action": "Deny", "from": [everybody]}]
    )
    some = policy(
        "AdminNetworkPolicy", subject=everybody,
        ingress=[{"action": "Deny", "from": [everybody], "ports": [{"portNumber": {"protocol": "TCP", "port": 80}}]}],
    )  # fmt: skip
    exempt = policy(
        "ClusterNetworkPolicy", ingress=[{"action": "Deny", "from": [everybody]}],
        subject={"namespaces": {"matchExpressions": [{"key": "calico-conformance/run", "operator": "DoesNotExist"}]}},
    )  # fmt: skip
    accept = policy("ClusterNetworkPolicy", subject=everybody, ingress=[{"action": "Accept", "from": [everybody],
                    "protocols": [{"tcp": {"destinationPort": {"range": {"start": 8000, "end": 8100}}}}]}])  # fmt: skip
    assert [one.could(way(), "closed") for one in (deny, some, exempt, accept)] == [
        True,
        False,
        False,
        False,
    ]
    assert accept.could(way(), "open") is True
    assert deny.could(way("egress"), "closed") is False


def test_a_service_is_seen_with_its_port_and_its_backends() -> None:
    on_80 = policy(
        types=["Egress"],
        egress=[{"action": "Allow", "protocol": "TCP", "destination": {"ports": [80]}}],
    )
    assert on_80.could(way("egress", ports=(80, 8080)), "closed") is None
    assert on_80.could(way("egress", ports=(80,)), "closed") is False


def test_what_is_known_of_neither_end_may_be_closed() -> None:
    unknown = pod("", "0.0.0.0", own=None, labels=None, namespace_labels=None)
    nobody = Way(direction="ingress", end=End(member=unknown), other=End())
    assert policy(selector="app == 'server'", types=["Ingress"]).could(nobody, "closed") is None
    assert policy(types=["Ingress"]).could(nobody, "closed") is True
