# SPDX-License-Identifier: Apache-2.0
"""kubectl works: what a user types first, and the commands that insist on special encodings."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Kubectl = Callable[..., subprocess.CompletedProcess[str]]
DEMO = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: nginx, image: "nginx:1.27", ports: [{containerPort: 80}]}]}
---
apiVersion: projectcalico.org/v3
kind: NetworkPolicy
metadata: {name: allow}
spec: {selector: app == 'web', ingress: [{action: Allow, protocol: TCP}]}
"""

MANIFESTS = Path(__file__).parents[3] / "manifests" / "rbac"
LIST = """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: listed}, data: {a: b}}
- {apiVersion: projectcalico.org/v3, kind: NetworkPolicy, metadata: {name: listed}, spec: {selector: app == 'web'}}
"""


@pytest.fixture
def kubectl(threaded: Any, tmp_path: Path) -> Kubectl:
    program = shutil.which("kubectl")
    if program is None:
        pytest.skip(
            "kubectl is not installed: looked for it on PATH; install it to try the server with it"
        )
    environment = {
        "KUBECONFIG": str(threaded.kubeconfig),
        "HOME": str(tmp_path),
        "PATH": os.environ["PATH"],
    }

    def call(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [program, *words],
            input=stdin,
            env=environment,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )

    return call


def test_apply_changes_what_changed_and_only_that(kubectl: Kubectl) -> None:
    first = kubectl("apply", "-f", "-", stdin=DEMO)
    assert (
        first.stdout
        == "deployment.apps/web created\nnetworkpolicy.projectcalico.org/allow created\n"
    ), first.stderr
    second = kubectl("apply", "-f", "-", stdin=DEMO)
    assert (
        second.stdout
        == "deployment.apps/web unchanged\nnetworkpolicy.projectcalico.org/allow unchanged\n"
    )
    third = kubectl("apply", "-f", "-", stdin=DEMO.replace("nginx:1.27", "nginx:1.28"))
    assert (
        third.stdout
        == "deployment.apps/web configured\nnetworkpolicy.projectcalico.org/allow unchanged\n"
    )
    shown = json.loads(kubectl("get", "deployment", "web", "-o", "json").stdout)
    assert [c["image"] for c in shown["spec"]["template"]["spec"]["containers"]] == ["nginx:1.28"]


def test_apply_names_a_wrong_field(kubectl: Kubectl) -> None:
    wrong = kubectl("apply", "-f", "-", stdin=DEMO.replace("replicas", "replica"))
    assert wrong.returncode == 1
    assert 'unknown field "spec.replica"' in wrong.stderr


def test_a_list_is_checked_by_kubectl_itself_and_its_items_are_applied(kubectl: Kubectl) -> None:
    wrong = kubectl("apply", "-f", "-", stdin=LIST.replace("data:", "dota:"))
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert 'ValidationError(ConfigMap): unknown field "dota" in io.k8s.api' in wrong.stderr
    first = kubectl("apply", "-f", "-", stdin=LIST)
    assert (
        first.stdout == "configmap/listed created\nnetworkpolicy.projectcalico.org/listed created\n"
    ), first.stderr
    assert kubectl("apply", "-f", "-", stdin=LIST).stdout.count(" unchanged\n") == 2
    assert kubectl("delete", "-f", "-", "--wait=false", stdin=LIST).returncode == 0


def test_server_side_apply_reports_conflicts_and_can_be_forced(kubectl: Kubectl) -> None:
    assert kubectl("apply", "--server-side", "-f", "-", stdin=DEMO).returncode == 0
    words = ("apply", "--server-side", "--field-manager=other", "-f", "-")
    refused = kubectl(*words, stdin=DEMO.replace("replicas: 2", "replicas: 5"))
    assert (refused.returncode, 'conflict with "kubectl": .spec.replicas' in refused.stderr) == (
        1,
        True,
    )
    assert (
        kubectl(
            *words, "--force-conflicts", stdin=DEMO.replace("replicas: 2", "replicas: 5")
        ).returncode
        == 0
    )


def test_people_see_their_pods_and_reach_into_them(threaded: Any, kubectl: Kubectl) -> None:
    threaded.call(threaded.api.running_pod("p"))
    wide = kubectl("get", "pods", "-o", "wide").stdout.splitlines()
    columns = "NAME READY STATUS RESTARTS AGE IP NODE NOMINATED NODE READINESS GATES"
    assert " ".join(wide[0].split()) == columns
    assert wide[1].split()[:4] == ["p", "1/1", "Running", "0"]
    assert kubectl("exec", "p", "--", "echo", "hi").stdout == "hi"
    failed = kubectl("exec", "p", "--", "fail", "3")
    assert (failed.returncode, failed.stderr) == (3, "command terminated with exit code 3\n")
    assert kubectl("exec", "-i", "p", "--", "cat", stdin="through").stdout == "through"
    missing = kubectl("exec", "p", "--", "nope")
    assert 'exec: "nope": executable file not found in $PATH' in missing.stderr
    assert kubectl("logs", "p").stdout == "one\ntwo\n"
    assert "QoS Class:" in kubectl("describe", "pod", "p").stdout
    assert kubectl("delete", "pod", "p", "--wait=false").stdout == 'pod "p" deleted\n'


