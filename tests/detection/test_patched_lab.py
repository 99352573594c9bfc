"""Each patch of the lab's own code takes effect, and on nothing else that is looked at here.

A patch is applied for good, so that each is applied in a process of its own.  What it changes is one answer of a small
world; that the suite sees it on a whole lab is for the rows.
"""

from __future__ import annotations

import multiprocessing
import time
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest
from tests.detection.misread_words import WORDS
from tests.detection.patched_lab import PATCHES

from hybridlab.api.kinds.calico import PoolStrategy
from hybridlab.calico import typha
from hybridlab.calico.acl_lists import AclLists
from hybridlab.calico.felix_faults import FelixFaults
from hybridlab.calico.felix_policy import NodePolicy
from hybridlab.calico.felix_windows_policy import WindowsNodePolicy
from hybridlab.controllers import dns, times
from hybridlab.controllers.nodes import Nodes
from hybridlab.dataplane.model import Acl, NodeRoutes, TunnelRoute
from hybridlab.networks.contract.routing import BlockFacts, RoutingFacts
from hybridlab.networks.l2bridge.bgp import end_of
from hybridlab.networks.l2bridge.plane import L2Bridge
from hybridlab.networks.l2bridge.remote_access import RemoteAccess
from hybridlab.policy.ipsets import NetworkSet, SelectorSet
from hybridlab.policy.kubernetes_policy import from_kubernetes
from hybridlab.policy.policy import Policy, Ports, from_calico
from hybridlab.policy.release import Release
from hybridlab.policy.render import TierPolicies
from hybridlab.policy.resolve import Graph, PodFacts, TierFacts
from hybridlab.policy.selectors import parse
from hybridlab.profiles.load import load
from hybridlab.profiles.machines import machines

CHANGES = {
    "written either-selector": "rules of a peer with two selectors",
    "written accounts-of-everybody": "whom a rule for service accounts admits",
    "written accounts-of-nobody": "whom a rule for service accounts admits",
    "written all-namespaces-the-own": "whom a rule for all namespaces admits",
    "written all-pods-nobody": "whether an empty selector selects a pod",
    "written untracked-at-pods": "whether an untracked policy is for pods",
    "written on-forward-at-no-pods": "whether a policy on forwarded traffic selects a pod",
    "written of-namesakes": "whether a policy selects a namesake",
    **{f"written {name}": "what a global policy of many words says" for name in WORDS},
    "updates namespace-labels-stay": "whom a namespace's new label makes a member",
    "updates namesakes-collide": "policies of a pod when another namespace has one of its name",
    "updates long-names-lost": "policies of a pod of which one has a long name",
    "updates kinds-collide": "policies of a pod of which two kinds have one name",
    "updates tiers-by-name": "which of two tiers is the first",
    "updates edits-of-tiers-ignored": "what an edited tier ends with",
    "updates labels-of-sets-stay": "whom an edited network set's labels make members",
    "updates edits-ignored": "rules of an edited policy",
    "updates removals-take-all": "policies of a pod when one of two is removed",
    "acl-lists look-unchanged": "entries that HNS shows",
    "acl-lists reset-nobody": "endpoints whose connections another ACL list ends",
    "acl-lists rules-once": "rules of one policy at two endpoints",
    "negations-are-ignored": "what a negation matches",
    "missing-labels-equal-all": "whether another value matches what has none",
    "updates first-labels-stay": "policies of a pod that got their label",
    "over-time policies-stay": "what is left of a removed policy",
    "new-pods-are-no-members": "whom a node knows of a selector's new members",
    "new-pods-are-members-whatever-their-labels": "whom a selector has that does not select a new pod",
    "over-time made-anew": "policies of a pod once one was made anew",
    "over-time taken-labels": "policies of a pod that a label was taken from",
    "over-time returned-members": "members of a set that one has left and joined",
    "over-time selected-again": "policies of a pod that was left and selected again",
    "over-time other-apis-go": "policies of a pod of which one was edited",
    "over-time last-of-several": "pods of a node that hear of an edit",
    "over-time other-apis-go-too": "policies of a pod of which one went",
    "over-time reversed-rules": "protocols of an edited policy's rules",
    "over-time ports-of-datagrams": "ports of an edited rule for UDP",
    "routes another-vni": "the VNI to one node",
    "routes by-a-third-node": "the way of linux-1 to windows-2022",
    "routes learned-by-a-third-node": "the way of windows-2019 to linux-1",
    "routes to-nobody": "networks that linux-2 has routes to",
    "routes announced-of-another": "networks that windows-2019 announces",
    "routes announced-of-nobody": "networks that windows-2019 announces",
    "slices ready-alone": "addresses of a slice of which one is not ready",
    "slices unready-named": "addresses of a headless name of which one is not ready",
    "clocks one-behind": "when kubelets renew their leases",
    "clocks one-ahead": "when kubelets renew their leases",
    "clocks all-behind": "minutes by which timestamps are behind",
    "block-sizes-can-be-changed": "what speaks against another blockSize",
}
"""Patch to the answer that it changes."""
AT_MOST = 12
NET, OTHER = "192.0.2.0/25", "192.0.2.128/25"
OURS, OTHERS = "calico-demo-a", "calico-demo-b"
Answers = dict[str, Any]


