# SPDX-License-Identifier: Apache-2.0
"""The state of Felix on nodes, for messages, and the operator's status of its components, for
the header."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from conformance.facts.felix_state import felix_on
from conformance.facts.reading import Reading
from conformance.facts.tigera_status import tigera_status
from conformance.kube.refused import ApiRefused
from tests.unit.conformance.builders import a_pod

Obj = dict[str, Any]
REFUSED = ApiRefused(403, "Forbidden", "may not", "GET pods")


def pod(
    name: str,
    node: str,
    container: str,
    *,
    ready: bool = True,
    restarts: int = 0,
    age: float = 100.0,
) -> Obj:
    begun = (datetime.now(UTC) - timedelta(seconds=age)).strftime("%Y-%m-%dT%H:%M:%SZ")
    status: Obj = {
        "name": container,
        "restartCount": restarts,
        "state": {"running": {"startedAt": begun}},
    }
    return a_pod(
        name,
        node,
        namespace="calico-system",
        ready=ready,
        spec={"containers": [{"name": container}]},
        status={"containerStatuses": [status]},
    )


class Kube:
    """Pods of calico-system, and one text as the log of each."""

    def __init__(self, *pods: Obj, log: str | Exception = "") -> None:
        self.pods, self.log, self.asked = list(pods), log, list[tuple[str, float]]()

    def objects(self, api: str, kind: str, namespace: str | None = None, **_: Any) -> list[Obj]:
        if kind == "TigeraStatus":
            return self.pods
        return [item for item in self.pods if item["metadata"]["namespace"] == namespace]

    def logs(self, namespace: str, pod: str, container: str, *, since: float, head: int) -> str:
        self.asked.append((f"{pod} {container}", since))
        if isinstance(self.log, Exception):
            raise self.log
        return self.log


def test_each_node_has_its_own_pod_readiness_restarts_and_newest_warning() -> None:
    log = "t1 [WARNING][1] felix: first\nt2 [ERROR][1] felix: Failed to program policy\nt3 [INFO][1] felix: fine\n"
    windows = pod("calico-node-windows-a", "w1", "felix", ready=False, restarts=3, age=4)
    kube: Any = Kube(windows, pod("calico-node-b", "l1", "calico-node"), log=log)
    first, second, third = felix_on(kube, ["w1", "l1", "w2", "w1"], 30.0)
    assert first.startswith("w1: ")
    assert (
        " ago (kubectl logs -n calico-system calico-node-windows-a -c felix), logged: " in first
    ), "to be pasted"
    assert "Ready," not in first
    assert ", 3 restarts, started " in first
    assert first.endswith("logged: t2 [ERROR][1] felix: Failed to program policy")
    assert re.fullmatch(
        r"l1: Ready, 0 restarts, started 10\d s ago "
        r"\(kubectl logs -n calico-system calico-node-b -c calico-node\), logged: t2 .*",
        second,
    )
    assert third == "w2: no pod of calico-node was found"
    assert kube.asked == [
        ("calico-node-windows-a felix", 30.0),
        ("calico-node-b calico-node", 30.0),
    ]


def test_a_quiet_log_and_one_that_cannot_be_read_say_so() -> None:
    node = pod("calico-node-b", "l1", "calico-node")
    quiet: Any = Kube(node, log="t3 [INFO][1] felix: fine")
    (line,) = felix_on(quiet, ["l1"], 30.0)
    assert re.fullmatch(r"l1: Ready, 0 restarts, started 10\d s ago \(kubectl logs .*\)", line)
    shut: Any = Kube(node, log=REFUSED)
    assert "its log could not be read: " in felix_on(shut, ["l1"], 30.0)[0]


@pytest.mark.parametrize(
    ("node", "container", "made", "told"),
    [
        ("l1", "calico-node", {}, False),
        ("l1", "calico-node", {"restarts": 9, "age": 4000}, False),
        ("l1", "calico-node", {"restarts": 9, "age": 10}, True),
        ("l1", "calico-node", {"age": 10}, False),
        ("l1", "calico-node", {"ready": False}, True),
        ("l1", "another", {}, True),
        ("elsewhere", "calico-node", {"ready": False}, False),
    ],
)
def test_where_policy_has_not_changed_only_a_felix_that_is_not_well_is_told(
    node: str, container: str, made: dict[str, Any], told: bool
) -> None:
    kube: Any = Kube(pod("calico-node-b", node, container, **made))
    assert bool(felix_on(kube, ["l1"], 30.0, unwell_only=True)) is told


def test_an_init_container_that_has_ended_is_not_told_in_felix_place() -> None:
    found = pod("calico-node-windows-a", "w1", "felix", ready=False)
    ended = {
        "name": "uninstall-calico",
        "state": {"terminated": {"exitCode": 0, "reason": "Completed"}},
    }
    found["status"]["initContainerStatuses"] = [ended]
    kube: Any = Kube(found)
    assert "uninstall-calico" not in felix_on(kube, ["w1"], 30.0)[0]


def status(name: str, **conditions: Obj) -> Obj:
    listed = [{"type": kind, **one} for kind, one in conditions.items()]
    return {"metadata": {"name": name}, "status": {"conditions": listed}}


FINE = {"Available": {"status": "True"}, "Degraded": {"status": "False"}}
BROKEN = {
    "Available": {"status": "False"},
    "Degraded": {"status": "True", "reason": "ResourceReadError", "message": "no IPAM"},
}


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ([status("calico", **FINE), status("ippools", **FINE)], "all 2 available"),
        (
            [status("calico", **FINE), status("calico-windows", **BROKEN)],
            "calico-windows is degraded: ResourceReadError no IPAM",
        ),
        (
            [status("calico", Available={"status": "False"}, Progressing={"status": "True"})],
            "calico is progressing",
        ),
        (
            [status("calico"), status("apiserver")],
            "apiserver is not available; calico is not available",
        ),
    ],
)
def test_the_operator_s_components_are_told_by_what_is_wrong_with_them(
    found: list[Obj], said: str
) -> None:
    kube: Any = Kube(*found)
    assert tigera_status(Reading(kube)).value == said


def test_without_the_operator_nothing_is_known_of_it() -> None:
    kube: Any = Kube()
    assert tigera_status(Reading(kube)).value is None
