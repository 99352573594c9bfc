# SPDX-License-Identifier: Apache-2.0
"""The PowerShell one-liners that read a Windows host, against a host with known state."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from conformance.model.host import BgpHost, BgpPeer, BgpRoute
from conformance.probe import windows_host
from hybridlab.powershell.command_line import run
from hybridlab.runtime.applet import HostProblem, Process
from hybridlab.windows import cni_kubeconfig
from tests.unit.hybridlab.windows.loopback import LoopbackNet

NETWORKS = [
    {"ID": "A", "Name": "External", "Subnets": [{"Policies": [{"Type": "VSID", "VSID": 9999}]}]},
    {"ID": "B", "Name": "Calico", "Subnets": [{"Policies": [{"Type": "VSID", "VSID": 4096}]}]},
]
FILE = "C:\\etc\\cni\\net.d\\10-calico.conflist"
JSON = "ConvertTo-Json -Depth 10 -Compress"


class Collected:
    """An output, as text."""

    def __init__(self) -> None:
        self.text = ""

    async def write(self, data: bytes) -> None:
        self.text += data.decode()


class NoFiles:
    """A container without files of its own."""

    def read(self, path: str) -> bytes:
        raise FileNotFoundError(path)

    def write(self, path: str, data: bytes) -> None:
        raise AssertionError(path)


class KnownHost:
    """Answers from a table and keeps what was done."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {
            "networks": list(NETWORKS),
            "endpoints": [],
            "policy-lists": [{"ID": "P"}],
            "services": {"hns": "Running", "CalicoFelix": "Stopped"},
            "processes": [
                {
                    "Name": "calico-node.exe",
                    "ProcessId": 4084,
                    "CommandLine": "calico-node.exe -felix",
                }
            ],
            "files": {FILE: '{"name": "Calico"}\n'},
        }
        self.done: list[tuple[str, Mapping[str, object]]] = []
        self.failing: dict[str, str] = {}

    async def ask(self, question: str, arguments: Mapping[str, object]) -> object:
        if question in self.failing:
            raise HostProblem(self.failing[question], "HNS failed")
        if question in self.answers:
            return self.answers[question]
        self.done.append((question, arguments))
        if arguments.get("id") == 1:
            raise HostProblem("no-process", "Cannot find a process with the process identifier 1.")
        return None


def powershell(script: str, host: KnownHost | None) -> tuple[int, str, str]:
    out, err = Collected(), Collected()

    async def go() -> int:
        made = Process(
            argv=("powershell.exe", "-NoLogo", "-NoProfile", "-NonInteractive", "-Command", script),
            env={}, net=LoopbackNet(), files=NoFiles(), stdin=asyncio.StreamReader(),
            stdout=out, stderr=err, settings={}, host=host,
        )  # fmt: skip
        return await run(made)

    return asyncio.run(go()), out.text, err.text


def answer(script: str, host: KnownHost | None = None) -> Any:
    code, out, err = powershell(script, host or KnownHost())
    assert (code, err) == (0, "")
    return json.loads(out) if out else None


def test_several_objects_are_an_array_one_is_an_object_and_none_is_nothing() -> None:
    assert answer(f"Get-HnsNetwork | {JSON}") == NETWORKS
    assert answer(f"Get-HnsPolicyList | {JSON}") == {"ID": "P"}
    assert answer(f"Get-HnsEndpoint | {JSON}") is None


def test_what_is_deeper_than_asked_for_is_cut_to_text() -> None:
    network = answer(
        "Get-HnsNetwork | Where-Object { $_.Name -eq 'Calico' } | ConvertTo-Json -Depth 1 -Compress"
    )
    assert network["Subnets"] == ["@{Policies=System.Object[]}"]


def test_a_property_that_an_object_lacks_is_null() -> None:
    assert (
        answer("Get-HnsNetwork | Where-Object { $_.Nothing -eq 'x' } | ConvertTo-Json -Compress")
        is None
    )


def test_the_network_that_is_piped_in_is_removed() -> None:
    host = KnownHost()
    assert powershell(
        "Get-HnsNetwork | Where-Object { $_.Name -eq 'Calico' } | Remove-HnsNetwork", host
    ) == (0, "", "")
    assert host.done == [("remove-network", {"id": "B"})]


def test_services() -> None:
    read = "Get-Service -Name {} | Select-Object Name, Status | ConvertTo-Json -Compress"
    assert answer(read.format("hns")) == {"Name": "hns", "Status": 4}
    assert answer(read.format("CalicoFelix")) == {"Name": "CalicoFelix", "Status": 1}
    code, _, err = powershell(read.format("CalicoNode"), KnownHost())
    assert code == 1
    assert "Cannot find any service with service name 'CalicoNode'." in err
    host = KnownHost()
    powershell("Restart-Service -Name CalicoFelix", host)
    assert host.done == [("restart-service", {"name": "CalicoFelix"})]


