# SPDX-License-Identifier: Apache-2.0
"""Every program for Windows hosts, executed by a real PowerShell with functions in place of the
cmdlets.

Every cmdlet that reads or changes the machine is such a function. A program that names any other
command is not executed.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from conformance.model.host import BgpHost, BgpPeer, BgpRoute
from conformance.probe import windows_host
from hybridlab.runtime.applet import HostProblem
from tests.contract.hosts.harness import Ended, Harness, Refused
from tests.contract.hosts.programs import programs
from tests.unit.hybridlab.powershell.test_host_cmdlets import KnownHost, powershell

pytestmark = pytest.mark.powershell
PROGRAMS = programs()
ODD = "ToR 1 \u00fc\u4e2d <'&\">"
SEVERAL_LINES = "one\ntwo 'and' \u00fc"


@pytest.fixture(scope="module")
def harness() -> Iterator[Harness]:
    one = Harness()
    yield one
    one.end()


def objects(*rows: object) -> str:
    """The body of a function that puts out these."""
    text = json.dumps(rows).replace("'", "''")
    return f"ConvertFrom-Json -InputObject '{text}' | ForEach-Object {{ $_ }}"


def text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def error(identity: str, message: str = SEVERAL_LINES) -> str:
    made = f"[System.Exception]::new({text(message)}), {text(identity)}, 'NotSpecified', $null"
    return f"throw [System.Management.Automation.ErrorRecord]::new({made})"


SHAPES: dict[str, str] = {
    "two": objects({"ID": "n-1", "Name": "a", "Subnets": []}, {"ID": "n-2", "Name": ODD}),
    "one": objects({"ID": "n-1", "Name": ODD, "CommandLine": "x -felix", "ProcessId": 7}),
    "none": "",
    "null": "$null",
    "error": error("Some,Thing", "no"),
    "several lines": error("Some,Thing"),
}
CMDLETS = (
    "Get-HnsNetwork",
    "Get-HnsEndpoint",
    "Get-HnsPolicyList",
    "Get-CimInstance",
    "Get-Content",
    "Get-ItemProperty",
    "Get-Service",
    "Get-BgpRouter",
    "Get-BgpPeer",
    "Get-BgpCustomRoute",
    "Get-BgpRouteInformation",
)
"""What reads a host."""
ACTS = (
    "Stop-Process",
    "Restart-Service",
    "Remove-HnsNetwork",
    "Remove-Item",
    "Invoke-CimMethod",
    "Start-Sleep",
    "Select-String",
    r"C:\Windows\System32\pktmon.exe",
    r"C:\Windows\System32\hnsdiag.exe",
    r"C:\Windows\System32\netsh.exe",
)
"""What acts on it, or takes time."""


def functions(body: str) -> dict[str, str]:
    acts = dict.fromkeys(ACTS, "") | {"Invoke-CimMethod": objects({"ReturnValue": 0})}
    return dict.fromkeys(CMDLETS, body) | acts | {"Get-Culture": objects({"Name": "de-DE"})}


ON_LOOPBACK = {"connect"}
"""What opens connections, which nothing stands in for: test_connect.py executes it on loopback."""


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in ON_LOOPBACK])
def test_a_program_names_only_what_a_test_stands_in_for_and_ends_with_an_error_only_after_one(
    harness: Harness, name: str, shape: str
) -> None:
    done = harness.run(PROGRAMS[name], functions(SHAPES[shape]))
    if done.exit:
        assert shape in ("error", "several lines") or name == "packets", done
    assert done.output.isascii() or name not in JSON_OF, done.output
    if name in JSON_OF:
        assert (done.exit, isinstance(json.loads(done.output)["errors"], dict)) == (0, True)


JSON_OF = ("bgp", "cni tokens", "calico version", "registry", "hns", "load")
"""The programs that print one JSON object in ASCII, whatever comes."""


@pytest.mark.parametrize("name", JSON_OF)
def test_errors_are_printed_with_their_id_and_whole_message(harness: Harness, name: str) -> None:
    said = json.loads(harness.run(PROGRAMS[name], functions(SHAPES["several lines"])).output)
    assert said["errors"]
    for found in said["errors"].values():
        assert found == {"id": "Some,Thing", "message": SEVERAL_LINES}


# --- what is refused before it runs ---


@pytest.mark.parametrize(
    "script",
    [
        "Remove-Item C:\\x",
        "Get-Process",
        "rm x",
        "ls",
        "/bin/sh -c 'touch /tmp/x'",
        "& '/bin/sh' -c x",
        "& { Get-Process }",
        "Get-HnsNetwork | ForEach-Object { $x = 'Get-Process'; & $x }",
        "Get-HnsNetwork | ForEach-Object { & $_.Name }",
        "& ('Get-' + 'Process')",
        "$x = 'Get-Process'; & $x",
        "$x = '/bin/sh'; & $x",
        "$x = 'ConvertTo-Json'; & $x",
        "$x = 'Out-Null'; try { 1 | & $x } catch { }",
        "& ('Write-' + 'Output') 1",
        "& ('Write-Output' | ForEach-Object { $_ }) 1",
        "$x = { 1 }; & $x",
        "Get-HnsNetwork | ForEach-Object { & ('Write-Output' | ForEach-Object { & $_ $_ }) }",
        "[System.IO.File]::Delete('/tmp/x')",
        "[regex]::new('x')",
        "[scriptblock]::Create('1')",
        "Invoke-Expression '1'",
        "iex 1",
        "'x' > /tmp/x",
        "'x' | Write-Output > /tmp/x",
        ". ./x.ps1",
        "$env:PATH",
        "$env:PATH = 'x'",
        "${function:x} = 'y'",
        "$ExecutionContext.InvokeCommand.InvokeScript('1')",
        "$x = $ExecutionContext; $x.InvokeCommand.InvokeScript('1')",
        "$Host.UI",
        "function x { }",
        "ForEach-Object { Get-Process }",
        "'x'.GetType()",
        "New-Object System.Net.WebClient",
        "$_ | ForEach-Object -MemberName Delete",
        "$_ | ForEach-Object Delete",
        "Get-Date; 1",
    ],
)
def test_a_program_that_names_anything_else_is_not_executed(harness: Harness, script: str) -> None:
    with pytest.raises(Refused):
        harness.run(script, {"Get-HnsNetwork": objects({"Name": "Get-Process"})})


def test_of_the_cni_plugins_log_only_errors_leave_the_host_after_its_time_zone(
    harness: Harness,
) -> None:
    errors = ["1 [ERROR][1] a", "2 [FATAL][1] b", "3 [PANIC][1] c", "panic: d", "fatal error: e"]
    calm = ["4 [INFO][1] a [ERRORS] x", "5 [WARNING][1] error"]
    lines = ", ".join(map(text, [calm[0], *errors, calm[1]]))
    zone = objects({"CurrentTimeZone": -360})
    done = harness.run(PROGRAMS["cni log"], {"Get-CimInstance": zone, "Get-Content": lines})
    assert done.output.splitlines() == ["-360", *errors]
    assert done.calls == [
        ["Get-CimInstance", "Win32_OperatingSystem"],
        ["Get-Content", "-Tail", "4000", "-Path", r"C:\var\log\calico\cni\cni.log"],
    ]
    many = "1..300 | ForEach-Object { '[ERROR] ' + $_ }"
    done = harness.run(PROGRAMS["cni log"], {"Get-CimInstance": zone, "Get-Content": many})
    newest = [f"[ERROR] {number}" for number in range(101, 301)]
    assert done.output.splitlines() == ["-360", *newest], "older errors are of before the run"


def test_a_call_through_a_variable_reaches_a_function_of_the_test(harness: Harness) -> None:
    tool = r"C:\Windows\System32\pktmon.exe"
    done = harness.run(f"$x = '{tool}'; & $x start --capture ($x + '.etl')", {tool: "'said'"})
    assert done == Ended("said\r\n", 0, "", [[tool, "start", "--capture", tool + ".etl"]])


def test_it_has_no_privileges_and_no_network_and_writes_nowhere(harness: Harness) -> None:
    body = """
        $status = [System.IO.File]::ReadAllText('/proc/self/status')
        ($status -split "`n") -match '^(CapEff|CapBnd|NoNewPrivs)'
        $files = foreach ($place in '/', '/etc', '/usr', $PSHOME) {
            try { [System.IO.File]::WriteAllText("$place/written", 'x'); "wrote $place" } catch { }
        }
        $files
        @([System.IO.Directory]::GetDirectories('/proc') -match '/[0-9]+$').Count -lt 5
        [System.Net.NetworkInformation.NetworkInterface]::GetAllNetworkInterfaces().Count
    """
    done = harness.run("Get-HnsNetwork", {"Get-HnsNetwork": body})
    lines = done.output.split("\r\n")
    assert lines[:2] == ["CapEff:\t0000000000000000", "CapBnd:\t0000000000000000"], done
    assert lines[2:5] == ["NoNewPrivs:\t1", "True", "1"], done


# --- the same objects give the lab's emulator the same output ---


class Host(KnownHost):
    """The host of a lab that answers from a table, and refuses some questions."""

    def __init__(self, answers: Mapping[str, Any], refused: Mapping[str, str]) -> None:
        super().__init__()
        self.answers = {"services": {}, "files": {}, "registry": {}, **answers}
        self.refused = refused

    async def ask(self, question: str, arguments: Mapping[str, object]) -> object:
        if question in self.refused:
            raise HostProblem("remote-access", self.refused[question])
        return await super().ask(question, arguments)


BGP: dict[str, list[dict[str, Any]]] = {
    "Get-BgpRouter": [{"BgpIdentifier": "10.0.0.14", "LocalASN": 64512}],
    "Get-BgpPeer": [
        {"PeerName": "Mesh_1", "PeerIPAddress": "10.0.0.11", "ConnectivityStatus": "Connected"}
    ],
    "Get-BgpCustomRoute": [{"Network": ["192.168.1.0/26", "192.168.2.0/26"]}],
    "Get-BgpRouteInformation": [
        {
            "DestinationNetwork": "192.168.3.0/26",
            "NextHop": "10.0.0.11",
            "LearnedFromPeer": "Mesh_1",
        }
    ],
}
OTHER_ROWS: dict[str, list[dict[str, Any]]] = {
    "Get-BgpRouter": [{"BgpIdentifier": None, "LocalASN": 64512}],
    "Get-BgpPeer": [
        {"PeerName": ODD, "PeerIPAddress": "10.0.0.1", "ConnectivityStatus": "Connected"},
        *BGP["Get-BgpPeer"],
    ],
    "Get-BgpCustomRoute": [{"Network": ["192.168.1.0/26"]}, {"Network": []}],
    "Get-BgpRouteInformation": [
        {"DestinationNetwork": "192.168.1.0/26", "NextHop": None, "LearnedFromPeer": None},
        *BGP["Get-BgpRouteInformation"],
    ],
}


def both(
    harness: Harness, script: str, bodies: Mapping[str, str], host: KnownHost
) -> tuple[int, str]:
    """Exit code and output, which are the same for the functions and the lab's emulator."""
    done = harness.run(script, dict(bodies))
    code, out, _ = powershell(script, host)
    assert (done.exit, done.output) == (code, out), (done, out)
    return code, out


