# SPDX-License-Identifier: Apache-2.0
"""ID tokens of kubeconfigs are renewed by issuers that are trusted."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
import trustme

from conformance.errors import UsageProblem
from conformance.kube import access, credentials
from conformance.kube.access import from_kubeconfig
from conformance.kube.client import Kube
from tests.unit.conformance.kube.conftest import FAST
from tests.unit.conformance.kube.kubeconfig_files import content, who, write

THEIRS = trustme.CA()


def id_token(ends: datetime) -> str:
    parts = ({"alg": "x"}, {"exp": int(ends.timestamp())})
    encoded = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode() for part in parts)
    return ".".join([*(part.rstrip("=") for part in encoded), "c2ln"])


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
        UsageProblem,
        match=r"has expired, and .* issued no new id-token: .*CERTIFICATE_VERIFY_FAILED",
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