def test_commands_that_send_protobuf_work(kubectl: Kubectl) -> None:
    assert kubectl("create", "namespace", "made").stdout == "namespace/made created\n"
    assert kubectl("auth", "can-i", "create", "pods").stdout == "yes\n"
    assert "kubernetes-admin" in kubectl("auth", "whoami").stdout
    assert len(kubectl("create", "token", "default").stdout) > 20
    created = kubectl("create", "deployment", "d", "--image=nginx", "--replicas=0", "--port=80")
    assert created.stdout == "deployment.apps/d created\n", created.stderr
    assert kubectl("get", "deployment", "d", "-o", "jsonpath={.spec.replicas}").stdout == "0"


def test_resources_are_found_by_their_short_names(kubectl: Kubectl) -> None:
    resources = kubectl("api-resources").stdout
    assert "networkpolicies                   cnp,caliconetworkpolicy" in resources
    assert kubectl("get", "felixconfig").returncode == 0
    assert "/apis/projectcalico.org/v3/ippools" in kubectl("get", "ippools", "-v=6").stderr
    assert "cidr\t<string> -required-" in kubectl("explain", "ippool.spec").stdout


def test_kinds_that_the_lab_lacks_stop_no_command_that_only_lists_them(kubectl: Kubectl) -> None:
    everything = kubectl("get", "all")
    assert (everything.returncode, everything.stderr) == (0, ""), everything.stderr
    dump = kubectl("cluster-info", "dump", "--namespaces=default")
    assert (dump.returncode, '"kind": "PodList"' in dump.stdout) == (0, True), dump.stderr
    for kind in ("jobs", "cronjobs", "sts", "rc", "hpa", "ingress"):
        assert "No resources found" in kubectl("get", kind).stderr, kind


@pytest.mark.parametrize(("words", "name"), [
    (("create", "job", "j", "--image=busybox"), "jobs.batch"),
    (("create", "cronjob", "c", "--image=busybox", "--schedule=* * * * *"), "cronjobs.batch"),
    (("create", "ingress", "i", "--rule=foo.com/bar=svc1:8080"), "ingresses.networking.k8s.io"),
    (("create", "quota", "q", "--hard=pods=2"), "resourcequotas"),
    (("create", "priorityclass", "p", "--value=2"), "priorityclasses.scheduling.k8s.io"),
])  # fmt: skip
def test_kinds_that_the_lab_lacks_are_refused_by_name(
    kubectl: Kubectl, words: tuple[str, ...], name: str
) -> None:
    refused = kubectl(*words)
    assert (refused.returncode, f"not emulated: {name}" in refused.stderr) == (1, True), (
        refused.stderr
    )


def test_the_roles_of_manifests_are_checked_as_their_users(kubectl: Kubectl) -> None:
    for name in ("read-only", "standard"):
        assert kubectl("apply", "-f", str(MANIFESTS / f"{name}.yaml")).returncode == 0
        role = f"--clusterrole=calico-conformance-{name}"
        assert kubectl("create", "clusterrolebinding", name, role, f"--user={name}").returncode == 0
    asked = (
        ("list", "nodes"),
        ("create", "namespaces"),
        ("create", "pods/exec"),
        ("delete", "nodes"),
    )
    answers = {
        name: [kubectl("auth", "can-i", *words, f"--as={name}").stdout.strip() for words in asked]
        for name in ("read-only", "standard", "nobody")
    }
    assert answers == {
        "read-only": ["yes", "no", "no", "no"],
        "standard": ["yes", "yes", "yes", "no"],
        "nobody": ["no", "no", "no", "no"],
    }


def test_rights_are_checked_as_somebody_else(kubectl: Kubectl) -> None:
    assert (
        kubectl(
            "create", "rolebinding", "v", "--clusterrole=view", "--serviceaccount=default:robot"
        ).returncode
        == 0
    )
    account = "--as=system:serviceaccount:default:robot"
    assert kubectl("auth", "can-i", "list", "pods", account).stdout == "yes\n"
    assert kubectl("auth", "can-i", "delete", "pods", account).stdout == "no\n"
    assert (
        'User "bob" cannot list'
        in kubectl("get", "pods", "--as=bob", "--as-group=devs", "--as-uid=u1").stderr
    )
    who = kubectl("auth", "whoami", "--as=bob", "--as-group=devs", "--as-uid=u1")
    assert "selfsubjectreviews" in who.stderr or "devs" in who.stdout
