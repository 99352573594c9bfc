# SPDX-License-Identifier: Apache-2.0
"""Pods are deployed once, when first needed, on the nodes that their paths need; an error
concerns only the test that needed them."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.errors import EnvironmentBroken, MissingCapability, Nonconformance
from conformance.model.claim import ClaimVerdict
from conformance.model.decision import Decision
from conformance.model.endpoint import Addressing, Workload
from conformance.model.facts import Facts
from conformance.pods.deploy import Wish
from conformance.pods.placement import Placement
from conformance.pods.roles import ROLES
from conformance.pods.services import Services, cluster_domain
from conformance.pods.worker_pods import DEMO, WorkerPods
from conformance.settings import Cover
from tests.unit.conformance.builders import a_node, a_pod, a_workload, some_facts

FOUR = some_facts(
    a_node("l1", "linux"), a_node("l2", "linux"), a_node("w1", "windows"), a_node("w2", "windows")
)


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
    dead: dict[str, str] = field(default_factory=dict)

    @property
    def watch(self) -> Any:
        return SimpleNamespace(
            lost_among=lambda names: {name: self.dead[name] for name in names if name in self.dead}
        )

    @property
    def kube(self) -> Any:
        return SimpleNamespace(objects=lambda *_, **__: self.pods)

    @property
    def changes(self) -> Any:
        return SimpleNamespace(waits=SimpleNamespace(events=lambda _: [{"reason": "Pulled"}]))

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
            raise EnvironmentBroken(f"{why}, and no other pod is ready: ImagePullBackOff")
        self.reasons.append(why)
        return replace(self.deploy([wish])[wish.called], uid=f"new/{wish.called}")

    def deploy(self, wishes: list[Wish]) -> dict[str, Workload]:
        (wish,) = wishes
        with self.lock:
            self.wishes.append(wish)
        if wish.called in self.broken:
            raise self.broken[wish.called]
        pod = a_workload(
            f"{wish.called}-abc",
            ROLES[wish.role].os,
            namespace=wish.namespace or self.namespace,
            uid=f"{wish.namespace}/{wish.called}",
            role=wish.role,
            node=wish.node.name,
            node_address=wish.node.address,
        )
        return {wish.called: pod}


def worker_pods(deployer: Deployer, facts: Facts = FOUR) -> WorkerPods:
    return WorkerPods(deployer, Placement(facts))  # type: ignore[arg-type]


def named(deployer: Deployer) -> list[str]:
    return [wish.called for wish in deployer.wishes]


def test_each_pod_is_deployed_once_however_often_it_is_asked_for() -> None:
    deployer = Deployer()
    pods = worker_pods(deployer)
    assert pods.nodes() == pods.nodes()
    assert sorted(named(deployer)) == ["linux-node-1", "linux-node-2"]


def test_the_demos_pods_are_started_together_and_no_others() -> None:
    deployer = Deployer()
    pods = worker_pods(deployer)
    pods.clients("linux")
    pods.close()
    assert sorted(named(deployer)) == sorted(
        f"{role}-{number}" for role in DEMO for number in (1, 2)
    )


def test_a_role_has_a_seat_on_each_covered_node_and_all_share_its_label() -> None:
    deployer = Deployer()
    found = worker_pods(deployer).servers("windows")
    assert [(workload.node, workload.role) for workload in found] == [
        ("w1", "windows-server"),
        ("w2", "windows-server"),
    ]
    wishes = {wish.called: (wish.role, wish.node.name) for wish in deployer.wishes}
    assert wishes["windows-server-2"] == ("windows-server", "w2")


def test_workers_begin_with_different_nodes_and_name_seats_alike() -> None:
    second = WorkerPods(Deployer(), Placement(FOUR, turn=1))  # type: ignore[arg-type]
    assert [client.node for client in second.clients("windows")] == ["w2", "w1"]
    assert second.seat_of(second.client("windows")) == "windows-client-2"


def test_nodes_that_are_not_covered_have_no_pods() -> None:
    facts = some_facts(*(a_node(f"w{number}", "windows") for number in range(1, 6)))
    pods = WorkerPods(Deployer(), Placement(facts, cover=Cover(at_most=2)))  # type: ignore[arg-type]
    assert [server.node for server in pods.servers("windows")] == ["w1", "w2"]


def test_pods_elsewhere_have_the_same_label_in_another_labelled_namespace() -> None:
    deployer = Deployer()
    pods = worker_pods(deployer)
    here, there = pods.client("linux"), pods.elsewhere("linux").first
    assert (here.namespace, there.namespace) == ("demo", "demo-elsewhere")
    assert (pods.seat_of(there), there.role) == ("linux-client-1", "linux-client")
    assert ("demo-elsewhere", {"conformance/team": "elsewhere"}) in deployer.prepared


def test_a_pod_without_a_network_yet_holds_up_who_uses_it_and_not_who_only_starts_it() -> None:
    def never(client: Workload) -> None:
        raise EnvironmentBroken(f"{client.role} was asked")

    deployer = Deployer()
    deployer.as_they_are("linux-client-1", "linux-client-2")
    pods = WorkerPods(deployer, Placement(FOUR), never)  # type: ignore[arg-type]
    assert pods.start("linux-client", because="x")[0].role == "linux-client"
    assert pods.server("linux").role == "linux-server"
    with pytest.raises(EnvironmentBroken, match="linux-client was asked"):
        pods.clients("linux")


def test_a_sick_node_makes_its_own_decisions_inconclusive_and_no_others() -> None:
    deployer = Deployer(broken={"windows-server-2": EnvironmentBroken("no image")})
    pods = worker_pods(deployer)
    kept: list[Decision] = []
    pods.keep = kept.extend
    for _ in range(2):
        assert [server.node for server in pods.servers("windows")] == ["w1"]
    assert {(seen.target, seen.verdict, seen.reason) for seen in kept} == {
        ("w2", ClaimVerdict.INCONCLUSIVE, "no image")
    }
    pods.close()
    assert named(deployer).count("windows-server-2") == 1


def test_where_no_pod_of_a_role_can_be_deployed_everybody_who_asks_is_told() -> None:
    broken: dict[str, Exception] = {
        f"windows-server-{number}": EnvironmentBroken("no image") for number in (1, 2)
    }
    pods = worker_pods(Deployer(broken=broken))
    for _ in range(2):
        with pytest.raises(EnvironmentBroken, match="no image"):
            pods.servers("windows")


def test_a_node_for_which_there_is_no_image_is_not_run() -> None:
    pods = worker_pods(
        Deployer(broken={"windows-client-1": MissingCapability("no image is known", "x")})
    )
    kept: list[Decision] = []
    pods.keep = kept.extend
    assert [client.node for client in pods.clients("windows")] == ["w2"]
    assert [(seen.target, seen.verdict) for seen in kept] == [("w1", ClaimVerdict.NOT_RUN)]


def pod(reason: str = "", where: str = "w1") -> dict[str, Any]:
    waiting = {"state": {"waiting": {"reason": reason}}} if reason else {"state": {"running": {}}}
    status = {"phase": "Pending", "containerStatuses": [waiting]}
    return a_pod("windows-server-1-abc", where, namespace="demo", ready=False, status=status)


def test_a_pod_with_node_and_image_that_does_not_become_ready_violates_a_claim_about_starting() -> (
    None
):
    broken: dict[str, Exception] = {
        "windows-server-1": EnvironmentBroken("pod demo/windows-server-1-abc (w1): not ready")
    }
    deployer = Deployer(broken)
    deployer.as_they_are("windows-server-2")
    deployer.pods.insert(0, pod())
    pods = worker_pods(deployer)
    pods.claims = ("DEMO-1",)
    kept: list[Decision] = []
    pods.keep = kept.extend
    with pytest.raises(Nonconformance, match="because  nothing else is missing") as raised:
        pods.start("windows-server", because="nothing else is missing")
    first = str(raised.value).splitlines()[0]
    assert first.startswith(
        "DEMO-1  demo/windows-server-1-abc (node w1)  expected Ready, observed Pending, not ready (waited for it)"
    )
    assert [(seen.target, seen.verdict) for seen in kept] == [("w1", ClaimVerdict.VIOLATED)]


@pytest.mark.parametrize(
    "there", [pod("ImagePullBackOff"), pod(where="")], ids=["no image", "no node"]
)
def test_a_pod_without_image_or_node_says_nothing_about_starting(there: dict[str, Any]) -> None:
    broken: dict[str, Exception] = {
        "windows-server-1": EnvironmentBroken("pod demo/windows-server-1-abc (w1): not ready")
    }
    with pytest.raises(EnvironmentBroken):
        worker_pods(Deployer(broken, [there])).start("windows-server", because="x")


def test_a_pod_that_was_ready_for_a_moment_and_crashes_has_not_started() -> None:
    deployer = Deployer()
    deployer.as_they_are("linux-server-1", "linux-server-2")
    pods = worker_pods(deployer)
    kept: list[Decision] = []
    pods.keep = kept.extend
    assert len(list(pods.start("linux-server", because="x"))) == 2
    ended = {"terminated": {"reason": "Error", "exitCode": 1}}
    crashed = {"name": "server", "restartCount": 1, "state": {"running": {}}, "lastState": ended}
    deployer.pods[1]["status"]["containerStatuses"] = [crashed]
    with pytest.raises(EnvironmentBroken) as caught:
        pods.start("linux-server", because="x")
    assert str(caught.value) == (
        "pod demo/linux-server-2-abc (linux, node l2) restarted 1 time: server: "
        "Error (exit code 1), after it was ready"
    )
    assert [(seen.target, seen.verdict) for seen in kept] == [("l2", ClaimVerdict.INCONCLUSIVE)]


def test_a_service_is_made_once_over_exactly_its_backend() -> None:
    pods = worker_pods(Deployer())
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
    assert [item["spec"]["selector"] for item in made] == [{"conformance/seat": "windows-server-1"}]
    assert service.full_name == "cluster-ip-windows-server-1.demo.svc.lab.example"
    assert (service.by_address.host, service.by_address.port, service.by_address.path) == (
        "10.96.0.7", 80, Addressing.CLUSTER_IP,
    )  # fmt: skip
    (port,) = services.node_ports([backend])
    assert (port.host, port.port, port.path, port.backends) == (
        backend.node_address, 31000, Addressing.NODE_PORT, (backend,),
    )  # fmt: skip


def test_pods_that_an_exclusive_test_left_alone_are_kept() -> None:
    deployer = Deployer()
    pods = worker_pods(deployer)
    before = pods.get("linux-node-1", "linux-node-2")
    deployer.as_they_are("linux-node-1", "linux-node-2")
    pods.revalidate()
    assert pods.get("linux-node-1", "linux-node-2") == before


def test_a_pod_that_was_replaced_is_looked_up_anew() -> None:
    deployer = Deployer()
    pods = worker_pods(deployer)
    kept, old = pods.get("linux-node-1", "linux-node-2")
    deployer.as_they_are("linux-node-1")
    pods.revalidate()
    assert pods.get("linux-node-1") == (kept,)
    (new,) = pods.get("linux-node-2")
    assert (old.uid, new.uid) == ("/linux-node-2", "new/linux-node-2")
    assert deployer.reasons == [f"pod {old.label} is gone"]


def test_a_pod_without_successor_breaks_only_those_who_ask_for_it_and_is_looked_for_after_the_next() -> (
    None
):
    deployer = Deployer(broken={"again": EnvironmentBroken("")})
    pods = worker_pods(deployer)
    pods.get("linux-node-1", "linux-node-2")
    deployer.as_they_are("linux-node-1")
    pods.revalidate()
    pods.get("linux-node-1")
    with pytest.raises(EnvironmentBroken, match=r"^pod demo/linux-node-2-abc .* is gone"):
        pods.get("linux-node-2")
    pods.revalidate()
    with pytest.raises(EnvironmentBroken, match="and no other pod is ready"):
        pods.get("linux-node-2")
    deployer.broken.clear()
    pods.revalidate()
    assert pods.get("linux-node-2")[0].uid == "new/linux-node-2"


def test_a_pod_that_restarted_between_two_tests_is_known_as_it_is_now() -> None:
    deployer = Deployer()
    pods = worker_pods(deployer)
    pods.get("linux-node-1", "linux-node-2")
    deployer.as_they_are("linux-node-1", "linux-node-2")
    deployer.pods[1]["status"]["containerStatuses"] = [
        {"name": "agent", "restartCount": 1, "state": {"running": {}}}
    ]
    pods.refresh()
    pods.get("linux-node-1", "linux-node-2")
    assert [why.partition(": ")[0] for why in deployer.reasons] == [
        "pod demo/linux-node-2-abc (linux, node l2) restarted 1 time"
    ]


def test_a_pod_without_successor_is_waited_for_once_and_taken_when_it_is_there() -> None:
    deployer = Deployer(broken={"again": EnvironmentBroken("")})
    pods = worker_pods(deployer)
    pods.get("linux-node-2")
    asked: list[str] = []
    again = deployer.again

    def noted(wish: Any, why: str) -> Any:
        asked.append(why)
        return again(wish, why)

    deployer.again = noted  # type: ignore[method-assign]
    for _ in range(3):
        pods.refresh()
        with pytest.raises(EnvironmentBroken, match="and no other pod is ready"):
            pods.get("linux-node-2")
    assert len(asked) == 1
    deployer.broken.clear()
    deployer.pods = [
        {
            "metadata": {
                "name": "linux-node-2-def", "namespace": "demo", "labels": {"conformance/seat": "linux-node-2"},
            },
            "spec": {}, "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        }
    ]  # fmt: skip
    pods.refresh()
    assert pods.get("linux-node-2")[0].uid == "new/linux-node-2"


def test_what_is_being_deployed_is_under_way() -> None:
    deployer = Deployer()
    pods = worker_pods(deployer)
    with deployer.lock:
        pods._start("linux-node-1")
        assert len(pods.under_way()) == 2
    pods.close()
    assert pods.under_way() == []


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("same node", [("w1", "w1"), ("w2", "w2")]),
        ("a Linux node", [("w1", "l1"), ("w2", "l1")]),
        ("another Windows node", [("w1", "w2"), ("w2", "w1")]),
    ],
)
def test_around_windows_nodes_are_pairs_of_a_client_there_and_a_server(
    place: Any, expected: Any
) -> None:
    pairs = worker_pods(Deployer()).placed_around(["w1", "w2"], place)
    assert [(client.node, server.node) for client, server in pairs] == expected
    assert [(workload.role, two.role.endswith("-server")) for workload, two in pairs] == [
        ("windows-client", True)
    ] * 2


def test_around_one_node_of_two_the_other_has_a_server_only() -> None:
    pairs = worker_pods(Deployer()).placed_around(["w2"], "another Windows node")
    assert [(client.node, server.node) for client, server in pairs] == [("w2", "w1")]


def test_there_is_no_other_windows_node_in_a_small_cluster() -> None:
    small = some_facts(a_node("l1", "linux"), a_node("w1", "windows"))
    with pytest.raises(MissingCapability, match="needs a pair of pods on two nodes"):
        worker_pods(Deployer(), small).placed_around(["w1"], "another Windows node")


def test_a_node_that_died_is_left_and_what_it_would_have_decided_is_undecided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deployer = Deployer()
    pods = worker_pods(deployer)
    kept: list[Any] = []
    pods.keep = kept.extend
    assert {pod.node for pod in pods.clients("windows")} == {"w1", "w2"}
    monkeypatch.setattr("conformance.pods.worker_pods.LOOK_AT_NODES", -1.0)
    deployer.dead = {"w1": "node w1 was lost during the run: Ready Unknown"}
    assert {pod.node for pod in pods.clients("windows")} == {"w2"}
    assert {(seen.target, str(seen.verdict), seen.reason) for seen in kept} == {
        ("w1", "INCONCLUSIVE", "node w1 was lost during the run: Ready Unknown")
    }
    kept.clear()
    assert pods.clients("linux")
    assert kept == []
    deployer.dead["w2"] = "node w2 was lost during the run: Ready Unknown"
    with pytest.raises(
        EnvironmentBroken, match=r"no Windows node is left: node w1 was lost.*; node w2 was lost"
    ):
        pods.clients("windows")


def test_a_test_of_linux_alone_starts_no_windows_pods_of_the_demo() -> None:
    deployer = Deployer()
    pods = worker_pods(deployer)
    pods.systems = ("linux",)
    pods.start_demo()
    assert pods.clients("linux")
    pods.close()
    assert sorted(named(deployer)) == [
        "linux-client-1",
        "linux-client-2",
        "linux-server-1",
        "linux-server-2",
    ]


def test_what_cannot_start_before_a_test_is_told_to_who_asks_for_it() -> None:
    deployer = Deployer(broken={"linux-server-1": EnvironmentBroken("no image")})
    pods = worker_pods(deployer)
    pods.start_demo()
    assert len(named(deployer)) == 8
    assert not pods.used, "nobody has asked for one yet"
    with pytest.raises(EnvironmentBroken, match="no image"):
        pods.server("linux")
