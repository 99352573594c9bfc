# SPDX-License-Identifier: Apache-2.0
"""On a lab as slow as a real cluster, and beside other users' work, ``--smoke`` ends soon and is
not red.

``make check-roles`` runs it. The bounds are the time that users may be asked to wait for a first
look.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lab.lab_process import RunningLab, running_lab
from tests.lab.rbac.conftest import run_suite
from tests.lab.rbac.test_field_run import LAB

pytestmark = [pytest.mark.xdist_group("whole-runs"), pytest.mark.slow]

SYSTEM = ("kube-system", "calico-system", "calico-apiserver", "tigera-operator")
DENY = {
    "apiVersion": "projectcalico.org/v3", "kind": "GlobalNetworkPolicy", "metadata": {"name": "default-deny"},
    "spec": {
        "namespaceSelector": " && ".join(f"kubernetes.io/metadata.name != '{name}'" for name in SYSTEM),
        "types": ["Ingress", "Egress"],
        "egress": [{"action": "Allow", "protocol": "UDP", "destination": {"ports": [53]}}],
    },
}  # fmt: skip
"""As the owners of hardened clusters have it, and Calico's documents recommend it."""
WITHIN = 600.0
"""Seconds; only a run that hangs is caught."""


def dead(lab: RunningLab) -> None:
    lab.hybridlab(
        "faults", "--kubeconfig", str(lab.kubeconfig), "inject", "node-dead", "node=windows-2022"
    )


def dies(lab: RunningLab) -> None:
    lab.hybridlab(
        "faults",
        "--kubeconfig",
        str(lab.kubeconfig),
        "inject",
        "node-dead",
        "node=windows-2022",
        "after=4",
    )


def denied(lab: RunningLab) -> None:
    lab.kubectl("apply", "-f", "-", stdin=json.dumps(DENY))


@pytest.mark.parametrize(
    ("wrong", "sets", "seconds"),
    [(dead, ("--set", "timing.node_unknown_ms=0"), 90.0), (dies, (), 90.0), (denied, (), 120.0)],
    ids=["a node that is dead", "a node that dies", "a default deny of somebody else"],
)
def test_a_smoke_test_is_over_soon_and_calls_nothing_violated(
    wrong: Callable[[RunningLab], None], sets: tuple[str, ...], seconds: float, tmp_path: Path
) -> None:
    with running_lab(tmp_path, *LAB, *sets) as lab:
        wrong(lab)
        run = run_suite(
            lab.kubeconfig, tmp_path / "smoke", "--smoke", "-n", "0", timings=None, within=WITHIN
        )
    assert run.code in {0, 6}, run.output
    assert "VIOLATED" not in {verdict for verdict, _ in run.verdicts().values()}
    told = re.findall(r" in ([0-9.]+)s", run.output)
    print(wrong.__name__, told[-1], "s", run.code)
    assert float(told[-1]) <= seconds, run.output
