# SPDX-License-Identifier: Apache-2.0
"""Single steps of a calibration on a lab."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from conformance.calibrate import command
from conformance.calibrate.scene import Scene
from conformance.timing import Deadline

SECONDS = 400.0
"""s. Far longer than the steps take, so that only hanging steps exceed it."""


def measured(kubeconfig: Path, reports: Path, *names: str) -> dict[str, Any]:
    """Return the content of the file that these steps write; their pods end with the lab."""
    options = argparse.Namespace(
        kubeconfig=kubeconfig, context=None, lab_profile=None, minutes=10.0, plan=False,
        image_registry=[], tolerate=[], nodes="", report_dir=reports,
    )  # fmt: skip
    run = command._run(options)
    assert run.provider
    assert run.directory
    run.provider.begin(run.choice, run.settings, run.directory)
    run.open()
    assert run.facts
    scene = Scene(run, run.facts, Deadline(SECONDS), run.directory.shared)
    try:
        command.carry_out(scene, [step for step in command.STEPS if step[0] in names])
    finally:
        scene.prober.close()
        run.provider.close()
        run.directory.discard()
    head = {
        "evidence": run.evidence,
        "seconds": 1.0,
        "kubernetes": run.facts.kubernetes_version.value,
        "calico": run.facts.calico_version.value,
        "mode": run.facts.mode.value,
        "platform": run.facts.platform.value,
    }
    return scene.record.document(head, scene.nodes, []) | {"assumptions": []}
