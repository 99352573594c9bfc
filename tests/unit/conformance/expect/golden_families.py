# SPDX-License-Identifier: Apache-2.0
"""One failure of each family, raised by the real expectations over scripts, for tests of the whole
messages.

``python -m tests.unit.conformance.expect.golden_families`` writes golden_families.txt again; read
the difference.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from ipaddress import IPv4Network
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from conformance.disrupt.felix import Felix
from conformance.errors import EnvironmentBroken, Nonconformance, SuiteError
from conformance.expect.case import Case, Paths
from conformance.expect.context import Context
from conformance.expect.figures import PolicyChange
from conformance.expect.subjects.backends import Backends
from conformance.expect.subjects.overlay import Overlay
from conformance.expect.subjects.pages import Pages
from conformance.expect.subjects.readings import Readings
from conformance.expect.subjects.witnesses import AclLists
from conformance.expect.traffic import Expect
from conformance.facts.networks import vxlan_entries
from conformance.facts.networks.vxlan_entries import Peer
from conformance.model.attempt import Attempt, Kind
from conformance.model.endpoint import Addressing, Target, Workload
from conformance.model.facts import Fact
from conformance.model.host import (
    FdbEntry,
    HnsNetwork,
    LinuxFacts,
    Neighbour,
    RemoteSubnet,
    RouteEntry,
)
from conformance.model.observation import Observation, Verdict
from conformance.pods.groups import PodPairs
from conformance.pods.starting import verdict_on
from tests.unit.conformance.builders import a_pod, a_workload, an_expect
from tests.unit.conformance.expect import stream_stand_ins as streams
from tests.unit.conformance.expect import test_resolution as dns
from tests.unit.conformance.expect.stand_in_world import StandInWorld
from tests.unit.conformance.expect.stand_ins import (
    BYSTANDER,
    Answer,
    Clock,
    ScriptedProber,
    observation,
)
from tests.unit.conformance.expect.subjects import (
    test_acl_lists,
    test_fragments,
    test_ping,
    test_pod_startup,
    test_sizes,
)
from tests.unit.conformance.expect.subjects import test_overlay as overlay
from tests.unit.conformance.expect.subjects import test_readings as ipam
from tests.unit.conformance.expect.subjects import test_service_source as source

WALL_CLOCK = re.compile(r"\d{8,}\.\d+")
"""Matches times of the stand-ins' streams, whose clock begins in 1970."""
TEXTS = Path(__file__).with_suffix(".txt")
UP, DROPPED, REFUSED = Verdict.CONNECTED, Verdict.TIMED_OUT, Verdict.REFUSED
FRIEND, STRANGER = a_workload("friend"), a_workload("stranger", node="linux-2")
SERVER = a_workload(
    "server", "windows", address="192.168.9.9", node="windows-2", node_address="10.0.0.14"
)
SECOND = replace(SERVER, pod="second", uid="uid-second", node="windows-1", address="192.168.8.8")
SERVICE = Target(
    host="10.96.0.7", port=80, protocol="tcp", path=Addressing.CLUSTER_IP, backends=(SERVER,), name="Service web",
    backend_port=8080,
)  # fmt: skip
POLICY = "NetworkPolicy ns/allow-friend (projectcalico.org/v3), applied 31 s ago"
FELIX = (
    "node windows-2: calico-node-windows-x ready, 0 restarts; newest warning: 12 s ago, HNS is busy"
)


def expecting(claim: str, answers: dict[str, list[Answer]], **world: Any) -> Expect:
    prober = ScriptedProber(answers)
    return an_expect(prober, claim, world=StandInWorld(**world))


# --- policy -----------------------------------------------------------------------------------------------------------


def denied(claim: str, target: Target, *script: Answer, lag: bool = False) -> None:
    """Expect that a client is denied that was admitted before."""
    change = PolicyChange(what="apply it", at=0.0, enforced_at="target")
    under: dict[str, Any] = {"policies": lambda: [POLICY], "change": lambda: change}
    if lag:
        under["felix"] = lambda nodes, seconds, unwell_only: [FELIX]
    expect = expecting(claim, {"friend": [UP], "stranger": [UP]}, **under)
    expect.control([FRIEND, STRANGER], target, because="no policy is in force yet")
    assert isinstance(expect.prober, ScriptedProber)
    expect.prober.rounds = 0
    expect.prober.answers["stranger"] = list(script)
    beside = [(FRIEND, target), (STRANGER, BYSTANDER)]
    because = "its namespace lacks team=friend"
    expect.matrix(
        Paths(beside, open=True, because=because),
        Case(STRANGER, target, open=False, because=because),
    )


