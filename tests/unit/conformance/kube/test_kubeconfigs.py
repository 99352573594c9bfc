# SPDX-License-Identifier: Apache-2.0
"""Kubeconfigs mean what they mean to kubectl.

Read in client-go 32ce75a7: tools/clientcmd, transport, plugin/pkg/client/auth.
Where a kubectl is installed, it is asked the same, and has to send what the table says.
"""

from __future__ import annotations

import base64
import json
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
import trustme

from conformance.errors import UsageProblem
from conformance.kube import access, credentials, execute
from conformance.kube.access import from_environment, from_kubeconfig
from conformance.kube.client import Kube
from conformance.kube.kubeconfig import choose
from conformance.kube.reach import Reach
from tests.unit.conformance.kube.conftest import FAST

OURS = trustme.CA()
V1 = "client.authentication.k8s.io/v1"
KUBECTL = shutil.which("kubectl")


@pytest.fixture
def tls_api(fakes: Any) -> Iterator[Any]:
    """An API server that takes a client's certificate if it is offered one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    OURS.issue_cert("127.0.0.1").configure_cert(context)
    OURS.configure_trust(context)
    context.verify_mode = ssl.CERT_OPTIONAL
    server = fakes.FakeApi()
    server.start(context)
    server.exec = lambda channel, _: (channel.send(1, b"here"), channel.status(0), channel.close())
    yield server
    server.stop()


def content(server: str, user: Any, **cluster: Any) -> dict[str, Any]:
    """Return a kubeconfig whose one user has these credentials."""
    authority = base64.b64encode(OURS.cert_pem.bytes()).decode()
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [
            {
                "name": "c",
                "cluster": {"server": server, "certificate-authority-data": authority, **cluster},
            }
        ],
        "users": [{"name": "u", "user": user}],
        "contexts": [
            {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "demo"}}
        ],
    }


def write(path: Path, whole: Any) -> Path:
    path.write_text(json.dumps(whole))
    return path


def plugin(folder: Path, script: str, **more: Any) -> dict[str, Any]:
    """Return a user whose credentials a shell script of these lines prints."""
    program = folder / "login"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return {"exec": {"apiVersion": V1, "command": str(program), "interactiveMode": "Never", **more}}


def printing(version: str = V1, **status: Any) -> str:
    """Return a line of a script that prints a credential."""
    answer = {"apiVersion": version, "kind": "ExecCredential", "status": status}
    return f"cat <<'END'\n{json.dumps(answer)}\nEND"


WHO = ("authorization", "impersonate-")


def who(request: Any) -> list[tuple[str, str]]:
    """Return the headers that say who asks, the keys in lower case."""
    lines = ((key.lower(), value) for key, value in request.lines)
    return sorted((key, value) for key, value in lines if key.startswith(WHO))


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
    assert kube.access.user == "nobody (system:anonymous)"


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
        "has a token and a password; only one is allowed",
    ),
    "gcp": (
        {"auth-provider": {"name": "gcp"}},
        "auth-provider gcp is gone from Kubernetes; use gke-gcloud-auth-plugin",
    ),
    "azure": (
        {"auth-provider": {"name": "azure", "config": {"x": "y"}}},
        "auth-provider azure is gone .* kubelogin",
    ),
    "openstack": (
        {"auth-provider": {"name": "openstack"}},
        "auth-provider openstack is gone .* client-keystone-auth",
    ),
    "another provider": (
        {"auth-provider": {"name": "x"}, "token": "t"},
        r"auth-provider x is gone .* \(exec\)",
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
        "is no usable plugin: .*/v2",
    ),
    "no command": ({"exec": {"apiVersion": V1}}, "is no usable plugin: command ''"),
    "terminal": (
        {"exec": {"apiVersion": V1, "command": "x", "interactiveMode": "Always"}},
        "demands a terminal",
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
    "no mapping": ({"exec": "login"}, "user 'u': exec is no mapping"),
    "no list": ({"token": "t", "as": "a", "as-groups": "devs"}, "user 'u': as-groups is no list"),
    "arguments": (
        {"exec": {"apiVersion": V1, "command": "x", "args": "get-token"}},
        r"user 'u': exec\.args is no list",
    ),
    "extra of one text": (
        {"token": "t", "as": "a", "as-user-extra": {"scopes": "dev"}},
        r"user 'u': as-user-extra\.scopes is no list",
    ),
    "variables as texts": (
        {"exec": {"apiVersion": V1, "command": "x", "env": ["A=b"]}},
        r"user 'u': exec\.env is no list of mappings",
    ),
    "no authority": (None, "certificates or key cannot be used: .*No such file.*no-ca.pem"),
    "oidc that ended": (
        {"auth-provider": {"name": "oidc", "config": {"idp-issuer-url": "https://127.0.0.1:1"}}},
        "id-token has ended, and https://127.0.0.1:1 gave no other",
    ),
    "oidc in clear": (
        {
            "auth-provider": {
                "name": "oidc",
                "config": {"idp-issuer-url": "http://127.0.0.1:1", "refresh-token": "r"},
            }
        },
        "is not an https:// address",
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


PRINTED: dict[str, tuple[str, str]] = {
    "banner": (
        "echo Welcome to acme; " + printing(token="s3cret"),
        "printed no ExecCredential, it begins with 'Welcome to acme'",
    ),
    "nothing": ("true", "printed no ExecCredential, it begins with ''"),
    "a bare token": ("echo s3cret", r"printed no ExecCredential, it begins with '\(removed\)'"),
    "half": ("echo '{\"kind\": '", "printed no ExecCredential, it begins with ''"),
    "other version": (
        printing("client.authentication.k8s.io/v1beta1", token="s3cret"),
        "printed ExecCredential of .*v1beta1, where .*/v1 is asked for",
    ),
    "no status": (
        "echo '" + json.dumps({"apiVersion": V1, "kind": "ExecCredential"}) + "'",
        "gave neither a token nor",
    ),
    "no key": (printing(clientCertificateData="x"), "gave a client certificate without its key"),
}


@pytest.mark.parametrize("name", PRINTED)
def test_what_a_plugin_prints_is_named_without_its_secret(tmp_path: Path, name: str) -> None:
    script, expected = PRINTED[name]
    with pytest.raises(UsageProblem, match=expected) as caught:
        from_kubeconfig(
            write(tmp_path / "k", content("https://127.0.0.1:1", plugin(tmp_path, script)))
        )
    assert "s3cret" not in str(caught.value)


def test_an_end_without_a_time_zone_is_taken_for_local_time(tmp_path: Path) -> None:
    soon = (datetime.now() + timedelta(hours=1)).isoformat(timespec="seconds")
    script = printing(token="t", expirationTimestamp=soon)
    user = plugin(tmp_path, script)
    found = from_kubeconfig(write(tmp_path / "k", content("https://127.0.0.1:1", user)))
    assert found.renewal is not None
    assert not found.renewal.due()


def test_a_date_that_there_is_not_is_refused_as_what_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "k").write_text("users: [{name: u, user: {token: 2026-13-01}}]\n")
    with pytest.raises(UsageProblem, match="is not YAML: month must be in") as caught:
        from_kubeconfig(tmp_path / "k")
    assert "\n" not in str(caught.value)


def test_a_plugin_is_told_what_client_go_tells_it(tmp_path: Path) -> None:
    script = (
        f'echo "$KUBERNETES_EXEC_INFO" >{tmp_path}/info; echo "$A $PWD $1" >{tmp_path}/more; '
        + printing(token="t")
    )
    user = plugin(
        tmp_path, script, provideClusterInfo=True, args=["login"], env=[{"name": "A", "value": "a"}]
    )
    (tmp_path / "ca.pem").write_bytes(OURS.cert_pem.bytes())
    extensions = [
        {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}},
        {"name": "other", "extension": {}},
    ]
    whole = content("https://127.0.0.1:1", user, extensions=extensions)
    cluster = whole["clusters"][0]["cluster"]
    authority = cluster.pop("certificate-authority-data")
    cluster |= {"certificate-authority": "ca.pem", "tls-server-name": "api"}
    from_kubeconfig(write(tmp_path / "k", whole))
    assert json.loads((tmp_path / "info").read_text()) == {
        "apiVersion": V1,
        "kind": "ExecCredential",
        "spec": {
            "interactive": False,
            "cluster": {
                "server": "https://127.0.0.1:1",
                "tls-server-name": "api",
                "certificate-authority-data": authority,
                "config": {"audience": "x"},
            },
        },
    }
    assert (tmp_path / "more").read_text() == f"a {Path.cwd()} login\n"


def test_a_plugin_s_token_and_certificate_are_both_used(tmp_path: Path, tls_api: Any) -> None:
    identity = OURS.issue_cert("me@example.com")
    pem = b"".join(part.bytes() for part in identity.cert_chain_pems).decode()
    script = printing(
        token="t",
        clientCertificateData=pem,
        clientKeyData=identity.private_key_pem.bytes().decode(),
    )
    path = write(tmp_path / "k", content(tls_api.url, plugin(tmp_path, script)))
    kube = Kube(from_kubeconfig(path), FAST)
    kube.version()
    assert who(tls_api.requests[0]) == [("authorization", "Bearer t")]
    assert kube.access.configuration.tls


def test_a_plugin_s_certificate_that_has_ended_is_renewed_for_requests_and_execs(
    tmp_path: Path, tls_api: Any
) -> None:
    """Nothing answers 401 here: a server that refuses a certificate ends the connection."""
    now = datetime.now(UTC)
    for number, lasts in ((1, timedelta(seconds=2)), (2, timedelta(hours=1))):
        identity = OURS.issue_cert("me@example.com", not_after=now + lasts)
        pem = b"".join(part.bytes() for part in identity.cert_chain_pems).decode()
        status = {
            "clientCertificateData": pem,
            "clientKeyData": identity.private_key_pem.bytes().decode(),
        }
        answer = {"apiVersion": V1, "kind": "ExecCredential", "status": status}
        (tmp_path / f"credential-{number}").write_text(json.dumps(answer))
    count = f"n=$(cat {tmp_path}/n 2>/dev/null || echo 0); n=$((n+1)); echo $n >{tmp_path}/n"
    script = f"{count}; cat {tmp_path}/credential-$n"
    kube = Kube(
        from_kubeconfig(write(tmp_path / "k", content(tls_api.url, plugin(tmp_path, script)))), FAST
    )
    kube.version()
    threading.Event().wait(2.1)
    assert execute.run(kube, "n", "p", "c", ["true"], within=5).stdout == b"here"
    kube.version()
    assert (tmp_path / "n").read_text() == "2\n"


def test_a_plugin_that_fails_later_is_named_when_its_old_token_is_refused(
    tmp_path: Path, tls_api: Any, fakes: Any
) -> None:
    script = f"test -e {tmp_path}/out && echo logged out >&2 && exit 3\n{printing(token='t')}"
    reach = Reach(tmp_path)
    kube = Kube(
        from_kubeconfig(write(tmp_path / "k", content(tls_api.url, plugin(tmp_path, script)))),
        FAST,
        reach=reach,
    )
    kube.version()
    (tmp_path / "out").touch()
    tls_api.routes["GET /x"] = fakes.status(401, "Unauthorized", "expired")
    with pytest.raises(Exception, match="401"):
        kube.read("/x")
    assert "they were not renewed" in reach.ended
    assert "failed with exit code 3: logged out" in reach.ended


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


def test_a_plugin_in_a_second_file_is_run_from_its_folder(tmp_path: Path, tls_api: Any) -> None:
    (tmp_path / "two").mkdir()
    user = plugin(tmp_path / "two", printing(token="t"))
    user["exec"]["command"] = "./login"
    whole = content(tls_api.url, {})
    users = {"users": [{"name": "u", "user": user}]}
    del whole["users"]
    Kube(
        from_kubeconfig([write(tmp_path / "k", whole), write(tmp_path / "two" / "k", users)]), FAST
    ).version()
    assert who(tls_api.requests[0]) == [("authorization", "Bearer t")]


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
    with pytest.raises(UsageProblem, match="names a certificate-authority beside insecure-skip"):
        choose([write(tmp_path / "k", whole)], None)


def id_token(ends: datetime) -> str:
    parts = ({"alg": "x"}, {"exp": int(ends.timestamp())})
    encoded = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode() for part in parts)
    return ".".join([*(part.rstrip("=") for part in encoded), "c2ln"])


THEIRS = trustme.CA()


@pytest.fixture
def issuer(fakes: Any) -> Iterator[Any]:
    """An OpenID Connect issuer that gives an id-token and another refresh-token each time."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    THEIRS.issue_cert("127.0.0.1").configure_cert(context)
    server = fakes.FakeApi()
    server.start(context)
    number = iter(range(1, 9))

    def give(request: Any) -> Any:
        return 200, {
            "id_token": id_token(datetime.now(UTC) + timedelta(minutes=2)),
            "access_token": "a",
            "token_type": "bearer",
            "refresh_token": f"r{next(number)}",
            "expires_in": 60,
        }

    server.routes["GET /.well-known/openid-configuration"] = lambda _: (
        200,
        {"token_endpoint": f"{server.url}/token"},
    )
    server.routes["POST /token"] = give
    yield server
    server.stop()


