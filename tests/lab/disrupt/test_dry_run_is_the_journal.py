# SPDX-License-Identifier: Apache-2.0
"""A dry run of the disruptive tests describes, in order, what a real run of them journals."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.journal.staying import described
from conformance.journal.store import JOURNAL_LABEL, entries_of
from conformance.kube.access import from_kubeconfig
from conformance.kube.client import Kube
from conformance.kube.ownership import SYSTEM_NAMESPACE
from conformance.kube.refused import ApiUnreachable
from conformance.kube.waits import Waits
from tests.lab.lab_process import RunningLab, running_lab
from tests.reliability.hit_run import TIMINGS

pytestmark = [pytest.mark.xdist_group("dry-run-journal"), pytest.mark.whole_run]
ROOT = Path(__file__).parents[3]
WITHIN = 540.0
"""s.  Only a run that hangs takes so long."""
CLAIMS = (
    "RST-3",
    "XOP-3",
    "VXLAN-9",
    "VXLAN-10",
    "XPOL-10",
    "XPOL-18",
    "XPOL-19",
    "XPOL-22",
)
"""Those whose tests have the cluster, or nodes, to themselves.  XPOL-10 changes nothing beyond the
run's namespaces."""
PODS_SUFFIX = re.compile(r"(Pod [a-z0-9-]+/[a-z-]+)-[a-z0-9]{5} ")
RUN = re.compile(r"\b[0-9a-f]{6}\b")
FIELD = re.compile(r"(\.spec\.\w+) \S+ -> ")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    with running_lab(tmp_path_factory.mktemp("lab"), "--profile", "small") as one:
        yield one


def run(lab: RunningLab, reports: Path, *more: str) -> str:
    kept = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "KUBE"))
    }
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *more]
    command += [f"--kubeconfig={lab.kubeconfig}", "--allow-cluster-disruptive"]
    command += [f"--timings={TIMINGS}", f"--report-dir={reports}", "-k", " or ".join(CLAIMS)]
    done = subprocess.run(
        [*command, "suites"],
        cwd=ROOT,
        env=kept,
        capture_output=True,
        text=True,
        timeout=WITHIN,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Journals(threading.Thread):
    """Keeps every journal entry of a lab as it was written first, before its change."""

    def __init__(self, lab: RunningLab) -> None:
        super().__init__(daemon=True)
        self.entries: dict[str, str] = {}
        self._kube = Kube(from_kubeconfig(lab.kubeconfig))
        self._over = False

    def run(self) -> None:
        try:
            self._follow()
        except ApiUnreachable:
            if not self._over:  # else the lab has ended, and the watch with it
                raise

    def _follow(self) -> None:
        labels = f"{JOURNAL_LABEL}=true"
        for found in Waits(self._kube).states(
            "v1", "ConfigMap", SYSTEM_NAMESPACE, labels=labels, within=WITHIN
        ):
            for journal in found.values():
                for entry in entries_of(journal):
                    self.entries.setdefault(entry.key, described(entry))
            if self._over:
                return

    def described(self) -> list[str]:
        """What was journalled, oldest first."""
        self._over = True
        self._kube.close()
        return [text for _, text in sorted(self.entries.items())]


def alike(texts: list[str]) -> list[str]:
    """The same without the run's id, the part of pods' names that is made up, and what was in a
    field that the run itself had changed: a dry run finds the cluster's own value there."""
    known: set[str] = set()
    found = []
    for text in texts:
        plain = RUN.sub("RUN", PODS_SUFFIX.sub(r"\1-* ", text))
        fields = FIELD.findall(plain)
        again = [name for name in fields if (plain.partition(":")[0] + name) in known]
        found.append(FIELD.sub(r"\1 -> ", plain) if again else plain)
        known.update(plain.partition(":")[0] + name for name in fields)
    return found


def test_what_a_dry_run_describes_is_journalled_by_the_real_run(
    lab: RunningLab, tmp_path: Path
) -> None:
    dry = run(lab, tmp_path / "dry", "--dry-run")
    would = re.findall(r"^  journal: (.*)$", dry, re.MULTILINE)
    journals = Journals(lab)
    journals.start()
    run(lab, tmp_path / "real")
    assert alike(journals.described()) == alike(would)
    acts = {" ".join(text.split()[:2]) for text in would}
    assert {
        "procedure hns-network",
        "patch FelixConfiguration",
        "patch Node",
        "procedure felix-restart",
        "delete-owned-pod Pod",
        "procedure policy-that-may-end-felix",
    } <= acts
