# SPDX-License-Identifier: Apache-2.0
"""Low ports and ping need a capability or the sysctls, for real processes and for applets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lab.runtime.conftest import Lab

BIND = (
    "import socket, sys; socket.create_server(('', int(sys.argv[1]))); "
    "print('listens', len([1 for line in open('/proc/self/status') if line.startswith('CapEff')]))"
)
CAPABILITIES = "print([line for line in open('/proc/self/status') if line.startswith('CapEff')])"
PYTHON = "python:3.13.1-alpine3.21"


@pytest.mark.parametrize(
    ("granted", "port", "listens"),
    [
        ({"capabilities": (), "port_start": 1024}, "53", False),
        ({"capabilities": (), "port_start": 1024}, "1024", True),
        ({"capabilities": (), "port_start": 0}, "53", True),
        ({"capabilities": ("NET_BIND_SERVICE",), "port_start": 1024}, "53", True),
        ({"capabilities": ("NET_RAW",), "port_start": 1024}, "53", False),
        ({"port_start": 1024}, "53", True),
    ],
)
def test_a_low_port_needs_the_capability_or_the_sysctl(
    lab: Lab, granted: dict[str, object], port: str, listens: bool
) -> None:
    pod = f"low-{abs(hash(str(granted) + port))}"
    container = lab.start(pod, PYTHON, command=("sleep", "60"), **granted)
    ran = lab.exec(container, "python3", "-c", BIND, port)
    assert ("listens" in ran.out) is listens, ran.err
    assert ("PermissionError: [Errno 13] Permission denied" in ran.err) is not listens


@pytest.mark.parametrize(("port_start", "denied"), [(80, False), (81, True)])
def test_an_applet_listens_where_the_kernel_would_let_it(
    lab: Lab, port_start: int, denied: bool
) -> None:
    pod = f"web-{port_start}"
    container = lab.start(pod, "nginx:1.27.5", capabilities=(), port_start=port_start)
    if denied:
        assert "bind() to 0.0.0.0:80 failed (13: Permission denied)" in lab.log(
            container, follow=True
        )
    else:
        asked = lab.start(f"asks-{pod}", "busybox:1.37.0", command=("sleep", "60"), pod=pod)
        assert "nginx" in lab.exec(asked, "wget", "-q", "-O", "-", "http://127.0.0.1/").out


def test_a_container_without_capabilities_has_none(lab: Lab) -> None:
    container = lab.start("none", PYTHON, command=("sleep", "60"), capabilities=())
    assert "0000000000000000" in lab.exec(container, "python3", "-c", CAPABILITIES).out
    usual = lab.start("usual", PYTHON, command=("sleep", "60"))
    assert "0000000000000000" not in lab.exec(usual, "python3", "-c", CAPABILITIES).out


@pytest.mark.parametrize(("may_ping", "code"), [(True, 0), (False, 1)])
def test_ping_needs_the_capability_or_the_group(lab: Lab, may_ping: bool, code: int) -> None:
    container = lab.start(
        f"ping-{may_ping}", "busybox:1.37.0", command=("sleep", "60"), may_ping=may_ping
    )
    ran = lab.exec(container, "ping", "-c", "1", "-W", "1", "127.0.0.1")
    assert ran.result.exit_code == code, ran.err
    assert ("ping: permission denied (are you root?)" in ran.err) is not may_ping
