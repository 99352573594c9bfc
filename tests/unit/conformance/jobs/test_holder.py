# SPDX-License-Identifier: Apache-2.0
"""The holder ends when its results are fetched, after 24 hours, or with its pod."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from conformance.cli import main
from conformance.jobs import holder
from conformance.report.pack import home
from tests.unit.conformance.qualify.reports import NEW, decided
from tests.unit.conformance.report.pages import plain

RUN = "2026-11-29T10-00-00Z-0a1b2c"


class NoSleep:
    """A clock on which waits cost nothing, and something happens during one of them."""

    def __init__(self, during: dict[int, object]) -> None:
        self.waits = 0
        self.during = during

    def monotonic(self) -> float:
        return float(self.waits)

    def sleep(self, seconds: float) -> None:
        self.waits += 1
        happens = self.during.get(self.waits, lambda: None)
        assert callable(happens)
        happens()
        assert self.waits < 100, "it waits for ever"


def with_report(results: Path) -> Path:
    folder = results / RUN
    folder.mkdir(parents=True)
    report = plain(decided("DEMO-7", {NEW: "CONFIRMED"}))
    (folder / "conformance.json").write_text(json.dumps(report))
    (folder / "junit.xml").write_text("<testsuites/>")
    return folder


@pytest.fixture(autouse=True)
def signals() -> object:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_it_ends_when_its_results_are_fetched(tmp_path: Path) -> None:
    clock = NoSleep({3: lambda: holder.release(tmp_path / "pod")})
    holder.hold(tmp_path / "pod", clock)
    assert clock.waits == 3


def test_it_ends_a_day_after_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    day = holder.KEPT_FOR
    monkeypatch.setattr(time, "time", lambda: now)

    def written() -> None:
        report = with_report(tmp_path) / "conformance.json"
        os.utime(report, (now + 5000, now + 5000))

    def at(seconds: float) -> object:
        return lambda: monkeypatch.setattr(time, "time", lambda: now + seconds)

    clock = NoSleep({2: written, 4: at(day + 4999), 6: at(day + 5000)})
    holder.hold(tmp_path, clock)
    assert clock.waits == 6
    clock = NoSleep({2: at(2 * day + 5000)})
    holder.hold(tmp_path / "without a report", clock)
    assert clock.waits == 2


def test_a_deleted_pod_ends_it_at_once(tmp_path: Path) -> None:
    program = [sys.executable, "-m", "conformance.cli", "hold", str(tmp_path)]
    held = subprocess.Popen(program, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    until = time.monotonic() + 60
    handled = Path(f"/proc/{held.pid}/status")
    while time.monotonic() < until and not _catches_sigterm(handled.read_text()):
        time.sleep(0.05)
    held.send_signal(signal.SIGTERM)
    assert held.wait(60) == 0, "as process 1 it would not have ended without a handler"


def _catches_sigterm(status: str) -> bool:
    (caught,) = (line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)


def test_what_is_sent_is_the_archive_that_pack_makes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with_report(tmp_path)
    assert main(["hold", "--send", str(tmp_path)]) == 0
    first, *lines, last = capsys.readouterr().out.splitlines()
    body = b"".join(map(base64.b64decode, lines))
    head = json.loads(first)
    assert last == "end"
    assert head == {
        "name": f"{RUN}.zip",
        "bytes": len(body),
        "sha256": hashlib.sha256(body).hexdigest(),
    }
    inside = zipfile.ZipFile(io.BytesIO(body)).namelist()
    assert sorted(inside) == [f"{RUN}/conformance.json", f"{RUN}/junit.xml"]
    assert not list(tmp_path.rglob("*.zip")), "the folder stays as it was"


def test_without_a_report_nothing_is_sent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / RUN).mkdir()
    assert main(["hold", "--send", str(tmp_path)]) == 4
    out, error = capsys.readouterr()
    assert (out, error) == ("", f"ERROR: no run has left a report in {tmp_path}\n")


def test_a_user_without_a_home_has_an_archive_and_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> Path:
        raise RuntimeError("Could not determine home directory.")

    assert home() == Path.home()
    monkeypatch.setattr(Path, "home", nobody)
    assert home() == Path("/")
