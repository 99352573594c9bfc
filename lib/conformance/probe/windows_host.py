# SPDX-License-Identifier: Apache-2.0
"""The output of programs and commands on a Windows host, as typed objects. Pure: no exec, no clock.

The programs are manifests/nodes/*.ps1. Each prints one JSON object in ASCII, with the errors of
failed requests under ``errors``. Output that cannot be read raises ProbeBroken.
"""

import base64
import binascii
import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from conformance.errors import ProbeBroken
from conformance.model.host import BgpHost, BgpPeer, BgpRoute
from conformance.model.observation import Verdict
from conformance.product import MANIFESTS
from conformance.settings.assumptions import result


def one_line(name: str) -> str:
    """Return a program as one line, since HostProcess containers of containerd 1.6 run commands by
    ``cmd /c``."""
    lines = (MANIFESTS / "nodes" / name).read_text(encoding="ascii").splitlines()
    return " ".join(line for line in lines if not line.startswith("#"))


BGP = one_line("bgp.ps1")
CNI_TOKENS = one_line("cni_token.ps1")
"""The program that prints when the tokens in the kubeconfigs of Calico's CNI plugin expire. A token
itself is a credential, and stays on the host."""
VERSION = one_line("calico_version.ps1")
REGISTRY = one_line("registry.ps1")
CONNECT = one_line("connect.ps1")
_REFUSED, _REFUSED_NAME = result("WIN-TCP-CLOSED")
_RESET, _RESET_NAME = result("WIN-RESET")
_RESULTS = {
    "Connected": Verdict.CONNECTED,
    "TimedOut": Verdict.TIMED_OUT,
    _REFUSED_NAME: _REFUSED,
    _RESET_NAME: _RESET,
    "HostUnreachable": Verdict.UNREACHABLE,
    "NetworkUnreachable": Verdict.UNREACHABLE,
    "AccessDenied": Verdict.PROHIBITED,
}
"""The verdict of a connection, by the value of System.Net.Sockets.SocketError, or by a value that
connect.ps1 adds."""
_TARGET = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}:\d{1,5}")
_EXP = re.compile(rb'"?exp":(\d{9,11})')
PROVIDER = ("PSPath", "PSParentPath", "PSChildName", "PSDrive", "PSProvider")
"""Fields that Get-ItemProperty adds."""
SHOWN = ("Release", "Version")
"""The values of .NET's registry key that identify its build."""
_MISSING = "PathNotFound"
"""The beginning of an error's id if a file or key does not exist."""


def connecting(targets: Sequence[str], seconds: float) -> str:
    """Return the program that connects to ``ADDRESS:PORT`` targets, each within some seconds.

    Raise ProbeBroken for a target that is no IPv4 address and port.
    """
    if strange := [target for target in targets if not _TARGET.fullmatch(target)]:
        raise ProbeBroken(f"{strange[0]!r} is not an IPv4 address with a port")
    given = (
        f"$targets = [string]'{' '.join(targets)}'; $milliseconds = [int]{round(1000 * seconds)}; "
    )
    return given + CONNECT


def connections(text: str, targets: Sequence[str], where: str) -> dict[str, Verdict]:
    """Return the result of each target. Raise ProbeBroken for an output of another shape, and for
    an unknown result."""
    printed = _object(text, where, "connect.ps1", f": {text[-200:]!r}")
    found = {
        str(one.get("to")): _RESULTS.get(str(one.get("result")))
        for one in _rows(printed.get("attempts"))
    }
    verdicts = {target: found.get(target) for target in targets}
    for target, verdict in verdicts.items():
        if verdict is None:
            raise ProbeBroken(
                f"{where}: connect.ps1 gave no readable verdict for {target}: {text[-200:]!r}",
                transport=text,
            )
    return {target: verdict for target, verdict in verdicts.items() if verdict}


