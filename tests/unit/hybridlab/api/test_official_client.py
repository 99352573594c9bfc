# SPDX-License-Identifier: Apache-2.0
"""The official Python client reads everything the server writes, with its models validating."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.hybridlab.builders import a_deployment

client = pytest.importorskip("kubernetes.client")


@pytest.fixture
def session(threaded: Any) -> Any:
    configuration = client.Configuration(host=threaded.url)
    configuration.ssl_ca_cert = str(threaded.ca_file)
    configuration.api_key = {"authorization": "Bearer admin-token"}
    configuration.api_key_prefix = {}
    with client.ApiClient(configuration) as made:
        yield made


def test_its_models_accept_what_the_server_makes(threaded: Any, session: Any) -> None:
    core, apps = client.CoreV1Api(session), client.AppsV1Api(session)
    assert core.list_namespace().items[0].metadata.name == "default"
    threaded.call(threaded.api.running_pod("p"))
    pod = core.read_namespaced_pod("p", "default")
    assert (pod.status.container_statuses[0].ready, pod.status.container_statuses[0].image_id) == (
        True,
        "",
    )
    assert (
        apps.create_namespaced_deployment("default", a_deployment("d")).spec.strategy.type
        == "RollingUpdate"
    )
    assert (
        apps.patch_namespaced_deployment_scale(
            "d", "default", {"spec": {"replicas": 4}}
        ).spec.replicas
        == 4
    )
    for resource in (
        client.ApiextensionsV1Api(session).list_custom_resource_definition,
        client.ApiregistrationV1Api(session).list_api_service,
        client.RbacAuthorizationV1Api(session).list_cluster_role,
        client.RbacAuthorizationV1Api(session).list_cluster_role_binding,
        core.list_service_for_all_namespaces,
        core.list_service_account_for_all_namespaces,
        core.list_config_map_for_all_namespaces,
    ):
        assert resource().items


def test_every_kind_with_the_least_that_a_user_must_write_is_readable_by_it(
    threaded: Any, session: Any
) -> None:
    core, rbac = client.CoreV1Api(session), client.RbacAuthorizationV1Api(session)
    status = {"conditions": [{"type": "Ready"}], "nodeInfo": {}}
    user = {"kind": "User", "name": "u"}
    least: list[tuple[str, Any, dict[str, Any]]] = [
        ("nodes", core.list_node, {"status": status}),
        ("endpointslices.discovery.k8s.io", client.DiscoveryV1Api(session).list_endpoint_slice_for_all_namespaces,
         {"addressType": "IPv4"}),
        ("endpoints", core.list_endpoints_for_all_namespaces, {"subsets": [{"addresses": [{"ip": "10.0.0.1"}]}]}),
        ("networkpolicies.networking.k8s.io", client.NetworkingV1Api(session).list_network_policy_for_all_namespaces,
         {"spec": {}}),
        ("poddisruptionbudgets.policy", client.PolicyV1Api(session).list_pod_disruption_budget_for_all_namespaces,
         {"spec": {"minAvailable": 1}}),
        ("leases.coordination.k8s.io", client.CoordinationV1Api(session).list_lease_for_all_namespaces, {}),
        ("secrets", core.list_secret_for_all_namespaces, {"stringData": {"a": "b"}}),
        ("events", core.list_event_for_all_namespaces, {"involvedObject": {"namespace": "default"}}),
        ("roles.rbac.authorization.k8s.io", rbac.list_role_for_all_namespaces, {}),
        ("rolebindings.rbac.authorization.k8s.io", rbac.list_role_binding_for_all_namespaces,
         {"roleRef": {"kind": "Role", "name": "x"}, "subjects": [user]}),
    ]  # fmt: skip
    component = threaded.api.server.client("component")
    for resource, read, fields in least:
        namespace = None if resource == "nodes" else "default"
        threaded.call(
            component.create(resource, {"metadata": {"name": "least"}, **fields}, namespace)
        )
        assert "least" in {item.metadata.name for item in read().items}, resource


def test_a_refusal_reaches_the_user_as_the_client_raises_it(session: Any) -> None:
    with pytest.raises(client.ApiException) as caught:
        client.CoreV1Api(session).read_namespaced_pod("none", "default")
    assert (caught.value.status, 'pods \\"none\\" not found' in caught.value.body) == (404, True)
