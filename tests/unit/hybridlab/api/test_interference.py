# SPDX-License-Identifier: Apache-2.0
"""Faults reach requests over HTTPS and never the components inside; the audit counts what came in."""

from __future__ import annotations

from typing import Any

import pytest

from hybridlab.api.exec_faults import ExecFault, Scope
from hybridlab.api.interference import Interference


def test_429_for_a_while_says_when_to_come_back_and_ends(run: Any) -> None:
    async def scenario(api: Any) -> None:
        api.server.interference.refuse("f", 429, 2.5)
        refused = await api.call("GET", "/api/v1/namespaces")
        assert (refused.code, refused.body["reason"], refused.headers["Retry-After"]) == (
            429,
            "TooManyRequests",
            "3",
        )
        assert refused.body["details"]["retryAfterSeconds"] == 3
        assert len((await api.server.client("x").list("namespaces"))[0]) == 4
        assert (await api.call("GET", "/healthz")).code == 200
        del api.server.interference.refusals["f"]
        assert (await api.call("GET", "/api/v1/namespaces")).code == 200

    run(scenario)


@pytest.mark.parametrize(("code", "reason"), [(500, "InternalError"), (503, "ServiceUnavailable")])
def test_errors_can_be_had(run: Any, code: Any, reason: str) -> None:
    async def scenario(api: Any) -> None:
        api.server.interference.refuse("f", code, 5)
        answer = await api.call("GET", "/api")
        assert (answer.code, answer.body["reason"]) == (code, reason)

    run(scenario)


def test_one_subresource_alone_can_be_refused(run: Any) -> None:
    async def scenario(api: Any) -> None:
        api.server.interference.refuse("f", 500, 5, of="eviction", first=1)
        assert (await api.call("GET", "/api/v1/namespaces/default/pods")).code == 200
        eviction = "/api/v1/namespaces/default/pods/nobody/eviction"
        assert (await api.call("POST", f"{eviction}?dryRun=All", {})).code != 500
        assert [(await api.call("POST", eviction, {})).code == 500 for _ in range(2)] == [
            True,
            False,
        ]

    run(scenario)


def test_a_refusal_ends_by_the_clock() -> None:
    now = [100.0]
    interference = Interference(clock=lambda: now[0])
    interference.refuse("f", 429, 10)
    now[0] = 109.0
    assert interference.refusing("f") == 1.0
    now[0] = 111.0
    assert interference.refusing("f") == 0.0


def test_refusals_in_one_namespace_and_only_the_first_ones(run: Any) -> None:
    async def scenario(api: Any) -> None:
        api.server.interference.refuse("f", 500, 60, namespace="default", first=2)
        pods = "/api/v1/namespaces/{}/pods"
        assert (await api.call("GET", pods.format("kube-system"))).code == 200
        codes = [(await api.call("GET", pods.format("default"))).code for _ in range(3)]
        assert codes == [500, 500, 200]
        assert api.server.interference.refusing("f") == 0.0

    run(scenario)


def test_exec_faults_of_scopes_that_can_meet_are_refused() -> None:
    execs = Interference().execs
    execs.put("one", ExecFault(kind="cut", scope=Scope(namespace="a", pod="p")))
    execs.put("two", ExecFault(kind="hang", scope=Scope(namespace="b")))
    with pytest.raises(
        ValueError, match=r"another exec fault is active: cut \(namespace a, pod p\); heal it first"
    ):
        execs.put("three", ExecFault(kind="hang", scope=Scope(node="n1")))
    execs.heal("one")
    execs.heal("two")
    execs.put("three", ExecFault(kind="hang", scope=Scope(node="n1")))


def test_only_the_first_execs_are_caught_and_stay_so() -> None:
    execs = Interference().execs
    execs.put("f", ExecFault(kind="cut", scope=Scope(pod="p"), first=1))
    other, first, second = (
        execs.session(Scope(node="n", namespace="d", pod=name)) for name in "qpp"
    )
    assert other.fault() is None
    assert first.fault() is not None
    assert second.fault() is None
    assert first.fault() is not None


def test_an_unknown_exec_fault_is_refused_by_name() -> None:
    with pytest.raises(
        ValueError, match="there is no exec fault 'odd'; the exec faults are empty-output"
    ):
        Interference().execs.put("f", ExecFault(kind="odd"))


def test_the_audit_counts_by_verb_resource_and_agent(run: Any) -> None:
    async def scenario(api: Any) -> None:
        agent = {"User-Agent": "suite/1.0 (x)"}
        for _ in range(3):
            await api.call("GET", "/api/v1/namespaces", headers=agent)
        await api.call("GET", "/api/v1/nodes", token="alice-token", headers=agent)
        audit = api.server.audit
        assert audit.counts["list", "namespaces", "suite/1.0"] == 3
        last = audit.last[-1]
        assert (last.verb, last.resource, last.user, last.code) == ("list", "nodes", "alice", 403)
        assert audit.total() == 4

    run(scenario)


def test_admission_meets_whatever_is_created_or_replaced_by_whomever(run: Any) -> None:
    async def scenario(api: Any) -> None:
        def mark(obj: Any, plural: str, old: Any) -> Any:
            obj["metadata"].setdefault("labels", {})["admitted-as"] = plural
            obj["metadata"]["labels"]["before"] = old["metadata"]["name"] if old else "none"
            return obj

        api.server.interference.admission.taps["one"] = mark
        inside = {"metadata": {"name": "inside", "namespace": "default"}}
        made = await api.server.client("x").create("configmaps", inside)
        assert made["metadata"]["labels"] == {"admitted-as": "configmaps", "before": "none"}
        data = {"data": {"a": "b"}}
        made = await api.server.client("x").patch("configmaps", "inside", data, "default")
        assert made["metadata"]["labels"] == {"admitted-as": "configmaps", "before": "inside"}
        made = await api.call(
            "POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "outside"}}
        )
        assert made.body["metadata"]["labels"] == {"admitted-as": "configmaps", "before": "none"}

    run(scenario)
