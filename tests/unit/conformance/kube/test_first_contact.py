# SPDX-License-Identifier: Apache-2.0
"""A first request that fails is explained by what its user can do about it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from conformance.kube.first_contact import first_contact
from conformance.kube.refused import ApiRefused, ApiUnreachable, NoApiServer

SERVER = "https://10.0.0.1:6443 (lane.yaml, context prod)"
ACCESS: Any = SimpleNamespace(
    server="https://10.0.0.1:6443", where="lane.yaml, context prod", user="jane"
)


def refused(code: int, reason: str) -> ApiRefused:
    return ApiRefused(code, reason, "the message", "GET /version")


def unreachable(last: BaseException | str) -> ApiUnreachable:
    return ApiUnreachable("GET /version", 3, 2.0, last)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            NoApiServer("a page", "GET /version"),
            "is not a Kubernetes API server, or a gateway answered in its place: GET /version: "
            "not an answer from a Kubernetes API server (a page)",
        ),
        (
            refused(401, "Unauthorized"),
            "does not accept the credentials of jane: expired or revoked (the message)",
        ),
        (refused(403, "Forbidden"), "forbids jane even to read /version: the message"),
        (refused(404, "NotFound"), "answers 404 NotFound to GET /version: the message"),
        (
            unreachable(OSError("certificate verify failed: self-signed certificate")),
            "has a certificate that this kubeconfig's certificate authority did not sign: "
            "certificate verify failed: self-signed certificate",
        ),
        (
            unreachable("[SSL: CERTIFICATE_VERIFY_FAILED] unable to get local issuer certificate"),
            "has a certificate that this kubeconfig's certificate authority did not sign: "
            "[SSL: CERTIFICATE_VERIFY_FAILED] unable to get local issuer certificate",
        ),
        (
            unreachable("[SSL: CERTIFICATE_VERIFY_FAILED] certificate has expired"),
            "has a certificate that is not valid for this host, or not now: "
            "[SSL: CERTIFICATE_VERIFY_FAILED] certificate has expired",
        ),
        (
            unreachable(ConnectionRefusedError(111, "Connection refused")),
            "refuses connections: is the cluster (or the lab that wrote this kubeconfig) "
            "still running?",
        ),
        (
            unreachable("proxy 10.0.0.9:3128 refused the connection"),
            "cannot be reached: proxy 10.0.0.9:3128 refused the connection",
        ),
        (unreachable("timed out"), "cannot be reached: timed out"),
    ],
)
def test_a_first_request_that_fails_says_why(
    error: ApiRefused | ApiUnreachable, words: str
) -> None:
    assert first_contact(ACCESS, error) == f"{SERVER} {words}"
