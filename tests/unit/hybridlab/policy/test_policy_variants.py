# SPDX-License-Identifier: Apache-2.0
"""Variants of the cases in which Calico's policy code surprises: results that must hold for all
names of policies and for all orders of updates, and cases of our own whose answers follow from
Calico's code.

The sources of the answers are felix/dataplane/windows (flattener.go, policysets.go,
endpoint_mgr.go) and libcalico-go's conversion, at v3.31.7 and v3.32.1; the varied tables are those
of tests/golden/windows-policy.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from hybridlab.policy.flattener import FelixPanic
from hybridlab.policy.release import Release, as_shipped
from tests.golden.policy_objects import Objects, allowed_on_windows
from tests.golden.policy_packets import Packet
from tests.golden.policy_tables import answer
from tests.unit.hybridlab.policy.test_golden_tables import TABLES, cases, world

Case = dict[str, Any]
W1, W2, W3, L1, L2, L3 = (
    "10.65.1.10",
    "10.65.1.11",
    "10.65.1.12",
    "10.65.2.20",
    "10.65.2.21",
    "10.65.2.22",
)
LAN, EXT, OUTSIDE = "192.0.2.7", "198.51.100.7", "203.0.113.5"


def _shuffled(case: Case) -> None:
    random.Random(case["id"]).shuffle(case["objects"])


def _with_tiers_written(case: Case) -> None:
    for obj in case["objects"]:
        calicos = obj["apiVersion"].startswith("projectcalico.org") and obj["kind"].endswith(
            "NetworkPolicy"
        )
        if calicos and "Kubernetes" not in obj["kind"]:
            obj["spec"].setdefault("tier", "default")


def _told_through_storage(case: Case) -> None:
    for obj in case["objects"]:
        obj["apiVersion"] = obj["apiVersion"].replace(
            "projectcalico.org/v3", "crd.projectcalico.org/v1"
        )


@pytest.mark.parametrize("version", TABLES)
@pytest.mark.parametrize("said_otherwise", [_shuffled, _with_tiers_written, _told_through_storage])
def test_the_words_and_the_order_in_which_objects_are_told_change_nothing(
    version: Any, said_otherwise: Callable[[Case], None]
) -> None:
    different = []
    for case, given in cases(version)[::2]:
        variant = copy.deepcopy(case)
        said_otherwise(variant)
        if answer(variant, world()) != given:
            different.append(case["id"])
    assert different == []


def objects(
    text: str, *, version: str = "v3.31.7", shipped: bool = True, sets: bool = True
) -> Objects:
    """The tables' world with these policies: of ``alpha/w1`` on Windows and, were it on Linux, the same pod."""
    release = Release(version, as_shipped(version)) if shipped else Release(version)
    found = Objects(release, world().hosts)
    found.take(world().objects)
    found.take(world().network_sets if sets else ())
    found.take(yaml.safe_load_all(text))
    assert found.unread == []
    return found


def reach(
    found: Objects, *, port: int = 80, protocol: int = 6, direction: Any = "ingress"
) -> tuple[str, str]:
    """Letters of who gets through at alpha/w1 on Windows and on Linux: w2 w3 l1 l2 l3, the sets lan, ext, outside."""
    others = (W2, W3, L1, L2, L3, LAN, EXT, OUTSIDE)
    ends = [(other, W1) if direction == "ingress" else (W1, other) for other in others]
    packets = [
        Packet(direction, source, target, protocol, 40000, port, None) for source, target in ends
    ]
    pod = found.endpoints["alpha/w1"]
    windows = allowed_on_windows(found.windows(pod), packets)
    return _letters(windows), _letters(found.allowed_on_linux(pod, packets))


def _letters(allowed: list[bool]) -> str:
    return "".join("y" if item else "." for item in allowed)


def np(spec: str, name: str = "p", kind: str = "NetworkPolicy", tier: str = "") -> str:
    where = "" if kind.endswith("GlobalNetworkPolicy") else ", namespace: alpha"
    of_tier = f"tier: {tier}, " if tier else ""
    words = f"{{{of_tier}selector: app == 'web', {spec}}}"
    return f"---\n{{apiVersion: projectcalico.org/v3, kind: {kind}, metadata: {{name: {name}{where}}}, spec: {words}}}\n"


def knp(spec: str) -> str:
    return (
        "---\n{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: k, namespace: alpha}, "
        f"spec: {{podSelector: {{matchLabels: {{app: web}}}}, {spec}}}}}\n"
    )


def tier(name: str, order: int, end: str = "Deny") -> str:
    spec = f"{{order: {order}, defaultAction: {end}}}"
    return f"---\n{{apiVersion: projectcalico.org/v3, kind: Tier, metadata: {{name: {name}}}, spec: {spec}}}\n"


