# SPDX-License-Identifier: Apache-2.0
"""Names and addresses of a cluster do not leave it; what says nothing of whose it is stays."""

from __future__ import annotations

import pytest

from conformance.calibrate.stand_ins import StandIns


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("peer 10.0.0.11 and 10.0.0.12", "peer 198.18.0.1 and 198.18.0.2"),
        ('"AddressPrefix":"192.168.1.64/26"', '"AddressPrefix":"198.18.0.1/26"'),
        ("10.0.0.11:6443, 10.0.0.11", "198.18.0.1:6443, 198.18.0.1"),
        ("host WIN-PROD-7.corp.example.com is up", "host node-1.host-1.example.org is up"),
        ("WIN-PROD-7, win-prod-7", "node-1, node-1"),
        ("db.internal.example.com", "host-1.example.org"),
        ("https://AB12.gr7.eu-west-1.eks.example.com:443", "https://host-1.example.org:443"),
        ("https://api.prod.example.com:6443/x", "https://host-1.example.org:6443/x"),
        ("jane@example.com, EXAMPLE.LOCAL", "jane@host-1.example.org, host-2.example.org"),
        ("DB.CORP.EXAMPLE.COM db.corp.example.com", "host-1.example.org host-1.example.org"),
        ("account.blob.core.windows.net", "host-1.example.org"),
        ("db.bank.svc.cluster.local", "host-1.example.org"),
        ("0E-2A-C0-A8-00-43", "0E-2A-00-00-00-01"),
        ("fe80::1ff:fe23:4567:890a%3", "2001:db8::1%3"),
        ("5B2E1F5A-0C1D-4C3B-9E49-1234567890AB", "00000000-0000-0000-0000-000000000001"),
        ("a\\Users\\jane\\x", "a\\Users\\user-1\\x"),
        ("pod calico-node-windows-x2vjq", "pod pod-1"),
        ("id 3f5a9be1c4d27e88", "id hex-1"),
        ('{"account": "123456789012"}', '{"account": "hex-1"}'),
    ],
)
def test_a_stand_in_has_the_form_of_what_it_stands_for(text: str, hidden: str) -> None:
    assert StandIns({"win-prod-7": "node-1"})(text) == hidden


@pytest.mark.parametrize(
    "text",
    [
        '{"LastUpdateTime":133774848000000000,"at": 133774848000000001}',
        '{"a":  133774848000000000, "b":-133774848000000000, "seconds":0.123456789012345}',
        "127.0.0.1 0.0.0.0/0 255.255.255.0",
        "build 10.0.20348.2762, Calico v3.31.2, KB5044281, 10:37:52",
        "mcr.microsoft.com/windows/servercore:ltsc2022 crd.projectcalico.org",
        "web.default.svc.cluster.local. svc.cluster.local, calico-demo-1.svc.cluster.local",
        "/etc/cni/net.d/10-calico.conf.bak, kube-proxy.exe, raw_http.py, felix.log System.Net.Dns",
        "REFUSED ConnectionRefused/10061 in policy-effect/tcp, agent-start/three",
    ],
)
def test_what_says_nothing_of_whose_it_is_stays(text: str) -> None:
    assert StandIns({})(text) == text


def test_names_are_the_same_each_time_and_as_netbios_cuts_them() -> None:
    hide = StandIns({"windows-node-pool-1": "windows-node-1"})
    assert (
        hide("WINDOWS-NODE-PO joins windows-node-pool-1") == "windows-node-1 joins windows-node-1"
    )
    first = hide("10.1.2.3 10.1.2.4")
    assert hide("10.1.2.4 10.1.2.3") == " ".join(reversed(first.split()))


def test_secrets_go_first() -> None:
    assert "hunter2" not in StandIns({})("password: hunter2hunter2")
