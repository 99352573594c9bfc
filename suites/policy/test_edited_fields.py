"""Each field of a policy that is edited in place is in force as it is now: it opens and closes what it says now.

What a rule does and its ports are XPOL-12, behind a tier XPOL-13, which is here beside the fields that POL-1 is about.
"""

from conformance.fixtures import Expect, Policy, Relabel, Sides, WorkerPods
from conformance.marks import manifest, needs, verifies

pytestmark = [needs(calico_policy=True)]

LINUX = "app == 'linux-client'"
WINDOWS = "app == 'windows-client'"
ELSEWHERE = "conformance/team == 'elsewhere'"
ENTERING = {"selected": "app in {'linux-server', 'windows-server'}", "direction": "Ingress"}
LEAVING = {**ENTERING, "direction": "Egress"}
NOBODY = {"selected": "app == 'nobody'", "direction": "Egress"}
NOWHERE = {"low": "192.0.2.0/25", "high": "192.0.2.128/25"}
EVERYWHERE = {"low": "0.0.0.0/1", "high": "128.0.0.0/1"}


@manifest("policy/over-time/edited_port_behind_a_tier.yaml")
@needs(v3_api=True)
@verifies("XPOL-13", part="edited port", provisional=True)
def test_the_port_that_a_rule_behind_a_tier_names_now_is_open(
    policy: Policy, sides: Sides, expect: Expect
) -> None:
    ways = sides.strangers.to(sides.servers)
    beside = sides.strangers.to(sides.friends).tcp(8080)
    echo = ways.tcp(8080)
    page = ways.tcp(80)
    before = policy.filled(port="8080")
    after = policy.filled(port="80")
    expect.base(
        before, open=[*echo, *beside], closed=page, because="the second tier's rule opens port 8080"
    )
    expect.change(
        after,
        open=[*page, *beside],
        closed=echo,
        because="the rule's port is 80 now, and nothing else of it",
    )


@manifest("policy/over-time/edited_peers.yaml")
@verifies("POL-1", part="calico: edited selectors of a rule", provisional=True)
def test_whom_a_rule_selects_now_enters_and_whom_it_selected_does_no_more(
    pods: WorkerPods, policy: Policy, sides: Sides, expect: Expect
) -> None:
    linux = sides.friends
    windows = sides.strangers
    away = pods.elsewhere("windows")
    own = f"kubernetes.io/metadata.name == '{pods.namespace}'"
    first = sides.between(linux, windows + away)
    second = sides.between(windows, linux + away)
    third = sides.between(away, linux + windows)
    there = policy.filled(pods=WINDOWS, namespaces=ELSEWHERE)
    filled = policy.filled(pods=LINUX, namespaces=own)
    edited = policy.filled(pods=WINDOWS, namespaces=own)
    expect.base(
        filled, open=first.opened, closed=first.closed, because="the rule selects Linux clients"
    )
    expect.change(
        edited,
        open=second.opened,
        closed=second.closed,
        because="it is Windows clients now",
        lasts=False,
    )
    expect.change(
        there,
        open=third.opened,
        closed=third.closed,
        because="it selects those of another namespace now",
    )


@manifest("policy/over-time/edited_place.yaml")
@verifies("POL-1", part="calico: edited order, types and selector of a policy", provisional=True)
def test_a_policy_is_asked_where_for_what_and_about_whom_it_says_now(
    policy: Policy, sides: Sides, expect: Expect
) -> None:
    out = sides.servers.to(sides.friends).tcp(8080)
    enter = sides.closed
    edit = expect.change
    last = policy.filled(order=30, **ENTERING)
    first = policy.filled(order=10, **ENTERING)
    leaving = policy.filled(order=10, **LEAVING)
    nobody = policy.filled(order=10, **NOBODY)
    edit(
        last,
        open=[*enter, *out],
        because="order 20 lets everybody in, before order 30 lets nobody",
        lasts=False,
    )
    edit(
        first,
        open=[*sides.beside, *out],
        closed=enter,
        because="order 10 lets nobody in, before 20",
        lasts=False,
    )
    edit(
        leaving,
        open=[*enter, *sides.beside],
        closed=out,
        because="it is about who leaves now",
        lasts=False,
    )
    edit(nobody, open=[*enter, *out], because="it selects no pod any more")


@manifest("policy/over-time/edited_network_set.yaml")
@needs(v3_api=True)
@verifies("POL-1", part="calico: edited networks of a NetworkSet", provisional=True)
def test_who_is_in_a_network_set_now_enters_and_who_was_does_no_more(
    policy: Policy, sides: Sides, expect: Expect
) -> None:
    linux = sides.friends
    windows = sides.strangers
    ways = [*sides.opened, *sides.closed]
    edit = expect.change
    other = sides.between(windows, linux)
    theirs = policy.filled(friend=linux, **NOWHERE)
    wider = policy.filled(friend=windows, **EVERYWHERE)
    narrowed = policy.filled(friend=linux, **EVERYWHERE)
    expect.base(
        theirs,
        open=sides.opened,
        closed=sides.closed,
        because="the set has the Linux client's address",
    )
    theirs = policy.filled(friend=windows, **NOWHERE)
    because = "it has the Windows clients' addresses now"
    edit(theirs, open=other.opened, closed=other.closed, because=because, lasts=False)
    edit(wider, open=ways, because="it has networks around all addresses, too", lasts=False)
    edit(
        narrowed,
        open=ways,
        because="the Windows clients' addresses left it, and the wider networks stay",
    )


@manifest("policy/over-time/edited_network_set.yaml")
@needs(v3_api=True)
@verifies("POL-1", part="calico: pods among the networks of a NetworkSet", provisional=True)
def test_who_is_in_a_network_set_and_has_its_label_enters_and_the_others_do_not(
    policy: Policy, sides: Sides, relabel: Relabel, expect: Expect
) -> None:
    relabel.label_as_guest(*sides.friends)
    narrow = policy.filled(friend=sides.friends, **NOWHERE)
    wide = policy.filled(friend=sides.friends, **EVERYWHERE)
    both = [*sides.opened, *sides.closed]
    because = "a guest's address is in the set as well"
    expect.base(narrow, open=sides.opened, closed=sides.closed, because=because)
    wider = "the set has networks around all addresses, the guest's among them"
    expect.change(wide, open=both, because=wider, lasts=False)
    expect.change(
        narrow,
        open=sides.opened,
        closed=sides.closed,
        because="they left it, and the guest did not",
    )
