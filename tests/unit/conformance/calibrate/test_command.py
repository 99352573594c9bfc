# SPDX-License-Identifier: Apache-2.0
"""The time box: what has no time, or breaks, is noted, and the next step begins."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conformance import cli
from conformance.calibrate import command, hosts
from conformance.calibrate.record import Record
from conformance.errors import ProbeBroken, UsageProblem


def test_a_step_that_breaks_or_has_no_time_is_noted_and_the_next_begins() -> None:
    done: list[str] = []

    def breaks(scene: Any) -> None:
        raise ProbeBroken("nothing answers\nmore")

    scene: Any = SimpleNamespace(box=SimpleNamespace(remaining=50.0), record=Record())
    command.carry_out(
        scene,
        (
            ("first", "", 10, breaks),
            ("second", "", 60, lambda scene: done.append("second")),
            ("third", "", 50, lambda scene: done.append("third")),
        ),
    )
    assert done == ["third"]
    assert [(one["id"], one["why"]) for one in scene.record.not_measured] == [
        ("first", "nothing answers"),
        ("second", "50 s left, but it needs about 60 s"),
    ]


def test_an_error_of_our_own_is_no_result() -> None:
    def broken(scene: Any) -> None:
        raise KeyError("a bug")

    scene: Any = SimpleNamespace(box=SimpleNamespace(remaining=50.0), record=Record())
    with pytest.raises(KeyError):
        command.carry_out(scene, (("first", "", 10, broken),))


@pytest.mark.parametrize("minutes", [0.0, -1.0, 10.5, float("nan")])
def test_more_than_ten_minutes_are_refused(minutes: float) -> None:
    with pytest.raises(UsageProblem, match="--minutes"):
        command.calibrate(argparse.Namespace(minutes=minutes))


def test_a_file_in_no_folder_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    to = tmp_path / "none" / "calibration.json"
    with pytest.raises(UsageProblem, match=r"--to .*: the folder .*none does not exist$"):
        command.calibrate(argparse.Namespace(minutes=1.0, to=to))


def test_every_committed_program_for_windows_hosts_is_run() -> None:
    files = {path.name for path in Path("manifests/nodes").glob("*.ps1")}
    assert files <= hosts.programs().keys()
    assert len(files) >= 7
    for name, script in hosts.programs().items():
        assert not set(script) & set('"%\n'), name  # HostProcess of containerd 1.6: cmd /c
        assert len(script) < 7800, name


def test_the_labs_assumptions_come_by_its_own_word() -> None:
    found = command.of_lab()
    assert {one["by"] for one in found} == {"lab"}
    assert any(one["measured"] == "tcp-closed" for one in found)


@pytest.mark.parametrize("printed", [b"Traceback", b"", b"3"])
def test_a_lab_that_prints_no_assumptions_loses_no_measurement(
    printed: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = SimpleNamespace(stdout=printed)
    monkeypatch.setattr("subprocess.run", lambda *_, **__: done)
    assert command.of_lab() == []


def test_the_command_that_compares_two_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = {
        "kind": "calico-conformance calibration",
        "schema": 1,
        "at": "2026-01-02T03:04:05Z",
        "evidence": "field",
        "calico": "v3.31.2",
        "nodes": [{"name": "n", "os": "windows", "build": "20348.1"}],
        "measurements": [
            {"id": "mtu/linux", "node": "n", "system": "windows", "unit": "bytes", "values": [1450]}
        ],
        "programs": [],
    }
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text(json.dumps(plain))
    plain["measurements"][0]["values"] = ["UNREACHABLE"]  # type: ignore[index]
    new.write_text(json.dumps(plain))
    assert cli.main(["calibration", "diff", str(old), str(new)]) == 0
    out = capsys.readouterr().out
    assert "2026-01-02T03:04:05Z: field, Calico v3.31.2, Windows 20348.1" in out
    assert "mtu/linux on windows: 1450 -> UNREACHABLE" in out
    assert cli.main(["calibration", "diff", str(old), str(tmp_path / "none.json")]) == 4


PLAN = """\
calibrate: field, prod
node win: windows 10.0.20348
makes and removes namespaces ns-gw0 and ns-gw0-host; in them two pods and one host pod per node, \
15 NetworkPolicies, 4 Services; changes nothing else; needs the role standard \
(calico-conformance kubeconfig)
  pods: a client and a server on each node (about 30 s)
  pod-start: image pulls and starts of pods, from their events (about 2 s)
  exec: latency of an exec (about 5 s)
  powershell-start: PowerShell's start: cold, warm, two and three at once (about 20 s)
  agent-start: an agent's start, with CPU and memory of the node (about 30 s)
  policy-effect: 15 changes of policy and their removals, including the denial of syn-again (about 60 s)
  host programs: raw output of every read-only program of a Windows host (about 20 s)
  errors: closed and open ports of TCP and UDP, resets (about 30 s)
  syn-again: a denial, repeated SYNs, and the system's time-out (about 45 s)
  service-effect: Services and names, from creation to answer (about 30 s)
  sources: source addresses by pod, ClusterIP and NodePort (about 20 s)
  mtu: largest packets between nodes (about 10 s)
  http: answers of http.sys to malformed requests (about 15 s)
  attempts-per-second: the maximum number of attempts per second of an agent, in steps up to 40 \
(about 20 s)
about 6 min with images on the nodes, 10 min at most
"""


def test_the_plan_says_what_is_made_and_measured_and_for_how_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    node = SimpleNamespace(name="win", os="windows", revision="10.0.20348")
    monkeypatch.setattr(command, "covered", lambda facts, settings: [node])
    run: Any = SimpleNamespace(
        ownership=lambda worker: SimpleNamespace(namespace=f"ns-{worker}"),
        settings=SimpleNamespace(worker="gw0"),
        evidence="field",
        connection=SimpleNamespace(label="prod"),
    )
    facts: Any = None
    assert command._plan(run, facts) == 0
    assert capsys.readouterr().out == PLAN


def test_all_measurements_fit_into_the_ten_minutes_beside_clearing_up() -> None:
    names, _, needs, _ = zip(*command.STEPS, strict=True)
    assert len(set(names)) == len(names)
    assert sum(needs) <= 60 * command.MINUTES - 30
