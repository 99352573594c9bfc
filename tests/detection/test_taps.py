# SPDX-License-Identifier: Apache-2.0
"""In a small world, each tap changes its answers and no others. The rows show that the suite
notices these changes on a whole lab."""

from __future__ import annotations

import datetime
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hybridlab.dataplane.model import DirectRoute, NodeRoutes, TunnelRoute, Zone
from hybridlab.networks.contract.routing import BlockFacts, NodeEnd
from hybridlab.policy.policy import PolicyKey
from tests.detection.tapped_world import (
    OTHERS,
    OURS,
    SETS,
    SLICES,
    TIERS,
    World,
    calico,
    kubernetes,
    named,
)
from tests.detection.taps import others
from tests.detection.taps.clocks import ALL_BEHIND
from tests.detection.taps.seams import Put
from tests.detection.taps.table import PUTS
from tests.detection.taps.words import WAYS

FOLDER = Path(__file__).parent
NET, OTHER = "192.0.2.0/25", "192.0.2.128/25"
WEB = {"matchLabels": {"app": "web"}}
Answers = dict[str, Any]
CHANGES = {
    "written either-selector": {"rules of a peer with two selectors"},
    "written accounts-of-everybody": {"selector of a rule for service accounts"},
    "written accounts-of-nobody": {"selector of a rule for service accounts"},
    "written all-namespaces-the-own": {"selector of a rule for all namespaces"},
    "written all-pods-nobody": {"pods that an empty selector selects"},
    "written untracked-at-pods": {"an untracked policy is for pods"},
    "written on-forward-at-no-pods": {"selector of a policy on forwarded traffic"},
    "written of-namesakes": {"selectors of policies of the run"},
    "updates namespace-labels-stay": {"members by a new label of a namespace"},
    "updates namesakes-collide": {"policies beside a namesake"},
    "updates long-names-lost": {"policies of which one has a long name"},
    "updates kinds-collide": {"policies of which two kinds have one name"},
    "updates tiers-by-name": {"order of two tiers"},
    "updates edits-of-tiers-ignored": {"end of an edited tier"},
    "updates labels-of-sets-stay": {"members by new labels of a network set"},
    "updates edits-ignored": {"rules of an edited policy of Kubernetes"},
    "updates removals-take-all": {"policies of which one went"},
    "updates first-labels-stay": {"policies of a pod that got their label"},
    "negations-are-ignored": {"pods that negations match", "a policy of many words"},
    "missing-labels-equal-all": {"pods that another value matches", "a policy of many words"},
    "over-time policies-stay": {"policies left of a removed one"},
    "new-pods-are-no-members": {"members of which one is new"},
    "new-pods-are-members-whatever-their-labels": {"members beside a new pod without labels"},
    "over-time made-anew": {"policies of which one was made anew"},
    "over-time taken-labels": {
        "policies of a pod that a label was taken from",
        "policies of a pod that was left and selected again",
    },
    "over-time returned-members": {"members of which one left and returned"},
    "over-time selected-again": {"policies of a pod that was left and selected again"},
    "over-time other-apis-go": {"policies of both APIs of which one was edited"},
    "over-time other-apis-go-too": {"policies of both APIs of which one went"},
    "over-time last-of-several": {"endpoints held after an edit"},
    "over-time reversed-rules": {"protocols of edited rules"},
    "over-time ports-of-datagrams": {"ports of an edited rule for UDP"},
    "routes another-vni": {"VNI to one node"},
    "routes by-a-third-node": {"next hops of linux-1"},
    "routes learned-by-a-third-node": {"next hops of windows-2019", "routes learned"},
    "routes to-nobody": {"routes of linux-2"},
    "routes odd-names": {"routes learned"},
    "routes announced-of-another": {"networks announced"},
    "routes announced-of-nobody": {"networks announced"},
    "acl-lists look-unchanged": {"entries of two lists"},
    "acl-lists rules-once": {"entries of two lists"},
    "acl-lists reset-nobody": {"endpoints that are reset"},
    "slices ready-alone": {"addresses of a slice"},
    "clocks one-behind": {"renewal of windows-2022"},
    "clocks one-ahead": {"renewal of linux-1"},
    "block-sizes-can-be-changed": {"block size of an edited pool"},
    **{f"written {name}": {"a policy of many words"} for name in [*WAYS][7:]},
    "written last-rule-first": {"a policy of many words", "protocols of edited rules"},
    "written first-rule-only": {
        "a policy of many words",
        "protocols of edited rules",
        "ports of an edited rule for UDP",
    },
}
"""Tap to the answers that it changes."""
APART = {ALL_BEHIND, "slices unready-named"}
"""Taps that have a test of their own."""