class Removable:
    """Policies whose removal has no effect."""

    def remove(self) -> None:
        pass


def still_in_force() -> None:
    """Expect that a path opens when its policy is removed, although it stays closed."""
    expect = expecting("DEMO-7", {"friend": [UP], "stranger": [UP]})
    target = SERVER.tcp(8080)
    expect.control([FRIEND, STRANGER], target, because="no policy is in force yet")
    assert isinstance(expect.prober, ScriptedProber)
    expect.prober.answers["stranger"] = [DROPPED]
    beside = [(FRIEND, target), (STRANGER, BYSTANDER)]
    because = "it is no friend"
    expect.matrix(
        Paths(beside, open=True, because=because),
        Case(STRANGER, target, open=False, because=because),
    )
    expect.removed(Removable(), because="without policies everybody may enter")


def reachable(
    claim: str, target: Target, *script: Answer, there: Sequence[str] = (), who: Workload = FRIEND
) -> None:
    expect = expecting(claim, {who.pod: list(script)}, policies_there=lambda pods: there)
    expect.reachable(who, target, because="no policy forbids it")


def only(closed: Target) -> Answer:
    """Return answers in which only this path is closed."""
    return lambda attempt, _: observation(attempt, DROPPED if attempt.target == closed else UP)


def by(pod: str) -> Answer:
    return lambda attempt, _: observation(
        attempt, UP, **({"served_by": pod} if attempt.kind is not Kind.TCP else {})
    )


# --- Services and names -----------------------------------------------------------------------------------------------


def backends(*answering: str, there: tuple[Workload, ...] = (SERVER, SECOND)) -> None:
    numbers = count()

    def answer(attempt: Attempt, _: int) -> Observation:
        return observation(attempt, UP, served_by=f"ns/{answering[next(numbers) % len(answering)]}")

    expect = expecting("CONN-4", {"friend": [answer]})
    Backends(expect).all_used(
        [FRIEND], replace(SERVICE, backends=there), because="kube-proxy follows EndpointSlices"
    )


def resolves(answer: Answer, to: Sequence[str] = (dns.ADDRESS,), **more: Any) -> None:
    expect = expecting("CONN-6", {"friend": [answer]}, dns=dns.Dns)
    expect.resolves(
        FRIEND, "web.demo.svc.cluster.local", to, because="DNS knows every Service", **more
    )


def resolved(*answers: str) -> Answer:
    return lambda attempt, _: replace(observation(attempt, Verdict.RESOLVED), answers=answers)


def unknown(attempt: Attempt, _: int) -> Observation:
    return observation(
        attempt, Verdict.NO_SUCH_NAME, detail="no A record for web.default.svc.cluster.local, web"
    )


def name_denied(attempt: Attempt, _: int) -> Observation:
    detail = "no AAAA record for web.demo.svc.cluster.local: NXDOMAIN"
    return replace(observation(attempt, Verdict.NO_SUCH_NAME, detail=detail), rcode="NXDOMAIN")


def one_dns_pod_is_silent(attempt: Attempt, number: int) -> Observation:
    direct = attempt.target.host if attempt.target else ""
    silent = direct == dns.SECOND.address or (not direct and number % 2 == 0)
    return dns.answered(attempt, 99.0 if silent else 0.003)


def silent_over_tcp(attempt: Attempt, _: int) -> Observation:
    return dns.answered(attempt, 99.0 if attempt.dns_over_tcp else 0.003)


# --- reading ----------------------------------------------------------------------------------------------------------


def read(claim: str, name: str, wanted: Any, found: Any, do: str) -> None:
    requires = Readings(Context(claims=(claim,)))
    fact = Fact(found, "BlockAffinities and IPAMBlocks (crd.projectcalico.org/v1)")
    requires.that(
        lambda _: {name: fact}, wanted, on=ipam.NODES[:1], because="the node has one network", do=do
    )


PEER = Peer(name="w9", os="windows", address="10.0.0.14", tunnel="192.168.1.2", mac="00:15:5d:00:00:14",
            blocks=(IPv4Network("192.168.1.0/26"),))  # fmt: skip
