# SPDX-License-Identifier: Apache-2.0
"""Losses that a living run's open change may have caused are not decided, and the reason names
that run. Nothing else is an excuse."""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from conformance.journal import Journal, Journalled, liveness
from conformance.journal.lease import RunLock
from conformance.journal.other_runs import OtherRuns
from conformance.kube.access import from_kubeconfig
from conformance.kube.changes import Changes
from conformance.kube.client import Kube
from conformance.kube.ownership import Ownership
from conformance.model.change import ObjectRef
from tests.lab.journal.locks import lock_timings
from tests.lab.lab_process import RunningLab, running_lab
from tests.reliability.hit_run import environment
from tests.reliability.source import ROOT

pytestmark = [pytest.mark.xdist_group("beside-another-run"), pytest.mark.whole_run]
FELIX = ObjectRef(api_version="projectcalico.org/v3", kind="FelixConfiguration", name="default")
LOCK = lock_timings(stale=4.0, wait=5.0, poll_every=0.1)
WITHIN = 240.0
"""Seconds; only a run that hangs is caught."""
TIMINGS = """
linux: &lab
  tcp_give_up: 500 ms
  syn_again: 100 ms
  refused_within: 100 ms
  agree_span: 600 ms
  hold: 500 ms
  poll_every: 250 ms
  warm_up: 5 s
  policy_effect: 8 s
  service_effect: 8 s
windows: *lab
"""
BY = "run other is changing the cluster: patch FelixConfiguration default (projectcalico.org/v3) .spec.vxlanVNI"


@dataclass
class Another:
    """A run that has changed the VNI, as far as this cluster knows."""

    lab: RunningLab
    kube: Kube
    folder: Path
    journal: Journal
    change: Journalled
    lock: RunLock

    def verdicts(self, *claims: str) -> dict[str, tuple[str, str]]:
        """Return verdicts and reasons of these claims from a run beside it that uses nothing
        exclusive."""
        (self.folder / "timings.yaml").write_text(TIMINGS)
        command = [
            sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", f"--kubeconfig={self.lab.kubeconfig}",
            f"--timings={self.folder / 'timings.yaml'}", f"--report-dir={self.folder / 'reports'}", "--no-disruptive",
            "-n", "2", "--no-watch", *(f"--claim={claim}" for claim in claims),
        ]  # fmt: skip
        subprocess.run(
            command,
            cwd=ROOT,
            env=environment(self.folder),
            capture_output=True,
            text=True,
            timeout=WITHIN,
            check=False,
        )
        report: dict[str, Any] = json.loads(
            (self.folder / "reports" / "latest" / "conformance.json").read_text()
        )
        return {
            claim["id"]: (claim["verdict"], json.dumps(claim))
            for claim in report["claims"]
            if claim["id"] in claims
        }


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    with running_lab(tmp_path_factory.mktemp("lab"), "--profile", "small") as one:
        yield one


@pytest.fixture
def another(lab: RunningLab, tmp_path: Path) -> Iterator[Callable[..., Another]]:
    """Begins such a run; ``here``: on this machine, where its life can be proved."""
    kube, begun = Kube(from_kubeconfig(lab.kubeconfig)), list[Another]()
    alive = tmp_path / "calico-conformance-other" / "alive"
    alive.parent.mkdir()
    alive.touch()
    held = alive.open()
    fcntl.flock(held, fcntl.LOCK_SH)

    def begin(*, here: bool = True) -> Another:
        run = Ownership(
            "other",
            "main",
            liveness.sign(alive) if here else "another-boot:/calico-conformance-other/alive",
        )
        journal, lock = Journal(kube, run, within=5.0), RunLock(kube, run, LOCK, tell=print)
        lock.acquire()
        change = Journalled(Changes(kube, run), journal, {}, lock.check)
        change.patch(FELIX, {"spec": {"vxlanVNI": 4097}}, "gives every node VNI 4097")
        begun.append(Another(lab, kube, tmp_path, journal, change, lock))
        return begun[-1]

    yield begin
    for one in begun:
        Changes(kube, Ownership("other")).patch(
            FELIX, {"spec": {"vxlanVNI": 4096}}, "a test", foreign=True
        )
        one.change.restore()
        for entry in one.journal.entries():
            one.journal.mark(entry, "closed")
        one.journal.remove()
        one.lock.release()
    held.close()
    kube.close()


def test_beside_a_living_run_that_has_changed_the_vni_lost_paths_are_not_decided(
    another: Callable[..., Another],
) -> None:
    found = another().verdicts("CONN-3", "DEMO-2", "VXLAN-9")
    assert {claim: verdict for claim, (verdict, _) in found.items()} == dict.fromkeys(
        found, "INCONCLUSIVE"
    ), found
    assert set(found) == {"CONN-3", "DEMO-2", "VXLAN-9"}
    assert all(BY in told for _, told in found.values()), found


def test_a_run_that_holds_the_lock_and_has_no_open_change_excuses_nothing(
    another: Callable[..., Another],
) -> None:
    other = another()
    for entry in other.journal.entries():
        other.journal.mark(entry, "closed")  # and yet the VNI is another
    found = other.verdicts("DEMO-2", "VXLAN-9")
    assert {claim: verdict for claim, (verdict, _) in found.items()} == {
        "DEMO-2": "VIOLATED",
        "VXLAN-9": "VIOLATED",
    }


ACROSS, WITHIN_ONE = ("linux", "windows"), ("windows", "windows")


def test_it_excuses_the_paths_alone_that_it_touches(another: Callable[..., Another]) -> None:
    other = another()
    runs = OtherRuns(other.kube, "mine")
    assert runs.excuse(ACROSS).startswith(BY)
    assert runs.of_vni().startswith(BY)
    assert runs.excuse(WITHIN_ONE) == ""
    assert OtherRuns(other.kube, "other").excuse(ACROSS) == ""  # its own
    node = ObjectRef(api_version="v1", kind="Node", name="windows")
    other.change.patch(node, {"spec": {"unschedulable": True}}, "drains node windows: cordon")
    assert "drains node windows" in runs.excuse(WITHIN_ONE)
    assert runs.excuse(("linux", "linux")) == ""


def test_an_entry_that_the_cluster_does_not_bear_out_excuses_nothing(
    another: Callable[..., Another],
) -> None:
    other = another()
    entry = next(entry for entry in other.journal.entries() if entry.open)
    for forged in (
        replace(entry, uid="another"),
        replace(entry, fields=(replace(entry.fields[0], ours=entry.fields[0].before),)),
        replace(entry, act="procedure", target=None, fields=(), arguments={"node": "no-such-node"}),
    ):
        other.journal.write(forged)
        assert OtherRuns(other.kube, "mine").excuse((*ACROSS, "no-such-node")) == ""


def test_of_a_run_of_another_machine_the_run_lock_says_whether_it_lives(
    another: Callable[..., Another],
) -> None:
    other = another(here=False)
    assert OtherRuns(other.kube, "mine").excuse(ACROSS).startswith(BY)
    other.lock._stop.set()  # it was killed
    assert OtherRuns(other.kube, "mine").excuse(ACROSS) == ""


def test_a_change_that_has_just_ended_is_remembered_for_paths_that_were_tried_before(
    another: Callable[..., Another],
) -> None:
    other = another()
    runs = OtherRuns(other.kube, "mine")
    runs.look()
    other.change.restore()
    assert runs.excuse(ACROSS) == ""
    assert runs.excuse(ACROSS, since=0.0).startswith(BY)