def test_every_tap_is_tried() -> None:
    assert set(CHANGES) | APART == set(PUTS)


@pytest.fixture(scope="module")
def true() -> Answers:
    return answers(None)


def test_every_answer_is_changed_by_some_tap(true: Answers) -> None:
    assert set().union(*CHANGES.values()) == set(true)


@pytest.mark.parametrize("name", CHANGES)
def test_a_tap_changes_its_answers_and_no_others(name: str, true: Answers) -> None:
    tapped = answers(PUTS[name])
    assert {about for about, answer in true.items() if tapped[about] != answer} == CHANGES[name]


def answers(tap: Put | None) -> Answers:
    """Return what the lab's own code makes of small worlds with a tap."""
    return (
        _words(tap)
        | _many_words(tap)
        | _updates(tap)
        | _over_time(tap)
        | _routes(tap)
        | _windows(tap)
        | _api(tap)
    )


def _selector(world: World, name: str) -> str:
    (policy,) = world.read(name)
    return str(policy.selector)


def _words(tap: Put | None) -> Answers:
    world = World(tap)
    both = {"podSelector": WEB, "namespaceSelector": {"matchLabels": {"team": "a"}}}
    world.policy(kubernetes("two", {"matchLabels": {"a": "b"}}, [{"from": [both]}]))
    world.policy(
        calico("accounts", "has(x)", {"source": {"serviceAccounts": {"names": ["account"]}}})
    )
    world.policy(calico("all", "has(x)", {"source": {"namespaceSelector": "all()"}}))
    world.policy(kubernetes("empty", {}, []))
    world.policy(calico("untracked", "has(x)", namespace="", doNotTrack=True))
    world.policy(calico("forwarded", "has(xy)", namespace="", applyOnForward=True))
    world.policy(calico("others", "c not in {'b'}", namespace=""))
    world.policy(calico("negated", "!has(a)", namespace=""))
    (two,), (accounts,), (everywhere,) = map(world.read, ("two", "accounts", "all"))
    labels = {"projectcalico.org/namespace": OURS, "projectcalico.org/orchestrator": "k8s"}
    (empty,), (others,), (negated,) = map(world.read, ("empty", "others", "negated"))
    slice_ = named("slice", OURS, labels={"kubernetes.io/service-name": "service"})
    world.policy(
        calico("service", "has(x)", {"source": {"services": {"name": "service"}}}),
    )
    ends = [
        {"addresses": [address], "conditions": {"ready": address == "192.0.2.1"}}
        for address in ("192.0.2.1", "192.0.2.2")
    ]
    world.hear(SLICES, {**slice_, "endpoints": ends})
    return {
        "rules of a peer with two selectors": len(two.ingress),
        "selector of a rule for service accounts": str(accounts.ingress[0].source.selector),
        "selector of a rule for all namespaces": str(everywhere.ingress[0].source.selector),
        "pods that an empty selector selects": empty.selector.matches(labels),
        "an untracked policy is for pods": world.read("untracked")[0].at_workloads,
        "selector of a policy on forwarded traffic": _selector(world, "forwarded"),
        "selectors of policies of the run": [
            "projectcalico.org/namespace" in _selector(world, name) for name in ("accounts", "all")
        ],
        "pods that another value matches": others.selector.matches({"a": "b"}),
        "pods that negations match": [
            negated.selector.matches({"a": "b"}),
            others.selector.matches({"c": "b"}),
        ],
        "addresses of a slice": world.members(
            PolicyKey("service", OURS, "NetworkPolicy"), "linux-1"
        ),
    }