ROUTE = RouteEntry(
    destination="192.168.1.0/26",
    gateway="192.168.1.2",
    device="vxlan.calico",
    onlink=True,
    table=254,
)
MAC = Neighbour(device="vxlan.calico", address=PEER.tunnel, mac=PEER.mac)
NODE = LinuxFacts(node="linux-1", links=(), routes=(ROUTE,), fdb=(), neighbours=(MAC,))


def remote_subnet() -> dict[str, Fact[str]]:
    wrong = RemoteSubnet(prefix="192.168.1.0/26", provider="192.0.2.1", mac=PEER.mac, vni=4096)
    network = HnsNetwork(
        id="1", name="Calico", type="Overlay", remote_subnets=(wrong,), shows_policies=True
    )
    return vxlan_entries.remote_subnets("windows-1", [network], PEER, 4096)


def node_read(
    claim: str, facts: dict[str, Fact[Any]], wanted: Any = "as announced", on: Workload = FRIEND
) -> None:
    expect = expecting(claim, {})
    requires = Readings(expect.context, expect.timings, expect.clock)
    requires.that(
        lambda _: facts,
        wanted,
        on=[on],
        because="Felix lays what nodes announce",
        do="restart calico-node",
    )


def one(name: str, value: Any) -> dict[str, Fact[Any]]:
    return {name: Fact(value, f"the device: {value}")}


# --- streams, restarts and pods ---------------------------------------------------------------------------------------


def lost(found: Any, control: Any = streams.WELL) -> None:
    expected = streams.Expectations(streams.ScriptedStreams(found, control=control))
    policy = streams.Policy(expected)
    expected.begin(policy)
    policy.change()
    expected.survive_or_reconnect()


def old_rules_kept() -> None:
    expected = streams.Expectations(streams.ScriptedStreams(streams.WELL))
    lists = AclLists(expected.expect, expected.acls)
    expected.lists = [(test_acl_lists.RULE, test_acl_lists.END)]
    lists.remember(streams.WINDOWS)
    lists.replaced([streams.BACK], because="a policy that selects the pod has changed")


def nothing_applied() -> None:
    expected = streams.Expectations(streams.ScriptedStreams(streams.WELL))
    expected.begin(streams.Policy(expected, closes=False))


