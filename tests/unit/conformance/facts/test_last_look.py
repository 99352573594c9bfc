# SPDX-License-Identifier: Apache-2.0
"""The reading of logs at the end of a run: errors and panics become notes with counts, within
bounds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from conformance.errors import ProbeBroken
from conformance.facts import last_look
from conformance.kube.refused import ApiRefused, ApiUnreachable
from tests.unit.conformance.builders import a_pod

Obj = dict[str, Any]
NODES = ("l1", "w1")
FORBIDDEN = ApiRefused(403, "Forbidden", "may not", "GET /api/v1/namespaces/n/pods/p/log")
CALM = "2026-11-29 07:09:23.1 [WARNING][1] felix/x.go 1: late\nI1129 07:09:23.1 1 x.go:1] E1129\n"


def ago(seconds: float) -> str:
    return f"{datetime.now(UTC) - timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}"


def pod(name: str, node: str, *containers: str, namespace: str = "calico-system") -> Obj:
    running = [
        {"name": each, "state": {"running": {"startedAt": ago(9000)}}} for each in containers
    ]
    ended = {"name": "install-cni", "state": {"terminated": {"finishedAt": ago(9000)}}}
    status = {"containerStatuses": running, "initContainerStatuses": [ended]}
    return a_pod(name, node, namespace=namespace, status=status)


class Kube:
    """Pods, and the log of each container by its name."""

    def __init__(self, *pods: Obj, **logs: str | Exception) -> None:
        self.pods = pods
        self.logs_of = logs
        self.asked: list[Any] = []
        self.refuses: Exception | None = None

    def objects(self, _: str, kind: str, namespace: str) -> list[Obj]:
        assert kind == "Pod"
        if self.refuses:
            raise self.refuses
        return [each for each in self.pods if each["metadata"]["namespace"] == namespace]

    def logs(self, namespace: str, pod: str, container: str, **more: Any) -> str:
        self.asked.append((namespace, pod, container, more))
        text = self.logs_of.get(container.replace("-", "_"), CALM)
        if isinstance(text, Exception):
            raise text
        return text


FELIX = pod("calico-node-windows-a", "w1", "felix", "node")
LINUX = pod("calico-node-b", "l1", "calico-node")


def no_file(*_: Any) -> str:
    return ""


def notes(
    kube: Any, seconds: float = 100.0, cni_log: last_look.CniLog | None = no_file
) -> list[str]:
    return last_look.last_look(kube, NODES, seconds, cni_log)


def test_logs_without_errors_leave_no_note() -> None:
    kube = Kube(FELIX, LINUX)
    assert notes(kube) == []
    assert [asked[2] for asked in kube.asked] == ["felix", "node", "calico-node"]
    assert all(
        asked[3] == {"since": 100.0, "previous": False, "head": last_look.BYTES}
        for asked in kube.asked
    )


@pytest.mark.parametrize(
    ("line", "counted"),
    [
        ("2026-11-29 07:09:23.1 [ERROR][42] felix/x.go 1: failed", "1 error"),
        ("2026-11-29 07:09:23.1 [FATAL][42] felix/x.go 1: failed", "1 panic"),
        ("2026-11-29 07:09:23.1 [PANIC][42] felix/x.go 1: failed", "1 panic"),
        ("E1129 07:09:23.123456       1 proxier.go:12] failed", "1 error"),
        ("F1129 07:09:23.123456       1 server.go:12] failed", "1 panic"),
        ("panic: runtime error: index out of range", "1 panic"),
        ("fatal error: concurrent map writes", "1 panic"),
        ('time="2026-11-29T07:09:23Z" level=error msg="failed"', "1 error"),
        ('{"level":"error","msg":"failed"}', "1 error"),
        ('{"level": "panic", "msg": "failed"}', "1 panic"),
    ],
)
def test_errors_and_panics_of_every_form_are_counted(line: str, counted: str) -> None:
    (note,) = notes(Kube(FELIX, LINUX, felix=f"{CALM}{line}\r\n{CALM}"))
    assert note == (
        f"last look at logs: {counted} since the run began in the log of felix in "
        f"calico-system/calico-node-windows-a on w1: {line[:160]}; "
        "kubectl logs -n calico-system calico-node-windows-a -c felix"
    )


def test_the_gravest_log_comes_first_with_its_panic_and_each_log_has_one_note() -> None:
    error, panic = "[ERROR] e", "[PANIC] p"
    kube = Kube(FELIX, LINUX, felix=f"{error}\n" * 3, calico_node=f"{panic}\n{error}\n")
    first, second = notes(kube)
    assert "1 panic, 1 error since the run began in the log of calico-node in " in first
    assert ": [PANIC] p; " in first
    assert "3 errors since the run began in the log of felix in " in second


def test_a_line_is_shown_without_its_secret() -> None:
    blanks = " " * 150
    kube = Kube(FELIX, felix=f"[ERROR] Authorization: Bearer {'Zk9pQ2' * 5}{blanks}x\n")
    (note,) = [each for each in notes(kube) if "felix" in each]
    assert ": [ERROR] Authorization: (removed)" in note
    assert "Zk9pQ2" not in note


def test_typha_and_kube_proxy_of_covered_nodes_are_read_and_nothing_else() -> None:
    others = (
        pod("calico-typha-c", "l1", "calico-typha"),
        pod("calico-typha-d", "l9", "calico-typha"),
        pod("kube-proxy-windows-e", "w1", "kube-proxy", namespace="kube-system"),
        pod("coredns-f", "l1", "coredns", namespace="kube-system"),
    )
    kube = Kube(FELIX, LINUX, *others)
    assert notes(kube) == []
    assert [asked[1] for asked in kube.asked] == [
        "calico-node-windows-a",
        "calico-node-windows-a",
        "calico-node-b",
        "calico-typha-c",
        "kube-proxy-windows-e",
    ]


def test_a_container_that_ended_during_the_run_has_the_log_of_its_end() -> None:
    again = pod("calico-node-windows-a", "w1", "felix")
    again["status"]["containerStatuses"][0]["lastState"] = {"terminated": {"finishedAt": ago(50)}}
    again["status"]["initContainerStatuses"][0]["state"]["terminated"]["finishedAt"] = ago(60)
    kube = Kube(again, LINUX, felix="panic: x")
    first, second = notes(kube)
    assert {
        asked[2]: asked[3]["previous"] for asked in kube.asked if asked[2] != "calico-node"
    } == {
        "install-cni": False,
        "felix": True,
    }
    assert first.endswith("-c felix")
    assert second.endswith("-c felix --previous")
    assert [asked[2] for asked in kube.asked].count("felix") == 2


def test_what_may_not_be_read_is_said_once() -> None:
    kube = Kube(FELIX, LINUX, felix=FORBIDDEN, node=FORBIDDEN, calico_node="[ERROR] x")
    first, second = notes(kube)
    assert "1 error" in first
    assert second == "last look at logs: 2 logs not read: no right to get pods/log"
    kube.refuses = ApiRefused(403, "Forbidden", "may not", "GET /api/v1/namespaces/n/pods")
    assert notes(kube) == [
        f"last look at logs: pods of {namespace} cannot be listed: no right to list pods"
        for namespace in ("calico-system", "kube-system")
    ]
    kube.refuses = ApiUnreachable("GET pods", 3, 2.0, "gone")
    assert all("cannot be listed: GET pods" in note for note in notes(kube))


def test_a_node_without_a_pod_of_felix_is_named() -> None:
    assert notes(Kube(LINUX)) == [
        "last look at logs: Felix does not run in a pod on w1: neither its log nor the CNI "
        "plugin's log was read there"
    ]


def test_logs_and_seconds_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    many = [pod(f"calico-typha-{number}", "l1", "calico-typha") for number in range(60)]
    kube = Kube(*many, FELIX, LINUX, calico_typha="[ERROR] x")
    told = notes(kube)
    assert len(kube.asked) == last_look.LOGS
    assert len(told) == last_look.NOTES + 2
    assert told[-2] == "last look at logs: errors in 34 more logs"
    assert told[-1] == "last look at logs: 25 logs not read: the limit is 40 logs and 15 s"
    monkeypatch.setattr(last_look, "SECONDS", -1.0)
    kube.asked.clear()
    assert notes(kube) == ["last look at logs: 65 logs not read: the limit is 40 logs and -1 s"]
    assert kube.asked == []


def test_the_cni_plugins_log_is_read_once_for_each_node_with_a_running_felix() -> None:
    asked: list[Any] = []

    def cni_log(felix: Obj, container: str, os: str, since: datetime, within: float) -> str:
        asked.append((felix["metadata"]["name"], container, os))
        assert 99 < (datetime.now(UTC) - since).total_seconds() < 110
        assert 1.0 <= within <= last_look.SECONDS
        return "2026-11-29 07:09:23.1 [ERROR][4] cni-plugin/plugin.go 586: no address\n"

    ended = pod("calico-node-windows-e", "w1", "felix")
    ended["status"]["containerStatuses"][0]["state"] = {"waiting": {"reason": "CrashLoopBackOff"}}
    typha = pod("calico-typha-c", "l1", "calico-typha")
    found = notes(Kube(FELIX, LINUX, ended, typha), cni_log=cni_log)
    assert sorted(asked) == [
        ("calico-node-b", "calico-node", "linux"),
        ("calico-node-windows-a", "felix", "windows"),
    ]
    line = "2026-11-29 07:09:23.1 [ERROR][4] cni-plugin/plugin.go 586: no address"
    assert found == [
        f"last look at logs: 1 error since the run began in the CNI plugin's log on l1: {line}; "
        "kubectl exec -n calico-system calico-node-b -c calico-node -- "
        "tail /var/log/calico/cni/cni.log",
        f"last look at logs: 1 error since the run began in the CNI plugin's log on w1: {line}; "
        "kubectl exec -n calico-system calico-node-windows-a -c felix -- "
        r"powershell Get-Content -Tail 10 C:\var\log\calico\cni\cni.log",
    ]


def test_cni_logs_that_cannot_be_read_are_one_note() -> None:
    def refused(*_: Any) -> str:
        raise ProbeBroken("no right to run commands in Calico's pods")

    assert notes(Kube(FELIX, LINUX), cni_log=refused) == [
        "last look at logs: 2 logs not read: no right to run commands in Calico's pods"
    ]
    assert notes(Kube(FELIX, LINUX), cni_log=None) == [
        "last look at logs: the CNI plugin's log, a file on each node, was not read: this run "
        "executes no commands in pods"
    ]
