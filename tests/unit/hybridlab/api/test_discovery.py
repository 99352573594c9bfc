# SPDX-License-Identifier: Apache-2.0
"""What is served is discoverable in every form, and follows the settings and CustomResourceDefinitions."""

from __future__ import annotations

from typing import Any

import pytest

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def fields(data: bytes) -> list[tuple[int, bytes]]:
    """Number and bytes of each field of a protobuf message that has no other kinds of fields."""
    found, at = [], 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        tag, size = varint(), varint()
        assert tag & 7 == 2
        found.append((tag >> 3, data[at : at + size]))
        at += size
    return found


@pytest.mark.parametrize("slash", ["", "/"])
def test_paths_answer_with_and_without_a_slash_at_the_end(run: Any, slash: str) -> None:
    async def scenario(api: Any) -> None:
        assert (await api.get(f"/api{slash}"))["versions"] == ["v1"]
        groups = {group["name"] for group in (await api.get(f"/apis{slash}"))["groups"]}
        assert {
            "apps",
            "projectcalico.org",
            "crd.projectcalico.org",
            "operator.tigera.io",
            "policy",
        } <= groups
        assert (await api.get(f"/apis/apps{slash}"))["preferredVersion"]["version"] == "v1"
        names = {item["name"]: item for item in (await api.get(f"/api/v1{slash}"))["resources"]}
        assert names["pods"]["shortNames"] == ["po"]
        assert names["pods/eviction"]["group"] == "policy"
        assert (await api.get(f"/version{slash}"))["minor"] == "34"

    run(scenario)


def test_the_aggregated_form_says_the_same(run: Any) -> None:
    async def scenario(api: Any) -> None:
        answer = await api.call("GET", "/apis", headers={"Accept": AGGREGATED})
        assert answer.headers["Content-Type"] == AGGREGATED.split(",", maxsplit=1)[0]
        groups = {
            item["metadata"]["name"]: item["versions"][0]["resources"]
            for item in answer.body["items"]
        }
        plain = (await api.get("/apis/apps/v1"))["resources"]
        assert {r["resource"] for r in groups["apps"]} == {
            r["name"] for r in plain if "/" not in r["name"]
        }
        core = await api.call("GET", "/api", headers={"Accept": AGGREGATED})
        assert any(
            r["resource"] == "pods" for r in core.body["items"][0]["versions"][0]["resources"]
        )

    run(scenario)


def test_an_ambiguous_plural_means_the_aggregated_group_first(run: Any) -> None:
    async def scenario(api: Any) -> None:
        names = [group["name"] for group in (await api.get("/apis"))["groups"]]
        assert (
            names.index("networking.k8s.io")
            < names.index("projectcalico.org")
            < names.index("crd.projectcalico.org")
        )

    run(scenario)


@pytest.mark.parametrize(("v3", "crd_v1"), [(True, True), (True, False), (False, True)])
def test_the_calico_groups_are_a_setting(run: Any, v3: bool, crd_v1: bool) -> None:
    async def scenario(api: Any) -> None:
        assert ((await api.call("GET", "/apis/projectcalico.org/v3/ippools")).code == 200) is v3
        assert (
            (await api.call("GET", "/apis/crd.projectcalico.org/v1/ippools")).code == 200
        ) is crd_v1
        names = {item["metadata"]["name"] for item in (await api.get(CRDS))["items"]}
        assert ("ippools.crd.projectcalico.org" in names) is crd_v1
        assert "installations.operator.tigera.io" in names
        services = {
            item["metadata"]["name"]
            for item in (await api.get("/apis/apiregistration.k8s.io/v1/apiservices"))["items"]
        }
        assert ("v3.projectcalico.org" in services) is v3
        assert ("v1.crd.projectcalico.org" in services) is crd_v1

    run(scenario, calico_v3_api=v3, calico_crd_v1_api=crd_v1)


