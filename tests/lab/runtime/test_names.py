# SPDX-License-Identifier: Apache-2.0
"""How pods resolve names: their hosts file, options of their resolver, several nameservers, aliases."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from hybridlab.dataplane.model import PodSpec, Zone

if TYPE_CHECKING:
    from tests.lab.runtime.conftest import Lab

HOSTS = "127.0.0.1\tlocalhost\n192.168.1.40\tme.sub.demo.svc.cluster.local\tme\n10.1.1.1\talias alias.example # no\n"
SERVERCORE = "mcr.microsoft.com/windows/servercore:ltsc2022"
COREDNS = "registry.k8s.io/coredns/coredns:v1.12.1"
ZONE = Zone(
    domain="cluster.local",
    a={
        "web.demo.svc.cluster.local": ("192.168.1.9",),
        "web.demo.svc.cluster.local.svc.cluster.local": ("192.168.1.8",),
    },
    cname={
        "out.demo.svc.cluster.local": "db.example.com",
        "in.demo.svc.cluster.local": "web.demo.svc.cluster.local",
    },
)


def added(lab: Lab, name: str, node: str = "l1", **changed: Any) -> PodSpec:
    """A pod whose names are not the usual ones."""
    return lab.run(lab.pod(name, node, **changed))


def served(lab: Lab, name: str) -> str:
    """The address of a nameserver that knows the zone."""
    lab.run(lab.plane.set_zone(ZONE))
    lab.start(name, COREDNS)
    return lab.address(name)


def test_the_hosts_file_is_there_and_says_what_names_mean(lab: Lab) -> None:
    added(lab, "me", etc_hosts=HOSTS)
    container = lab.start("me", "busybox:1.36", command=("sleep", "3600"))
    assert lab.exec(container, "cat", "/etc/hosts").out == HOSTS
    for name, address in (
        ("alias.example", "10.1.1.1"),
        ("me.sub.demo.svc.cluster.local", "192.168.1.40"),
    ):
        assert lab.exec(container, "wget", "-T", "1", f"http://{name}").err.startswith(
            f"Connecting to {name} ({address}"
        )
    unknown = lab.exec(container, "wget", "-T", "1", "http://no")
    assert "bad address" in unknown.err


def test_a_windows_pod_has_it_where_windows_looks(lab: Lab) -> None:
    added(lab, "win-me", "w1", etc_hosts=HOSTS)
    container = lab.start(
        "win-me", SERVERCORE, command=("powershell.exe", "-Command", "Start-Sleep 3600")
    )
    read = r"Get-Content -Raw C:\Windows\System32\drivers\etc\hosts"
    assert lab.exec(container, "powershell.exe", "-Command", read).out.startswith(HOSTS)
    ran = lab.exec(container, "powershell.exe", "-Command", "ping -n 1 -w 100 alias")
    assert "Pinging alias [10.1.1.1]" in ran.out


@pytest.mark.parametrize("options", [("ndots:5",), ("ndots:1", "edns0"), ()])
def test_resolv_conf_has_the_pods_own_options(lab: Lab, options: tuple[str, ...]) -> None:
    name = f"options-{len(options)}"
    added(lab, name, resolver_options=options)
    container = lab.start(name, "busybox:1.36", command=("sleep", "3600"))
    lines = lab.exec(container, "cat", "/etc/resolv.conf").out.splitlines()
    assert [line for line in lines if line.startswith("options")] == (
        [f"options {' '.join(options)}"] if options else []
    )


@pytest.mark.parametrize(
    ("options", "address"), [(("ndots:5",), "192.168.1.8"), (("ndots:4",), "192.168.1.9")]
)
def test_a_name_with_dots_enough_is_asked_as_it_stands_first(
    lab: Lab, options: tuple[str, ...], address: str
) -> None:
    name = f"has-{options[0].replace(':', '-')}"
    added(lab, name, resolver_options=options, nameservers=(served(lab, f"dns-{name}"),))
    container = lab.start(name, "busybox:1.36", command=("sleep", "3600"))
    assert (
        address in lab.exec(container, "wget", "-T", "1", "http://web.demo.svc.cluster.local").err
    )


def test_a_nameserver_that_is_silent_leaves_its_names_to_the_next(lab: Lab) -> None:
    server = served(lab, "dns-second")
    added(lab, "two", nameservers=("192.168.1.61", server))
    container = lab.start("two", "busybox:1.36", command=("sleep", "3600"))
    began = time.monotonic()
    assert (
        "192.168.1.9"
        in lab.exec(container, "wget", "-T", "1", "http://web.demo.svc.cluster.local.").err
    )
    assert time.monotonic() - began > 1


def test_ipconfig_shows_every_nameserver(lab: Lab) -> None:
    added(lab, "win-two", "w1", nameservers=("10.96.0.10", "1.1.1.1"))
    container = lab.start(
        "win-two", SERVERCORE, command=("powershell.exe", "-Command", "Start-Sleep 3600")
    )
    out = lab.exec(container, "ipconfig.exe", "/all").out
    assert "   DNS Servers . . . . . . . . . . . : 10.96.0.10\r\n" + " " * 39 + "1.1.1.1\r\n" in out


def test_a_name_that_stands_for_another_is_followed(lab: Lab) -> None:
    server = served(lab, "dns-cname")
    client = lab.start("asks-cname", "busybox:1.36", command=("sleep", "3600"), nameserver=server)
    inside = lab.exec(client, "nslookup", "in.demo.svc.cluster.local.").out
    assert "in.demo.svc.cluster.local\tcanonical name = web.demo.svc.cluster.local" in inside
    assert "Name:\tweb.demo.svc.cluster.local\nAddress: 192.168.1.9" in inside
    outside = lab.exec(client, "nslookup", "out.demo.svc.cluster.local.")
    assert (
        outside.code,
        outside.out.count("canonical name = db.example.com"),
        "No answer" in outside.out,
    ) == (
        0,
        2,
        False,
    )
    assert "192.168.1.9" in lab.exec(client, "wget", "-T", "1", "http://in").err
    assert "bad address" in lab.exec(client, "wget", "-T", "1", "http://out").err
