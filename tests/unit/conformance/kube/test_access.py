# SPDX-License-Identifier: Apache-2.0
"""An error of a kubeconfig or a cluster is named in one line, with its real cause."""

from __future__ import annotations

import base64
import json
import logging
import re
import socket
import ssl
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from conformance.errors import ClusterUnusable, EnvironmentBroken, UsageProblem
from conformance.kube import access, execute
from conformance.kube.access import from_environment, from_kubeconfig, in_cluster
from conformance.kube.channels import ExecBroken
from conformance.kube.client import Kube
from conformance.kube.credentials import end_of
from conformance.kube.reach import Reach
from conformance.kube.refused import ApiRefused
from conformance.settings import load_timings
from tests.unit.conformance.kube.conftest import FAST

RUN = load_timings().run
OURS, THEIRS = trustme.CA(), trustme.CA()


def test_importing_the_package_does_not_import_the_kubernetes_client() -> None:
    code = "import sys; import conformance.kube.client, conformance.kube.execute; print('kubernetes' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": "lib"},
        cwd=Path(__file__).parents[4], timeout=20, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("content", "context", "expected"),
    [
        (None, None, "does not exist"),
        ("", None, "is empty"),
        ("[1]", None, "is not a mapping"),
        ("a: [1\nb: }", None, "line 2 is not YAML"),
        ("token: *s3cret", None, "line 1 is not YAML: found undefined alias"),
        ("a: \0", None, "is not YAML: it is not text"),
        ("clusters: 5", None, "clusters is not a list"),
        ("{}", None, "is no kubeconfig: it has no contexts"),
        (
            "kind: Deployment\napiVersion: apps/v1",
            None,
            "is no kubeconfig (v1, Config): it is apps/v1, Deployment",
        ),
    ],
)
def test_a_damaged_kubeconfig_is_named_with_what_is_wrong(
    tmp_path: Path, content: str | None, context: str | None, expected: str
) -> None:
    path = tmp_path / "kubeconfig"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UsageProblem) as caught:
        from_kubeconfig(path, context)
    assert expected in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_an_unknown_context_is_answered_with_the_known_ones(tmp_path: Path, fakes: Any) -> None:
    path = fakes.kubeconfig(tmp_path / "k", "https://127.0.0.1:1")
    with pytest.raises(UsageProblem, match="has no context 'there'; it has here"):
        from_kubeconfig(path, "there")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"clusters": []}, "names cluster 'c', which is not in it"),
        ({"users": []}, "names user 'u', which is not in it"),
        ({"clusters": [{"name": "c", "cluster": {}}]}, "has no server address"),
    ],
)
def test_a_context_that_points_nowhere_is_a_usage_problem(
    tmp_path: Path, fakes: Any, change: dict[str, Any], expected: str
) -> None:
    path = fakes.kubeconfig(tmp_path / "k", "https://127.0.0.1:1", **change)
    with pytest.raises(UsageProblem, match=expected):
        from_kubeconfig(path)


@pytest.mark.parametrize("data", ["abc", "bm8gY2VydGlmaWNhdGU="])
def test_damaged_certificate_data_is_a_usage_problem(tmp_path: Path, fakes: Any, data: str) -> None:
    clusters = [
        {
            "name": "c",
            "cluster": {"server": "https://127.0.0.1:1", "certificate-authority-data": data},
        }
    ]
    with pytest.raises(UsageProblem, match="context here: "):
        from_kubeconfig(fakes.kubeconfig(tmp_path / "k", "", clusters=clusters))


def test_kubeconfig_from_the_environment_must_be_set() -> None:
    with pytest.raises(UsageProblem, match="KUBECONFIG is not set"):
        from_environment({})


def test_several_files_are_merged_and_the_first_context_wins(tmp_path: Path, fakes: Any) -> None:
    first = fakes.kubeconfig(tmp_path / "a", "https://127.0.0.1:1")
    second = fakes.kubeconfig(tmp_path / "b", "https://127.0.0.1:2", **{"current-context": "other"})
    access = from_environment({"KUBECONFIG": f"{first}:{second}:{tmp_path / 'missing'}"})
    assert access.server == "https://127.0.0.1:1"


def test_outside_a_pod_everything_that_is_missing_is_listed(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem) as caught:
        in_cluster({}, tmp_path)
    for what in ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "token", "ca.crt"):
        assert what in str(caught.value)


