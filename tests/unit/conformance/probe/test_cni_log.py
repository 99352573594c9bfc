# SPDX-License-Identifier: Apache-2.0
"""The CNI plugin's log: the file, the command that reads it, and the lines from the time of the
run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from conformance.errors import ProbeBroken
from conformance.kube import execute
from conformance.kube.channels import ExecBroken
from conformance.kube.execute import ExecResult
from conformance.model.endpoint import OS
from conformance.probe import cni_log
from conformance.probe.host import POWERSHELL
from conformance.product import MANIFESTS
from tests.unit.conformance.builders import a_pod

SINCE = datetime(2026, 11, 29, 10, 0, 0, 500_000, tzinfo=UTC)
POD = a_pod("calico-node-x", "n1", namespace="calico-system")
OLD = "2026-11-29 09:59:59.999 [ERROR][1] cni-plugin/plugin.go 586: old"
NEW = "2026-11-29 10:00:00.100 [ERROR][1] cni-plugin/plugin.go 586: new"
INFO = "2026-11-29 10:00:01.000 [INFO][1] cni-plugin/k8s.go 636: fine"


class Kube:
    def __init__(self, **maps: dict[str, str]) -> None:
        self.maps = maps

    def find(self, _: str, kind: str, name: str, namespace: str) -> Any:
        assert kind == "ConfigMap"
        data = self.maps.get(f"{namespace}_{name}".replace("-", "_"))
        return None if data is None else {"data": data}


def config(path: str) -> dict[str, str]:
    plugin = {"type": "calico", "log_level": "Info", "log_file_path": path}
    return {"config": json.dumps({"plugins": [plugin]}, indent=2)}


def read(
    monkeypatch: pytest.MonkeyPatch,
    os: OS,
    out: str,
    *,
    code: int = 0,
    err: str = "",
    since: datetime = SINCE,
) -> tuple[str, Sequence[str]]:
    asked: list[Sequence[str]] = []

    def run(kube: Any, *where: Any, within: float) -> ExecResult:
        assert where[:3] == ("calico-system", "calico-node-x", "felix")
        assert within == 3.0
        asked.append(where[3])
        return ExecResult(code, out.encode(), err.encode(), 0.1)

    monkeypatch.setattr(execute, "run", run)
    kube: Any = Kube()
    return cni_log.read(kube, POD, "felix", os, since, 3.0), asked[0]


def at(moment: str) -> int:
    return int(datetime.fromisoformat(f"{moment}+00:00").timestamp())


def test_lines_of_the_run_are_read_on_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = at("2026-11-29 10:00:01")
    text, asked = read(monkeypatch, "linux", f"{changed}\n{OLD}\nof old\n{NEW}\nof new\n{INFO}\n")
    assert text.splitlines() == [NEW, "of new", INFO]
    assert asked == ("sh", "-c", cni_log.LINUX, "sh", cni_log.PATH, str(256 * 1024))


@pytest.mark.parametrize("hours", [-8, 2])
def test_a_linux_host_in_another_time_zone_is_known_by_the_age_of_its_file(
    monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    changed = at("2026-11-29 10:00:03") - 3600 * hours
    far = at("2026-11-29 10:00:00") - 3600 * hours
    since = datetime.fromtimestamp(far, UTC)
    text, _ = read(monkeypatch, "linux", f"{changed}\n{OLD}\n{NEW}\n{INFO}\n", since=since)
    assert text.splitlines() == [NEW, INFO]


def test_a_windows_host_reports_its_time_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    shifted = NEW.replace(" 10:", " 04:")
    before = OLD.replace(" 09:", " 03:")
    text, asked = read(monkeypatch, "windows", f"\ufeff-360\r\n{before}\r\n{shifted}\r\n")
    assert text.splitlines() == [shifted]
    assert asked[:-1] == POWERSHELL
    assert r"$path = 'C:\var\log\calico\cni\cni.log';" in asked[-1]


@pytest.mark.parametrize(
    ("out", "code", "err", "words"),
    [
        ("", 1, "stat: cannot statx '/var/log/x': No such file or directory\n", "stat: cannot"),
        ("0\r\n", 1, "Get-Content : Cannot find path\r\n", "Get-Content : Cannot find path"),
        ("", 0, "", "no output"),
        (f"{NEW}\n", 0, "", "2026-11-29"),
    ],
)
def test_a_file_that_cannot_be_read_is_a_broken_probe(
    monkeypatch: pytest.MonkeyPatch, out: str, code: int, err: str, words: str
) -> None:
    with pytest.raises(ProbeBroken) as raised:
        read(monkeypatch, "linux", out, code=code, err=err)
    assert str(raised.value).startswith(words)


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("exec in a/b was refused: 403 Forbidden no", "no right to run commands in Calico's pods"),
        ("exec in a/b was refused: 500 Error no", "500 of no pod"),
    ],
)
def test_pods_that_take_no_command_have_one_reason_for_all(
    monkeypatch: pytest.MonkeyPatch, message: str, words: str
) -> None:
    def run(*_: Any, **__: Any) -> ExecResult:
        raise ExecBroken(message, transport="500 of no pod")

    monkeypatch.setattr(execute, "run", run)
    kube: Any = Kube()
    with pytest.raises(ProbeBroken) as raised:
        cni_log.read(kube, POD, "felix", "linux", SINCE, 3.0)
    assert str(raised.value) == words


@pytest.mark.parametrize(
    ("os", "named", "path"),
    [
        ("linux", {"calico_system_cni_config": config("/logs/cni.log")}, "/logs/cni.log"),
        ("linux", {"kube_system_calico_config": config("/logs/cni.log")}, "/logs/cni.log"),
        ("linux", {"calico_system_cni_config": config("/etc/shadow")}, cni_log.PATH),
        ("linux", {"calico_system_cni_config": config("relative.log")}, cni_log.PATH),
        ("linux", {"calico_system_cni_config": config("/x$(reboot).log")}, cni_log.PATH),
        ("linux", {"calico_system_cni_config": {}}, cni_log.PATH),
        ("linux", {}, cni_log.PATH),
        ("windows", {"calico_system_cni_config_windows": config("D:/l/cni.log")}, "D:/l/cni.log"),
        ("windows", {"calico_system_cni_config": config("/other.log")}, cni_log.PATH),
    ],
)
def test_the_path_is_that_of_the_cni_configuration(
    os: OS, named: dict[str, dict[str, str]], path: str
) -> None:
    kube: Any = Kube(**named)
    assert cni_log.path(kube, os) == path


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/var/log/cni.log", r"$path = 'C:\var\log\cni.log';"),
        ("d:/l/cni.log", r"$path = 'd:\l\cni.log';"),
    ],
)
def test_windows_is_asked_for_a_path_with_a_drive(path: str, shown: str) -> None:
    assert shown in cni_log.command("windows", path)[-1]


def test_the_program_has_the_path_that_is_replaced() -> None:
    assert (MANIFESTS / "nodes" / "cni_log.ps1").read_text().count(cni_log.ON_WINDOWS) == 1
