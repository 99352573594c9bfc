"""What ``capture.py`` says of a Linux node's packets, as typed objects, and how it is asked.  No exec, no clock."""

import base64
from collections.abc import Collection
from typing import Any

from conformance.model.capture import Capture, Packet
from conformance.probe.linux_host import only_answer
from conformance.probe.protocol import Program

CAPTURE = Program("capture.py", ("python3", "-I", "-S", "-u", "/probe/capture.py"))
PACKETS = 400
"""Packets of one capture."""
BYTES = 192
"""bytes.  Of one packet: all headers of TCP in VXLAN, and the beginning of what follows."""


def argv(
    seconds: float, vxlan_port: int, ends: Collection[str], peers: Collection[str]
) -> tuple[str, ...]:
    """The command that captures what goes between the addresses ``ends``, and between them and ``peers``.

    Without ``peers``: all that is to or from ``ends``.
    """
    listed = (",".join(sorted(ends)) or "-", ",".join(sorted(peers)) or "-")
    return (*CAPTURE.argv, f"{seconds:g}", str(PACKETS), str(BYTES), str(vxlan_port), *listed)


def parse(node: str, stdout: bytes) -> Capture:
    """The capture in an output.  Raises as :func:`only_answer`."""
    return only_answer(node, stdout, CAPTURE, "capture", lambda found: _capture(node, found))


def _capture(node: str, found: dict[str, Any]) -> Capture:
    packets = tuple(
        Packet(
            at=float(packet["at"]),
            interface=str(packet["interface"]),
            way=int(packet["way"]),
            hardware=int(packet["hardware"]),
            data=base64.b64decode(packet["data"], validate=True),
        )
        for packet in found["packets"]
    )
    return Capture(
        node=node, packets=packets, dropped=int(found["dropped"]), full=bool(found["full"])
    )
