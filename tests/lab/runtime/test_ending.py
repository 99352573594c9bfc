# SPDX-License-Identifier: Apache-2.0
"""Containers that are asked to end, and what they do until their grace period is over."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lab.runtime.conftest import Lab

AGNHOST = "registry.k8s.io/e2e-test-images/agnhost:2.53"
TRAPS = ("sh", "-c", "trap 'echo bye; exit 5' TERM; while true; do sleep 0.02; done")


def stopped(lab: Lab, container: str, grace: float) -> float:
    """Stop it; the seconds that this took."""
    began = time.monotonic()
    lab.run(lab.runtime.stop(container, grace=grace))
    return time.monotonic() - began


@pytest.mark.parametrize(
    ("image", "command"),
    [
        pytest.param("busybox:1.36", ("sleep", "3600"), id="sleep"),
        pytest.param("busybox:1.36", ("ping", "127.0.0.1"), id="ping"),
        pytest.param("busybox:1.36", ("sh", "-c", "while true; do sleep 1; done"), id="sh"),
    ],
)
def test_a_pid_1_without_a_handler_has_all_its_grace_and_is_killed(
    patient_lab: Lab, image: str, command: tuple[str, ...]
) -> None:
    container = patient_lab.start(f"deaf-{command[0]}", image, command=command)
    assert stopped(patient_lab, container, 1.5) >= 1.5
    assert patient_lab.ended(container).exit_code == 137


@pytest.mark.parametrize(
    ("image", "command", "code"),
    [
        pytest.param("nginx:1.27", (), 143, id="nginx"),
        pytest.param(AGNHOST, ("/agnhost", "netexec"), 143, id="agnhost"),
        pytest.param("busybox:1.36", TRAPS, 5, id="a trap"),
        pytest.param("mcr.microsoft.com/windows/servercore:ltsc2022",
                     ("powershell.exe", "-Command", "Start-Sleep 3600"), 143, id="Windows"),
    ],
)  # fmt: skip
def test_a_program_that_handles_it_ends_at_once(
    patient_lab: Lab, image: str, command: tuple[str, ...], code: int
) -> None:
    container = patient_lab.start(
        f"heeds-{image.partition(':')[0][-5:]}-{code}", image, command=command
    )
    if command == TRAPS:
        time.sleep(0.3)  # until its trap is set
    assert stopped(patient_lab, container, 20.0) < 15
    assert patient_lab.ended(container).exit_code == code


def test_netexec_serves_and_takes_commands_until_its_delay_is_over(patient_lab: Lab) -> None:
    command = ("/agnhost", "netexec", "--http-port=80", "--delay-shutdown=2")
    container = patient_lab.start("delays", AGNHOST, command=command)
    client = patient_lab.start("asks", "busybox:1.36", command=("sleep", "3600"))
    asking = ("wget", "-qO-", "-T", "1", f"http://{patient_lab.address('delays')}/hostname")
    assert patient_lab.exec(client, *asking).out == "delays"

    async def ask_while_it_ends() -> tuple[str, str, int | None]:
        began = time.monotonic()
        stopping = asyncio.create_task(patient_lab.runtime.stop(container, grace=20.0))
        await asyncio.sleep(0.5)
        served = await patient_lab.execute(client, *asking)
        name = await patient_lab.execute(container, "/agnhost", "pause-is-none")
        await stopping
        assert 2.0 <= time.monotonic() - began < 15
        return served.out, name.err, name.code

    assert patient_lab.run(ask_while_it_ends()) == (
        "delays",
        "not emulated: agnhost pause-is-none\n",
        1,
    )
    assert patient_lab.ended(container).exit_code == 0
    assert "Sleeping 2 seconds before terminating..." in patient_lab.log(container)
    assert patient_lab.exec(client, *asking).code == 1


def test_a_delay_beyond_the_grace_is_cut_off_by_it(patient_lab: Lab) -> None:
    container = patient_lab.start(
        "too-slow", AGNHOST, command=("/agnhost", "netexec", "--delay-shutdown=600")
    )
    assert 1.0 <= stopped(patient_lab, container, 1.0) < 15
    assert patient_lab.ended(container).exit_code == 137
