# SPDX-License-Identifier: Apache-2.0
"""``calico-conformance kubeconfig`` prints no kubeconfig whose token the server refuses."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from conformance.cli import main
from conformance.kube import runner
from conformance.kube.access import from_kubeconfig
from conformance.product import MANIFESTS

OWN_TOKEN = "Bearer fresh"


@pytest.fixture
def administered(api: Any, fakes: Any) -> Any:
    """An API server that makes whatever it is asked to make, and the token ``fresh``."""

    def taken(request: Any) -> Any:
        return 200, request.body

    token = {"status": {"token": "fresh", "expirationTimestamp": "2027-01-01T00:00:00Z"}}
    root = {
        "kind": "ConfigMap",
        "metadata": {"name": "kube-root-ca.crt"},
        "data": {"ca.crt": "pem"},
    }
    api.routes |= {
        "POST /api/v1/namespaces/calico-conformance/serviceaccounts/[a-z-]+/token": (201, token),
        "GET /api/v1/namespaces/kube-system/configmaps/kube-root-ca.crt": (200, root),
        "GET /version": lambda request: (
            (200, {"gitVersion": "v1.34.1"})
            if request.headers["Authorization"] == "Bearer t"
            else api.proof
        ),
        "PATCH .*": taken,
        "POST .*": taken,
    }
    served = {
        "rbac.authorization.k8s.io/v1": ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
    }
    for group, kinds in {**served, "v1": ("Namespace", "ServiceAccount", "ConfigMap")}.items():
        resources = [
            {
                "name": f"{kind.lower()}s",
                "kind": kind,
                "namespaced": not kind.startswith(("Cluster", "Namespace")),
            }
            for kind in kinds
        ]
        prefix = "/api/v1" if group == "v1" else f"/apis/{group}"
        api.routes[f"GET {prefix}"] = (200, {"resources": resources})
    rbac = {"name": "rbac", "versions": [{"groupVersion": "rbac.authorization.k8s.io/v1"}]}
    api.routes["GET /apis"] = (200, {"groups": [rbac]})
    api.proof = (200, {"gitVersion": "v1.34.1"})
    return api


def run(path: Path, *arguments: str) -> int:
    return main(["kubeconfig", f"--kubeconfig={path}", *arguments])


def test_a_token_that_the_server_takes_is_printed(
    administered: Any, fakes: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(fakes.kubeconfig(tmp_path / "k", administered.url)) == 0
    printed = yaml.safe_load(capfd.readouterr().out)
    assert printed["users"] == [{"name": "runner", "user": {"token": "fresh"}}]
    proofs = [
        one.headers["Authorization"] for one in administered.requests if one.path == "/version"
    ]
    assert proofs == [OWN_TOKEN]


@pytest.mark.parametrize(
    ("path", "name", "told"),
    [
        ("/k8s/clusters/c-1", "", "Rancher's proxy accepts only Rancher's tokens"),
        ("", "kube-teleport-proxy-alpn.acme.example", "Teleport's proxy accepts only its own"),
        ("", "", "runner: GET /version: 401"),
    ],
)
def test_a_gateway_that_takes_other_tokens_alone_is_named_with_the_way_out(  # noqa: PLR0917
    administered: Any,
    fakes: Any,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    path: str,
    name: str,
    told: str,
) -> None:
    administered.proof = fakes.status(401, "Unauthorized", "Unauthorized")
    administered.routes = {
        route.replace(" ", f" {path}", 1): answer for route, answer in administered.routes.items()
    }
    cluster = {"server": administered.url + path, "tls-server-name": name}
    entry = {"name": "c", "cluster": cluster}
    assert run(fakes.kubeconfig(tmp_path / "k", "", clusters=[entry])) == 7
    out, err = capfd.readouterr()
    assert out == ""
    assert told in err
    assert "with --server=URL" in err
    assert err.count("\n") == 1


def test_the_clusters_own_server_is_proven_and_printed_with_its_authority(
    administered: Any, fakes: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    own = fakes.FakeApi()
    own.start()
    try:
        gateway = fakes.kubeconfig(tmp_path / "k", administered.url)
        assert run(gateway, f"--server={own.url}") == 0
    finally:
        own.stop()
    printed = yaml.safe_load(capfd.readouterr().out)
    authority = base64.b64encode(b"pem").decode()
    assert printed["clusters"][0]["cluster"] == {
        "server": own.url,
        "certificate-authority-data": authority,
    }
    assert [one.headers["Authorization"] for one in own.requests] == [OWN_TOKEN]


def test_every_role_file_can_be_had(tmp_path: Path) -> None:
    files = {path.stem for path in (MANIFESTS / "rbac").glob("*.yaml")}
    assert files == {*runner.ROLES, *runner.BESIDE, runner.PREPARED, "runner"}
    assert {"pools", "node-status"} <= set(runner.BESIDE)


def test_disruptive_brings_what_changes_the_whole_cluster() -> None:
    _, objects = runner.user_of("disruptive", ["rancher"])
    bound = {one["roleRef"]["name"] for one in objects if one["kind"] == "ClusterRoleBinding"}
    names = ("disruptive", "node-status", "pools", "rancher")
    assert bound == {f"calico-conformance-{name}" for name in names}
    assert runner.beside_of("standard", []) == []


def test_the_printed_kubeconfig_is_read_as_it_is_printed(
    administered: Any, fakes: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run(fakes.kubeconfig(tmp_path / "k", administered.url), "--role", "disruptive")
    out, err = capfd.readouterr()
    (tmp_path / "lane").write_text(out)
    assert from_kubeconfig(tmp_path / "lane").user == "runner-disruptive"
    assert "roles disruptive, node-status, pools, until" in err