@pytest.mark.parametrize(
    "rows", [BGP, OTHER_ROWS, dict.fromkeys(BGP, ())], ids=["usual", "odd", "none"]
)
@pytest.mark.parametrize("failing", ["", "Get-BgpRouter", "Get-BgpPeer", "Get-BgpCustomRoute"])
def test_what_a_host_knows_of_bgp(
    harness: Harness, rows: Mapping[str, Sequence[Any]], failing: str
) -> None:
    bodies = {name: objects(*found) for name, found in rows.items()}
    bodies["Get-Service"] = objects({"Name": "RemoteAccess", "Status": "Running"})
    answers: dict[str, Any] = {name.lower(): list(found) for name, found in rows.items()}
    if failing:
        bodies[failing] = error(f"WIN32 0,{failing}")
    host = Host(
        {**answers, "services": {"RemoteAccess": "Running"}},
        {failing.lower(): SEVERAL_LINES} if failing else {},
    )
    code, out = both(harness, PROGRAMS["bgp"], bodies, host)
    assert code == 0
    assert out.isascii()
    seen = windows_host.bgp_host(out, "the host")
    assert seen.errors == (
        {ASKED[failing]: f"WIN32 0,{failing} {SEVERAL_LINES}"} if failing else {}
    )
    if rows is OTHER_ROWS and not failing:
        assert seen == BgpHost(
            service="Running",
            router="64512",
            peers=(
                BgpPeer(ODD, "10.0.0.1", "Connected"),
                BgpPeer("Mesh_1", "10.0.0.11", "Connected"),
            ),
            custom_routes=("192.168.1.0/26",),
            routes=(
                BgpRoute("192.168.1.0/26", "", ""),
                BgpRoute("192.168.3.0/26", "10.0.0.11", "Mesh_1"),
            ),
        )


