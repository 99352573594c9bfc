# SPDX-License-Identifier: Apache-2.0
"""projectcalico.org/v3 and crd.projectcalico.org/v1 are two views of one store."""

from __future__ import annotations

from typing import Any

import pytest

V3 = "/apis/projectcalico.org/v3"
CRD = "/apis/crd.projectcalico.org/v1"
POLICY = {"metadata": {"name": "allow-dns"}, "spec": {"selector": "all()"}}


def test_a_policy_has_its_tier_in_the_name_in_the_old_group_only(run: Any) -> None:
    async def scenario(api: Any) -> None:
        made = await api.create(f"{V3}/namespaces/default/networkpolicies", POLICY)
        assert (made["metadata"]["name"], made["spec"]["tier"]) == ("allow-dns", "default")
        assert made["metadata"]["labels"] == {"projectcalico.org/tier": "default"}
        old = await api.get(f"{CRD}/namespaces/default/networkpolicies/default.allow-dns")
        assert (old["apiVersion"], old["metadata"]["name"]) == (
            "crd.projectcalico.org/v1",
            "default.allow-dns",
        )
        assert old["metadata"]["uid"] == made["metadata"]["uid"]
        listed = await api.get(f"{CRD}/networkpolicies")
        assert [item["metadata"]["name"] for item in listed["items"]] == ["default.allow-dns"]
        await api.call("DELETE", f"{CRD}/namespaces/default/networkpolicies/default.allow-dns")
        assert (
            await api.call("GET", f"{V3}/namespaces/default/networkpolicies/allow-dns")
        ).code == 404

    run(scenario)


@pytest.mark.parametrize("version", ["v3.28.0", "v3.29.1", "v3.31.2", "v3.32.1"])
@pytest.mark.parametrize("way", ["create", "apply"])
def test_a_definition_renames_no_policy(run: Any, version: str, way: str) -> None:
    """What `kubectl apply -f` of a file with crd.projectcalico.org/v1 needs the second time."""
    path = f"{CRD}/namespaces/default/networkpolicies"
    body = {"apiVersion": "crd.projectcalico.org/v1", "kind": "NetworkPolicy", **POLICY}

    async def scenario(api: Any) -> None:
        assert (await api.call("GET", f"{path}/allow-dns")).code == 404
        if way == "apply":
            made = (await api.patch(f"{path}/allow-dns?fieldManager=m", body, "apply-patch")).body
            again = await api.patch(f"{path}/allow-dns?fieldManager=m", body, "apply-patch")
            assert (again.code, again.body["metadata"]["uid"]) == (200, made["metadata"]["uid"])
        else:
            made = await api.create(path, body)
        assert made["metadata"]["name"] == "allow-dns"
        changed = await api.patch(
            f"{path}/allow-dns", {"metadata": {"name": "allow-dns"}, "spec": {"order": 5}}
        )
        assert (changed.code, changed.body["metadata"]["name"]) == (200, "allow-dns"), changed.body
        put = await api.call(
            "PUT", f"{path}/allow-dns", {**changed.body, "spec": {"selector": "a == 'b'"}}
        )
        assert (put.code, put.body["metadata"]["name"]) == (200, "allow-dns"), put.body
        listed = await api.get(path)
        assert [item["metadata"]["name"] for item in listed["items"]] == ["allow-dns"]
        v3 = await api.get(f"{V3}/namespaces/default/networkpolicies")
        assert [item["spec"]["selector"] for item in v3["items"]] == ["a == 'b'"]
        assert (await api.call("GET", f"{path}/default.allow-dns")).code == 404
        assert (await api.call("DELETE", f"{path}/allow-dns")).code == 200
        assert (await api.call("GET", f"{path}/allow-dns")).code == 404

    run(scenario, calico_version=version)


def test_a_policy_of_the_v3_group_has_one_name_in_the_old_group(run: Any) -> None:
    async def scenario(api: Any) -> None:
        await api.create(f"{V3}/globalnetworkpolicies", POLICY)
        assert (await api.call("GET", f"{CRD}/globalnetworkpolicies/allow-dns")).code == 404
        assert (await api.call("GET", f"{CRD}/globalnetworkpolicies/default.allow-dns")).code == 200

    run(scenario)