def test_patches_are_few_and_each_has_an_answer_that_it_changes() -> None:
    assert len({name.split()[0] for name in PATCHES}) <= AT_MOST, (
        "a way to be wrong is a fault of the lab where it can be"
    )
    assert set(CHANGES) == set(PATCHES)
    assert set(CHANGES.values()) == set(answers())


@pytest.mark.parametrize("patch", PATCHES)
def test_a_patch_changes_its_answer_and_no_other(patch: str) -> None:
    with multiprocessing.get_context("fork").Pool(1) as process:
        patched = process.apply(_answers_with, [patch])
    sound = answers()
    assert {name for name, answer in sound.items() if patched[name] != answer} == {CHANGES[patch]}


def _answers_with(patch: str) -> Answers:
    PATCHES[patch]()
    return answers()


def answers() -> Answers:
    """What the lab's own code makes of a small world."""
    of_policies = _of_written() | _of_words() | _of_updates() | _of_nodes() | _over_time()
    return of_policies | _of_clocks() | _of_pools() | _of_bgp()


def _over_time() -> Answers:
    """What a node makes of what it had before."""
    felix, there = FelixFaults("linux-2", lambda *_: None), calico("anew", "has(app)")
    anew, taken = World(there), World()
    felix.keys_for(anew.graph, "server")
    anew.graph.remove_policy(there.key)
    felix.keys_for(anew.graph, "server")
    anew.graph.set_policy(there)
    taken.graph.set_policy(calico("taken", "has(app)"))
    for labels in ({"app": "web", "more": ""}, {"app": "web"}):
        taken.graph.set_pod(replace(taken.server, labels=labels))
    again = World(
        calico("again", "has(more)"),
        calico("members", "has(app)", {"source": {"selector": "has(more)"}}),
    )
    (name,) = again.graph.sets_of(calico("members", "has(app)").key)
    for labels in ({"app": "web", "more": ""}, {"app": "web"}, {"app": "web", "more": ""}):
        again.graph.set_pod(replace(again.server, uid="again", labels=labels))
        policies_again, members = (
            felix.keys_for(again.graph, "again"),
            felix.members(again.graph, name),
        )
    several = World(calico("several", "has(app)"))
    several.graph.set_pod(replace(several.server, uid="twin", name="t", address="192.168.0.9"))
    node = NodePolicy("linux-2", several.graph, felix, lambda: None)
    several.graph.subscribe("linux-2", node)
    node.difference()
    several.graph.set_policy(calico("several", "has(app)", {}))
    two = World(kubernetes("k", {"matchLabels": {"app": "web"}}, []), calico("c", "has(app)")).graph
    two.subscribe("linux-2", NodePolicy("linux-2", two, felix, lambda: None))
    two.set_policy(calico("c", "has(app)", {}))
    spec = {"selector": "has(app)", "types": ["Ingress"]}
    gone = from_calico({"kind": "GlobalNetworkPolicy", "metadata": {"name": "g"}, "spec": spec})
    assert gone is not None
    both = World(kubernetes("k", {"matchLabels": {"app": "web"}}, []), gone)
    both.graph.remove_policy(gone.key)
    one = calico("edited", "has(app)", {})
    tcp, udp = (replace(one.ingress[0], protocol=protocol) for protocol in ("tcp", "udp"))
    for port in (1, 2):
        ports = replace(udp.destination, ports=Ports(ranges=((port, port),)))
        edited = replace(one, ingress=(tcp, replace(udp, destination=ports)))
        (read,) = felix.read((TierPolicies("default", "deny", (edited,)),))
    rules = read.policies[0].ingress
    return {
        "policies of a pod once one was made anew": sorted(felix.keys_for(anew.graph, "server")),
        "policies of a pod that a label was taken from": sorted(
            felix.keys_for(taken.graph, "server")
        ),
        "members of a set that one has left and joined": members,
        "policies of a pod that was left and selected again": sorted(policies_again),
        "policies of a pod of which one was edited": sorted(felix.keys_for(two, "server")),
        "policies of a pod of which one went": sorted(felix.keys_for(both.graph, "server")),
        "pods of a node that hear of an edit": sorted(node._due.endpoints),
        "protocols of an edited policy's rules": [rule.protocol for rule in rules],
        "ports of an edited rule for UDP": [
            rule.destination.ports for rule in rules if rule.protocol == "udp"
        ],
    }


