# SPDX-License-Identifier: Apache-2.0
"""Programs of Windows learn of a refused connection after the time that the lab's settings give,
Linux programs at once."""

from __future__ import annotations

import pytest

from hybridlab.powershell.applets import applets
from hybridlab.runtime.applets.agnhost import agnhost
from tests.unit.hybridlab.runtime.conftest import Harness, Ran

AGNHOST = ("/agnhost", "connect", "127.0.0.1:PORT")
POWERSHELL = ("powershell", "-Command")
PROGRAMS = [
    pytest.param(
        (*POWERSHELL, "iwr http://127.0.0.1:PORT -UseBasicParsing"), id="Invoke-WebRequest"
    ),
    pytest.param(AGNHOST, id="agnhost"),
]


def ran(harness: Harness, port: int, argv: tuple[str, ...]) -> Ran:
    applet = agnhost if argv[0] == "/agnhost" else applets()["powershell"]
    return harness.run(applet, *(word.replace("PORT", str(port)) for word in argv))


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr("hybridlab.runtime.applets.refusals.asyncio.sleep", sleep)
    return waits


@pytest.mark.parametrize("argv", PROGRAMS)
def test_a_program_of_windows_hears_of_a_refusal_late(
    harness: Harness, closed_port: int, slept: list[float], argv: tuple[str, ...]
) -> None:
    harness.settings |= {"os": "windows", "windows_refused_ms": 1500}
    ran(harness, closed_port, argv)
    assert 1.5 in slept


def test_a_program_of_linux_hears_of_it_at_once(
    harness: Harness, closed_port: int, slept: list[float]
) -> None:
    harness.settings |= {"os": "linux", "windows_refused_ms": 1500}
    assert "REFUSED" in ran(harness, closed_port, AGNHOST).err
    assert 1.5 not in slept


def test_who_waits_less_long_than_windows_does_times_out(
    harness: Harness, closed_port: int
) -> None:
    harness.settings |= {"os": "windows", "windows_refused_ms": 60000}
    assert ran(harness, closed_port, (*AGNHOST, "--timeout=50ms")).err == "TIMEOUT\n"
    script = "iwr http://127.0.0.1:PORT -UseBasicParsing -TimeoutSec 1"
    assert "The operation has timed out." in ran(harness, closed_port, (*POWERSHELL, script)).err