def test_processes() -> None:
    select = "Select-Object ProcessId, CommandLine | ConvertTo-Json -Compress"
    found = answer(f"Get-CimInstance Win32_Process -Filter \"name='calico-node.exe'\" | {select}")
    assert found == {"ProcessId": 4084, "CommandLine": "calico-node.exe -felix"}
    assert answer(f"Get-CimInstance Win32_Process -Filter \"name='calico.exe'\" | {select}") is None
    host = KnownHost()
    assert powershell("Stop-Process -Id 4084 -Force", host)[0] == 0
    assert host.done == [("stop-process", {"id": 4084})]
    code, _, err = powershell("Stop-Process -Id 1 -Force", host)
    assert code == 1
    assert "Cannot find a process with the process identifier 1." in err


def test_updates() -> None:
    read = "Get-CimInstance Win32_QuickFixEngineering | ForEach-Object { $_.HotFixID }"
    host = KnownHost()
    host.answers["updates"] = [
        {"Description": "Update", "HotFixID": name} for name in ("KB5044281", "KB5042350")
    ]
    assert powershell(read, host)[:2] == (0, "KB5044281\r\nKB5042350\r\n")
    host.answers["updates"] = []
    assert powershell(read, host)[:2] == (0, "")


def test_the_clock_of_a_host_is_in_utc() -> None:
    read = "Get-CimInstance Win32_OperatingSystem | ForEach-Object { $_.CurrentTimeZone }"
    assert powershell(read, KnownHost())[:2] == (0, "0\r\n")
    assert "not emulated" in powershell(read, None)[2]


def test_files() -> None:
    assert answer(f"Get-Content -Raw -Path '{FILE}'") == {"name": "Calico"}
    assert answer("Get-Content -Raw -Path 'C:\\etc\\cni\\net.d\\10-calico.conf*'") == {
        "name": "Calico"
    }
    host = KnownHost()
    host.answers["files"] = {FILE: "a\nb\nc\n"}
    assert powershell(f"Get-Content -Tail 2 -Path '{FILE}'", host)[:2] == (0, "b\r\nc\r\n")
    assert powershell(f"Get-Content -Tail 9 -Path '{FILE}'", host)[1] == "a\r\nb\r\nc\r\n"
    assert powershell(f"Get-Content -Tail 0 -Path '{FILE}'", host)[1] == ""
    assert "not emulated" in powershell(f"Get-Content -Raw -Tail 2 -Path '{FILE}'", host)[2]
    code, _, err = powershell("Get-Content -Raw -Path 'C:\\etc\\nothing'", KnownHost())
    assert code == 1
    assert "Cannot find path 'C:\\etc\\nothing'" in err


@pytest.mark.parametrize(
    "script",
    [
        "Get-NetRoute",
        "Get-HnsNetwork -Id A",
        "Get-Service",
        "Get-Service -Name spooler",
        "Get-CimInstance Win32_Process",
        "Get-CimInstance Win32_QuickFixEngineering -Filter \"HotFixID='KB5044281'\"",
        "Get-CimInstance Win32_Process -Filter \"name='kubelet.exe'\"",
        "Remove-HnsNetwork",
    ],
)
def test_anything_else_is_not_emulated(script: str) -> None:
    code, out, err = powershell(script, KnownHost())
    assert (code, out) == (1, "")
    assert err.startswith("not emulated: ")


def test_a_container_that_is_no_hostprocess_container_sees_no_host() -> None:
    said = powershell("Get-HnsNetwork", None)
    assert said == (1, "", "not emulated: cmdlet Get-HnsNetwork outside a HostProcess container\n")


@pytest.mark.parametrize(
    ("kind", "printed", "says", "stopped"),
    [
        ("hns-error", "null", True, 1),
        ("hns-silent", '""', False, 0),
        ("hns-garbled", '""', True, 1),
    ],
)
def test_an_hns_that_fails_shows_it_in_the_error_stream_only(
    kind: str, printed: str, says: bool, stopped: int
) -> None:
    host = KnownHost()
    host.failing = {"networks": kind, "remove-network": kind}
    code, out, err = powershell(f"Get-HnsNetwork | {JSON}", host)
    assert (code, out, "HNS failed" in err) == (0, f"{printed}\r\n", says)
    code, out, _ = powershell(f"$ErrorActionPreference = 'Stop'; Get-HnsNetwork | {JSON}", host)
    assert (code, out) == (stopped, "" if stopped else f"{printed}\r\n")
    code, out, _ = powershell(
        "Get-HnsNetwork | ? Name -eq Calico | Remove-HnsNetwork; 'after'", host
    )
    assert (code, out) == (0, "after\r\n")
    host.failing.pop("networks")
    code, _, err = powershell(
        "Get-HnsNetwork | Where-Object { $_.Name -eq 'Calico' } | Remove-HnsNetwork", host
    )
    assert (code, "HNS failed" in err) == (0, says)


