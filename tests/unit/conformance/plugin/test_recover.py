# SPDX-License-Identifier: Apache-2.0
"""``--restore`` and ``--janitor`` refuse options that contradict them, and touch nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conformance.errors import ClusterUnusable, EnvironmentBroken, UsageProblem
from conformance.kube.access import from_kubeconfig
from conformance.kube.refused import ApiRefused, ApiUnreachable
from conformance.plugin import recover
from tests.unit.conformance.kube.test_access import lane
from tests.unit.conformance.plugin.test_options import config

CLUSTER = "--kubeconfig=here"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["--restore"],
            "--restore has no effect on a lab of the run: name a cluster by --kubeconfig=PATH",
        ),
        (
            ["--janitor", "--dry-run"],
            "--janitor has no effect on a lab of the run: name a cluster by --kubeconfig=PATH",
        ),
        (
            [CLUSTER, "--restore", "--plan", "--dry-run"],
            "--restore and --plan contradict each other: "
            "pytest --janitor --dry-run lists what is left",
        ),
        (
            [CLUSTER, "--restore", "--dry-run"],
            "--restore and --dry-run contradict each other: "
            "pytest --janitor --dry-run lists the changes",
        ),
        ([CLUSTER, "--janitor", "--dry-run"], "the cluster is opened"),
        ([CLUSTER, "--restore", "--max-minutes=0"], "--max-minutes 0: expected more than 0"),
    ],
)
def test_what_contradicts_putting_back_is_a_usage_error(
    arguments: list[str], expected: str
) -> None:
    def door(choice: object) -> None:
        raise UsageProblem("the cluster is opened")

    with pytest.raises(pytest.UsageError) as caught:
        recover.command(config(*arguments), door)  # type: ignore[arg-type]
    assert str(caught.value) == expected


@pytest.mark.parametrize("arguments", [["--restore"], ["--janitor", "--dry-run"]])
@pytest.mark.parametrize("server", ["http://lane.example:8080", "http://127.0.0.1:8080"])
def test_a_connection_that_nobody_verifies_is_named_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    server: str,
) -> None:
    def cleared(*_: Any, **more: Any) -> int:
        return 0

    monkeypatch.setattr(recover, "clear_up", cleared)
    path = lane(tmp_path / "k", server, {})
    assert recover.command(config(CLUSTER, *arguments), lambda choice: from_kubeconfig(path)) == 0
    is_local = "127" in server
    note = f"note: plain HTTP to {server}: nothing is verified or encrypted\n"
    assert capsys.readouterr().err == ("" if is_local else note)


REFUSED = ApiRefused(403, "Forbidden", "may not list nodes", "GET nodes")


@pytest.mark.parametrize(
    ("error", "lines"),
    [
        (ClusterUnusable(["no right", "no lease"]), ["ERROR: no right", "ERROR: no lease"]),
        (EnvironmentBroken("the lock is lost\nmore"), ["ERROR: the lock is lost"]),
        (ApiRefused(500, "Error", "broken", "GET nodes"), ["ERROR: not reached"]),
        (ApiUnreachable("GET nodes", 3, 5.0, "refused"), ["ERROR: not reached"]),
        (REFUSED, ["ERROR: may not list leases"]),
    ],
)
def test_a_cluster_that_cannot_be_restored_is_named_and_ends_with_7(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    lines: list[str],
) -> None:
    def failing(*_: Any, **more: Any) -> int:
        raise error

    monkeypatch.setattr(recover, "clear_up", failing)
    monkeypatch.setattr(recover, "first_contact", lambda access, error: "not reached")
    monkeypatch.setattr(recover, "lacking_rights", lambda kube, rights: ["may not list leases"])
    path = lane(tmp_path / "k", "http://127.0.0.1:8080", {})
    ended = recover.command(config(CLUSTER, "--restore"), lambda choice: from_kubeconfig(path))
    assert (ended, capsys.readouterr().err.splitlines()) == (7, lines)


def test_a_wrong_name_of_a_run_is_a_usage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any, named: str, **more: Any) -> int:
        raise UsageProblem(f"no run {named}")

    monkeypatch.setattr(recover, "clear_up", failing)
    path = lane(tmp_path / "k", "http://127.0.0.1:8080", {})
    with pytest.raises(pytest.UsageError, match="no run a1"):
        recover.command(
            config(CLUSTER, "--restore", "--run=a1"), lambda choice: from_kubeconfig(path)
        )
