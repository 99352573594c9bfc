# SPDX-License-Identifier: Apache-2.0
"""Who is known, and who may do what, as RBAC and the token table say right now."""

from __future__ import annotations

from typing import Any

import pytest

from hybridlab.api.contract import ApiError

RBAC = "/apis/rbac.authorization.k8s.io/v1"
REVIEWS = "/apis/authorization.k8s.io/v1"
DEV = "alice-token"


def role(name: str, **rule: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"], **rule}],
    }


def binding(name: str, kind: str, role_name: str, subject: Any = None) -> dict[str, Any]:
    subject = subject or {"kind": "User", "name": "alice"}
    return {
        "metadata": {"name": name},
        "roleRef": {"kind": kind, "name": role_name},
        "subjects": [subject],
    }


@pytest.mark.parametrize("token", ["", "unknown", "expired-token"])
def test_no_good_token_is_401(run: Any, token: str) -> None:
    async def scenario(api: Any) -> None:
        for path in ("/api/v1/namespaces", "/api", "/apis"):
            answer = await api.call("GET", path, token=token)
            assert (answer.code, answer.body["reason"], answer.body["message"]) == (
                401,
                "Unauthorized",
                "Unauthorized",
            )

    run(scenario)


def test_version_and_health_need_no_token(run: Any) -> None:
    async def scenario(api: Any) -> None:
        assert (await api.get("/version", token=""))["gitVersion"] == "v1.34.1"
        for path in ("/healthz", "/livez", "/readyz"):
            assert await api.get(path, token="") == "ok"

    run(scenario)


@pytest.mark.parametrize(
    ("method", "path", "message"),
    [
        ("GET", "/api/v1/namespaces/default/pods",
         'pods is forbidden: User "alice" cannot list resource "pods" in API group "" in the namespace "default"'),
        ("GET", "/api/v1/nodes",
         'nodes is forbidden: User "alice" cannot list resource "nodes" in API group "" at the cluster scope'),
        ("DELETE", "/apis/apps/v1/namespaces/default/deployments/d",
         'deployments.apps "d" is forbidden: User "alice" cannot delete resource "deployments" in API group "apps" '
         'in the namespace "default"'),
        ("GET", "/api/v1/namespaces/default/pods/p/log",
         'pods "p" is forbidden: User "alice" cannot get resource "pods/log" in API group "" '
         'in the namespace "default"'),
        ("GET", "/metrics", 'forbidden: User "alice" cannot get path "/metrics"'),
    ],
)  # fmt: skip
def test_what_is_not_granted_is_forbidden_in_the_real_words(
    run: Any, method: str, path: str, message: str
) -> None:
    async def scenario(api: Any) -> None:
        answer = await api.call(method, path, token=DEV)
        assert (answer.code, answer.body["reason"], answer.body["message"]) == (
            403,
            "Forbidden",
            message,
        )

    run(scenario)


def test_a_role_counts_in_its_namespace_and_from_the_moment_it_is_bound(run: Any) -> None:
    async def scenario(api: Any) -> None:
        pods = "/api/v1/namespaces/default/pods"
        await api.create(f"{RBAC}/namespaces/default/roles", role("reader"))
        assert (await api.call("GET", pods, token=DEV)).code == 403
        await api.create(f"{RBAC}/namespaces/default/rolebindings", binding("b", "Role", "reader"))
        assert (await api.call("GET", pods, token=DEV)).code == 200
        assert (await api.call("GET", f"{pods}/x", token=DEV)).code == 403
        assert (await api.call("GET", "/api/v1/namespaces/kube-system/pods", token=DEV)).code == 403
        await api.call("DELETE", f"{RBAC}/namespaces/default/roles/reader")
        assert (await api.call("GET", pods, token=DEV)).code == 403

    run(scenario)


def test_groups_names_subresources_and_wildcards_are_obeyed(run: Any) -> None:
    async def scenario(api: Any) -> None:
        async def may(verb: str, resource: str, name: str = "", sub: str = "") -> bool:
            about = {
                "verb": verb,
                "resource": resource,
                "subresource": sub,
                "name": name,
                "namespace": "default",
            }
            body = {"spec": {"resourceAttributes": about}}
            review = await api.create(f"{REVIEWS}/selfsubjectaccessreviews", body, token=DEV)
            return bool(review["status"]["allowed"])

        roles = [
            {
                "apiGroups": [""],
                "resources": ["configmaps"],
                "resourceNames": ["one"],
                "verbs": ["get"],
            },
            {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"]},
            {"apiGroups": [""], "resources": ["*/status"], "verbs": ["patch"]},
            {"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"]},
        ]
        await api.create(f"{RBAC}/clusterroles", {"metadata": {"name": "mixed"}, "rules": roles})
        developers = {"kind": "Group", "name": "developers"}
        await api.create(
            f"{RBAC}/clusterrolebindings", binding("b", "ClusterRole", "mixed", developers)
        )
        assert [await may("get", "configmaps", "one"), await may("get", "configmaps", "two")] == [
            True,
            False,
        ]
        assert [await may("create", "pods", sub="exec"), await may("create", "pods")] == [
            True,
            False,
        ]
        assert [await may("patch", "nodes", sub="status"), await may("patch", "nodes")] == [
            True,
            False,
        ]
        assert await may("deletecollection", "secrets")

    run(scenario)


