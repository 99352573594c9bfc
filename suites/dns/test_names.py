# SPDX-License-Identifier: Apache-2.0
"""Pods of either system find a Service by DNS: by its full name, and by its short name in their own
namespace.
"""

from conformance.fixtures import OS, Case, Commands, Expect, Services, WindowsNodes, WorkerPods
from conformance.marks import each_build, each_os, manifest, verifies

pytestmark = [manifest("services/cluster-ip.yaml")]

BECAUSE = "the cluster's DNS knows every Service, and pods ask it"


@verifies("CONN-6", part="{client_os}, full name")
@each_os("client_os")
def test_the_full_name_is_the_cluster_ip(
    pods: WorkerPods, services: Services, expect: Expect, client_os: OS
) -> None:
    service = services.cluster_ip(pods.server("linux"))
    expect.resolves(
        pods.clients(client_os), service.full_name, [service.cluster_ip], because=BECAUSE
    )


@verifies("CONN-6", part="{client_os}, short name")
@each_os("client_os")
def test_the_short_name_is_the_cluster_ip(
    pods: WorkerPods, services: Services, expect: Expect, client_os: OS
) -> None:
    service = services.cluster_ip(pods.server("linux"))
    expect.resolves(pods.clients(client_os), service.name, [service.cluster_ip], because=BECAUSE)


@each_build("CONN-6", part="short name by Windows' own resolver, {build}")
def test_windows_itself_finds_the_short_name(
    *,
    pods: WorkerPods,
    windows_nodes: WindowsNodes,
    services: Services,
    expect: Expect,
    command: Commands,
    builds: str,
) -> None:
    clients = pods.clients("windows").at(*windows_nodes.of_build(builds)).one_per_build()
    service = services.cluster_ip(pods.server("linux"))
    expect.resolves(clients, service.full_name, [service.cluster_ip], because=BECAUSE)
    because = "applications query Windows' resolver, which has the suffix of the pod's namespace"
    command.windows_resolves(clients, service.name, [service.cluster_ip], because=because)


@verifies("CONN-6", part="{client_os}, short name from elsewhere")
@each_os("client_os")
def test_a_pod_does_not_find_a_short_name_of_another_namespace(
    pods: WorkerPods, services: Services, expect: Expect, client_os: OS
) -> None:
    service = services.cluster_ip(pods.server("linux"))
    because = (
        "pods have only the suffix of their own namespace, and that namespace has no Service of "
        "this name"
    )
    expect.resolves(pods.elsewhere(client_os), service.name, [], because=because)


@verifies("CONN-6", part="linux, name and namespace")
def test_linux_pods_find_a_name_with_its_namespace_from_elsewhere(
    pods: WorkerPods, services: Services, expect: Expect
) -> None:
    service = services.cluster_ip(pods.server("linux"))
    because = (
        "Linux pods search the domain of all Services; Windows pods have only the suffix of their "
        "own namespace"
    )
    expect.resolves(
        pods.elsewhere("linux"), service.name_and_namespace, [service.cluster_ip], because=because
    )


@verifies("CONN-6", part="linux, name, namespace and svc")
def test_linux_pods_find_a_name_without_the_clusters_domain_from_elsewhere(
    pods: WorkerPods, services: Services, expect: Expect
) -> None:
    service = services.cluster_ip(pods.server("linux"))
    because = (
        "Linux pods also search the cluster's domain; Windows pods have only the suffix of their "
        "own namespace"
    )
    expect.resolves(
        pods.elsewhere("linux"), service.name_in_the_cluster, [service.cluster_ip], because=because
    )


@verifies("CONN-6", part="{client_os}, by name to the server")
@each_os("client_os")
def test_the_name_leads_to_the_server(
    pods: WorkerPods, services: Services, expect: Expect, client_os: OS
) -> None:
    clients = pods.clients(client_os)
    servers = pods.servers("windows")
    expect.matrix(Case(clients, servers, through=services.by_name, open=True, because=BECAUSE))


@manifest("services/external-name.yaml")
@verifies("CONN-6", part="{client_os}, ExternalName", provisional=True)
@each_os("client_os")
def test_another_name_of_a_service_leads_to_its_cluster_ip(
    pods: WorkerPods, services: Services, expect: Expect, client_os: OS
) -> None:
    service = services.cluster_ip(pods.server("linux"))
    other = services.another_name(service)
    because = "the Service of type ExternalName is an alias of this Service"
    expect.resolves(pods.clients(client_os), other.full_name, [service.cluster_ip], because=because)
