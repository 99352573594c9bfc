# SPDX-License-Identifier: Apache-2.0
"""A run, a gate and a restore over an unverified connection: each says so, in one line."""

from __future__ import annotations

import fcntl
import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from conformance.journal import Journal, Journalled, liveness
from conformance.kube.access import from_kubeconfig
from conformance.kube.changes import Changes
from conformance.kube.client import Kube
from conformance.kube.ownership import Ownership
from conformance.model.change import ObjectRef
from tests.lab.lab_process import RunningLab, running_lab
from tests.lab.lifecycle.test_hostile_cluster import run

pytestmark = [pytest.mark.whole_run, pytest.mark.xdist_group("unverified")]
FELIX = ObjectRef(api_version="projectcalico.org/v3", kind="FelixConfiguration", name="default")
WORDS = "the certificate of {server} is not verified (insecure-skip-tls-verify)"
ACCEPT = "--accept-unverified-tls"


@dataclass
class Unverified:
    """A lab, a kubeconfig of it that verifies nothing, and a run by it."""

    lab: RunningLab
    kubeconfig: Path
    reports: Path
    done: subprocess.CompletedProcess[str]

    @property
    def warning(self) -> str:
        cluster = yaml.safe_load(self.kubeconfig.read_text())["clusters"][0]["cluster"]
        return WORDS.format(server=cluster["server"])

    def warned_once(self, done: subprocess.CompletedProcess[str]) -> None:
        """The whole output holds exactly one line about the connection, and none of urllib3's."""
        lines = (done.stdout + done.stderr).splitlines()
        about = ("verif", "insecure", "Insecure", "https request")
        assert [line for line in lines if any(word in line for word in about)] == [
            f"note: {self.warning}"
        ]


def insecure(kubeconfig: Path, to: Path) -> Path:
    whole = yaml.safe_load(kubeconfig.read_text())
    for cluster in whole["clusters"]:
        del cluster["cluster"]["certificate-authority-data"]
        cluster["cluster"]["insecure-skip-tls-verify"] = True
    to.write_text(yaml.safe_dump(whole))
    return to


@pytest.fixture(scope="module")
def unverified(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Unverified]:
    folder = tmp_path_factory.mktemp("lane")
    with running_lab(folder, "--profile", "small") as lab:
        kubeconfig = insecure(lab.kubeconfig, folder / "lane.yaml")
        reports = folder / "reports"
        done = run(
            "pytest", "--claim", "DEMO-2", "-p", "no:cacheprovider", "-n", "2",
            f"--kubeconfig={kubeconfig}", f"--report-dir={reports}",
        )  # fmt: skip
        yield Unverified(lab, kubeconfig, reports, done)


def test_a_run_says_so_once_in_its_output_and_in_its_reports(unverified: Unverified) -> None:
    done = unverified.done
    assert done.returncode == 0, done.stdout + done.stderr
    unverified.warned_once(done)
    folder = (unverified.reports / "latest").resolve()
    stored = json.loads((folder / "conformance.json").read_text())
    assert stored["run"]["unverified"] == unverified.warning
    page = (folder / "report.html").read_text()
    assert "the certificate of (removed) is not verified (insecure-skip-tls-verify)" in page
    for form in ("text", "markdown"):
        shown = run("conformance.cli", "show", str(folder), "--format", form)
        assert shown.returncode == 0, shown.stderr
        assert shown.stdout.count(unverified.warning) == 1, form


def test_a_gate_refuses_what_it_found_unless_that_is_accepted(unverified: Unverified) -> None:
    gate = ("conformance.cli", "gate", str(unverified.reports / "latest"), "--require", "core")
    refused, accepted = run(*gate), run(*gate, ACCEPT)
    assert refused.returncode == accepted.returncode == 6  # of one claim alone
    assert f"the run unverified: {unverified.warning}; {ACCEPT} accepts it" in refused.stdout
    assert "the run unverified" not in accepted.stdout
    assert ", over an unverified connection" in accepted.stdout


def test_a_run_that_has_to_qualify_does_not_begin_unless_that_is_accepted(
    unverified: Unverified,
) -> None:
    done = run(
        "pytest", "--claim", "DEMO-2", "-p", "no:cacheprovider", "--require", "core",
        f"--kubeconfig={unverified.kubeconfig}", f"--report-dir={unverified.reports}",
    )  # fmt: skip
    assert done.returncode == 4
    problem = (
        f"--require: {unverified.warning}, and a gate depends on the API server's answers: add "
        f"{ACCEPT}"
    )
    assert (done.stdout + done.stderr).count(problem) == 1


def test_a_restore_restores_and_says_so_once(unverified: Unverified, tmp_path: Path) -> None:
    alive = tmp_path / "calico-conformance-dead1" / "alive"
    alive.parent.mkdir()
    alive.touch()
    dead = Ownership("dead1", "main", liveness.sign(alive))
    kube = Kube(from_kubeconfig(unverified.lab.kubeconfig))
    change = Journalled(Changes(kube, dead), Journal(kube, dead, within=5.0), {}, lambda: None)
    with alive.open() as held:
        fcntl.flock(held, fcntl.LOCK_SH)
        change.patch(FELIX, {"spec": {"vxlanVNI": 4097}}, "a test")
    done = run(
        "pytest", "--restore", "-p", "no:cacheprovider", f"--kubeconfig={unverified.kubeconfig}"
    )
    vni = kube.get(FELIX.api_version, FELIX.kind, FELIX.name)["spec"]["vxlanVNI"]
    kube.close()
    assert (done.returncode, vni) == (0, 4096), done.stdout + done.stderr
    unverified.warned_once(done)
    assert "restored: " in done.stdout