def _of_bgp() -> Answers:
    """What nodes of a BGP cluster learn and announce; the third octet of a block is the last of its node's address."""
    plane = L2Bridge(load("bgp"))
    addresses = {machine.name: machine.address for machine in machines(plane.profile)}
    facts = RoutingFacts(ends={name: end_of(address, {}) for name, address in addresses.items()})
    for name, address in addresses.items():
        cidr = f"192.168.{address.rpartition('.')[2]}.0/26"
        facts.blocks[cidr] = BlockFacts(cidr=cidr, node=name)
        for program in ("calico-node", "confd"):
            plane.ran(name, program, now=True)
    windows = next(machine for machine in machines(plane.profile) if machine.name == "windows-2019")
    (own,), (other,) = facts.own_blocks("linux-1"), facts.own_blocks("windows-2022")
    learned = RemoteAccess(plane.bgp, windows, facts).tables()["get-bgprouteinformation"]()
    laid = {
        name: plane.program(name, facts, {}, None).routes.direct
        for name in ("linux-1", "linux-2", "windows-2019")
    }
    return {
        "the way of linux-1 to windows-2022": [
            route.via for route in laid["linux-1"] if route.cidr == other
        ],
        "the way of windows-2019 to linux-1": [
            *(route.via for route in laid["windows-2019"] if route.cidr == own),
            *(row["NextHop"] for row in learned if row["DestinationNetwork"] == own),
        ],
        "networks that linux-2 has routes to": [route.cidr for route in laid["linux-2"]],
        "networks that windows-2019 announces": plane.bgp.announced("windows-2019", facts),
    }


def _of_pools() -> Answers:
    old = {"metadata": {"name": "p"}, "spec": {"cidr": "198.18.0.0/24", "blockSize": 26}}
    new = {"metadata": {"name": "p"}, "spec": {"cidr": "198.18.0.0/24", "blockSize": 25}}
    strategy = PoolStrategy(lambda text: "", store=None)  # type: ignore[arg-type]  # which other pools there are
    for obj in (old, new):
        strategy.default(obj)
    return {"what speaks against another blockSize": len(list(strategy.validate(new, old)))}


