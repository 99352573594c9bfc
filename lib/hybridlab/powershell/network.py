"""Test-NetConnection, Resolve-DnsName, Get-NetIPAddress, Get-NetAdapter, and the console tools a script may start."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from hybridlab.powershell.binding import Call
from hybridlab.powershell.faults import Fault
from hybridlab.powershell.objects import NetObject, enumerate_value, to_text
from hybridlab.powershell.shell import Library, Make, Shell, Stage
from hybridlab.powershell.stages import once
from hybridlab.powershell.streams import drop
from hybridlab.powershell.syntax import NotEmulated
from hybridlab.runtime.applet import Output
from hybridlab.runtime.applets import dns, http, icmp
from hybridlab.runtime.applets.busybox import interfaces
from hybridlab.runtime.applets.refusals import heard_late
from hybridlab.runtime.applets.registry import WINDOWS
from hybridlab.runtime.streams import NullOutput

_CONNECT_SECONDS = 21.0
"""Windows' SYN and its two repetitions, 3 + 6 + 12 s; Test-NetConnection has no timeout of its own."""
_COMMON_PORTS = {"http": 80, "rdp": 3389, "smb": 445, "winrm": 5985}
_ADAPTER = "MSFT_NetAdapter"
_TOOLS = ("ping", "ipconfig", "hostname", "nslookup", "whoami")


async def test_net_connection(shell: Shell, call: Call) -> list[object]:
    """A TCP connect, and a ping when that fails; without a port the ping only."""
    host = call.text("computername", "internetbeacon.msedge.net")
    port = call.get("port")
    if call.has("commontcpport"):
        named = call.text("commontcpport").lower()
        if named not in _COMMON_PORTS or port is not None:
            raise NotEmulated(f"Test-NetConnection -CommonTCPPort {named}")
        port = _COMMON_PORTS[named]
    level = call.text("informationlevel", "Standard").lower()
    if level not in ("quiet", "standard"):
        raise NotEmulated(f"Test-NetConnection -InformationLevel {level}")
    quiet = level == "quiet"
    net = shell.process.net
    try:
        address = (await net.resolve(host))[0]
    except (dns.NameNotFound, dns.ResolverSilent):
        await shell.warn(f"Name resolution of {host} failed", call)
        return [False] if quiet else [_result(host, "", port, net.address, connected=False, ping=None)]
    connected = isinstance(port, int) and await _connects(shell, address, port)
    if port is not None and not connected:
        await shell.warn(f"TCP connect to ({address} : {to_text(port)}) failed", call)
    ping = None
    if not connected:
        ping = await icmp.echo(net, address, 1, size=32, limit=4.0, identity=id(call) & 0xFFFF)
        if ping.kind != "reply":
            status = "TimedOut" if ping.kind == "timeout" else "DestinationHostUnreachable"
            await shell.warn(f"Ping to {address} failed with status: {status}", call)
    if quiet:
        return [connected if port is not None else ping is not None and ping.kind == "reply"]
    return [_result(host, address, port, net.address, connected=connected, ping=ping)]


async def _connects(shell: Shell, address: str, port: int) -> bool:
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


async def resolve_dns_name(shell: Shell, call: Call) -> list[object]:
    """-Type A only; a name with a final dot is asked as it is."""
    name = call.text("name")
    kind = call.text("type", "A").upper()
    if kind not in ("A", "A_AAAA"):
        raise NotEmulated(f"Resolve-DnsName -Type {kind}")
    net = shell.process.net
    server = call.text("server")
    answer = None
    for full in dns.candidates(name, tuple(net.searches)):
        try:
            answer = await dns.query(net, full, server=server, limit=2.0 if call.flag("quicktimeout") else 10.0)
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
        source=call.typed,
        at=call.node,
        terminating=False,
        kind="System.ComponentModel.Win32Exception",
    )


