# SPDX-License-Identifier: Apache-2.0
"""A failing pair brings what its nodes say of it; what cannot be had is one line, in time, and
never an error."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from conformance.errors import ControlBroken, EnvironmentBroken, Nonconformance, ProbeBroken
from conformance.evidence import hns_text
from conformance.evidence.failure import (
    PAIRS,
    Evidence,
    choose,
    failing_paths,
    seconds_to_read,
    to_capture,
)
from conformance.evidence.packet_capture import Observe
from conformance.kube.execute import ExecResult
from conformance.model.attempt import Attempt, Kind
from conformance.model.endpoint import OS, Workload
from conformance.model.host import HnsNetwork
from conformance.model.observation import Observation, Verdict
from conformance.probe.linux_host import CAPTURE
from conformance.settings import load_timings
from tests.unit.conformance.builders import a_pod, a_workload

NETWORK: dict[str, Any] = {
    "ID": "a1", "Name": "Calico", "Type": "Overlay",
    "Subnets": [{"AddressPrefix": "192.168.4.0/26", "GatewayAddress": "192.168.4.1",
                 "Policies": [{"Type": "VSID", "VSID": 4097}]}],
}  # fmt: skip
DENY = {
    "Type": "ACL",
    "Id": "",
    "Action": "Block",
    "Direction": "In",
    "Protocol": 256,
    "Priority": 1001,
}
ALLOW = {
    "Type": "ACL", "Id": "policy-p", "Action": "Allow", "Direction": "In", "Protocol": 6, "LocalPorts": "80",
    "RemoteAddresses": "10.1.0.5/32", "Priority": 1000,
}  # fmt: skip
ENDPOINT: dict[str, Any] = {
    "ID": "e1", "Name": "x_Calico", "State": 3, "IPAddress": "10.9.0.7", "MacAddress": "0E-2A", "VirtualNetwork": "a1",
    "Policies": [{"Type": "OutBoundNAT", "Token": "hidden"}, ALLOW, DENY],
}  # fmt: skip


def pod(name: str, os: OS, node: str, address: str = "10.9.0.7") -> Workload:
    return a_workload(name, os, node=node, address=address, node_address="10.0.0.1")


def way(source: Workload, target: Workload) -> Attempt:
    return Attempt(source=source, target=target.tcp(80), kind=Kind.TCP, give_up_after=1.0)


def seen(attempt: Attempt, verdict: Verdict = Verdict.TIMED_OUT, at: float = 0.0) -> Observation:
    return Observation(attempt=attempt, verdict=verdict, at=at, seconds=0.1)


CLIENT, SERVER = pod("client", "linux", "lin-1", "10.1.0.5"), pod("server", "windows", "win-1")


def calico_pod(node: str, container: str, state: str = "running") -> dict[str, Any]:
    spec = {"containers": [{"name": container}]}
    status = {"containerStatuses": [{"name": container, "state": {state: {}}}]}
    name = f"calico-node-{node}"
    return a_pod(name, node, namespace="calico-system", spec=spec, status=status)


@dataclass
class Cluster:
    """Answers what evidence asks of the API, and of hosts by PowerShell."""

    pods: list[dict[str, Any]] = field(
        default_factory=lambda: [calico_pod("win-1", "felix"), calico_pod("lin-1", "calico-node")]
    )
    endpoints: Any = field(default_factory=lambda: [ENDPOINT])
    networks: Any = field(default_factory=lambda: [NETWORK])
    asked_in: list[str] = field(default_factory=list)
    log_seconds: list[float] = field(default_factory=list)
    waits: threading.Event | None = None
    commands: list[Sequence[str]] = field(default_factory=list)
    captured: bytes = b""

    def objects(self, version: str, kind: str, namespace: str) -> list[dict[str, Any]]:
        return [pod for pod in self.pods if pod["metadata"]["namespace"] == namespace]

    def logs(self, namespace: str, name: str, container: str, *, since: float, head: int) -> str:
        self.log_seconds.append(since)
        return f"felix of {name} says: applied\n"

    def run(self, workload: Workload, argv: Sequence[str], within: float) -> ExecResult:
        if self.waits:
            self.waits.wait(10)
        self.asked_in.append(workload.pod)
        self.commands.append(argv)
        if "pktmon" in argv[-1]:
            return ExecResult(0, b"Drop: 10.9.0.7 > 10.1.0.5\r\n", b"", 0.1)
        if CAPTURE.argv[-1] in argv:
            return (
                ExecResult(0, self.captured, b"PermissionError: no right", 0.1)
                if self.captured
                else DENIED
            )
        answer = self.endpoints if "Get-HnsEndpoint" in argv[-1] else self.networks
        if isinstance(answer, Exception):
            raise answer
        return ExecResult(0, json.dumps(answer).encode(), b"", 0.1)


DENIED = ExecResult(3, b"", b"PermissionError: [Errno 1] Operation not permitted", 0.1)


@contextmanager
def evidence(
    cluster: Cluster, within: float = 5.0, again: Observe | None = None
) -> Iterator[Evidence]:
    timings = load_timings()
    known: Any = cluster
    gathering = Evidence(
        known, cluster.run, lambda node: pod(f"own-{node}", "windows", node),
        replace(timings, run=replace(timings.run, evidence=within, capture=0.5)), again,
    )  # fmt: skip
    yield gathering
    if cluster.waits:
        cluster.waits.set()
    gathering.close()


def failure(*ways: Attempt) -> Nonconformance:
    error = Nonconformance(
        "POL-1 ...", observations=[seen(each, at=time.time() - 5) for each in ways]
    )
    error.paths = ways
    return error


def test_a_failing_way_brings_its_endpoints_acls_the_vsid_and_felix_of_both_ends() -> None:
    cluster = Cluster()
    with evidence(cluster) as gathering:
        found = gathering.of(failure(way(CLIENT, SERVER)))
    assert list(found) == [
        "failing pairs", "Felix around the failure on lin-1", "HNS endpoints of failing pairs on win-1",
        "HNS networks of win-1", "Felix around the failure on win-1",
    ]  # fmt: skip
    assert "1 of 1 path" in found["failing pairs"]
    assert "ns/client (linux, node lin-1) -> 10.9.0.7:80/tcp" in found["failing pairs"]
    shown = str(found["HNS endpoints of failing pairs on win-1"])
    assert "state     3 (attached, shared by containers)" in shown
    assert "ACL list  2 rules" in shown
    rules = [line.split() for line in shown.splitlines() if line.strip().startswith("100")]
    assert rules == [
        ["1000", "In", "Allow", "6", "port", "80", "10.1.0.5/32", "policy-p"],
        ["1001", "In", "Block", "256", "any", "any", "-"],
    ]
    assert "VSID 4097" in found["HNS networks of win-1"]
    assert "felix of calico-node-win-1 says: applied" in found["Felix around the failure on win-1"]
    assert "felix of calico-node-lin-1 says: applied" in found["Felix around the failure on lin-1"]
    assert [round(seconds) for seconds in cluster.log_seconds] == [20, 20]


def test_a_secret_in_an_endpoints_policies_is_not_shown() -> None:
    with evidence(Cluster()) as gathering:
        found = gathering.of(failure(way(CLIENT, SERVER)))[
            "HNS endpoints of failing pairs on win-1"
        ]
    assert "OutBoundNAT" in found
    assert "hidden" not in found


def test_what_cannot_be_read_is_one_line_and_the_rest_is_there() -> None:
    cluster = Cluster(endpoints=ProbeBroken("node win-1: HNS gave no answer"))
    with evidence(cluster) as gathering:
        found = gathering.of(failure(way(CLIENT, SERVER)))
    assert found["HNS endpoints of failing pairs on win-1"] == (
        "(not gathered: node win-1: HNS gave no answer (1 try in 0 s))"
    )
    assert "VSID 4097" in found["HNS networks of win-1"]


def test_an_error_of_any_kind_is_one_line() -> None:
    with evidence(Cluster(networks=OSError("no such thing"))) as gathering:
        found = gathering.of(failure(way(CLIENT, SERVER)))
    assert found["HNS networks of win-1"] == "(not gathered: no such thing)"


def test_a_host_that_does_not_answer_costs_no_more_than_the_time_there_is() -> None:
    began = time.monotonic()
    with evidence(Cluster(waits=threading.Event()), within=0.3) as gathering:
        found = gathering.of(failure(way(CLIENT, SERVER)))
        took = time.monotonic() - began
    assert (
        found["HNS endpoints of failing pairs on win-1"] == "(not gathered: no answer within 0.3 s)"
    )
    assert "applied" in found["Felix around the failure on win-1"]
    assert took < 3


@pytest.mark.parametrize(
    ("pods", "asked"),
    [
        ([calico_pod("win-1", "felix")], "calico-node-win-1"),
        ([calico_pod("win-1", "felix", "waiting")], "own-win-1"),
        ([], "own-win-1"),
    ],
    ids=["Calico's runs", "Calico's does not run", "Calico runs in no pod"],
)
def test_the_host_is_asked_in_calicos_pod_where_that_runs(
    pods: list[dict[str, Any]], asked: str
) -> None:
    cluster = Cluster(pods=pods)
    with evidence(cluster) as gathering:
        found = gathering.of(failure(way(CLIENT, SERVER)))
    assert set(cluster.asked_in) == {asked}
    assert "VSID 4097" in found["HNS networks of win-1"]
    assert (
        pods
        or "no pod of calico-node was found on node win-1"
        in found["Felix around the failure on win-1"]
    )


def test_a_failure_that_is_about_no_pair_brings_nothing() -> None:
    with evidence(Cluster()) as gathering:
        assert gathering.of(EnvironmentBroken("an image cannot be pulled")) == {}


def test_the_ways_of_a_failure_are_those_that_are_wrong_also_through_the_error_that_it_was_raised_from() -> (
    None
):
    bad, good = way(CLIENT, SERVER), way(SERVER, CLIENT)
    named = Nonconformance("POL-1 ...", observations=[seen(good, Verdict.CONNECTED), seen(bad)])
    named.paths = [bad]
    assert failing_paths(named) == [bad]
    outer = ControlBroken("witness failed", control="witness", observations=named.observations)
    outer.__cause__ = named
    assert failing_paths(outer) == [bad]
    assert failing_paths(
        Nonconformance("sizes", observations=[seen(bad), seen(bad), seen(good)])
    ) == [
        bad,
        good,
    ]


def test_pairs_of_nodes_are_few_different_and_with_windows_ends_first() -> None:
    windows = [pod(f"w{number}", "windows", f"win-{number}") for number in range(PAIRS + 1)]
    linux = pod("other", "linux", "lin-2")
    chosen = choose([way(CLIENT, linux), *[way(CLIENT, end) for end in (SERVER, SERVER, *windows)]])
    assert [each.target.name for each in chosen if each.target] == [
        f"{name}, windows, node {node}"
        for name, node in (("server", "win-1"), ("w0", "win-0"), ("w2", "win-2"))
    ]
    assert choose([way(CLIENT, linux)]) == [way(CLIENT, linux)]


def test_of_felix_log_what_came_just_before_the_first_attempt_belongs_to_a_failure_too() -> None:
    first, last = (
        seen(way(CLIENT, SERVER), at=time.time() - 30),
        seen(way(CLIENT, SERVER), at=time.time() - 1),
    )
    assert 44 < seconds_to_read(Nonconformance("x", observations=[last, first])) < 47


def test_a_pod_without_an_endpoint_is_told_with_the_addresses_that_have_one() -> None:
    cluster = Cluster(endpoints=[{**ENDPOINT, "IPAddress": "10.9.0.8"}])
    with evidence(cluster) as gathering:
        text = gathering.of(failure(way(CLIENT, SERVER)))["HNS endpoints of failing pairs on win-1"]
    assert (
        "no HNS endpoint of node win-1 has this address; addresses of its endpoints: 10.9.0.8"
        in text
    )


def test_a_network_is_printed_with_when_hns_last_changed_it() -> None:
    own = HnsNetwork(id="n1", name="Calico", type="Overlay", updated="2026-11-29T10:00:00Z")
    assert hns_text.networks([own]) == "Calico  Overlay  id n1  last changed 2026-11-29T10:00:00Z"


def test_a_host_without_networks_says_so() -> None:
    assert hns_text.networks([]) == "HNS has no network"


CAPTURED = (
    b'@@PROBE@@ {"type":"capture","protocol":2,"program":"capture.py","sha256":"%s","dropped":0,"full":false,"packets":'
    b'[{"at":1.0,"interface":"eth0","way":4,"hardware":1,"data":"RQAAFAAAAABABgAACgEABQoJAAc="}]}\n'
) % CAPTURE.sha256.encode()


def test_packets_of_one_failing_way_are_captured_on_both_nodes_while_it_is_tried_again() -> None:
    cluster, tried = Cluster(captured=CAPTURED), list[Attempt]()

    def again(batch: Sequence[Attempt]) -> list[Observation]:
        tried.extend(batch)
        return [seen(batch[0])]

    with evidence(cluster, again=again) as gathering:
        found = gathering.of(
            failure(way(SERVER, pod("beside", "windows", "win-1")), way(CLIENT, SERVER))
        )
    assert set(tried) == {way(CLIENT, SERVER)}
    assert found["packets on win-1"] == "Drop: 10.9.0.7 > 10.1.0.5"
    assert "eth0 out 10.1.0.5 > 10.9.0.7 TCP" in str(found["packets on lin-1"])
    assert bytes(found["packets on lin-1, for Wireshark"])[:4] == bytes.fromhex("d4c3b2a1")  # type: ignore[arg-type]
    assert "TIMED_OUT after 100 ms" in str(found["tried again while packets were captured"])
    command = next(argv for argv in cluster.commands if CAPTURE.argv[-1] in argv)
    assert command[-6:] == ("0.5", "400", "192", "4789", "10.1.0.5,10.9.0.7", "10.0.0.1")


def test_a_capture_that_is_not_allowed_and_a_try_that_breaks_are_one_line_each() -> None:
    def again(batch: Sequence[Attempt]) -> list[Observation]:
        raise ProbeBroken("agent died\nand more")

    with evidence(Cluster(), again=again) as gathering:
        found = gathering.of(failure(way(CLIENT, SERVER)))
    text = str(found["packets on lin-1"])
    assert text.startswith("(not gathered: node lin-1: capture.py: exit status 3: PermissionError")
    assert "\n" not in text
    assert "(not tried: agent died)" in str(found["tried again while packets were captured"])
    assert [name for name in found if "Wireshark" in name] == []


def test_without_the_option_nothing_is_captured_or_tried_again() -> None:
    cluster = Cluster(captured=CAPTURED)
    with evidence(cluster) as gathering:
        found = gathering.of(failure(way(CLIENT, SERVER)))
    assert [name for name in found if "packets" in name] == []
    assert len(cluster.commands) == 2


def test_the_way_that_is_captured_leads_to_another_node_and_has_a_linux_end_if_one_does() -> None:
    beside, across = (
        way(SERVER, pod("beside", "windows", "win-1")),
        way(SERVER, pod("far", "windows", "win-2")),
    )
    assert to_capture([beside, across, way(CLIENT, SERVER)]) == way(CLIENT, SERVER)
    assert to_capture([beside, across]) == across
    assert to_capture([beside]) == beside


def test_an_error_that_was_kept_and_raised_again_as_its_own_cause_is_followed_once() -> None:
    kept = EnvironmentBroken("a pod never became ready")
    again = EnvironmentBroken("a pod never became ready (asked again)")
    kept.__cause__, again.__cause__ = again, kept
    assert failing_paths(kept) == []
