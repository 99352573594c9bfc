# SPDX-License-Identifier: Apache-2.0
"""When a field of a policy is edited in place, its new value is in force: paths open and close
according to that value.

XPOL-12 is about a rule's action and ports; XPOL-13 is about both in a later tier, and is tested
here together with the fields of POL-1.
"""

from conformance.fixtures import Case, Expect, Policy, Relabel, WorkerPods
from conformance.marks import manifest, needs, verifies

pytestmark = [needs(calico_policy=True)]

LINUX = "app == 'linux-client'"
WINDOWS = "app == 'windows-client'"
ELSEWHERE = "conformance/team == 'elsewhere'"
SERVERS = "app in {'linux-server', 'windows-server'}"
NOT_SELECTED = "no policy selects this client"
SELECTED = "the rule's selectors now match these clients"
NO_MATCH = "the rule's selectors no longer match these clients"
ALLOWED = (
    "the policy of order 20 allows everybody, and no policy that is evaluated before it denies "
    "these clients"
)
DENIED = (
    "the policy of order 10 denies all ingress; it is evaluated before the policy of order 20, "
    "which allows everybody"
)
LEAVES = "the policy of order 10 now applies to egress, and denies all egress"
NO_EGRESS = "no policy that selects the servers applies to egress"
IN_THE_SET = "the set has this address or a network that contains it"
NOT_IN_THE_SET = "the set has neither these addresses nor a network that contains them"
HAS_THE_LABEL = "the client has the label that the rule selects, as the set has"


@manifest("policy/over-time/edited_port_behind_a_tier.yaml")
@needs(v3_api=True)
@verifies("XPOL-13", part="edited port", provisional=True)
def test_the_port_that_a_rule_behind_a_tier_names_now_is_open(
    pods: WorkerPods, policy: Policy, expect: Expect
) -> None:
    clients = pods.clients("windows")
    servers = pods.servers("linux") + pods.servers("windows")
    other = pods.clients("linux").one_per_os()
    expect.base(
        policy.filled(port="8080"),
        Case(clients, servers, tcp=8080, open=True, because="the second tier's rule opens 8080"),
        Case(clients, servers, tcp=80, open=False, because="the second tier opens only 8080"),
        Case(clients, other, tcp=8080, open=True, because=NOT_SELECTED),
    )
    expect.change(
        policy.filled(port="80"),
        Case(clients, servers, tcp=80, open=True, because="the rule's port is now 80"),
        Case(clients, servers, tcp=8080, open=False, because="the rule's only port is now 80"),
        Case(clients, other, tcp=8080, open=True, because=NOT_SELECTED),
    )


@manifest("policy/over-time/edited_peers.yaml")
@verifies("POL-1", part="calico: edited selectors of a rule", provisional=True)
def test_whom_a_rule_selects_now_enters_and_whom_it_selected_does_no_more(
    pods: WorkerPods, policy: Policy, expect: Expect
) -> None:
    linux = pods.clients("linux").one_per_os()
    windows = pods.clients("windows")
    away = pods.elsewhere("windows")
    servers = pods.servers("linux") + pods.servers("windows")
    own = f"kubernetes.io/metadata.name == '{pods.namespace}'"
    expect.base(
        policy.filled(pods=LINUX, namespaces=own),
        Case(linux, servers, tcp=8080, udp=8080, open=True, because=SELECTED),
        Case(windows + away, servers, tcp=8080, udp=8080, open=False, because=NO_MATCH),
        Case(windows + away, linux, tcp=8080, udp=8080, open=True, because=NOT_SELECTED),
    )
    expect.change(
        policy.filled(pods=WINDOWS, namespaces=own),
        Case(windows, servers, tcp=8080, udp=8080, open=True, because=SELECTED),
        Case(linux + away, servers, tcp=8080, udp=8080, open=False, because=NO_MATCH),
        Case(linux + away, windows, tcp=8080, udp=8080, open=True, because=NOT_SELECTED),
        lasts=False,
    )
    expect.change(
        policy.filled(pods=WINDOWS, namespaces=ELSEWHERE),
        Case(away, servers, tcp=8080, udp=8080, open=True, because=SELECTED),
        Case(linux + windows, servers, tcp=8080, udp=8080, open=False, because=NO_MATCH),
        Case(linux + windows, away, tcp=8080, udp=8080, open=True, because=NOT_SELECTED),
    )