def test_later_calico_shows_plain_names(run: Any) -> None:
    async def scenario(api: Any) -> None:
        await api.create(f"{V3}/globalnetworkpolicies", POLICY)
        assert (await api.call("GET", f"{CRD}/globalnetworkpolicies/allow-dns")).code == 200
        assert (await api.call("GET", f"{CRD}/globalnetworkpolicies/default.allow-dns")).code == 404

    run(scenario, calico_version="v3.32.1")


def test_a_policy_of_another_tier_carries_it_in_both(run: Any) -> None:
    async def scenario(api: Any) -> None:
        await api.create(f"{V3}/tiers", {"metadata": {"name": "net"}, "spec": {"order": 100}})
        bare = await api.call(
            "POST", f"{V3}/globalnetworkpolicies", {**POLICY, "spec": {"tier": "net"}}
        )
        assert (bare.code, bare.body["message"]) == (
            500,
            "Incorrectly formatted policy name allow-dns",
        )
        body = {"metadata": {"name": "net.allow"}, "spec": {"tier": "net"}}
        assert (await api.create(f"{V3}/globalnetworkpolicies", body))["metadata"][
            "name"
        ] == "net.allow"
        assert (await api.call("GET", f"{CRD}/globalnetworkpolicies/net.allow")).code == 200

    run(scenario)


def test_the_ipam_configuration_has_two_names(run: Any) -> None:
    async def scenario(api: Any) -> None:
        await api.create(
            f"{V3}/ipamconfigurations",
            {"metadata": {"name": "default"}, "spec": {"strictAffinity": False}},
        )
        old = await api.get(f"{CRD}/ipamconfigs/default")
        assert old["kind"] == "IPAMConfig"
        changed = await api.patch(f"{CRD}/ipamconfigs/default", {"spec": {"strictAffinity": True}})
        assert changed.code == 200
        assert (await api.get(f"{V3}/ipamconfigurations/default"))["spec"]["strictAffinity"] is True

    run(scenario)


def test_blocks_are_in_the_old_group_only_and_affinities_in_both(run: Any) -> None:
    async def scenario(api: Any) -> None:
        block = {
            "metadata": {"name": "192-168-0-0-26"},
            "spec": {"cidr": "192.168.0.0/26", "allocations": [0, None]},
        }
        made = await api.create(f"{CRD}/ipamblocks", block)
        assert made["spec"]["allocations"] == [0, None]
        assert (await api.call("GET", f"{V3}/ipamblocks")).code == 404
        affinity = {
            "metadata": {"name": "n1-x"},
            "spec": {"node": "n1", "state": "confirmed", "deleted": "false"},
        }
        old = await api.create(f"{CRD}/blockaffinities", affinity)
        assert old["spec"]["deleted"] == "false"
        assert (await api.get(f"{V3}/blockaffinities/n1-x"))["spec"]["deleted"] is False

    run(scenario)


def test_a_write_without_a_version_is_refused_for_custom_resources(run: Any) -> None:
    async def scenario(api: Any) -> None:
        made = await api.create(f"{V3}/globalnetworkpolicies", POLICY)
        blind = await api.call("PUT", f"{V3}/globalnetworkpolicies/allow-dns", POLICY)
        assert (blind.code, "must be specified for an update" in blind.body["message"]) == (
            422,
            True,
        )
        seeing = {**made, "spec": {**made["spec"], "order": 5}}
        assert (await api.call("PUT", f"{V3}/globalnetworkpolicies/allow-dns", seeing)).code == 200

    run(scenario)


def test_events_are_one_store_for_both_of_their_groups(run: Any) -> None:
    async def scenario(api: Any) -> None:
        involved = {"kind": "Pod", "name": "p", "namespace": "default"}
        body = {
            "metadata": {"name": "e"},
            "involvedObject": involved,
            "reason": "Started",
            "message": "it runs",
        }
        await api.create("/api/v1/namespaces/default/events", body)
        new = await api.get("/apis/events.k8s.io/v1/namespaces/default/events/e")
        assert (new["note"], new["regarding"]["name"], "message" in new) == ("it runs", "p", False)
        found = await api.get(
            "/api/v1/events?fieldSelector=involvedObject.name%3Dp,reason%3DStarted"
        )
        assert len(found["items"]) == 1
        assert (await api.get("/apis/events.k8s.io/v1/events?fieldSelector=regarding.name%3Dq"))[
            "items"
        ] == []

    run(scenario)