def test_a_rotated_service_account_token_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("one\n")
    (tmp_path / "ca.crt").write_bytes(OURS.cert_pem.bytes())
    found = in_cluster(
        {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}, tmp_path
    )
    assert (found.where, found.server) == ("the pod's service account", "https://10.0.0.1:443")
    assert found.namespace == "", "no file names it"
    kube = Kube(found, RUN)
    (tmp_path / "token").write_text("two")
    assert kube.headers()["Authorization"] == "Bearer one"
    monkeypatch.setattr(access, "RENEWED_EVERY", 0.0)
    assert kube.headers()["Authorization"] == "Bearer two"


def test_a_pod_names_its_namespace(tmp_path: Path) -> None:
    for name, text in (("token", "one"), ("namespace", "sonobuoy\n")):
        (tmp_path / name).write_text(text)
    (tmp_path / "ca.crt").write_bytes(OURS.cert_pem.bytes())
    where = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    assert in_cluster(where, tmp_path).namespace == "sonobuoy"


def unusable(path: Path) -> str:
    kube = Kube(from_kubeconfig(path), RUN)
    with pytest.raises(ClusterUnusable) as caught:
        kube.version()
    assert len(caught.value.reasons) == 1
    return str(caught.value)


def test_a_server_that_refuses_connections_is_unusable(tmp_path: Path, fakes: Any) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        text = unusable(
            fakes.kubeconfig(tmp_path / "k", f"https://127.0.0.1:{closed.getsockname()[1]}")
        )
    assert (
        "refuses connections: is the cluster (or the lab that wrote this kubeconfig) still running?"
        in text
    )


