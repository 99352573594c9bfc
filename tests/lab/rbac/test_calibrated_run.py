# SPDX-License-Identifier: Apache-2.0
"""A run with the timings of a calibration decides on a lab that is too slow for the packaged ones.

The cost of slow commands: 21 s of waiting beside the default run, and about 20 s for the calibrated
run.  Late policies take minutes, since Windows has 60 s for them."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from conformance.calibrate import effects, starts
from conformance.settings import load_timings
from tests.lab.lab_process import RunningLab
from tests.lab.measuring import measured
from tests.lab.rbac.conftest import run_suite

LAB = ("--profile", "small")
SLOW = 10.5
"""s.  By which commands start later in Linux pods: more than the packaged patience with agents."""
TEST = "suites/connectivity/test_pod_to_pod.py::test_pods_of_different_nodes_reach_each_other"
ONE_PATH = (f"{TEST}[linux-to-windows]", "--no-watch", "-n0")
LATE = 64.0
"""s.  By which policy is late at Windows pods: more than the packaged patience with it."""
DEMO = "suites/demo/test_policy.py::test_linux_client_still_reaches_windows_server"


def test_a_run_is_right_by_measured_timings_where_the_packaged_ones_end_inconclusive(
    lab: RunningLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load_timings().linux.agent_hello < SLOW
    words = ("exec-slow", "node=linux", f"seconds={SLOW}")
    done = lab.hybridlab("faults", "--kubeconfig", str(lab.kubeconfig), "inject", *words)
    assert done.returncode == 0, done.stderr
    monkeypatch.setattr(starts, "PARTS", {"cold": 1, "warm": 1})
    with ThreadPoolExecutor(1) as pool:
        packaged = pool.submit(
            run_suite, lab.kubeconfig, tmp_path / "packaged", *ONE_PATH, timings=None
        )
        plain = measured(lab.kubeconfig, tmp_path / "reports", "pods", "agent-start")
        assert plain["not_measured"] == []
        verdict, reason = packaged.result().verdicts()["CONN-3"]
        assert (packaged.result().code, verdict) == (6, "INCONCLUSIVE"), reason
    calibration = tmp_path / "calibration.json"
    calibration.write_text(json.dumps(plain))
    found = load_timings(calibration)
    assert 3 * SLOW <= found.linux.agent_hello <= 120
    calibrated = run_suite(lab.kubeconfig, tmp_path / "calibrated", *ONE_PATH, timings=calibration)
    assert calibrated.code == 0, calibrated.output
    assert calibrated.verdicts()["CONN-3"][0] == "CONFIRMED"


@pytest.mark.slow
def test_a_run_is_right_about_late_policies_where_the_packaged_timings_end_inconclusive(
    lab: RunningLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load_timings().windows.policy_effect < LATE
    lab.hybridlab("faults", "--kubeconfig", str(lab.kubeconfig), "heal")
    words = ("policy-late", "node=windows", f"seconds={LATE}")
    done = lab.hybridlab("faults", "--kubeconfig", str(lab.kubeconfig), "inject", *words)
    assert done.returncode == 0, done.stderr
    monkeypatch.setattr(effects, "CHANGES", 2)  # that of syn-again is the second
    demo = (DEMO, "--no-watch", "-n0")
    with ThreadPoolExecutor(1) as pool:
        packaged = pool.submit(
            run_suite, lab.kubeconfig, tmp_path / "packaged", *demo, timings=None, within=600
        )
        plain = measured(lab.kubeconfig, tmp_path / "reports", "pods", "policy-effect")
        assert plain["not_measured"] == []
        verdict, reason = packaged.result().verdicts()["DEMO-6"]
        assert (packaged.result().code, verdict) == (6, "INCONCLUSIVE"), reason
    calibration = tmp_path / "calibration.json"
    calibration.write_text(json.dumps(plain))
    assert 3 * LATE - 1 <= load_timings(calibration).windows.policy_effect <= 600
    calibrated = run_suite(
        lab.kubeconfig, tmp_path / "calibrated", *demo, timings=calibration, within=600
    )
    assert calibrated.code == 0, calibrated.output
    assert calibrated.verdicts()["DEMO-6"][0] == "CONFIRMED"