def test_reviews_answer_for_oneself_and_for_others(run: Any) -> None:
    async def scenario(api: Any) -> None:
        who = await api.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", {}, token=DEV)
        assert who["status"]["userInfo"] == {
            "username": "alice",
            "groups": ["developers", "system:authenticated"],
        }
        about = {"verb": "list", "resource": "pods"}
        body = {"spec": {"user": "bob", "resourceAttributes": about}}
        assert not (await api.create(f"{REVIEWS}/subjectaccessreviews", body))["status"]["allowed"]
        body["spec"]["groups"] = ["system:masters"]
        assert (await api.create(f"{REVIEWS}/subjectaccessreviews", body))["status"]["allowed"]
        refused = await api.call("POST", f"{REVIEWS}/subjectaccessreviews", body, token=DEV)
        assert refused.code == 403
        rules = await api.create(
            f"{REVIEWS}/selfsubjectrulesreviews", {"spec": {"namespace": "default"}}, token=DEV
        )
        assert any(
            "selfsubjectreviews" in rule["resources"] for rule in rules["status"]["resourceRules"]
        )
        token = await api.create(
            "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": DEV}}
        )
        assert (token["status"]["authenticated"], token["status"]["user"]["username"]) == (
            True,
            "alice",
        )
        bad = await api.create(
            "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "x"}}
        )
        assert bad["status"] == {"user": {}, "error": "invalid bearer token"}

    run(scenario)


def test_a_service_account_acts_by_its_token_until_it_is_gone(run: Any) -> None:
    async def scenario(api: Any) -> None:
        path = "/api/v1/namespaces/default/serviceaccounts"
        await api.create(path, {"metadata": {"name": "robot"}})
        issued = await api.create(f"{path}/robot/token", {"spec": {"expirationSeconds": 600}})
        token = issued["status"]["token"]
        who = await api.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", {}, token=token)
        assert who["status"]["userInfo"]["username"] == "system:serviceaccount:default:robot"
        assert "system:serviceaccounts:default" in who["status"]["userInfo"]["groups"]
        short = await api.call("POST", f"{path}/robot/token", {"spec": {"expirationSeconds": 5}})
        assert (short.code, "less than 10 minutes" in short.body["message"]) == (422, True)
        await api.call("DELETE", f"{path}/robot")
        assert (await api.call("GET", "/api", token=token)).code == 401

    run(scenario)


def test_one_may_act_for_another_only_when_allowed_to(run: Any) -> None:
    async def scenario(api: Any) -> None:
        as_alice = {"Impersonate-User": "alice", "Impersonate-Group": "developers"}
        answer = await api.call("GET", "/api/v1/nodes", headers=as_alice)
        assert (answer.code, 'User "alice" cannot list' in answer.body["message"]) == (403, True)
        refused = await api.call(
            "GET", "/api", token=DEV, headers={"Impersonate-User": "kubernetes-admin"}
        )
        assert (refused.code, 'cannot impersonate resource "users"' in refused.body["message"]) == (
            403,
            True,
        )

    run(scenario)


ACCOUNT = "system:serviceaccount:default:x"
PARTS: list[tuple[dict[str, str], str, str, str]] = [
    ({"Impersonate-User": "bob"}, "", "users", "bob"),
    ({"Impersonate-User": ACCOUNT}, "", "serviceaccounts", "x"),
    ({"Impersonate-User": "bob", "Impersonate-Group": "devs"}, "", "groups", "devs"),
    ({"Impersonate-User": "bob", "Impersonate-Uid": "u1"}, "authentication.k8s.io", "uids", "u1"),
    (
        {"Impersonate-User": "bob", "Impersonate-Extra-Scopes": "v"},
        "authentication.k8s.io",
        "userextras/scopes",
        "v",
    ),
]


