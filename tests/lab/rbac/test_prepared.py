# SPDX-License-Identifier: Apache-2.0
"""A run in prepared namespaces, with the rights of its own role, leaves nothing in them.

A namespace that is not prepared, or not empty, is refused in one line before anything is touched.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from conformance.kube.access import from_kubeconfig
from conformance.kube.client import Kube
from conformance.kube.prepared import needed, objects_of
from conformance.kube.rights import Right, missing
from conformance.pods.roles import MANIFESTS
from tests.lab.lab_process import RunningLab
from tests.lab.rbac.conftest import ROOT, command, environment, run_pytest, run_suite

pytestmark = [pytest.mark.xdist_group("rbac-prepared"), pytest.mark.whole_run]

PREFIX = "team-a"
FIRST = f"{PREFIX}-gw0"
OPTION = f"--namespaces-prefix={PREFIX}"
SPACES = needed(PREFIX, 2)
ELSEWHERE = ("kube-system", "default", "calico-conformance-system", "team-b-gw0")
STARTED_WITHIN = 60.0
"""Seconds; only a run that hangs is caught."""


@pytest.fixture(scope="module")
def lane(lab: RunningLab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kubeconfig of the user that the owner's command makes, for two workers."""
    path = tmp_path_factory.mktemp("lane") / "lane.yaml"
    lab.kubectl("create", "namespace", "team-b-gw0")
    done = subprocess.run(
        [sys.executable, "-m", "conformance.cli", "kubeconfig", f"--kubeconfig={lab.kubeconfig}", OPTION],
        env=environment(), capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    path.write_text(done.stdout)
    return path


def in_namespaces(kube: Kube) -> dict[str, list[str]]:
    """Return the objects that a run has made in each of the prefix's namespaces, without namespaces
    that are gone."""
    there = {
        obj["metadata"]["name"]: obj["metadata"]["uid"] for obj in kube.objects("v1", "Namespace")
    }
    return {f"{name} {there[name]}": [f"{obj['kind']} {obj['metadata']['name']}" for obj in objects_of(kube, [name])]
            for name in SPACES if name in there}  # fmt: skip


def test_the_printed_manifest_is_what_the_command_makes(lab: RunningLab, lane: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "conformance.cli", "namespaces", PREFIX],
        env=environment(), capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    applied = lab.kubectl("apply", "--dry-run=server", "-f", "-", stdin=done.stdout).stdout
    assert "created" not in applied, applied
    assert applied.count("namespace/team-a-") == len(SPACES) == 13


def test_its_user_may_work_in_its_namespaces_and_only_read_beyond(lane: Path) -> None:
    (role,) = yaml.safe_load_all((MANIFESTS / "rbac" / "prepared.yaml").read_text())
    rights = [Right(verb, resource, group) for rule in role["rules"] for group in rule["apiGroups"]
              for resource in rule["resources"] for verb in rule["verbs"]]  # fmt: skip
    writing = [
        right
        for right in rights
        if right.verb not in ("get", "list", "watch") or right.resource == "pods/exec"
    ]
    kube = Kube(from_kubeconfig(lane))
    inside = [Right(one.verb, one.resource, one.group, name) for name in SPACES for one in rights]
    assert [right.label for right in missing(kube, inside)] == []
    beyond = [
        Right(one.verb, one.resource, one.group, name)
        for name in (*ELSEWHERE, None)
        for one in writing
    ]
    assert [right.label for right in beyond if right not in missing(kube, beyond)] == []
    never = [
        *(Right(verb, "namespaces", namespace=name) for verb in ("patch", "delete") for name in (FIRST, None)),
        Right("create", "namespaces"),
        *(Right(verb, "secrets", namespace=name) for verb in ("get", "create", "patch") for name in (FIRST, None)),
        *(Right("create", kind, "projectcalico.org") for kind in ("globalnetworkpolicies", "tiers", "ippools")),
        Right("patch", "nodes"), Right("create", "leases", "coordination.k8s.io", "calico-conformance-system"),
        Right("create", "rolebindings", "rbac.authorization.k8s.io", FIRST),
        Right("get", "pods/exec", namespace="calico-system"),
        Right("create", "pods/eviction", namespace=FIRST),
    ]  # fmt: skip
    assert [right.label for right in never if right not in missing(kube, never)] == []
    kube.close()


def test_a_smoke_run_confirms_and_leaves_the_namespaces_as_they_were(
    lane: Path, kube: Kube, tmp_path: Path
) -> None:
    before = in_namespaces(kube)
    run = run_suite(lane, tmp_path, OPTION, "--smoke", "-n", "2")
    assert run.code == 0, run.output
    assert {verdict for verdict, _ in run.verdicts().values()} == {"CONFIRMED"}, run.output
    assert in_namespaces(kube) == before == {space: [] for space in before}
    assert len(before) == 13
    assert [
        name
        for obj in kube.objects("v1", "Namespace")
        if (name := obj["metadata"]["name"]).startswith("calico-demo")
    ] == []


def test_the_field_guide_lists_the_claims_that_are_not_run(lane: Path, tmp_path: Path) -> None:
    plan = run_pytest(lane, tmp_path, OPTION, "--plan")
    planned = re.findall(
        r"^  ([A-Z]+-\d+) +NOT_RUN .*run it without --namespaces-prefix", plan.stdout, re.MULTILINE
    )
    guide = (ROOT / "docs" / "field-guide.md").read_text()
    listed = (
        guide.partition("### In namespaces that the owner has prepared")[2]
        .partition(" claims are NOT_RUN, each with its reason in `--plan`:\n")[2]
        .partition("\n\n")[0]
        .split("\n- ")
    )
    whole = [re.findall(r"\b[A-Z]+-\d+\b", bullet.partition("parts of")[0]) for bullet in listed]
    assert sorted(planned) == sorted(claim for claims in whole for claim in claims), plan.stdout


def test_what_is_not_run_is_planned_and_ends_so(lane: Path, kube: Kube, tmp_path: Path) -> None:
    """Tests of policies, of the demo's end, of paths from nodes and of worlds run if they can, and
    the others state the reason."""
    chosen = (
        "--claim=DEMO-6",
        "--claim=DEMO-8",
        "--claim=XPOL-17",
        "--claim=CONN-1",
        "--claim=CONN-4",
        "--claim=RST-3",
        "--claim=XSVC-8",
    )
    plan = run_pytest(lane, tmp_path / "plan", OPTION, "--plan", *chosen)
    planned = dict(re.findall(r"^  ([A-Z]+-\d+) +(runs|NOT_RUN) ", plan.stdout, re.MULTILINE))
    reasons = {
        "DEMO-8": "it labels or deletes a namespace", "XPOL-17": "it makes a policy or a tier of the whole cluster",
        "CONN-1": "it needs a pod in a node's network", "RST-3": "it changes more than what is in the prepared",
        "XSVC-8": "endpointslices",
    }  # fmt: skip
    assert planned == {"DEMO-6": "runs", "CONN-4": "runs"} | dict.fromkeys(reasons, "NOT_RUN"), (
        plan.stdout
    )
    run = run_suite(lane, tmp_path / "run", OPTION, *chosen, "-n", "2")
    verdicts = run.verdicts()
    assert {claim: verdict for claim, (verdict, _) in verdicts.items()} == {
        "DEMO-6": "CONFIRMED", "CONN-4": "CONFIRMED", **dict.fromkeys(reasons, "NOT_RUN"),
    }, run.output  # fmt: skip
    assert [claim for claim, why in reasons.items() if why not in verdicts[claim][1]] == []
    assert set(map(str, in_namespaces(kube).values())) == {"[]"}


def foreign_pod(lab: RunningLab) -> Callable[[], object]:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "theirs", "namespace": "team-a-gw1-world-b"},
           "spec": {"containers": [{"name": "c", "image": "registry.k8s.io/pause:3.10"}]}}  # fmt: skip
    lab.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(pod))
    return lambda: lab.kubectl(
        "delete", "pod", "theirs", "-n", "team-a-gw1-world-b", "--grace-period=0", "--force"
    )


