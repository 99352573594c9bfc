# SPDX-License-Identifier: Apache-2.0
"""A run that fails on a lab leaves the evidence of the failing pairs in its folder, in Allure
and on its page."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.lab.lab_process import RunningLab, running_lab

pytestmark = [pytest.mark.xdist_group("evidence"), pytest.mark.whole_run]

ROOT = Path(__file__).parents[3]
FAULTY, SOUND = "windows-2019", "windows-2022"
RUN_WITHIN = 200.0
"""s.  Only a run that hangs is caught."""
TIMINGS = ROOT / "tests" / "detection" / "timings.yaml"


@dataclass(frozen=True)
class Failed:
    """What a run with a failure left."""

    folder: Path
    report: dict[str, Any]

    @property
    def texts(self) -> dict[str, str]:
        """Names of all attachments of failed tests to their texts."""
        names = [
            name
            for test in self.report["tests"]
            if test["verdict"] == "VIOLATED"
            for name in test["attachments"]
        ]
        return {Path(name).stem: (self.folder / name).read_text(errors="replace") for name in names}

    @property
    def in_allure(self) -> list[str]:
        """Names of all attachments in Allure's results."""
        found: list[str] = []

        def walk(node: Any) -> None:
            if isinstance(node, dict):
                found.extend(attachment["name"] for attachment in node.get("attachments") or ())
                for inner in node.values():
                    walk(inner)
            elif isinstance(node, list):
                for inner in node:
                    walk(inner)

        for path in (self.folder / "allure").glob("*-*.json"):
            walk(json.loads(path.read_text()))
        return found


def run(lab: RunningLab, reports: Path, *arguments: str) -> Failed:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST_", "COV_"))
    }
    command = [
        sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-n", "0", f"--kubeconfig={lab.kubeconfig}",
        f"--report-dir={reports}", *arguments,
    ]  # fmt: skip
    done = subprocess.run(
        command, cwd=ROOT, env={**kept, "PYTHONPATH": str(ROOT / "lib")}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=RUN_WITHIN, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    folder = (reports / "latest").resolve()
    return Failed(folder, json.loads((folder / "conformance.json").read_text()))


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Failed]:
    folder = tmp_path_factory.mktemp("evidence")
    with running_lab(folder) as lab:
        yield run_with(lab, folder, "policy-late", "seconds=15")


@pytest.fixture(scope="module")
def not_enforced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Failed]:
    folder = tmp_path_factory.mktemp("not-enforced")
    with running_lab(folder) as lab:
        yield run_with(lab, folder, "policy-not-enforced", more=["--capture-packets"])


def run_with(
    lab: RunningLab, folder: Path, fault: str, *parameters: str, more: Sequence[str] = ()
) -> Failed:
    """DEMO-7 on two Windows nodes, one of which has a fault."""
    lab.hybridlab(
        "faults",
        "--kubeconfig",
        str(lab.kubeconfig),
        "inject",
        fault,
        f"node={FAULTY}",
        *parameters,
    ).check_returncode()
    timings = yaml.safe_load(TIMINGS.read_text())
    for system in ("linux", "windows"):
        timings[system] = {
            **timings[system],
            "warm_up": "30 s",
        }  # new pods wait for their first policy, too
    patience = folder / "timings.yaml"
    patience.write_text(yaml.safe_dump(timings))
    return run(
        lab,
        folder / "reports",
        f"--timings={patience}",
        "--claim=DEMO-7",
        f"--nodes={FAULTY},{SOUND}",
        *more,
    )


def in_force(failed: Failed) -> str:
    """Return the id of the first rule in the faulty node's ACL list for the server that allows
    packets in."""
    text = failed.texts[f"HNS_endpoints_of_failing_pairs_on_{FAULTY}"]
    server = next(part for part in text.split("\n\n") if "/windows-server-" in part)
    return next(
        line.split()[-1]
        for line in server.splitlines()
        if line.split()[:3] == ["1000", "In", "Allow"]
    )


def test_where_felix_lags_the_endpoint_is_shown_with_an_acl_list_that_has_no_policy_in_it(
    failed: Failed,
) -> None:
    assert in_force(failed).startswith("profile-kns.")
    text = failed.texts[f"HNS_endpoints_of_failing_pairs_on_{FAULTY}"]
    assert re.search(r"^ACL list  \d+ rules?, in HNS' order$", text, re.MULTILINE)
    assert "state     3 (attached, shared by containers)" in text


def test_where_hns_has_the_policy_and_does_not_enforce_it_the_list_shows_the_policy(
    not_enforced: Failed,
) -> None:
    assert "allow-linux-client" in in_force(not_enforced)


def test_the_networks_vsid_and_felix_log_of_the_failing_nodes_are_there(failed: Failed) -> None:
    assert "VSID 4096" in failed.texts[f"HNS_networks_of_{FAULTY}"]
    log = failed.texts[f"Felix_around_the_failure_on_{FAULTY}"]
    assert log.startswith("# calico-system/calico-node-windows-")
    assert len(log.splitlines()) > 1


def test_the_evidence_is_in_allure_and_on_the_page_by_plain_names(failed: Failed) -> None:
    names = {
        "failing pairs",
        f"HNS endpoints of failing pairs on {FAULTY}",
        f"HNS networks of {FAULTY}",
    }
    assert names <= set(failed.in_allure)
    page = (failed.folder / "report.html").read_text()
    assert f"HNS_endpoints_of_failing_pairs_on_{FAULTY}.txt" in page
    assert "ACL list" in page


def test_where_packets_are_to_be_captured_the_windows_node_says_that_the_lab_has_no_pktmon(
    not_enforced: Failed,
) -> None:
    text = not_enforced.texts[f"packets_on_{FAULTY}"]
    assert text.startswith("(not gathered: ")
    assert "not emulated" in text


def test_packets_of_a_way_that_is_tried_again_are_captured_on_its_linux_node(
    not_enforced: Failed,
) -> None:
    tried = not_enforced.texts["tried_again_while_packets_were_captured"]
    assert " CONNECTED after " in tried
    client = re.search(r"/(linux-\S+) \(linux, node (\S+)\) -> (\S+):80/tcp", tried)
    assert client, tried
    server = client[3]
    text = not_enforced.texts[f"packets_on_{client[2]}"]
    assert re.search(rf"> {server} TCP \d+ > 80 SYN, \d+ bytes$", text, re.MULTILINE), text
    assert re.search(rf"UDP \d+ > 4789 VNI 4096, \d+ bytes \| \S+ > {server} TCP", text), text
    assert f"packets on {client[2]}, for Wireshark" in not_enforced.in_allure
    (file,) = (not_enforced.folder / "attachments").glob("*/packets_on_*_for_Wireshark.pcap")
    assert file.read_bytes()[:4] == bytes.fromhex("d4c3b2a1")
