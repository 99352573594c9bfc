# SPDX-License-Identifier: Apache-2.0
"""A wire that delays every frame, for kernels without netem: two interfaces, and this process
between them.

Frames are read from each interface as they arrive, and sent out of the other interface after the
delay. Checksums and segmentation, usually left to an interface's offloads, must be complete before:
see :func:`finish_frames`.
"""

import array
import asyncio
import contextlib
import fcntl
import socket
import struct

from hybridlab.kernel import namespaces

_ETH_P_ALL = 3
_PACKET_OUTGOING = 4
_SIOCETHTOOL = 0x8946
_ETHTOOL_STXCSUM = 0x17
_LARGEST = 65536
"""The largest frame, in bytes."""


def finish_frames(interface: str, *, finish: bool) -> None:
    """Make the kernel complete frames that leave through an interface of this namespace; without
    ``finish``, leave this work to the interface again."""
    value = array.array("I", [_ETHTOOL_STXCSUM, 0 if finish else 1])
    request = struct.pack("16sP8x", interface.encode(), value.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        fcntl.ioctl(asking, _SIOCETHTOOL, request)


class SlowWire:
    """The wire between two interfaces of a namespace.  Create, start and close it in the event
    loop's thread."""

    def __init__(self, netns: int, ends: tuple[str, str], seconds: float) -> None:
        """Set up the wire. ``seconds``: how long a frame takes in each direction."""
        self.seconds = seconds
        with namespaces.entered(netns):
            self._ends = tuple(_tap(interface) for interface in ends)

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        for end, other in (self._ends, self._ends[::-1]):
            loop.add_reader(end, self._carry, end, other)

    def close(self) -> None:
        """Stop carrying frames; frames under way are lost."""
        loop = asyncio.get_running_loop()
        for end in self._ends:
            loop.remove_reader(end)
            end.close()

    def _carry(self, end: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                frame, (_, _, kind, *_) = end.recvfrom(_LARGEST)
                if kind != _PACKET_OUTGOING:
                    asyncio.get_running_loop().call_later(self.seconds, _send, other, frame)


def _tap(interface: str) -> socket.socket:
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
    tap.bind((interface, _ETH_P_ALL))
    tap.setblocking(False)
    return tap


def _send(end: socket.socket, frame: bytes) -> None:
    with contextlib.suppress(OSError):  # buffer full, or wire closed: wires lose frames
        end.send(frame)
