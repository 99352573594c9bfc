# SPDX-License-Identifier: Apache-2.0
"""Calico as services of Windows hosts (by hand, AKS): detected as such, and RST-3 restarts the service CalicoFelix."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.lab.lab_process import running_lab
from tests.lab.rbac.conftest import run_suite

pytestmark = [
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on the PATH"),
    pytest.mark.xdist_group("windows-services"),
    pytest.mark.whole_run,
]


def test_felix_is_restarted_as_a_service_where_it_is_one(tmp_path: Path) -> None:
    with running_lab(tmp_path, "--profile", "windows-services") as lab:
        named = lab.kubectl(
            "get", "daemonsets", "-A", "-o", "jsonpath={.items[*].metadata.name}"
        ).stdout.split()
        assert "calico-node" in named
        assert not [name for name in named if "windows" in name], named
        claims = ("--claim", "RST-3", "--claim", "SVC-2", "--claim", "CONN-1")
        run = run_suite(
            lab.kubeconfig, tmp_path / "reports", *claims, "--allow-disruptive", "-n", "2"
        )
    assert run.report["facts"]["install"]["value"] == "manual", run.report["facts"]["install"]
    assert {claim: verdict for claim, (verdict, _) in run.verdicts().items()} == {
        "RST-3": "CONFIRMED", "SVC-2": "CONFIRMED", "CONN-1": "CONFIRMED",
    }, run.output  # fmt: skip
    told = [node["update"] for node in run.report["facts"]["nodes"] if node["os"] == "windows"]
    assert all(each["source"].endswith("of the node lists no update") for each in told), told
    streams = "".join(
        path.read_text()
        for path in run.folder.glob("attachments/*test_felix_restart*/streams*.txt")
    )
    assert re.search(
        r"Felix on node windows-\d restarted in .*, service on windows-\d, process \d+ -> service",
        streams,
    )
