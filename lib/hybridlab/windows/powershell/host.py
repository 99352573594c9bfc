"""Cmdlets that look into a Windows host and act on it; they work in HostProcess containers only.

In any other container they are answered ``not emulated``, as every cmdlet that the lab does not have.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Any

from hybridlab.runtime.applet import Host, HostProblem
from hybridlab.windows.powershell.cmdlets import from_json, get_content, only, parameter
from hybridlab.windows.powershell.faults import Fault
from hybridlab.windows.powershell.interpreter import Call, Interpreter, Library
from hybridlab.windows.powershell.objects import NetObject, enumerate_value, to_number, to_text
from hybridlab.windows.powershell.syntax import NotEmulated

SERVICE_STATUS = {"Stopped": 1, "Running": 4}
"""System.ServiceProcess.ServiceControllerStatus, which ConvertTo-Json of 5.1 writes as a number."""
KNOWN_SERVICES = frozenset({"containerd", "hns", "kubelet", "vmcompute", "calicofelix", "caliconode", "calicoconfd"})
FELIX_PROCESSES = frozenset({"calico-node.exe", "calico.exe"})


async def ask(shell: Interpreter, call: Call, question: str, **arguments: object) -> Any:
    """The host's answer.  Raises NotEmulated outside a HostProcess container, Fault when the host refuses."""
    host: Host | None = shell.process.host
    if host is None:
        raise NotEmulated(f"cmdlet {call.name} outside a HostProcess container")
    try:
        return await host.ask(question, arguments)
    except HostProblem as problem:
        message = str(problem)
        if problem.kind == "no-service":
            name = str(arguments["name"])
            raise _missing(call, "ServiceController", name, "NoServiceFoundForGivenName", message) from None
        if problem.kind == "no-process":
            raise _missing(call, "Process", str(arguments["id"]), "NoProcessFoundForGivenId", message) from None
        if problem.kind == "hns":
            raise Fault(message, at=call.node, thrown=True) from None
        raise NotEmulated(message.removeprefix("not emulated: ")) from None


def _missing(call: Call, kind: str, what: str, identity: str, message: str) -> Fault:
    command = "".join(part.capitalize() for part in call.name.split("-"))
    return Fault(
        message,
        f"ObjectNotFound: ({what}:String) [{call.name}], {kind}CommandException",
        f"{identity},Microsoft.PowerShell.Commands.{command}Command",
        source=call.name,
        terminating=False,
    )


async def get_hns_network(shell: Interpreter, call: Call) -> list[object]:
    """All networks."""
    only(call)
    return enumerate_value(from_json(await ask(shell, call, "networks")))


async def get_hns_endpoint(shell: Interpreter, call: Call) -> list[object]:
    """All endpoints."""
    only(call)
    return enumerate_value(from_json(await ask(shell, call, "endpoints")))


async def get_hns_policy_list(shell: Interpreter, call: Call) -> list[object]:
    """All load balancers."""
    only(call)
    return enumerate_value(from_json(await ask(shell, call, "policy-lists")))


async def remove_hns_network(shell: Interpreter, call: Call) -> list[object]:
    """The networks that are piped in."""
    only(call)
    if call.piped is None:
        raise NotEmulated("Remove-HnsNetwork without a network piped in")
    for item in call.piped:
        if not isinstance(item, NetObject):
            raise NotEmulated("Remove-HnsNetwork of something that is no network")
        await ask(shell, call, "remove-network", id=to_text(item.get("ID")))
    return []


async def get_service(shell: Interpreter, call: Call) -> list[object]:
    """The services of these names."""
    only(call, "name", positions=1)
    found: list[object] = []
    for name in _names(call):
        services = {key.lower(): (key, status) for key, status in (await ask(shell, call, "services")).items()}
        if name.lower() not in services:
            text = f"Cannot find any service with service name '{name}'."
            raise _missing(call, "ServiceController", name, "NoServiceFoundForGivenName", text)
        key, status = services[name.lower()]
        shown = ("Status", "Name", "DisplayName")
        value = NetObject("System.ServiceProcess.ServiceControllerStatus", text=status, number=SERVICE_STATUS[status])
        properties = {"Name": key, "DisplayName": key, "Status": value}
        found.append(NetObject("System.ServiceProcess.ServiceController", properties, shown=shown, table=shown))
    return found


async def restart_service(shell: Interpreter, call: Call) -> list[object]:
    """One service."""
    only(call, "name", "force", positions=1)
    for name in _names(call):
        await ask(shell, call, "restart-service", name=name)
    return []


def _names(call: Call) -> list[str]:
    names = [to_text(name) for name in enumerate_value(parameter(call, "name", position=0))]
    strange = [name for name in names if name.lower() not in KNOWN_SERVICES]
    if strange or not names:
        raise NotEmulated(f"{call.name} {' '.join(strange) or 'without a name'}")
    return names


async def get_cim_instance(shell: Interpreter, call: Call) -> list[object]:
    """``Win32_Process`` of Felix, by name."""
    only(call, "classname", "filter", positions=1)
    kind = to_text(parameter(call, "classname", position=0))
    wanted = to_text(parameter(call, "filter"))
    named = re.fullmatch(r"\s*name\s*=\s*['\"]([^'\"]+)['\"]\s*", wanted, re.IGNORECASE)
    if kind.lower() != "win32_process" or named is None or named[1].lower() not in FELIX_PROCESSES:
        raise NotEmulated(f"Get-CimInstance {kind} -Filter {wanted!r}")
    processes = await ask(shell, call, "processes")
    shown = ("ProcessId", "Name", "CommandLine")
    return [
        NetObject("Microsoft.Management.Infrastructure.CimInstance", one, shown=shown, table=shown)
        for one in processes
        if one["Name"].lower() == named[1].lower()
    ]


async def stop_process(shell: Interpreter, call: Call) -> list[object]:
    """By id."""
    only(call, "id", "force", positions=1)
    for identity in enumerate_value(parameter(call, "id", position=0)):
        await ask(shell, call, "stop-process", id=int(to_number(identity)))
    return []


async def get_host_content(shell: Interpreter, call: Call) -> list[object]:
    """A file of the container or, in a HostProcess container, of the host; ``*`` stands for any characters there."""
    path = to_text(parameter(call, "path", "literalpath", position=0))
    if shell.process.host is not None:
        only(call, "path", "raw", "literalpath", positions=1)
        wanted = path.replace("/", "\\").lower()
        for name, text in (await ask(shell, call, "files")).items():
            if fnmatchcase(name.lower(), wanted):
                return [text] if call.named.get("raw") else list(text.splitlines())
    return await get_content(shell, call)


def add_to(library: Library) -> None:
    """Register them."""
    library.cmdlets |= {
        "get-hnsnetwork": get_hns_network,
        "get-hnsendpoint": get_hns_endpoint,
        "get-hnspolicylist": get_hns_policy_list,
        "remove-hnsnetwork": remove_hns_network,
        "get-service": get_service,
        "restart-service": restart_service,
        "get-ciminstance": get_cim_instance,
        "stop-process": stop_process,
        "get-content": get_host_content,
    }
    library.aliases |= {"gsv": "get-service", "gcim": "get-ciminstance", "spps": "stop-process", "kill": "stop-process"}
