"""Containers of the known images do over real packets what the real ones do."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conftest import Lab


def test_nc_says_open_for_a_listening_pod_and_nothing_for_a_refusal(lab: Lab) -> None:
    lab.start("server", "nginx:1.27")
    client = lab.start("client", "busybox:1.36", command=("sleep", "3600"))
    address = lab.address("server")

    ran = lab.exec(client, "nc", "-vz", "-w", "3", address, "80")
    assert (ran.code, ran.out, ran.err) == (0, "", f"{address} ({address}:80) open\n")

    ran = lab.exec(client, "nc", "-vz", "-w", "3", address, "81")
    assert (ran.code, ran.out, ran.err) == (1, "", "")
