"""What ``capture.py`` says of a Linux node's packets, as typed objects, and how it is asked.  No exec, no clock."""

import base64
from collections.abc import Collection

from conformance.errors import ProbeBroken
from conformance.model.capture import Capture, Packet
from conformance.model.counted import counted
from conformance.probe import protocol
from conformance.probe.protocol import Program

CAPTURE = Program("capture.py", ("python3", "-I", "-S", "-u", "/probe/capture.py"))
PACKETS = 400
"""Packets of one capture."""
BYTES = 192
"""bytes.  Of one packet: all headers of TCP in VXLAN, and the beginning of what follows."""


def argv(seconds: float, vxlan_port: int, ends: Collection[str], peers: Collection[str]) -> tuple[str, ...]:
    """The command that captures what goes between the addresses ``ends``, and between them and ``peers``.

    Without ``peers``: all that is to or from ``ends``.
    """
    listed = (",".join(sorted(ends)) or "-", ",".join(sorted(peers)) or "-")
    return (*CAPTURE.argv, f"{seconds:g}", str(PACKETS), str(BYTES), str(vxlan_port), *listed)


def parse(node: str, stdout: bytes) -> Capture:
    """The capture in an output.  Raises ProbeBroken: no line with the mark, another program's, garbled."""
    lines = [found for line in stdout.splitlines() if (found := protocol.read_line(line)) is not None]
    if len(lines) != 1 or lines[0]["type"] != "capture":
        raise ProbeBroken(
            f"capture.py on {node} said {counted(len(lines), 'line')} instead of one: {stdout[:200]!r}",
            transport="no answer",
        )
    if problem := protocol.other_program(lines[0], CAPTURE):
        raise ProbeBroken(f"capture.py on {node}: {problem}", transport=problem)
    try:
        packets = tuple(
            Packet(
                at=float(packet["at"]), interface=str(packet["interface"]), way=int(packet["way"]),
                hardware=int(packet["hardware"]), data=base64.b64decode(packet["data"], validate=True),
            )
            for packet in lines[0]["packets"]
        )  # fmt: skip
        return Capture(node=node, packets=packets, dropped=int(lines[0]["dropped"]), full=bool(lines[0]["full"]))
    except (KeyError, TypeError, ValueError) as error:
        raise ProbeBroken(
            f"capture.py on {node} gave an answer that cannot be read: {type(error).__name__}: {error}",
            transport="garbled answer",
        ) from None