def no_label(lab: RunningLab) -> Callable[[], object]:
    lab.kubectl("label", "namespace", "team-a-gw0-elsewhere", "conformance/team-")
    return lambda: lab.kubectl(
        "label", "namespace", "team-a-gw0-elsewhere", "conformance/team=elsewhere"
    )


def untouched(lab: RunningLab) -> Callable[[], object]:
    return lambda: None


@pytest.mark.parametrize(
    ("wrong", "options", "code", "says"),
    [
        (foreign_pod, (OPTION,), 7, "namespace team-a-gw1-world-b is not empty: pod theirs does not belong to the suite"),
        (no_label, (OPTION,), 7, "namespace team-a-gw0-elsewhere lacks the label conformance/team=elsewhere"),
        (untouched, ("--namespaces-prefix=team-c",), 7, "namespace team-c-watch does not exist (and 7 more); make them:"),
        (untouched, (OPTION, "-n", "3"), 4, "-n 3: namespaces team-a-... are prepared for 2 workers; run with -n 2"),
        (untouched, ("--namespaces-prefix=Team_A",), 4, "expected at most 40 lower-case letters, digits and hyphens"),
        (untouched, ("--namespaces-prefix=calico-demo",), 4, "is reserved for namespaces that runs create"),
        (untouched, (OPTION, "--allow-disruptive"), 4, "--allow-disruptive and --namespaces-prefix contradict"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_refused_in_a_line(
    *,
    lab: RunningLab,
    lane: Path,
    tmp_path: Path,
    wrong: Callable[[RunningLab], Callable[[], object]],
    options: tuple[str, ...],
    code: int,
    says: str,
) -> None:
    right = wrong(lab)
    try:
        done = run_pytest(lane, tmp_path, "--smoke", *options)
    finally:
        right()
    lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR: ")]
    assert (done.returncode, len(lines)) == (code, 1), done.stdout + done.stderr
    assert says in lines[0]


def test_what_a_killed_run_left_is_named_and_removed_and_namespaces_stay(
    lane: Path, kube: Kube, tmp_path: Path
) -> None:
    before = list(in_namespaces(kube))
    with (tmp_path / "killed.log").open("wb") as log:
        run = subprocess.Popen(
            command(lane, tmp_path, OPTION, "--smoke", "-n", "0"), cwd=ROOT, env=environment(),
            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    deadline = time.monotonic() + STARTED_WITHIN
    while (
        not list(objects_of(kube, ["team-a-gw0"], kinds=[("v1", "Pod")]))
        and time.monotonic() < deadline
    ):
        time.sleep(0.1)
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    assert any("Deployment" in str(made) for made in in_namespaces(kube).values())
    refused = run_pytest(lane, tmp_path / "next", OPTION, "--smoke", "-n", "0")
    assert refused.returncode == 7, refused.stdout + refused.stderr
    assert "pytest --restore --namespaces-prefix=team-a" in refused.stderr
    done = run_pytest(lane, tmp_path / "restore", OPTION, "--restore")
    assert done.returncode == 0, done.stdout + done.stderr
    assert in_namespaces(kube) == {space: [] for space in before}
