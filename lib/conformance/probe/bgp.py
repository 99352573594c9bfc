"""The program that asks a Windows host about BGP, and what it prints as typed objects.  Pure: no exec, no clock.

The program is manifests/nodes/bgp.ps1: a line for each thing, and ``end``.  What cannot be read is ProbeBroken.
"""

from conformance.errors import ProbeBroken
from conformance.model.host import BgpHost, BgpPeer, BgpRoute
from conformance.probe.host_programs import one_line

PROGRAM = one_line("bgp.ps1")
ASKED = ("service", "router", "peer", "custom", "route")


def parse(text: str, where: str) -> BgpHost:
    """What a host said.  Raises ProbeBroken, naming ``where``, for an output without its end or of another shape."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines or lines[-1] != "end":
        raise ProbeBroken(f"{where}: bgp.ps1 printed no end: {text[-200:]!r}", transport="cut off")
    told: dict[str, list[str]] = {name: [] for name in ASKED}
    errors: dict[str, str] = {}
    for line in lines[:-1]:
        word, _, rest = line.partition(" ")
        name, _, message = rest.partition(" ")
        if word == "no" and name in told:
            errors[name] = message
        elif word in told:
            told[word].append(rest)
        else:
            raise ProbeBroken(
                f"{where}: bgp.ps1 printed {line[:200]!r}", transport="garbled output"
            )
    try:
        peers = tuple(BgpPeer(*line.split()) for line in told["peer"])
        routes = tuple(BgpRoute(*line.split()) for line in told["route"])
    except TypeError as error:
        raise ProbeBroken(
            f"{where}: bgp.ps1 printed a line of another shape: {error}", transport="garbled"
        ) from None
    return BgpHost(
        service="".join(told["service"]),
        router="".join(told["router"]),
        peers=peers,
        custom_routes=tuple(told["custom"]),
        routes=routes,
        errors=errors,
    )