def _of_clocks() -> Answers:
    now = time.clock_gettime(time.CLOCK_REALTIME)
    told = [times.seconds_of(text) for text in (times.timestamp(), times.micro_timestamp())]
    leases: Any = SimpleNamespace(patch=lambda resource, name, change: change)
    caches: Any = SimpleNamespace(of=lambda kind: SimpleNamespace(subscribe=lambda hear: None))
    nodes = Nodes(leases, caches, [], None, dict, stalls=None)  # type: ignore[arg-type]
    renewed = {"spec": {"renewTime": "2026-01-01T00:02:00.000000Z"}}
    return {
        "minutes by which timestamps are behind": [round((now - one) / 60) for one in told],
        "when kubelets renew their leases": [
            nodes._client.patch("leases", name, renewed)
            for name in ("linux-1", "windows-2022", "windows-2019")
        ],
    }


def _of_written() -> Answers:
    both = {
        "podSelector": {"matchLabels": {"app": "web"}},
        "namespaceSelector": {"matchLabels": {"team": "a"}},
    }
    account = {"source": {"serviceAccounts": {"names": ["sa"]}}}
    everywhere = {"source": {"namespaceSelector": "all()"}}
    twin = {"app": "web", "projectcalico.org/namespace": OTHERS}
    pod = {"projectcalico.org/namespace": OURS, "projectcalico.org/orchestrator": "k8s"}
    spec = {
        "selector": "all()",
        "doNotTrack": True,
        "applyOnForward": True,
        "ingress": [{"action": "Deny"}],
    }
    forwarded = {key: value for key, value in spec.items() if key != "doNotTrack"}
    untracked = from_calico(
        {"kind": "GlobalNetworkPolicy", "metadata": {"name": "p"}, "spec": spec}
    )
    on_forward = from_calico(
        {"kind": "GlobalNetworkPolicy", "metadata": {"name": "p"}, "spec": forwarded}
    )
    assert untracked is not None
    assert on_forward is not None
    ready, not_yet = (
        {"addresses": [address], "conditions": {"ready": address == "a"}} for address in "ab"
    )
    slice_ = {"endpoints": [ready, not_yet]}
    return {
        "rules of a peer with two selectors": len(kubernetes("p", {}, [{"from": [both]}]).ingress),
        "whom a rule for service accounts admits": str(
            calico("p", "has(x)", account).ingress[0].source.selector
        ),
        "whom a rule for all namespaces admits": str(
            calico("p", "has(x)", everywhere).ingress[0].source.selector
        ),
        "whether an empty selector selects a pod": kubernetes("p", {}, []).selector.matches(pod),
        "whether a policy selects a namesake": calico("p", "app == 'web'").selector.matches(twin),
        "whether an untracked policy is for pods": untracked.at_workloads,
        "whether a policy on forwarded traffic selects a pod": on_forward.selector.matches(pod),
        "addresses of a slice of which one is not ready": vars(typha)["slice_members"](slice_)[0],
        "addresses of a headless name of which one is not ready": [
            ip for ip, *_ in vars(dns)["_headless"]([slice_])
        ],
        "whether another value matches what has none": parse("c not in {'b'}").matches({"a": "b"}),
        "what a negation matches": [
            parse(text).matches({"a": "b"}) for text in ("a not in {'b'}", "!has(a)")
        ],
    }


def _of_words() -> Answers:
    """All of two policies, in which each word stands that a patch takes for another."""
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
    spec = {
        "order": 3,
        "selector": "has(x)",
        "serviceAccountSelector": "has(may)",
        "types": ["Ingress", "Egress"],
    }
    given = {
        "kind": "GlobalNetworkPolicy",
        "metadata": {"name": "p"},
        "spec": {**spec, "ingress": both, "egress": both},
    }
    ends = [
        *({"selector": text} for text in (
            "a == '1' || b == '2' && c == '3'", "!(a == '1' || b == '2')", "a == '1' && b == '2' && c == '3'",
            "has(z)", "z == ''", "a not in {'1', '2'}", "a in {'1'}", 'a == "1"',
        )),
        {"nets": ["0.0.0.0/0"]}, {"nets": [f"192.0.2.{number}/32" for number in range(0, 40, 2)]},
        {"selector": "a in {" + ", ".join(f"'{number}'" for number in range(20)) + "}"},
    ]  # fmt: skip
    ports = {"protocol": "TCP", "destination": {"ports": ["80:90", 95, *range(100, 140, 2)]}}
    rules = [{"action": "Allow", "source": end} for end in ends]
    rules += [
        {"action": "Allow", "protocol": protocol} for protocol in ("ICMP", "SCTP", *range(200, 210))
    ]
    edges = {
        "order": 0,
        "tier": "default",
        "selector": "has(x)",
        "ingress": [*rules, {"action": "Allow", **ports}],
    }
    told = []
    for one in (given, {**given, "spec": edges}):
        read = from_calico(one)
        assert read is not None
        bare = [
            [replace(rule, written={}) for rule in listed] for listed in (read.ingress, read.egress)
        ]
        told += [read.order, str(read.selector), *map(str, bare)]
    return {"what a global policy of many words says": told}