AGO = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("certificate", "expected"),
    [
        (THEIRS.issue_cert("127.0.0.1"), "this kubeconfig's certificate authority did not sign: "),
        (
            OURS.issue_cert("127.0.0.1", not_before=AGO, not_after=AGO),
            "is not valid for it: .*certificate has expired",
        ),
        (OURS.issue_cert("example.com"), "is not valid for it: .*mismatch"),
    ],
)
def test_a_certificate_that_cannot_be_trusted_is_named_with_why(
    tmp_path: Path, fakes: Any, certificate: trustme.LeafCert, expected: str
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    api = fakes.FakeApi()
    api.start(context)
    try:
        path = fakes.kubeconfig(tmp_path / "k", api.url, authority=OURS.cert_pem.bytes().decode())
        assert re.search(f"has a certificate that {expected}", unusable(path))
    finally:
        api.stop()


@pytest.mark.parametrize(
    ("server", "more", "expected"),
    [
        ("https://10.0.0.1:6443", {}, ""),
        (
            "https://10.0.0.1:6443",
            {"insecure-skip-tls-verify": True},
            "nobody verifies the certificate of https://10.0.0.1:6443 (insecure-skip-tls-verify)",
        ),
        (
            "https://127.0.0.1:6443",
            {"insecure-skip-tls-verify": True},
            "nobody verifies the certificate of https://127.0.0.1:6443 (insecure-skip-tls-verify)",
        ),
        ("https://10.0.0.1:6443", {"tls-server-name": "lane.example"}, ""),
        (
            "http://10.0.0.1:8080",
            {},
            "plain HTTP to http://10.0.0.1:8080: nothing is verified or encrypted",
        ),
        (
            "http://lane.example",
            {},
            "plain HTTP to http://lane.example: nothing is verified or encrypted",
        ),
        ("http://127.0.0.1:8001", {}, ""),
        ("http://localhost:8001", {}, ""),
        ("http://[::1]:8001", {}, ""),
        (
            "http://127.0.0.1:8001",
            {"proxy-url": "http://proxy.example:3128"},
            "plain HTTP to http://127.0.0.1:8001: nothing is verified or encrypted",
        ),
        (
            "http://127.example:80",
            {},
            "plain HTTP to http://127.example:80: nothing is verified or encrypted",
        ),
    ],
)  # fmt: skip
def test_a_connection_that_nobody_verifies_is_known(
    tmp_path: Path, server: str, more: dict[str, Any], expected: str
) -> None:
    assert from_kubeconfig(lane(tmp_path / "k", server, more)).unverified == expected


def lane(path: Path, server: str, more: dict[str, Any]) -> Path:
    """Write a kubeconfig with a token."""
    content = {
        "contexts": [{"name": "c", "context": {"cluster": "one", "user": "u"}}],
        "current-context": "c",
        "clusters": [{"name": "one", "cluster": {"server": server, **more}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    path.write_text(yaml.safe_dump(content))
    return path


def test_requests_to_an_unverified_server_print_no_warning_each(
    tmp_path: Path, fakes: Any, recwarn: pytest.WarningsRecorder
) -> None:
    """The header says it once."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    THEIRS.issue_cert("elsewhere.example").configure_cert(context)
    api = fakes.FakeApi()
    api.start(context)
    try:
        kube = Kube(
            from_kubeconfig(lane(tmp_path / "k", api.url, {"insecure-skip-tls-verify": True})), FAST
        )
        kube.read("/version")
        kube.close()
    finally:
        api.stop()
    assert [str(one.message) for one in recwarn if "Unverified" in str(one.message)] == []


def test_an_expired_token_is_named_as_that(tmp_path: Path, fakes: Any, api: Any) -> None:
    api.routes["GET /version"] = fakes.status(401, "Unauthorized", "token has expired")
    text = unusable(fakes.kubeconfig(tmp_path / "k", api.url))
    assert "does not accept the credentials of u: expired or revoked (token has expired)" in text


def test_something_else_than_an_api_server_is_named_as_that(
    tmp_path: Path, fakes: Any, api: Any
) -> None:
    api.routes["GET /version"] = (200, b"<html>")
    assert "is no Kubernetes API server" in unusable(fakes.kubeconfig(tmp_path / "k", api.url))


def with_plugin(
    tmp_path: Path, fakes: Any, script: str, server: str = "https://127.0.0.1:1"
) -> Path:
    """A kubeconfig whose user gets credentials from a program, a shell script of these lines."""
    program = tmp_path / "login"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(program), "args": ["get-token"],
              "interactiveMode": "Never"}  # fmt: skip
    path: Path = fakes.kubeconfig(tmp_path / "k", server, users=[{"name": "me", "user": {"exec": plugin}}],
        contexts=[{"name": "here", "context": {"cluster": "c", "user": "me"}}])  # fmt: skip
    return path


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo 'the SSO session has expired' >&2; exit 3", r"failed with exit code 3: the SSO session has expired"),
        ('echo \'{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{}}\'',
         r"gave neither a token nor a certificate"),
    ],
)  # fmt: skip
def test_a_credential_plugin_that_gives_nothing_is_quoted(
    tmp_path: Path, fakes: Any, script: str, expected: str
) -> None:
    with pytest.raises(
        UsageProblem, match=rf"user me: its credential plugin .*get-token' {expected}"
    ) as caught:
        from_kubeconfig(with_plugin(tmp_path, fakes, script))
    assert "\n" not in str(caught.value)


SECRET = "PLUG" + "SECRET99"


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ([f"--oidc-client-secret={SECRET}"], "--oidc-client-secret=..."),
        (["eks", "get-token", "--secret", SECRET, "-v"], "eks get-token --secret ... -v"),
        (["-c", f"echo {SECRET}"], "-c ..."),
        ([f"-p{SECRET}", f"-token={SECRET}"], "-p... -token=..."),
        ([SECRET, SECRET.lower()], "... ..."),
        ([f"--client-secret {SECRET}", f"-s {SECRET}"], "--client-secret ... -s ..."),
        (["-c", f"login get --key={SECRET};true"], "-c ..."),
        (["--secret", SECRET.lower()], "--secret ..."),
    ],
)
@pytest.mark.parametrize(
    "script",
    [
        "echo refused: $*, $KEY >&2; exit 3",
        "echo $* $KEY >&2",
        "echo no; echo $* $KEY",
        None,
    ],
)
def test_a_credential_plugin_is_named_without_the_values_of_its_arguments(
    tmp_path: Path, fakes: Any, arguments: list[str], shown: str, script: str | None
) -> None:
    path = with_plugin(tmp_path, fakes, script or "")
    content = yaml.safe_load(path.read_text())
    plugin = content["users"][0]["user"]["exec"]
    plugin |= {"args": arguments, "env": [{"name": "KEY", "value": f"{SECRET}-too"}]}
    plugin |= {"installHint": f"get it by --secret={SECRET}, for {SECRET}-too"}
    path.write_text(yaml.safe_dump(content))
    if script is None:
        (tmp_path / "login").unlink()
    with pytest.raises(UsageProblem) as caught:
        from_kubeconfig(path)
    assert SECRET.lower() not in str(caught.value).lower()
    assert f"login {shown}'" in str(caught.value)


@pytest.mark.parametrize(
    "argument",
    [
        SECRET,
        f"-p{SECRET}",
        f"-s {SECRET}",
        f"--secret={SECRET}",
        f"--client-secret {SECRET}",
        f"login --key='{SECRET}'; true",
    ],
)
@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (f"echo {SECRET} >&2; exit 3", "failed with exit code 3: (removed)"),
        (f"echo of {SECRET}", "it begins with 'of (removed)'"),
        (f"""echo '{{"kind": "{SECRET}", "apiVersion": "v1"}}'""", "printed (removed) of v1"),
    ],
)
def test_a_secret_within_an_argument_is_not_quoted_from_what_a_plugin_prints(
    tmp_path: Path, fakes: Any, argument: str, script: str, expected: str
) -> None:
    path = with_plugin(tmp_path, fakes, script)
    content = yaml.safe_load(path.read_text())
    content["users"][0]["user"]["exec"] |= {"args": [argument]}
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(UsageProblem) as caught:
        from_kubeconfig(path)
    assert expected in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "argument", ["--secret=sesame", "-psesame", "-s sesame", "--client-secret sesame"]
)
def test_a_secret_that_looks_like_a_word_is_none_behind_an_option(
    tmp_path: Path, fakes: Any, argument: str
) -> None:
    path = with_plugin(tmp_path, fakes, "echo open sesame >&2; exit 3")
    content = yaml.safe_load(path.read_text())
    content["users"][0]["user"]["exec"] |= {"args": ["open", argument]}
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(UsageProblem, match=r"exit code 3: open \(removed\)$"):
        from_kubeconfig(path)


def test_a_token_that_a_plugin_prints_in_place_of_an_answer_is_not_quoted(
    tmp_path: Path, fakes: Any
) -> None:
    path = with_plugin(tmp_path, fakes, "echo your token is Jx8opaque0Zq1Yt7Ww/5vBn2Mk4")
    with pytest.raises(UsageProblem, match=r"it begins with 'your token is \(removed\)'"):
        from_kubeconfig(path)


def test_a_command_with_arguments_of_its_own_is_named_without_them(
    tmp_path: Path, fakes: Any
) -> None:
    path = with_plugin(tmp_path, fakes, "")
    content = yaml.safe_load(path.read_text())
    content["users"][0]["user"]["exec"] |= {"command": f"login --secret {SECRET}"}
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(UsageProblem, match=r"'login \.\.\. get-token' cannot be run"):
        from_kubeconfig(path)


def test_an_argument_that_no_program_takes_is_a_usage_problem(tmp_path: Path, fakes: Any) -> None:
    path = with_plugin(tmp_path, fakes, "")
    content = yaml.safe_load(path.read_text())
    content["users"][0]["user"]["exec"] |= {"args": ["get\0token"]}
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(UsageProblem, match="cannot be run: embedded null byte"):
        from_kubeconfig(path)


def test_what_a_failing_credential_plugin_prints_is_scrubbed(tmp_path: Path, fakes: Any) -> None:
    token = "hvs." + "CAESIJ0aB3dE5gH7jK9mN1pQ3r"
    with pytest.raises(UsageProblem, match=r"exit code 3: login with \(removed\) was refused"):
        from_kubeconfig(
            with_plugin(tmp_path, fakes, f"echo login with {token} was refused >&2; exit 3")
        )


def test_a_credential_plugin_that_is_not_installed_is_named_and_the_client_prints_nothing_of_its_own(
    tmp_path: Path, fakes: Any, caplog: pytest.LogCaptureFixture
) -> None:
    path = with_plugin(tmp_path, fakes, "")
    (tmp_path / "login").unlink()
    with pytest.raises(
        UsageProblem, match=r"login get-token' cannot be run: No such file or directory; install it"
    ):
        from_kubeconfig(path)
    assert caplog.records == []
    logging.getLogger().error("what others say is heard")
    assert len(caplog.records) == 1


COUNTING = """n=$(cat {0}/n 2>/dev/null || echo 0); n=$((n+1)); echo $n >{0}/n
echo '{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{{"token":"t'$n'"}}}}'"""
"""Of a credential plugin that gives the tokens t1, t2, ..."""


def test_credentials_that_ran_out_are_renewed_once_and_the_request_is_repeated(
    tmp_path: Path, fakes: Any, api: Any
) -> None:
    path = with_plugin(tmp_path, fakes, COUNTING.format(tmp_path), api.url)
    api.routes["GET /api/v1/nodes"] = lambda request: (
        fakes.listing()
        if request.headers["Authorization"] == "Bearer t2"
        else fakes.status(401, "Unauthorized", "no")
    )
    kube = Kube(from_kubeconfig(path), RUN)
    assert kube.objects("v1", "Node") == []
    assert [item.headers["Authorization"] for item in api.requests if item.path == "/api/v1/nodes"] == [
        "Bearer t1", "Bearer t2",
    ]  # fmt: skip


SHORT_LIVED = """n=$(cat {0}/n 2>/dev/null || echo 0); n=$((n+1)); echo $n >{0}/n
echo '{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{{"token":"t'$n'",
"expirationTimestamp":"'$(date -u -d '+4 min' +%Y-%m-%dT%H:%M:%SZ)'"}}}}'"""
"""Gives tokens that live 4 min, which the official client takes for ended at once."""


