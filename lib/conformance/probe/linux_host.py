"""What ``host_facts.py`` says about a Linux node, as typed objects.  Pure: no exec, no clock."""

from typing import Any

from conformance.errors import ProbeBroken
from conformance.model.counted import counted
from conformance.model.host import FdbEntry, Link, LinuxFacts, Neighbour, RouteEntry, Vxlan
from conformance.probe import protocol
from conformance.probe.protocol import Program

HOST_FACTS = Program("host_facts.py", ("python3", "-I", "-S", "-u", "/probe/host_facts.py"))


def parse(node: str, stdout: bytes) -> LinuxFacts:
    """The facts in an output.  Raises ProbeBroken: no line with the mark, another program's, garbled, incomplete."""
    lines = [found for line in stdout.splitlines() if (found := protocol.read_line(line)) is not None]
    if len(lines) != 1 or lines[0]["type"] != "host-facts":
        raise ProbeBroken(
            f"host_facts.py on {node} said {counted(len(lines), 'line')} instead of one: {stdout[:200]!r}",
            transport="no answer",
        )
    problem = protocol.other_program(lines[0], HOST_FACTS)
    if problem:
        raise ProbeBroken(f"host_facts.py on {node}: {problem}", transport=problem)
    try:
        return _facts(node, lines[0])
    except (KeyError, TypeError, ValueError) as error:
        raise ProbeBroken(
            f"host_facts.py on {node} gave an answer that cannot be read: {type(error).__name__}: {error}",
            transport="garbled answer",
        ) from None


def _facts(node: str, found: dict[str, Any]) -> LinuxFacts:
    return LinuxFacts(
        node=node,
        links=tuple(
            Link(
                name=str(link["name"]), mtu=int(link["mtu"]), mac=str(link["mac"]), up=bool(link["up"]),
                vxlan=_vxlan(link["vxlan"]),
            )
            for link in found["links"]
        ),
        routes=tuple(
            RouteEntry(
                destination=str(route["destination"]), gateway=str(route["gateway"]), device=str(route["device"]),
                onlink=bool(route["onlink"]), table=int(route["table"]),
            )
            for route in found["routes"]
        ),
        fdb=tuple(
            FdbEntry(
                device=str(item["device"]), mac=str(item["mac"]), destination=str(item["destination"]),
                vni=_own(item["vni"]), port=_own(item["port"]),
            )
            for item in found["fdb"]
        ),
        neighbours=tuple(
            Neighbour(device=str(neighbour["device"]), address=str(neighbour["address"]), mac=str(neighbour["mac"]))
            for neighbour in found["neighbours"]
        ),
    )  # fmt: skip


def _own(found: Any) -> int | None:
    return None if found is None else int(found)


def _vxlan(found: dict[str, Any] | None) -> Vxlan | None:
    return Vxlan(vni=int(found["vni"]), port=int(found["port"]), local=str(found["local"])) if found else None
