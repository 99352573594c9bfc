# SPDX-License-Identifier: Apache-2.0
"""Cmdlets that read or change a Windows host.

They work in HostProcess containers only. In any other container they end with ``not emulated``,
like every cmdlet that the lab lacks.
"""

import re
from fnmatch import fnmatchcase
from typing import Any

from hybridlab.powershell.binding import Call
from hybridlab.powershell.faults import Fault
from hybridlab.powershell.items import content, get_content
from hybridlab.powershell.json_text import from_json
from hybridlab.powershell.objects import NetObject, enumerate_value, to_text
from hybridlab.powershell.operators import to_int
from hybridlab.powershell.shell import Library, Make, Shell, Stage
from hybridlab.powershell.stages import once
from hybridlab.powershell.syntax import NotEmulated
from hybridlab.runtime.applet import Host, HostProblem

SERVICE_STATUS = {"Stopped": 1, "Running": 4}
"""System.ServiceProcess.ServiceControllerStatus, which ConvertTo-Json of 5.1 writes as a number."""
KNOWN_SERVICES = frozenset({
    "containerd", "hns", "kubelet", "vmcompute", "calicofelix", "caliconode", "calicoconfd", "kube-proxy", "kubeproxy",
    "remoteaccess",
})  # fmt: skip
CALICO_PROGRAMS = ("calico-node", "calico")
KNOWN_PROCESSES = frozenset({"calico-node.exe", "calico.exe", "kube-proxy.exe"})


_HNS_ANSWERS = {"hns-error": None, "hns-silent": "", "hns-garbled": ""}
"""The output of hns.psm1's cmdlets when HNS returns an error, no answer, or an answer without JSON.
"""


async def _failed_hns(shell: Shell, call: Call, kind: str, message: str) -> object:
    """Write the error of a failed HNS cmdlet.

    The cmdlet calls Write-Error inside a function, so that neither ``$?`` nor the exit status
    shows the failure.
    """
    if kind != "hns-silent":
        fault = Fault(
            message,
            "NotSpecified: (:) [Write-Error], WriteErrorException",
            "Microsoft.PowerShell.Commands.WriteErrorException",
            source=call.name,
            at=call.node,
            terminating=False,
            kind="Microsoft.PowerShell.Commands.WriteErrorException",
        )
        await shell.write_error(fault, call)
    return _HNS_ANSWERS[kind]


async def ask(shell: Shell, call: Call, question: str, **arguments: object) -> Any:
    """Return the host's answer.

    Raise NotEmulated outside a HostProcess container, and Fault if the host refuses.
    """
    host: Host | None = shell.process.host
    if host is None:
        raise NotEmulated(f"cmdlet {call.name} outside a HostProcess container")
    try:
        return await host.ask(question, arguments)
    except HostProblem as problem:
        message = str(problem)
        if problem.kind == "no-service":
            name = str(arguments["name"])
            raise _missing(
                call, "ServiceController", name, "NoServiceFoundForGivenName", message
            ) from None
        if problem.kind == "no-process":
            raise _missing(
                call, "Process", str(arguments["id"]), "NoProcessFoundForGivenId", message
            ) from None
        if problem.kind in _HNS_ANSWERS:
            return await _failed_hns(shell, call, problem.kind, message)
        raise NotEmulated(message.removeprefix("not emulated: ")) from None


def _missing(call: Call, kind: str, what: str, identity: str, message: str) -> Fault:
    command = "".join(part.capitalize() for part in call.name.split("-"))
    return Fault(
        message,
        f"ObjectNotFound: ({what}:String) [{call.name}], {kind}CommandException",
        f"{identity},Microsoft.PowerShell.Commands.{command}Command",
        source=call.typed,
        terminating=False,
    )


def _hns(question: str) -> Make:
    async def listed(shell: Shell, call: Call) -> list[object]:
        """Return the items of a list, or any other answer unchanged."""
        answer = await ask(shell, call, question)
        return enumerate_value(from_json(answer)) if isinstance(answer, list) else [answer]

    return once(listed)


class _RemoveHnsNetwork(Stage):
    """A stage that removes the HNS networks it receives."""

    async def process(self, item: object) -> None:
        if not isinstance(item, NetObject) or not item.has("ID"):
            raise NotEmulated("Remove-HnsNetwork of an object that is not a network")
        await ask(self.shell, self.call, "remove-network", id=to_text(item.get("ID")))


