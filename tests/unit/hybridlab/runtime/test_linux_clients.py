# SPDX-License-Identifier: Apache-2.0
"""nc, wget and agnhost connect print and return what the real programs were observed to print
and return."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from hybridlab.runtime.applet import HostProblem
from hybridlab.runtime.applets.agnhost import agnhost
from hybridlab.runtime.applets.birdcl import birdcl
from hybridlab.runtime.applets.nc import nc
from hybridlab.runtime.applets.wget import wget

from .conftest import Ran, answering, http_answer, silent, tcp

if TYPE_CHECKING:
    from hybridlab.runtime.applet import Applet

    from .conftest import Harness, Serve


def against(harness: Harness, serve: Serve, applet: Applet, *argv: str) -> tuple[Ran, int]:
    """Run a command whose ``{}`` is the port of a server."""

    async def scenario() -> tuple[Ran, int]:
        async with tcp(serve) as port:
            return await harness.call(applet, *(word.format(port) for word in argv)), port

    return asyncio.run(scenario())


PROTOCOLS = """\
BIRD v0.3.3+birdv1.6.8 ready.
name     proto    table    state  since       info
kernel1  Kernel   master   up     05:04:44    \n\
Mesh_10_0_0_14 BGP      master   start  05:04:44    Passive
"""


def test_birdcl_prints_the_table_of_its_host(harness: Harness) -> None:
    rows = [
        ("kernel1", "Kernel", "master", "up", "05:04:44", ""),
        ("Mesh_10_0_0_14", "BGP", "master", "start", "05:04:44", "Passive"),
    ]
    columns = ("name", "proto", "table", "state", "since", "info")

    class Asked:
        async def ask(self, question: str, arguments: object) -> object:
            assert question == "show protocols"
            return [dict(zip(columns, row, strict=True)) for row in rows]

    class Down:
        async def ask(self, question: str, arguments: object) -> object:
            raise HostProblem("bird", "Unable to connect")

    harness.host = Asked()
    assert harness.run(birdcl, "birdcl", "show", "protocols") == Ran(0, PROTOCOLS, "")
    assert harness.run(birdcl, "birdcl", "show", "route").err == "not emulated: birdcl show route\n"
    harness.host = Down()
    assert harness.run(birdcl, "birdcl", "show", "protocols") == Ran(1, "", "Unable to connect\n")


def test_nc_names_an_open_port_on_standard_error(harness: Harness) -> None:
    harness.net.names["web"] = "127.0.0.1"
    ran, port = against(harness, answering(b""), nc, "nc", "-vz", "-w", "3", "web", "{}")
    assert ran == Ran(0, "", f"web (127.0.0.1:{port}) open\n")
    ran, port = against(harness, answering(b""), nc, "nc", "-z", "127.0.0.1", "{}")
    assert ran == Ran(0, "", "")


def test_nc_is_silent_about_a_refusal_with_one_v(harness: Harness, closed_port: int) -> None:
    assert harness.run(nc, "nc", "-vz", "127.0.0.1", str(closed_port)) == Ran(1, "", "")
    words = f"nc: 127.0.0.1 (127.0.0.1:{closed_port}): Connection refused\nsent 0, rcvd 0\n"
    assert harness.run(nc, "nc", "-vvz", "127.0.0.1", str(closed_port)) == Ran(1, "", words)


@pytest.mark.parametrize("name", ["nosuch", "silent"])
def test_a_name_that_does_not_resolve_is_a_bad_address(harness: Harness, name: str) -> None:
    assert harness.run(nc, "nc", "-vz", name, "80") == Ran(1, "", f"nc: bad address '{name}'\n")
    assert harness.run(wget, "wget", "-q", "-O", "-", f"http://{name}") == Ran(
        1, "", f"wget: bad address '{name}'\n"
    )


@pytest.mark.parametrize(
    "words",
    [("127.0.0.1", "80"), ("-l", "-p", "80", "127.0.0.1", "80"), ("-uz", "127.0.0.1", "80")],
)
def test_nc_refuses_what_carries_or_accepts_data(harness: Harness, words: tuple[str, ...]) -> None:
    ran = harness.run(nc, "nc", *words)
    assert (ran.code, "not emulated: nc" in ran.err) == (1, True)


def test_wget_prints_the_page_and_nothing_else_when_quiet(harness: Harness) -> None:
    ran, _ = against(
        harness,
        http_answer("page"),
        wget,
        "wget",
        "-q",
        "-O",
        "-",
        "-T",
        "3",
        "http://127.0.0.1:{}/",
    )
    assert ran == Ran(0, "page", "")
    ran, port = against(
        harness, http_answer("page"), wget, "wget", "-O", "-", "http://127.0.0.1:{}/"
    )
    assert ran.out == "page"
    assert ran.err.startswith(f"Connecting to 127.0.0.1 (127.0.0.1:{port})\n")


def test_wget_words_its_failures_as_busybox_does(harness: Harness, closed_port: int) -> None:
    ran = harness.run(wget, "wget", "-q", "-O", "-", f"http://127.0.0.1:{closed_port}")
    assert ran == Ran(1, "", "wget: can't connect to remote host (127.0.0.1): Connection refused\n")
    ran, _ = against(
        harness, silent, wget, "wget", "-q", "-T", "0.1", "-O", "-", "http://127.0.0.1:{}"
    )
    assert ran == Ran(1, "", "wget: download timed out\n")
    ran, _ = against(
        harness,
        http_answer("", "404 Not Found"),
        wget,
        "wget",
        "-q",
        "-O",
        "-",
        "http://127.0.0.1:{}",
    )
    assert ran == Ran(1, "", "wget: server returned error: HTTP/1.1 404 Not Found\n")
    ran, _ = against(
        harness, answering(b"\r\n"), wget, "wget", "-q", "-O", "-", "http://127.0.0.1:{}"
    )
    assert ran == Ran(1, "", "wget: error getting response\n")


def test_wget_refuses_what_it_does_not_do(harness: Harness) -> None:
    assert harness.run(wget, "wget", "https://127.0.0.1") == Ran(
        1, "", "not emulated: wget https\n"
    )
    ran = harness.run(wget, "wget", "--spider", "http://127.0.0.1")
    assert (ran.code, ran.err.startswith("not emulated: wget: ")) == (1, True)


def test_agnhost_connect_prints_nothing_or_one_word(harness: Harness, closed_port: int) -> None:
    ran, _ = against(
        harness, answering(b""), agnhost, "/agnhost", "connect", "127.0.0.1:{}", "--timeout=1s"
    )
    assert ran == Ran(0, "", "")
    assert harness.run(agnhost, "agnhost", "connect", f"127.0.0.1:{closed_port}") == Ran(
        1, "", "REFUSED\n"
    )
    ran = harness.run(agnhost, "agnhost", "connect", "nosuch:80")
    assert ran == Ran(1, "", "DNS: lookup nosuch on 127.0.0.1:53: no such host\n")
    assert harness.run(agnhost, "agnhost", "dns-suffix") == Ran(
        1, "", "not emulated: agnhost dns-suffix\n"
    )


def test_agnhost_on_windows_does_not_know_a_refusal(harness: Harness, closed_port: int) -> None:
    harness.settings["os"] = "windows"
    ran = harness.run(agnhost, "agnhost.exe", "connect", f"127.0.0.1:{closed_port}", "--timeout=1s")
    words = "No connection could be made because the target machine actively refused it."
    assert ran == Ran(1, "", f"OTHER: dial tcp 127.0.0.1:{closed_port}: connectex: {words}\n")
