# SPDX-License-Identifier: Apache-2.0
"""The capture program reports the packets between some addresses, in a network namespace that
the test creates."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from conformance.errors import ProbeBroken
from conformance.evidence import packets
from conformance.model.capture import Capture
from conformance.probe import linux_host

PROGRAM = Path(__file__).parents[2] / "manifests" / "probes" / "capture.py"
ENDS, PEERS = ("127.0.0.2", "127.0.0.3"), ("127.0.0.8", "127.0.0.9")
INSIDE = """
import os, pathlib, socket, struct, subprocess, sys, time
from hybridlab.kernel import namespaces
from hybridlab.kernel.rtnetlink import RouteSocket
user = os.getuid()
namespaces.unshare(namespaces.CLONE_NEWUSER | namespaces.CLONE_NEWNET, "a namespace to capture in")
pathlib.Path("/proc/self/uid_map").write_text("0 %d 1" % user)  # else what is started has no right to capture
with RouteSocket() as route:
    route.set_link(1)
    route.flush()
def send(source, target, port, data=b"x"):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((source, 0))
        sock.sendto(data, (target, port))
def wrapped(source, target):
    inner = struct.pack(">BBHHHBBH", 0x45, 0, 28, 1, 0, 64, 17, 0)
    inner += socket.inet_aton(source) + socket.inet_aton(target)
    inner += struct.pack(">HHHH", 5000, 80, 8, 0)
    return struct.pack(">II", 0x08000000, 4097 << 8) + bytes(12) + b"\\x08\\x00" + inner
started = subprocess.Popen([sys.executable, "-I", "-S", "-u", sys.argv[1], *sys.argv[2:]])
while started.poll() is None:
    send("127.0.0.2", "127.0.0.3", 8080)
    send("127.0.0.2", "127.0.0.9", 8081)
    send("127.0.0.2", "127.0.0.7", 8082)
    send("127.0.0.6", "127.0.0.7", 8083)
    send("127.0.0.8", "127.0.0.9", 4789, wrapped("127.0.0.3", "127.0.0.2"))
    send("127.0.0.8", "127.0.0.9", 4789, wrapped("127.0.0.6", "127.0.0.7"))
    time.sleep(0.02)
sys.exit(started.returncode)
"""


def run(*arguments: str) -> bytes:
    """What the program says in a namespace in which packets pass between several addresses of
    loopback."""
    done = subprocess.run(
        [sys.executable, "-c", INSIDE, str(PROGRAM), *arguments],
        capture_output=True,
        timeout=60,
        check=False,
    )
    if b"a namespace to capture in" in done.stderr:
        pytest.skip("user namespaces are not allowed here")
    assert done.returncode == 0, done.stderr
    return done.stdout


def captured(ends: tuple[str, ...], peers: tuple[str, ...], seconds: float = 0.7) -> Capture:
    asked = linux_host.capture_argv(seconds, 4789, ends, peers)
    return linux_host.captured("n", run(*asked[len(linux_host.CAPTURE.argv) :]))


def ways(found: Capture) -> set[str]:
    """Ends and ports of each packet, without moments, interface and length."""
    return {line.partition(" lo ")[2] for line in packets.text(found, 4789).splitlines()}


def kinds(found: Capture) -> set[tuple[str, str]]:
    """Direction, and the ports that packets and what they carry go to."""
    return {
        (
            way.split()[0],
            " | ".join(part.split("> ")[-1].split(",")[0].strip() for part in way.split(" | ")),
        )
        for way in ways(found)
        if "UDP" in way
    }


def test_packets_between_ends_and_to_peers_are_captured_and_no_other() -> None:
    assert kinds(captured(ENDS, PEERS)) == {
        (way, port) for way in ("in", "out") for port in ("8080", "8081", "4789 VNI 4097 | 80")
    }


def test_without_peers_all_packets_of_an_end_are_captured() -> None:
    ports = {port for _, port in kinds(captured(ENDS, ()))}
    assert ports == {"8080", "8081", "8082", "4789 VNI 4097 | 80"}


def test_it_ends_with_as_many_packets_as_it_may_have() -> None:
    found = linux_host.captured("n", run("20", "5", "192", "4789", ",".join(ENDS), ",".join(PEERS)))
    assert (len(found.packets), found.full) == (5, True)
    assert "at the maximum number of packets" in packets.text(found, 4789)


def test_the_file_of_a_capture_holds_its_packets() -> None:
    found = captured(("127.0.0.2",), ("127.0.0.3",))
    file = packets.pcap(found)
    assert file[:4] == bytes.fromhex("d4c3b2a1")
    assert len(file) == 24 + sum(16 + 20 + len(packet.data) for packet in found.packets)


def test_what_another_program_says_is_no_capture() -> None:
    said = run("0.1", "5", "192", "4789", "127.0.0.2", "-")
    with pytest.raises(ProbeBroken, match=r"not this suite's capture\.py"):
        linux_host.captured("n", said.replace(linux_host.CAPTURE.sha256.encode(), b"0" * 64))
    with pytest.raises(ProbeBroken, match="printed 0 answers instead of 1"):
        linux_host.captured("n", b"")
