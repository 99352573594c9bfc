# SPDX-License-Identifier: Apache-2.0
"""Keys and certificates from a kubeconfig or a credential plugin are never written into a file."""

from __future__ import annotations

import base64
import json
import os
import signal
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from conformance.errors import UsageProblem
from conformance.kube import access, execute, runner
from conformance.kube.access import from_kubeconfig
from conformance.kube.client import Kube
from tests.unit.conformance.kube.conftest import FAST

OURS = trustme.CA()
ROOT = Path(__file__).parents[4]


def encoded(text: bytes) -> str:
    return base64.b64encode(text).decode()


@pytest.fixture
def tls_api(fakes: Any) -> Iterator[Any]:
    """An API server that demands a client's certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    OURS.issue_cert("127.0.0.1").configure_cert(context)
    OURS.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    server = fakes.FakeApi()
    server.start(context)
    server.exec = lambda channel, _: (channel.send(1, b"here"), channel.status(0), channel.close())
    yield server
    server.stop()


@pytest.fixture(params=["memory", "no memory files"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """TMPDIR of the test; on systems without files in memory it must be empty all the same."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    if request.param != "memory":
        monkeypatch.delattr(os, "memfd_create")
    return temporary


def user(identity: trustme.LeafCert) -> dict[str, str]:
    pem = b"".join(part.bytes() for part in identity.cert_chain_pems)
    return {
        "client-certificate-data": encoded(pem),
        "client-key-data": encoded(identity.private_key_pem.bytes()),
    }


def embedded(path: Path, fakes: Any, server: str, **more: Any) -> Path:
    given = more or user(OURS.issue_cert("me@example.com"))
    file: Path = fakes.kubeconfig(path, server, authority=OURS.cert_pem.bytes().decode(),
        users=[{"name": "u", "user": given}])  # fmt: skip
    return file


def test_an_embedded_key_is_used_for_requests_and_execs_and_leaves_no_file(
    fakes: Any, tls_api: Any, tmp_path: Path, folder: Path
) -> None:
    kube = Kube(from_kubeconfig(embedded(tmp_path / "k", fakes, tls_api.url)), FAST)
    assert list(folder.iterdir()) == []
    assert kube.version()["gitVersion"]
    assert execute.run(kube, "n", "p", "c", ["true"], within=5).stdout == b"here"
    assert list(folder.iterdir()) == []


def test_no_descriptor_stays_open_for_a_key(fakes: Any, tls_api: Any, tmp_path: Path) -> None:
    kept = from_kubeconfig(embedded(tmp_path / "k", fakes, tls_api.url))
    links = [str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    assert [link for link in links if "kubeconfig" in link] == []
    assert kept.configuration.tls


def test_keys_in_files_of_the_user_are_read_for_each_connection(
    fakes: Any, tls_api: Any, tmp_path: Path, folder: Path
) -> None:
    """They may be renewed while a run lasts."""

    def write(identity: trustme.LeafCert) -> None:
        identity.private_key_pem.write_to_path(tmp_path / "key.pem")
        (tmp_path / "cert.pem").write_bytes(
            b"".join(part.bytes() for part in identity.cert_chain_pems)
        )

    write(OURS.issue_cert("me@example.com"))
    files = {
        "client-certificate": str(tmp_path / "cert.pem"),
        "client-key": str(tmp_path / "key.pem"),
    }
    kube = Kube(from_kubeconfig(embedded(tmp_path / "k", fakes, tls_api.url, **files)), FAST)
    assert kube.version()["gitVersion"]
    write(trustme.CA().issue_cert("somebody@example.com"))
    with pytest.raises(Exception, match=r"no connection|broke|cut"):
        execute.run(kube, "n", "p", "c", ["true"], within=5)
    assert list(folder.iterdir()) == []


CERTIFICATES = """n=$(cat {0}/n 2>/dev/null || echo 0); n=$((n+1)); echo $n >{0}/n
cat {0}/credential-$n"""


def test_a_plugin_s_certificate_is_renewed_and_leaves_no_file(
    fakes: Any, tls_api: Any, tmp_path: Path, folder: Path
) -> None:
    for number in (1, 2):
        identity = OURS.issue_cert(f"me{number}@example.com")
        pem = b"".join(part.bytes() for part in identity.cert_chain_pems).decode()
        status = {
            "clientCertificateData": pem,
            "clientKeyData": identity.private_key_pem.bytes().decode(),
        }
        content = {
            "apiVersion": "client.authentication.k8s.io/v1",
            "kind": "ExecCredential",
            "status": status,
        }
        (tmp_path / f"credential-{number}").write_text(json.dumps(content))
    program = tmp_path / "login"
    program.write_text("#!/bin/sh\n" + CERTIFICATES.format(tmp_path))
    program.chmod(0o755)
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": str(program),
        "interactiveMode": "Never",
    }
    kube = Kube(from_kubeconfig(embedded(tmp_path / "k", fakes, tls_api.url, exec=plugin)), FAST)
    first = kube.access.configuration.tls
    given = [fakes.status(401, "Unauthorized", "expired"), (200, {"items": []})]
    tls_api.routes["GET /x"] = lambda _: given.pop(0)
    assert kube.read("/x") == {"items": []}
    assert (tmp_path / "n").read_text() == "2\n"
    assert kube.access.configuration.tls is not first
    assert execute.run(kube, "n", "p", "c", ["true"], within=5).stdout == b"here"
    assert list(folder.iterdir()) == []


