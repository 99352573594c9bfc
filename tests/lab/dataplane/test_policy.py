# SPDX-License-Identifier: Apache-2.0
"""Policy at the pods: allowed connections succeed, denied packets are dropped silently; Linux by
tiers and sets, Windows by lists."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from hybridlab.dataplane.contract import DataplaneError
from hybridlab.dataplane.model import Acl, EndpointProgram, Match, PolicyUpdate, Rule, Tier
from hybridlab.dataplane.sandbox_socket import sandbox_socket
from tests.lab.dataplane.conftest import Lab
from tests.lab.dataplane.lists import with_list

ALLOW, DENY, PASS = "allow", "deny", "pass"
both = pytest.mark.parametrize("target", ["l1a", "w1a"])


def tier(*rules: Any, name: str = "default", end: Any = DENY) -> Tier:
    return Tier(
        name=name,
        rules=tuple(Rule(action=action, match=Match(**match)) for action, match in rules),
        end=end,
    )


def ingress(*rules: Any) -> EndpointProgram:
    return EndpointProgram(ingress=(tier(*rules),))


def egress(*rules: Any) -> EndpointProgram:
    return EndpointProgram(egress=(tier(*rules),))


def outcomes(lab: Lab, target: Any, *sources: Any) -> Any:
    return lab.outcomes(target, *sources)


@both
def test_only_the_allowed_address_connects(lab: Lab, target: str) -> None:
    with lab.policy(target, ingress((ALLOW, {"src_nets": (lab.address("l2a") + "/32",)}))):
        assert outcomes(lab, target, "l2a", "l2b", "w2a") == ["open", "timed out", "timed out"]
    assert outcomes(lab, target, "l2b") == ["open"]


def test_a_set_decides_and_is_changed_without_the_rules(lab: Lab) -> None:
    target, node = "l1a", "l1"
    with lab.policy(
        target, ingress((ALLOW, {"src_sets": ("friends",)})), friends=(lab.address("l2a"),)
    ):
        assert outcomes(lab, target, "l2a", "w2a") == ["open", "timed out"]
        lab.run(
            lab.plane.update_policy(node, PolicyUpdate(sets={"friends": (lab.address("w2a"),)}))
        )
        assert outcomes(lab, target, "l2a", "w2a") == ["timed out", "open"]
        lab.run(lab.plane.update_policy(node, PolicyUpdate(sets={"friends": ()})))
        assert outcomes(lab, target, "w2a") == ["timed out"]


def test_sets_are_all_of_and_networks_any_of(lab: Lab) -> None:
    target = "l1a"
    rule = {"src_sets": ("a", "b"), "src_nets": ("192.168.1.64/26", "192.168.1.192/26")}
    members = {
        "a": (lab.address("l2a"), lab.address("l2b"), lab.address("w2a")),
        "b": (lab.address("l2a"), "192.168.1.192/27", lab.address("l1b")),
    }
    with lab.policy(target, ingress((ALLOW, rule)), **members):
        sources = ("l2a", "l2b", "w2a", "w2b", "l1b")
        assert outcomes(lab, target, *sources) == [
            "open",
            "timed out",
            "open",
            "timed out",
            "timed out",
        ]


@pytest.mark.parametrize(
    ("match", "allowed"),
    [
        ({"not_src_sets": ("foes",)}, ["timed out", "open"]),
        ({"not_src_nets": ("192.168.1.64/26",)}, ["timed out", "open"]),
        ({"not_src_sets": ("nobody",)}, ["open", "open"]),
        ({"src_sets": ("nobody",)}, ["timed out", "timed out"]),
        ({"not_src_nets": ("0.0.0.0/0",)}, ["timed out", "timed out"]),
        ({"src_nets": ("0.0.0.0/0",)}, ["open", "open"]),
    ],
)
def test_negated_and_empty_criteria(lab: Lab, match: Any, allowed: Any) -> None:
    target = "l1a"
    with lab.policy(target, ingress((ALLOW, match)), foes=(lab.address("l2a"),), nobody=()):
        assert outcomes(lab, target, "l2a", "w2a") == allowed


@both
@pytest.mark.parametrize(
    ("match", "outcome"),
    [
        ({"protocol": "tcp", "dst_ports": ((8080, 8080),)}, "open"),
        ({"protocol": "tcp", "dst_ports": ((1, 79), (8000, 8080), (8050, 9000))}, "open"),
        ({"protocol": "tcp", "dst_ports": ((80, 80), (443, 443))}, "timed out"),
        ({"protocol": "6"}, "open"),
        ({"protocol": "udp"}, "timed out"),
        ({"protocol": "tcp", "src_ports": ((1, 1023),)}, "timed out"),
    ],
)
def test_protocols_and_ports(lab: Lab, target: str, match: Any, outcome: str) -> None:
    with lab.policy(target, ingress((ALLOW, match))):
        assert outcomes(lab, target, "l2a") == [outcome]


@pytest.mark.parametrize(
    ("match", "outcome"),
    [
        ({"protocol": "tcp", "not_dst_ports": ((80, 80), (8080, 8080))}, "timed out"),
        ({"not_protocol": "tcp"}, "timed out"),
        ({"protocol": "tcp", "not_src_ports": ((1, 1023),)}, "open"),
        ({"protocol": "icmp", "icmp_type": 8, "icmp_code": 0}, "timed out"),
        ({"protocol": "icmp", "not_icmp_type": 13}, "timed out"),
        ({"protocol": "icmp", "not_icmp_type": 13, "not_icmp_code": 0}, "timed out"),
        ({"not_dst_ip_port_sets": ("web",)}, "timed out"),
        ({"not_src_ip_port_sets": ("web",)}, "open"),
        ({"src_ip_port_sets": ("web",)}, "timed out"),
        ({"dst_ip_port_sets": ("web",)}, "open"),
    ],
)
def test_what_only_linux_matches(lab: Lab, match: Any, outcome: str) -> None:
    with lab.policy("l1a", ingress((ALLOW, match)), web=(f"{lab.address('l1a')},tcp,8080",)):
        assert outcomes(lab, "l1a", "l2a") == [outcome]


def test_egress_to_named_ports(lab: Lab) -> None:
    source = "l1a"
    members = (f"{lab.address('l2a')},tcp,8080", f"{lab.address('w2a')},udp,8080")
    with lab.policy(source, egress((ALLOW, {"dst_ip_port_sets": ("web",)})), web=members):
        assert lab.tcp(source, "l2a").outcome == "open"
        assert lab.tcp(source, "w2a").outcome == "timed out"


@both
def test_the_first_matching_rule_wins(lab: Lab, target: str) -> None:
    near, far = {"src_nets": ("192.168.1.64/26",)}, {"src_nets": (lab.address("l2a"),)}
    with lab.policy(target, ingress((DENY, far), (ALLOW, near))):
        assert outcomes(lab, target, "l2a", "l2b") == ["timed out", "open"]
    with lab.policy(target, ingress((ALLOW, near), (DENY, far))):
        assert outcomes(lab, target, "l2a", "l2b") == ["open", "open"]


def test_a_tier_passes_on_by_rule_or_at_its_end(lab: Lab) -> None:
    target = "l1a"
    friend, other = {"src_nets": (lab.address("l2a"),)}, {"src_nets": (lab.address("l2b"),)}
    by_rule = EndpointProgram(
        ingress=(tier((PASS, friend), name="first"), tier((ALLOW, {}), name="second"))
    )
    with lab.policy(target, by_rule):
        assert outcomes(lab, target, "l2a", "l2b") == ["open", "timed out"]
    at_end = EndpointProgram(
        ingress=(tier((DENY, friend), name="first", end=PASS), tier((ALLOW, other), name="second"))
    )
    with lab.policy(target, at_end):
        assert outcomes(lab, target, "l2a", "l2b", "w2a") == ["timed out", "open", "timed out"]
    passed_by_all = EndpointProgram(ingress=(tier((DENY, friend), name="only", end=PASS),))
    with lab.policy(target, passed_by_all):
        assert outcomes(lab, target, "l2a", "l2b") == ["timed out", "open"]


def test_a_list_is_asked_by_priority_and_blocks_what_it_does_not_name(lab: Lab) -> None:
    near, far = "192.168.1.64/26", f"{lab.address('l2a')}/32"
    entries = (
        Acl(action="Allow", direction="In", priority=1001, remote=(near,)),
        Acl(action="Block", direction="In", priority=1000, remote=(far,)),
        Acl(action="Allow", direction="In", priority=0, rule_type="Host"),
    )
    with lab.policy("w1a", EndpointProgram()):
        lab.run(
            lab.plane.update_policy(
                "w1", PolicyUpdate(endpoints={"w1a": EndpointProgram(acls=entries)})
            )
        )
        assert outcomes(lab, "w1a", "l2a", "l2b", "w2a") == ["timed out", "open", "timed out"]
        assert lab.tcp("w1a", "w2a").outcome == "open", "a direction without entries is open"


def test_fewer_tiers_leave_no_chain_behind(lab: Lab) -> None:
    three = EndpointProgram(ingress=tuple(tier((PASS, {}), name=f"t{i}") for i in range(3)))
    with lab.policy("l1a", three):
        assert "t2" in str(lab.run(lab.plane.facts("l1"))["ruleset"])
    ruleset = str(lab.run(lab.plane.facts("l1"))["ruleset"])
    assert "end of tier" not in ruleset
    assert "-1 {" not in ruleset


def test_both_ends_have_their_say_on_one_node(lab: Lab) -> None:
    with lab.policy("l1b", egress((ALLOW, {"dst_nets": (lab.address("l1a"),)}))):
        assert outcomes(lab, "l1a", "l1b") == ["open"]
        with lab.policy("l1a", ingress((DENY, {}))):
            assert outcomes(lab, "l1a", "l1b") == ["timed out"]


@both
def test_a_node_always_reaches_its_own_pod(lab: Lab, target: str) -> None:
    node = lab.pods[target].node
    with lab.policy(target, ingress((DENY, {}))):
        assert lab.tcp(f"node:{node}", target).outcome == "open"
        assert lab.tcp("node:l2", target).outcome == "timed out"


@both
def test_egress_policy_holds_towards_the_pods_own_node(lab: Lab, target: str) -> None:
    node = lab.pods[target].node
    with lab.policy(target, egress((DENY, {}))), lab.listening(f"node:{node}"):
        assert lab.attempt(target, lab.nodes[node].spec.address, 8080).outcome == "timed out"


@both
def test_an_established_connection_survives_a_new_denial_and_a_new_one_does_not_come_up(
    lab: Lab, target: str
) -> None:
    with lab.listening(target) as listeners, lab.socket("l2a") as client:
        client.connect((lab.address(target), 8080))
        server, _ = listeners[target].accept()
        with server, lab.policy(target, ingress((DENY, {}))):
            client.sendall(b"still here")
            server.settimeout(1)
            assert server.recv(100) == b"still here"
            assert lab.attempt("l2a", lab.address(target), 8080).outcome == "timed out"


@pytest.mark.parametrize(("node", "may_send"), [("l1", "timed out"), ("w1", "open")])
def test_a_pod_without_a_program_is_reached_by_its_node_alone_and_sends_as_its_system_lets_it(
    lab: Lab, node: str, may_send: str
) -> None:
    spec = lab.run(lab.add_pod(node, "d"))
    try:
        assert lab.tcp("l2a", spec.id).outcome == "timed out"
        assert lab.tcp(f"node:{node}", spec.id).outcome == "open"
        assert lab.tcp(spec.id, "l2a").outcome == may_send
        with lab.listening(f"node:{node}"):
            assert lab.attempt(spec.id, lab.nodes[node].spec.address, 8080).outcome == may_send
        lab.run(lab.open_all(node))
        assert lab.tcp("l2a", spec.id).outcome == "open"
    finally:
        lab.run(lab.plane.remove_pod(spec.id))
        del lab.pods[spec.id]


def test_a_program_that_comes_before_its_pod_takes_effect_with_it(lab: Lab) -> None:
    lab.run(lab.plane.update_policy("l1", PolicyUpdate(endpoints={"l1e": EndpointProgram()})))
    spec = lab.run(lab.add_pod("l1", "e"))
    try:
        assert lab.tcp("l2a", spec.id).outcome == "open"
    finally:
        lab.run(lab.plane.remove_pod(spec.id))
        del lab.pods[spec.id]


@both
def test_a_replacement_is_never_half_done(lab: Lab, target: str) -> None:
    """Two versions that both allow l2a and deny l2b, replaced while both try: neither ever sees a gap."""
    friend = lab.address("l2a")
    fillers = tuple((ALLOW, {"src_nets": (f"10.9.{i}.0/24",)}) for i in range(20))
    versions = [
        ingress((ALLOW, {"src_nets": (friend,)})),
        ingress(
            *fillers, (DENY, {"src_nets": ("192.168.1.70/32",)}), (ALLOW, {"src_nets": (friend,)})
        ),
    ]
    node = lab.pods[target].node

    async def replace_while_trying() -> Any:
        loop = asyncio.get_running_loop()
        listener = await sandbox_socket(lab.channel, target)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("0.0.0.0", 8080))
        listener.listen(4096)
        stranger = await sandbox_socket(lab.channel, "l2b")
        leak = asyncio.ensure_future(loop.sock_connect(stranger, (lab.address(target), 8080)))
        lost = 0
        for round_number in range(60):
            update = PolicyUpdate(endpoints={target: with_list(versions[round_number % 2])})
            changing = asyncio.ensure_future(lab.plane.update_policy(node, update))
            while not changing.done():
                with await sandbox_socket(lab.channel, "l2a") as client:
                    try:
                        await asyncio.wait_for(
                            loop.sock_connect(client, (lab.address(target), 8080)), 0.3
                        )
                    except TimeoutError:
                        lost += 1
            await changing
        leaked = leak.done()
        leak.cancel()
        stranger.close()
        listener.close()
        return lost, leaked

    with lab.policy(target, versions[0]):
        assert lab.run(replace_while_trying()) == (0, False)


def test_a_rule_that_the_kernel_refuses_changes_nothing_and_names_itself(lab: Lab) -> None:
    bad = PolicyUpdate(
        endpoints={
            "l1a": ingress((ALLOW, {"src_nets": ("192.168.1.0/24",), "protocol": "no-such-thing"}))
        }
    )
    with lab.policy("l1a", ingress((ALLOW, {"src_nets": (lab.address("l2a"),)}))):
        with pytest.raises(DataplaneError, match="no-such-thing"):
            lab.run(lab.plane.update_policy("l1", bad))
        assert outcomes(lab, "l1a", "l2a", "l2b") == ["open", "timed out"]


def test_a_program_naming_a_set_that_was_never_sent_is_refused(lab: Lab) -> None:
    with pytest.raises(DataplaneError, match="never sent or are removed: ghosts"):
        lab.program("l1a", ingress((ALLOW, {"src_sets": ("ghosts",)})))


def test_removing_a_set_that_a_program_still_names_is_refused(lab: Lab) -> None:
    with lab.policy("l1a", ingress((ALLOW, {"src_sets": ("kept",)})), kept=(lab.address("l2a"),)):
        with pytest.raises(DataplaneError, match="endpoint l1a names IP sets"):
            lab.run(lab.plane.update_policy("l1", PolicyUpdate(removed_sets=("kept",))))


def test_a_program_of_thousands_of_rules_holds(lab: Lab) -> None:
    rules = [(ALLOW, {"src_nets": (f"10.{i // 250}.{i % 250}.0/24",)}) for i in range(2500)]
    with lab.policy("l1a", ingress(*rules, (ALLOW, {"src_nets": (lab.address("l2a"),)}))):
        assert outcomes(lab, "l1a", "l2a", "l2b") == ["open", "timed out"]


def test_policy_holds_for_udp_behind_a_service_by_the_backends_address(lab: Lab) -> None:
    with lab.policy(
        "l1a", ingress((ALLOW, {"src_nets": (lab.address("l2a"),), "protocol": "udp"}))
    ):
        with lab.socket("l1a", socket.SOCK_DGRAM) as server:
            server.bind(("0.0.0.0", 53))
            for source, expected in (("l2a", True), ("w2a", False)):
                with lab.socket(source, socket.SOCK_DGRAM) as client:
                    client.sendto(source.encode(), (lab.address("l1a"), 53))
                    try:
                        assert (server.recv(10) == source.encode()) is expected
                    except TimeoutError:
                        assert not expected
