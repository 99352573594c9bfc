# SPDX-License-Identifier: Apache-2.0
"""Exclusive tests on a lab: pods that such a test has replaced are found again, and two runs at
once do not disturb each other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from tests.lab.lab_process import RunningLab, running_lab

ROOT = Path(__file__).parents[3]
TIMINGS = """
linux: &patience
  pod_ready: 60 s
  tcp_give_up: 500 ms
  syn_again: 100 ms
  refused_within: 100 ms
  http_give_up: 2 s
  agree_span: 600 ms
  hold: 500 ms
  poll_every: 250 ms
windows: *patience
"""
SUITE = '''
"""Shared tests use pods; exclusive ones replace pods of all workers, as a drain does, and use them again."""

import pytest
from conformance.kube.ownership import RUN_LABEL
from conformance.marks import verifies
from conformance.model.change import ObjectRef

pytestmark = [pytest.mark.xdist_group("exclusive-runs"), pytest.mark.whole_run]

BECAUSE = "no policy applies"


@verifies("CONN-1")
@pytest.mark.parametrize("number", range(6))
def test_shared(pods, services, expect, *, number):
    expect.reachable(pods.clients("linux").to(pods.servers("windows")).tcp(8080), because=BECAUSE)


@verifies("RST-3")
@pytest.mark.parametrize("number", range(2))
def test_node(pods, expect, own_node, record, *, number):
    client, (server,) = pods.client("linux"), pods.servers("windows").at(own_node)
    record(node=server.node, wanted=own_node)
    expect.reachable(client, server.tcp(8080), because=BECAUSE)


@verifies("VXLAN-10")
@pytest.mark.parametrize("number", range(3))
def test_cluster(pods, services, expect, changes, cluster, record, *, number):
    client, server = pods.client("linux"), pods.server("windows")
    expect.reachable(pods.clients("linux").to(pods.servers("windows")).tcp(8080), because=BECAUSE)
    expect.reachable(client, services.cluster_ip(server).by_address, because=BECAUSE)
    record(pod=server.pod)
    for pod in cluster.objects("v1", "Pod", labels=f"app=windows-server,{RUN_LABEL}={changes.run.run}"):
        meta = pod["metadata"]
        one = ObjectRef(api_version="v1", kind="Pod", name=meta["name"], namespace=meta["namespace"])
        changes.delete(one, "as a drain does")
'''


@dataclass(frozen=True)
class Finished:
    """A run that has ended."""

    code: int
    out: str
    folder: Path

    @property
    def report(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "conformance.json").read_text())
        return found

    @property
    def verdicts(self) -> dict[str, str]:
        return {test["test"]: test["verdict"] for test in self.report["tests"]}

    def measured(self, name: str) -> list[dict[str, Any]]:
        return [
            result["measured"]
            for claim in self.report["claims"]
            for result in claim["results"]
            if f"::{name}[" in result["test"]
        ]

    @property
    def turns(self) -> list[dict[str, Any]]:
        paths = (self.folder / ".run" / "turns").glob("*.jsonl")
        return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


class Checkout:
    """A checkout with that suite alone."""

    def __init__(self, path: Path, lab: RunningLab) -> None:
        self.path, self.lab = path, lab
        (path / "suites").mkdir()
        (path / "suites" / "test_it.py").write_text(SUITE)
        (path / "conftest.py").write_text('pytest_plugins = ["conformance.plugin"]\n')
        (path / "timings.yaml").write_text(TIMINGS)
        (path / "pyproject.toml").write_text(
            '[tool.pytest.ini_options]\ntestpaths = ["suites"]\naddopts = ["--import-mode=importlib", "-ra"]\n'
        )

    def start(self, name: str, *arguments: str) -> subprocess.Popen[str]:
        kept = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("PYTEST_", "KUBE"))
        }
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            f"--kubeconfig={self.lab.kubeconfig}",
        ]
        command += [
            "--allow-cluster-disruptive",
            "--timings=timings.yaml",
            f"--report-dir={self.path / name}",
            *arguments,
        ]
        return subprocess.Popen(
            command, cwd=self.path, env={**kept, "PYTHONPATH": str(ROOT / "lib")}, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def finish(self, name: str, process: subprocess.Popen[str]) -> Finished:
        out, _ = process.communicate(timeout=180)
        return Finished(process.returncode, out, (self.path / name / "latest").resolve())

    def run(self, name: str, *arguments: str) -> Finished:
        return self.finish(name, self.start(name, *arguments))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    with running_lab(tmp_path_factory.mktemp("lab")) as lab:
        yield Checkout(tmp_path_factory.mktemp("checkout"), lab)


def meet(one: dict[str, Any], other: dict[str, Any]) -> bool:
    kinds = {one["kind"], other["kind"]}
    apart = (
        "cluster" in kinds
        or kinds == {"node", "shared"}
        or (kinds == {"node"} and one["node"] == other["node"])
    )
    return apart and one["began"] < other["released"] and other["began"] < one["released"]


def test_with_and_without_workers_all_is_confirmed_and_replaced_pods_are_found_again(
    checkout: Checkout,
) -> None:
    alone, parallel = checkout.run("alone", "-n", "0"), checkout.run("parallel", "-n", "4")
    assert set(alone.verdicts.values()) == {"CONFIRMED", "NOT_RUN"}, alone.out
    left_open = {
        test.partition("[")[0].rpartition("::")[2]
        for test, said in alone.verdicts.items()
        if said == "NOT_RUN"
    }
    assert left_open == {"test_node"}, (
        "an open path alone decides nothing of RST-3, a known issue; all others are decided"
    )
    assert alone.verdicts == parallel.verdicts, parallel.out
    assert len({item["pod"] for item in alone.measured("test_cluster")}) == 3
    assert all(item["node"] == item["wanted"] for item in parallel.measured("test_node"))
    assert len({item["node"] for item in parallel.measured("test_node")}) == 2
    assert [(a, b) for a, b in combinations(parallel.turns, 2) if meet(a, b)] == []
    shared = [turn for turn in parallel.turns if turn["kind"] == "shared"]
    assert any(
        a["worker"] != b["worker"] and a["began"] < b["ended"] and b["began"] < a["ended"]
        for a, b in combinations(shared, 2)
    )


def test_two_runs_at_once_never_overlap_where_one_is_exclusive(checkout: Checkout) -> None:
    first, second = checkout.start("first", "-n", "2"), checkout.start("second", "-n", "2")
    runs = [checkout.finish("first", first), checkout.finish("second", second)]
    assert [run.code for run in runs] == [0, 0], runs[0].out + runs[1].out
    assert [
        (a, b) for a, b in combinations([*runs[0].turns, *runs[1].turns], 2) if meet(a, b)
    ] == []
    assert (
        checkout.lab.kubectl("-n", "calico-conformance-system", "get", "lease", "-o", "name").stdout
        == ""
    )
