# SPDX-License-Identifier: Apache-2.0
"""The host-facts program reports the real state of a network namespace that the test creates."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.errors import ProbeBroken
from conformance.model.host import FdbEntry, LinuxFacts, Neighbour, RouteEntry, Vxlan
from conformance.probe import linux_host

PROGRAM = Path(__file__).parents[2] / "manifests" / "probes" / "host_facts.py"
INSIDE = """
import os, sys
from hybridlab.kernel import namespaces
from hybridlab.kernel.rtnetlink import RouteSocket
namespaces.unshare(namespaces.CLONE_NEWUSER | namespaces.CLONE_NEWNET, "a namespace to look at")
with RouteSocket() as route:
    route.set_link(1)
    tunnel = {"port": 4790, "mtu": 1410, "mac": "66:00:00:00:00:01", "local": "10.9.0.1"}
    route.add_tunnel("vxlan.calico", index=7, identifier=4097, **tunnel)
    route.add_address(7, "192.168.7.0", 32)
    route.set_neighbour(7, "192.168.8.1", "00:15:5d:00:00:08")
    route.set_forwarding(7, "00:15:5d:00:00:08", "10.9.0.2")
    route.set_route("192.168.8.0/26", index=7, via="192.168.8.1", onlink=True)
    route.flush()
os.execv(sys.executable, [sys.executable, "-I", "-S", "-u", sys.argv[1]])
"""


@pytest.fixture(scope="module")
def output() -> bytes:
    """What the program says in that namespace."""
    done = subprocess.run(
        [sys.executable, "-c", INSIDE, str(PROGRAM)], capture_output=True, timeout=30, check=False
    )
    if b"Operation not permitted" in done.stderr:
        pytest.skip("user namespaces are not allowed here")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def facts(output: bytes) -> LinuxFacts:
    """The same, as the judge reads it."""
    return linux_host.parse("n", output)


def test_the_vxlan_device_is_told_with_its_vni_port_and_address(facts: LinuxFacts) -> None:
    link = facts.link("vxlan.calico")
    assert link
    assert link.vxlan == Vxlan(vni=4097, port=4790, local="10.9.0.1")
    assert (link.mtu, link.mac, link.up) == (1410, "66:00:00:00:00:01", True)
    loopback = facts.link("lo")
    assert loopback
    assert loopback.vxlan is None


def test_routes_forwarding_entries_and_neighbours_are_told(facts: LinuxFacts) -> None:
    route = RouteEntry(
        destination="192.168.8.0/26",
        gateway="192.168.8.1",
        device="vxlan.calico",
        onlink=True,
        table=254,
    )
    assert route in facts.routes
    assert (
        FdbEntry(device="vxlan.calico", mac="00:15:5d:00:00:08", destination="10.9.0.2")
        in facts.fdb
    )
    assert (
        Neighbour(device="vxlan.calico", address="192.168.8.1", mac="00:15:5d:00:00:08")
        in facts.neighbours
    )


def test_it_is_one_line_that_names_the_file(output: bytes) -> None:
    assert output.startswith(
        b'@@PROBE@@ {"type":"host-facts","protocol":2,"program":"host_facts.py"'
    )
    assert output.count(b"\n") == 1
    assert hashlib.sha256(PROGRAM.read_bytes()).hexdigest().encode() in output


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda said: b"", "printed 0 answers instead of 1"),
        (lambda said: said + said, "printed 2 answers instead of 1"),
        (lambda said: said[: len(said) // 2], "garbled line"),
        (
            lambda said: said.replace(b'"sha256":"', b'"sha256":"0'),
            "is not this suite's host_facts.py",
        ),
        (lambda said: said.replace(b'"host-facts"', b'"hello"'), "printed 1 answer instead of 1"),
        (lambda said: said.replace(b'"mtu":1410', b'"mtu":null'), "cannot be read"),
        (lambda said: said.replace(b'"fdb"', b'"fbd"'), "cannot be read: KeyError"),
    ],
    ids=["empty", "twice", "cut", "another file", "another line", "a gap", "a table missing"],
)
def test_what_is_not_its_answer_is_a_broken_probe(output: bytes, spoil: object, words: str) -> None:
    with pytest.raises(ProbeBroken, match=words):
        linux_host.parse("n", spoil(output))  # type: ignore[operator]


def test_a_program_that_cannot_read_ends_with_status_3_and_says_nothing(tmp_path: Path) -> None:
    broken = tmp_path / "host_facts.py"
    broken.write_text(
        PROGRAM.read_text().replace(
            "GETLINK, GETROUTE, GETNEIGH = 18,", "GETLINK, GETROUTE, GETNEIGH = 9999,"
        )
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(broken)], capture_output=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout) == (3, b"")
    assert done.stderr.startswith(b"OSError: ")
