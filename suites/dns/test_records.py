# SPDX-License-Identifier: Apache-2.0
"""The cluster's DNS also answers over TCP, reports missing records as missing, and returns the
present pods of headless Services."""

from conformance.fixtures import OS, Expect, Services, UnreadyServers, WorkerPods
from conformance.marks import about, each_os, manifest, needs, other, verifies


@about("tcp")
@verifies("CONN-6", part="{client_os}, over TCP")
@each_os("client_os")
@manifest("services/cluster-ip.yaml")
def test_the_full_name_resolves_over_tcp(
    pods: WorkerPods, services: Services, expect: Expect, client_os: OS
) -> None:
    service = services.cluster_ip(pods.server("linux"))
    because = "answers that are too long for a datagram come over TCP, from the same server"
    name = service.full_name
    to = [service.cluster_ip]
    expect.resolves(pods.clients(client_os), name, to, over_tcp=True, because=because)


@verifies("CONN-6", part="{client_os}, no AAAA")
@each_os("client_os")
@manifest("services/cluster-ip.yaml")
def test_a_name_without_ipv6_address_is_answered(
    pods: WorkerPods, services: Services, expect: Expect, client_os: OS
) -> None:
    service = services.cluster_ip(pods.server("linux"))
    because = "resolvers query A and AAAA records, and wait for both answers"
    expect.resolves(pods.clients(client_os), service.full_name, [], record="AAAA", because=because)


@verifies("CONN-6", part="{client_os}, port by name and name by address", provisional=True)
@each_os("client_os")
@manifest("services/cluster-ip.yaml")
def test_a_ports_name_leads_to_its_number_and_an_address_to_its_name(
    pods: WorkerPods, services: Services, expect: Expect, client_os: OS
) -> None:
    service = services.cluster_ip(pods.server("linux"))
    clients = pods.clients(client_os)
    because = "the cluster's DNS has an SRV record for each named port of a Service, and a PTR record for its address"
    port = f"_other._tcp.{service.full_name}"
    name = f"{service.full_name}."
    expect.resolves(clients, port, [f"0 100 81 {name}"], record="SRV", because=because)
    expect.resolves(clients, service.cluster_ip, [name], record="PTR", because=because)


@verifies("CONN-6", part="{client_os}, headless")
@each_os("client_os")
@needs(linux=2)
@manifest("services/headless.yaml")
def test_a_headless_name_follows_its_pods(
    pods: WorkerPods,
    services: Services,
    unready_servers: UnreadyServers,
    expect: Expect,
    client_os: OS,
) -> None:
    clients = pods.clients(client_os)
    servers = pods.servers(other(client_os))
    unready_servers.beside(servers)
    before = services.headless(servers)
    because = "the name of a Service without a ClusterIP resolves to the pods that are ready"
    expect.resolves(clients, before.full_name, before.addresses, because=because)
    after = services.headless(servers.one_per_os())
    expect.resolves(
        clients, after.full_name, after.addresses, because="one pod of the Service remains"
    )
