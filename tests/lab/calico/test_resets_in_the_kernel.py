# SPDX-License-Identifier: Apache-2.0
"""Every event that makes Felix program a Windows pod's ACL list again ends that pod's
connections, and no other event does."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest

from tests.lab.calico.conftest import PORT, CalicoLab

SOON = 1.0
STAYS = 0.3
"""How long nothing may happen to a connection that is to survive; a reset takes milliseconds."""
FROM_FRIENDS = {
    "podSelector": {"matchLabels": {"app": "w1"}},
    "ingress": [
        {"from": [{"podSelector": {"matchExpressions": [{"key": "friend", "operator": "Exists"}]}}]}
    ],
}
ON_LINUX = {"podSelector": {"matchLabels": {"app": "l1"}}, "ingress": [{}]}
TO_ALL = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"], "ingress": [{}], "egress": [{}]}


@contextlib.contextmanager
def connection(
    lab: CalicoLab, source: str, target: str
) -> Iterator[tuple[socket.socket, socket.socket]]:
    """(source's end, target's end) of an established connection."""
    with lab.socket(source) as client:
        with lab.socket(target) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("0.0.0.0", PORT))
            listener.listen(8)
            client.connect((lab.addresses[target], PORT))
            server, _ = listener.accept()
        with server:
            yield client, server


def fate(end: socket.socket, seconds: float = SOON) -> str:
    end.settimeout(seconds)
    try:
        return "data" if end.recv(100) else "end of file"
    except ConnectionResetError:
        return "reset"
    except TimeoutError:
        return "silence"


def works(client: socket.socket, server: socket.socket) -> bool:
    client.sendall(b"hello")
    return fate(server) == "data"


def in_force(lab: CalicoLab, *, reached: bool) -> None:
    """Wait until w1 is, or is not, reached: what follows needs the policy in place."""
    for _ in range(20):
        if lab.reaches("l2", "w1") == reached:
            return
        lab.run(lab.settled())
    raise AssertionError("the policy does not take effect")


@pytest.fixture(scope="module")
def friends(pods: CalicoLab) -> CalicoLab:
    """l2 may reach w1 by label."""
    pods.run(pods.client.patch("pods", "l2", {"metadata": {"labels": {"friend": "yes"}}}, "demo"))
    pods.run(pods.settled())
    return pods


def test_a_policy_that_comes_and_goes(friends: CalicoLab) -> None:
    with contextlib.ExitStack() as first:
        client, server = first.enter_context(connection(friends, "l2", "w1"))
        with friends.policy(FROM_FRIENDS):
            assert (fate(client), fate(server, STAYS)) == ("reset", "silence")
            client, server = first.enter_context(connection(friends, "l2", "w1"))
            assert works(client, server)
        assert fate(client) == "reset"
        assert friends.reaches("l2", "w1")


def test_an_egress_policy_ends_what_the_pod_opened(friends: CalicoLab) -> None:
    for target in ("l2", "w2", "w1b"):
        with connection(friends, "w1", target) as (client, server):
            with friends.policy(
                {
                    "podSelector": {"matchLabels": {"app": "w1"}},
                    "policyTypes": ["Egress"],
                    "egress": [{}],
                }
            ):
                assert (fate(server), fate(client, STAYS)) == ("reset", "silence")


def test_a_pod_that_the_selector_comes_to_match_or_no_longer_does(friends: CalicoLab) -> None:
    def label(value: str | None) -> None:
        friends.run(
            friends.client.patch("pods", "l1b", {"metadata": {"labels": {"friend": value}}}, "demo")
        )
        friends.run(friends.settled())

    with friends.policy(FROM_FRIENDS):
        for value in ("yes", None):
            with connection(friends, "l2", "w1") as (client, _):
                label(value)
                assert fate(client) == "reset"


def test_a_felix_that_starts_again(friends: CalicoLab) -> None:
    with (
        connection(friends, "l2", "w1") as (client, _),
        connection(friends, "l2", "w2") as elsewhere,
    ):
        friends.stop_felix("windows-2022")
        assert fate(client, STAYS) == "silence"
        friends.start_felix("windows-2022")
        assert fate(client) == "reset"
        assert works(*elsewhere)


def test_linux_pods_and_windows_pods_whose_list_stays_keep_theirs(friends: CalicoLab) -> None:
    with (
        connection(friends, "l2", "w1b") as beside,
        connection(friends, "l2", "l1") as linux,
        connection(friends, "l1b", "l1") as same_node,
    ):
        with friends.policy(FROM_FRIENDS), friends.policy(ON_LINUX, name="linux"):
            friends.stop_felix("linux-1")
            friends.start_felix("linux-1")
            friends.run(
                friends.client.patch(
                    "pods", "w1b", {"metadata": {"labels": {"colour": "red"}}}, "demo"
                )
            )
            friends.run(friends.settled())
            for connected in (beside, linux, same_node):
                assert works(*connected)


def test_fault_linux_pods_connections_end_with_a_policy_too(friends: CalicoLab) -> None:
    with friends.fault("rst-storm-linux"), connection(friends, "l2", "l1") as (client, server):
        with friends.policy(TO_ALL):
            assert (fate(client), fate(server)) == ("reset", "reset")
            assert friends.reaches("l2", "l1")
    with connection(friends, "l2", "l1") as connected, friends.policy(TO_ALL):
        assert works(*connected)


def test_fault_no_new_connection_after_a_reprogramming(friends: CalicoLab) -> None:
    with friends.fault("no-reset-recovery", node="windows-2022"):
        assert friends.reaches("l2", "w1")
        with friends.policy(TO_ALL):
            assert not friends.reaches("l2", "w1")
            assert not friends.reaches("w1", "l2")
            assert friends.reaches("l2", "w2")
        assert not friends.reaches("l2", "w1")
    assert friends.reaches("l2", "w1")
    assert friends.reaches("w1", "l2")


def test_fault_a_list_that_is_not_replaced(friends: CalicoLab) -> None:
    felix = friends.calico.felixes["windows-2022"]
    uid = friends.pods["w1"]["metadata"]["uid"]
    with friends.policy({"podSelector": {}}):
        in_force(friends, reached=False)
        with friends.fault("acl-not-replaced", node="windows-2022"):
            before = felix.acls[uid]
            with friends.policy(TO_ALL, name="allow"):
                assert not friends.reaches("l2", "w1")
                assert friends.reaches("l2", "w2")
                assert felix.acls[uid] == before
                friends.stop_felix("windows-2022")
                friends.start_felix("windows-2022")
                assert felix.acls[uid] == before
    assert felix.acls[uid] != before
    assert friends.reaches("l2", "w1")


def test_fault_a_felix_that_does_not_start_again(friends: CalicoLab) -> None:
    felix = friends.calico.felixes["windows-2022"]
    with friends.fault("felix-never-restarts", node="windows-2022"):
        assert felix.running
        friends.stop_felix("windows-2022")
        friends.start_felix("windows-2022")
        assert not felix.running
        with friends.policy({"podSelector": {}}):
            assert friends.reaches("l2", "w1")
            assert not friends.reaches("l2", "w2")
    assert felix.running
    with friends.policy({"podSelector": {}}):
        assert not friends.reaches("l2", "w1")


def test_fault_a_new_pod_is_open_until_it_is_programmed(friends: CalicoLab) -> None:
    with friends.policy({"podSelector": {}}):
        with friends.fault("policy-late", node="windows-2022", seconds="60"):
            friends.pod("held", "windows-2022")
            assert not friends.reaches("l2", "held")
        with friends.fault("open-before-policy", seconds="60"):
            friends.pod("open", "windows-2022")
            assert friends.reaches("l2", "open")
        friends.run(friends.settled())
        assert not friends.reaches("l2", "open")
    for name in ("held", "open"):
        friends.remove(name)