def _many_words(tap: Put | None) -> Answers:
    """Return all of two policies, in which each word stands that a tap takes for another."""
    world = World(tap)
    first = {
        "action": "Log",
        "protocol": 17,
        "source": {"selector": "y == 'a' || z contains 'b'", "nets": [NET, OTHER]},
    }
    then = {
        "action": "Pass",
        "protocol": "TCP",
        "source": {"selector": "y starts with 'a'", "ports": [1]},
    }
    both = [first, then, {"action": "Allow"}]
    world.policy(
        calico(
            "first",
            "has(x)",
            namespace="",
            order=3,
            serviceAccountSelector="has(may)",
            types=["Ingress", "Egress"],
            ingress=both,
            egress=both,
        )
    )
    texts = (
        "a == '1' || b == '2' && c == '3'",
        "!(a == '1' || b == '2')",
        "a == '1' && b == '2' && c == '3'",
        "has(z)",
        "z == ''",
        "a not in {'1', '2'}",
        "a in {'1'}",
        'a == "1"',
        "a in {" + ", ".join(f"'{number}'" for number in range(20)) + "}",
    )
    ends: list[dict[str, Any]] = [{"selector": text} for text in texts]
    ends += [
        {"nets": ["0.0.0.0/0"]},
        {"nets": [f"192.0.2.{number}/32" for number in range(0, 40, 2)]},
    ]
    rules: list[dict[str, Any]] = [{"action": "Allow", "source": end} for end in ends]
    rules += [
        {"action": "Allow", "protocol": protocol} for protocol in ("ICMP", "SCTP", *range(200, 210))
    ]
    ports = {"protocol": "TCP", "destination": {"ports": ["80:90", 95, *range(100, 140, 2)]}}
    rules += [{"action": "Allow", **ports}]
    world.policy(calico("edges", "has(x)", namespace="", order=0, tier="default", ingress=rules))
    read = [policy for name in ("first", "edges") for policy in world.read(name)]
    bare = [
        [policy.order, str(policy.selector)]
        + [str(replace(rule, written={})) for rule in (*policy.ingress, *policy.egress)]
        for policy in read
    ]
    return {"a policy of many words": bare}


def _updates(tap: Put | None) -> Answers:
    found: Answers = {}
    world = World(tap)
    peer = {"selector": "has(app)", "namespaceSelector": "team == 'a'"}
    world.policy(calico("members", "has(server)", {"source": peer}))
    world.pod("server", "linux-1", app="web")
    world.hear("namespaces", named(OURS, "", labels={"team": "a"}))
    members = PolicyKey("members", OURS, "NetworkPolicy")
    found["members by a new label of a namespace"] = world.members(members, "linux-1")

    world = World(tap)
    pod = world.pod("server", "linux-1", app="web")
    world.policy(kubernetes("p", WEB, []))
    world.policy(kubernetes("p", {"matchLabels": {"app": "other"}}, [], namespace=OTHERS))
    found["policies beside a namesake"] = world.keys(pod)

    world = World(tap)
    pod = world.pod("server", "linux-1", app="web")
    for wide in (False, True):
        world.policy(kubernetes("p", WEB, [{}] if wide else []))
    found["rules of an edited policy of Kubernetes"] = len(world.read("p")[0].ingress)

    world = World(tap)
    pod = world.pod("server", "linux-1", app="web")
    one, other = calico("one", "has(app)"), calico("other", "has(app)")
    for policy in (one, other):
        world.policy(policy)
    world.policy(one, gone=True)
    found["policies of which one went"] = world.keys(pod)

    world = World(tap)
    pod = world.pod("server", "linux-1", app="web")
    world.policy(calico("p", "has(app)"))
    world.policy(kubernetes("p", WEB, []))
    found["policies of which two kinds have one name"] = world.keys(pod)

    world = World(tap)
    pod = world.pod("server", "linux-1", app="web")
    for name in ("p" * 64, "q"):
        world.policy(calico(name, "has(app)"))
    found["policies of which one has a long name"] = world.keys(pod)

    world = World(tap)
    pod = world.pod("server", "linux-1", app="web")
    for name, order in (("one", 2), ("two", 1)):
        tier = f"{OURS}-{name}"
        world.policy(calico(name, "has(app)", tier=tier))
        world.hear(TIERS, {**named(tier, ""), "spec": {"order": order}})
    tiers = world.graph.tiers_for(world.graph.keys_for(pod))
    found["order of two tiers"] = [tier.name for tier in tiers]

    world = World(tap)
    pod = world.pod("server", "linux-1", app="web")
    world.policy(calico("p", "has(app)", tier="t"))
    for end in ("Deny", "Pass"):
        world.hear(TIERS, {**named("t", ""), "spec": {"defaultAction": end, "order": 1}})
    (one_tier,) = world.graph.tiers_for(world.graph.keys_for(pod))
    found["end of an edited tier"] = one_tier.end

    world = World(tap)
    world.policy(calico("members", "has(server)", {"source": {"selector": "role == 'set'"}}))
    for role in ("other", "set"):
        world.hear(SETS, {**named("s", OURS, labels={"role": role}), "spec": {"nets": [NET]}})
    found["members by new labels of a network set"] = world.members(members, "linux-1")

    world = World(tap)
    world.policy(calico("p", "has(late)"))
    pod = world.pod("server", "linux-2", app="web")
    world.keys(pod)
    world.pod("server", "linux-2", app="web", late="")
    found["policies of a pod that got their label"] = world.keys(pod)
    return found