def bgp_host(text: str, where: str) -> BgpHost:
    """Return the BGP state that a host printed. Raise ProbeBroken, which names ``where``, for an
    output that is cut off or of another form."""
    printed = _object(text, where, "bgp.ps1", f": {text[-200:]!r}")
    try:
        routers = [(one["id"], one["as"]) for one in _rows(printed.get("router"))]
        return BgpHost(
            service=printed.get("service") or "",
            router=", ".join(" ".join(filter(None, router)) for router in routers),
            peers=tuple(BgpPeer(**one) for one in _rows(printed.get("peer"))),
            custom_routes=tuple(map(str, _rows(printed.get("custom")))),
            routes=tuple(BgpRoute(**one) for one in _rows(printed.get("route"))),
            errors=_errors(printed),
        )
    except (TypeError, KeyError) as error:
        raise ProbeBroken(
            f"{where}: bgp.ps1 printed an object with unexpected fields: {error}",
            transport="garbled",
        ) from None


def token_ends(text: str, where: str) -> list[datetime | None]:
    """Return the time at which the token in each kubeconfig expires; None if the token never
    expires.

    Raise ProbeBroken, which names ``where``, for an output that is cut off or of another form, and
    for a kubeconfig that exists and cannot be read.
    """
    printed = _object(text, where, "cni_token.ps1")
    _raise_errors(printed, where)
    return [_end(one, where) for one in _rows(printed.get("tokens"))]


def calico_program(text: str, where: str) -> tuple[str, str]:
    """Return path and version of the program that runs as Felix; both are empty if no such program
    runs. Raise ProbeBroken."""
    printed = _object(text, where, "calico_version.ps1", f": {text[-200:]!r}")
    for one in _rows(printed.get("programs")):
        return str(one["path"]), str(one["version"])
    _raise_errors(printed, where)
    return "", ""


def _object(text: str, where: str, program: str, shown: str = "") -> dict[str, Any]:
    """Return a program's output as an object. ``shown``: the part of the output that a message may
    show, since the output may hold a secret."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("errors"), dict):
        raise ProbeBroken(
            f"{where}: {program} printed no complete object{shown}", transport="cut off"
        )
    return found


def _rows(value: Any) -> list[Any]:
    """Return the objects of a pipeline's output.

    Several objects are printed as a list, one object as an object, and no objects as null or, in
    Windows PowerShell 5.1, as an empty object.
    """
    if isinstance(value, list):
        return value
    return [value] if value else []


def _errors(printed: dict[str, Any]) -> dict[str, str]:
    """Map each failed request to its error: the error's id and whole message."""
    return {name: f"{error['id']} {error['message']}" for name, error in printed["errors"].items()}


def _raise_errors(printed: dict[str, Any], where: str) -> None:
    for name, error in _errors(printed).items():
        if not error.startswith(_MISSING):
            raise ProbeBroken(f"{where}: {name}: {error}", transport=error)


def _end(token: Any, where: str) -> datetime | None:
    try:
        letters = token["exp"]
        found = _EXP.search(base64.urlsafe_b64decode(letters + "=" * (-len(letters) % 4)))
    except (binascii.Error, ValueError, TypeError, KeyError):
        letters = "?"
        found = None
    if letters and not found:
        raise ProbeBroken(
            f"{where}: cni_token.ps1 printed a token with unexpected fields",
            transport="garbled output",
        )
    return datetime.fromtimestamp(int(found[1]), UTC) if found else None


def differences(text: str, where: str) -> dict[str, str]:
    """Return registry values by key and name, and LanguageMode and culture.

    If a key exists but cannot be read, its value is the error. Raise ProbeBroken.
    """
    printed = _object(text, where, "registry.ps1", f": {text[-200:]!r}")
    found = {name: str(printed.get(name) or "") for name in ("LanguageMode", "Culture")}
    for line in _rows(printed.get("keys")):
        try:
            key = json.loads(line)
            place = str(key["PSPath"]).rpartition("::")[2].split("\\")
        except (ValueError, KeyError, TypeError) as error:
            raise ProbeBroken(
                f"{where}: garbled registry key {str(line)[:200]!r}", transport=str(error)
            ) from None
        net = place[-1] == "Full"
        for name, value in sorted(key.items()):
            if name not in PROVIDER and (not net or name in SHOWN):
                found[f".NET {name}" if net else f"{place[-2]}\\{place[-1]} {name}"] = str(value)
    for path, words in _errors(printed).items():
        if not words.startswith(_MISSING):
            found[f"{path} error"] = words
    return found
