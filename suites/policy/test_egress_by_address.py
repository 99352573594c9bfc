# SPDX-License-Identifier: Apache-2.0
"""Egress rules with an address, a protocol and a port open exactly this port of this address,
and nothing else."""

from conformance.fixtures import Case, Expect, Policy, WorkerPods
from conformance.marks import about, either_policy_api, verifies

LINUX = "linux client"
WINDOWS = "windows client"
ALL_MATCH = "one rule has this address, this protocol and this port"
ALL_BUT_ONE = "each rule of this address has another protocol or another port"


@about("tcp", "udp")
@either_policy_api("egress_by_address_and_port")
@verifies("POL-1", part="{policy}: egress by address and port, linux client")
@verifies("POL-1", part="{policy}: egress by address and port, windows client")
def test_only_the_allowed_port_of_each_address_is_reached(
    pods: WorkerPods, policy: Policy, expect: Expect
) -> None:
    linux = pods.clients("linux")
    windows = pods.clients("windows")
    not_selected = pods.elsewhere("linux") + pods.elsewhere("windows")
    streams = pods.servers("linux")
    datagrams = pods.servers("windows")
    expect.change(
        policy.filled(client=linux + windows, server=streams, bystander=datagrams),
        Case(linux, streams, tcp=8080, open=True, part=LINUX, because=ALL_MATCH),
        Case(linux, datagrams, udp=8080, open=True, part=LINUX, because=ALL_MATCH),
        Case(linux, streams, tcp=80, udp=8080, open=False, part=LINUX, because=ALL_BUT_ONE),
        Case(linux, datagrams, tcp=8080, open=False, part=LINUX, because=ALL_BUT_ONE),
        Case(windows, streams, tcp=8080, open=True, part=WINDOWS, because=ALL_MATCH),
        Case(windows, datagrams, udp=8080, open=True, part=WINDOWS, because=ALL_MATCH),
        Case(windows, streams, tcp=80, udp=8080, open=False, part=WINDOWS, because=ALL_BUT_ONE),
        Case(windows, datagrams, tcp=8080, open=False, part=WINDOWS, because=ALL_BUT_ONE),
        Case(not_selected, datagrams, tcp=8080, open=True, because="no policy selects these pods"),
    )
    expect.removed(policy, because="without a policy everything is allowed")
