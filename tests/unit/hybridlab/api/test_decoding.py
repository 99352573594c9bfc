# SPDX-License-Identifier: Apache-2.0
"""Bodies that are no object of their kind are 400, in the words of the real server; YAML is as good as JSON."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.unit.hybridlab.builders import a_pod

PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
CALICO = "/apis/projectcalico.org/v3"
YAML = {"Content-Type": "application/yaml"}


def named(**fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": "x"}, **fields}


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        (PODS, a_pod(container={"imagee": "x"}), "spec.containers[0].imagee"),
        (PODS, a_pod(nodeSelectors={}), "spec.nodeSelectors"),
        (PODS, {**a_pod(), "extra": 1}, "extra"),
        (f"{CALICO}/felixconfigurations", named(spec={"vxlanVni": 1}), "spec.vxlanVni"),
    ],
)
def test_an_unknown_field_is_400_when_validation_is_strict(
    run: Any, path: str, body: Any, field: str
) -> None:
    async def scenario(api: Any) -> None:
        answer = await api.call("POST", f"{path}?fieldValidation=Strict", body)
        assert (answer.code, answer.body["reason"]) == (400, "BadRequest"), answer.body
        assert answer.body["message"].endswith(f': strict decoding error: unknown field "{field}"')

    run(scenario)


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        (PODS, a_pod(hostNetwork="yes"),
         'Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal string into Go struct field '
         "PodSpec.spec.hostNetwork of type bool"),
        (PODS, a_pod(container={"ports": [{"containerPort": "80"}]}),
         "json: cannot unmarshal string into Go struct field ContainerPort.spec.containers.ports.containerPort of "
         "type int32"),
        (PODS, a_pod(containers={}),
         "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container"),
        (MAPS, named(data={"a": 1}),
         "json: cannot unmarshal number into Go struct field ConfigMap.data of type string"),
        (PODS, a_pod(container={"resources": {"limits": {"cpu": "x"}}}), "quantities must match the regular expression"),
        ("/api/v1/namespaces/default/secrets", named(data={"k": "not base64!"}),
         "illegal base64 data at input byte 3"),
        (LEASES, named(spec={"renewTime": "2026-01-01T00:00:00Z"}),
         'parsing time "2026-01-01T00:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000"'),
    ],
)  # fmt: skip
def test_a_value_of_the_wrong_type_is_400_in_the_words_of_go(
    run: Any, path: str, body: Any, words: str
) -> None:
    async def scenario(api: Any) -> None:
        answer = await api.call("POST", path, body)
        assert (answer.code, answer.body["reason"]) == (400, "BadRequest"), answer.body
        assert words in answer.body["message"]

    run(scenario)


def test_a_patch_that_makes_nonsense_is_422_and_shows_the_patch(run: Any) -> None:
    async def scenario(api: Any) -> None:
        await api.create(MAPS, named(data={"a": "1"}))
        merged = await api.patch(f"{MAPS}/x?fieldValidation=Strict", {"dta": {}})
        assert (merged.code, merged.body["details"]["causes"][0]["field"]) == (422, "patch")
        assert merged.body["message"].endswith(': strict decoding error: unknown field "dta"')
        strategic = await api.patch(
            f"{MAPS}/x?fieldValidation=Strict", {"dta": {"b": "1"}}, "strategic-merge-patch"
        )
        start = ' "" is invalid: patch: Invalid value: "map[dta:map[b:1]]": '
        assert strategic.body["message"] == f'{start}strict decoding error: unknown field "dta"'

    run(scenario)


def test_an_apply_of_an_unknown_field_names_it(run: Any) -> None:
    async def scenario(api: Any) -> None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", **named(dta={"a": "1"})}
        answer = await api.patch(f"{MAPS}/x?fieldManager=me", body, "apply-patch")
        assert answer.code == 500
        assert answer.body["message"].endswith(
            "(/x; v1, Kind=ConfigMap): .dta: field not declared in schema"
        )

    run(scenario)


def test_yaml_is_read_and_written(run: Any) -> None:
    async def scenario(api: Any) -> None:
        text = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: y}\ndata: {day: 2026-01-01}\n"
        assert (await api.call("POST", MAPS, text, headers=YAML)).code == 201
        shown = await api.call("GET", f"{MAPS}/y", headers={"Accept": "application/yaml"})
        assert shown.headers["Content-Type"] == "application/yaml"
        assert yaml.safe_load(shown.body)["data"]["day"] == "2026-01-01"
        both = await api.call(
            "GET", f"{MAPS}/y", headers={"Accept": "application/json, application/yaml"}
        )
        assert both.headers["Content-Type"] == "application/json"
        broken = await api.call("POST", MAPS, b"a: [", headers=YAML)
        assert (broken.code, broken.body["reason"]) == (400, "BadRequest")

    run(scenario)


def test_an_apply_is_yaml_and_nothing_else(run: Any) -> None:
    async def scenario(api: Any) -> None:
        headers = {"Content-Type": "application/apply-patch+json"}
        answer = await api.call("PATCH", f"{MAPS}/x?fieldManager=me", named(), headers=headers)
        assert answer.code == 415

    run(scenario)


def test_a_lease_is_replaced_only_by_who_has_read_it(run: Any) -> None:
    async def scenario(api: Any) -> None:
        made = await api.create(LEASES, named(spec={"holderIdentity": "a"}))
        blind = await api.call("PUT", f"{LEASES}/x", named(spec={"holderIdentity": "b"}))
        assert (blind.code, "must be specified for an update" in blind.body["message"]) == (
            422,
            True,
        )
        seen = await api.call("PUT", f"{LEASES}/x", {**made, "spec": {"holderIdentity": "b"}})
        assert seen.code == 200

    run(scenario)