def widget_definition() -> dict[str, Any]:
    size = {"type": "integer", "minimum": 1, "default": 3}
    spec = {
        "type": "object",
        "required": ["colour"],
        "properties": {"size": size, "colour": {"enum": ["red", "blue"]}},
    }
    schema = {"type": "object", "properties": {"spec": spec, "status": {"type": "object"}}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            {"name": "Colour", "type": "string", "jsonPath": ".spec.colour"}
        ],
    }
    names = {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]}
    definition = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": names,
        "versions": [version],
    }
    return {"metadata": {"name": "widgets.example.com"}, "spec": definition}


def test_a_custom_resource_is_served_at_once_checked_and_gone_with_its_definition(run: Any) -> None:
    path = "/apis/example.com/v1/namespaces/default/widgets"

    async def scenario(api: Any) -> None:
        assert (await api.call("GET", path)).code == 404
        made = await api.create(CRDS, widget_definition())
        assert {c["type"] for c in made["status"]["conditions"]} == {"NamesAccepted", "Established"}
        widget = await api.create(path, {"metadata": {"name": "w"}, "spec": {"colour": "red"}})
        assert (widget["kind"], widget["spec"]["size"]) == ("Widget", 3)
        table = await api.get(path, headers=TABLE)
        assert [c["name"] for c in table["columnDefinitions"]] == ["Name", "Colour", "Age"]
        assert table["rows"][0]["cells"][:2] == ["w", "red"]
        body = {"metadata": {"name": "x"}, "spec": {"colour": "green", "size": 0, "weight": 1}}
        strict = await api.call("POST", f"{path}?fieldValidation=Strict", body)
        assert (strict.code, 'unknown field "spec.weight"' in strict.body["message"]) == (400, True)
        wrong = await api.call("POST", path, body)
        fields = {cause["field"] for cause in wrong.body["details"]["causes"]}
        assert (wrong.code, fields) == (422, {"spec.colour", "spec.size"})
        listed = (await api.get("/apis/example.com/v1"))["resources"]
        assert [item["name"] for item in listed] == ["widgets", "widgets/status"]
        await api.call("DELETE", f"{CRDS}/widgets.example.com")
        assert (await api.call("GET", path)).code == 404
        await api.create(CRDS, widget_definition())
        assert (await api.get(path))["items"] == []

    run(scenario)


def test_a_definition_with_rules_that_are_not_obeyed_is_refused(run: Any) -> None:
    async def scenario(api: Any) -> None:
        body = widget_definition()
        schema = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        schema["x-kubernetes-validations"] = [{"rule": "self.spec.size > 1"}]
        answer = await api.call("POST", CRDS, body)
        assert (answer.code, "not emulated: validation rules in CEL" in answer.body["message"]) == (
            422,
            True,
        )

    run(scenario)


def test_tables_show_what_people_look_at(run: Any) -> None:
    async def scenario(api: Any) -> None:
        await api.running_pod("p")
        table = await api.get("/api/v1/namespaces/default/pods", headers=TABLE)
        columns = [(column["name"], column["priority"]) for column in table["columnDefinitions"]]
        assert columns[:5] == [
            ("Name", 0),
            ("Ready", 0),
            ("Status", 0),
            ("Restarts", 0),
            ("Age", 0),
        ]
        assert columns[5:7] == [("IP", 1), ("Node", 1)]
        assert table["rows"][0]["cells"][:4] == ["p", "1/1", "Running", "0"]
        assert table["rows"][0]["cells"][5:7] == ["10.1.0.5", "n1"]
        assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
        service = await api.get("/api/v1/namespaces/default/services", headers=TABLE)
        assert service["rows"][0]["cells"][:5] == [
            "kubernetes",
            "ClusterIP",
            "10.96.0.1",
            "<none>",
            "443/TCP",
        ]
        calico = await api.get("/apis/projectcalico.org/v3/ippools", headers=TABLE)
        assert [column["name"] for column in calico["columnDefinitions"]] == ["Name", "Created At"]

    run(scenario)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (
            {
                "containerStatuses": [
                    {"name": "main", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
                ]
            },
            "CrashLoopBackOff",
        ),
        (
            {"containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": 3}}}]},
            "ExitCode:3",
        ),
        (
            {
                "containerStatuses": [
                    {"name": "main", "state": {"terminated": {"reason": "Completed"}}}
                ]
            },
            "Completed",
        ),
        ({"phase": "Failed", "reason": "Evicted", "containerStatuses": []}, "Evicted"),
        ({"containerStatuses": [], "phase": "Pending"}, "Pending"),
    ],
)
def test_the_status_of_a_pod_is_one_word(run: Any, change: Any, word: str) -> None:
    async def scenario(api: Any) -> None:
        await api.running_pod("p")
        await api.patch("/api/v1/namespaces/default/pods/p/status", {"status": change})
        table = await api.get("/api/v1/namespaces/default/pods", headers=TABLE)
        assert table["rows"][0]["cells"][2] == word

    run(scenario)