def _over_time(tap: Put | None) -> Answers:
    """Return what linux-2, and linux-3 where new pods count, make of what they had before."""
    found: Answers = {}
    world = World(tap)
    pod = world.pod("server", "linux-2", app="web")
    anew = calico("anew", "has(app)")
    for gone in (False, True, False):
        world.policy(anew, gone=gone)
        found["policies of which one was made anew"] = world.keys(pod)

    world = World(tap)
    world.policy(calico("taken", "has(app)"))
    for labels in ({"app": "web", "more": ""}, {"app": "web"}):
        pod = world.pod("server", "linux-2", **labels)
        found["policies of a pod that a label was taken from"] = world.keys(pod)

    world = World(tap)
    world.policy(calico("again", "has(more)"))
    world.policy(calico("members", "has(app)", {"source": {"selector": "has(more)"}}))
    members = PolicyKey("members", OURS, "NetworkPolicy")
    for labels in ({"more": ""}, {"other": ""}, {"more": ""}):
        pod = world.pod("again", "linux-2", **labels)
        found["policies of a pod that was left and selected again"] = world.keys(pod)
        found["members of which one left and returned"] = world.members(members, "linux-2")

    world = World(tap)
    world.policy(calico("members", "has(app)", {"source": {"selector": "has(more)"}}))
    world.pod("old", "linux-1", more="")
    world.members(members, "linux-3")
    world.pod("new", "linux-1", more="")
    found["members of which one is new"] = world.members(members, "linux-3")
    world.pod("bare", "linux-1")
    bare = world.members(members, "linux-1")
    found["members beside a new pod without labels"] = len(bare)

    world = World(tap)
    for name in ("first", "twin"):
        pod = world.pod(name, "linux-2", app="web")
    world.policy(calico("several", "has(app)"))
    world.policy(kubernetes("k", WEB, []))
    before = [world.keys(pod)]
    world.policy(calico("several", "has(app)", {}))
    faults = world.felixes["linux-2"].faults
    found["endpoints held after an edit"] = faults.held((), ("x", pod))
    found["policies of both APIs of which one was edited"] = [*before, world.keys(pod)]

    world = World(tap)
    pod = world.pod("server", "linux-2", app="web")
    goes = calico("g", "has(app)", namespace="")
    world.policy(kubernetes("k", WEB, [], namespace=OURS))
    world.policy(calico("c", "has(app)"))
    world.policy(goes)
    world.keys(pod)
    world.policy(goes, gone=True)
    found["policies of both APIs of which one went"] = world.keys(pod)

    world = World(tap)
    pod = world.pod("server", "linux-2", app="web")
    for port in (1, 2):
        udp = {"protocol": "UDP", "destination": {"ports": [port]}}
        edited = calico("edited", "has(app)", {"protocol": "TCP"}, udp)
        world.policy(edited)
        (tier,) = faults_of(world).policies(world.graph.tiers_for(world.graph.keys_for(pod)))
    rules = tier.policies[0].ingress
    found["protocols of edited rules"] = [rule.protocol for rule in rules]
    found["ports of an edited rule for UDP"] = [
        rule.destination.ports for rule in rules if rule.protocol == "udp"
    ]
    world.policy(edited, gone=True)
    found["policies left of a removed one"] = faults_of(world).policies(())
    return found


def faults_of(world: World) -> Any:
    """Return what can be wrong with the Felix of linux-2."""
    return world.felixes["linux-2"].faults