ASKED = {"Get-BgpRouter": "router", "Get-BgpPeer": "peer", "Get-BgpCustomRoute": "custom"}
KUBECONFIG = r"C:\etc\cni\net.d\calico-kubeconfig"
OTHER_KUBECONFIG = r"C:\k\cni\config\calico-kubeconfig"
PAYLOAD = base64.urlsafe_b64encode(b'{"aud":["a"],"exp":1764000000,"sub":"b"}').decode().rstrip("=")
TOKEN = f"token: eyJhbGciOiJSUzI1NiJ9.{PAYLOAD}.c2lnbmF0dXJl"


@pytest.mark.parametrize(
    ("files", "ends"),
    [
        ({}, []),
        ({KUBECONFIG: "users:\n  " + TOKEN + "\n"}, [datetime(2025, 11, 24, 16, 0, tzinfo=UTC)]),
        (
            {KUBECONFIG: "token: a.b.c", OTHER_KUBECONFIG: TOKEN},
            [None, datetime(2025, 11, 24, 16, 0, tzinfo=UTC)],
        ),
    ],
    ids=["none", "one", "two"],
)
def test_when_the_tokens_of_the_cni_plugin_end(
    harness: Harness, files: dict[str, str], ends: list[datetime | None]
) -> None:
    cases = "".join(
        f"if ($args -contains {text(path)}) {{ return {text(found)} }}; "
        for path, found in files.items()
    )
    missing = (
        "$path = $args | Where-Object { $_ -like 'C:*' }; "
        "$words = 'Cannot find path ''' + $path + ''' because it does not exist.'; "
    )
    made = (
        "[System.Exception]::new($words), "
        "'PathNotFound,Microsoft.PowerShell.Commands.GetContentCommand', 'NotSpecified', $null"
    )
    body = f"{cases}{missing}throw [System.Management.Automation.ErrorRecord]::new({made})"
    _, out = both(
        harness, PROGRAMS["cni tokens"], {"Get-Content": body}, Host({"files": files}, {})
    )
    assert windows_host.token_ends(out, "the host") == ends
    assert not re.search("eyJhbGci|c2lnbmF0", out), "of the token more than its end"


