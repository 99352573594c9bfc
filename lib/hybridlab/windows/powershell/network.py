"""Test-NetConnection, Resolve-DnsName, Get-NetIPAddress, Get-NetAdapter, and the console tools a script may start."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from hybridlab.runtime.applets import dns, http, icmp
from hybridlab.runtime.applets.busybox import interfaces
from hybridlab.runtime.applets.refusals import heard_late
from hybridlab.runtime.applets.registry import WINDOWS
from hybridlab.runtime.streams import BufferOutput
from hybridlab.windows.powershell.cmdlets import only, parameter
from hybridlab.windows.powershell.faults import Fault
from hybridlab.windows.powershell.interpreter import Call, Cmdlet, Interpreter, Library
from hybridlab.windows.powershell.objects import NetObject, to_number, to_text
from hybridlab.windows.powershell.syntax import NotEmulated

_CONNECT_SECONDS = 21.0
"""Windows' SYN and its two repetitions, 3 + 6 + 12 s; Test-NetConnection has no timeout of its own."""
_TOOLS = ("ping", "ipconfig", "hostname", "nslookup", "whoami")


async def test_net_connection(shell: Interpreter, call: Call) -> list[object]:
    """A TCP connect, and a ping when that fails; without a port the ping only."""
    only(call, "computername", "port", "informationlevel", "commontcpport", positions=2)
    host = to_text(parameter(call, "computername", position=0, default="internetbeacon.msedge.net"))
    port = parameter(call, "port", position=1)
    common = {"http": 80, "rdp": 3389, "smb": 445, "winrm": 5985}
    if (named := parameter(call, "commontcpport")) is not None:
        port = common[to_text(named).lower()]
    quiet = to_text(parameter(call, "informationlevel", default="")).lower() == "quiet"
    net = shell.process.net
    try:
        address = (await net.resolve(host))[0]
    except (dns.NameNotFound, dns.ResolverSilent):
        await shell.write(f"WARNING: Name resolution of {host} failed\r\n")
        return [False] if quiet else [_result(host, "", port, net.address, connected=False, ping=None)]
    connected = port is not None and await _connects(shell, address, int(to_number(port)))
    if port is not None and not connected:
        await shell.write(f"WARNING: TCP connect to ({address} : {to_text(port)}) failed\r\n")
    ping = None
    if not connected:
        ping = await icmp.echo(net, address, 1, size=32, limit=4.0, identity=id(call) & 0xFFFF)
        if ping.kind != "reply":
            status = "TimedOut" if ping.kind == "timeout" else "DestinationHostUnreachable"
            await shell.write(f"WARNING: Ping to {address} failed with status: {status}\r\n")
    if quiet:
        return [connected if port is not None else ping is not None and ping.kind == "reply"]
    return [_result(host, address, port, net.address, connected=connected, ping=ping)]


async def _connects(shell: Interpreter, address: str, port: int) -> bool:
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            connecting = http.connect(shell.process.net, address, port)
            _, writer = await heard_late(connecting, shell.process.settings)
    except OSError:
        return False
    http.abort(writer)
    return True


def _result(
    host: str, address: str, port: object, source: str, *, connected: bool, ping: icmp.Echo | None
) -> NetObject:
    properties: dict[str, object] = {"ComputerName": host, "RemoteAddress": address}
    if port is not None:
        properties["RemotePort"] = port
    properties |= {"InterfaceAlias": "vEthernet (Ethernet)", "SourceAddress": source}
    if not connected:
        properties["PingSucceeded"] = ping is not None and ping.kind == "reply"
        properties["PingReplyDetails (RTT)"] = f"{int(ping.milliseconds) if ping else 0} ms"
    if port is not None:
        properties["TcpTestSucceeded"] = connected
    return NetObject("TestNetConnectionResult", properties, shown=tuple(properties))


async def resolve_dns_name(shell: Interpreter, call: Call) -> list[object]:
    """-Type A only; a name with a final dot is asked as it is."""
    only(call, "name", "type", "dnsonly", "nohostsfile", "quicktimeout", "server", positions=2)
    name = to_text(parameter(call, "name", position=0))
    kind = to_text(parameter(call, "type", position=1, default="A")).upper()
    if kind not in ("A", "A_AAAA"):
        raise NotEmulated(f"Resolve-DnsName -Type {kind}")
    net = shell.process.net
    server = to_text(parameter(call, "server", default=""))
    answer = None
    for full in dns.candidates(name, tuple(net.searches)):
        try:
            answer = await dns.query(net, full, server=server, limit=2.0 if call.named.get("quicktimeout") else 10.0)
        except (dns.ResolverSilent, OSError):
            words = "This operation returned because the timeout period expired"
            raise _dns_fault(call, name, words, "OperationTimeout", "ERROR_TIMEOUT") from None
        if answer.addresses:
            break
    if answer is None or answer.rcode == "NXDOMAIN":
        raise _dns_fault(call, name, "DNS name does not exist", "ResourceUnavailable", "DNS_ERROR_RCODE_NAME_ERROR")
    if answer.rcode != "NOERROR":
        words, code = "DNS server failure", "DNS_ERROR_RCODE_SERVER_FAILURE"
        raise _dns_fault(call, name, words, "ResourceUnavailable", code)
    table = ("Name", "Type", "TTL", "Section", "IPAddress")
    return [
        NetObject(
            "Microsoft.DnsClient.Commands.DnsRecord_A",
            table=table,
            Name=answer.name,
            Type="A",
            TTL=30,
            Section="Answer",
            IPAddress=address,
            QueryType="A",
            IP4Address=address,
        )
        for address in answer.addresses
    ]