@pytest.mark.parametrize(
    ("headers", "group", "resource", "name"), PARTS, ids=[part[2] for part in PARTS]
)
def test_each_part_of_acting_for_another_needs_its_own_right(
    run: Any, headers: dict[str, str], group: str, resource: str, name: str
) -> None:
    """A role for the other parts alone does not do; with the one for this part it does."""
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"

    def rules(*, own: str) -> dict[str, Any]:
        others = [part for part in PARTS if part[2] != resource and part[2] != "serviceaccounts"]
        allowed = [
            {"apiGroups": [g], "resources": [r], "verbs": ["impersonate"]} for _, g, r, _ in others
        ]
        mine = {
            "apiGroups": [group],
            "resources": [resource],
            "resourceNames": [own],
            "verbs": ["impersonate"],
        }
        return {"metadata": {"name": "act"}, "rules": [*allowed, mine]}

    async def scenario(api: Any) -> None:
        await api.create(f"{RBAC}/clusterroles", rules(own="another"))
        await api.create(f"{RBAC}/clusterrolebindings", binding("act", "ClusterRole", "act"))
        refused = await api.call("POST", path, {}, token=DEV, headers=headers)
        kind = resource.partition("/")[0] + (f".{group}" if group else "")
        where = (
            'in the namespace "default"'
            if resource == "serviceaccounts"
            else "at the cluster scope"
        )
        assert (refused.code, refused.body["message"]) == (
            403,
            f'{kind} "{name}" is forbidden: User "alice" cannot impersonate resource "{resource}" '
            f'in API group "{group}" {where}',
        )
        await api.patch(f"{RBAC}/clusterroles/act", rules(own=name))
        who = await api.create(path, {}, token=DEV, headers=headers)
        assert who["status"]["userInfo"]["username"] == headers["Impersonate-User"]

    run(scenario)


def test_a_role_for_one_name_is_enough_to_list_and_watch_that_name(run: Any) -> None:
    """As `kubectl get cm mine -w` and `kubectl wait` of a restricted user ask."""
    path = "/api/v1/namespaces/default/configmaps"

    async def scenario(api: Any) -> None:
        one = role(
            "one",
            resources=["configmaps"],
            resourceNames=["mine"],
            verbs=["list", "watch", "deletecollection"],
        )
        await api.create(ROLES, one)
        await api.create(BINDINGS, binding("one", "Role", "one"))
        await api.create(path, {"metadata": {"name": "mine"}})
        listed = await api.get(f"{path}?fieldSelector=metadata.name=mine", token=DEV)
        assert [item["metadata"]["name"] for item in listed["items"]] == ["mine"]
        watched = await api.call(
            "GET", f"{path}?fieldSelector=metadata.name%3Dmine&watch=1&timeoutSeconds=1", token=DEV
        )
        assert watched.code == 200
        for query in (
            "",
            "?fieldSelector=metadata.name=other",
            "?fieldSelector=metadata.name!=mine",
        ):
            refused = await api.call("GET", path + query, token=DEV)
            assert refused.code == 403, query
        assert (
            await api.call("DELETE", f"{path}?fieldSelector=metadata.name=mine", token=DEV)
        ).code == 403

    run(scenario)


ROLES = f"{RBAC}/namespaces/default/roles"
BINDINGS = f"{RBAC}/namespaces/default/rolebindings"
ADMIN_BINDING = binding("esc", "ClusterRole", "cluster-admin")


async def rights_on_roles(api: Any, *verbs: str) -> None:
    """Let alice list pods, and use these verbs on roles and bindings of the namespace."""
    rules = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
        {
            "apiGroups": ["rbac.authorization.k8s.io"],
            "resources": ["roles", "rolebindings"],
            "verbs": [*verbs],
        },
    ]
    await api.create(ROLES, {"metadata": {"name": "mine"}, "rules": rules})
    await api.create(BINDINGS, binding("mine", "Role", "mine"))


def test_nobody_binds_a_role_that_grants_more_than_they_have(run: Any) -> None:
    async def scenario(api: Any) -> None:
        await rights_on_roles(api, "*")
        refused = await api.call("POST", BINDINGS, ADMIN_BINDING, token=DEV)
        assert (refused.code, refused.body["reason"]) == (403, "Forbidden")
        assert refused.body["message"] == (
            'rolebindings.rbac.authorization.k8s.io "esc" is forbidden: user "alice" (groups=["developers" '
            '"system:authenticated"]) is attempting to grant RBAC permissions not currently held:\n'
            '{APIGroups:["*"], Resources:["*"], Verbs:["*"]}\n{NonResourceURLs:["*"], Verbs:["*"]}'
        )
        assert (
            await api.call("POST", BINDINGS, binding("none", "ClusterRole", "ghost"), token=DEV)
        ).code == 404
        await api.create(BINDINGS, binding("free", "Role", "mine"), token=DEV)
        grown = {"subjects": [{"kind": "User", "name": "bob"}]}
        assert (await api.patch(f"{BINDINGS}/free", grown, token=DEV)).code == 200
        await api.create(
            BINDINGS,
            binding("admins", "ClusterRole", "cluster-admin", {"kind": "User", "name": "root"}),
        )
        assert (await api.patch(f"{BINDINGS}/admins", grown, token=DEV)).code == 403
        same = await api.patch(
            f"{BINDINGS}/admins", {"metadata": {"labels": {"a": "b"}}}, token=DEV
        )
        assert same.code == 200

    run(scenario)


