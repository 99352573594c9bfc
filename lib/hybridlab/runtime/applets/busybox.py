# SPDX-License-Identifier: Apache-2.0
"""The small busybox commands that need the pod's network or identity: ping, ip, hostname, and pause."""

import asyncio
import fcntl
import getopt
import socket
import struct
from dataclasses import dataclass

from hybridlab.runtime.applet import Net, Process
from hybridlab.runtime.applets import dns, icmp
from hybridlab.runtime.applets.console import err, not_emulated, out

_SIOCGIFADDR = 0x8915
_SIOCGIFNETMASK = 0x891B
_SIOCGIFMTU = 0x8921
_SIOCGIFHWADDR = 0x8927


async def ping(process: Process) -> int:
    """Run ``ping [-c N] [-w DEADLINE] [-W WAIT] [-s SIZE] [-i SECONDS] [-q] HOST``."""
    try:
        flags, words = getopt.gnu_getopt(list(process.argv[1:]), "4qc:w:W:s:i:A")
        given = dict(flags)
        count = int(given.get("-c", 0))
        size = int(given.get("-s", 56))
        wait = float(given.get("-W", 10))
        deadline = float(given.get("-w", 0)) or None
        interval = float(given.get("-i", 1))
        host = words[0]
    except (getopt.GetoptError, ValueError, IndexError) as error:
        await err(process, f"ping: {error}", "Usage: ping [OPTIONS] HOST")
        return 1
    try:
        address = (await process.net.resolve(host))[0]
    except (dns.NameNotFound, dns.ResolverSilent):
        await err(process, f"ping: bad address '{host}'")
        return 1
    await out(process, f"PING {host} ({address}): {size} data bytes")
    sent = 0
    times = []
    identity = icmp.new_identity()
    try:
        async with asyncio.timeout(deadline):
            while not count or sent < count:
                found = await icmp.echo(
                    process.net, address, sent & 0xFFFF, size=size, limit=wait, identity=identity
                )
                sent += 1
                if found.kind == "unsendable":
                    await err(process, "ping: sendto: Network is unreachable")
                    return 1
                if found.kind == "reply":
                    times.append(found.milliseconds)
                    if "-q" not in given:
                        line = (
                            f"{size + 8} bytes from {found.source}: seq={sent - 1} ttl={found.ttl}"
                        )
                        await out(process, f"{line} time={found.milliseconds:.3f} ms")
                if not count or sent < count:
                    await asyncio.sleep(interval)
    except PermissionError:  # neither a raw socket nor a ping socket (ping_group_range) is allowed
        await err(process, "ping: permission denied (are you root?)")
        return 1
    except TimeoutError:
        sent += 1 if sent == len(times) else 0
    await out(process, *_statistics(host, sent, times))
    return 0 if times else 1


def _statistics(host: str, sent: int, times: list[float]) -> list[str]:
    """Return the last lines of a ping; ``times``: the round-trip time of each reply, ms."""
    loss = 100 * (sent - len(times)) // sent if sent else 0
    lines = [
        "",
        f"--- {host} ping statistics ---",
        f"{sent} packets transmitted, {len(times)} packets received, {loss}% packet loss",
    ]
    if times:
        mean = sum(times) / len(times)
        lines.append(f"round-trip min/avg/max = {min(times):.3f}/{mean:.3f}/{max(times):.3f} ms")
    return lines


@dataclass(frozen=True)
class Interface:
    """An interface of a pod that has an IPv4 address."""

    index: int
    name: str
    address: str
    netmask: str
    mtu: int
    mac: str

    @property
    def is_loopback(self) -> bool:
        return self.name == "lo"

    @property
    def prefix_length(self) -> int:
        return int.from_bytes(socket.inet_aton(self.netmask), "big").bit_count()