def test_openapi_tells_types_keys_and_that_fields_are_validated(run: Any) -> None:
    async def scenario(api: Any) -> None:
        index = (await api.get("/openapi/v3"))["paths"]
        document = await api.get(index["apis/apps/v1"]["serverRelativeURL"])
        schemas = document["components"]["schemas"]
        containers = schemas["io.k8s.api.v1.PodSpec"]["properties"]["containers"]
        assert (containers["x-kubernetes-patch-merge-key"], containers["type"]) == ("name", "array")
        roots = [s for s in schemas.values() if "x-kubernetes-group-version-kind" in s]
        assert {s["x-kubernetes-group-version-kind"][0]["kind"] for s in roots} == {
            "Deployment",
            "ReplicaSet",
            "DaemonSet",
            "StatefulSet",
        }
        patch = document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"][
            "patch"
        ]
        assert "fieldValidation" in {item["name"] for item in patch["parameters"]}
        swagger = await api.get("/openapi/v2")
        assert "io.k8s.api.v1.PodSpec" in swagger["definitions"]
        protobuf = {"Accept": "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"}
        encoded = await api.call("GET", "/openapi/v2", headers=protobuf)
        assert (
            encoded.headers["Content-Type"]
            == "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
        )
        document = dict(fields(encoded.body))
        entries = [dict(fields(entry)) for _, entry in fields(document[9])]
        definitions = {entry[1]: entry[2] for entry in entries}
        assert document[1] == b"2.0"
        assert {name.decode() for name in definitions} == swagger["definitions"].keys()
        assert [
            value
            for number, value in fields(definitions[b"io.k8s.api.v1.Container"])
            if number == 19
        ] == [b"name"]
        assert (await api.call("GET", "/openapi/v3", headers=protobuf)).code == 406

    run(scenario)


def test_every_reference_in_the_documents_leads_somewhere(run: Any) -> None:
    async def scenario(api: Any) -> None:
        await api.create(CRDS, widget_definition())
        for place in (await api.get("/openapi/v3"))["paths"].values():
            document = await api.get(place["serverRelativeURL"])
            schemas = document["components"]["schemas"]

            def references(node: Any) -> list[str]:
                if isinstance(node, dict):
                    own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
                    return own + [found for value in node.values() for found in references(value)]
                return (
                    [found for item in node for found in references(item)]
                    if isinstance(node, list)
                    else []
                )

            assert {name.rpartition("/")[2] for name in references(document)} <= schemas.keys()

    run(scenario)


def test_a_cluster_installed_by_manifests_has_no_operator_group(run: Any) -> None:
    async def scenario(api: Any) -> None:
        assert (await api.call("GET", "/apis/operator.tigera.io/v1")).code == 404
        definitions = await api.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
        assert not [item for item in definitions["items"] if "tigera" in item["metadata"]["name"]]

    run(scenario, calico_operator=False)