def test_a_plugin_with_short_lived_tokens_is_not_run_for_every_request(
    tmp_path: Path, fakes: Any, api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kube = Kube(
        from_kubeconfig(with_plugin(tmp_path, fakes, SHORT_LIVED.format(tmp_path), api.url)), RUN
    )
    api.routes["GET /api/v1/nodes"] = fakes.listing()
    assert [kube.objects("v1", "Node") for _ in range(20)] == [[]] * 20
    assert (tmp_path / "n").read_text() == "1\n"
    monkeypatch.setattr(access, "RENEWED_EVERY", 0.0)
    kube.objects("v1", "Node")
    assert int((tmp_path / "n").read_text()) > 1
    assert api.requests[-1].headers["Authorization"] != "Bearer t1"


def token(**body: Any) -> str:
    parts = (
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
        for part in ({"alg": "x"}, body)
    )
    return ".".join([*parts, "c2ln"])


def test_the_end_of_a_static_token_is_known_and_that_of_a_plugin_s_is_not(
    tmp_path: Path, fakes: Any
) -> None:
    ends = datetime(2026, 11, 24, 12, 0, tzinfo=UTC)
    jwt = token(exp=int(ends.timestamp()), aud=["https://kubernetes.default.svc"])
    static = fakes.kubeconfig(tmp_path / "static", "https://127.0.0.1:1", token=jwt)
    assert from_kubeconfig(static).ends == ends
    plugin = with_plugin(tmp_path, fakes, COUNTING.format(tmp_path).replace("t'$n'", jwt))
    assert from_kubeconfig(plugin).ends is None


def with_user(path: Path, fakes: Any, server: str, **user: Any) -> Path:
    return Path(fakes.kubeconfig(path, server, users=[{"name": "u", "user": user}]))


@pytest.mark.parametrize(
    "ends", [datetime(2027, 3, 4, 5, 6, 7, tzinfo=UTC), datetime(2055, 3, 4, 5, 6, 7, tzinfo=UTC)]
)
@pytest.mark.parametrize("inline", [True, False])
def test_the_end_of_a_client_certificate_is_known(
    tmp_path: Path, fakes: Any, ends: datetime, inline: bool
) -> None:
    own = trustme.CA().issue_cert("client", not_after=ends)
    pem, key = own.cert_chain_pems[0].bytes(), own.private_key_pem.bytes()
    (tmp_path / "cert.pem").write_bytes(pem)
    (tmp_path / "key.pem").write_bytes(key)
    data = {
        "client-certificate-data": base64.b64encode(pem).decode(),
        "client-key-data": base64.b64encode(key).decode(),
    }
    files = {"client-certificate": "cert.pem", "client-key": "key.pem"}
    user = data if inline else files
    assert (
        from_kubeconfig(with_user(tmp_path / "k", fakes, "https://127.0.0.1:1", **user)).ends
        == ends
    )
    sooner = datetime(2026, 12, 1, tzinfo=UTC)
    both = with_user(
        tmp_path / "b", fakes, "https://127.0.0.1:1", token=token(exp=sooner.timestamp()), **user
    )
    assert from_kubeconfig(both).ends == sooner


def test_a_token_from_a_file_has_no_known_end_and_is_read_again_when_it_is_refused(
    tmp_path: Path, fakes: Any, api: Any
) -> None:
    old, new = token(exp=1.0), token(exp=2.0)
    (tmp_path / "token").write_text(old)
    own = from_kubeconfig(with_user(tmp_path / "k", fakes, api.url, tokenFile="token"))
    assert own.ends is None
    kube = Kube(own, RUN)
    api.routes["GET /api/v1/nodes"] = lambda request: (
        fakes.listing()
        if request.headers["Authorization"] == f"Bearer {new}"
        else fakes.status(401, "Unauthorized", "")
    )
    (tmp_path / "token").write_text(new)
    assert kube.objects("v1", "Node") == []


@pytest.mark.parametrize("text", ["", "Bearer opaque", "a.b.c", "a.W10.c", f"Bearer {token()}", token(exp="soon"),
                                  token(exp=1e30)])  # fmt: skip
def test_a_token_that_says_no_end_has_none(text: str) -> None:
    assert end_of(text) is None


def test_an_exec_whose_credentials_ran_out_is_asked_for_once_more_with_new_ones(
    tmp_path: Path, fakes: Any, api: Any
) -> None:
    api.exec_credentials = "Bearer t2"
    api.exec = lambda channel, _: (channel.send(1, b"here"), channel.status(0), channel.close())
    kube = Kube(
        from_kubeconfig(with_plugin(tmp_path, fakes, COUNTING.format(tmp_path), api.url)), RUN
    )
    assert execute.run(kube, "n", "p", "c", ("true",), within=5.0).stdout == b"here"


def test_an_exec_whose_credentials_are_refused_for_good_asks_for_new_ones_once(
    tmp_path: Path, fakes: Any, api: Any
) -> None:
    api.exec_credentials = "Bearer of somebody else"
    kube = Kube(
        from_kubeconfig(with_plugin(tmp_path, fakes, COUNTING.format(tmp_path), api.url)), RUN
    )
    with pytest.raises(ExecBroken, match="401"):
        execute.run(kube, "n", "p", "c", ("true",), within=5.0)
    assert (tmp_path / "n").read_text() == "2\n"


def test_credentials_that_are_refused_for_good_are_asked_for_once_more_only(
    tmp_path: Path, fakes: Any, api: Any
) -> None:
    script = 'echo \'{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"t"}}\''
    kube = Kube(from_kubeconfig(with_plugin(tmp_path, fakes, script, api.url)), RUN)
    api.routes["GET /api/v1/nodes"] = fakes.status(401, "Unauthorized", "no")
    with pytest.raises(ApiRefused, match="401"):
        kube.read("/api/v1/nodes")
    assert len([request for request in api.requests if request.path == "/api/v1/nodes"]) == 2


@pytest.mark.parametrize(
    ("proxy", "expected"),
    [
        (
            "https://proxy.example:3128",
            r"execs cannot go through an https:// proxy; name it as http://",
        ),
        (
            "socks5://proxy.example:1080",
            r"a socks proxy needs a package that is missing: pip install PySocks",
        ),
    ],
)
def test_a_proxy_through_which_execs_cannot_go_is_refused_in_one_line(
    tmp_path: Path, fakes: Any, proxy: str, expected: str
) -> None:
    path = fakes.kubeconfig(tmp_path / "k", "https://127.0.0.1:1")
    content = yaml.safe_load(path.read_text())
    content["clusters"][0]["cluster"]["proxy-url"] = proxy
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(UsageProblem, match=expected):
        from_kubeconfig(path)


def test_a_token_that_is_taken_no_more_is_tried_again_for_a_while_and_then_ends_the_run(
    tmp_path: Path, fakes: Any, api: Any
) -> None:
    reach = Reach(tmp_path)
    kube = Kube(
        from_kubeconfig(fakes.kubeconfig(tmp_path / "k", api.url)),
        replace(RUN, api_retry=0.3),
        reach=reach,
    )
    api.routes["GET /api/v1/nodes"] = fakes.listing()
    kube.read("/api/v1/nodes")
    api.routes["GET /api/v1/nodes"] = fakes.status(401, "Unauthorized", "token has expired")
    with pytest.raises(ApiRefused, match="401"):
        kube.read("/api/v1/nodes")
    assert len([request for request in api.requests if request.path == "/api/v1/nodes"]) > 2
    assert reach.ended.startswith(
        "the API server takes the credentials of u no more: GET /api/v1/nodes: 401"
    )
    api.requests.clear()
    with pytest.raises(
        EnvironmentBroken, match="401"
    ):  # so that nobody waits for what cannot be asked
        kube.read("/api/v1/nodes")
    assert len(api.requests) == 1


def test_credentials_that_were_never_taken_end_no_run(tmp_path: Path, fakes: Any, api: Any) -> None:
    reach = Reach(tmp_path)
    kube = Kube(from_kubeconfig(fakes.kubeconfig(tmp_path / "k", api.url)), RUN, reach=reach)
    api.routes["GET /api/v1/nodes"] = fakes.status(401, "Unauthorized", "no")
    with pytest.raises(ApiRefused, match="401"):
        kube.read("/api/v1/nodes")
    assert not reach.ended
