# SPDX-License-Identifier: Apache-2.0
"""An error of a kubeconfig or a cluster is named in one line, with its real cause."""

from __future__ import annotations

import re
import socket
import ssl
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from conformance.errors import UsageProblem
from conformance.kube.access import from_environment, from_kubeconfig, in_cluster
from conformance.kube.client import Kube
from tests.unit.conformance.kube.conftest import FAST
from tests.unit.conformance.kube.lanes import OURS, THEIRS, unusable


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
        ("{}", None, "is not a kubeconfig: it has no contexts"),
        (
            "kind: Deployment\napiVersion: apps/v1",
            None,
            "is not a kubeconfig (v1, Config): it is apps/v1, Deployment",
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
        ({"clusters": []}, "names cluster 'c', which the file does not define"),
        ({"users": []}, "names user 'u', which the file does not define"),
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


def test_a_pod_names_its_namespace(tmp_path: Path) -> None:
    for name, text in (("token", "one"), ("namespace", "sonobuoy\n")):
        (tmp_path / name).write_text(text)
    (tmp_path / "ca.crt").write_bytes(OURS.cert_pem.bytes())
    where = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    assert in_cluster(where, tmp_path).namespace == "sonobuoy"


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
            "is not valid for this host, or not now: .*certificate has expired",
        ),
        (OURS.issue_cert("example.com"), "is not valid for this host, or not now: .*mismatch"),
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
            "the certificate of https://10.0.0.1:6443 is not verified (insecure-skip-tls-verify)",
        ),
        (
            "https://127.0.0.1:6443",
            {"insecure-skip-tls-verify": True},
            "the certificate of https://127.0.0.1:6443 is not verified (insecure-skip-tls-verify)",
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


def test_something_else_than_an_api_server_is_named_as_that(
    tmp_path: Path, fakes: Any, api: Any
) -> None:
    api.routes["GET /version"] = (200, b"<html>")
    assert "is not a Kubernetes API server" in unusable(fakes.kubeconfig(tmp_path / "k", api.url))


@pytest.mark.parametrize(
    ("proxy", "expected"),
    [
        (
            "https://proxy.example:3128",
            r"execs cannot use a proxy with an https:// address; write http://",
        ),
        (
            "socks5://proxy.example:1080",
            r"a SOCKS proxy needs a package that is not installed: pip install PySocks",
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