def test_what_hns_has_is_printed_whole(harness: Harness) -> None:
    kinds = {"networks": "Network", "endpoints": "Endpoint", "policy_lists": "PolicyList"}
    deep = {"ID": "n-1", "Subnets": [{"Policies": [{"Type": "VSID", "VSID": 4096}]}]}
    rows = {f"Get-Hns{kind}": [deep | {"Name": kind + ODD}] * 2 for kind in kinds.values()}
    bodies = {name: objects(*found) for name, found in rows.items()}
    host = Host({"networks": rows["Get-HnsNetwork"], "endpoints": rows["Get-HnsEndpoint"],
                 "policy-lists": rows["Get-HnsPolicyList"]}, {})  # fmt: skip
    code, out = both(harness, PROGRAMS["hns"], bodies, host)
    assert (code, out.isascii()) == (0, True)
    told = {name: rows[f"Get-Hns{kind}"] for name, kind in kinds.items()}
    assert json.loads(out) == {**told, "errors": {}}


def test_how_busy_a_host_is(harness: Harness) -> None:
    body = (
        "if ($args -contains 'Win32_Processor') { return "
        + objects({"LoadPercentage": 7}, {"LoadPercentage": 93})
        + " }; "
        + objects({"FreePhysicalMemory": 1024, "TotalVisibleMemorySize": 4096})
    )
    done = harness.run(PROGRAMS["load"], {"Get-CimInstance": body})
    memory = {"free": "1024", "all": "4096"}
    assert json.loads(done.output) == {"processors": ["7", "93"], "memory": memory, "errors": {}}


