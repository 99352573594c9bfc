# SPDX-License-Identifier: Apache-2.0
"""Containers of the known images do the same as the real ones, with real packets."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from hybridlab.dataplane.model import Zone
from hybridlab.dataplane.sandbox_socket import sandbox_socket
from hybridlab.runtime.model import ProbeSpec

if TYPE_CHECKING:
    from hybridlab.runtime.model import OS
    from tests.lab.runtime.conftest import Lab

WEB_SERVER = """
$listener = New-Object System.Net.HttpListener ; $listener.Prefixes.Add('http://*:80/') ; $listener.Start() ;
$callerCounts = @{} ; Write-Host('Listening at http://*:80/') ;
while ($listener.IsListening) { ;$context = $listener.GetContext() ;$requestUrl = $context.Request.Url ;
$clientIP = $context.Request.RemoteEndPoint.Address ;$response = $context.Response ;Write-Host '' ;
Write-Host('> {0}' -f $requestUrl) ; ;$count = 1 ;$k=$callerCounts.Get_Item($clientIP) ;
if ($k -ne $null) { $count += $k } ;
$callerCounts.Set_Item($clientIP, $count) ;$ip=(Get-NetAdapter | Get-NetIpAddress);
$header='<html><body><H1>Windows Container Web Server</H1>' ;$callerCountsString='' ;
$callerCounts.Keys | % {
$callerCountsString+='<p>IP {0} callerCount {1} ' -f $ip[1].IPAddress,$callerCounts.Item($_) } ;
$footer='</body></html>' ;$content='{0}{1}{2}' -f $header,$callerCountsString,$footer ;Write-Output $content ;
$buffer = [System.Text.Encoding]::UTF8.GetBytes($content) ;$response.ContentLength64 = $buffer.Length ;
$response.OutputStream.Write($buffer, 0, $buffer.Length) ;$response.Close() ;$responseStatus = $response.StatusCode ;
Write-Host('< {0}' -f $responseStatus) } ;
"""
SERVERCORE = "mcr.microsoft.com/windows/servercore:ltsc2022"


def test_nc_says_open_for_a_listening_pod_and_nothing_for_a_refusal(lab: Lab) -> None:
    lab.start("nc-server", "nginx:1.27")
    client = lab.start("nc-client", "busybox:1.36", command=("sleep", "3600"))
    address = lab.address("nc-server")

    ran = lab.exec(client, "nc", "-vz", "-w", "3", address, "80")
    assert (ran.code, ran.out, ran.err) == (0, "", f"{address} ({address}:80) open\n")

    ran = lab.exec(client, "nc", "-vz", "-w", "3", address, "81")
    assert (ran.code, ran.out, ran.err) == (1, "", "")

    ran = lab.exec(client, "nc", "-vvz", "-w", "3", address, "81")
    assert ran.err == f"nc: {address} ({address}:81): Connection refused\nsent 0, rcvd 0\n"


def test_nothing_behind_an_address_is_a_timeout_and_never_open(lab: Lab) -> None:
    client = lab.start("timeout-client", "busybox:1.36", command=("sleep", "3600"))
    ran = lab.exec(client, "nc", "-vz", "-w", "1", "192.168.1.60", "80")
    assert (ran.code, ran.err) == (1, "nc: 192.168.1.60 (192.168.1.60:80): Connection timed out\n")
    ran = lab.exec(client, "wget", "-q", "-O", "-", "-T", "1", "http://192.168.1.60")
    assert (ran.code, ran.err) == (1, "wget: download timed out\n")


def test_a_shell_pipeline_runs_applets_and_real_programs_together(lab: Lab) -> None:
    lab.start("shell-server", "nginx:1.27")
    client = lab.start("shell-client", "busybox:1.36", command=("sleep", "3600"))
    address = lab.address("shell-server")
    assert (
        lab.exec(client, "sh", "-c", f"wget -q -O - http://{address} | grep -c Welcome").out
        == "2\n"
    )
    assert lab.exec(client, "sh", "-c", f"nc -vz -w 3 {address} 80 2>&1 && echo yes").out.endswith(
        "open\nyes\n"
    )
    assert lab.exec(client, "ash", "-c", "echo $0").out == "ash\n"
    script = (
        f"printf '80\\n81\\n' | while read p; do nc -z -w 1 {address} $p && echo $p; done; true"
    )
    assert lab.exec(client, "sh", "-c", script).out == "80\n", "nc -z must not eat the loop's input"


def test_the_listener_script_of_the_windows_web_server_is_interpreted(lab: Lab) -> None:
    server = lab.start("listener", SERVERCORE, command=("powershell.exe", "-command", WEB_SERVER))
    linux = lab.start("listener-linux", "busybox:1.36", command=("sleep", "3600"))
    windows = lab.start(
        "listener-windows", SERVERCORE, command=("powershell.exe", "-Command", "Start-Sleep 360000")
    )
    url = f"http://{lab.address('listener')}"

    ran = lab.exec(linux, "wget", "-q", "-O", "-", url)
    page = "<html><body><H1>Windows Container Web Server</H1><p>IP {} callerCount 1 </body></html>"
    assert ran.out == page.format(lab.address("listener"))
    # without a Content-Type .Content is an array of bytes, as in a real PowerShell
    script = f"(iwr {url} -UseBasicParsing).RawContent; (iwr {url} -UseBasicParsing).StatusCode"
    ran = lab.exec(windows, "powershell", script)
    assert ran.out.endswith("\r\n200\r\n")
    assert "callerCount 1 <p>IP" in ran.out, "one counter for each caller"
    assert lab.log(server).startswith("Listening at http://*:80/\r\n\r\n> http://")
    lab.run(lab.runtime.stop(server, grace=0))
    ran = lab.exec(linux, "nc", "-z", "-w", "2", lab.address("listener"), "80")
    assert ran.code == 1, "its socket is closed with it"


def test_windows_containers_answer_the_demo_commands(lab: Lab) -> None:
    lab.start("demo-nginx", "nginx:1.27")
    lab.start(
        "demo-porter",
        "calico/porter:ltsc2022",
        env=(("SERVE_PORT_80", "This is a Calico for Windows demo."),),
    )
    client = lab.start(
        "demo-pwsh",
        SERVERCORE,
        command=("powershell.exe",),
        args=("-Command", "Start-Sleep 360000"),
    )
    for server, text in (
        ("demo-nginx", "Welcome to nginx!"),
        ("demo-porter", "This is a Calico for Windows demo."),
    ):
        ran = lab.exec(
            client,
            *("powershell", "Invoke-WebRequest", "-Uri", f"http://{lab.address(server)}"),
            *("-UseBasicParsing", "-TimeoutSec", "5"),
        )
        assert ran.code == 0
        assert "StatusCode        : 200\r\n" in ran.out
        assert text in ran.out
    ran = lab.exec(
        client,
        "powershell",
        "Invoke-WebRequest",
        "-Uri",
        "http://192.168.1.61",
        "-UseBasicParsing",
        "-TimeoutSec",
        "1",
    )
    assert ran.code == 1
    assert ran.err.startswith(
        "Invoke-WebRequest : The operation has timed out.\r\nAt line:1 char:1\r\n"
    )


def test_the_cluster_resolver_answers_every_tool(lab: Lab) -> None:
    lab.run(
        lab.plane.set_zone(
            Zone(domain="cluster.local", a={"web.demo.svc.cluster.local": ("192.168.1.9",)})
        )
    )
    lab.start("dns", "registry.k8s.io/coredns/coredns:v1.12.1")
    server = lab.address("dns")
    old = lab.start("dns-old", "busybox:1.28", command=("sleep", "3600"), nameserver=server)
    new = lab.start("dns-new", "busybox:1.36", command=("sleep", "3600"), nameserver=server)
    windows = lab.start(
        "dns-windows",
        SERVERCORE,
        command=("cmd", "/c", "ping -t 127.0.0.1 >NUL"),
        nameserver=server,
    )

    ran = lab.exec(old, "nslookup", "web")
    assert (ran.code, "not emulated: nslookup of busybox 1.28" in ran.err) == (1, True)
    ran = lab.exec(new, "nslookup", "web")
    assert ran.code == 1, "the newer applet asks every suffix and fails with any of them"
    assert "Address: 192.168.1.9" in ran.out
    assert "** server can't find web.svc.cluster.local: NXDOMAIN" in ran.out
    ran = lab.exec(new, "nc", "-vz", "nosuch", "80")
    assert (ran.code, ran.err) == (1, "nc: bad address 'nosuch'\n")
    ran = lab.exec(windows, "powershell", "[Net.Dns]::GetHostAddresses('web').IPAddressToString")
    assert (ran.code, ran.out) == (0, "192.168.1.9\r\n")
    ran = lab.exec(windows, "powershell", "[Net.Dns]::GetHostAddresses('nosuch')")
    assert (ran.code, ran.err.startswith('Exception calling "GetHostAddresses"')) == (1, True)
    ran = lab.exec(new, "nslookup", "web.demo.svc.cluster.local")
    assert "192.168.1.9" in ran.out


def test_agnhost_speaks_its_exact_words(lab: Lab) -> None:
    lab.start(
        "agn-server",
        "registry.k8s.io/e2e-test-images/agnhost:2.53",
        args=("netexec", "--http-port=8080"),
    )
    linux = lab.start("agn-client", "registry.k8s.io/e2e-test-images/agnhost:2.53")
    address = lab.address("agn-server")

    def connect(*words: str) -> tuple[int | None, str, str]:
        ran = lab.exec(linux, "/agnhost", "connect", *words, "--timeout=5s")
        return ran.code, ran.out, ran.err

    assert connect(f"{address}:8080") == (0, "", "")
    assert connect(f"{address}:8082") == (1, "", "REFUSED\n")
    assert connect("192.168.1.62:80") == (1, "", "TIMEOUT\n")
    assert connect(f"{address}:8081", "--protocol=udp") == (0, "", "")
    assert connect(f"{address}:8082", "--protocol=udp") == (1, "", "REFUSED\n")
    node = ProbeSpec(kind="http", node="l1", address=address, port=8080, path="/healthz", timeout=2)
    assert lab.run(lab.runtime.probe(node)).ok
    shell = lab.start("agn-shell", "busybox:1.36", command=("sleep", "3600"))
    ran = lab.exec(shell, "wget", "-q", "-O", "-", f"http://{address}:8080/hostname")
    assert ran.out == "agn-server"
    ran = lab.exec(shell, "wget", "-q", "-O", "-", f"http://{address}:8080/clientip")
    assert ran.out.startswith(lab.address("agn-shell") + ":")


def test_agnhost_on_windows_calls_a_refusal_other(lab: Lab) -> None:
    lab.start("wagn-target", "busybox:1.36", command=("sleep", "3600"))
    image = "registry.k8s.io/e2e-test-images/agnhost:2.53"
    lab.run(lab.pod("wagn", "w1"))
    client = lab.run(lab.start_as("wagn", image, "windows"))
    ran = lab.exec(
        client, "/agnhost", "connect", f"{lab.address('wagn-target')}:80", "--timeout=2s"
    )
    assert ran.code == 1
    assert ran.err.startswith(
        f"OTHER: dial tcp {lab.address('wagn-target')}:80: connectex: No connection could be made"
    )
    assert ran.err.endswith("actively refused it.\n")


def test_probes_tell_a_ready_port_from_a_closed_one(lab: Lab) -> None:
    container = lab.start("probed", "nginx:1.27")
    address = lab.address("probed")

    def probe(**more: object) -> tuple[bool, str]:
        found = lab.run(lab.runtime.probe(ProbeSpec(node="l1", **more)))  # type: ignore[arg-type]
        return found.ok, found.message

    assert probe(kind="http", address=address, port=80) == (True, "")
    assert probe(kind="http", address=address, port=80, path="/no") == (
        False,
        "HTTP probe failed with statuscode: 404",
    )
    assert probe(kind="tcp", address=address, port=80) == (True, "")
    ok, message = probe(kind="tcp", address=address, port=81)
    assert (ok, message) == (False, f"dial tcp {address}:81: connect: connection refused")
    assert probe(kind="exec", container=container, argv=("true",)) == (True, "")
    assert probe(kind="exec", container=container, argv=("sh", "-c", "echo no; exit 1")) == (
        False,
        "no\n",
    )
    ok, message = probe(kind="exec", container=container, argv=("sleep", "9"), timeout=0.2)
    assert (ok, "timed out" in message) == (False, True)
    ok, message = probe(kind="exec", container=container, argv=("nosuch",))
    assert (ok, "executable file not found" in message) == (False, True)


PORTER = tuple(
    (f"SERVE_{kind}_{port}", f"serve-{port}-{kind.lower()}")
    for kind, port in (
        ("PORT", 80),
        ("TCP_PORT", 81),
        ("TCP_PORT", 8080),
        ("UDP_PORT", 80),
        ("UDP_PORT", 81),
    )
)


@pytest.mark.parametrize(("system", "node"), [("linux", "l1"), ("windows", "w1")])
def test_porter_serves_every_port_of_every_protocol_that_it_is_given(
    lab: Lab, system: OS, node: str
) -> None:
    name = f"porter-{system}"
    agnhost = "registry.k8s.io/e2e-test-images/agnhost:2.53"
    server = lab.start(
        name, agnhost, node=node, system=system, command=("/agnhost", "porter"), env=PORTER
    )
    client = lab.start(f"{name}-client", "busybox:1.36", command=("sleep", "3600"))
    dialler = lab.start(f"{name}-dialler", agnhost, node="l1", command=("/agnhost", "pause"))
    address = lab.address(name)
    for key, text in PORTER:
        port = key.rpartition("_")[2]
        if "UDP" not in key:
            assert (
                lab.exec(client, "wget", "-qO-", "-T", "3", f"http://{address}:{port}").out == text
            )
            continue
        asking = lab.pods[f"{name}-client"].id
        with lab.run(sandbox_socket(lab.channel, asking, socket.AF_INET, socket.SOCK_DGRAM)) as udp:
            udp.settimeout(3)
            udp.sendto(
                b"a question longer than the sixteen bytes that it reads", (address, int(port))
            )
            assert udp.recv(100).decode() == text
    for number, protocol, code in ((81, "tcp", 0), (81, "udp", 0), (82, "tcp", 1), (82, "udp", 1)):
        argv = (
            "/agnhost",
            "connect",
            f"{address}:{number}",
            "--timeout=3s",
            f"--protocol={protocol}",
        )
        assert lab.exec(dialler, *argv).code == code, (number, protocol)
    assert "Started UDP server on port 81" in lab.log(server)


@pytest.mark.parametrize("name", ["SERVE_SCTP_PORT_80", "SERVE_TLS_PORT_443"])
def test_porter_refuses_by_name_what_it_does_not_serve(lab: Lab, name: str) -> None:
    agnhost = "registry.k8s.io/e2e-test-images/agnhost:2.53"
    env = (("SERVE_TCP_PORT_80", "x"), (name, "y"))
    container = lab.start(
        f"refuses-{name[6:9].lower()}", agnhost, command=("/agnhost", "porter"), env=env
    )
    assert lab.ended(container).exit_code == 1
    assert lab.log(container) == f"not emulated: porter with {name}\n"


COUNTS_BY_CLIENT = WEB_SERVER.replace("$ip=(Get-NetAdapter | Get-NetIpAddress);\n", "").replace(
    "$ip[1].IPAddress", "$_"
)
ONE_PAGE = (
    "$listener = New-Object System.Net.HttpListener; $listener.Prefixes.Add('http://*:80/'); $listener.Start(); "
    "Write-Host('Listening at http://*:80/'); while ($listener.IsListening) { $context = $listener.GetContext(); "
    "$response = $context.Response; $content='<html><body><H1>Windows Container Web Server</H1></body></html>'; "
    "$buffer = [System.Text.Encoding]::UTF8.GetBytes($content); $response.ContentLength64 = $buffer.Length; "
    "$response.OutputStream.Write($buffer, 0, $buffer.Length); $response.Close(); };"
)


@pytest.mark.parametrize(
    ("script", "pages"),
    [
        pytest.param(f"<#code used from a gist#> ; {WEB_SERVER}", ["IP {own} callerCount 1", "IP {own} callerCount 2"],
                     id="Kubernetes, user guide"),
        pytest.param(f"<#code used from a gist#> ; {COUNTS_BY_CLIENT}",
                     ["IP {client} callerCount 1", "IP {client} callerCount 2"], id="AKS and sig-windows-tools"),
        pytest.param(ONE_PAGE, ["</H1></body></html>"] * 2, id="OpenShift's operator"),
    ],
)  # fmt: skip
def test_the_web_servers_of_public_manifests_serve(lab: Lab, script: str, pages: list[str]) -> None:
    name = f"public-{len(script)}"
    server = lab.start(name, SERVERCORE, command=("powershell.exe", "-command", script))
    client = lab.start(f"{name}-client", "busybox:1.36", command=("sleep", "3600"))
    for page in pages:
        text = lab.exec(client, "wget", "-qO-", "-T", "3", f"http://{lab.address(name)}/x?y=1").out
        assert "<H1>Windows Container Web Server</H1>" in text, lab.log(server)
        assert page.format(own=lab.address(name), client=lab.address(f"{name}-client")) in text
    assert lab.log(server).startswith("Listening at http://*:80/\r\n")
