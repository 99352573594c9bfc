# SPDX-License-Identifier: Apache-2.0
"""What programs and commands print on a Windows host, as typed objects.  Pure: no exec, no clock.

The programs are manifests/nodes/*.ps1: a line for each thing, and ``end``.  What cannot be read is
ProbeBroken.
"""

import base64
import binascii
import json
import re
from datetime import UTC, datetime

from conformance.errors import ProbeBroken
from conformance.model.host import BgpHost, BgpPeer, BgpRoute
from conformance.product import MANIFESTS


def one_line(name: str) -> str:
    """A program as one line, since HostProcess containers of containerd 1.6 run commands by ``cmd
    /c``."""
    lines = (MANIFESTS / "nodes" / name).read_text(encoding="ascii").splitlines()
    return " ".join(line for line in lines if not line.startswith("#"))


BGP = one_line("bgp.ps1")
ASKED = ("service", "router", "peer", "custom", "route")
CNI_TOKENS = one_line("cni_token.ps1")
"""The token itself is a credential, and stays on the host."""
_EXP = re.compile(rb'"?exp":(\d{9,11})')
PROVIDER = ("PSPath", "PSParentPath", "PSChildName", "PSDrive", "PSProvider")
"""What Get-ItemProperty adds of its own."""
SHOWN = ("Release", "Version")
"""Values of .NET's key that tell its build."""


def bgp_host(text: str, where: str) -> BgpHost:
    """What a host said.  Raises ProbeBroken, naming ``where``, for an output without its end or of
    another shape."""
    told: dict[str, list[str]] = {name: [] for name in ASKED}
    errors: dict[str, str] = {}
    for line in _lines(text, where, "bgp.ps1", f": {text[-200:]!r}"):
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


def token_ends(text: str, where: str) -> list[datetime | None]:
    """The end of the token of each kubeconfig that is there; None: it has no end that is found.

    Raises ProbeBroken, naming ``where``, for an output without its end or of another shape.
    """
    return [_end(line, where) for line in _lines(text, where, "cni_token.ps1")]


def _lines(text: str, where: str, program: str, shown: str = "") -> list[str]:
    """Return the lines of a program's output before its ``end``.

    ``shown``: what a message may show of the output, which may hold a secret.
    """
    *lines, last = [line.strip() for line in text.splitlines() if line.strip()] or [""]
    if last != "end":
        raise ProbeBroken(f"{where}: {program} printed no end{shown}", transport="cut off")
    return lines


def _end(line: str, where: str) -> datetime | None:
    word, _, letters = line.partition(" ")
    try:
        plain = base64.urlsafe_b64decode(letters + "=" * (-len(letters) % 4))
    except (binascii.Error, ValueError):
        word = ""
    found = _EXP.search(plain) if word == "token" else None
    if word != "token" or (letters and not found):
        raise ProbeBroken(
            f"{where}: cni_token.ps1 printed a line of another shape", transport="garbled output"
        )
    return datetime.fromtimestamp(int(found[1]), UTC) if found else None


def differences(said: str, what: str) -> dict[str, str]:
    """Values of registry keys, one key a line as JSON, and ``NAME=VALUE`` lines.  Raises
    ProbeBroken."""
    found: dict[str, str] = {}
    for line in filter(None, map(str.strip, said.splitlines())):
        if not line.startswith("{"):
            name, _, value = line.partition("=")
            found[name] = value
            continue
        try:
            key = json.loads(line)
            path = str(key["PSPath"]).rpartition("::")[2].split("\\")
        except (ValueError, KeyError) as error:
            raise ProbeBroken(
                f"{what}: garbled registry key {line[:200]!r}", transport=str(error)
            ) from None
        net = path[-1] == "Full"
        for name, value in sorted(key.items()):
            if name not in PROVIDER and (not net or name in SHOWN):
                found[f".NET {name}" if net else f"{path[-2]}\\{path[-1]} {name}"] = str(value)
    return found