def felix_never_back() -> None:
    looping = {"name": "felix", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    status = {"containerStatuses": [looping]}
    name = "calico-node-windows-a"
    pod = a_pod(name, "windows-1", namespace="calico-system", ready=False, status=status)
    kube: Any = SimpleNamespace(objects=lambda *at, labels: [pod] if at[-1] == "calico-system" else [],
                                find=lambda *_: None)  # fmt: skip
    journal: Any = SimpleNamespace(procedure=lambda *_: 1, delete_owned_pod=lambda *_: None)
    patience: Any = SimpleNamespace(felix_restart=20.0, poll_every=1.0)
    felix = Felix(
        kube, journal, lambda _: "windows", lambda _: patience, clock=Clock(), claims=("RST-3",)
    )
    felix.restart("windows-1")


def pod_not_ready() -> None:
    creating = {"name": "main", "state": {"waiting": {"reason": "ContainerCreating"}}}
    status = {"phase": "Pending", "containerStatuses": [creating]}
    pod = a_pod("web-1", "windows-2", namespace="ns", ready=False, status=status)
    late = EnvironmentBroken("0 of 1 pods ready after 360 s: pod ns/web-1 (windows-2): not ready")
    event = {
        "reason": "FailedCreatePodSandBox",
        "message": 'plugin type="calico" failed (add): no address',
    }
    raise verdict_on(
        [pod], late, ["DEMO-1"], "Calico gives Windows pods a network", lambda _: [event]
    )


def restarted() -> None:
    expect = expecting("CONN-1", {"friend": [DROPPED]})
    assert isinstance(expect.prober, ScriptedProber)
    expect.prober.restarted = {"friend"}
    expect.reachable(FRIEND, SERVER.tcp(8080), because="no policy forbids it")


def new_pod() -> None:
    one, _ = test_pod_startup.startup([{8080: UP, 80: UP}])
    test_pod_startup.watch(one)


def first_action() -> None:
    one, _ = test_pod_startup.startup([{80: UP}], source="pod")
    one.sent_nothing(
        [test_pod_startup.NewPod()],
        SERVER.tcp(80),
        because="no packet leaves before policy is there",
    )


def own_node() -> None:
    one, _ = test_pod_startup.startup([{8080: DROPPED, 80: UP}])
    behind = test_pod_startup.NewPod(readiness=False)
    one.become_ready(
        test_pod_startup.CLIENT,
        [behind],
        beside=a_workload("beside").tcp(80),
        because="kubelets may enter",
    )


def ping() -> None:
    town = test_ping.Town({("windows", test_ping.SERVER.address): test_ping.LOST})
    town.beyond().ping(
        PodPairs([(test_ping.WINDOWS, test_ping.SERVER)]),
        because="ICMP passes within the cluster",
    )


def page() -> None:
    def other(attempt: Attempt, _: int) -> Observation:
        return replace(observation(attempt, UP), status=200, body=b"<h1>It works!</h1>")

    Pages(expecting("DEMO-9", {"friend": [other]})).show(
        FRIEND, [SERVER.tcp(80)], "Hello", because="it is the demo's"
    )


def two_ends(nodes: overlay.Nodes) -> None:
    prober = ScriptedProber(
        {"linux": [DROPPED], "inside": [UP], "node": [REFUSED], "far": [DROPPED]}
    )
    passes = Overlay(an_expect(prober, "VXLAN-4"), nodes).passes
    passes(*overlay.ROWS, node=overlay.NODE)


TCP, UDP = SERVER.tcp(8080), SERVER.udp(8080)
NODE_PORT = replace(
    SERVICE, path=Addressing.NODE_PORT, host="10.0.0.14", port=30080, name="NodePort of web"
)
NAMED = replace(SERVICE, path=Addressing.NAME, host="web.demo.svc.cluster.local")
OWN_SERVICE = replace(SERVICE, backends=(FRIEND,))
FAMILIES: dict[str, Callable[[], object]] = {
    "policy, TCP, not enforced": lambda: denied("POL-1", TCP, UP),
    "policy, UDP, not enforced": lambda: denied("POL-1", UDP, UP),
    "policy, another port than the rule's": lambda: denied("POL-1", SERVER.tcp(8081), UP),
    "policy, closed at last and open again": lambda: denied("POL-1", TCP, *[UP] * 3, *[DROPPED] * 16, UP),
    "policy, refused and not dropped": lambda: denied("POL-1", TCP, REFUSED),
    "policy, Felix lags": lambda: denied("POL-1", TCP, UP, lag=True),
    "policy, removed and still in force": still_in_force,
    "path closed": lambda: reachable("CONN-3", TCP, DROPPED),
    "path that wavers": lambda: reachable("CONN-3", TCP, UP, DROPPED, UP, UP, DROPPED, UP, DROPPED, DROPPED),
    "path refused": lambda: reachable("CONN-3", TCP, REFUSED),
    "who answered": lambda: reachable("CONN-4", SERVICE, by("ns/another-pod")),
    "own Service": lambda: reachable("XSVC-1", OWN_SERVICE, only(OWN_SERVICE)),
    "Service, its backend open": lambda: reachable("CONN-4", SERVICE, only(SERVICE)),
    "Service, its backend closed": lambda: reachable("CONN-4", SERVICE, DROPPED),
    "Service, a policy there": lambda: reachable("CONN-4", SERVICE, DROPPED, there=["NetworkPolicy ns/deny (v1)"]),
    "NodePort": lambda: reachable("CONN-5", NODE_PORT, only(NODE_PORT)),
    "two backends, one unused": lambda: backends("server"),
    "two backends, one gone": lambda: backends("server", "second", there=(SERVER,)),
    "two backends, one came": lambda: backends("second"),
    "DNS, headless": lambda: resolves(resolved("192.168.9.9"), ["192.168.8.8", "192.168.9.9"]),
    "DNS, AAAA": lambda: resolves(resolved("::ffff:10.96.0.7"), [], record="AAAA"),
    "DNS, AAAA denied": lambda: resolves(name_denied, [], record="AAAA"),
    "DNS, an extra address": lambda: resolves(resolved(dns.ADDRESS, "203.0.113.9")),
    "DNS, TCP": lambda: resolves(silent_over_tcp, over_tcp=True),
    "DNS, search list": lambda: resolves(unknown),
    "DNS, a silent pod": lambda: resolves(one_dns_pod_is_silent),
    "DNS, slow": lambda: resolves(lambda attempt, _: dns.answered(attempt, 3.1)),
    "DNS, too slow": lambda: resolves(lambda attempt, _: dns.answered(attempt, 7.0)),
    "DNS, no name to a server": lambda: reachable(
        "CONN-6", NAMED, lambda attempt, _: observation(attempt, Verdict.DNS_FAILED, detail=dns.SILENT)
    ),
    "IPAM, reserved address": lambda: read(
        "IPAM-3", "address of pod ns/a on node w1", "not reserved", "192.168.9.1, second address of block 192.168.9.0/26",
        "delete that pod; run calicoctl ipam check --show-problem-ips",
    ),
    "IPAM, borrowed address": lambda: read(
        "IPAM-8", "address of pod ns/a on node w1", "in a block of its node", "192.168.1.7, outside 192.168.9.0/26", "delete that pod"
    ),
    "IPAM, block gone": lambda: read("IPAM-6", "blocks of node w1", "one block", "no block", "start a pod on the node"),
    "VXLAN, no route": lambda: node_read("VXLAN-2", vxlan_entries.routes(replace(NODE, routes=()), PEER)),
    "VXLAN, no forwarding entry": lambda: node_read("VXLAN-2", vxlan_entries.forwarding(NODE, PEER)),
    "VXLAN, wrong forwarding entry": lambda: node_read("VXLAN-2", vxlan_entries.forwarding(
        replace(NODE, fdb=(FdbEntry(device="vxlan.calico", mac=PEER.mac, destination="192.0.2.1"),)), PEER)),
    "VXLAN, no neighbour": lambda: node_read("VXLAN-2", vxlan_entries.forwarding(replace(NODE, neighbours=()), PEER)),
    "VXLAN, wrong RemoteSubnetRoute": lambda: node_read("VXLAN-2", remote_subnet(), on=SECOND),
    "VXLAN, VNI": lambda: node_read("VXLAN-2", one("VNI of vxlan.calico on node linux-1", "4999, but the configured VNI is 4096"),
                                    "the configured VNI"),
    "VXLAN, port": lambda: node_read("VXLAN-3", one("UDP port of vxlan.calico on node linux-1", 4790), 4789),
    "VXLAN, VSID": lambda: node_read(
        "VXLAN-9", one("VSID of HNS network Calico on node windows-1", "4999, but the configured VNI is 4096"), "the configured VNI",
        SECOND,
    ),
    "VXLAN, UDP 4789": lambda: two_ends(overlay.WELL),
    "VXLAN, nodes not read": lambda: two_ends(overlay.Nodes(broken=True)),
    "VXLAN, a route explains it": lambda: two_ends(overlay.Nodes({("linux-1", "windows-1"): "no route"})),
    "fragments": lambda: test_fragments.Network([DROPPED]).judge(),
    "fragments, small ones too": lambda: test_fragments.Network([DROPPED], [DROPPED]).judge(),
    "big packets": lambda: test_sizes.sizes(test_sizes.Net(way=1350)).carries(
        [(test_sizes.LINUX, test_sizes.LINUX_SERVER)], because="the MTU leaves room for VXLAN"),
    "new pod": new_pod,
    "new pod, its first action": first_action,
    "own node": own_node,
    "Felix, nothing applied": nothing_applied,
    "Felix, old rules kept": old_rules_kept,
    "Felix, never back": felix_never_back,
    "no recovery": lambda: lost(streams.LOST),
    "control stream lost": lambda: lost(streams.BACK, streams.BACK),
    "ping": ping,
    "source address": lambda: source.limited(source.Town(by_service=source.NODE), source.ALONE),
    "page": page,
    "pod not ready": pod_not_ready,
    "pod restarted": restarted,
}  # fmt: skip


def text_of(family: str) -> str:
    """Return the failure's message in a family, with the kind of exception."""
    try:
        FAMILIES[family]()
    except (Nonconformance, SuiteError) as error:
        return WALL_CLOCK.sub("N", f"{type(error).__name__}\n{error}")
    raise ValueError(f"{family}: nothing was raised")


def written() -> dict[str, str]:
    """Map each family to its golden text."""
    parts = TEXTS.read_text(encoding="utf-8").split("=== ")[1:]
    return {
        head: text.rstrip("\n") for head, _, text in (part.partition(" ===\n") for part in parts)
    }


if __name__ == "__main__":
    TEXTS.write_text(
        "\n".join(f"=== {family} ===\n{text_of(family)}\n" for family in FAMILIES), encoding="utf-8"
    )