def _of_updates() -> Answers:
    told: Answers = {}
    rule = calico(
        "members",
        "has(server)",
        {"source": {"selector": "has(app)", "namespaceSelector": "team == 'a'"}},
    )
    named = rule.ingress[0].source.selector
    assert named is not None
    graph = World(rule).graph
    graph.set_namespace(OURS, {"team": "a"})
    told["whom a namespace's new label makes a member"] = graph.members(SelectorSet(named).name)

    web = {"matchLabels": {"app": "web"}}
    graph = World(kubernetes("p", web, [])).graph
    graph.set_policy(kubernetes("p", {"matchLabels": {"app": "other"}}, [], namespace=OTHERS))
    told["policies of a pod when another namespace has one of its name"] = sorted(
        graph.keys_for("server")
    )

    graph = World(kubernetes("p", web, [])).graph
    graph.set_policy(kubernetes("p", web, [{}]))
    (tier,) = graph.tiers_for(graph.keys_for("server"))
    told["rules of an edited policy"] = len(tier.policies[0].ingress)

    one, other = calico("one", "has(app)"), calico("other", "has(app)")
    graph = World(one, other).graph
    graph.remove_policy(one.key)
    told["policies of a pod when one of two is removed"] = sorted(graph.keys_for("server"))

    graph = World(calico("p", "has(app)"), kubernetes("p", web, [])).graph
    told["policies of a pod of which two kinds have one name"] = sorted(graph.keys_for("server"))

    graph = World(calico("p" * 64, "has(app)"), calico("q", "has(app)")).graph
    told["policies of a pod of which one has a long name"] = sorted(graph.keys_for("server"))

    graph = World(
        *(replace(calico(name, "has(app)"), tier=f"{OURS}-{name}") for name in ("one", "two"))
    ).graph
    for name, order in (("one", 2), ("two", 1)):
        graph.set_tier(f"{OURS}-{name}", TierFacts(name=f"{OURS}-{name}", order=order))
    told["which of two tiers is the first"] = [
        tier.name for tier in graph.tiers_for(graph.keys_for("server"))
    ]
    graph.set_tier("t", TierFacts(name="t", end="deny"))
    graph.set_tier("t", TierFacts(name="t", end="pass"))
    told["what an edited tier ends with"] = graph._tiers["t"].end

    rule = calico("members", "has(server)", {"source": {"selector": "role == 'set'"}})
    assert rule.ingress[0].source.selector is not None
    graph = World(rule).graph
    for role in ("other", "set"):
        graph.set_network_set(
            "s", NetworkSet(name="s", namespace=OURS, labels={"role": role}, nets=(NET,))
        )
    told["whom an edited network set's labels make members"] = graph.members(
        SelectorSet(rule.ingress[0].source.selector).name
    )

    world = World(calico("p", "has(late)"))
    world.graph.set_pod(replace(world.server, labels={"app": "web", "late": ""}))
    told["policies of a pod that got their label"] = sorted(world.graph.keys_for("server"))
    return told