def interfaces(net: Net) -> list[Interface]:
    """Return every interface that has an IPv4 address."""
    found = []
    with net.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:

        def ask(request: int, name: str) -> bytes:
            return fcntl.ioctl(sock.fileno(), request, struct.pack("256s", name.encode()))

        for index in range(1, 64):
            try:
                raw = fcntl.ioctl(
                    sock.fileno(), 0x8910, struct.pack("16si236x", b"", index)
                )  # SIOCGIFNAME
                name = raw[:16].split(b"\0")[0].decode()
                address = socket.inet_ntoa(ask(_SIOCGIFADDR, name)[20:24])
                mask = socket.inet_ntoa(ask(_SIOCGIFNETMASK, name)[20:24])
            except OSError:
                continue
            mtu = struct.unpack("i", ask(_SIOCGIFMTU, name)[16:20])[0]
            mac = ask(_SIOCGIFHWADDR, name)[18:24].hex(":")
            found.append(Interface(index, name, address, mask, mtu, mac))
    return found


async def ip(process: Process) -> int:
    """Run ``ip [-4] addr [show] [dev NAME]``."""
    words = [word for word in process.argv[1:] if word not in ("-4", "-o")]
    if not words or words[0] not in ("a", "ad", "add", "addr", "address") or "-o" in process.argv:
        return await not_emulated(process, " ".join(process.argv))
    rest = [word for word in words[1:] if word not in ("show", "list", "dev", "s", "ls")]
    lines = [
        line
        for interface in interfaces(process.net)
        if not rest or interface.name in rest
        for line in _shown(interface)
    ]
    if rest and not lines:
        await err(process, f"ip: can't find device '{rest[0]}'")
        return 1
    await out(process, *lines)
    return 0


def _shown(interface: Interface) -> list[str]:
    name = interface.name
    flags = "BROADCAST,MULTICAST,UP,LOWER_UP,M-DOWN"
    kind = "ether"
    broadcast = "ff"
    scope = "global"
    if interface.is_loopback:
        flags = "LOOPBACK,UP,LOWER_UP"
        kind = "loopback"
        broadcast = "00"
        scope = "host"
    return [
        f"{interface.index}: {name}: <{flags}> mtu {interface.mtu} qdisc noqueue ",
        f"    link/{kind} {interface.mac} brd {':'.join([broadcast] * 6)}",
        f"    inet {interface.address}/{interface.prefix_length} scope {scope} {name}",
        "       valid_lft forever preferred_lft forever",
    ]


async def hostname(process: Process) -> int:
    """Run ``hostname [-i] [-s] [-f]``."""
    match process.argv[1:]:
        case () | ("-s",) | ("-f",):
            await out(process, process.net.hostname)
        case ("-i",) | ("-I",):
            await out(process, process.net.address)
        case _:
            return await not_emulated(process, " ".join(process.argv))
    return 0


async def sleep(process: Process) -> int:
    """Run ``sleep N[smhd]...``, often the main process of a container, as a coroutine instead of a
    real process."""
    units = {"s": 1, "m": 60, "h": 3600, "d": 86400}
    total = 0.0
    if len(process.argv) == 1:
        await err(process, "BusyBox v1.36.1 multi-call binary.", "", "Usage: sleep [N]...")
        return 1
    for word in process.argv[1:]:
        if word in ("inf", "infinity"):
            total = float("inf")
            continue
        number, unit = (word[:-1], word[-1]) if word[-1:] in units else (word, "s")
        try:
            total += float(number) * units[unit]
        except ValueError:
            await err(process, f"sleep: invalid number '{word}'")
            return 1
    if total == float("inf"):
        return await idle(process)
    await asyncio.sleep(total)
    return 0


async def idle(process: Process) -> int:
    """Do nothing until the process is ended, as the program pause does."""
    await asyncio.get_running_loop().create_future()
    return 0


async def elsewhere(process: Process) -> int:
    """Represent a program that the lab runs elsewhere (Felix, kube-proxy, the API server): the
    container's log begins with a note that says so."""
    await out(
        process,
        f"Starting {' '.join(process.argv)} (emulated: the lab does its work outside this container)",
    )
    return await idle(process)


async def echo(process: Process) -> int:
    """Run ``echo [-n] WORDS``."""
    words = process.argv[1:]
    newline = not (words and words[0] == "-n")
    text = " ".join(words if newline else words[1:])
    await process.stdout.write((text + ("\n" if newline else "")).encode())
    return 0


async def true(process: Process) -> int:
    """Return exit status 0."""
    return 0


async def false(process: Process) -> int:
    """Return exit status 1."""
    return 1