def test_nobody_writes_a_role_that_grants_more_than_they_have(run: Any) -> None:
    async def scenario(api: Any) -> None:
        await rights_on_roles(api, "create", "patch", "list")
        refused = await api.call(
            "POST", ROLES, role("more", resources=["secrets", "pods"], verbs=["get"]), token=DEV
        )
        assert refused.code == 403
        assert refused.body["message"].endswith(
            '\n{APIGroups:[""], Resources:["pods"], Verbs:["get"]}'
            '\n{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}'
        )
        await api.create(ROLES, role("less"), token=DEV)
        wider = {"rules": role("less", verbs=["list", "delete", "watch"])["rules"]}
        grown = await api.patch(f"{ROLES}/less", wider, token=DEV)
        assert grown.body["message"].endswith(
            'held:\n{APIGroups:[""], Resources:["pods"], Verbs:["delete" "watch"]}'
        )

    run(scenario)


@pytest.mark.parametrize(("verb", "path", "body"), [
    ("bind", BINDINGS, ADMIN_BINDING),
    ("escalate", ROLES, role("more", resources=["secrets"])),
])  # fmt: skip
def test_rights_are_granted_freely_with_the_verb_for_it(
    run: Any, verb: str, path: str, body: Any
) -> None:
    async def scenario(api: Any) -> None:
        rule = {
            "apiGroups": ["rbac.authorization.k8s.io"],
            "resources": ["roles", "clusterroles", "rolebindings"],
            "verbs": ["create"],
        }
        await api.create(
            f"{RBAC}/clusterroles", {"metadata": {"name": "granting"}, "rules": [rule]}
        )
        await api.create(
            f"{RBAC}/clusterrolebindings", binding("granting", "ClusterRole", "granting")
        )
        assert (await api.call("POST", path, body, token=DEV)).code == 403
        await api.patch(
            f"{RBAC}/clusterroles/granting", {"rules": [{**rule, "verbs": ["create", verb]}]}
        )
        assert (await api.call("POST", path, body, token=DEV)).code == 201

    run(scenario)


def test_a_token_for_somebody_else_does_not_let_in(run: Any) -> None:
    async def scenario(api: Any) -> None:
        spec = {"audiences": ["vault"]}
        path = "/api/v1/namespaces/default/serviceaccounts/default/token"
        token = (await api.create(path, {"spec": spec}))["status"]["token"]
        assert (await api.call("GET", "/api", token=token)).code == 401
        review = {"spec": {"token": token, "audiences": ["vault", "other"]}}
        status = (await api.create("/apis/authentication.k8s.io/v1/tokenreviews", review))["status"]
        assert (status["authenticated"], status["audiences"]) == (True, ["vault"])
        status = (
            await api.create(
                "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": token}}
            )
        )["status"]
        assert "authenticated" not in status

    run(scenario)


def test_tiered_policies_need_rights_on_their_tier(run: Any) -> None:
    path = "/apis/projectcalico.org/v3/namespaces/default/networkpolicies"

    async def scenario(api: Any) -> None:
        rule: dict[str, Any] = {
            "apiGroups": ["projectcalico.org"],
            "resources": ["networkpolicies"],
            "verbs": ["*"],
        }
        await api.create(f"{RBAC}/clusterroles", {"metadata": {"name": "np"}, "rules": [rule]})
        await api.create(f"{RBAC}/clusterrolebindings", binding("np", "ClusterRole", "np"))
        body = {"metadata": {"name": "p"}, "spec": {"selector": "all()"}}
        refused = await api.call("POST", path, body, token=DEV)
        assert (refused.code, "(user cannot get tier)" in refused.body["message"]) == (403, True)
        more = {
            "apiGroups": ["projectcalico.org"],
            "resources": ["tiers", "tier.networkpolicies"],
            "verbs": ["*"],
        }
        await api.patch(f"{RBAC}/clusterroles/np", {"rules": [rule, more]})
        assert (await api.call("POST", path, body, token=DEV)).code == 201

    run(scenario)


def test_a_component_without_masters_is_checked_too(run: Any) -> None:
    async def scenario(api: Any) -> None:
        client = api.server.client("system:node:n1", groups=("system:nodes",))
        with pytest.raises(ApiError) as caught:
            await client.get("pods", "p", "default")
        assert caught.value.code == 403

    run(scenario)
