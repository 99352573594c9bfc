# SPDX-License-Identifier: Apache-2.0
"""Requests and execs use the same proxy, requests to loopback use none from the environment, and
a proxy's failure is named."""

from __future__ import annotations

import base64
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance.errors import ClusterUnusable, UsageProblem
from conformance.kube import execute, proxy
from conformance.kube.access import from_kubeconfig, in_cluster
from conformance.kube.channels import ExecBroken
from conformance.kube.client import Kube
from tests.unit.conformance.kube.conftest import FAST
from tests.unit.conformance.kube.loopback_proxy import loopback_proxy

VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
SECRET = "p:w d@"


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
def dead() -> Iterator[int]:
    """A port of this machine on which nobody listens."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        yield closed.getsockname()[1]


def echo(channel: Any, _: Any) -> None:
    channel.send(1, b"here")
    channel.status(0)
    channel.close()


def through(fakes: Any, tmp_path: Path, server: str, url: str) -> Kube:
    clusters = [{"name": "c", "cluster": {"server": server, "proxy-url": url}}]
    return Kube(from_kubeconfig(fakes.kubeconfig(tmp_path / "k", server, clusters=clusters)), FAST)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.5", "::1"])
@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
def test_requests_and_execs_to_loopback_take_no_proxy_of_the_environment(
    fakes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, variable: str
) -> None:
    api = fakes.FakeApi()
    api.start(host=host)
    api.exec = echo
    try:
        with loopback_proxy() as between:
            monkeypatch.setenv(variable, f"http://127.0.0.1:{between.port}")
            kube = Kube(from_kubeconfig(fakes.kubeconfig(tmp_path / "k", api.url)), FAST)
            assert kube.version()["gitVersion"]
            assert execute.run(kube, "n", "p", "c", ["true"], within=5).stdout == b"here"
            assert between.heads == []
    finally:
        api.stop()


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "https_proxy"])
def test_a_lab_behind_a_company_s_proxy_is_reached(
    fakes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """Also where the proxy is one through which no exec could go."""
    monkeypatch.setenv(variable, "https://proxy.company.example:3128")
    access = from_kubeconfig(fakes.kubeconfig(tmp_path / "k", "https://localhost:1"))
    assert access.configuration.proxy is None


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("::ffff:127.0.0.1", True), ("localhost", True),
     ("LOCALHOST.", True), ("10.0.0.1", False), ("localhost.example", False), ("127.0.0.1.example", False)],
)  # fmt: skip
def test_loopback_is_known_by_name_and_address(host: str, expected: bool) -> None:
    assert proxy.is_loopback(host) is expected


def test_another_host_takes_the_proxy_of_the_environment(
    fakes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "HTTPS_PROXY", "proxy.company.example:3128"
    )  # without a scheme, as curl and Go take it
    access = from_kubeconfig(fakes.kubeconfig(tmp_path / "k", "https://10.0.0.1:6443"))
    assert access.configuration.proxy == "http://proxy.company.example:3128"
    monkeypatch.setenv("NO_PROXY", "10.0.0.0/8")
    assert from_kubeconfig(tmp_path / "k").configuration.proxy is None


def test_in_a_pod_the_proxy_of_the_environment_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("t")
    (tmp_path / "ca.crt").write_text("")
    monkeypatch.setenv("HTTPS_PROXY", "http://u:w@proxy.company.example:3128")
    pod = in_cluster(
        {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}, tmp_path
    )
    assert proxy.name(pod.configuration) == "http://proxy.company.example:3128"


@pytest.mark.parametrize("plain", [True, False], ids=["http", "https"])
def test_a_proxy_gets_its_credentials_with_requests_and_execs(
    fakes: Any, tmp_path: Path, plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The password holds what a URL must escape."""
    import ssl

    import trustme

    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    wanted = "Basic " + base64.b64encode(f"me:{SECRET}".encode()).decode()
    api = fakes.FakeApi()
    api.start(None if plain else context)
    api.exec = echo
    monkeypatch.setenv("NO_PROXY", "unrelated.example")
    try:
        with loopback_proxy(wanted=wanted) as between:
            cluster = {
                "server": api.url,
                "proxy-url": f"http://me:p%3Aw%20d%40@127.0.0.1:{between.port}",
            }
            if not plain:
                cluster["certificate-authority-data"] = base64.b64encode(
                    authority.cert_pem.bytes()
                ).decode()
            path = fakes.kubeconfig(
                tmp_path / "k", api.url, clusters=[{"name": "c", "cluster": cluster}]
            )
            kube = Kube(from_kubeconfig(path), FAST)
            assert kube.version()["gitVersion"]
            assert len(between.heads) == 1
            assert execute.run(kube, "n", "p", "c", ["true"], within=5).stdout == b"here"
            assert len(between.heads) == 2
            assert all("proxy-authorization" not in key.lower() for item in api.requests for key in item.headers
                       if not plain)  # fmt: skip
    finally:
        api.stop()


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_dead_proxy_is_named_and_not_taken_for_a_dead_cluster(
    fakes: Any, tmp_path: Path, dead: int, scheme: str
) -> None:
    kube = through(
        fakes, tmp_path, f"{scheme}://10.0.0.1:6443", f"http://me:{'s3cret'}@127.0.0.1:{dead}"
    )
    with pytest.raises(ClusterUnusable) as caught:
        kube.version()
    assert (
        f"proxy http://127.0.0.1:{dead} provides no connection: [Errno 111] Connection refused"
        in str(caught.value)
    )
    assert "still running" not in str(caught.value)
    assert "s3cret" not in str(caught.value)
    with pytest.raises(
        ExecBroken, match=f"proxy http://127.0.0.1:{dead} provides no connection: "
    ) as broken:
        execute.run(kube, "n", "p", "c", ["true"], within=5)
    assert "s3cret" not in str(broken.value)


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        ("", r"demands credentials \(407\)"),
        ("me:s3cret@", r"does not accept the credentials in its URL \(407\)"),
    ],
)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_wants_credentials_says_so(
    fakes: Any, tmp_path: Path, scheme: str, user: str, expected: str
) -> None:
    with loopback_proxy(wanted="Basic nobody") as between:
        kube = through(
            fakes, tmp_path, f"{scheme}://10.0.0.1:6443", f"http://{user}127.0.0.1:{between.port}"
        )
        with pytest.raises(
            ClusterUnusable, match=rf"proxy http://127.0.0.1:{between.port} {expected}"
        ) as caught:
            kube.version()
        with pytest.raises(
            ExecBroken, match=rf"proxy http://127.0.0.1:{between.port} {expected}"
        ) as broken:
            execute.run(kube, "n", "p", "c", ["true"], within=5)
    assert "s3cret" not in str(caught.value) + str(broken.value)