@manifest("policy/over-time/edited_place.yaml")
@verifies("POL-1", part="calico: edited order, types and selector of a policy", provisional=True)
def test_a_policy_is_asked_where_for_what_and_about_whom_it_says_now(
    pods: WorkerPods, policy: Policy, expect: Expect
) -> None:
    clients = pods.clients("windows")
    servers = pods.servers("linux") + pods.servers("windows")
    other = pods.clients("linux").one_per_os()
    expect.change(
        policy.filled(order=30, selected=SERVERS, direction="Ingress"),
        Case(clients, servers, tcp=8080, udp=8080, open=True, because=ALLOWED),
        Case(servers, other, tcp=8080, open=True, because=NO_EGRESS),
        lasts=False,
    )
    expect.change(
        policy.filled(order=10, selected=SERVERS, direction="Ingress"),
        Case(clients, servers, tcp=8080, udp=8080, open=False, because=DENIED),
        Case(clients, other, tcp=8080, udp=8080, open=True, because=ALLOWED),
        Case(servers, other, tcp=8080, open=True, because=NO_EGRESS),
        lasts=False,
    )
    expect.change(
        policy.filled(order=10, selected=SERVERS, direction="Egress"),
        Case(clients, servers, tcp=8080, udp=8080, open=True, because=ALLOWED),
        Case(clients, other, tcp=8080, udp=8080, open=True, because=ALLOWED),
        Case(servers, other, tcp=8080, open=False, because=LEAVES),
        lasts=False,
    )
    expect.change(
        policy.filled(order=10, selected="app == 'nobody'", direction="Egress"),
        Case(clients, servers, tcp=8080, udp=8080, open=True, because=ALLOWED),
        Case(servers, other, tcp=8080, open=True, because=NO_EGRESS),
    )


@manifest("policy/over-time/edited_network_set.yaml")
@needs(v3_api=True)
@verifies("POL-1", part="calico: edited networks of a NetworkSet", provisional=True)
def test_who_is_in_a_network_set_now_enters_and_who_was_does_no_more(
    pods: WorkerPods, policy: Policy, expect: Expect
) -> None:
    linux = pods.clients("linux").one_per_os()
    windows = pods.clients("windows")
    servers = pods.servers("linux") + pods.servers("windows")
    everybody = [
        Case(linux + windows, servers, tcp=8080, udp=8080, open=True, because=IN_THE_SET),
        Case(windows, linux, tcp=8080, udp=8080, open=True, because=NOT_SELECTED),
    ]
    expect.base(
        policy.filled(friend=linux, low="192.0.2.0/25", high="192.0.2.128/25"),
        Case(linux, servers, tcp=8080, udp=8080, open=True, because=IN_THE_SET),
        Case(windows, servers, tcp=8080, udp=8080, open=False, because=NOT_IN_THE_SET),
        Case(windows, linux, tcp=8080, udp=8080, open=True, because=NOT_SELECTED),
    )
    expect.change(
        policy.filled(friend=windows, low="192.0.2.0/25", high="192.0.2.128/25"),
        Case(windows, servers, tcp=8080, udp=8080, open=True, because=IN_THE_SET),
        Case(linux, servers, tcp=8080, udp=8080, open=False, because=NOT_IN_THE_SET),
        Case(linux, windows, tcp=8080, udp=8080, open=True, because=NOT_SELECTED),
        lasts=False,
    )
    wider = policy.filled(friend=windows, low="0.0.0.0/1", high="128.0.0.0/1")
    expect.change(wider, *everybody, lasts=False)
    expect.change(policy.filled(friend=linux, low="0.0.0.0/1", high="128.0.0.0/1"), *everybody)


@manifest("policy/over-time/edited_network_set.yaml")
@needs(v3_api=True)
@verifies("POL-1", part="calico: pods among the networks of a NetworkSet", provisional=True)
def test_who_is_in_a_network_set_and_has_its_label_enters_and_the_others_do_not(
    pods: WorkerPods, policy: Policy, relabel: Relabel, expect: Expect
) -> None:
    guest = pods.clients("linux").one_per_os()
    others = pods.clients("windows")
    servers = pods.servers("linux") + pods.servers("windows")
    narrow = policy.filled(friend=guest, low="192.0.2.0/25", high="192.0.2.128/25")
    cases = [
        Case(guest, servers, tcp=8080, udp=8080, open=True, because=HAS_THE_LABEL),
        Case(others, servers, tcp=8080, udp=8080, open=False, because=NOT_IN_THE_SET),
        Case(others, guest, tcp=8080, udp=8080, open=True, because=NOT_SELECTED),
    ]
    relabel.label_as_guest(*guest)
    expect.base(narrow, *cases)
    expect.change(
        policy.filled(friend=guest, low="0.0.0.0/1", high="128.0.0.0/1"),
        Case(guest, servers, tcp=8080, udp=8080, open=True, because=HAS_THE_LABEL),
        Case(others, servers, tcp=8080, udp=8080, open=True, because=IN_THE_SET),
        Case(others, guest, tcp=8080, udp=8080, open=True, because=NOT_SELECTED),
        lasts=False,
    )
    expect.change(narrow, *cases)
