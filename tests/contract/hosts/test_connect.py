# SPDX-License-Identifier: Apache-2.0
"""connect.ps1 in a real PowerShell: to a listener, a closed port and a silent port on loopback."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
from collections.abc import Iterator

import pytest

from conformance.errors import ProbeBroken
from conformance.model.observation import Verdict
from conformance.probe import windows_host
from conformance.probe.host import STOP


@contextlib.contextmanager
def silent() -> Iterator[int]:
    """A port of loopback whose queue is full: first packets to it are dropped."""
    with socket.socket() as server, contextlib.ExitStack() as held:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        for _ in range(4):
            waiting = held.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(server.getsockname())
        yield server.getsockname()[1]


@pytest.mark.powershell
def test_each_target_has_the_result_of_its_own_connection() -> None:
    pwsh = shutil.which("pwsh")
    if pwsh is None:
        pytest.skip("no pwsh is on the PATH")
    with socket.create_server(("127.0.0.1", 0)) as server, silent() as dropped:
        with socket.create_server(("127.0.0.1", 0)) as gone:
            closed = gone.getsockname()[1]
        ports = (dropped, server.getsockname()[1], closed)
        targets = [f"127.0.0.1:{port}" for port in ports]
        script = STOP + windows_host.connecting(targets, 1.5)
        done = subprocess.run(
            [pwsh, "-NoLogo", "-NoProfile", "-NonInteractive", "-Command", script],
            capture_output=True,
            timeout=60,
            check=True,
        )
    output = done.stdout.decode("ascii")
    assert windows_host.connections(output, targets, "the host") == dict(
        zip(targets, (Verdict.TIMED_OUT, Verdict.CONNECTED, Verdict.REFUSED), strict=True)
    )


def test_a_target_that_is_no_address_and_port_is_not_asked() -> None:
    for target in ("10.0.0.1", "host:80", "10.0.0.1:80'; Remove-Item x; '"):
        with pytest.raises(ProbeBroken, match="is not an IPv4 address with a port"):
            windows_host.connecting(["10.0.0.1:80", target], 1.0)


@pytest.mark.parametrize(
    "attempts",
    [
        "[]",
        '{"to":"10.0.0.2:80","result":"Connected"}',
        '{"to":"10.0.0.1:80","result":"NoBufferSpaceAvailable"}',
        '{"to":"10.0.0.1:80"}',
    ],
)
def test_an_answer_without_a_known_result_is_a_broken_probe(attempts: str) -> None:
    output = f'{{"attempts":{attempts},"errors":{{}}}}'
    with pytest.raises(ProbeBroken, match=r"gave no readable verdict for 10\.0\.0\.1:80"):
        windows_host.connections(output, ["10.0.0.1:80"], "the host")


def test_one_attempt_is_an_object() -> None:
    output = '{"attempts":{"to":"10.0.0.1:80","result":"HostUnreachable"},"errors":{}}'
    found = windows_host.connections(output, ["10.0.0.1:80"], "the host")
    assert found == {"10.0.0.1:80": Verdict.UNREACHABLE}
