# SPDX-License-Identifier: Apache-2.0
"""``calico-conformance kubeconfig`` creates a user with the suite's rights, and prints no
credentials of its caller."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from conformance.facts.rights import OF_CLUSTER, lacking
from conformance.kube.access import from_kubeconfig
from conformance.kube.client import MERGE_PATCH, Kube
from conformance.kube.refused import ApiRefused
from conformance.kube.rights import Right, missing
from tests.lab.lab_process import RunningLab
from tests.lab.rbac.conftest import environment

pytestmark = pytest.mark.xdist_group("rbac")


def printed(target: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command, its output in a file that the shell has made for everybody to read."""
    with target.open("w") as file:
        os.fchmod(file.fileno(), 0o644)
        return subprocess.run(
            [sys.executable, "-m", "conformance.cli", "kubeconfig", *arguments],
            env=environment(), stdout=file, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
        )  # fmt: skip


def lacks(path: Path, *rights: Right) -> list[str]:
    kube = Kube(from_kubeconfig(path))
    found = [right.label for right in missing(kube, rights)] if rights else list(lacking(kube))
    kube.close()
    return found


def test_the_file_is_private_and_knows_the_runner_alone(lab: RunningLab, tmp_path: Path) -> None:
    lane = tmp_path / "lane.yaml"
    done = printed(lane, f"--kubeconfig={lab.kubeconfig}")
    assert (done.returncode, stat.S_IMODE(lane.stat().st_mode)) == (0, 0o600), done.stderr
    content = yaml.safe_load(lane.read_text())
    administrator = json.dumps(
        yaml.safe_load(lab.kubeconfig.read_text())["users"][0]["user"]
    ).strip("{}")
    assert [user["name"] for user in content["users"]] == ["runner"]
    assert set(content["users"][0]["user"]) == {"token"}
    assert administrator.partition(": ")[2].strip('"') not in lane.read_text()
    assert lacks(lane) == ["service-backends", "disruption"]
    assert lacks(lane, Right("create", "clusterroles", "rbac.authorization.k8s.io")) != []
    assert done.stderr.startswith(
        "user runner of namespace calico-conformance, roles standard, until "
    )


def test_who_is_impersonated_has_the_rights_and_nobody_else(
    lab: RunningLab, tmp_path: Path
) -> None:
    lane = tmp_path / "lane.yaml"
    done = printed(lane, f"--kubeconfig={lab.kubeconfig}", "--role", "read-only")
    assert done.returncode == 0, done.stderr
    content = yaml.safe_load(lab.kubeconfig.read_text())
    account = "system:serviceaccount:calico-conformance:runner-read-only"
    content["users"][0]["user"] |= {"as": account, "as-groups": ["system:authenticated"]}
    (tmp_path / "as.yaml").write_text(yaml.safe_dump(content))
    assert lacks(lab.kubeconfig) == []
    missing = lacks(lane)
    assert set(missing) == {"pods", "policies", "service-backends", "disruption"}
    assert lacks(tmp_path / "as.yaml") == missing


def test_another_role_is_another_user_and_roles_beside_it_are_bound(
    lab: RunningLab, tmp_path: Path
) -> None:
    lane = tmp_path / "lane.yaml"
    roles = ("calicoctl", "rancher", "pull-secrets", "service-backends")
    beside = [word for role in roles for word in ("--with", role)]
    done = printed(
        lane, f"--kubeconfig={lab.kubeconfig}", "--role", "disruptive", *beside, "--hours", "0.5"
    )
    assert done.returncode == 0, done.stderr
    assert lacks(lane) == []
    rights = [
        Right("create", "networkpolicies", "crd.projectcalico.org"),
        Right("updatepsa", "projects", "management.cattle.io"),
        Right("create", "secrets"),
        Right("get", "secrets", namespace="default"),
        *(right for rights in OF_CLUSTER.values() for right in rights),
    ]
    assert lacks(lane, *rights) == []
    assert secrets_read(lab, lane) == []
    reader = tmp_path / "reader.yaml"
    assert printed(reader, f"--kubeconfig={lab.kubeconfig}", "--role", "read-only").returncode == 0
    assert set(lacks(reader)) == {"pods", "policies", "service-backends", "disruption"}
    assert set(lacks(reader, *rights)) == {right.label for right in rights}


def secrets_read(lab: RunningLab, lane: Path) -> list[str]:
    """The verbs by which the user gets the content of a Secret that is not in namespace default."""
    lab.kubectl(
        "create", "secret", "generic", "db", "-n", "kube-system", "--from-literal=password=hidden"
    )
    kube, path = Kube(from_kubeconfig(lane)), "/api/v1/namespaces/kube-system/secrets"
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db"}}
    tried = {"GET": None, "PATCH": {}, "PUT": body, "DELETE": None}
    found = []
    for method, sent in tried.items():
        try:
            kind = MERGE_PATCH if method == "PATCH" else "application/json"
            found.append(
                f"{method}: {kube.request(method, f'{path}/db', body=sent, content_type=kind)!r}"
            )
        except ApiRefused as refusal:
            found += [] if refusal.forbidden else [f"{method}: {refusal}"]
    kube.close()
    return found


def test_who_may_not_make_users_is_told_so_in_a_line(lab: RunningLab, tmp_path: Path) -> None:
    lane = tmp_path / "lane.yaml"
    assert printed(lane, f"--kubeconfig={lab.kubeconfig}").returncode == 0
    done = printed(tmp_path / "other.yaml", f"--kubeconfig={lane}")
    assert (done.returncode, done.stderr.count("\n")) == (7, 1)
    assert "403 Forbidden" in done.stderr
    assert done.stderr.endswith("; roles and users are made by an administrator of the cluster\n")


def test_without_a_cluster_that_is_named_nothing_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    done = printed(tmp_path / "lane.yaml")
    assert done.returncode == 4
    assert done.stderr == "ERROR: KUBECONFIG is not set; set it, or use --kubeconfig=PATH\n"
