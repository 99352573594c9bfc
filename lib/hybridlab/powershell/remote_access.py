# SPDX-License-Identifier: Apache-2.0
"""Cmdlets of the module RemoteAccess that list a Windows host's BGP state as CIM objects.

All properties of these objects are in Microsoft's reference. On a network without BGP the host
lacks the module, and PowerShell reports the cmdlets as unknown names.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from hybridlab.powershell.binding import Call
from hybridlab.powershell.faults import Fault
from hybridlab.powershell.objects import NetObject
from hybridlab.powershell.shell import Library, Shell
from hybridlab.powershell.stages import once
from hybridlab.powershell.syntax import NotEmulated
from hybridlab.runtime.applet import HostProblem

CLASSES = ("BgpRouter", "BgpPeer", "BgpCustomRoute", "BgpRouteInformation")
"""The CIM classes of the objects. Each class has a cmdlet that lists its objects, such as
``Get-BgpRouter``. The lab emulates no parameter of these cmdlets."""


def _listing(kind: str) -> Callable[[Shell, Call], Awaitable[list[object]]]:
    async def rows(shell: Shell, call: Call) -> list[object]:
        if shell.process.host is None:
            raise NotEmulated(f"cmdlet {call.name} outside a HostProcess container")
        try:
            found: Any = await shell.process.host.ask(call.name.lower(), {})
        except HostProblem as problem:
            raise (
                _unknown(call) if problem.kind == "unknown" else _refused(call, kind, str(problem))
            ) from None
        return [
            NetObject(f"Microsoft.Management.Infrastructure.CimInstance#{kind}", row, table=True)
            for row in found
        ]

    return rows


def _refused(call: Call, kind: str, message: str) -> Fault:
    where = f"(PS_{kind}:root/Microsoft/...Access/PS_{kind})"
    return Fault(
        message,
        f"NotSpecified: {where} [{call.typed}], CimException",
        f"WIN32 0,{call.typed}",
        source=call.typed,
        terminating=False,
        kind="Microsoft.Management.Infrastructure.CimException",
    )


def _unknown(call: Call) -> Fault:
    text = (
        f"The term '{call.typed}' is not recognized as the name of a cmdlet, function, script file, or operable "
        "program. Check the spelling of the name, or if a path was included, verify that the path is correct and try "
        "again."
    )
    category = f"ObjectNotFound: ({call.typed}:String) [], CommandNotFoundException"
    return Fault(text, category, "CommandNotFoundException", source=call.typed)


def add_to(library: Library) -> None:
    """Register the cmdlets of this module."""
    for kind in CLASSES:
        library.add(f"Get-{kind}", "", once(_listing(kind)))