async def get_service(shell: Shell, call: Call) -> list[object]:
    """Return the services with the given names."""
    found: list[object] = []
    for name in _names(call):
        services = {
            key.lower(): (key, status)
            for key, status in (await ask(shell, call, "services")).items()
        }
        if name.lower() not in services:
            text = f"Cannot find any service with service name '{name}'."
            raise _missing(call, "ServiceController", name, "NoServiceFoundForGivenName", text)
        key, status = services[name.lower()]
        value = NetObject(
            "System.ServiceProcess.ServiceControllerStatus",
            text=status,
            number=SERVICE_STATUS[status],
        )
        properties = {"Name": key, "DisplayName": key, "Status": value}
        found.append(NetObject("System.ServiceProcess.ServiceController", properties, table=True))
    return found


async def restart_service(shell: Shell, call: Call) -> list[object]:
    """Restart a service."""
    for name in _names(call):
        await ask(shell, call, "restart-service", name=name)
    return []


def _names(call: Call) -> list[str]:
    names = [to_text(name) for name in enumerate_value(call.get("name"))]
    strange = [name for name in names if name.lower() not in KNOWN_SERVICES]
    if strange or not names:
        raise NotEmulated(f"{call.name} {' '.join(strange) or 'without a name'}")
    return names


async def get_cim_instance(shell: Shell, call: Call) -> list[object]:
    """Return a ``Win32_Process`` by name, or all updates.

    The processes are Felix' and kube-proxy's. ``Win32_QuickFixEngineering`` lists the updates.
    """
    kind = call.text("classname")
    wanted = call.text("filter")
    if kind.lower() == "win32_operatingsystem" and not wanted:
        await ask(shell, call, "services")  # raises NotEmulated in other containers
        zone = {"CurrentTimeZone": 0}
        return [NetObject("Microsoft.Management.Infrastructure.CimInstance", zone, table=True)]
    if kind.lower() == "win32_quickfixengineering" and not wanted:
        return [
            NetObject("Microsoft.Management.Infrastructure.CimInstance", update, table=True)
            for update in await ask(shell, call, "updates")
        ]
    named = re.fullmatch(r"\s*name\s*=\s*['\"]([^'\"]+)['\"]\s*", wanted, re.IGNORECASE)
    if kind.lower() != "win32_process" or named is None or named[1].lower() not in KNOWN_PROCESSES:
        raise NotEmulated(f"Get-CimInstance {kind} -Filter {wanted!r}")
    processes = await ask(shell, call, "processes")
    return [
        NetObject("Microsoft.Management.Infrastructure.CimInstance", process, table=True)
        for process in processes
        if process["Name"].lower() == named[1].lower()
    ]


class _CalicoProgram(Stage):
    """Calico's program on the host, of which only the printing of its version is emulated."""

    async def alone(self) -> None:
        if [given.word for given in self.call.arguments] != ["-v"]:
            raise NotEmulated(f"{self.call.name} other than with -v")
        await self.put([await ask(self.shell, self.call, "calico-version")])
        self.shell.variables["lastexitcode"] = 0


async def stop_process(shell: Shell, call: Call) -> list[object]:
    """Stop processes by id."""
    if not call.has("id"):
        raise NotEmulated(f"{call.name} without an id")
    for identity in enumerate_value(call.get("id")):
        await ask(shell, call, "stop-process", id=to_int(identity))
    return []


async def get_host_content(shell: Shell, call: Call) -> list[object]:
    """Return a file of the container or, in a HostProcess container, of the host.

    ``*`` in a path matches any characters.
    """
    path = call.text("path")
    if isinstance(call.get("path"), list) or not path:
        raise NotEmulated("Get-Content without a path, or with several")
    if shell.process.host is not None:
        wanted = path.replace("/", "\\").lower()
        for name, text in (await ask(shell, call, "files")).items():
            if fnmatchcase(name.lower(), wanted):
                return content(call, text)
        if "*" in path:
            return []
    return get_content(shell, call, path)


def add_to(library: Library) -> None:
    """Register the cmdlets of this module."""
    library.tools |= dict.fromkeys(CALICO_PROGRAMS, _CalicoProgram)
    for name, question in {
        "Network": "networks",
        "Endpoint": "endpoints",
        "PolicyList": "policy-lists",
    }.items():
        library.add(f"Get-Hns{name}", "", _hns(question))
    library.add("Remove-HnsNetwork", "", _RemoveHnsNetwork)
    library.add("Get-Service", "Name@0", once(get_service), "gsv")
    library.add("Restart-Service", "Name@0 Force?", once(restart_service))
    library.add("Get-CimInstance", "ClassName@0 Filter", once(get_cim_instance), "gcim")
    library.add("Stop-Process", "Id@0 Force?", once(stop_process), "spps", "kill")
    library.add("Get-Content", "Path@0 Raw? Tail:int", once(get_host_content), "cat", "type", "gc")