def _dns_fault(call: Call, name: str, words: str, category: str, identity: str) -> Fault:
    return Fault(
        f"{name} : {words}",
        f"{category}: ({name}:String) [Resolve-DnsName], Win32Exception",
        f"{identity},Microsoft.DnsClient.Commands.ResolveDnsName",
        source="Resolve-DnsName",
        at=call.node,
        terminating=False,
        kind="System.ComponentModel.Win32Exception",
    )


async def get_net_adapter(shell: Interpreter, call: Call) -> list[object]:
    """The pod's one adapter."""
    only(call, "name", positions=1)
    table = ("Name", "InterfaceDescription", "Status")
    return [
        NetObject(
            "MSFT_NetAdapter",
            table=table,
            Name="vEthernet (Ethernet)",
            InterfaceDescription="Hyper-V Virtual Ethernet Adapter",
            Status="Up",
            ifIndex=index,
            InterfaceAlias="vEthernet (Ethernet)",
            MtuSize=mtu,
            MacAddress=mac.upper().replace(":", "-"),
        )
        for index, name, _, _, mtu, mac in interfaces(shell.process.net)
        if name != "lo"
    ]


async def get_net_ip_address(shell: Interpreter, call: Call) -> list[object]:
    """The adapter's link-local IPv6 address and then its IPv4 address, in Windows' order."""
    only(call, "addressfamily", "interfacealias", "interfaceindex", positions=0)
    family = to_text(parameter(call, "addressfamily", default="")).lower()
    shown = ("IPAddress", "InterfaceIndex", "InterfaceAlias", "AddressFamily", "Type", "PrefixLength")
    found: list[object] = []
    for index, name, address, mask, _, mac in interfaces(shell.process.net):
        if name == "lo":
            continue
        octets = [int(part, 16) for part in mac.split(":")]
        words = (
            (octets[0] ^ 2) << 8 | octets[1],
            octets[2] << 8 | 0xFF,
            0xFE << 8 | octets[3],
            octets[4] << 8 | octets[5],
        )
        local = "fe80::" + ":".join(f"{word:x}" for word in words) + f"%{index}"
        prefix = bin(int.from_bytes(bytes(int(part) for part in mask.split(".")), "big")).count("1")
        for text, kind, length in ((local, "IPv6", 64), (address, "IPv4", prefix)):
            if family in ("", kind.lower()):
                found.append(
                    NetObject(
                        "MSFT_NetIPAddress",
                        text=text,
                        shown=shown,
                        IPAddress=text,
                        InterfaceIndex=index,
                        InterfaceAlias="vEthernet (Ethernet)",
                        AddressFamily=kind,
                        Type="Unicast",
                        PrefixLength=length,
                    )
                )
    return found


def _tool(name: str) -> Cmdlet:
    async def run(shell: Interpreter, call: Call) -> list[object]:
        words = [to_text(word) for word in call.positional]
        if call.named:  # -n 1: parameters of a program, in the order in which they stood
            words = [shell.script[a.start : a.end].strip("\"'") for a in call.node.arguments]
        output = BufferOutput()
        piped = shell.process
        process = replace(piped, argv=(call.name, *words), stdout=output)
        status = await WINDOWS[name](process)
        shell.variables["lastexitcode"] = status
        shell.variables["?"] = status == 0
        return list(output.data.decode("utf-8", "replace").splitlines())

    return run


def add_to(library: Library) -> None:
    """Register them with their aliases."""
    library.cmdlets |= {
        "test-netconnection": test_net_connection,
        "resolve-dnsname": resolve_dns_name,
        "get-netadapter": get_net_adapter,
        "get-netipaddress": get_net_ip_address,
        **{name: _tool(name) for name in _TOOLS},
        "curl.exe": _tool("curl"),
    }
    library.aliases |= {"tnc": "test-netconnection"}