def _routes(tap: Put | None) -> Answers:
    world = World(tap)
    facts = world.typha.routing
    direct = []
    for name, machine in world.lab.calico.nodes.items():
        cidr = f"192.168.{machine.address.rpartition('.')[2]}.0/26"
        facts.ends[name] = NodeEnd(address=machine.address)
        facts.blocks[cidr] = BlockFacts(cidr=cidr, node=name)
        direct.append(DirectRoute(cidr=cidr, via=machine.address, protocol=12))
    block = TunnelRoute(
        cidr="192.168.1.0/26",
        node_address="10.0.0.14",
        tunnel_address="192.168.1.2",
        tunnel_mac="aa",
    )
    routes = NodeRoutes(own_blocks=(), remote_blocks=(block,), direct=tuple(direct))

    def laid(node: str) -> NodeRoutes:
        made: NodeRoutes = world.felixes[node].faults.routes(routes)
        return made

    rows = [{"DestinationNetwork": route.cidr, "NextHop": route.via} for route in direct]
    answer = world.lab.host_answers
    return {
        "VNI to one node": laid("windows-2019").remote_blocks[0].identifier,
        "next hops of linux-1": [route.via for route in laid("linux-1").direct],
        "next hops of windows-2019": [route.via for route in laid("windows-2019").direct],
        "routes of linux-2": [route.cidr for route in laid("linux-2").direct],
        "routes learned": answer(rows, "windows-2019", "get-bgprouteinformation"),
        "networks announced": answer([{"Network": [NET]}], "windows-2019", "get-bgpcustomroute"),
    }


def _windows(tap: Put | None) -> Answers:
    faults = World(tap).felixes["windows-2022"].faults
    lists = {
        end: (
            {"Id": "host", "LocalAddresses": "192.168.1.7"},
            {"Id": "policy-a-0", "LocalAddresses": "192.168.1.7"},
        )
        for end in ("one", "two")
    }
    return {
        "entries of two lists": {
            end: tuple(entries) for end, entries in faults.acls(lists).items()
        },
        "endpoints that are reset": faults.resets(("new", "old"), ("new", "old"), ("old",)),
    }


def _api(tap: Put | None) -> Answers:
    admission = World(tap).lab.interference.admission

    def renewed(node: str) -> str:
        lease = {**named(node, ""), "spec": {"renewTime": "2026-01-01T00:02:00.000000Z"}}
        text: str = admission(lease, "leases", None)["spec"]["renewTime"]
        return text

    old, new = ({**named("p", ""), "spec": {"blockSize": size}} for size in (26, 25))
    return {
        "renewal of windows-2022": renewed("windows-2022"),
        "renewal of linux-1": renewed("linux-1"),
        "block size of an edited pool": admission(new, "ippools", old)["spec"]["blockSize"],
    }


def test_pods_that_are_not_ready_are_named_behind_headless_services_alone() -> None:
    ends = [{"addresses": ["192.0.2.2"], "conditions": {"ready": False}}]
    zone = Zone(domain="c", a={"own.n.svc.c": ("10.96.0.1",)}, ptr={"10.96.0.1": "own.n.svc.c"})
    slices = [
        {**named(name, "n", labels={"kubernetes.io/service-name": name}), "endpoints": ends}
        for name in ("own", "headless")
    ]
    made = others.zone_with(zone, slices)
    assert made.a == zone.a | {
        "headless.n.svc.c": ("192.0.2.2",),
        "192-0-2-2.headless.n.svc.c": ("192.0.2.2",),
    }
    assert made.ptr == zone.ptr | {"192.0.2.2": "192-0-2-2.headless.n.svc.c"}


def test_a_lab_whose_clocks_are_behind_writes_times_of_two_minutes_ago() -> None:
    program = (
        "from tests.detection.taps import clocks; clocks.all_behind()\n"
        "from hybridlab.controllers import times; import time\n"
        "print(times.micro_timestamp(), time.time())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=FOLDER.parents[1],
        env={"PYTHONPATH": "lib"},
        capture_output=True,
        text=True,
        check=True,
    )
    written, clock = done.stdout.split()
    told = datetime.datetime.fromisoformat(written).timestamp()
    assert told == pytest.approx(float(clock), abs=60)
    assert time.time() - told == pytest.approx(120, abs=60)