GNP = "GlobalNetworkPolicy"
FIRST = tier("first", 10)
PASS_8090 = np("types: [Ingress], ingress: [{action: Pass, protocol: TCP, destination: {ports: ['80:90']}}]",
               "first.p", tier="first")  # fmt: skip
REACH = [
    # --- Kubernetes selectors never match network sets, on either system
    ("k8s ns and pods", knp("ingress: [{from: [{namespaceSelector: {}, podSelector: {matchLabels: {app: db}}}]}]"),
     "y...y...", "y...y..."),
    ("k8s own namespace", knp("ingress: [{from: [{podSelector: {matchExpressions: [{key: app, operator: Exists}]}}]}]"),
     "y.y.....", "y.y....."),
    ("k8s other pods", knp("ingress: [{from: [{namespaceSelector: {matchExpressions: "
                           "[{key: team, operator: NotIn, values: [a]}]}}]}]"), ".y.yy...", ".y.yy..."),
    ("calico's own do", np("ingress: [{action: Allow, source: {selector: app == 'db'}}]"), "y....y..", "y....y.."),
    ("k8s except", knp("ingress: [{from: [{ipBlock: {cidr: 10.65.0.0/16, except: [10.65.2.0/24]}}]}]"),
     "........", "yy......"),
    # --- the end of the last tier denies on Windows, whatever passes there
    ("pass in the default tier", np("ingress: [{action: Pass}]"), "........", "yyyyyyyy"),
    ("pass of some", np("ingress: [{action: Pass, source: {selector: app == 'db'}}, {action: Deny}]"),
     "........", "y....y.."),
    ("a passing end, nothing behind", FIRST.replace("Deny", "Pass") + np("types: [Ingress]", "first.p", tier="first"),
     "yyyyyyyy", "yyyyyyyy"),
    ("a passing end, default tier for egress only", FIRST.replace("Deny", "Pass")
     + np("types: [Ingress]", "first.p", tier="first") + np("egress: [{action: Deny}]"), "yyyyyyyy", "yyyyyyyy"),
    # --- a notSelector beside something that selects is part of it; alone in a global policy it is skipped
    ("notSelector in a namespace", np("ingress: [{action: Allow, source: {notSelector: app == 'db'}}]"),
     "..y.....", "..y....."),
    ("notSelector with selector", np("ingress: [{action: Allow, source: {selector: has(app), "
                                     "notSelector: app == 'db'}}]", kind=GNP), ".yyy....", ".yyy...."),
    ("notSelector alone", np("ingress: [{action: Allow, source: {notSelector: app == 'db'}}]", kind=GNP),
     "........", ".yyy..yy"),
    ("a skipped Deny", np("ingress: [{action: Deny, source: {notSelector: app == 'db'}}, {action: Allow}]", kind=GNP),
     "yyyyyyyy", "y...yy.."),
    # --- a rule is about the IP versions alone that each of its lists has a network of
    ("notNets of IPv6", np("ingress: [{action: Allow, source: {notNets: ['2001:db8::/32']}}]"),
     "........", "........"),
    ("nets of IPv6", np("ingress: [{action: Allow, source: {nets: ['2001:db8::/32']}}]"), "........", "........"),
    ("nets of IPv4 written as IPv6",
     np("ingress: [{action: Allow, source: {nets: ['::ffff:10.65.1.0/120']}}]"),
     "yy......", "yy......"),
    ("nets of both", np("ingress: [{action: Allow, source: {nets: [10.65.1.0/24, '2001:db8::/32']}}]"),
     "yy......", "yy......"),
    # --- policies of other hooks are not at pods
    ("doNotTrack", np("applyOnForward: true, doNotTrack: true, ingress: [{action: Deny}]", kind=GNP),
     "yyyyyyyy", "yyyyyyyy"),
    ("preDNAT beside another", np("applyOnForward: true, preDNAT: true, ingress: [{action: Deny}]", "a", GNP)
     + np("ingress: [{action: Allow, source: {selector: app == 'db'}}]", "b"), "y....y..", "y....y.."),
    # --- staged policies: nothing on Linux; on Windows they end their tier with a denial
    ("staged alone", np("ingress: [{action: Allow}]", kind="StagedNetworkPolicy"), "........", "yyyyyyyy"),
    ("staged behind", np("order: 1, ingress: [{action: Allow}]", "a")
     + np("order: 2, ingress: [{action: Deny}]", "b", "StagedNetworkPolicy"), "yyyyyyyy", "yyyyyyyy"),
    ("staged deletion", np("stagedAction: Delete", kind="StagedNetworkPolicy"), "yyyyyyyy", "yyyyyyyy"),
    ("staged for egress", np("types: [Egress], egress: [{action: Deny}]", kind="StagedGlobalNetworkPolicy"),
     "yyyyyyyy", "yyyyyyyy"),
    # --- a Service's addresses, ready or not
    ("source services", np("ingress: [{action: Allow, source: {services: {name: web, namespace: alpha}}}]"),
     "...yy...", "...yy..."),
    # --- rules that HNS has no words for
    ("http", np("ingress: [{action: Allow, http: {methods: [GET]}}]"), "yyyyyyyy", "yyyyyyyy"),
    ("a named port beside a number", np("ingress: [{action: Allow, protocol: TCP, "
                                        "destination: {ports: [80, nosuch]}}]"), "........", "yyyyyyyy"),
    ("Log first", np("ingress: [{action: Log}, {action: Allow, source: {selector: app == 'db'}}]"),
     "y....y..", "y....y.."),
    # --- Pass with ports: without a port in common any port, with one that port
    ("pass of ports without the next tier's", FIRST + PASS_8090
     + np("ingress: [{action: Allow, protocol: TCP, destination: {ports: [443]}}]"), "yyyyyyyy", "........"),
    ("pass of ports with one of the next tier's", FIRST + PASS_8090
     + np("ingress: [{action: Allow, protocol: TCP, destination: {ports: [80, 443]}}]"), "yyyyyyyy", "yyyyyyyy"),
    ("pass of another protocol", FIRST + PASS_8090 + np("ingress: [{action: Allow, protocol: UDP}]"),
     "........", "........"),
    # --- namespaces and global sets
    ("no namespace at all", np("ingress: [{action: Allow, source: {namespaceSelector: global()}}]", kind=GNP),
     "......y.", "......y."),
    ("namespaces without a label", np("ingress: [{action: Allow, source: {namespaceSelector: '!has(team)'}}]",
                                      kind=GNP), "....y.y.", "....y.y."),
    ("every namespace", np("ingress: [{action: Allow, source: {namespaceSelector: all()}}]", kind=GNP),
     "yyyyyy..", "yyyyyy.."),
]  # fmt: skip


