# SPDX-License-Identifier: Apache-2.0
"""A Service of type LoadBalancer leads to its backends at its assigned address."""

from conformance.fixtures import OS, Backends, LoadBalancers, WorkerPods
from conformance.marks import each_os, manifest, needs, verifies


@each_os("server_os")
@manifest("services/load-balancer.yaml")
@needs(load_balancer=True)
@verifies("XSVC-10", part="{server_os} backends")
def test_a_load_balancers_address_leads_to_each_backend(
    pods: WorkerPods, backends: Backends, load_balancers: LoadBalancers, server_os: OS
) -> None:
    clients = pods.clients("linux") + pods.clients("windows")
    front = load_balancers.over(pods.servers(server_os))
    because = "kube-proxy of each node leads the address of a load balancer to the Service's pods"
    backends.all_used(clients, front, because=because)