def test_generation_is_shown_by_the_definitions_group_only(run: Any) -> None:
    async def scenario(api: Any) -> None:
        path = "/apis/projectcalico.org/v3/ippools"
        made = await api.create(
            path, {"metadata": {"name": "p"}, "spec": {"cidr": "192.168.0.0/16"}}
        )
        assert "generation" not in made["metadata"]
        changed = await api.patch(f"{path}/p", {"spec": {"disabled": True}})
        assert "generation" not in changed.body["metadata"]
        assert (await api.get("/apis/crd.projectcalico.org/v1/ippools/p"))["metadata"][
            "generation"
        ] == 2

    run(scenario)


def test_a_terminating_namespace_says_what_holds_it_up(run: Any) -> None:
    async def scenario(api: Any) -> None:
        await api.create("/api/v1/namespaces", {"metadata": {"name": "demo"}})
        held = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
        await api.create("/apis/projectcalico.org/v3/namespaces/demo/networksets", held)
        await api.call("DELETE", "/api/v1/namespaces/demo")
        conditions = (await api.get("/api/v1/namespaces/demo"))["status"]["conditions"]
        said = {item["type"]: item["message"] for item in conditions if item["status"] == "True"}
        assert said == {
            "NamespaceContentRemaining":
                "Some resources are remaining: networksets.projectcalico.org has 1 resource instances",
            "NamespaceFinalizersRemaining":
                "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances",
        }  # fmt: skip

    run(scenario)


NAMES = [("a", "default.a"), ("default.a", "a")]
BOTH = pytest.mark.parametrize(("first", "second"), NAMES)
POLICIES = pytest.mark.parametrize(
    ("policies", "called"),
    [
        ("globalnetworkpolicies", "GlobalNetworkPolicy({})"),
        ("namespaces/default/networkpolicies", "NetworkPolicy(default/{})"),
        ("namespaces/default/stagednetworkpolicies", "GlobalNetworkPolicy({})"),
    ],
)


@pytest.mark.parametrize("names", NAMES)
@POLICIES
@pytest.mark.parametrize("release", ["v3.29.4", "v3.31.7"])
def test_a_policy_of_the_default_tier_is_found_by_the_name_that_it_was_given_alone(
    run: Any, policies: str, called: str, names: tuple[str, str], release: str
) -> None:
    first, second = names

    async def scenario(api: Any) -> None:
        body = {"metadata": {"name": first}, "spec": {"selector": "all()"}}
        made = await api.create(f"{V3}/{policies}", body)
        assert made["metadata"]["name"] == first
        again = await api.call("POST", f"{V3}/{policies}", {**body, "metadata": {"name": second}})
        assert (again.code, again.body["reason"]) == (409, "AlreadyExists")
        for method in ("GET", "DELETE"):
            other = await api.call(method, f"{V3}/{policies}/{second}")
            assert (other.code, other.body["message"]) == (
                500,
                f"resource not found {called.format(second)}",
            )
        changed = (await api.patch(f"{V3}/{policies}/{first}", {"spec": {"order": 7}})).body
        assert (changed["metadata"]["name"], changed["spec"]["order"]) == (first, 7)
        behind = (await api.patch(f"{CRD}/{policies}/default.a", {"spec": {"order": 8}})).body
        assert behind["metadata"]["name"] == "default.a"
        assert (await api.get(f"{V3}/{policies}/{first}"))["spec"]["order"] == 8
        assert (await api.call("DELETE", f"{V3}/{policies}/{first}")).code == 200
        assert (await api.call("GET", f"{V3}/{policies}/{first}")).code == 404
        assert (await api.call("GET", f"{CRD}/{policies}/default.a")).code == 404

    run(scenario, calico_version=release)


@BOTH
def test_an_apply_does_not_make_a_policy_that_another_name_stands_for(
    run: Any, first: str, second: str
) -> None:
    async def scenario(api: Any) -> None:
        await api.create(
            f"{V3}/globalnetworkpolicies",
            {"metadata": {"name": first}, "spec": {"selector": "all()"}},
        )
        body = {
            "apiVersion": "projectcalico.org/v3",
            "kind": "GlobalNetworkPolicy",
            "metadata": {"name": second},
        }
        applied = await api.patch(
            f"{V3}/globalnetworkpolicies/{second}?fieldManager=me", body, "apply-patch"
        )
        assert (applied.code, applied.body["message"]) == (
            500,
            f"resource not found GlobalNetworkPolicy({second})",
        )

    run(scenario)