@pytest.mark.parametrize(
    ("policies", "windows", "linux"), [case[1:] for case in REACH], ids=[case[0] for case in REACH]
)
def test_who_gets_in_is_what_calicos_code_makes_of_it(
    policies: str, windows: str, linux: str
) -> None:
    assert reach(objects(policies)) == (windows, linux)


def test_without_its_defects_a_release_does_as_documented() -> None:
    staged = np("ingress: [{action: Deny}]", kind="StagedNetworkPolicy")
    assert reach(objects(staged, shipped=False)) == ("yyyyyyyy", "yyyyyyyy")
    allowed = np("ingress: [{action: Allow, protocol: TCP, destination: {ports: [443]}}]")
    assert reach(objects(FIRST + PASS_8090 + allowed, shipped=False)) == ("........", "........")


def test_felix_panics_where_both_tiers_end_with_the_same_port() -> None:
    allowed = np("ingress: [{action: Allow, protocol: TCP, destination: {ports: [8, 90]}}]")
    with pytest.raises(FelixPanic):
        reach(objects(FIRST + PASS_8090 + allowed))
    assert reach(objects(FIRST + PASS_8090 + allowed, shipped=False), port=90) == (
        "yyyyyyyy",
        "yyyyyyyy",
    )


@pytest.mark.parametrize("shipped", [True, False])
def test_a_rule_with_a_service_reaches_its_members_and_as_shipped_by_other_protocols_too(
    shipped: bool,
) -> None:
    services = "destination: {services: {name: web, namespace: alpha}}"
    found = objects(np(f"egress: [{{action: Allow, protocol: TCP, {services}}}]"), shipped=shipped)
    assert reach(found, direction="egress") == ("...yy...", "...yy...")
    by_udp = reach(found, direction="egress", port=53, protocol=17)
    assert by_udp == ("...yy..." if shipped else "........", "........")


@pytest.mark.parametrize("version", TABLES)
def test_of_the_same_order_names_decide(version: Any) -> None:
    """``alpha/default.a`` comes before ``alpha/knp.default.k`` up to v3.31, and ``a/...`` before ``k/...`` since."""
    both = np("order: 1000, ingress: [{action: Deny, source: {selector: app == 'db'}}]", "a") + knp(
        "ingress: [{}]"
    )
    assert reach(objects(both, version=version))[0] == ".yyyy.yy"


def test_of_the_same_order_a_later_name_decides_by_version() -> None:
    """``z`` is ``alpha/default.z`` up to v3.31, still before ``alpha/knp...``; from v3.32 on it comes after ``k``."""
    both = np("order: 1000, ingress: [{action: Deny, source: {selector: app == 'db'}}]", "z") + knp(
        "ingress: [{}]"
    )
    assert reach(objects(both, version="v3.31.7"))[0] == ".yyyy.yy"
    assert reach(objects(both, version="v3.32.1"))[0] == "yyyyyyyy"
