# SPDX-License-Identifier: Apache-2.0
"""Credential plugins of kubeconfigs are treated as kubectl treats them."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from conformance.errors import UsageProblem
from conformance.kube import execute
from conformance.kube.access import from_kubeconfig
from conformance.kube.client import Kube
from conformance.kube.reach import Reach
from tests.unit.conformance.kube.conftest import FAST
from tests.unit.conformance.kube.kubeconfig_files import OURS, V1, content, who, write


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


PRINTED: dict[str, tuple[str, str]] = {
    "banner": (
        "echo Welcome to acme; " + printing(token="s3cret"),
        "printed no ExecCredential; its output begins with 'Welcome to acme'",
    ),
    "nothing": ("true", "printed no ExecCredential; its output begins with ''"),
    "a bare token": (
        "echo s3cret",
        r"printed no ExecCredential; its output begins with '\(removed\)'",
    ),
    "half": ("echo '{\"kind\": '", "printed no ExecCredential; its output begins with ''"),
    "other version": (
        printing("client.authentication.k8s.io/v1beta1", token="s3cret"),
        "printed ExecCredential of .*v1beta1, but .*/v1 was requested",
    ),
    "no status": (
        "echo '" + json.dumps({"apiVersion": V1, "kind": "ExecCredential"}) + "'",
        "returned neither a token nor",
    ),
    "no key": (
        printing(clientCertificateData="x"),
        "returned a client certificate without its key",
    ),
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