def test_load_balancers_and_taken_ports_are_asked_of_the_hosts_own_tools(harness: Harness) -> None:
    tools = [rf"C:\Windows\System32\{name}.exe" for name in ("hnsdiag", "netsh")]
    done = harness.run(PROGRAMS["load balancers"], {tool: f"'{tool[20:25]}'" for tool in tools})
    assert done.output == "hnsdi\r\nnetsh\r\n"
    assert [call[1:3] for call in done.calls] == [["list", "loadbalancers"], ["int", "ipv4"]]


@pytest.mark.parametrize("name", ["hns networks", "hns endpoints"])
@pytest.mark.parametrize(
    "rows",
    [
        [],
        [{"ID": "n-1", "Name": "Calico"}],
        [{"ID": "n-1", "Name": "Calico"}, {"ID": "n-2", "Name": "nat"}],
    ],
    ids=["none", "one", "two"],
)
def test_what_hns_lists(harness: Harness, name: str, rows: list[dict[str, Any]]) -> None:
    cmdlet, question = (
        ("Get-HnsNetwork", "networks") if "net" in name else ("Get-HnsEndpoint", "endpoints")
    )
    both(harness, PROGRAMS[name], {cmdlet: objects(*rows)}, Host({question: rows}, {}))


@pytest.mark.parametrize("rows", [[], ["KB1"], ["KB1", "KB2"]], ids=["none", "one", "two"])
def test_which_updates_a_host_lists(harness: Harness, rows: list[str]) -> None:
    found = [{"HotFixID": name} for name in rows]
    both(
        harness,
        PROGRAMS["updates"],
        {"Get-CimInstance": objects(*found)},
        Host({"updates": found}, {}),
    )


def by_argument(place: int, found: Mapping[str, Sequence[object]], missing: str = "") -> str:
    """The body of a function that puts out other objects for each value of an argument."""
    cases = "".join(
        f"if ($args[{place}] -eq {text(value)}) {{ return {objects(*rows)} }}; "
        for value, rows in found.items()
    )
    return cases + missing


def by_filter(rows: Sequence[Mapping[str, Any]]) -> str:
    """The body of a Get-CimInstance of processes, which are asked for by their names."""
    names = dict.fromkeys(str(row["Name"]) for row in rows)
    return by_argument(
        2, {f"Name='{name}'": [row for row in rows if row["Name"] == name] for name in names}
    )


def missing_path(kind: str) -> str:
    """The end of a body: what a cmdlet says of a path where nothing is."""
    made = (
        "[System.Management.Automation.ItemNotFoundException]::new('Cannot find path ''' + $path "
        "+ ''' because it does not exist.'), "
        f"'PathNotFound,Microsoft.PowerShell.Commands.{kind}Command', 'ObjectNotFound', $path"
    )
    return (
        "$path = $args[[array]::IndexOf($args, '-Path') + 1]; if ($args -contains "
        "'SilentlyContinue') { return }; "
        f"throw [System.Management.Automation.ErrorRecord]::new({made})"
    )


def process(name: str, **more: Any) -> dict[str, Any]:
    return {"Name": name, "ProcessId": 7, "CommandLine": f"{name} --x", **more}


