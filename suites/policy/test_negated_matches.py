# SPDX-License-Identifier: Apache-2.0
"""Windows cannot express a negated match, and leaves the whole rule out: clients that it allows
stay denied.

Each part has a port of its own on the same servers; Linux enforces the part's rule, which shows
that the rule is in force.
"""

from conformance.fixtures import Case, Expect, Policy, WorkerPods
from conformance.marks import manifest, needs, verifies

EXCEPT = "except"
NAME = "kubernetes: a name"
NETS = "notNets"
PORTS = "notPorts"
SELECTOR = "notSelector alone"
PORT_NAMES = "notPorts by name"
PROTOCOL = "notProtocol"
READ = "the rule for 8080 admits this client, and every system reads it"
NOT_READ = "the rule for 8080 does not admit this client"
NOT_SELECTED = "no policy selects clients"
LINUX = "Linux enforces the rule of this port, which admits this client"
NOT_LINUX = "Linux enforces the rule of this port, which does not admit this client"
LEFT_OUT = (
    "Windows leaves out the rule because of its negated match, and no other rule admits anybody"
)
NO_NAME = "Windows leaves out the rule because of its port name, and no other rule admits anybody"
NOBODY = "no rule admits this client, with or without the rule that Windows leaves out"


@manifest("policy/limits/kubernetes.yaml")
@verifies("XPOL-1", part=EXCEPT)
@verifies("XPOL-4", part=NAME)
def test_a_kubernetes_rule_with_an_exception_or_a_ports_name_lets_nobody_in(
    pods: WorkerPods, policy: Policy, expect: Expect
) -> None:
    friend = pods.client("linux")
    other = pods.client("windows")
    linux = pods.servers("linux").one_per_os()
    windows = pods.servers("windows").one_per_build()
    expect.limitation(
        policy.filled(friend=friend, stranger=other),
        Case(friend, linux + windows, tcp=8080, open=True, witness=True, because=READ),
        Case(other, linux + windows, tcp=8080, open=False, witness=True, because=NOT_READ),
        Case(other, friend, tcp=8080, open=True, witness=True, because=NOT_SELECTED),
        Case(friend, linux, tcp=8081, open=True, part=EXCEPT, witness=True, because=LINUX),
        Case(other, linux, tcp=8081, open=False, part=EXCEPT, witness=True, because=NOT_LINUX),
        Case(friend, windows, tcp=8081, open=False, part=EXCEPT, because=LEFT_OUT),
        Case(other, windows, tcp=8081, open=False, part=EXCEPT, always=True, because=NOBODY),
        Case(friend, linux, tcp=8087, open=True, part=NAME, witness=True, because=LINUX),
        Case(other, linux, tcp=8087, open=False, part=NAME, witness=True, because=NOT_LINUX),
        Case(friend, windows, tcp=8087, open=False, part=NAME, because=NO_NAME),
        Case(other, windows, tcp=8087, open=False, part=NAME, always=True, because=NOBODY),
    )


@manifest("policy/limits/negated.yaml")
@needs(v3_api=True)
@verifies("XPOL-1", part=NETS)
@verifies("XPOL-1", part=PORTS)
@verifies("XPOL-1", part=SELECTOR)
@verifies("XPOL-1", part=PORT_NAMES)
def test_a_calico_rule_with_a_negated_match_lets_nobody_in(
    pods: WorkerPods, policy: Policy, expect: Expect
) -> None:
    friend = pods.client("linux")
    other = pods.client("windows")
    linux = pods.servers("linux").one_per_os()
    windows = pods.servers("windows").one_per_build()
    expect.limitation(
        policy.filled(friend=friend, stranger=other),
        Case(friend, linux + windows, tcp=8080, open=True, witness=True, because=READ),
        Case(other, linux + windows, tcp=8080, open=False, witness=True, because=NOT_READ),
        Case(other, friend, tcp=8080, open=True, witness=True, because=NOT_SELECTED),
        Case(friend, linux, tcp=8081, open=True, part=NETS, witness=True, because=LINUX),
        Case(other, linux, tcp=8081, open=False, part=NETS, witness=True, because=NOT_LINUX),
        Case(friend, windows, tcp=8081, open=False, part=NETS, because=LEFT_OUT),
        Case(other, windows, tcp=8081, open=False, part=NETS, always=True, because=NOBODY),
        Case(friend, linux, tcp=8082, open=True, part=PORTS, witness=True, because=LINUX),
        Case(other, linux, tcp=8082, open=False, part=PORTS, witness=True, because=NOT_LINUX),
        Case(friend, windows, tcp=8082, open=False, part=PORTS, because=LEFT_OUT),
        Case(other, windows, tcp=8082, open=False, part=PORTS, always=True, because=NOBODY),
        Case(friend, linux, tcp=8083, open=True, part=SELECTOR, witness=True, because=LINUX),
        Case(other, linux, tcp=8083, open=False, part=SELECTOR, witness=True, because=NOT_LINUX),
        Case(friend, windows, tcp=8083, open=False, part=SELECTOR, because=LEFT_OUT),
        Case(other, windows, tcp=8083, open=False, part=SELECTOR, always=True, because=NOBODY),
        Case(friend, linux, tcp=8084, open=True, part=PORT_NAMES, witness=True, because=LINUX),
        Case(other, linux, tcp=8084, open=False, part=PORT_NAMES, witness=True, because=NOT_LINUX),
        Case(friend, windows, tcp=8084, open=False, part=PORT_NAMES, because=LEFT_OUT),
        Case(other, windows, tcp=8084, open=False, part=PORT_NAMES, always=True, because=NOBODY),
    )


@manifest("policy/limits/not_protocol.yaml")
@needs(calico_policy=True)
@verifies("XPOL-1", part=PROTOCOL)
def test_a_rule_for_all_protocols_but_one_lets_nobody_in(
    pods: WorkerPods, policy: Policy, expect: Expect
) -> None:
    friend = pods.client("linux")
    other = pods.client("windows")
    linux = pods.servers("linux").one_per_os()
    windows = pods.servers("windows").one_per_build()
    expect.limitation(
        policy.filled(friend=friend),
        Case(friend, linux + windows, tcp=8080, open=True, witness=True, because=READ),
        Case(other, linux + windows, tcp=8080, open=False, witness=True, because=NOT_READ),
        Case(other, friend, tcp=8080, open=True, witness=True, because=NOT_SELECTED),
        Case(friend, linux, tcp=8081, open=True, part=PROTOCOL, witness=True, because=LINUX),
        Case(other, linux, tcp=8081, open=False, part=PROTOCOL, witness=True, because=NOT_LINUX),
        Case(friend, windows, tcp=8081, open=False, part=PROTOCOL, because=LEFT_OUT),
        Case(other, windows, tcp=8081, open=False, part=PROTOCOL, always=True, because=NOBODY),
    )