HNS_STATE = "SYSTEM\\CurrentControlSet\\Services\\hns\\State"


def test_values_of_a_registry_key_with_what_the_provider_adds() -> None:
    host = KnownHost()
    host.answers["registry"] = {HNS_STATE: {"HnsAclUpdateChange": 1, "Mode": "x"}}
    found = answer(
        f"Get-ItemProperty -Path 'HKLM:\\{HNS_STATE}' | ConvertTo-Json -Depth 1 -Compress", host
    )
    assert found["HnsAclUpdateChange"] == 1
    assert found["PSPath"].endswith(f"HKEY_LOCAL_MACHINE\\{HNS_STATE}")
    read = "Get-ItemProperty -Path 'HKLM:\\SYSTEM\\None'"
    assert powershell(f"{read} -ErrorAction SilentlyContinue | ConvertTo-Json; 'on'", host) == (
        0,
        "on\r\n",
        "",
    )
    assert "Cannot find path" in powershell(read, host)[2]


def test_what_the_session_is() -> None:
    said = "'LanguageMode=' + $ExecutionContext.SessionState.LanguageMode; 'Culture=' + (Get-Culture).Name"
    assert powershell(said, KnownHost())[1].split() == [
        "LanguageMode=FullLanguage",
        "Culture=en-US",
    ]


def test_calicos_program_says_its_version_and_does_nothing_else() -> None:
    host = KnownHost()
    host.answers["calico-version"] = "v3.24.0"
    assert (
        powershell("$path = 'C:\\CalicoWindows\\calico-node.exe'; & $path -v", host)[1].strip()
        == "v3.24.0"
    )
    assert "not emulated" in powershell("calico-node.exe -felix", host)[2]


BGP = {
    "get-bgprouter": [{"BgpIdentifier": "10.0.0.14", "LocalASN": 64512}],
    "get-bgppeer": [
        {
            "PeerName": "Mesh_10_0_0_11",
            "PeerIPAddress": "10.0.0.11",
            "ConnectivityStatus": "Connected",
        }
    ],
    "get-bgpcustomroute": [{"Interface": [], "Network": ["192.168.1.0/26", "192.168.2.0/26"]}],
    "get-bgprouteinformation": [
        {
            "DestinationNetwork": "192.168.3.0/26",
            "NextHop": "10.0.0.11",
            "LearnedFromPeer": "Mesh_10_0_0_11",
        }
    ],
}


def test_the_suites_program_about_the_cni_plugins_token_prints_its_end_alone() -> None:
    host, began = KnownHost(), 1_764_000_000
    code, out, err = powershell(windows_host.CNI_TOKENS, host)
    assert (code, windows_host.token_ends(out, "the host"), err) == (0, [], "")
    host.answers["files"] = {"C:\\etc\\cni\\net.d\\calico-kubeconfig": cni_kubeconfig.text(began)}
    code, out, err = powershell(windows_host.CNI_TOKENS, host)
    assert (code, err) == (0, "")
    (end,) = windows_host.token_ends(out, "the host")
    assert end is not None
    assert end.timestamp() == began + 24 * 3600
    assert len(json.loads(out)["tokens"]["exp"]) <= 24


def bgp_of(host: KnownHost) -> Any:
    code, out, err = powershell(windows_host.BGP, host)
    assert (code, err) == (0, "")
    return windows_host.bgp_host(out, "the host")


def test_the_suites_program_about_bgp_says_what_the_host_knows() -> None:
    host = KnownHost()
    host.answers |= BGP | {"services": {"RemoteAccess": "Running"}}
    assert bgp_of(host) == BgpHost(
        service="Running",
        router="10.0.0.14 64512",
        peers=(BgpPeer(name="Mesh_10_0_0_11", address="10.0.0.11", state="Connected"),),
        custom_routes=("192.168.1.0/26", "192.168.2.0/26"),
        routes=(BgpRoute(network="192.168.3.0/26", next_hop="10.0.0.11", peer="Mesh_10_0_0_11"),),
    )


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("remote-access", "BGP is not configured."),
        ("unknown", "CommandNotFoundException The term 'Get-BgpPeer' is not rec"),
    ],
)
def test_the_suites_program_about_bgp_goes_on_after_an_error(kind: str, message: str) -> None:
    class Refusing(KnownHost):
        async def ask(self, question: str, arguments: Mapping[str, object]) -> object:
            if question.startswith("get-bgp"):
                raise HostProblem(kind, "BGP is not configured.")
            return await super().ask(question, arguments)

    seen = bgp_of(Refusing())
    assert seen.errors["service"].startswith("NoServiceFoundForGivenName")
    assert message in seen.errors["peer"]
    assert set(seen.errors) == {"service", "router", "peer", "custom", "route"}
