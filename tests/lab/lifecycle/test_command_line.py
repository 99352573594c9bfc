# SPDX-License-Identifier: Apache-2.0
"""The ``hybridlab`` command refuses wrong input in one clear line, with a documented exit code,
before it begins anything."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab.lab_process import READY_WITHIN, hybridlab, running_lab


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        pytest.param(
            ["up", "--profile", "defualt"],
            4,
            "there is no profile 'defualt'. Did you mean default? The profiles are ",
            id="profile",
        ),
        pytest.param(
            ["up", "--set", "network.vni=1"],
            4,
            "--set network.vni=1: unknown key 'network.vni'",
            id="key",
        ),
        pytest.param(
            ["up", "--set", "network.block_size=30"],
            4,
            "a block of /30 has 4 addresses",
            id="block size",
        ),
        pytest.param(
            ["up", "--set", "network.pod_cidr=10.0.0.0/16"],
            4,
            "overlaps network.node_cidr",
            id="overlap",
        ),
        pytest.param(
            ["up", "--kubeconfig", "/proc/kubeconfig"],
            4,
            "--kubeconfig /proc/kubeconfig: ",
            id="read-only",
        ),
        pytest.param(
            ["up", "--kubeconfig", "/nowhere/kubeconfig"],
            4,
            "no directory /nowhere",
            id="no directory",
        ),
        pytest.param(["up", "--port", "70000"], 4, "'70000' is not a port", id="port out of range"),
        pytest.param(["statsu"], 4, "; did you mean status?", id="unknown command"),
        pytest.param(
            ["up", "--prot", "1"], 4, "--prot 1; see hybridlab --help", id="unknown option"
        ),
        pytest.param(
            ["status", "--kubeconfig", "/nowhere"],
            4,
            "--kubeconfig /nowhere: no such file",
            id="status",
        ),
        pytest.param(
            ["faults", "--kubeconfig", "/nowhere", "active"],
            4,
            "/nowhere: no such file",
            id="faults",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    arguments: list[str], code: int, expected: str
) -> None:
    done = hybridlab(*arguments)
    assert done.returncode == code
    assert expected in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_a_port_that_is_taken_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = hybridlab("up", "--port", str(port))
    assert done.returncode == 7
    assert f"port {port} on 127.0.0.1 cannot be used: Address already in use" in done.stderr


def test_a_file_that_no_lab_wrote_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("apiVersion: v1\nkind: Config\n")
    done = hybridlab("up", "--kubeconfig", str(path))
    assert done.returncode == 4
    assert "exists and was not written by a lab" in done.stderr
    assert path.read_text() == "apiVersion: v1\nkind: Config\n"


def test_a_stale_kubeconfig_is_recognised_and_replaced(tmp_path: Path) -> None:
    with running_lab(tmp_path, "--profile", "small") as first:
        first.process.kill()
        first.process.wait()
        first_text = first.kubeconfig.read_text()
        stale = hybridlab("status", "--kubeconfig", str(first.kubeconfig))
        assert (stale.returncode, "its lab no longer runs" in stale.stderr) == (4, True), (
            stale.stderr
        )
    with running_lab(tmp_path, "--profile", "small") as second:
        assert second.kubeconfig.read_text() != first_text


def test_two_labs_run_at_once_and_are_told_apart(tmp_path: Path) -> None:
    path, other = tmp_path / "one", tmp_path / "other"
    path.mkdir()
    other.mkdir()
    with (
        running_lab(path, "--profile", "small") as first,
        running_lab(other, "--profile", "small") as second,
    ):
        refused = hybridlab("up", "--kubeconfig", str(first.kubeconfig))
        assert (refused.returncode, "still runs" in refused.stderr) == (4, True), refused.stderr
        statuses = [
            json.loads(hybridlab("status", "--json", "--kubeconfig", str(lab.kubeconfig)).stdout)[0]
            for lab in (first, second)
        ]
        assert statuses[0]["pid"] == first.process.pid
        assert statuses[1]["pid"] == second.process.pid
        assert statuses[0]["server"] != statuses[1]["server"]


def test_a_lab_says_when_it_is_ready_and_ends_cleanly_on_a_signal(tmp_path: Path) -> None:
    with running_lab(tmp_path, "--profile", "small") as lab:
        assert str(lab.kubeconfig) in lab.ready_line
        assert stat.S_IMODE(lab.kubeconfig.stat().st_mode) == 0o600
        assert lab.stop() == 0
        assert not lab.kubeconfig.exists()


def test_at_a_terminal_a_lab_says_what_to_do_next_and_ctrl_c_ends_it_without_a_word(
    tmp_path: Path,
) -> None:
    kubeconfig, (here, there) = tmp_path / "lab.yaml", pty.openpty()
    command = [
        sys.executable,
        "-m",
        "hybridlab",
        "up",
        "--profile",
        "small",
        "--kubeconfig",
        str(kubeconfig),
    ]
    process = subprocess.Popen(
        command, stdin=there, stdout=there, stderr=there, start_new_session=True
    )
    os.close(there)
    try:
        said = _heard(here, b"Ctrl-C ends the lab\r\n")
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does, to all that run there
        after = _heard(here, b"")
        assert process.wait(timeout=30) == 0
    finally:
        process.kill()
        process.wait()
        os.close(here)
    assert f"export KUBECONFIG={kubeconfig}; kubectl get nodes" in said
    assert len(said.splitlines()) == 3
    assert after == ""
    assert not kubeconfig.exists()


def _heard(terminal: int, until: bytes) -> str:
    """Return the output up to some words, or to its end."""
    found = b""
    while not (until and until in found) and select.select([terminal], [], [], READY_WITHIN)[0]:
        try:
            found += os.read(terminal, 4096)
        except OSError:  # nobody has it open any more
            break
    return found.decode()