FELIX = r"C:\CalicoWindows\calico-node.exe"
NEWER_FELIX = "C:\\Program Files\\Calico \u00fc\\calico.exe"


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([], ("", "")),
        ([process("calico-node.exe", ExecutablePath=None)], ("", "")),
        ([process("calico-node.exe", ExecutablePath=FELIX)], (FELIX, "v3.24.0")),
        (
            [
                process("calico.exe", ExecutablePath=NEWER_FELIX),
                process("calico.exe", ExecutablePath=FELIX),
            ],
            (NEWER_FELIX, "v3.24.0"),
        ),
        (
            [
                process("calico.exe", ExecutablePath=NEWER_FELIX),
                process("calico-node.exe", ExecutablePath=FELIX),
            ],
            (FELIX, "v3.24.0"),
        ),
    ],
    ids=["none", "no path", "one", "two of a name", "two names"],
)
def test_which_program_runs_as_felix(
    harness: Harness, rows: list[dict[str, Any]], found: tuple[str, str]
) -> None:
    bodies = {"Get-CimInstance": by_filter(rows)} | dict.fromkeys(
        (FELIX, NEWER_FELIX), text("v3.24.0")
    )
    host = Host({"processes": rows, "calico-version": "v3.24.0"}, {})
    code, out = both(harness, PROGRAMS["calico version"], bodies, host)
    assert (code, windows_host.calico_program(out, "the host")) == (0, found)


HNS_STATE = r"SYSTEM\CurrentControlSet\Services\hns\State"
VFP = r"SYSTEM\CurrentControlSet\Services\VfpExt\Parameters"
"""Values here are without quotation marks and angle brackets: a JSON text inside a JSON text, which
5.1 writes with other escapes than PowerShell 7."""
NET = r"SOFTWARE\Microsoft\NET Framework Setup\NDP\v4\Full"
PROVIDER = "Microsoft.PowerShell.Core\\Registry::HKEY_LOCAL_MACHINE\\"


def with_provider(key: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of a registry key and what PowerShell's provider adds to them."""
    parent, _, child = key.rpartition("\\")
    return {
        **values,
        "PSPath": PROVIDER + key,
        "PSParentPath": PROVIDER + parent,
        "PSChildName": child,
    }


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {HNS_STATE: {"HnsAclUpdateChange": 1}},
        {
            HNS_STATE: {"HnsAclUpdateChange": 1, "ToR 1 \u00fc": "\u4e2d \\"},
            VFP: {},
            NET: {"Release": 528449, "Version": "4.8.04161", "Servicing": 0},
        },
    ],
    ids=["none", "one", "several"],
)
def test_what_the_registry_has(harness: Harness, keys: Mapping[str, dict[str, Any]]) -> None:
    rows = {"HKLM:\\" + key: [with_provider(key, found)] for key, found in keys.items()}
    body = by_argument(1, rows, missing_path("GetItemProperty"))
    code, out = both(
        harness,
        PROGRAMS["registry"],
        {"Get-ItemProperty": body, "Get-Culture": objects({"Name": "en-US"})},
        Host({"registry": keys}, {}),
    )
    found = windows_host.differences(out, "the host")
    assert (code, found["LanguageMode"], found["Culture"]) == (0, "FullLanguage", "en-US")
    assert len(found) == 2 + sum(len(values) for key, values in keys.items() if key != NET) + 2 * (
        NET in keys
    )


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [process("kube-proxy.exe", CommandLine=None)],
        [process("kube-proxy.exe", CommandLine=f'C:\\k\\kube-proxy.exe "{ODD}"')],
        [process("kube-proxy.exe"), process("kube-proxy.exe", CommandLine="two"), process("x.exe")],
    ],
    ids=["none", "no command line", "one", "two"],
)
def test_the_command_lines_of_a_program(harness: Harness, rows: list[dict[str, Any]]) -> None:
    both(
        harness,
        PROGRAMS["command lines"],
        {"Get-CimInstance": by_filter(rows)},
        Host({"processes": rows}, {}),
    )


CNI = r"C:\etc\cni\net.d\10-calico.conflist"
AKS_CNI = r"C:\k\azurecni\netconf\10-azure.conf"