def _of_nodes() -> Answers:
    graph = World(calico("p", "has(app)")).graph
    tiers = graph.tiers_for(graph.keys_for("server"))
    felix = FelixFaults("linux-2", lambda *_: None)
    felix.read(tiers)

    rule = calico("members", "has(app)", {"source": {"selector": "has(app)"}})
    assert rule.ingress[0].source.selector is not None
    world, name = World(rule), SelectorSet(rule.ingress[0].source.selector).name
    other = FelixFaults("linux-3", lambda *_: None)
    other.members(world.graph, name)
    world.graph.set_pod(replace(world.server, uid="new", address="192.168.0.9"))
    selected = other.members(world.graph, name)
    world.graph.set_pod(replace(world.server, uid="bare", address="192.168.0.10", labels={}))

    there = World(calico("p", "has(app)"))
    there.graph.set_pod(replace(there.server, node="windows-2022"))
    windows = WindowsNodePolicy(
        "windows-2022", tuple, there.graph, Release("v3.31.2"), AclLists("v3.31.2"), felix, lambda: None, felix.log
    )  # fmt: skip
    there.graph.subscribe("windows-2022", windows)
    windows.endpoint_due("server")
    windows.difference()
    there.graph.set_policy(calico("q", "has(app)", {"source": {"nets": [NET]}}))
    another = windows.difference()
    assert another is not None

    lists = AclLists("v3.31.2")
    lists.created("endpoint")
    acl = Acl(action="Allow", direction="In", priority=1000, id="a")
    lists.replaced({"endpoint": (acl, replace(acl, id="b"))}, ())
    lists.give({"endpoint": (acl, replace(acl, id="b"))})
    of_both = AclLists("v3.31.2")
    both = {name: (Acl(action="Allow", direction="In", priority=1000, id="policy-a-0", local=("192.168.1.7/32",)),)
            for name in ("one", "two")}  # fmt: skip
    of_both.replaced(both, ())
    of_both.give(both)
    block = TunnelRoute(
        cidr="192.168.1.0/26",
        node_address="10.0.0.14",
        tunnel_address="192.168.1.2",
        tunnel_mac="aa",
    )
    return {
        "what is left of a removed policy": felix.read(()),
        "whom a node knows of a selector's new members": selected,
        "whom a selector has that does not select a new pod": "192.168.0.10"
        in world.graph.members(name),
        "endpoints whose connections another ACL list ends": another.update.reset,
        "entries that HNS shows": len(lists.shown()["endpoint"]),
        "rules of one policy at two endpoints": [
            (name, entry["LocalAddresses"])
            for name, entries in of_both.shown().items()
            for entry in entries
        ],
        "the VNI to one node": felix.laid(NodeRoutes(own_blocks=(), remote_blocks=(block,)))
        .remote_blocks[0]
        .identifier,
    }


@dataclass
class World:
    """A pod on linux-2 under some policies, and a graph that knows them."""

    graph: Graph
    server: PodFacts

    def __init__(self, *policies: Policy) -> None:
        self.graph = Graph(Release("v3.31.2"))
        for namespace in (OURS, OTHERS):
            self.graph.set_namespace(namespace, {})
        labels = {"app": "web"}
        self.server = PodFacts(
            uid="server", namespace=OURS, name="s", node="linux-2", address="192.168.0.8", labels=labels,
            service_account="default",
        )  # fmt: skip
        self.graph.set_pod(self.server)
        for policy in policies:
            self.graph.set_policy(policy)


def kubernetes(
    name: str, pods: dict[str, Any], ingress: list[Any], *, namespace: str = OURS
) -> Policy:
    spec = {"podSelector": pods, "policyTypes": ["Ingress"], "ingress": ingress}
    obj = {
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }
    policy = from_kubernetes(obj)
    assert policy is not None
    return policy


def calico(name: str, selector: str, *ingress: dict[str, Any]) -> Policy:
    spec = {
        "selector": selector,
        "types": ["Ingress"],
        "ingress": [{"action": "Allow", **rule} for rule in ingress],
    }
    policy = from_calico(
        {"kind": "NetworkPolicy", "metadata": {"name": name, "namespace": OURS}, "spec": spec}
    )
    assert policy is not None
    return policy
