# SPDX-License-Identifier: Apache-2.0
"""The manifests hold what Windows and Linux pods need, and tailoring pins them to a node with its image."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from conformance.errors import EnvironmentBroken
from conformance.kube import manifest, pod_state
from conformance.pods import tailor
from conformance.pods.deploy import PROGRAMS, Pods
from conformance.pods.placement import tolerations
from conformance.pods.pod_changes import changed
from conformance.pods.prepull import Prepull, present
from conformance.pods.roles import ECHO_PORT, MANIFESTS, ROLES, Role
from conformance.settings import ImageChoice, Images, Mirror, PodLimits, Settings, load_timings
from tests.unit.conformance.builders import a_node, a_windows_node, a_workload, some_facts

FORBIDDEN_ON_WINDOWS = {"hostPID", "hostIPC", "hostNetwork", "shareProcessNamespace"}
"""With spec.os windows the API server rejects a pod that has one of these."""


def template(role: Role) -> dict[str, Any]:
    found = [
        item
        for item in manifest.load(MANIFESTS / role.manifest)
        if item["metadata"]["name"] == role.name
    ]
    assert len(found) == 1, f"{role.manifest} has {len(found)} Deployments {role.name}"
    return found[0]


HOST_PROCESS = [role for role in ROLES.values() if role.os == "windows" and role.host_network]
PLAIN = [role for role in ROLES.values() if role not in HOST_PROCESS]


@pytest.mark.parametrize("role", PLAIN, ids=lambda one: one.name)
def test_a_role_is_a_deployment_of_one_replica_with_its_containers(role: Role) -> None:
    made = template(role)
    spec = made["spec"]["template"]["spec"]
    names = [item["name"] for item in spec["containers"]]
    assert made["kind"] == "Deployment"
    assert made["spec"]["replicas"] == 1
    assert {role.agent, role.main} <= set(names)
    assert spec["os"] == {"name": role.os}
    assert spec["nodeSelector"] == {"kubernetes.io/os": role.os}
    assert bool(spec.get("hostNetwork")) is role.host_network
    assert spec["automountServiceAccountToken"] is False
    for container in spec["containers"]:
        assert container["resources"]["requests"], container["name"]
        assert "cpu" not in container["resources"].get("limits", {}), (
            "a CPU limit throttles PowerShell starts"
        )
        assert container["imagePullPolicy"] == "IfNotPresent"
    if role.os == "windows":
        assert not FORBIDDEN_ON_WINDOWS & spec.keys()
        assert all("securityContext" not in item for item in [spec, *spec["containers"]])


@pytest.mark.parametrize("role", HOST_PROCESS, ids=lambda one: one.name)
def test_a_host_process_pod_is_what_kubernetes_takes_for_one_and_stays_when_its_node_is_drained(
    role: Role,
) -> None:
    made = template(role)
    spec = made["spec"]["template"]["spec"]
    assert made["kind"] == "DaemonSet"
    assert spec["hostNetwork"] is True
    assert spec["securityContext"] == {
        "windowsOptions": {"hostProcess": True, "runAsUserName": "NT AUTHORITY\\SYSTEM"}
    }
    assert [container["name"] for container in spec["containers"]] == [role.agent] == [role.main]
    assert FORBIDDEN_ON_WINDOWS & spec.keys() == {"hostNetwork"}
    assert spec["automountServiceAccountToken"] is False


def test_a_host_process_pod_keeps_its_image_whatever_the_build_and_goes_to_its_node() -> None:
    node = a_windows_node("win-1", 99999)
    made = tailor.deployment(
        template(ROLES["windows-host"]), role="windows-host", name="windows-host-1", node=node,
        images=Images(mirrors=(Mirror(prefix="r.test"),)), tolerations=tolerations(),
    )  # fmt: skip
    spec = made["spec"]["template"]["spec"]
    assert spec["containers"][0]["image"].startswith(
        "r.test/oss/kubernetes/windows-host-process-containers-base-image:v1"
    )
    assert "affinity" in spec or "kubernetes.io/hostname" in spec["nodeSelector"]


@pytest.mark.parametrize("role", PLAIN, ids=lambda one: one.name)
def test_the_agents_container_has_the_programs_and_says_who_it_is(role: Role) -> None:
    spec = template(role)["spec"]["template"]["spec"]
    agent = next(container for container in spec["containers"] if container["name"] == role.agent)
    where = "C:\\probe" if role.os == "windows" else "/probe"
    assert agent["volumeMounts"] == [{"name": "probes", "mountPath": where}]
    assert spec["volumes"] == [{"name": "probes", "configMap": {"name": "probes"}}]
    assert {item["name"] for item in agent["env"]} == {"POD_NAME", "POD_NAMESPACE", "NODE_NAME"}


@pytest.mark.parametrize(
    "role", [item for item in ROLES.values() if not item.host_network], ids=lambda one: one.name
)
def test_every_pod_but_the_nodes_serves_the_echo_and_is_ready_only_then(role: Role) -> None:
    spec = template(role)["spec"]["template"]["spec"]
    agent = next(container for container in spec["containers"] if container["name"] == role.agent)
    assert str(ECHO_PORT) in " ".join(agent["command"])
    probe = agent["readinessProbe"]
    assert (probe.get("httpGet") or probe.get("tcpSocket"))["port"] == ECHO_PORT


def test_the_programs_of_the_config_map_exist() -> None:
    there = {path.name for path in (MANIFESTS / "probes").iterdir() if path.is_file()}
    assert there == {*PROGRAMS, "raw_http.py"}, "calibrate sends raw_http.py itself"


@pytest.mark.parametrize("path", sorted(MANIFESTS.rglob("*.yaml")), ids=lambda one: one.name)
def test_every_manifest_is_yaml_of_kubernetes_objects(path: Path) -> None:
    assert manifest.load(path)


def tailored(role: str = "windows-client", **more: Any) -> dict[str, Any]:
    node = more.pop("node", a_windows_node("win-1", 17763))
    settings: dict[str, Any] = {"images": Images(), "tolerations": tolerations()} | more
    return tailor.deployment(
        template(ROLES[role]), role=role, name=f"{role}-2", node=node, **settings
    )


def test_tailoring_gives_name_image_node_and_tolerations() -> None:
    made = tailored(labels={"team": "x"})
    pod = made["spec"]["template"]
    assert made["metadata"]["name"] == "windows-client-2"
    own = {"app": "windows-client", "conformance/seat": "windows-client-2"}
    assert made["spec"]["selector"] == {"matchLabels": own}
    assert pod["metadata"]["labels"] == {**own, "os": "windows", "team": "x"}
    assert pod["spec"]["containers"][0]["image"].endswith(":ltsc2019")
    assert pod["spec"]["nodeSelector"] == {
        "kubernetes.io/os": "windows",
        "kubernetes.io/hostname": "win-1",
        "node.kubernetes.io/windows-build": "10.0.17763",
    }
    assert pod["spec"]["tolerations"] == tolerations()
    assert "affinity" not in pod["spec"]


def test_a_node_without_a_hostname_label_is_pinned_by_name_through_the_scheduler() -> None:
    made = tailored(node=a_windows_node("w", 20348, labels={}))
    terms = made["spec"]["template"]["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    assert terms["nodeSelectorTerms"] == [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["w"]}]}
    ]
    assert "nodeName" not in made["spec"]["template"]["spec"]


def test_tailoring_leaves_the_template_as_it_is() -> None:
    role = ROLES["windows-client"]
    first = template(role)
    tailor.deployment(
        first,
        role="x",
        name="x-1",
        node=a_windows_node("w", 20348),
        images=Images(),
        tolerations=[],
    )
    assert first == template(role)


def test_registry_and_pull_secrets_reach_every_container() -> None:
    images = Images(mirrors=(Mirror(prefix="r.test"),), pull_secrets=("s",))
    spec = tailored("linux-client", node=a_node("l"), images=images)["spec"]["template"]["spec"]
    assert [container["image"] for container in spec["containers"]] == [
        "r.test/library/busybox:1.37.0",
        "r.test/library/python:3.13.1-alpine3.21",
    ]
    assert spec["imagePullSecrets"] == [{"name": "s"}]


def test_a_single_images_pull_secret_reaches_only_pods_with_that_image() -> None:
    images = Images(
        choices={"docker.io/library/nginx:1.27.5-alpine": ImageChoice(pull_secret="own")}
    )
    client = tailored("linux-client", node=a_node("l"), images=images)["spec"]["template"]["spec"]
    server = tailored("linux-server", node=a_node("l"), images=images)["spec"]["template"]["spec"]
    assert "imagePullSecrets" not in client
    assert server["imagePullSecrets"] == [{"name": "own"}]
    assert images.all_pull_secrets == ("own",)


@pytest.mark.parametrize("role", ["linux-client", "windows-server"])
def test_limits_reach_every_container_beside_its_requests(role: str) -> None:
    node = a_windows_node("n", 20348) if ROLES[role].os == "windows" else a_node("n")
    limits = PodLimits(cpu="2", memory="1Gi")
    spec = tailored(role, node=node, limits=limits)["spec"]["template"]["spec"]
    for container in spec["containers"]:
        assert container["resources"]["limits"] == {"cpu": "2", "memory": "1Gi"}
        assert container["resources"]["requests"]


def test_images_that_a_node_reports_are_recognised_in_both_spellings() -> None:
    node = {
        "status": {
            "images": [
                {
                    "names": [
                        "docker.io/library/busybox:1.37.0",
                        "docker.io/library/busybox@sha256:0",
                    ]
                }
            ]
        }
    }
    assert {"docker.io/library/busybox:1.37.0", "busybox:1.37.0"} <= present(node)


def test_a_pod_that_is_as_it_was_has_not_changed() -> None:
    workload = a_workload(uid="u", container="c", restarts=1)
    pod = {
        "metadata": {"uid": "u"},
        "status": {"phase": "Running", "containerStatuses": [{"restartCount": 1}]},
    }
    assert changed(workload, pod) == ""
    ended = {"name": "c", "restartCount": 1, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    down = {"metadata": {"uid": "u"}, "status": {"phase": "Running", "containerStatuses": [ended]}}
    assert changed(workload, down).endswith("its container c is not running: CrashLoopBackOff")
    assert changed(workload, None).endswith("is gone")


@pytest.mark.parametrize(
    "path", [*sorted({role.manifest for role in PLAIN}), "services/win-webserver.yaml"]
)
def test_a_windows_server_that_starves_for_a_while_stays_an_endpoint(path: str) -> None:
    for made in (item for item in manifest.load(MANIFESTS / path) if item["kind"] == "Deployment"):
        spec = made["spec"]["template"]["spec"]
        probes = [
            container["readinessProbe"]
            for container in spec["containers"]
            if "readinessProbe" in container
        ]
        if spec["os"]["name"] == "windows":
            assert all(
                (probe["timeoutSeconds"], probe["failureThreshold"]) == (5, 6) for probe in probes
            )


@pytest.mark.parametrize(
    "path", sorted(str(item.relative_to(MANIFESTS)) for item in MANIFESTS.glob("*/*.yaml"))
)
def test_no_autoscaler_may_evict_a_pod_that_tests_count_on_and_no_mesh_is_asked_into_it(
    path: str,
) -> None:
    stays = {
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
        "karpenter.sh/do-not-disrupt": "true",
    }
    stays |= {"sidecar.istio.io/inject": "false", "linkerd.io/inject": "disabled"}
    kinds = [
        item
        for item in manifest.load(MANIFESTS / path)
        if item["kind"] in ("Deployment", "Pod", "DaemonSet")
    ]
    for made in (
        () if path.startswith("prepull/") else kinds
    ):  # a DaemonSet that ends with its images
        metadata = (
            made["metadata"] if made["kind"] == "Pod" else made["spec"]["template"]["metadata"]
        )
        assert metadata.get("annotations") == stays, made["metadata"]["name"]


ASKED_FOR = "client,agent"
PROXY = {"name": "istio-proxy", "image": "docker.io/istio/proxyv2:1.24.0"}
SHIPPER = {"name": "shipper", "image": "example.com/logs:1"}
LEADS_ELSEWHERE = {**SHIPPER, "securityContext": {"capabilities": {"add": ["NET_ADMIN"]}}}
PRIVILEGED = {**SHIPPER, "securityContext": {"privileged": True}}


def pod_with(
    *more: dict[str, Any], init: tuple[dict[str, Any], ...] = (), asked: str = ASKED_FOR
) -> dict[str, Any]:
    meta = {"name": "p", "namespace": "n", "uid": "u"} | (
        {"annotations": {tailor.CONTAINERS: asked}} if asked else {}
    )
    own = [
        {"name": "client", "image": "busybox"},
        {"name": "agent", "image": "mirror.example/python"},
    ]
    spec = {"nodeName": "linux-1", "initContainers": list(init), "containers": [*own, *more]}
    return {"metadata": meta, "spec": spec, "status": {"podIP": "10.0.0.9", "phase": "Running"}}


def test_a_pod_says_which_containers_it_was_asked_for_with() -> None:
    made = tailored("linux-client", node=a_node("l"))["spec"]["template"]
    assert made["metadata"]["annotations"][tailor.CONTAINERS] == ASKED_FOR
    assert tailor.added(made) == []
    made["spec"]["containers"].append(SHIPPER)
    assert tailor.added(made) == [SHIPPER]


def test_a_pod_says_which_sysctls_it_was_asked_for_with() -> None:
    made = tailored("linux-client", node=a_node("l"))["spec"]["template"]
    asked = "net.ipv4.ip_unprivileged_port_start,net.ipv4.ping_group_range"
    assert made["metadata"]["annotations"][pod_state.SYSCTLS] == asked
    assert pod_state.without_sysctls(made) == ""
    del made["spec"]["securityContext"]["sysctls"][1]
    assert "removed the pod's sysctls net.ipv4.ping_group_range, " in pod_state.without_sysctls(
        made
    )
    windows = tailored()["spec"]["template"]
    assert pod_state.SYSCTLS not in windows["metadata"]["annotations"]


def test_the_daemonset_that_pulls_is_found_by_the_label_of_its_pods() -> None:
    """Else nobody would learn that a quota refuses them."""
    applied: list[dict[str, Any]] = []
    changes: Any = SimpleNamespace(
        dry_run=True,
        run=SimpleNamespace(base="calico-demo-r"),
        apply=lambda made, *_, **__: applied.append(made),
    )
    kube: Any = SimpleNamespace(objects=lambda *_: [])
    pulls = Prepull(kube, changes, Settings(timings=load_timings()), print)
    pulls._pull("prepull-linux-0", ["x:1"], [a_node("l")])
    (made,) = applied
    assert made["metadata"]["labels"] == made["spec"]["selector"]["matchLabels"]
    assert made["metadata"]["labels"] == made["spec"]["template"]["metadata"]["labels"]


@pytest.mark.parametrize(
    ("pod", "named"),
    [
        (pod_with(), ""),
        (pod_with(SHIPPER), ""),
        (pod_with({**SHIPPER, "image": "docker-proxy.example.com/logs:1"}), ""),
        (pod_with(PROXY, asked=""), ""),
        (pod_with(PROXY, asked="client,agent,istio-proxy"), ""),
        (
            pod_with(PROXY),
            "container istio-proxy (docker.io/istio/proxyv2:1.24.0), which the run did not request",
        ),
        (
            pod_with(init=(LEADS_ELSEWHERE,)),
            "container shipper (example.com/logs:1), which the run did not request",
        ),
        (
            pod_with(PRIVILEGED),
            "container shipper (example.com/logs:1), which the run did not request",
        ),
    ],
)
def test_what_somebody_else_adds_counts_where_it_may_lead_packets_elsewhere(
    pod: dict[str, Any], named: str
) -> None:
    assert tailor.redirecting(pod) == named


def test_a_pod_that_a_mesh_stands_in_front_of_says_nothing_of_calico() -> None:
    pods = Pods(
        cast(Any, None), cast(Any, SimpleNamespace(run=SimpleNamespace(namespace="n"))),
        some_facts(a_node("linux-1")), cast(Any, None), watch=cast(Any, object()),
    )  # fmt: skip
    assert pods.workload(pod_with(SHIPPER), ROLES["linux-client"]).address == "10.0.0.9"
    with pytest.raises(
        EnvironmentBroken,
        match=r"has container istio-proxy .*observations there say nothing about Calico",
    ):
        pods.workload(pod_with(PROXY), ROLES["linux-client"])
