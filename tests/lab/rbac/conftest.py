# SPDX-License-Identifier: Apache-2.0
"""A lab with one ServiceAccount per role of manifests/rbac, and runs of the suite as each of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from conformance.kube.access import from_kubeconfig
from conformance.kube.client import Kube
from conformance.pods.roles import MANIFESTS
from tests.lab.lab_process import RunningLab, running_lab
from tests.reliability import snapshot
from tests.reliability.snapshot import Snapshot

ROOT = Path(__file__).parents[3]
RUN_WITHIN = 300.0
"""s. A limit that only a hanging run exceeds."""
AsRole = Callable[[str], Path]
"""Returns the kubeconfig of a role's ServiceAccount."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "slow" in str(config.getoption("-m")):
        return
    left_out = [item for item in items if item.get_closest_marker("slow")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@dataclass(frozen=True)
class Run:
    """The end of one run of the suite."""

    code: int
    output: str
    report: dict[str, Any]
    folder: Path

    def verdicts(self) -> dict[str, tuple[str, str]]:
        """Map each claim that has a test to its verdict and reason."""
        return {
            claim["id"]: (claim["verdict"], claim["reason"])
            for claim in self.report["claims"]
            if claim["results"]
        }


IMPATIENT = ROOT / "tests" / "reliability" / "timings.yaml"


def command(
    kubeconfig: Path, folder: Path, *arguments: str, timings: Path | None = IMPATIENT
) -> list[str]:
    """Return the command ``pytest --kubeconfig=...``; without ``timings``, with the judge's own
    patience."""
    return [
        sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", f"--kubeconfig={kubeconfig}",
        *([f"--timings={timings}"] if timings else []), f"--report-dir={folder}", *arguments,
    ]  # fmt: skip


def environment() -> dict[str, str]:
    """Return this process's environment without the variables of the pytest that runs this test."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST_", "COV_"))
    }
    return {**kept, "PYTHONPATH": str(ROOT / "lib")}


def run_pytest(
    kubeconfig: Path,
    folder: Path,
    *arguments: str,
    timings: Path | None = IMPATIENT,
    within: float = RUN_WITHIN,
) -> subprocess.CompletedProcess[str]:
    """Run pytest to its end."""
    return subprocess.run(
        command(kubeconfig, folder, *arguments, timings=timings), cwd=ROOT, env=environment(),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=within, check=False,
    )  # fmt: skip


def run_suite(
    kubeconfig: Path,
    folder: Path,
    *arguments: str,
    timings: Path | None = IMPATIENT,
    within: float = RUN_WITHIN,
) -> Run:
    """Run the suite. Raise RuntimeError if it leaves no report."""
    done = run_pytest(kubeconfig, folder, *arguments, timings=timings, within=within)
    output = done.stdout + done.stderr
    report = folder / "latest" / "conformance.json"
    if not report.exists():
        raise RuntimeError(
            f"the run ended with exit code {done.returncode} and left no report:\n{output}"
        )
    return Run(
        done.returncode, output, json.loads(report.read_text()), (folder / "latest").resolve()
    )


@pytest.fixture(scope="module")
def lab(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningLab]:
    """Run a lab with the options in the test file's ``LAB``."""
    with running_lab(tmp_path_factory.mktemp("lab"), *getattr(request.module, "LAB", ())) as one:
        one.kubectl("apply", "-f", str(MANIFESTS / "rbac"))
        for role in ("read-only", "standard", "disruptive"):
            one.kubectl("create", "serviceaccount", role, "-n", "calico-conformance")
            one.kubectl(
                "create", "clusterrolebinding", role, f"--clusterrole=calico-conformance-{role}",
                f"--serviceaccount=calico-conformance:{role}",
            )  # fmt: skip
        # the rights that `calico-conformance kubeconfig` grants
        for beside in ("pools", "node-status"):
            one.kubectl(
                "create", "clusterrolebinding", f"disruptive-{beside}",
                f"--clusterrole=calico-conformance-{beside}",
                "--serviceaccount=calico-conformance:disruptive",
            )  # fmt: skip
        one.kubectl(
            "create", "rolebinding", "disruptive", "--role=calico-conformance-disruptive",
            "--serviceaccount=calico-conformance:disruptive", "-n", "calico-conformance-system",
        )  # fmt: skip
        yield one


@pytest.fixture(scope="module")
def as_role(lab: RunningLab, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that writes the kubeconfig of a role's ServiceAccount."""

    def kubeconfig(role: str) -> Path:
        content = yaml.safe_load(lab.kubeconfig.read_text())
        token = lab.kubectl(
            "create", "token", role, "-n", "calico-conformance", "--duration=1h"
        ).stdout.strip()
        content["users"] = [
            {"name": user["name"], "user": {"token": token}} for user in content["users"]
        ]
        path = tmp_path_factory.mktemp(role) / "kubeconfig"
        path.write_text(yaml.safe_dump(content))
        return path

    return kubeconfig


@pytest.fixture(scope="module")
def kube(lab: RunningLab) -> Iterator[Kube]:
    client = Kube(from_kubeconfig(lab.kubeconfig))
    yield client
    client.close()


@pytest.fixture(scope="module")
def before(kube: Kube) -> Snapshot:
    """Return the state of the cluster before any run."""
    return snapshot.take(kube)
