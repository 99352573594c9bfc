# SPDX-License-Identifier: Apache-2.0
"""A pod that is deleted at any moment of its run restores everything that the run has changed.

Four moments are tried; ``POINTS=20`` tries twenty.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.kube.access import from_kubeconfig
from conformance.kube.client import Kube
from tests.lab.jobs.image_tree import build
from tests.lab.jobs.test_image import OPTIONS, a_pod, ended
from tests.lab.lab_process import RunningLab, running_lab
from tests.reliability import snapshot
from tests.reliability.snapshot import Snapshot

pytestmark = [pytest.mark.whole_run, pytest.mark.xdist_group("ended-pod")]
POINTS = int(os.environ.get("POINTS", "4"))
RUNS: tuple[tuple[tuple[str, ...], list[str]], ...] = (
    ((), ["--smoke"]),
    (("--role", "disruptive"), ["--claim=RST-3", "--allow-disruptive"]),
)
"""Options of `job` and of the runs that are ended in turn; the second restarts pods of Calico."""
SETTLES_WITHIN = 60.0
"""s.  Pods that were evicted or restarted become ready again."""
DIED_EARLY = -signal.SIGTERM


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("image"))


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLab]:
    with running_lab(tmp_path_factory.mktemp("lab")) as one:
        yield one


@pytest.fixture(scope="module")
def lasting(lab: RunningLab, suite: Path, tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """Seconds of each whole run; the runs leave what outlives a run, as later runs find it."""
    found = []
    for roles, options in RUNS:
        pod = a_pod(lab, suite, tmp_path_factory.mktemp("whole"), *roles)
        begin = time.monotonic()
        code, out = ended(pod.start("run", *OPTIONS, f"--report-dir={pod.results}", *options))
        assert code == 0, out
        found.append(time.monotonic() - begin)
    return found


def state(lab: RunningLab) -> Snapshot:
    kube = Kube(from_kubeconfig(lab.kubeconfig))
    try:
        return snapshot.take(kube)
    finally:
        kube.close()


def left(lab: RunningLab, before: Snapshot) -> list[str]:
    """Return what differs from before once the cluster has settled."""
    until = time.monotonic() + SETTLES_WITHIN
    while (found := snapshot.differences(before, state(lab))) and time.monotonic() < until:
        time.sleep(0.5)
    return found


@pytest.mark.parametrize("point", range(POINTS))
def test_all_is_as_before_whenever_the_pod_is_deleted(
    lab: RunningLab, suite: Path, tmp_path: Path, lasting: list[float], point: int
) -> None:
    kind = point % len(RUNS)
    roles, options = RUNS[kind]
    pod = a_pod(lab, suite, tmp_path, *roles)
    before = state(lab)
    run = pod.start("run", *OPTIONS, f"--report-dir={pod.results}", *options)
    with contextlib.suppress(subprocess.TimeoutExpired):
        run.wait((point + 0.5) / POINTS * lasting[kind])
    run.send_signal(signal.SIGTERM)
    code, out = ended(run)
    assert code in (0, 2, DIED_EARLY), out
    assert left(lab, before) == [], out
    if code == DIED_EARLY:  # the interpreter was starting
        assert out == "", f"the signal ended a run that had begun, before it cleared up:\n{out}"
