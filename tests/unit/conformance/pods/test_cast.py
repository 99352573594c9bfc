"""Pods are deployed once, when first asked for, on the nodes that their paths need; trouble stays with who asks."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, Literal

import pytest

from conformance.errors import EnvironmentBroken, EnvironmentLacks, Nonconformance
from conformance.model.endpoint import Path, Workload
from conformance.model.facts import Fact, Facts, NodeFacts
from conformance.pods.cast import DEMO, Cast
from conformance.pods.deploy import Wish
from conformance.pods.placement import Placement
from conformance.pods.roles import ROLES
from conformance.pods.services import Services, cluster_domain


def node(name: str, os: Literal["linux", "windows"]) -> NodeFacts:
    return NodeFacts(
        name=name, os=os, address=f"10.0.0.{len(name)}", ready=True, schedulable=True, control_plane=False,
        kernel_version="", os_image="", container_runtime="",
    )  # fmt: skip


def cluster(*nodes: NodeFacts) -> Facts:
    unknown: Any = Fact(None, "-")
    return Facts(
        nodes=nodes, kubernetes_version=unknown, calico_version=unknown, mode=unknown, datastore=unknown,
        install=unknown, platform=unknown, calico_apis=unknown, cni=unknown, kube_proxy_mode=unknown,
        windows_dsr=unknown, evidence="lab",
    )  # fmt: skip


FOUR = cluster(node("l1", "linux"), node("l2", "linux"), node("w1", "windows"), node("w2", "windows"))


@dataclass
class Deployer:
    """Makes workloads of wishes, and breaks where it is told to."""

    broken: dict[str, Exception] = field(default_factory=dict)
    pods: list[dict[str, Any]] = field(default_factory=list)
    namespace: str = "demo"
    host_namespace: str = "demo-host"
    wishes: list[Wish] = field(default_factory=list)
    prepared: list[tuple[str, Any]] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    lock: Any = field(default_factory=threading.Lock)

    @property
    def kube(self) -> Any:
        return SimpleNamespace(objects=lambda *_, **__: self.pods)

    def prepare(self, namespace: str, labels: Any = None, *, privileged: bool = False) -> None:
        self.prepared.append((namespace, labels or privileged))

    def as_they_are(self, *names: str) -> None:
        """Let the API server show these pods as they were deployed."""
        self.pods = [
            {
                "metadata": {"name": f"{name}-abc", "namespace": "demo", "uid": f"/{name}"},
                "spec": {}, "status": {"phase": "Running", "podIP": "192.168.0.5"},
            }
            for name in names
        ]  # fmt: skip

    def again(self, wish: Wish, why: str) -> Workload:
        if "again" in self.broken:
            raise EnvironmentBroken(f"{why}, and no other is ready: ImagePullBackOff")
        self.reasons.append(why)
        return replace(self.deploy([wish])[wish.called], uid=f"new/{wish.called}")

    def deploy(self, wishes: list[Wish]) -> dict[str, Workload]:
        (wish,) = wishes
        with self.lock:
            self.wishes.append(wish)
        if wish.called in self.broken:
            raise self.broken[wish.called]
        role = ROLES[wish.role]
        return {
            wish.called: Workload(
                namespace=wish.namespace or self.namespace, pod=f"{wish.called}-abc", container="agent",
                uid=f"{wish.namespace}/{wish.called}", role=wish.role, os=role.os, node=wish.node.name,
                address="192.168.0.5", node_address=wish.node.address,
            )
        }  # fmt: skip


def cast(deployer: Deployer, facts: Facts = FOUR) -> Cast:
    return Cast(deployer, Placement(facts))  # type: ignore[arg-type]


def test_each_pod_is_deployed_once_however_often_it_is_asked_for() -> None:
    deployer = Deployer()
    pods = cast(deployer)
    first, again = pods.of("linux-peer"), pods.of("linux-peer")
    assert first == again
    assert [wish.called for wish in deployer.wishes] == ["linux-peer"]


def test_the_demos_pods_are_started_together_and_no_others() -> None:
    deployer = Deployer()
    pods = cast(deployer)
    pods.client("linux")
    pods.close()
    assert sorted(wish.called for wish in deployer.wishes) == sorted(DEMO)


@pytest.mark.parametrize(
    ("client", "server", "same", "nodes"),
    [
        ("linux", "linux", False, ("l1", "l2")),
        ("linux", "linux", True, ("l1", "l1")),
        ("linux", "windows", False, ("l1", "w1")),
        ("windows", "linux", False, ("w1", "l1")),
        ("windows", "windows", False, ("w1", "w2")),
        ("windows", "windows", True, ("w1", "w1")),
    ],
)
def test_a_pair_is_where_its_path_begins_and_ends(client: Any, server: Any, same: bool, nodes: tuple[str, str]) -> None:
    source, target = cast(Deployer()).pair(client, server, same_node=same)
    assert (source.os, target.os) == (client, server)
    assert (source.node, target.node) == nodes


def test_a_cluster_that_is_too_small_for_a_path_lacks_something() -> None:
    small = cluster(node("l1", "linux"), node("w1", "windows"))
    with pytest.raises(EnvironmentLacks, match="needs 2 usable Windows nodes, found 1"):
        cast(Deployer(), small).pair("windows", "windows")
    assert [pod.node for pod in cast(Deployer(), small).on_each_node("windows")] == ["w1"]


def test_there_is_one_pod_on_every_node() -> None:
    facts = cluster(*(node(f"w{number}", "windows") for number in range(1, 5)))
    found = cast(Deployer(), facts).on_each_node("windows")
    assert [pod.node for pod in found] == ["w1", "w2", "w3", "w4"]


def test_pods_elsewhere_have_the_same_label_in_another_labelled_namespace() -> None:
    deployer = Deployer()
    pods = cast(deployer)
    here, there = pods.of("linux-client", "elsewhere/linux-client")
    assert (here.namespace, there.namespace) == ("demo", "demo-elsewhere")
    assert pods.name_of(there) == "linux-client"
    assert ("demo-elsewhere", {"conformance/team": "elsewhere"}) in deployer.prepared


def test_a_pod_without_a_network_yet_holds_up_who_uses_it_and_not_who_only_starts_it() -> None:
    def never(client: Workload) -> None:
        raise EnvironmentBroken(f"{client.role} was asked")

    pods = Cast(Deployer(), Placement(FOUR), never)  # type: ignore[arg-type]
    assert pods.start("linux-client", because="x")[0].role == "linux-client"
    assert pods.server("linux").role == "linux-server"
    with pytest.raises(EnvironmentBroken, match="linux-client was asked"):
        pods.client("linux")


def test_a_pod_that_cannot_be_deployed_troubles_only_those_who_ask_for_it() -> None:
    deployer = Deployer(broken={"windows-server": EnvironmentBroken("no image")})
    pods = cast(deployer)
    assert pods.server("linux").role == "linux-server"
    for _ in range(2):
        with pytest.raises(EnvironmentBroken, match="no image"):
            pods.server("windows")
    pods.close()
    assert [wish.called for wish in deployer.wishes].count("windows-server") == 1


def pod(reason: str = "", where: str = "w1") -> dict[str, Any]:
    waiting = {"state": {"waiting": {"reason": reason}}} if reason else {"state": {"running": {}}}
    return {
        "metadata": {"name": "windows-server-abc", "namespace": "demo"},
        "spec": {"nodeName": where},
        "status": {"containerStatuses": [waiting]},
    }


def test_a_pod_with_node_and_image_that_does_not_become_ready_violates_a_claim_about_starting() -> None:
    broken: dict[str, Exception] = {"windows-server": EnvironmentBroken("pod demo/windows-server-abc (w1): not ready")}
    pods = cast(Deployer(broken, [pod()]))
    pods.claims = ("DEMO-1",)
    with pytest.raises(Nonconformance, match="because  nothing else is missing") as raised:
        pods.start("windows-server", because="nothing else is missing")
    first = str(raised.value).splitlines()[0]
    assert first.startswith(
        "DEMO-1  demo/windows-server-abc (node w1)  expected Ready, observed Pending, not ready (1 try)"
    )


@pytest.mark.parametrize("there", [pod("ImagePullBackOff"), pod(where="")], ids=["no image", "no node"])
def test_a_pod_without_image_or_node_says_nothing_about_starting(there: dict[str, Any]) -> None:
    broken: dict[str, Exception] = {"windows-server": EnvironmentBroken("pod demo/windows-server-abc (w1): not ready")}
    with pytest.raises(EnvironmentBroken):
        cast(Deployer(broken, [there])).start("windows-server", because="x")


def test_a_service_is_made_once_over_exactly_its_backend() -> None:
    pods = cast(Deployer())
    made: list[dict[str, Any]] = []

    def apply(obj: dict[str, Any], why: str, *, namespace: str) -> dict[str, Any]:
        made.append(obj)
        obj["spec"] |= {"clusterIP": "10.96.0.7"}
        obj["spec"]["ports"][0]["nodePort"] = 31000
        return obj

    corefile = {"data": {"Corefile": ".:53 {\n    kubernetes lab.example in-addr.arpa {\n    }\n}"}}
    kube, changes = SimpleNamespace(find=lambda *_: corefile), SimpleNamespace(apply=apply)
    services = Services(changes, pods, cluster_domain(kube))  # type: ignore[arg-type]
    backend = pods.server("windows")
    service = services.cluster_ip(backend)
    assert services.cluster_ip(backend) == service
    assert [one["spec"]["selector"] for one in made] == [{"app": "windows-server"}]
    assert service.full_name == "cluster-ip-windows-server.demo.svc.lab.example"
    assert (service.by_address.host, service.by_address.port, service.by_address.path) == (
        "10.96.0.7", 80, Path.CLUSTER_IP,
    )  # fmt: skip
    (port,) = services.node_ports([backend])
    assert (port.host, port.port, port.path, port.backends) == (
        backend.node_address, 31000, Path.NODE_PORT, (backend,),
    )  # fmt: skip


def test_pods_that_an_exclusive_test_left_alone_are_kept() -> None:
    deployer = Deployer()
    pods = cast(deployer)
    before = pods.of("linux-peer", "windows-peer")
    deployer.as_they_are("linux-peer", "windows-peer")
    pods.revalidate()
    assert pods.of("linux-peer", "windows-peer") == before


def test_a_pod_that_was_replaced_is_looked_up_anew() -> None:
    deployer = Deployer()
    pods = cast(deployer)
    kept, old = pods.of("linux-peer", "windows-peer")
    deployer.as_they_are("linux-peer")
    pods.revalidate()
    assert pods.of("linux-peer") == (kept,)
    (new,) = pods.of("windows-peer")
    assert (old.uid, new.uid) == ("/windows-peer", "new/windows-peer")
    assert deployer.reasons == [f"pod {old.label} is gone"]


def test_a_pod_without_successor_breaks_only_those_who_ask_for_it_and_is_looked_for_after_the_next() -> None:
    deployer = Deployer(broken={"again": EnvironmentBroken("")})
    pods = cast(deployer)
    pods.of("linux-peer", "windows-peer")
    deployer.as_they_are("linux-peer")
    pods.revalidate()
    pods.of("linux-peer")
    with pytest.raises(EnvironmentBroken, match=r"^pod demo/windows-peer-abc .* is gone"):
        pods.of("windows-peer")
    pods.revalidate()
    with pytest.raises(EnvironmentBroken, match="and no other is ready"):
        pods.of("windows-peer")
    deployer.broken.clear()
    pods.revalidate()
    assert pods.of("windows-peer")[0].uid == "new/windows-peer"


def test_a_pod_that_restarted_between_two_tests_is_known_as_it_is_now() -> None:
    deployer = Deployer()
    pods = cast(deployer)
    pods.of("linux-peer", "windows-peer")
    deployer.as_they_are("linux-peer", "windows-peer")
    deployer.pods[1]["status"]["containerStatuses"] = [{"name": "agent", "restartCount": 1, "state": {"running": {}}}]
    pods.refresh()
    pods.of("linux-peer", "windows-peer")
    assert [why.partition(": ")[0] for why in deployer.reasons] == [
        "pod demo/windows-peer-abc (windows, node w2) restarted 1 time"
    ]


def test_a_pod_without_successor_is_waited_for_once_and_taken_when_it_is_there() -> None:
    deployer = Deployer(broken={"again": EnvironmentBroken("")})
    pods = cast(deployer)
    pods.of("windows-peer")
    asked: list[str] = []
    again = deployer.again

    def noted(wish: Any, why: str) -> Any:
        asked.append(why)
        return again(wish, why)

    deployer.again = noted  # type: ignore[method-assign]
    for _ in range(3):
        pods.refresh()
        with pytest.raises(EnvironmentBroken, match="and no other is ready"):
            pods.of("windows-peer")
    assert len(asked) == 1
    deployer.broken.clear()
    deployer.pods = [
        {
            "metadata": {"name": "windows-peer-def", "namespace": "demo", "labels": {"app": "windows-peer"}},
            "spec": {}, "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        }
    ]  # fmt: skip
    pods.refresh()
    assert pods.of("windows-peer")[0].uid == "new/windows-peer"


def test_pods_stand_on_the_node_that_a_test_has_to_itself() -> None:
    deployer = Deployer()
    pods = cast(deployer)
    there = pods.at("w2", "windows-server", "windows-client", "windows-peer")
    assert {one.node for one in there} == {"w2"}
    assert [wish.called for wish in deployer.wishes] == ["windows-server-2", "windows-client-2", "windows-peer"]
    assert pods.at("w1", "windows-server") == pods.of("windows-server")
    with pytest.raises(EnvironmentLacks, match="wanted on node w3, which takes no such pods"):
        pods.at("w3", "windows-server")


def test_what_is_being_deployed_is_under_way() -> None:
    deployer = Deployer()
    pods = cast(deployer)
    with deployer.lock:
        pods._start("linux-peer")
        assert len(pods.under_way()) == 2
    pods.close()
    assert pods.under_way() == []


@pytest.mark.parametrize(
    ("node", "place", "expected"),
    [
        ("w1", "same node", [("windows-client", "w1"), ("linux-client", "l1"), ("windows-peer-1", "w1")]),
        ("w1", "a Linux node", [("windows-client", "w1"), ("linux-client", "l1"), ("linux-server", "l1")]),
        ("w1", "another Windows node", [("windows-client", "w1"), ("linux-client", "l1"), ("windows-peer", "w2")]),
        ("w2", "same node", [("windows-client-2", "w2"), ("linux-client", "l1"), ("windows-peer", "w2")]),
        ("w2", "another Windows node", [("windows-client-2", "w2"), ("linux-client", "l1"), ("windows-peer-1", "w1")]),
    ],
)  # fmt: skip
def test_around_a_windows_node_are_a_client_a_stranger_and_a_server(node: str, place: Any, expected: list[Any]) -> None:
    cast = Cast(Deployer(), Placement(FOUR))  # type: ignore[arg-type]
    found = cast.around(node, place)
    assert [(cast.name_of(one), one.node) for one in found] == expected


def test_there_is_no_other_windows_node_in_a_small_cluster() -> None:
    small = cluster(node("l1", "linux"), node("w1", "windows"))
    with pytest.raises(EnvironmentLacks, match="needs 2 usable Windows nodes"):
        Cast(Deployer(), Placement(small)).around("w1", "another Windows node")  # type: ignore[arg-type]