def test_a_damaged_key_leaves_no_file(fakes: Any, tmp_path: Path, folder: Path) -> None:
    pem = OURS.issue_cert("me@example.com").cert_chain_pems[0].bytes()
    given = {"client-certificate-data": encoded(pem), "client-key-data": encoded(b"no key")}
    with pytest.raises(UsageProblem, match="its certificates or key cannot be used"):
        from_kubeconfig(embedded(tmp_path / "k", fakes, "https://127.0.0.1:1", **given))
    assert list(folder.iterdir()) == []


def test_a_certificate_authority_with_comments_is_taken_and_handed_on(
    fakes: Any, tls_api: Any, tmp_path: Path
) -> None:
    authority = "# Größe\n" + OURS.cert_pem.bytes().decode()
    path: Path = fakes.kubeconfig(tmp_path / "k", tls_api.url, authority=authority,
        users=[{"name": "u", "user": user(OURS.issue_cert("me@example.com"))}])  # fmt: skip
    kube = Kube(from_kubeconfig(path), FAST)
    assert kube.version()["gitVersion"]
    text = runner.kubeconfig(kube, runner.Runner(name="r", token="t", ends=datetime.now(UTC)))
    written = yaml.safe_load(text)["clusters"][0]["cluster"]["certificate-authority-data"]
    assert OURS.cert_pem.bytes() in base64.b64decode(written)


KILLED = """
import sys, time
from pathlib import Path
from conformance.kube.access import from_kubeconfig
from conformance.kube.client import Kube
kube = Kube(from_kubeconfig(Path(sys.argv[1])))
kube.headers()
print("ready", flush=True)
time.sleep(60)
"""


def test_a_killed_process_leaves_no_key(fakes: Any, tls_api: Any, tmp_path: Path) -> None:
    path, temporary = embedded(tmp_path / "k", fakes, tls_api.url), tmp_path / "tmp"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": "lib"}
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(path)],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGKILL)
    assert list(temporary.iterdir()) == []


def test_a_token_that_is_looked_at_again_brings_no_file_back(
    fakes: Any, tls_api: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The official client names its files anew whenever it looks; threads that connect meanwhile must not see them."""
    monkeypatch.setattr(access, "RENEWED_EVERY", 0.0)
    given = {**user(OURS.issue_cert("me@example.com")), "token": "t"}
    kube = Kube(from_kubeconfig(embedded(tmp_path / "k", fakes, tls_api.url, **given)), FAST)
    configuration, seen = kube.access.configuration, list[Any]()
    usual: Any = type(configuration).__setattr__

    def watched(self: Any, name: str, value: Any) -> None:
        if self is configuration and name in ("ssl_ca_cert", "cert_file", "key_file"):
            seen.append((name, value))
        usual(self, name, value)

    monkeypatch.setattr(type(configuration), "__setattr__", watched)
    for _ in range(3):
        assert kube.version()["gitVersion"]
        assert execute.run(kube, "n", "p", "c", ["true"], within=5).stdout == b"here"
    assert tls_api.requests[-1].headers["Authorization"] == "Bearer t"
    assert seen == []
