# SPDX-License-Identifier: Apache-2.0
"""On a lab whose nodes pull only from a mirror, a run needs no other images than the listed
ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.lab_process import RunningLab, running_lab
from tests.lab.rbac.conftest import environment

pytestmark = [pytest.mark.whole_run, pytest.mark.xdist_group("mirror")]
MIRROR = "registry.example/mirror"
OF_PODS = ("busybox", "nginx", "python", "servercore", "host process base image")
"""The suite's images; those of the cluster's own pods are on the nodes."""
KNOWS_ONLY_THE_MIRROR = f"""
from dataclasses import replace
from hybridlab.runtime import images
every = images.table

def mirrored(image):
    ends = [f"{MIRROR}/{{path}}{{end}}" for end in image.repositories
            for path in ("", "library/", "oss/kubernetes/")]
    return replace(image, repositories=tuple(ends)) if image.name in {OF_PODS} else image

images.table = lambda: tuple(map(mirrored, every()))
"""
"""Read by each Python process of the lab as it starts (``sitecustomize``)."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    folder = tmp_path_factory.mktemp("lab")
    (folder / "sitecustomize.py").write_text(KNOWS_ONLY_THE_MIRROR)
    path = f"{folder}{os.pathsep}{environment()['PYTHONPATH']}"
    with running_lab(folder, environment={**environment(), "PYTHONPATH": path}) as one:
        yield one


def suite(lab: RunningLab, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q"]
    return subprocess.run(
        [*program, f"--kubeconfig={lab.kubeconfig}", f"--image-registry={MIRROR}", *arguments],
        env=environment(), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def test_a_first_look_pulls_only_what_the_list_names(lab: RunningLab, tmp_path: Path) -> None:
    listed = suite(lab, "--list-images")
    assert listed.returncode == 0, listed.stderr
    ours = {line.split()[1] for line in listed.stdout.splitlines() if line[:1] != "#"}
    assert all(image.startswith(f"{MIRROR}/") for image in ours)
    done = suite(lab, "--smoke", "-n", "0", f"--report-dir={tmp_path}")
    assert done.returncode == 0, done.stdout
    (report,) = tmp_path.glob("20*/conformance.json")
    ran = {image["image"] for image in json.loads(report.read_text())["images"]}
    assert ran
    assert ran <= ours


def test_this_lab_pulls_nothing_else(lab: RunningLab) -> None:
    lab.kubectl("run", "direct", "--image=busybox:1.37.0", "--restart=Never")
    reason = "jsonpath={.status.containerStatuses[0].state.waiting.reason}"
    waiting = ("wait", "pod/direct", "--timeout=60s", f"--for={reason}=ErrImagePull")
    waits = lab.kubectl(*waiting, check=False)
    seen = lab.kubectl("get", "pod", "direct", "-o", reason).stdout
    lab.kubectl("delete", "pod", "direct", "--wait=false")
    assert seen in ("ErrImagePull", "ImagePullBackOff"), waits.stderr