@BOTH
def test_the_first_releases_with_tiers_put_the_default_one_into_each_name(
    run: Any, first: str, second: str
) -> None:
    async def scenario(api: Any) -> None:
        body = {"metadata": {"name": first}, "spec": {"selector": "all()"}}
        assert (await api.create(f"{V3}/globalnetworkpolicies", body))["metadata"][
            "name"
        ] == "default.a"
        again = await api.call(
            "POST", f"{V3}/globalnetworkpolicies", {**body, "metadata": {"name": second}}
        )
        assert (again.code, again.body["reason"]) == (409, "AlreadyExists")
        assert (await api.get(f"{V3}/globalnetworkpolicies/{second}"))["metadata"][
            "name"
        ] == "default.a"
        assert (await api.get(f"{CRD}/globalnetworkpolicies/default.a"))["metadata"][
            "name"
        ] == "default.a"
        assert (await api.call("DELETE", f"{V3}/globalnetworkpolicies/{second}")).code == 200
        assert (await api.call("GET", f"{V3}/globalnetworkpolicies/{first}")).code == 404

    run(scenario, calico_version="v3.29.3")


@BOTH
def test_later_calico_has_two_policies_where_names_differ_by_the_tier(
    run: Any, first: str, second: str
) -> None:
    async def scenario(api: Any) -> None:
        for name in (first, second):
            body = {"metadata": {"name": name}, "spec": {"selector": "all()"}}
            assert (await api.create(f"{V3}/globalnetworkpolicies", body))["metadata"][
                "name"
            ] == name
        assert (await api.call("DELETE", f"{V3}/globalnetworkpolicies/{first}")).code == 200
        assert (await api.call("GET", f"{V3}/globalnetworkpolicies/{first}")).code == 404
        assert (await api.call("GET", f"{V3}/globalnetworkpolicies/{second}")).code == 200

    run(scenario, calico_version="v3.32.1")


def test_a_policys_name_says_its_tier_and_no_other(run: Any) -> None:
    async def scenario(api: Any) -> None:
        body = {"metadata": {"name": "other.z"}, "spec": {"selector": "all()"}}
        answer = await api.call("POST", f"{V3}/globalnetworkpolicies", body)
        assert (answer.code, answer.body["message"]) == (
            500,
            "Incorrectly formatted policy name other.z",
        )

    run(scenario)


def test_a_tier_with_policies_is_not_deleted_except_in_a_dry_run(run: Any) -> None:
    async def scenario(api: Any) -> None:
        await api.create(f"{V3}/tiers", {"metadata": {"name": "net"}, "spec": {"order": 100}})
        await api.create(
            f"{V3}/globalnetworkpolicies", {"metadata": {"name": "net.a"}, "spec": {"tier": "net"}}
        )
        refused = await api.call("DELETE", f"{V3}/tiers/net")
        assert (refused.code, refused.body["message"]) == (
            500,
            "operation delete is not supported on net: Cannot delete a non-empty tier",
        )
        assert (await api.call("DELETE", f"{V3}/tiers/net?dryRun=All")).code == 200
        assert (await api.call("DELETE", f"{V3}/globalnetworkpolicies/net.a")).code == 200
        assert (await api.call("DELETE", f"{V3}/tiers/net")).code == 200

    run(scenario)


def test_a_dry_run_checks_no_values_of_calicos(run: Any) -> None:
    async def scenario(api: Any) -> None:
        body = {
            "metadata": {"name": "a"},
            "spec": {"selector": "all()", "types": ["Ingress", "Ingress"]},
        }
        assert (await api.call("POST", f"{V3}/globalnetworkpolicies", body)).code == 422
        assert (await api.call("POST", f"{V3}/globalnetworkpolicies?dryRun=All", body)).code == 201

    run(scenario)


@pytest.mark.parametrize("vni", [0, 99999999])
def test_calico_does_not_check_the_vni(run: Any, vni: int) -> None:
    async def scenario(api: Any) -> None:
        body = {"metadata": {"name": "default"}, "spec": {"vxlanVNI": vni}}
        assert (await api.call("POST", f"{V3}/felixconfigurations", body)).code == 201

    run(scenario)