def oidc(server: str, issuer: str, **more: Any) -> dict[str, Any]:
    """Return a kubeconfig whose id-token ended long ago."""
    old = id_token(datetime(2020, 1, 1, tzinfo=UTC))
    config = {
        "idp-issuer-url": issuer,
        "client-id": "c",
        "refresh-token": "r0",
        "id-token": old,
        **more,
    }
    return content(server, {"auth-provider": {"name": "oidc", "config": config}})


def test_an_id_token_that_has_ended_is_renewed_by_an_issuer_that_is_trusted(
    tmp_path: Path, tls_api: Any, issuer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = base64.b64encode(THEIRS.cert_pem.bytes()).decode()
    whole = oidc(tls_api.url, issuer.url, **{"idp-certificate-authority-data": authority})
    path = write(tmp_path / "k", whole)
    kube = Kube(from_kubeconfig(path), FAST)
    kube.version()
    ends = credentials.end_of(tls_api.requests[0].headers["Authorization"])
    assert ends is not None
    assert ends > datetime.now(UTC)
    assert kube.access.ends is None
    monkeypatch.setattr(access, "RENEWED_EVERY", 0.0)
    kube.version()
    asked = [dict(parse_qsl(one.body.decode())) for one in issuer.requests if one.body]
    assert [one["refresh_token"] for one in asked] == ["r0", "r1"]
    assert json.loads(path.read_text()) == whole


def test_an_issuer_that_is_not_trusted_gets_no_request(
    tmp_path: Path, tls_api: Any, issuer: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(
        UsageProblem, match=r"has ended, and .* gave no other: .*CERTIFICATE_VERIFY_FAILED"
    ) as caught:
        from_kubeconfig(write(tmp_path / "k", oidc(tls_api.url, issuer.url)))
    assert "\n" not in str(caught.value)
    assert issuer.requests == []
    assert tls_api.requests == []


def test_a_valid_id_token_is_used_without_asking_anybody(tmp_path: Path, tls_api: Any) -> None:
    token = id_token(datetime.now(UTC) + timedelta(hours=1))
    path = write(tmp_path / "k", oidc(tls_api.url, "https://127.0.0.1:1", **{"id-token": token}))
    Kube(from_kubeconfig(path), FAST).version()
    assert who(tls_api.requests[0]) == [("authorization", f"Bearer {token}")]
