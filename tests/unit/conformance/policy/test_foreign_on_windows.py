# SPDX-License-Identifier: Apache-2.0
"""Foreign policies that Calico for Windows reads otherwise than promised: the results that each
could cause there, by release, and those that it could not."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from conformance.policy.foreign import ForeignPolicy, Observed, Way
from conformance.policy.oracle.policies import Direction, Tier
from conformance.policy.oracle.switches import columns
from conformance.policy.truth import Truth
from tests.unit.conformance.policy.test_foreign import CLIENT, SERVER, end

ON = {
    version: columns(version) for version in ("v3.28.2", "v3.29.1", "v3.31.2", "v3.32.1", "v3.40.0")
}
WINDOWS = ON["v3.31.2"]
ALL_BUT_METADATA = {"action": "Allow", "destination": {"notNets": ["169.254.169.254/32"]}}
EXCEPT = {"ipBlock": {"cidr": "0.0.0.0/0", "except": ["169.254.169.254/32"]}}


def of(
    kind: str, api: str = "projectcalico.org/v3", tier: Tier | None = None, **spec: Any
) -> ForeignPolicy:
    space = "" if "Global" in kind else "demo"
    one = ForeignPolicy(
        kind=kind, name="one", namespace=space, api=api, uid="u", version="1", spec=spec
    )
    return replace(one, tier=tier) if tier else one


def egress(*rules: dict[str, Any]) -> ForeignPolicy:
    return of("GlobalNetworkPolicy", types=["Egress"], egress=list(rules))


def ingress(*rules: dict[str, Any]) -> ForeignPolicy:
    return of("GlobalNetworkPolicy", types=["Ingress"], ingress=list(rules))


def kubernetes(**spec: Any) -> ForeignPolicy:
    return of("NetworkPolicy", "networking.k8s.io/v1", podSelector={}, **spec)


A1 = egress(ALL_BUT_METADATA)
A2 = kubernetes(policyTypes=["Egress"], egress=[{"to": [EXCEPT]}])
A3 = kubernetes(ingress=[{"ports": [{"port": "web"}, {"port": 8080}]}])
A4 = ingress({"action": "Allow", "protocol": "TCP", "destination": {"notPorts": [22]}})
A5 = of("StagedGlobalNetworkPolicy", types=["Ingress"], ingress=[{"action": "Allow"}])
A6 = ingress({"action": "Allow", "notProtocol": "SCTP"})
A7 = ingress({"action": "Pass"})
NOT_SELECTOR = ingress({"action": "Allow", "source": {"notSelector": "app == 'x'"}})
ICMP = ingress({"action": "Allow", "protocol": "ICMP", "icmp": {"type": 8}})
SKIPPED_DENY = ingress(
    {"action": "Deny", "source": {"notNets": ["10.0.0.0/8"]}}, {"action": "Allow"}
)


def way(
    direction: Direction, read_as: Any, protocol: str = "TCP", ports: tuple[int, ...] = (8080,)
) -> Way:
    here, other = (SERVER, CLIENT) if direction == "ingress" else (CLIENT, SERVER)
    return Way(
        direction=direction,
        end=replace(here, columns=read_as),
        other=other,
        protocol=protocol,
        ports=ports,
    )


@pytest.mark.parametrize(
    ("policy", "direction", "seen", "why"),
    [
        (A1, "egress", "closed", "it skips notNets, XPOL-1"),
        (A2, "egress", "closed", "it skips except, XPOL-1"),
        (A3, "ingress", "closed", "it skips named ports, XPOL-4"),
        (A4, "ingress", "closed", "it skips notPorts, XPOL-1"),
        (A6, "ingress", "closed", "it skips notProtocol, XPOL-1"),
        (A7, "ingress", "closed", "traffic that the last tier passes, .* is denied .*, XPOL-6"),
        (NOT_SELECTOR, "ingress", "closed", "it skips notSelector, XPOL-1"),
        (SKIPPED_DENY, "ingress", "open", "it skips notNets, XPOL-1"),
    ],
)
def test_what_windows_is_documented_to_read_otherwise(
    policy: ForeignPolicy, direction: Direction, seen: Observed, why: str
) -> None:
    there = way(direction, WINDOWS)
    assert policy.could(there, seen) is True
    verb = "deny" if seen == "closed" else "allow"
    told = policy.explained(there, seen)
    assert told.startswith(f"Windows reads this policy as {verb}: ")
    assert re.fullmatch(f".*: {why}", told), told
    on_linux = way(direction, (frozenset(),))
    assert policy.could(on_linux, seen) is False
    assert policy.explained(on_linux, seen) == ""


def test_named_ports_alone_are_read_where_the_pods_ports_are() -> None:
    there = end("server", "192.168.1.7", ports=frozenset({("web", 6, 8080)}))
    named = kubernetes(ingress=[{"ports": [{"port": "web"}]}])
    for port, closed in ((8080, False), (80, True)):
        asked = replace(way("ingress", (frozenset(),), ports=(port,)), end=there)
        assert named.could(asked, "closed") is closed
    assert named.could(
        replace(way("ingress", WINDOWS), end=replace(there, columns=WINDOWS)), "closed"
    )


@pytest.mark.parametrize(
    ("policy", "direction", "protocol"),
    [(A1, "ingress", "TCP"), (A2, "ingress", "TCP"), (A3, "egress", "TCP"), (A4, "egress", "TCP"),
     (A5, "egress", "TCP"), (A6, "egress", "UDP"), (A7, "egress", "TCP"), (ICMP, "egress", "ICMP")],
)  # fmt: skip
@pytest.mark.parametrize("seen", ["closed", "open"])
def test_what_they_cannot_give_there(
    policy: ForeignPolicy, direction: Direction, protocol: str, seen: Observed
) -> None:
    assert policy.could(way(direction, WINDOWS, protocol), seen) is False


@pytest.mark.parametrize("policy", [A1, A2, A3, A4, A5, A6, A7, NOT_SELECTOR, ICMP])
def test_none_of_them_opens_what_the_run_closes(policy: ForeignPolicy) -> None:
    for direction in ("ingress", "egress"):
        assert policy.could(way(direction, WINDOWS), "open") is False


def test_icmp_types_close_pings_and_what_no_rule_allows() -> None:
    assert ICMP.could(way("ingress", WINDOWS, "ICMP"), "closed") is True
    assert "it skips ICMP types, XPOL-3" in ICMP.explained(
        way("ingress", WINDOWS, "ICMP"), "closed"
    )
    assert ICMP.could(way("ingress", (frozenset(),), "ICMP"), "closed") is False
    assert ICMP.explained(way("ingress", WINDOWS, "TCP"), "closed") == "", (
        "it denies TCP as promised"
    )


@pytest.mark.parametrize(
    ("version", "closed"),
    [
        ("v3.28.2", False),
        ("v3.29.1", False),
        ("v3.31.2", None),
        ("v3.32.1", None),
        ("v3.40.0", None),
    ],
)
def test_a_staged_policy_may_deny_from_the_release_on_that_has_the_defect(
    version: str, closed: Truth
) -> None:
    there = way("ingress", ON[version])
    assert A5.could(there, "closed") is closed
    assert (A5.selects(there.end, "ingress") is False) == (closed is False)
    if closed is None:
        assert A5.explained(there, "closed").endswith("of its tier (from v3.30 on), XPOL-14")
    assert A5.could(way("ingress", (frozenset(),)), "closed") is False


@pytest.mark.parametrize("kind", ["StagedNetworkPolicy", "StagedKubernetesNetworkPolicy"])
def test_each_staged_kind_may_deny(kind: str) -> None:
    spec: dict[str, Any] = {"podSelector": {}} if "Kubernetes" in kind else {"types": ["Ingress"]}
    assert of(kind, **spec).could(way("ingress", WINDOWS), "closed") is None
    passing = Tier("early", 5.0, "Pass")
    if "Kubernetes" not in kind:
        assert of(kind, tier=passing, **spec).could(way("ingress", WINDOWS), "closed") is False


def test_a_pass_with_ports_may_open_and_close_others_since_ports_are_combined_wrongly() -> None:
    passing = {"action": "Pass", "protocol": "TCP", "destination": {"ports": [443]}}
    early = Tier("early", 5.0, "Pass")
    one = of("GlobalNetworkPolicy", tier=early, types=["Ingress"], ingress=[passing])
    for seen in ("closed", "open"):
        assert one.could(way("ingress", ON["v3.28.2"]), seen) is False
        assert one.could(way("ingress", WINDOWS), seen) is None
        assert one.could(way("ingress", WINDOWS, "UDP"), seen) is False
        assert "XPOL-6" in one.explained(way("ingress", WINDOWS), seen)


def test_a_pass_of_all_ports_has_none_that_are_combined_wrongly() -> None:
    match = {"action": "Pass", "protocol": "TCP", "destination": {"ports": [443, "1:65535"]}}
    early = Tier("early", 5.0, "Pass")
    one = of("GlobalNetworkPolicy", tier=early, types=["Ingress"], ingress=[match])
    for seen in ("closed", "open"):
        assert one.could(way("ingress", WINDOWS), seen) is False


def test_of_an_unknown_release_the_newest_that_was_read_counts() -> None:
    assert columns(None) == columns("v3.32.0") == columns("master")
    assert A5.could(way("ingress", columns(None)), "closed") is None


def test_a_field_that_nobody_knows_may_decide_anything_that_the_policy_decides() -> None:
    new = ingress({"action": "Deny", "source": {"fqdn": ["x"]}}, {"action": "Allow"})
    assert new.could(way("ingress", WINDOWS), "closed") is None
    assert new.could(way("egress", WINDOWS), "closed") is False
    unknown = of("GlobalNetworkPolicy", types=["Ingress"], pods="all")
    assert unknown.could(way("ingress", WINDOWS), "closed") is None
    elsewhere = replace(unknown, kind="NetworkPolicy", namespace="other")
    assert elsewhere.could(way("ingress", WINDOWS), "closed") is False
    broken = of("GlobalNetworkPolicy", types="Ingress")
    assert broken.could(way("ingress", WINDOWS), "closed") is None


ACCOUNT = "app == 'x'"


@pytest.mark.parametrize(
    ("accounts", "known", "closed"),
    [
        ({"names": ["default"]}, True, False),
        ({"names": ["other"]}, True, True),
        ({"selector": "role == 'web'"}, True, False),
        ({"selector": "role == 'db'"}, True, True),
        ({"selector": "role == 'web'"}, False, None),
        ({"names": ["other"], "selector": "role == 'web'"}, False, True),
    ],
)
def test_service_accounts_are_read_against_those_that_exist(
    accounts: dict[str, Any], *, known: bool, closed: Truth
) -> None:
    allow = ingress({"action": "Allow", "source": {"serviceAccounts": accounts}})
    labels = {"role": "web"} if known else None
    client = end("client", "192.168.2.9", account="default", account_labels=labels)
    asked = replace(way("ingress", WINDOWS), other=client)
    assert allow.could(asked, "closed") is closed
