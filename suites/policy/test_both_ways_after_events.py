# SPDX-License-Identifier: Apache-2.0
"""Calico's policy for both directions is in force after changes of labels, Services and unrelated
objects: by TCP, UDP and ping."""

from conformance.fixtures import (
    Case,
    Expect,
    ExternalPaths,
    PassingServices,
    Policy,
    RelabelNamespaces,
    WorkerPods,
)
from conformance.marks import about, manifest, needs, verifies

IN = "one rule lets this client in, whatever other labels and Services there are"
NOT_IN = "no rule lets these clients in, whatever other labels and Services there are"
OUT = "one rule lets the servers out to this client"
NOT_OUT = "no rule lets the servers out to these clients"
NOT_SELECTED = "no policy selects this client"
BACKENDS = "the Service's backends let this client in"


@about("clusterip")
@needs(calico_policy=True)
@manifest("policy/over-time/friends_alone.yaml")
@verifies("POL-1", part="after an event: both ways, and ping", provisional=True)
def test_who_is_kept_out_or_in_stays_so_by_tcp_udp_and_ping(
    *,
    pods: WorkerPods,
    policy: Policy,
    relabel_namespaces: RelabelNamespaces,
    passing_services: PassingServices,
    expect: Expect,
    external: ExternalPaths,
) -> None:
    linux = pods.servers("linux")
    windows = pods.servers("windows")
    servers = linux + windows
    allowed = pods.clients("linux").one_per_os()
    others = pods.clients("windows")
    elsewhere = pods.elsewhere("linux")
    pings = (others + elsewhere).in_turns_to(servers)
    cases = [
        Case(allowed, servers, tcp=8080, udp=8080, open=True, because=IN),
        Case(allowed, servers, tcp=8081, udp=8081, open=True, because=IN),
        Case(others, servers, tcp=8080, udp=8080, open=False, because=NOT_IN),
        Case(elsewhere, servers, tcp=8081, udp=8081, open=False, because=NOT_IN),
        Case(servers, allowed, tcp=8080, udp=8080, open=True, because=OUT),
        Case(servers, others + elsewhere, tcp=8080, udp=8080, open=False, because=NOT_OUT),
        Case(others + elsewhere, allowed, tcp=8080, udp=8080, open=True, because=NOT_SELECTED),
    ]
    external.before(pings)
    expect.base(policy.filled(friend=allowed), *cases)
    relabel_namespaces.add_irrelevant_labels(*servers, *others, *elsewhere, after=policy.stir)
    came = passing_services.come(linux, windows)
    expect.matrix(*cases, Case(allowed, came, open=True, because=BACKENDS), lasts=False)
    moved = passing_services.come(windows, linux)
    external.ping(
        pings,
        want=False,
        because=NOT_IN,
        meanwhile=lambda: expect.matrix(*cases, Case(allowed, moved, open=True, because=BACKENDS)),
    )
