# SPDX-License-Identifier: Apache-2.0
"""Objects end as they should: grace, finalizers, owners and dependents, namespaces with their content."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tests.unit.hybridlab.builders import a_pod

CM = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"


async def gone(api: Any, path: str) -> None:
    async with asyncio.timeout(5):
        while (await api.call("GET", path)).code != 404:  # noqa: ASYNC110 (it happens on the other side of HTTPS)
            await asyncio.sleep(0.01)


async def until(api: Any, path: str, accept: Callable[[Any], bool]) -> None:
    """Wait until the object is as expected: garbage collection works beside the requests."""
    async with asyncio.timeout(5):
        while not accept(await api.get(path)):  # noqa: ASYNC110 (it happens on the other side of HTTPS)
            await asyncio.sleep(0.01)


def test_a_finalizer_holds_an_object_until_it_is_taken_away(run: Any) -> None:
    async def scenario(api: Any) -> None:
        await api.create(CM, {"metadata": {"name": "a", "finalizers": ["example.com/hold"]}})
        answer = await api.call("DELETE", f"{CM}/a")
        assert answer.body["metadata"]["deletionTimestamp"]
        more = await api.patch(
            f"{CM}/a", {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}
        )
        assert more.code == 422
        await api.patch(f"{CM}/a", {"metadata": {"finalizers": None}})
        assert (await api.call("GET", f"{CM}/a")).code == 404

    run(scenario)


def test_a_running_pod_gets_its_grace_and_goes_when_the_kubelet_says_so(run: Any) -> None:
    async def scenario(api: Any) -> None:
        await api.running_pod("p", terminationGracePeriodSeconds=5)
        first = await api.call("DELETE", f"{PODS}/p")
        assert first.body["metadata"]["deletionGracePeriodSeconds"] == 5
        longer = await api.call("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 50})
        assert longer.body["metadata"]["deletionGracePeriodSeconds"] == 5
        shorter = await api.call("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 2})
        assert shorter.body["metadata"]["deletionGracePeriodSeconds"] == 2
        await api.server.client("kubelet").delete("pods", "p", "default", grace_period_seconds=0)
        assert (await api.call("GET", f"{PODS}/p")).code == 404

    run(scenario)


def test_a_pod_that_runs_nowhere_goes_at_once(run: Any) -> None:
    async def scenario(api: Any) -> None:
        await api.create(PODS, a_pod("p"))
        deleted = await api.call("DELETE", f"{PODS}/p")
        assert deleted.body["kind"] == "Pod"
        assert (await api.call("GET", f"{PODS}/p")).code == 404

    run(scenario)


def owned(name: str, owner: Any, *, blocks: bool = False) -> dict[str, Any]:
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
    }
    return {
        "metadata": {"name": name, "ownerReferences": [{**reference, "blockOwnerDeletion": blocks}]}
    }


def test_dependents_follow_their_last_owner(run: Any) -> None:
    async def scenario(api: Any) -> None:
        first = await api.create(CM, {"metadata": {"name": "o1"}})
        second = await api.create(CM, {"metadata": {"name": "o2"}})
        both = owned("both", first)
        both["metadata"]["ownerReferences"] += owned("x", second)["metadata"]["ownerReferences"]
        await api.create(CM, owned("one", first))
        await api.create(CM, both)
        await api.call("DELETE", f"{CM}/o1")
        await gone(api, f"{CM}/one")
        left = await api.get(f"{CM}/both")
        assert [owner["name"] for owner in left["metadata"]["ownerReferences"]] == ["o2"]
        await api.call("DELETE", f"{CM}/o2")
        await gone(api, f"{CM}/both")

    run(scenario)


def test_a_dependent_of_nobody_is_collected(run: Any) -> None:
    async def scenario(api: Any) -> None:
        await api.create(CM, owned("late", {"metadata": {"name": "x", "uid": "never-was"}}))
        await gone(api, f"{CM}/late")

    run(scenario)


def test_orphans_stay_and_lose_the_reference(run: Any) -> None:
    async def scenario(api: Any) -> None:
        owner = await api.create(CM, {"metadata": {"name": "o"}})
        await api.create(CM, owned("d", owner))
        await api.call("DELETE", f"{CM}/o", {"propagationPolicy": "Orphan"})
        await until(api, f"{CM}/d", lambda found: "ownerReferences" not in found["metadata"])

    run(scenario)


def test_foreground_deletion_waits_for_blocking_dependents(run: Any) -> None:
    async def scenario(api: Any) -> None:
        owner = await api.create(CM, {"metadata": {"name": "o"}})
        blocking = owned("d", owner, blocks=True)
        blocking["metadata"]["finalizers"] = ["example.com/hold"]
        await api.create(CM, blocking)
        await api.call("DELETE", f"{CM}/o", {"propagationPolicy": "Foreground"})
        await until(api, f"{CM}/d", lambda found: "deletionTimestamp" in found["metadata"])
        waiting = await api.get(f"{CM}/o")
        assert waiting["metadata"]["finalizers"] == ["foregroundDeletion"]
        await api.patch(f"{CM}/d", {"metadata": {"finalizers": None}})
        await gone(api, f"{CM}/d")
        await gone(api, f"{CM}/o")

    run(scenario)


def test_a_namespace_stays_terminating_until_its_content_is_gone(run: Any) -> None:
    async def scenario(api: Any) -> None:
        await api.create("/api/v1/namespaces", {"metadata": {"name": "demo"}})
        held = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
        await api.create("/api/v1/namespaces/demo/configmaps", held)
        await api.create(
            "/apis/projectcalico.org/v3/namespaces/demo/networksets", {"metadata": {"name": "s"}}
        )
        deleted = await api.call("DELETE", "/api/v1/namespaces/demo")
        assert deleted.body["status"]["phase"] == "Terminating"
        await gone(api, "/apis/projectcalico.org/v3/namespaces/demo/networksets/s")
        refused = await api.call(
            "POST", "/api/v1/namespaces/demo/configmaps", {"metadata": {"name": "new"}}
        )
        assert (refused.code, refused.body["details"]["causes"][0]["reason"]) == (
            403,
            "NamespaceTerminating",
        )
        assert "because it is being terminated" in refused.body["message"]
        assert (await api.get("/api/v1/namespaces/demo"))["status"]["phase"] == "Terminating"
        await api.patch(
            "/api/v1/namespaces/demo/configmaps/held", {"metadata": {"finalizers": None}}
        )
        await gone(api, "/api/v1/namespaces/demo")

    run(scenario)


def test_a_namespace_that_ends_already_is_returned_unchanged_whatever_the_propagation(
    run: Any,
) -> None:
    """Kubernetes v1.34.4, registry/core/namespace/storage/storage.go, Delete.

    ``if len(namespace.Spec.Finalizers) != 0 { return namespace, false, nil }``
    """

    async def scenario(api: Any) -> None:
        await api.create("/api/v1/namespaces", {"metadata": {"name": "demo"}})
        held = {"metadata": {"name": "held", "finalizers": ["x/y"]}}
        await api.create("/api/v1/namespaces/demo/configmaps", held)
        await api.call("DELETE", "/api/v1/namespaces/demo")
        await until(api, "/api/v1/namespaces/demo", lambda found: "conditions" in found["status"])
        before = await api.get("/api/v1/namespaces/demo")
        for policy in ("Foreground", "Background", "Orphan"):
            answer = await api.call(
                "DELETE", "/api/v1/namespaces/demo", {"propagationPolicy": policy}
            )
            assert (answer.code, answer.body) == (200, before)
        await api.patch(
            "/api/v1/namespaces/demo/configmaps/held", {"metadata": {"finalizers": None}}
        )
        await gone(api, "/api/v1/namespaces/demo")

    run(scenario)


def test_every_namespace_has_its_account_and_the_certificate(run: Any) -> None:
    async def scenario(api: Any) -> None:
        await api.create("/api/v1/namespaces", {"metadata": {"name": "demo"}})
        assert (
            await api.call("GET", "/api/v1/namespaces/demo/serviceaccounts/default")
        ).code == 200
        found = await api.get("/api/v1/namespaces/demo/configmaps/kube-root-ca.crt")
        assert found["data"] == {"ca.crt": "PEM"}

    run(scenario, ca_certificate="PEM")