def test_a_proxy_that_does_not_reach_the_cluster_is_named(fakes: Any, tmp_path: Path) -> None:
    with loopback_proxy("503 Service Unavailable") as between:
        kube = through(fakes, tmp_path, "https://10.0.0.1:6443", f"http://127.0.0.1:{between.port}")
        expected = rf"proxy http://127.0.0.1:{between.port} does not connect to 10.0.0.1:6443: 503"
        with pytest.raises(ClusterUnusable, match=expected):
            kube.version()
        with pytest.raises(ExecBroken, match=expected):
            execute.run(kube, "n", "p", "c", ["true"], within=5)


@pytest.mark.parametrize(
    "url", ["http://", "http://me:s3cret@host:port", "ftp://me:s3cret@host", "http://host:0"]
)
def test_a_proxy_that_is_no_address_is_a_usage_problem_without_its_password(
    fakes: Any, tmp_path: Path, url: str
) -> None:
    with pytest.raises(UsageProblem, match="the proxy's address is not of the form") as caught:
        through(fakes, tmp_path, "https://10.0.0.1:6443", url)
    assert "s3cret" not in str(caught.value)


def test_a_proxy_that_answers_byte_by_byte_is_given_up_by_execs(fakes: Any, tmp_path: Path) -> None:
    with loopback_proxy(pause=0.1) as between:
        kube = through(fakes, tmp_path, "https://10.0.0.1:6443", f"http://127.0.0.1:{between.port}")
        given_up = r"within 2\.0 s: proxy http://.* provides no connection"
        with pytest.raises(ExecBroken, match=given_up):
            execute.run(kube, "n", "p", "c", ["true"], within=2.0)
