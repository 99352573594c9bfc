# SPDX-License-Identifier: Apache-2.0
"""Runs on a lab behind a company's proxy, and on a lab whose API refuses a fifth of all
requests."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.lab.fault_proxy import fault_proxy, refusing
from tests.lab.lab_process import running_lab

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.whole_run
WITHIN = 600.0
"""s.  For a run of one subject on a machine that other tests share; it takes about 30 s, and twice that with faults."""
REFUSED = 0.2
"""The share of requests that the gateway refuses."""
UNDECIDED = 0.05
"""The share of parts that may be INCONCLUSIVE then."""


def run(
    reports: Path, *words: str, **environment: str
) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """Run the suite to its end; what it printed, and its report where there is one."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "suites",
        "-p",
        "no:cacheprovider",
        f"--report-dir={reports}",
        *words,
    ]
    names = ("PYTEST_", "NO_PROXY", "no_proxy")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(names)}
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=kept | environment,
        capture_output=True,
        text=True,
        timeout=WITHIN,
        check=False,
    )
    report = reports / "latest" / "conformance.json"
    return done, json.loads(report.read_text()) if report.exists() else {}


def test_a_fifth_of_all_requests_refused_leaves_nearly_every_part_decided(tmp_path: Path) -> None:
    through = tmp_path / "through.yaml"
    with (
        running_lab(tmp_path) as lab,
        fault_proxy(lab.kubeconfig, through, refusing(REFUSED)) as gateway,
    ):
        done, report = run(
            tmp_path / "reports", "-k", "vxlan", "-n", "2", f"--kubeconfig={through}"
        )
    assert report, done.stdout + done.stderr
    refused = sum(number for code, number in gateway.seen.items() if code)
    assert refused > 0.15 * sum(gateway.seen.values()), gateway.seen
    assert set(gateway.seen) == {0, 429, 500, 503}
    results = [result for claim in report["claims"] for result in claim["results"]]
    verdicts = [
        result["verdict"]
        for result in results
        if result["verdict"] not in ("NOT_RUN", "NOT_APPLICABLE")
    ]
    assert len(verdicts) >= 12
    assert verdicts.count("INCONCLUSIVE") <= UNDECIDED * len(verdicts), done.stdout
    assert "VIOLATED" not in verdicts


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "all_proxy"])
def test_a_run_on_its_own_lab_needs_no_exception_from_a_company_s_proxy(
    tmp_path: Path, variable: str
) -> None:
    """Requests and execs; nobody listens where the proxy is said to be."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        proxy = f"http://127.0.0.1:{closed.getsockname()[1]}"
        done, report = run(
            tmp_path / "reports",
            "--claim",
            "VXLAN-2",
            "--claim",
            "CONN-1",
            "--lab-profile=small",
            **{variable: proxy},
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "CONFIRMED" in {claim["verdict"] for claim in report["claims"]}