@pytest.mark.parametrize(
    "files",
    [
        {},
        {CNI: ""},
        {CNI: '{\r\n "name": "Calico"\r\n}\r\n'},
        {CNI: "{}", AKS_CNI: f"{ODD}\nlast"},
    ],
    ids=["none", "empty", "one", "two"],
)
def test_the_cni_configuration(harness: Harness, files: dict[str, str]) -> None:
    places = {
        path.rpartition("\\")[0] + r"\*.conf*": [found] if found else []
        for path, found in files.items()
    }
    body = by_argument(2, places, missing_path("GetContent"))
    both(harness, PROGRAMS["cni configuration"], {"Get-Content": body}, Host({"files": files}, {}))


@pytest.mark.parametrize("content", [None, "", "one", f"{ODD}\r\nlast\r\n"])
def test_a_file_of_a_host(harness: Harness, content: str | None) -> None:
    files = {} if content is None else {r"C:\k\x": content}
    found = {path: [content] if content else [] for path, content in files.items()}
    body = by_argument(2, found, missing_path("GetContent"))
    code, _ = both(harness, PROGRAMS["file"], {"Get-Content": body}, Host({"files": files}, {}))
    assert code == (content is None)


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([], ""),
        ([process("calico-node.exe", CommandLine="calico-node.exe -felix-live")], ""),
        (
            [
                process("calico-node.exe", CommandLine="calico-node.exe -felix"),
                process("calico-node.exe", CommandLine=None),
                process("calico.exe", CommandLine="calico.exe component felix ", ProcessId=9),
            ],
            "7\r\n9\r\n",
        ),
    ],
    ids=["none", "another", "two"],
)
def test_which_processes_are_felix(
    harness: Harness, rows: list[dict[str, Any]], found: str
) -> None:
    bodies = {"Get-CimInstance": by_filter(rows)}
    host = Host({"processes": rows}, {})
    assert both(harness, PROGRAMS["felix_process LIST"], bodies, host) == (0, found)


# --- what acts on a host ---


def test_the_networks_that_are_named_are_removed_and_no_others(harness: Harness) -> None:
    rows = objects({"ID": "n-0"}, {"ID": "n-1"})
    removing = "$input | ForEach-Object { 'removed ' + $_.ID }"
    done = harness.run(
        PROGRAMS["remove hns networks"], {"Get-HnsNetwork": rows, "Remove-HnsNetwork": removing}
    )
    assert (done.output, done.exit) == ("removed n-1\r\n", 0)


def test_felix_alone_is_ended(harness: Harness) -> None:
    rows = objects(
        {"ProcessId": 7, "CommandLine": "calico-node.exe -felix"},
        {"ProcessId": 8, "CommandLine": "calico-node.exe -felix-live"},
        {"ProcessId": 9, "CommandLine": None},
    )
    done = harness.run(PROGRAMS["felix_process END"], {"Get-CimInstance": rows, "Stop-Process": ""})
    stopped = [call for call in done.calls if call[0] == "Stop-Process"]
    assert [call[1:] for call in stopped] == [["-Id", "7", "-Force"]] * 2, (
        "once for each of the two names"
    )


def test_pktmon_is_stopped_and_its_files_go_also_where_it_cannot_start(harness: Harness) -> None:
    tool = r"C:\Windows\System32\pktmon.exe"
    done = harness.run(PROGRAMS["packets"], functions("") | {tool: error("x", "no room") + "; "})
    assert (done.exit, "no room" in done.problem) == (1, True)
    done = harness.run(PROGRAMS["packets"], functions(""))
    asked = [" ".join(call) for call in done.calls]
    assert asked[0].startswith("Invoke-CimMethod -ClassName Win32_Process -MethodName Create"), (
        asked
    )
    assert [call.split()[1] for call in asked if call.startswith(tool)] == [
        "start",
        "stop",
        "etl2txt",
    ]
    assert asked[-1].startswith("Remove-Item -Path C:\\Windows\\Temp\\calico-conformance-")
