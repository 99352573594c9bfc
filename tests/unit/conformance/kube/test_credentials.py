# SPDX-License-Identifier: Apache-2.0
"""Credentials end, are renewed and are refused; each case is handled, or reported in one line."""

from __future__ import annotations

import base64
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import trustme

from conformance.errors import EnvironmentBroken
from conformance.kube import access, execute
from conformance.kube.access import from_kubeconfig, in_cluster
from conformance.kube.channels import ExecBroken
from conformance.kube.client import Kube
from conformance.kube.credentials import end_of
from conformance.kube.reach import Reach
from conformance.kube.refused import ApiRefused
from tests.unit.conformance.kube.lanes import OURS, RUN, token, unusable, with_plugin


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


def test_an_expired_token_is_named_as_that(tmp_path: Path, fakes: Any, api: Any) -> None:
    api.routes["GET /version"] = fakes.status(401, "Unauthorized", "token has expired")
    text = unusable(fakes.kubeconfig(tmp_path / "k", api.url))
    assert "does not accept the credentials of u: expired or revoked (token has expired)" in text


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
        "the API server no longer accepts the credentials of u: GET /api/v1/nodes: 401"
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
