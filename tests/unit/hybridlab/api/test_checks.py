# SPDX-License-Identifier: Apache-2.0
"""Wrong objects are refused with the path of what is wrong; good ones get their defaults."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.unit.hybridlab.builders import a_pod, an_object

PODS = "/api/v1/namespaces/default/pods"
SERVICES = "/api/v1/namespaces/default/services"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
POLICIES = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"
CALICO = "/apis/projectcalico.org/v3"
NP = f"{CALICO}/namespaces/default/networkpolicies"


pod = partial(a_pod, "x", "i", namespace="", container={"name": "c"})


def container(**fields: Any) -> dict[str, Any]:
    return pod(container={"name": "c", **fields})


def host_process(**more: Any) -> dict[str, Any]:
    return pod(
        os={"name": "windows"}, securityContext={"windowsOptions": {"hostProcess": True}}, **more
    )


def runs_as(user: str) -> dict[str, Any]:
    return pod(securityContext={"windowsOptions": {"runAsUserName": user}})


def deployment(labels: dict[str, str], selector: dict[str, str]) -> dict[str, Any]:
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    return an_object(selector={"matchLabels": selector}, template=template)


def rolling(unavailable: int | str, surge: int | str) -> dict[str, Any]:
    body = deployment({"a": "b"}, {"a": "b"})
    body["spec"]["strategy"] = {"rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": surge}}
    return body


def rule(**fields: Any) -> dict[str, Any]:
    return an_object(ingress=[{"action": "Allow", **fields}])


@pytest.mark.parametrize(
    ("path", "body", "field", "words"),
    [
        (PODS, container(ports=[{"containerPort": 70000}]), "spec.containers[0].ports[0].containerPort", "65535"),
        (PODS, container(resources={"limits": {"cpu": "1"}, "requests": {"cpu": "1500m"}}),
         "spec.containers[0].resources.requests", "must be less than or equal to cpu limit of 1"),
        (PODS, pod(activeDeadlineSeconds=0), "spec.activeDeadlineSeconds", "must be between 1 and 2147483647"),
        (PODS, pod(containers=[]), "spec.containers", "Required value"),
        (PODS, {"metadata": {"name": "x"}}, "spec.containers", "Required value"),
        (PODS, pod(containers=[{"name": "c"}]), "spec.containers[0].image", "Required value"),
        (PODS, pod(containers=[{"name": "C", "image": "i"}]), "spec.containers[0].name", "RFC 1123 label"),
        (PODS, pod(containers=[{"name": "c", "image": "i"}] * 2), "spec.containers[1].name", "Duplicate value"),
        (PODS, pod(restartPolicy="Sometimes"), "spec.restartPolicy", 'values: "Always", "OnFailure", "Never"'),
        (PODS, {**pod(), "metadata": {"name": "Bad_Name"}}, "metadata.name", "RFC 1123 subdomain"),
        (PODS, {**pod(), "metadata": {"name": "x", "labels": {"a": "b c"}}}, "metadata.labels", "a valid label must"),
        (PODS, container(volumeMounts=[{"name": "v", "mountPath": "/"}]), "spec.containers[0].volumeMounts[0].name",
         'Not found: "v"'),
        (PODS, container(readinessProbe={"periodSeconds": 1}), "spec.containers[0].readinessProbe", "handler type"),
        (PODS, pod(tolerations=[{"value": "x"}]), "spec.tolerations[0].operator", "operator must be Exists"),
        (PODS, pod(os={"name": "windows"}, securityContext={"runAsUser": 0}), "spec.securityContext.runAsUser",
         "cannot be set for a windows pod"),
        (PODS, pod(os={"name": "linux"}, securityContext={"windowsOptions": {}}), "spec.securityContext.windowsOptions",
         "cannot be set for a linux pod"),
        (PODS, host_process(), "spec.hostNetwork", "hostNetwork must be true"),
        (PODS, runs_as(""), "spec.securityContext.windowsOptions.runAsUserName", "cannot be an empty string"),
        (PODS, runs_as("a\\b\\c"), "spec.securityContext.windowsOptions.runAsUserName", "more than one backslash"),
        (PODS, runs_as("NT*\\SYSTEM"), "spec.securityContext.windowsOptions.runAsUserName", "NetBios nor the DNS"),
        (PODS, runs_as("NT AUTHORITY\\"), "spec.securityContext.windowsOptions.runAsUserName", "User cannot be empty"),
        (PODS, runs_as("some/one"), "spec.securityContext.windowsOptions.runAsUserName", "following characters"),
        (PODS, runs_as(".."), "spec.securityContext.windowsOptions.runAsUserName", "only periods or spaces"),
        (SERVICES, an_object(ports=[{"port": 0}]), "spec.ports[0].port", "must be between 1 and 65535"),
        (SERVICES, an_object(selector={"a": "b"}), "spec.ports", "Required value"),
        (SERVICES, an_object(ports=[{"port": 80}], externalTrafficPolicy="Local"), "spec.externalTrafficPolicy",
         "may only be set for externally-accessible services"),
        (SERVICES, an_object(ports=[{"port": 80}], type="NodePort", externalTrafficPolicy="Near"),
         "spec.externalTrafficPolicy", "Unsupported value"),
        (SERVICES, an_object(ports=[{"port": 80}, {"port": 81}]), "spec.ports[0].name", "Required value"),
        (SERVICES, an_object(ports=[{"port": 80}], clusterIP="1.2.3.4"), "spec.clusterIPs",
         "does not match the current range"),
        (SERVICES, an_object(ports=[{"port": 80}], clusterIP="10.96.0.1"), "spec.clusterIPs", "already allocated"),
        (SERVICES, an_object(type="NodePort", ports=[{"port": 80, "nodePort": 80}]), "spec.ports[0].nodePort",
         "The range of valid ports is 30000-32767"),
        (SERVICES, an_object("1x", ports=[{"port": 80}]), "metadata.name", "DNS-1035"),
        (SERVICES, an_object(ports=[{"port": 80}], type="Magic"), "spec.type", "supported values"),
        (DEPLOYMENTS, deployment({"a": "b"}, {"a": "c"}), "spec.template.metadata.labels", "does not match"),
        (DEPLOYMENTS, an_object(template={}), "spec.selector", "Required value"),
        (DEPLOYMENTS, rolling(0, 0), "spec.strategy.rollingUpdate.maxUnavailable", "may not be 0 when `maxSurge` is 0"),
        (DEPLOYMENTS, rolling("0%", 0), "spec.strategy.rollingUpdate.maxUnavailable", "may not be 0"),
        (DEPLOYMENTS, rolling("half", 0), "spec.strategy.rollingUpdate.maxUnavailable", "a valid percent string"),
        (POLICIES, an_object(ingress=[{"from": [{}]}]), "spec.ingress[0].from[0]", "must specify a peer"),
        (POLICIES, an_object(ingress=[{"from": [{"ipBlock": {"cidr": "10.0.0.0/33"}}]}]),
         "spec.ingress[0].from[0].ipBlock.cidr", "must be a valid CIDR"),
        (NP, rule(action="Accept"), "spec.ingress[0].action", '"Allow", "Deny", "Log", "Pass"'),
        (NP, rule(destination={"ports": [80]}), "spec.ingress[0].destination.ports", "must set protocol to TCP or UDP"),
        (NP, rule(protocol="TCPP"), "spec.ingress[0].protocol", "Unsupported value"),
        (NP, rule(source={"nets": ["10.0.0.0/99"]}), "spec.ingress[0].source.nets[0]", "invalid CIDR"),
        (NP, an_object(selector="bad ((("), "spec.selector", "no selector"),
        (NP, an_object("nowhere.x", tier="nowhere"), "spec.tier", "the tier does not exist"),
        (f"{CALICO}/ippools", an_object(cidr="10.0.0.0/99"), "spec.cidr", "CIDR"),
        (f"{CALICO}/ippools", an_object("x"), "spec.cidr", "Required value"),
        (f"{CALICO}/ippools", an_object(cidr="10.0.0.0/16", blockSize=10), "spec.blockSize", "between 20 and 32"),
        (f"{CALICO}/ippools", an_object(cidr="10.0.0.0/16", vxlanMode="Always", ipipMode="Always"), "spec.vxlanMode",
         "cannot both be enabled"),
        (f"{CALICO}/felixconfigurations", an_object("default", bpfLogLevel="x"), "spec.bpfLogLevel", "Unsupported value"),
        (NP, an_object(types=["Ingress", "Ingress"]), "spec.types", "type specified more than once"),
        (NP, rule(source={"services": {"name": "s"}, "selector": "all()"}), "spec.ingress[0].source.services",
         "cannot specify Selector/NotSelector and Services"),
        (f"{CALICO}/globalnetworkpolicies", an_object(preDNAT=True), "spec.applyOnForward", "must be true if either"),
        (NP, rule(source={"nets": ["10.0.0.1/8"]}), "spec.ingress[0].source.nets[0]", "invalid CIDR"),
        (NP, rule(source={"notNets": ["0.0.0.0/0"]}), "spec.ingress[0].source.notNets[0]", "catch-all CIDR"),
        (NP, rule(source={"nets": ["10.0.0.0/8", "fd00::/8"]}), "spec.ingress[0].source.nets", "both IPv4 and IPv6"),
        (NP, rule(ipVersion=6, source={"nets": ["10.0.0.0/8"]}), "spec.ingress[0].source.nets", "doesn't match CIDR"),
        (NP, rule(source={"namespaceSelector": "global() && has(a)"}), "spec.ingress[0].source.namespaceSelector",
         "by itself"),
        (NP, an_object(selector="global()"), "spec.selector", "only be used in an EntityRule"),
        (NP, rule(protocol="TCP", destination={"ports": [0]}), "spec.ingress[0].destination.ports[0]", "1 and 65535"),
        (NP, rule(protocol="UDP", http={"methods": ["GET"]}), "spec.ingress[0].protocol", "HTTP"),
        (NP, rule(action="Deny", http={"methods": ["GET"]}), "spec.ingress[0].http", "only valid for Allow"),
        (NP, rule(destination={"services": {"name": "s"}}), "spec.ingress[0].destination.services", "not allowed"),
        (f"{CALICO}/felixconfigurations", an_object("other"), "metadata.name", "must be 'default'"),
        (f"{CALICO}/tiers", an_object(defaultAction="Allow"), "spec.defaultAction", "supported values"),
        ("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "x"}, "data": {"a/b": "c"}}, "data[a/b]",
         "a valid config key"),
    ],
)  # fmt: skip
def test_a_wrong_field_is_refused_with_its_path(
    run: Any, path: str, body: Any, field: str, words: str
) -> None:
    async def scenario(api: Any) -> None:
        answer = await api.call("POST", f"{path}?fieldValidation=Strict", body)
        assert (answer.code, answer.body["reason"]) == (422, "Invalid"), answer.body
        causes = {cause["field"]: cause["message"] for cause in answer.body["details"]["causes"]}
        assert field in causes, causes
        assert words in f"{field}: {causes[field]}"
        assert field in answer.body["message"]

    run(scenario, selector_problem=lambda text: "no selector" if "((" in text else None)


def test_unknown_fields_are_dropped_with_a_warning_or_silently_when_asked_to(run: Any) -> None:
    async def scenario(api: Any) -> None:
        warned = await api.call("POST", PODS, container(imagee="x"))
        assert warned.code == 201
        assert warned.headers["Warning"] == r'299 - "unknown field \"spec.containers[0].imagee\""'
        assert "imagee" not in warned.body["spec"]["containers"][0]
        await api.call("DELETE", f"{PODS}/x")
        silent = await api.call("POST", f"{PODS}?fieldValidation=Ignore", container(imagee="x"))
        assert (silent.code, "Warning" in silent.headers) == (201, False)

    run(scenario)


def test_a_pod_gets_its_defaults(run: Any) -> None:
    async def scenario(api: Any) -> None:
        body = container(
            ports=[{"containerPort": 80}], resources={"limits": {"cpu": 1, "memory": "1Gi"}}
        )
        made = await api.create(PODS, body)
        spec = made["spec"]
        assert (spec["restartPolicy"], spec["dnsPolicy"], spec["serviceAccountName"]) == (
            "Always",
            "ClusterFirst",
            "default",
        )
        assert spec["containers"][0]["imagePullPolicy"] == "Always"
        assert spec["containers"][0]["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
        assert spec["containers"][0]["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}
        assert {item["key"] for item in spec["tolerations"]} == {
            "node.kubernetes.io/not-ready",
            "node.kubernetes.io/unreachable",
        }
        assert made["status"] == {"phase": "Pending", "qosClass": "Guaranteed"}

    run(scenario)


def test_a_toleration_can_be_added_to_a_pod_and_the_defaults_stay(run: Any) -> None:
    async def scenario(api: Any) -> None:
        await api.create(PODS, pod())
        more = {"spec": {"tolerations": [{"key": "z", "operator": "Exists"}]}}
        added = await api.patch(f"{PODS}/x", more, "strategic-merge-patch")
        assert added.code == 200
        keys = [item["key"] for item in added.body["spec"]["tolerations"]]
        assert keys == ["z", "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]

    run(scenario)


def test_quantities_are_shown_in_their_canonical_form(run: Any) -> None:
    async def scenario(api: Any) -> None:
        limits = {"cpu": "0.5", "memory": "1536Mi", "ephemeral-storage": "1000000Ki"}
        made = await api.create(
            PODS, container(resources={"limits": {**limits, "example.com/x": 2000}})
        )
        shown = made["spec"]["containers"][0]["resources"]["limits"]
        expected = {
            "cpu": "500m",
            "memory": "1536Mi",
            "ephemeral-storage": "1000000Ki",
            "example.com/x": "2k",
        }
        assert shown == expected

    run(scenario)


def test_a_pod_cannot_be_changed_much(run: Any) -> None:
    async def scenario(api: Any) -> None:
        await api.create(PODS, pod())
        image = await api.patch(
            f"{PODS}/x",
            {"spec": {"containers": [{"name": "c", "image": "new"}]}},
            "strategic-merge-patch",
        )
        assert image.code == 200
        refused = await api.patch(f"{PODS}/x", {"spec": {"hostNetwork": True}})
        assert refused.code == 422
        assert (
            "pod updates may not change fields other than `spec.containers[*].image`"
            in refused.body["message"]
        )

    run(scenario)


def test_a_service_keeps_its_address_and_ports_and_frees_them_at_the_end(run: Any) -> None:
    async def scenario(api: Any) -> None:
        fixed = an_object("dns", clusterIP="10.96.0.10", ports=[{"port": 53, "protocol": "UDP"}])
        assert (await api.create(SERVICES, fixed))["spec"]["clusterIPs"] == ["10.96.0.10"]
        made = await api.create(SERVICES, an_object("web", type="NodePort", ports=[{"port": 80}]))
        port = made["spec"]["ports"][0]
        assert (port["targetPort"], 30000 <= port["nodePort"] <= 32767) == (80, True)
        again = await api.call(
            "PUT", f"{SERVICES}/web", an_object("web", type="NodePort", ports=[{"port": 80}])
        )
        assert again.body["spec"]["clusterIP"] == made["spec"]["clusterIP"]
        assert again.body["spec"]["ports"][0]["nodePort"] == port["nodePort"]
        moved = await api.patch(
            f"{SERVICES}/web", {"spec": {"clusterIP": "10.96.9.9", "clusterIPs": ["10.96.9.9"]}}
        )
        assert (moved.code, "may not change once set" in moved.body["message"]) == (422, True)
        await api.call("DELETE", f"{SERVICES}/dns")
        assert (await api.call("POST", SERVICES, fixed)).code == 201
        headless = await api.create(
            SERVICES, an_object("headless", clusterIP="None", selector={"a": "b"})
        )
        assert headless["spec"]["clusterIP"] == "None"

    run(scenario)


def test_a_small_service_network_runs_out(run: Any) -> None:
    async def scenario(api: Any) -> None:
        codes = [
            (await api.call("POST", SERVICES, an_object(f"s{n}", ports=[{"port": 80}]))).code
            for n in range(6)
        ]
        assert codes == [201, 201, 201, 201, 201, 500]

    run(scenario, service_cidr="10.96.0.0/29")


@pytest.mark.parametrize(
    ("level", "body", "words"),
    [
        ("baseline", pod(hostNetwork=True), "host namespaces (hostNetwork=true)"),
        ("baseline", host_process(hostNetwork=True), "hostProcess (pod must not set"),
        (
            "baseline",
            container(securityContext={"privileged": True}),
            'privileged (container "c" must not set',
        ),
        (
            "baseline",
            pod(volumes=[{"name": "v", "hostPath": {"path": "/"}}]),
            'hostPath volumes (volume "v")',
        ),
        (
            "restricted",
            pod(),
            'runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true)',
        ),
    ],
)
def test_pod_security_refuses_what_the_level_forbids(
    run: Any, level: str, body: Any, words: str
) -> None:
    async def scenario(api: Any) -> None:
        labels = {"pod-security.kubernetes.io/enforce": level}
        await api.create("/api/v1/namespaces", {"metadata": {"name": "tight", "labels": labels}})
        refused = await api.call("POST", "/api/v1/namespaces/tight/pods", body)
        assert (refused.code, refused.body["reason"]) == (403, "Forbidden")
        assert refused.body["message"].startswith(
            f'pods "x" is forbidden: violates PodSecurity "{level}:latest": '
        )
        assert words in refused.body["message"]
        assert (await api.call("POST", PODS, body)).code == 201

    run(scenario)


def test_a_plain_windows_pod_passes_baseline(run: Any) -> None:
    async def scenario(api: Any) -> None:
        labels = {"pod-security.kubernetes.io/enforce": "baseline"}
        await api.create("/api/v1/namespaces", {"metadata": {"name": "tight", "labels": labels}})
        windows = pod(os={"name": "windows"}, nodeSelector={"kubernetes.io/os": "windows"})
        assert (await api.call("POST", "/api/v1/namespaces/tight/pods", windows)).code == 201

    run(scenario)


@pytest.mark.parametrize(
    "user",
    ["NT AUTHORITY\\SYSTEM", "NT AUTHORITY\\Local service", "ContainerUser", "corp.example\\x"],
)
def test_a_hostprocess_pod_runs_as_such_a_user(run: Any, user: str) -> None:
    async def scenario(api: Any) -> None:
        options = {"hostProcess": True, "runAsUserName": user}
        body = pod(
            os={"name": "windows"}, hostNetwork=True, securityContext={"windowsOptions": options}
        )
        assert (await api.call("POST", PODS, body)).code == 201

    run(scenario)


def test_a_pool_keeps_its_range_and_block_size(run: Any) -> None:
    path = f"{CALICO}/ippools"

    async def scenario(api: Any) -> None:
        made = await api.create(path, an_object("p", cidr="192.168.0.0/16"))
        assert (made["spec"]["blockSize"], made["spec"]["vxlanMode"]) == (26, "Never")
        size = await api.patch(f"{path}/p", {"spec": {"blockSize": 27}})
        assert (size.code, "IPPool BlockSize cannot be modified" in size.body["message"]) == (
            422,
            True,
        )
        overlap = await api.call("POST", path, an_object("q", cidr="192.168.4.0/24"))
        assert (overlap.code, "overlaps with IPPool(p)" in overlap.body["message"]) == (422, True)
        mode = await api.patch(f"{path}/p", {"spec": {"vxlanMode": "Always"}})
        assert mode.code == 200

    run(scenario)


def test_a_pod_needs_its_service_account_and_a_known_priority(run: Any) -> None:
    async def scenario(api: Any) -> None:
        missing = await api.call("POST", PODS, pod(serviceAccountName="ghost"))
        assert (missing.code, 'serviceaccount "ghost" not found' in missing.body["message"]) == (
            403,
            True,
        )
        unknown = await api.call("POST", PODS, pod(priorityClassName="vip"))
        assert (
            unknown.code,
            "no PriorityClass with name vip was found" in unknown.body["message"],
        ) == (403, True)
        critical = await api.create(PODS, pod(priorityClassName="system-node-critical"))
        assert critical["spec"]["priority"] == 2000001000

    run(scenario)


def test_a_status_with_gaps_is_filled_so_that_typed_clients_can_read_it(run: Any) -> None:
    async def scenario(api: Any) -> None:
        made = await api.create(
            "/api/v1/nodes",
            {"metadata": {"name": "n"}, "status": {"nodeInfo": {"kernelVersion": "6"}}},
        )
        assert made["status"]["nodeInfo"]["machineID"] == ""

    run(scenario)
