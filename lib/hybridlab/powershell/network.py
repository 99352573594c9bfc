# SPDX-License-Identifier: Apache-2.0
"""Get-NetAdapter, Get-NetIPAddress, and the console programs that a script may start."""

from dataclasses import replace

from hybridlab.powershell.binding import Call
from hybridlab.powershell.objects import NetObject, to_text
from hybridlab.powershell.shell import Library, Make, Shell, Stage
from hybridlab.powershell.stages import once
from hybridlab.powershell.syntax import NotEmulated
from hybridlab.runtime.applet import Output
from hybridlab.runtime.applets.busybox import interfaces
from hybridlab.runtime.applets.registry import WINDOWS

_ADAPTER = "MSFT_NetAdapter"
_TOOLS = ("ping", "ipconfig", "hostname")


async def get_net_adapter(shell: Shell, call: Call) -> list[object]:
    """Return the pod's only adapter."""
    return [
        NetObject(
            _ADAPTER,
            table=True,
            Name="vEthernet (Ethernet)",
            InterfaceDescription="Hyper-V Virtual Ethernet Adapter",
            Status="Up",
            ifIndex=interface.index,
            InterfaceAlias="vEthernet (Ethernet)",
            MtuSize=interface.mtu,
            MacAddress=interface.mac.upper().replace(":", "-"),
        )
        for interface in interfaces(shell.process.net)
        if not interface.is_loopback
    ]


class _GetNetIPAddress(Stage):
    """A stage that returns the adapter's addresses.

    The link-local IPv6 address comes before the IPv4 address, as on Windows.
    """

    async def process(self, item: object) -> None:
        if not isinstance(item, NetObject) or item.type_name != _ADAPTER:
            raise NotEmulated("Get-NetIPAddress of an object that is not an adapter")
        await self.put([*_addresses(self.shell)])


def _address(text: str, kind: str, length: int, index: int) -> NetObject:
    shown = (
        "IPAddress",
        "InterfaceIndex",
        "InterfaceAlias",
        "AddressFamily",
        "Type",
        "PrefixLength",
    )
    return NetObject(
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


def _addresses(shell: Shell) -> list[NetObject]:
    found = []
    for interface in interfaces(shell.process.net):
        if interface.is_loopback:
            continue
        octets = bytes.fromhex(interface.mac.replace(":", ""))
        words = (
            (octets[0] ^ 2) << 8 | octets[1],
            octets[2] << 8 | 0xFF,
            0xFE << 8 | octets[3],
            octets[4] << 8 | octets[5],
        )
        local = "fe80::" + ":".join(f"{word:x}" for word in words) + f"%{interface.index}"
        found += [
            _address(local, "IPv6", 64, interface.index),
            _address(interface.address, "IPv4", interface.prefix_length, interface.index),
        ]
    return found


_REFUSAL = b"not emulated: "


class _Lines:
    """A stream that puts a program's output into the pipeline, line by line."""

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
    """A program's standard error. A line "not emulated" ends the script."""

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
        async def alone(self) -> None:
            shell = self.shell
            output = _Lines(self)
            errors = _Errors(shell.process.stderr)
            argv = (name, *_words(self.call))
            status = await WINDOWS[name](
                replace(shell.process, argv=argv, stdout=output, stderr=errors)
            )
            await output.end()
            if errors.refused:
                raise NotEmulated(errors.refused)
            shell.variables["lastexitcode"] = status
            self.failed = status != 0

    return _Tool


def _words(call: Call) -> list[str]:
    """Return a program's arguments, with variables replaced."""
    words = [given.word if given.parameter else to_text(given.value) for given in call.arguments]
    if any(not word or '"' in word for word in words) or any(
        isinstance(given.value, list) for given in call.arguments
    ):
        raise NotEmulated(f"empty, quoted or listed arguments of {call.name}")
    return words


def add_to(library: Library) -> None:
    """Register the cmdlets of this module."""
    library.add("Get-NetAdapter", "", once(get_net_adapter))
    library.add("Get-NetIPAddress", "", _GetNetIPAddress)
    library.tools |= {name: _tool(name) for name in _TOOLS}
