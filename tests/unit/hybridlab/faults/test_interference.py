# SPDX-License-Identifier: Apache-2.0
"""Faults of requests, execs and containers: how they answer, what undoes them, what is said of what is not there."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hybridlab.api.contract import ApiError
from hybridlab.faults.errors import BadFault
from tests.unit.hybridlab.faults.fault_lab import lab


def test_exec_and_requests_go_wrong_through_the_interference() -> None:
    async def run() -> None:
        async with lab() as made:
            execs = made.interference.execs
            identity = await made.injector.inject("exec-empty-output")
            assert await made.injector.evidence(identity) == [
                "exec: empty-output (everywhere); execs affected: 0"
            ]
            with pytest.raises(BadFault, match="another exec fault is active: empty-output"):
                await made.injector.inject("exec-loses-status")
            assert list(execs.active) == [identity]
            await made.injector.heal(identity)
            identity = await made.injector.inject("exec-loses-status", {"pod": "p", "first": "2"})
            assert await made.injector.evidence(identity) == [
                "exec: lost-status (pod p); execs affected: 0 of the first 2"
            ]
            refusing = await made.injector.inject("api-429", {"seconds": "30"})
            assert 29 < made.interference.refusing(refusing) <= 30
            await made.injector.heal_all()
            assert not execs.active
            assert made.interference.refusing(refusing) == 0

    asyncio.run(run())


def test_healing_one_api_that_cannot_be_reached_leaves_the_other() -> None:
    async def run() -> None:
        async with lab() as made:
            short = await made.injector.inject("api-unreachable", {"seconds": "30"})
            long = await made.injector.inject("api-unreachable", {"seconds": "60"})
            await made.injector.heal(short)
            assert made.interference.away()
            assert 59 < made.interference.going_away(long) <= 60
            await made.injector.heal(long)
            assert not made.interference.away()

    asyncio.run(run())


def test_a_missing_program_is_told_in_the_words_of_the_node_s_runtime() -> None:
    async def run() -> None:
        async with lab() as made:
            identity = await made.injector.inject("exec-missing-binary")
            words = made.interference.execs.active[identity].start_error
            pod = {"spec": {"nodeName": "linux-1"}}
            assert 'exec: "python3": executable file not found in $PATH' in words(
                pod, "c", ("python3",)
            )
            pod = {"spec": {"nodeName": "windows-2022"}}
            assert "The system cannot find the file specified" in words(
                pod, "c", ("powershell.exe",)
            )

    asyncio.run(run())


def test_a_container_is_killed_once_and_what_is_not_there_is_named() -> None:
    async def run() -> None:
        async with lab() as made:
            await made.injector.inject("pod-restarts", {"pod": "demo/web-1"})
            assert made.killed == [("web-1", "main")]
            for pod, container, message in (
                ("web-1", "", "expected NAMESPACE/NAME"),
                ("demo/nobody", "", "there is no Pod demo/nobody"),
                ("demo/web-1", "side", "has no container 'side'"),
            ):
                with pytest.raises(BadFault, match=message):
                    await made.injector.inject("pod-restarts", {"pod": pod, "container": container})

    asyncio.run(run())


def test_admission_of_somebody_else_changes_pods_or_refuses_objects_until_it_is_healed() -> None:
    async def run() -> None:
        async with lab() as made:
            admit = made.interference.admission

            def created(namespace: str = "demo-1") -> dict[str, Any]:
                spec: dict[str, Any] = {"containers": [{**MAIN}]}
                meta = {"name": "p", "namespace": namespace}
                admit({"metadata": meta, "spec": spec}, "pods", None)
                return spec

            for does in ("sidecar", "limits", "mirror", "unready-sidecar", "proxy"):
                await made.injector.inject("admission", {"does": does, "namespaces": "demo-"})
            spec = created()
            assert [one["name"] for one in spec["containers"]] == [
                "main",
                "log-shipper",
                "log-shipper",
                "istio-proxy",
            ]
            assert spec["containers"][0]["image"] == "mirror.example.com/busybox"
            assert spec["containers"][0]["resources"]["limits"] == {
                "cpu": "500m",
                "memory": "512Mi",
            }
            assert created("kube-system") == {"containers": [MAIN]}
            for does in ("priority", "no-sysctls"):
                await made.injector.inject("admission", {"does": does, "namespaces": "demo-"})
            asked = {"runAsUser": 1, "sysctls": [{"name": "net.ipv4.ping_group_range"}]}
            pod = {"metadata": {"name": "p", "namespace": "demo-1"}}
            spec = {"containers": [], "securityContext": {**asked}}
            admit({**pod, "spec": spec}, "pods", None)
            assert spec["securityContext"] == {"runAsUser": 1}
            assert spec["priorityClassName"] == "tenants"
            edited = {"metadata": {"name": "p", "namespace": "demo-1"}, "spec": {"containers": []}}
            assert admit(edited, "pods", edited)["spec"] == {"containers": []}
            await made.injector.heal_all()
            assert created() == {"containers": [MAIN]}
            for does, code, words in REFUSED:
                identity = await made.injector.inject("admission", {"does": does})
                with pytest.raises(ApiError, match=words) as refused:
                    created()
                assert refused.value.code == code
                admit({"metadata": {"name": "s"}}, "services", None)
                await made.injector.heal(identity)

    asyncio.run(run())


MAIN = {"name": "main", "image": "busybox"}
REFUSED = (
    ("quota", 403, 'pods "p" is forbidden: failed quota: compute: must specify limits.cpu'),
    (
        "quota-exceeded",
        403,
        'pods "p" is forbidden: exceeded quota: compute, requested: pods=1, used: pods=20',
    ),
    (
        "limit-range",
        403,
        'pods "p" is forbidden: minimum cpu usage per Container is 50m, but request is 10m',
    ),
    ("denies", 403, 'admission webhook "policies.example.com" denied the request'),
    ("times-out", 500, "failed calling webhook .* context deadline exceeded"),
)
