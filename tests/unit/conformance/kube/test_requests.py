# SPDX-License-Identifier: Apache-2.0
"""Requests name their user, end in time, are repeated only if that is safe, and fail with a
clear message."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from conformance.errors import MissingCapability
from conformance.kube import discovery
from conformance.kube.client import Kube
from conformance.kube.refused import ApiRefused, ApiUnreachable
from conformance.kube.rights import Right, missing
from conformance.model.change import ObjectRef


def patient(kube: Kube, seconds: float = 3.0) -> None:
    kube.timings = replace(kube.timings, api_retry=seconds)


def test_every_request_says_which_suite_and_test_asks(kube: Kube, api: Any) -> None:
    kube.test = "suites/demo/test_x.py::test[linux to windows]"
    kube.version()
    agent = api.requests[-1].headers["User-Agent"]
    assert agent.startswith("calico-windows-conformance/")
    assert agent.endswith(" suites/demo/test_x.py::test[linux_to_windows]")
    assert api.requests[-1].headers["Authorization"] == "Bearer t"


def test_a_list_is_read_page_by_page(kube: Kube, api: Any) -> None:
    def page(request: Any) -> Any:
        if "continue" in request.query:
            return 200, {
                "items": [{"metadata": {"name": "b"}}],
                "metadata": {"resourceVersion": "9"},
            }
        return 200, {
            "items": [{"metadata": {"name": "a"}}],
            "metadata": {"continue": "more", "resourceVersion": "9"},
        }

    api.routes["GET /api/v1/pods"] = page
    items, version = kube.objects_at("v1", "Pod")
    assert [item["metadata"]["name"] for item in items] == ["a", "b"]
    assert version == "9"
    assert items[0]["kind"] == "Pod"


def test_a_throttled_write_is_repeated(kube: Kube, api: Any, fakes: Any) -> None:
    patient(kube)
    answers = [fakes.status(429, "TooManyRequests", "slow down"), (201, {"kind": "Pod"})]
    api.routes["POST /x"] = lambda _: answers.pop(0)
    assert kube.request("POST", "/x", body={}) == {"kind": "Pod"}


def test_a_write_that_failed_with_500_is_not_repeated(kube: Kube, api: Any, fakes: Any) -> None:
    patient(kube)
    api.routes["POST /x"] = fakes.status(500, "InternalError", "etcd is away")
    with pytest.raises(ApiRefused, match="POST /x: 500 InternalError: etcd is away"):
        kube.request("POST", "/x", body={})
    assert len(api.requests) == 1


def test_a_read_that_failed_with_503_is_repeated_until_it_works(
    kube: Kube, api: Any, fakes: Any
) -> None:
    patient(kube)
    answers = [fakes.status(503, "ServiceUnavailable", "starting"), (200, {"ok": True})]
    api.routes["GET /x"] = lambda _: answers.pop(0)
    assert kube.read("/x") == {"ok": True}


@pytest.mark.parametrize("code", [429, 500])
def test_what_is_refused_again_and_again_says_how_often(
    kube: Kube, api: Any, fakes: Any, code: int
) -> None:
    patient(kube, 1.5)
    api.routes["GET /x"] = fakes.status(code, "Reason", "not now")
    with pytest.raises(
        ApiRefused, match=rf"^GET /x: {code} Reason: not now \([2-9] tries in \d\.\d s\)$"
    ) as caught:
        kube.read("/x")
    assert (caught.value.code, caught.value.message) == (code, "not now")


def test_a_server_that_never_answers_ends_in_time_and_says_how_often_it_was_asked(
    kube: Kube, api: Any
) -> None:
    kube.timings = replace(kube.timings, api_answer=0.1, api_retry=0.0)

    def slow(_: Any) -> tuple[int, dict[str, Any]]:
        time.sleep(0.4)
        return 200, {}

    api.routes["GET /x"] = slow
    with pytest.raises(
        ApiUnreachable,
        match=r"GET /x: no answer from the API server after 1 try in .*[Rr]ead timed out",
    ):
        kube.read("/x")


def test_a_listed_group_whose_server_is_away_is_not_asked_for_as_long_as_other_reads(
    kube: Kube, api: Any, fakes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    patient(kube, 30.0)
    monkeypatch.setattr(discovery, "AGGREGATED", 0.5)
    group = {"name": "e.org", "versions": [{"groupVersion": "e.org/v1"}]}
    api.routes["GET /apis"] = (200, {"groups": [group]})
    api.routes["GET /apis/e.org/v1"] = (503, b"service unavailable")
    begin = time.monotonic()
    assert not kube.discovery.serves("e.org/v1")
    assert not kube.discovery.serves("e.org/v1", "Gadget")
    assert 0.25 <= time.monotonic() - begin < 5.0
    asked = [request.path for request in api.requests]
    assert asked == ["/apis", *2 * ["/apis/e.org/v1"], "/apis", "/apis/e.org/v1"]
    assert kube.discovery.away == {"e.org/v1": "503 service unavailable"}


def test_while_the_api_server_itself_is_in_trouble_no_group_is_taken_for_away(
    kube: Kube, api: Any, fakes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    patient(kube, 30.0)
    monkeypatch.setattr(discovery, "AGGREGATED", 0.5)
    until: list[float] = []

    def answer(there: dict[str, Any]) -> Any:
        if until and time.monotonic() < until[0]:
            return 503, b"no healthy upstream"
        return 200, there

    group = {"name": "e.org", "versions": [{"groupVersion": "e.org/v1"}]}
    gadgets = {"resources": [{"name": "gadgets", "kind": "Gadget", "namespaced": False}]}
    api.routes["GET /apis"] = lambda _: answer({"groups": [group]})
    api.routes["GET /apis/e.org/v1"] = lambda _: answer(gadgets)
    assert "e.org/v1" in kube.discovery.group_versions()
    until.append(time.monotonic() + 2.0)
    assert kube.discovery.serves("e.org/v1", "Gadget")
    assert kube.discovery.away == {}


def test_a_listed_group_whose_server_comes_back_at_once_is_served(
    kube: Kube, api: Any, fakes: Any
) -> None:
    patient(kube)
    group = {"name": "e.org", "versions": [{"groupVersion": "e.org/v1"}]}
    api.routes["GET /apis"] = (200, {"groups": [group]})
    gadgets = {"resources": [{"name": "gadgets", "kind": "Gadget", "namespaced": False}]}
    given = [(503, b"service unavailable"), (200, gadgets)]
    api.routes["GET /apis/e.org/v1"] = lambda _: given.pop(0)
    assert kube.discovery.serves("e.org/v1", "Gadget")
    assert kube.discovery.away == {}


def test_a_kind_that_is_not_served_is_something_the_environment_lacks(kube: Kube) -> None:
    with pytest.raises(MissingCapability, match=r"does not serve Gadget of example\.org/v1"):
        kube.get("example.org/v1", "Gadget", "g")
    assert kube.find("example.org/v1", "Gadget", "g") is None


def test_a_missing_object_is_found_as_none(kube: Kube) -> None:
    assert kube.find("v1", "Pod", "p", "n") is None
    with pytest.raises(ApiRefused) as caught:
        kube.get("v1", "Pod", "p", "n")
    assert caught.value.not_found


def test_a_forbidden_object_is_never_none(kube: Kube, api: Any, fakes: Any) -> None:
    api.routes["GET /api/v1/namespaces/n/pods/p"] = fakes.status(403, "Forbidden", "no")
    with pytest.raises(ApiRefused, match="403 Forbidden"):
        kube.find("v1", "Pod", "p", "n")


def test_all_missing_rights_are_named_at_once(kube: Kube, api: Any) -> None:
    def review(request: Any) -> Any:
        attributes = request.body["spec"]["resourceAttributes"]
        return 201, {
            "status": {
                "allowed": attributes["verb"] == "get" and attributes.get("subresource") != "exec"
            }
        }

    api.routes["POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews"] = review
    rights = [
        Right("get", "pods"),
        Right("get", "pods/exec"),
        Right("create", "deployments", "apps", namespace="n"),
    ]
    assert [right.label for right in missing(kube, rights)] == [
        "get pods/exec in all namespaces", "create deployments.apps in n",
    ]  # fmt: skip


def test_an_object_is_addressed_by_its_whole_path(kube: Kube, api: Any) -> None:
    api.routes["GET /apis/apps/v1/namespaces/n/deployments/d"] = (200, {"kind": "Deployment"})
    assert kube.get("apps/v1", "Deployment", "d", "n") == {"kind": "Deployment"}
    assert ObjectRef(
        api_version="apps/v1", kind="Deployment", name="d", namespace="n"
    ).label.startswith("Deployment n/d")
