# SPDX-License-Identifier: Apache-2.0
"""The Job runs once, does no harm to its namespace, and includes the user's files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from conformance.cli import main
from conformance.errors import UsageProblem
from conformance.facts import own_pod
from conformance.jobs import objects
from conformance.kube import runner
from conformance.plugin import options
from conformance.settings import Settings

IMAGE = "registry.example/suite:1"


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, list[dict[str, Any]]]:
    assert main(["job", f"--image={IMAGE}", *words]) == 0
    text = capsys.readouterr().out
    assert "&id" not in text, "no anchors, which some readers of YAML do not know"
    found: dict[str, list[dict[str, Any]]] = {}
    for obj in yaml.safe_load_all(text):
        found.setdefault(obj["kind"], []).append(obj)
    return found


def pod(found: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    (job,) = found["Job"]
    spec: dict[str, Any] = job["spec"]["template"]["spec"]
    return spec


def test_no_exit_code_of_the_judge_makes_kubernetes_start_another_pod(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (job,) = printed(capsys)["Job"]
    spec = job["spec"]
    assert spec["backoffLimit"] == 0
    assert {"completions", "parallelism"}.isdisjoint(spec)
    (rule,) = spec["podFailurePolicy"]["rules"]
    assert rule["action"] == "FailJob"
    on = rule["onExitCodes"]
    assert (on["containerName"], on["operator"], on["values"]) == ("judge", "NotIn", [0])
    template = spec["template"]["spec"]
    assert template["restartPolicy"] == "Never"
    assert template["terminationGracePeriodSeconds"] == 600
    assert template["shareProcessNamespace"] is True, "process 1 ignores an early SIGTERM"
    assert not [c["name"] for c in template["containers"] if "livenessProbe" in c]


def test_the_pod_is_what_restricted_namespaces_allow(capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(capsys)
    labels = found["Namespace"][0]["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    spec = pod(found)
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert {"hostNetwork", "hostPID", "hostIPC"}.isdisjoint(spec)
    assert {next(iter(set(v) - {"name"})) for v in spec["volumes"]} == {"emptyDir"}
    for container in spec["containers"]:
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert context["readOnlyRootFilesystem"] is True


@pytest.mark.parametrize("role", runner.ROLES)
def test_its_user_has_the_existing_roles_and_no_other(
    capsys: pytest.CaptureFixture[str], role: str
) -> None:
    found = printed(capsys, "--role", role)
    account, made = runner.user_of(role, ())
    assert pod(found)["serviceAccountName"] == account
    bound = {obj["roleRef"]["name"] for obj in found["ClusterRoleBinding"]}
    assert bound == {obj["roleRef"]["name"] for obj in made if obj["kind"] == "ClusterRoleBinding"}
    assert f"calico-conformance-{role}" in bound


def test_the_pod_says_where_it_is_as_the_run_reads_it(capsys: pytest.CaptureFixture[str]) -> None:
    judge, holder = pod(printed(capsys))["containers"]
    fields = {
        entry["name"]: entry["valueFrom"]["fieldRef"]["fieldPath"]
        for entry in judge["env"]
        if "valueFrom" in entry
    }
    assert fields[own_pod.NODE] == "spec.nodeName"
    assert fields[own_pod.ADDRESS] == "status.podIP"
    values = {entry["name"]: entry.get("value") for entry in judge["env"]}
    assert options.clearing_up({options.GRACE: str(values[options.GRACE])}) == 570.0
    assert holder["args"] == ["hold", "/results/$(POD_NAME)"]


def test_options_of_the_run_follow_the_jobs_own(capsys: pytest.CaptureFixture[str]) -> None:
    judge, _ = pod(printed(capsys, "--", "--smoke", "-k", "a $(B)"))["containers"]
    assert judge["args"][:3] == [
        "run", "--cluster=in-cluster", "--report-dir=/results/$(POD_NAME)",
    ]  # fmt: skip
    assert judge["args"][-3:] == ["--smoke", "-k", "a $$(B)"], "kubelets would expand $(B)"


def test_files_of_options_are_taken_along(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "i.yaml").write_text("a: {tag: b}\n")
    (tmp_path / "w.yaml").write_text("[]\n")
    words = [f"--images={tmp_path / 'i.yaml'}", "--waivers", str(tmp_path / "w.yaml")]
    found = printed(capsys, "--", *words)
    (files,) = found["ConfigMap"]
    assert files["data"] == {"images.yaml": "a: {tag: b}\n", "waivers.yaml": "[]\n"}
    judge = pod(found)["containers"][0]
    assert judge["args"][-2:] == ["--images=/config/images.yaml", "--waivers=/config/waivers.yaml"]
    mounts = {mount["mountPath"]: mount for mount in judge["volumeMounts"]}
    assert mounts["/config"]["readOnly"] is True


@pytest.mark.parametrize("option", objects.WITH_FILES)
def test_every_option_that_names_a_file_is_one_of_the_suite(option: str) -> None:
    assert option in options.WITH_PATHS


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--", "--kubeconfig=x"], "--kubeconfig: the Job sets this option"),
        (["--", "--images=/nowhere"], "--images=/nowhere: No such file or directory"),
        (["--", "--images"], "--images=.: Is a directory"),
        (["--name=Upper"], "--name Upper: expected lower-case letters"),
        (["--name=-x"], "--name -x: expected lower-case letters"),
        (["--namespaces-prefix=p", "--role=standard"], "--namespaces-prefix has a role of its own"),
        (["--rol=standard"], "unrecognized arguments: --rol=standard"),
    ],
)
def test_what_cannot_be_meant_is_one_line_and_prints_nothing(
    capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert main(["job", f"--image={IMAGE}", *words]) == 4
    out, error = capsys.readouterr()
    assert out == ""
    assert said in error
    assert error.count("\n") == 1


def test_more_than_a_configmap_holds_is_refused(tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text("x" * (objects.MOST + 1))
    with pytest.raises(UsageProblem, match=r"baseline.json: 900001 bytes"):
        objects.taken_along([f"--baseline={tmp_path / 'b.json'}"])


def test_a_volume_a_node_and_a_secret_are_the_pods(capsys: pytest.CaptureFixture[str]) -> None:
    spec = pod(printed(capsys, "--volume=v", "--node=n-1", "--image-pull-secret=s"))
    assert spec["volumes"][0] == {
        "name": "results",
        "persistentVolumeClaim": {"claimName": "v"},
    }
    terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (by_name,) = terms["nodeSelectorTerms"][0]["matchFields"]
    assert by_name["values"] == ["n-1"]
    assert spec["imagePullSecrets"] == [{"name": "s"}]


def test_a_name_that_kubectl_would_take_for_a_boolean_is_quoted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["job", f"--image={IMAGE}", "--node=n", "--volume=Y", "--name=yes"]) == 0
    out = capsys.readouterr().out
    assert "- 'n'\n" in out
    assert "claimName: 'Y'\n" in out
    assert "name: 'yes'\n" in out


def test_a_run_in_prepared_namespaces_has_their_user_and_says_their_prefix(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = printed(capsys, "--namespaces-prefix=lane")
    assert pod(found)["serviceAccountName"] == "runner-lane"
    assert "--namespaces-prefix=lane" in pod(found)["containers"][0]["args"]
    enforced = {
        obj["metadata"]["name"]: obj["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
        for obj in found["Namespace"]
    }
    assert enforced.pop("calico-conformance") == "restricted"
    assert set(enforced.values()) == {"baseline"}


@pytest.mark.parametrize(
    ("grace", "seconds"), [("", Settings.clearing_up), ("600", 570.0), ("30", 20.0)]
)
def test_what_is_put_back_after_an_interruption_has_the_pods_time(
    grace: str, seconds: float
) -> None:
    assert options.clearing_up({options.GRACE: grace}) == seconds
    with pytest.raises(UsageProblem, match="CALICO_CONFORMANCE_GRACE=soon: expected seconds"):
        options.clearing_up({options.GRACE: "soon"})
