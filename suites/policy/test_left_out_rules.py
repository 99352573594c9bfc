# SPDX-License-Identifier: Apache-2.0
"""Windows leaves some rules out: such a Deny denies nothing, an Allow or a Pass admits nothing, and
the next rule decides.

Each part has a port of its own on the same servers; Linux enforces the part's rules, which shows
that they are in force.
"""

from conformance.fixtures import Case, Expect, Policy, WorkerPods
from conformance.marks import manifest, needs, verifies

DENY = "Deny"
ALLOW = "Allow"
PASS = "Pass"
NAME_AND_NUMBER = "a name beside a number"
NAME = "a name"
LOG = "Log"
IP_VERSION = "ipVersion"
NETWORK = "network"
METHODS = "methods"
READ = "the rule for 8080 admits this client, and every system reads it"
NOT_READ = "the rule for 8080 does not admit this client"
NOT_SELECTED = "no policy selects clients"
LINUX = "Linux enforces the rules of this port, which admit this client"
NOT_LINUX = "Linux enforces the rules of this port, which do not admit this client"
NO_DENY = (
    "Windows leaves out the Deny rule, whose match is negated, and the next rule admits everybody"
)
NO_ALLOW = (
    "Windows leaves out the Allow rule, whose match is negated, and no other rule admits anybody"
)
NO_PASS = "Windows leaves out the Pass rule, whose match is negated, and the end of the tier denies"
NO_NAME = "Windows leaves out a rule with a port name, and no other rule admits anybody"
NO_METHODS = (
    "Windows ignores the HTTP methods, and the rule admits this client whatever it requests"
)
NEXT = "Windows leaves out the first rule, and the next rule admits this client"
NOT_NEXT = "Windows leaves out the first rule, and the next rule does not admit this client"
NOBODY = "no rule admits this client, with or without the rule that Windows leaves out"
ANYBODY = "this client is admitted, with or without the rule that Windows leaves out"


@manifest("policy/limits/left_out.yaml")
@needs(calico_policy=True)
@verifies("XPOL-2", part=DENY)
@verifies("XPOL-2", part=ALLOW)
@verifies("XPOL-4", part=NAME_AND_NUMBER)
@verifies("XPOL-4", part=NAME)
@verifies("XPOL-5", part=LOG)
@verifies("XPOL-9", part=IP_VERSION)
@verifies("XPOL-9", part=NETWORK)
@verifies("UNSUP-2", part=METHODS)
def test_windows_decides_by_the_rules_that_are_left(
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
        Case(friend, linux, tcp=8081, open=True, part=DENY, witness=True, because=LINUX),
        Case(other, linux, tcp=8081, open=False, part=DENY, witness=True, because=NOT_LINUX),
        Case(other, windows, tcp=8081, open=True, part=DENY, because=NO_DENY),
        Case(friend, windows, tcp=8081, open=True, part=DENY, always=True, because=ANYBODY),
        Case(friend, linux, tcp=8082, open=True, part=ALLOW, witness=True, because=LINUX),
        Case(other, linux, tcp=8082, open=False, part=ALLOW, witness=True, because=NOT_LINUX),
        Case(friend, windows, tcp=8082, open=False, part=ALLOW, because=NO_ALLOW),
        Case(other, windows, tcp=8082, open=False, part=ALLOW, always=True, because=NOBODY),
        Case(friend, linux, tcp=8083, open=True, part=NAME_AND_NUMBER, witness=True, because=LINUX),
        Case(
            other,
            linux,
            tcp=8083,
            open=False,
            part=NAME_AND_NUMBER,
            witness=True,
            because=NOT_LINUX,
        ),
        Case(friend, windows, tcp=8083, open=False, part=NAME_AND_NUMBER, because=NO_NAME),
        Case(
            other, windows, tcp=8083, open=False, part=NAME_AND_NUMBER, always=True, because=NOBODY
        ),
        Case(friend, linux, tcp=8087, open=True, part=NAME, witness=True, because=LINUX),
        Case(other, linux, tcp=8087, open=False, part=NAME, witness=True, because=NOT_LINUX),
        Case(friend, windows, tcp=8087, open=False, part=NAME, because=NO_NAME),
        Case(other, windows, tcp=8087, open=False, part=NAME, always=True, because=NOBODY),
        Case(friend, linux, tcp=8084, open=True, part=LOG, witness=True, because=LINUX),
        Case(other, linux, tcp=8084, open=False, part=LOG, witness=True, because=NOT_LINUX),
        Case(friend, windows, tcp=8084, open=True, part=LOG, always=True, because=NEXT),
        Case(other, windows, tcp=8084, open=False, part=LOG, always=True, because=NOT_NEXT),
        Case(friend, linux, tcp=8085, open=True, part=IP_VERSION, witness=True, because=LINUX),
        Case(other, linux, tcp=8085, open=False, part=IP_VERSION, witness=True, because=NOT_LINUX),
        Case(friend, windows, tcp=8085, open=True, part=IP_VERSION, always=True, because=NEXT),
        Case(other, windows, tcp=8085, open=False, part=IP_VERSION, always=True, because=NOT_NEXT),
        Case(friend, linux, tcp=8086, open=True, part=NETWORK, witness=True, because=LINUX),
        Case(other, linux, tcp=8086, open=False, part=NETWORK, witness=True, because=NOT_LINUX),
        Case(friend, windows, tcp=8086, open=True, part=NETWORK, always=True, because=NEXT),
        Case(other, windows, tcp=8086, open=False, part=NETWORK, always=True, because=NOT_NEXT),
        Case(friend, windows, tcp=8088, open=True, part=METHODS, because=NO_METHODS),
        Case(other, windows, tcp=8088, open=False, part=METHODS, always=True, because=NOBODY),
    )


@manifest("policy/limits/left_out_pass.yaml")
@needs(v3_api=True)
@verifies("XPOL-2", part=PASS)
def test_what_a_left_out_pass_would_pass_ends_with_the_tier(
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
        Case(friend, linux, tcp=8081, open=True, part=PASS, witness=True, because=LINUX),
        Case(other, linux, tcp=8081, open=False, part=PASS, witness=True, because=NOT_LINUX),
        Case(friend, windows, tcp=8081, open=False, part=PASS, because=NO_PASS),
        Case(other, windows, tcp=8081, open=False, part=PASS, always=True, because=NOBODY),
    )
