# SPDX-License-Identifier: Apache-2.0
"""Kubeconfigs are read as kubectl reads them.

Read from client-go 32ce75a7: tools/clientcmd, transport, plugin/pkg/client/auth. If a kubectl is
installed, it reads the same files and has to send the requests of the table.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from conformance.errors import UsageProblem
from conformance.kube import access, execute
from conformance.kube.access import from_environment, from_kubeconfig
from conformance.kube.client import Kube
from conformance.kube.kubeconfig import choose
from tests.unit.conformance.kube.conftest import FAST
from tests.unit.conformance.kube.kubeconfig_files import OURS, V1, content, who, write

KUBECTL = shutil.which("kubectl")


AS = {
    "as": "alice",
    "as-uid": "7",
    "as-groups": ["devs", "ops, eu"],
    "as-user-extra": {"acme.com/x": ["1", "2"]},
}
AS_HEADERS = [
    ("impersonate-extra-acme.com%2fx", "1"),
    ("impersonate-extra-acme.com%2fx", "2"),
    ("impersonate-group", "devs"),
    ("impersonate-group", "ops, eu"),
    ("impersonate-uid", "7"),
    ("impersonate-user", "alice"),
]
USERS: dict[str, tuple[Any, list[tuple[str, str]]]] = {
    "token": ({"token": "t"}, [("authorization", "Bearer t")]),
    "token file": ({"tokenFile": "token"}, [("authorization", "Bearer from-file")]),
    "token file first": (
        {"token": "t", "tokenFile": "token"},
        [("authorization", "Bearer from-file")],
    ),
    "empty token file": ({"token": "t", "tokenFile": "empty"}, [("authorization", "Bearer t")]),
    "password": ({"username": "a", "password": "b:c"}, [("authorization", "Basic YTpiOmM=")]),
    "nothing": ({}, []),
    "null": (None, []),
    "empty fields": ({"token": "", "client-certificate": "", "exec": None}, []),
    "impersonation": ({"token": "t", **AS}, [("authorization", "Bearer t"), *AS_HEADERS]),
    "token before plugin": (
        {
            "token": "t",
            "exec": {"apiVersion": V1, "command": "no-such", "interactiveMode": "Never"},
        },
        [("authorization", "Bearer t")],
    ),
}


@pytest.mark.parametrize("name", USERS)
def test_requests_and_execs_go_as_whom_kubectl_would_send_them(
    tmp_path: Path, tls_api: Any, name: str
) -> None:
    user, expected = USERS[name]
    (tmp_path / "token").write_text("from-file\r\n")
    (tmp_path / "empty").write_text("\n")
    path = write(tmp_path / "k", content(tls_api.url, user))
    kube = Kube(from_kubeconfig(path), FAST)
    kube.version()
    execute.run(kube, "n", "p", "c", ["true"], within=5)
    if KUBECTL and expected:  # without any credentials it asks a person for a name
        kubectl = [KUBECTL, f"--kubeconfig={path}", "get", "--raw=/version"]
        subprocess.run(kubectl, check=True, capture_output=True, timeout=20)
    assert [who(request) for request in tls_api.requests] == [expected] * len(tls_api.requests)
    assert len(tls_api.requests) >= 2 + bool(KUBECTL and expected)


@pytest.mark.parametrize("context", [{"cluster": "c"}, {"cluster": "c", "user": ""}])
def test_a_context_without_a_user_asks_as_nobody(
    tmp_path: Path, tls_api: Any, context: dict[str, str]
) -> None:
    whole = content(tls_api.url, {}) | {"users": None}
    whole["contexts"] = [{"name": "here", "context": context}]
    kube = Kube(from_kubeconfig(write(tmp_path / "k", whole)), FAST)
    kube.version()
    assert who(tls_api.requests[0]) == []
    assert kube.access.user == "an anonymous user (system:anonymous)"


def test_who_is_impersonated_is_named_in_messages(tmp_path: Path) -> None:
    path = write(tmp_path / "k", content("https://127.0.0.1:1", {"token": "t", "as": "alice"}))
    assert from_kubeconfig(path).user == "alice (impersonated by u)"


def test_a_token_with_a_trailing_newline_is_the_token(tmp_path: Path, tls_api: Any) -> None:
    Kube(
        from_kubeconfig(write(tmp_path / "k", content(tls_api.url, {"token": "t\n"}))), FAST
    ).version()
    assert who(tls_api.requests[0]) == [("authorization", "Bearer t")]


def test_a_token_s_file_is_read_again_each_minute_and_an_emptied_one_changes_nothing(
    tmp_path: Path, tls_api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "token"
    token.write_text("one")
    kube = Kube(
        from_kubeconfig(write(tmp_path / "k", content(tls_api.url, {"tokenFile": "token"}))), FAST
    )
    token.write_text("two")
    kube.version()
    monkeypatch.setattr(access, "RENEWED_EVERY", 0.0)
    kube.version()
    token.write_text("")
    kube.version()
    assert [who(request)[0][1] for request in tls_api.requests] == ["Bearer one"] + [
        "Bearer two"
    ] * 2


REFUSED: dict[str, tuple[Any, str]] = {
    "groups without a user": (
        {"token": "t", "as-groups": ["g"]},
        "user u: as-groups, as-uid and as-user-extra need a user",
    ),
    "uid without a user": ({"token": "t", "as-uid": "7"}, "need a user in `as`"),
    "two methods": (
        {"token": "t", "username": "a", "password": "b"},
        "has a token and a password; only one of them is allowed",
    ),
    "gcp": (
        {"auth-provider": {"name": "gcp"}},
        "Kubernetes no longer supports auth-provider gcp; use gke-gcloud-auth-plugin",
    ),
    "azure": (
        {"auth-provider": {"name": "azure", "config": {"x": "y"}}},
        "no longer supports auth-provider azure.* kubelogin",
    ),
    "openstack": (
        {"auth-provider": {"name": "openstack"}},
        "no longer supports auth-provider openstack; .* client-keystone-auth",
    ),
    "another provider": (
        {"auth-provider": {"name": "x"}, "token": "t"},
        r"no longer supports auth-provider x; .* \(exec\)",
    ),
    "certificate alone": (
        {"client-certificate-data": "aGVsbG8="},
        "has a client certificate without its key",
    ),
    "base64": (
        {"client-certificate-data": "no base64!", "client-key-data": "x"},
        "client-certificate-data is not base64",
    ),
    "no file": (
        {"client-certificate": "no.pem", "client-key": "no.key"},
        "certificates or key cannot be used: .*No such file.*no.pem",
    ),
    "folder": ({"tokenFile": "."}, "tokenFile .*: Is a directory"),
    "empty token": ({"tokenFile": "empty"}, "user u: tokenFile .*empty: it is empty"),
    "plugin of v2": (
        {"exec": {"apiVersion": "client.authentication.k8s.io/v2", "command": "x"}},
        "is not usable: .*/v2",
    ),
    "no command": ({"exec": {"apiVersion": V1}}, "is not usable: command ''"),
    "terminal": (
        {"exec": {"apiVersion": V1, "command": "x", "interactiveMode": "Always"}},
        "needs a terminal",
    ),
    "hint": (
        {
            "exec": {
                "apiVersion": V1,
                "command": "no-such-plugin",
                "installHint": "brew install\n  it",
            }
        },
        "cannot be run: No such file or directory; brew install it",
    ),
    "no mapping": ({"exec": "login"}, "user 'u': exec is not a mapping"),
    "no list": (
        {"token": "t", "as": "a", "as-groups": "devs"},
        "user 'u': as-groups is not a list",
    ),
    "arguments": (
        {"exec": {"apiVersion": V1, "command": "x", "args": "get-token"}},
        r"user 'u': exec\.args is not a list",
    ),
    "extra of one text": (
        {"token": "t", "as": "a", "as-user-extra": {"scopes": "dev"}},
        r"user 'u': as-user-extra\.scopes is not a list",
    ),
    "variables as texts": (
        {"exec": {"apiVersion": V1, "command": "x", "env": ["A=b"]}},
        r"user 'u': exec\.env is not a list of mappings",
    ),
    "no authority": (None, "certificates or key cannot be used: .*No such file.*no-ca.pem"),
    "oidc that ended": (
        {"auth-provider": {"name": "oidc", "config": {"idp-issuer-url": "https://127.0.0.1:1"}}},
        "id-token has expired, and https://127.0.0.1:1 issued no new id-token",
    ),
    "oidc in clear": (
        {
            "auth-provider": {
                "name": "oidc",
                "config": {"idp-issuer-url": "http://127.0.0.1:1", "refresh-token": "r"},
            }
        },
        "does not begin with https://",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_kubectl_refuses_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    user, expected = REFUSED[name]
    (tmp_path / "empty").write_text("\n")
    whole = content("https://127.0.0.1:1", user)
    if user is None:
        server = {"server": "https://127.0.0.1:1", "certificate-authority": "no-ca.pem"}
        whole["clusters"] = [{"name": "c", "cluster": server}]
    with pytest.raises(UsageProblem, match=expected) as caught:
        from_kubeconfig(write(tmp_path / "k", whole))
    assert "\n" not in str(caught.value)


def test_paths_in_a_second_file_are_those_of_its_folder(tmp_path: Path, tls_api: Any) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    identity = OURS.issue_cert("me@example.com")
    (tmp_path / "two" / "c.pem").write_bytes(identity.private_key_and_cert_chain_pem.bytes())
    whole = content(tls_api.url, {"client-certificate": "c.pem", "client-key": "./c.pem"})
    users = {
        "apiVersion": "v1",
        "kind": "Config",
        "users": whole.pop("users"),
        "current-context": "other",
    }
    (tmp_path / "empty").write_text("")
    files = [
        tmp_path / "empty",
        tmp_path / "missing",
        write(tmp_path / "one" / "k", whole),
        write(tmp_path / "two" / "k", users),
    ]
    kube = Kube(from_environment({"KUBECONFIG": ":".join(map(str, files))}), FAST)
    kube.version()
    assert kube.access.configuration.cert_file == str(tmp_path / "two" / "c.pem")
    if KUBECTL:
        subprocess.run(
            [KUBECTL, "get", "--raw=/version"],
            check=True,
            capture_output=True,
            timeout=20,
            env={
                "KUBECONFIG": ":".join(map(str, files)),
                "PATH": "/usr/bin:/bin",
                "HOME": str(tmp_path),
            },
        )
        assert len(tls_api.requests) >= 2


def test_the_first_file_that_has_a_name_or_a_current_context_wins(tmp_path: Path) -> None:
    first = content("https://one:1", {"token": "one"})
    del first["current-context"]
    second = content("https://two:2", {"token": "two"})
    third = content("https://three:3", {}) | {"current-context": "nowhere"}
    paths = [
        write(tmp_path / str(number), one) for number, one in enumerate((first, second, third))
    ]
    found = from_kubeconfig(paths)
    assert found.server == "https://one:1"
    assert found.configuration.api_key == {"BearerToken": "Bearer one"}


@pytest.mark.parametrize("value", ["false", 0, "yes"])
def test_only_true_turns_the_check_of_the_certificate_off(tmp_path: Path, value: Any) -> None:
    whole = content("https://127.0.0.1:1", {}, **{"insecure-skip-tls-verify": value})
    with pytest.raises(UsageProblem, match="insecure-skip-tls-verify is neither true nor false"):
        from_kubeconfig(write(tmp_path / "k", whole))


@pytest.mark.parametrize(
    ("server", "cluster", "user", "completed"),
    [
        ("HTTPS://api:6443", {}, {}, "https://api:6443"),
        ("Http://127.0.0.1:8001", {}, {}, "http://127.0.0.1:8001"),
        ("api:6443", {}, {}, "https://api:6443"),
        ("10.0.0.1", {}, {"client-certificate-data": "eA=="}, "https://10.0.0.1"),
        ("10.0.0.1:8080/", {"certificate-authority-data": None}, {}, "http://10.0.0.1:8080"),
    ],
)
def test_a_server_is_completed_as_kubectl_does(
    server: str, cluster: Any, user: Any, completed: str, tmp_path: Path
) -> None:
    chosen = choose([write(tmp_path / "k", content(server, user, **cluster))], None)
    assert chosen.server == completed


@pytest.mark.parametrize("server", ["ftp://api", "", "api:6443/path"])
def test_what_kubectl_takes_for_no_server_is_refused(server: str, tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="cluster 'c' has no server address"):
        choose([write(tmp_path / "k", content(server, {}))], None)


def test_an_authority_beside_an_unverified_connection_is_refused_as_by_kubectl(
    tmp_path: Path,
) -> None:
    whole = content("https://127.0.0.1:1", {}, **{"insecure-skip-tls-verify": True})
    with pytest.raises(UsageProblem, match="sets both certificate-authority and insecure-skip"):
        choose([write(tmp_path / "k", whole)], None)