async def get_net_adapter(shell: Shell, call: Call) -> list[object]:
    """The pod's one adapter."""
    if call.text("name", "*") not in ("*", "vEthernet (Ethernet)"):
        raise NotEmulated(f"Get-NetAdapter {call.text('name')}")
    table = ("Name", "InterfaceDescription", "Status")
    return [
        NetObject(
            _ADAPTER,
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


class _GetNetIPAddress(Stage):
    """The adapter's link-local IPv6 address and then its IPv4 address, in Windows' order; also of adapters piped in."""

    async def process(self, item: object) -> None:
        if not isinstance(item, NetObject) or item.type_name != _ADAPTER:
            raise NotEmulated("Get-NetIPAddress of something that is no adapter")
        await self.put([*_addresses(self.shell, self.call)])

    async def alone(self) -> None:
        adapter, loopback = _addresses(self.shell, self.call), _loopback(self.call)
        for kind in ("IPv6", "IPv4"):
            await self.put([found for found in (*adapter, *loopback) if found.get("AddressFamily") == kind])


def _loopback(call: Call) -> list[NetObject]:
    alias = "Loopback Pseudo-Interface 1"
    families = (("IPv6", "::1", 128), ("IPv4", "127.0.0.1", 8))
    wanted = call.text("addressfamily").lower()
    return [_address(text, kind, length, 1, alias) for kind, text, length in families if wanted in ("", kind.lower())]


def _address(text: str, kind: str, length: int, index: int, alias: str) -> NetObject:
    shown = ("IPAddress", "InterfaceIndex", "InterfaceAlias", "AddressFamily", "Type", "PrefixLength")
    return NetObject(
        "MSFT_NetIPAddress",
        text=text,
        shown=shown,
        IPAddress=text,
        InterfaceIndex=index,
        InterfaceAlias=alias,
        AddressFamily=kind,
        Type="Unicast",
        PrefixLength=length,
    )


def _addresses(shell: Shell, call: Call) -> list[NetObject]:
    family = call.text("addressfamily").lower()
    if family not in ("", "ipv4", "ipv6"):
        raise NotEmulated(f"Get-NetIPAddress -AddressFamily {family}")
    found = []
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
                found.append(_address(text, kind, length, index, "vEthernet (Ethernet)"))
    return found


_REFUSAL = b"not emulated: "


class _Lines:
    """A program's output, line by line, into the pipeline."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._rest = b""

    async def write(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            await self._stage.emit(line.removesuffix(b"\r").decode("utf-8", "replace"))

    async def end(self) -> None:
        if self._rest:
            await self._stage.emit(self._rest.decode("utf-8", "replace"))


class _Errors:
    """A program's errors, but for its saying that something is not emulated: that ends the script."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self.refused = ""

    async def write(self, data: bytes) -> None:
        if data.startswith(_REFUSAL):
            self.refused = data.removeprefix(_REFUSAL).decode().strip()
        else:
            await self._output.write(data)


def _tool(name: str) -> Make:
    class _Tool(Stage):
        async def process(self, item: object) -> None:
            raise NotEmulated(f"pipeline input of {name}")

        async def alone(self) -> None:
            shell, call = self.shell, self.call
            output = _Lines(self)
            sink = shell.streams.error
            if sink not in (None, drop):
                raise NotEmulated(f"redirection of the errors of {name}")
            errors = _Errors(shell.process.stderr if sink is None else NullOutput())
            argv = (call.name, *_words(call))
            status = await WINDOWS[name](replace(shell.process, argv=argv, stdout=output, stderr=errors))
            await output.end()
            if errors.refused:
                raise NotEmulated(errors.refused)
            shell.scope.root.variables["lastexitcode"] = status
            self.failed = status != 0

    return _Tool


def _words(call: Call) -> list[str]:
    """A program's arguments: as they stand, variables replaced."""
    words: list[str] = []
    for given in call.arguments:
        if given.parameter and given.has_value:
            words.append(f"-{given.parameter}:{to_text(given.value)}")
        elif given.parameter:
            words.append(given.word)
        else:
            words += [to_text(item) for item in enumerate_value(given.value)]
    if any(not word or '"' in word for word in words):
        raise NotEmulated(f"empty or quoted arguments of {call.name}")
    if not words and call.name in ("ping", "nslookup", "curl"):
        raise NotEmulated(f"{call.name} without arguments")
    return words


_CIM = "-CimSession -ThrottleLimit -AsJob?"


def add_to(library: Library) -> None:
    """Register them with their aliases."""
    library.add(
        "Test-NetConnection",
        "ComputerName=RemoteAddress=cn@0 Port=RemotePort:int CommonTCPPort@1 InformationLevel -TraceRoute? -Hops:int "
        "-DiagnoseRouting? -ConstrainSourceAddress -ConstrainInterface",
        once(test_net_connection), "tnc",
    )  # fmt: skip
    library.add(
        "Resolve-DnsName",
        "Name@0 Type@1 Server DnsOnly? NoHostsFile? QuickTimeout? -CacheOnly? -DnssecCd? -DnssecOk? -LlmnrFallback? "
        "-LlmnrNetbiosOnly? -LlmnrOnly? -NetbiosFallback? -NoIdn? -NoRecursion? -TcpOnly?",
        once(resolve_dns_name),
    )
    library.add(
        "Get-NetAdapter",
        f"Name=ifAlias=InterfaceAlias@0 -InterfaceDescription -InterfaceIndex -IncludeHidden? -Physical? {_CIM}",
        once(get_net_adapter),
    )
    library.add(
        "Get-NetIPAddress",
        "AddressFamily -IPAddress@0 -InterfaceIndex -InterfaceAlias -AssociatedIPAddress -Type -PrefixLength "
        "-PrefixOrigin -SuffixOrigin -AddressState -ValidLifetime -PreferredLifetime -SkipAsSource -PolicyStore "
        f"-IncludeAllCompartments? {_CIM}",
        _GetNetIPAddress,
    )
    library.tools |= {name: _tool(name) for name in (*_TOOLS, "curl")}
