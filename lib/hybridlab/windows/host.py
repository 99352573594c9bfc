# SPDX-License-Identifier: Apache-2.0
"""The host of a Windows node, as PowerShell in a HostProcess container sees it: HNS, services,
processes, files.

Answers come from the real state of the lab. PowerShell runs in labd, but the state is in this
process. Therefore PowerShell sends requests by name (see :meth:`WindowsHost.answer`).
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hybridlab.dataplane.model import ServiceTable
from hybridlab.profiles.machines import Machine, enables_dsr
from hybridlab.profiles.model import Profile
from hybridlab.windows import hns_objects, kube_proxy
from hybridlab.windows.dsr import uses_dsr
from hybridlab.windows.hns_networks import Hns

ALWAYS_RUNNING = ("containerd", "hns", "kubelet", "vmcompute")
FELIX_SERVICE = "CalicoFelix"
HNS_QUESTIONS = frozenset(("networks", "endpoints", "policy-lists", "remove-network"))
HNS_FAILURES = {
    "error": "An unexpected error occurred while processing the request.",
    "silent": "",
    "garbled": "Conversion from JSON failed.",
}
"""The ways in which HNS can fail, each with the error text that the cmdlets write; an empty text:
the cmdlets write no error."""
RUNNING = "Running"
STOPPED = "Stopped"


class HostRefused(Exception):
    """An operation that the host cannot do; ``kind`` is the error that PowerShell shows."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, kw_only=True)
class HostState:
    """The sources of a host's state, and the functions that change it."""

    hns: Hns
    acls: Callable[[], Mapping[str, tuple[dict[str, object], ...]]]
    """The ACL list that HNS received last for each pod, by the pod's uid."""
    pod_policies: Callable[[], list[dict[str, Any]]]
    """The policies that the CNI plugin gives every pod's endpoint in addition to its ACLs."""
    remote_routes: Callable[[], list[dict[str, Any]]]
    """The policies that lead to other nodes, which Felix has added to the pod network."""
    services: Callable[[], ServiceTable | None]
    """The table that kube-proxy has programmed on the node."""
    files: Callable[[], Mapping[str, str]]
    """The contents of the host's files, by path (as written, with backslashes)."""
    felix_process: Callable[[], int | None]
    """The process id of Felix; None while it does not run."""
    kube_proxy_process: Callable[[], tuple[int, str] | None]
    """The process id and command line of kube-proxy; None while it does not run."""
    restart_felix: Callable[[], Awaitable[None]]
    remove_network: Callable[[str], Awaitable[None]]
    """Removes a network by id, and disconnects all its pods."""
    calico_folder: str = "C:\\hpc\\CalicoWindows"
    """The folder of Felix' program, on the host or in Felix' HostProcess container."""
    end_felix: Callable[[], Awaitable[None]] | None = None
    """Called in place of ``restart_felix`` when the process of Felix is ended; None:
    ``restart_felix`` is called."""
    calico_services: tuple[str, ...] = ()
    """The Windows services that run Calico; empty if Calico runs only in pods."""
    kube_proxy_service: str = ""
    """The Windows service that runs kube-proxy; empty: kube-proxy is no service."""
    network_services: Callable[[], Mapping[str, bool]] = dict
    """The services that the network of pods needs, and whether each runs."""
    network_tables: Mapping[str, Callable[[], list[dict[str, object]]]] = field(
        default_factory=dict
    )
    """Results of cmdlets about the network of pods, by their names in lower case."""


class WindowsHost:
    """The host of a Windows node."""

    def __init__(self, machine: Machine, profile: Profile, state: HostState) -> None:
        self._machine = machine
        self._profile = profile
        self._state = state
        self._acts: set[asyncio.Task[None]] = set()

    async def answer(self, question: str, arguments: Mapping[str, Any]) -> object:
        """Return JSON for ``networks``, ``endpoints``, ``policy-lists``, ``services``,
        ``processes``, ``updates``, ``registry``, ``calico-version``, ``files`` and cmdlets about
        pods' network; return nothing for the actions ``remove-network`` (id), ``restart-service``
        (name) and ``stop-process`` (id).

        Raise HostRefused.
        """
        if question in HNS_QUESTIONS:
            self._hns_fails()
        answers: dict[str, Callable[[], object]] = {
            "networks": self._networks,
            "endpoints": self._endpoints,
            "policy-lists": self._policy_lists,
            "services": self._services,
            "processes": self._processes,
            "updates": self._updates,
            "registry": self._registry,
            "calico-version": lambda: self._profile.calico.on("windows"),
            "files": lambda: dict(self._state.files()),
            **self._state.network_tables,
        }
        if question in answers:
            return answers[question]()
        match question:
            case "remove-network":
                await self._remove_network(str(arguments["id"]))
            case "restart-service":
                await self._restart_service(str(arguments["name"]))
            case "stop-process":
                await self._stop_process(int(arguments["id"]))
            case _:
                raise HostRefused("unknown", f"not emulated: {question} of a Windows host")
        return None

    def _hns_fails(self) -> None:
        if how := self._state.hns.faults.failing:
            raise HostRefused(f"hns-{how}", f"HNS failed with error : {HNS_FAILURES[how]}")

    def _networks(self) -> list[dict[str, Any]]:
        address = self._machine.address
        routes = self._state.remote_routes()
        return [
            hns_objects.network(
                network, address, routes if network.name == self._state.hns.pods else ()
            )
            for network in self._state.hns.networks
        ]

    def _endpoints(self) -> list[dict[str, Any]]:
        hns = self._state.hns
        acls = self._state.acls()
        policies = self._state.pod_policies()
        networks = {network.id: network for network in hns.networks}
        table = self._state.services()
        own = self._machine
        remote = (
            hns_objects.remote_endpoints(
                own.name, own.address, table, hns.pod_network, hns.endpoints
            )
            if table and hns.pod_network
            else ()
        )
        return [
            *(
                hns_objects.endpoint(
                    endpoint, networks[endpoint.network], policies, acls.get(endpoint.pod, ())
                )
                for endpoint in hns.endpoints
            ),
            *remote,
        ]

    def _policy_lists(self) -> list[dict[str, Any]]:
        table = self._state.services()
        if table is None:
            return []
        dsr = uses_dsr(
            self._machine.group.windows_build,
            enable_dsr=enables_dsr(self._profile, self._machine),
        )
        return hns_objects.policy_lists(self._machine.name, table, self._endpoints(), dsr=dsr)

    async def _remove_network(self, identity: str) -> None:
        if identity not in {network.id for network in self._state.hns.networks}:
            raise HostRefused(
                "hns-error", f"HNS failed with error : The network was not found. ({identity})"
            )
        await self._act(self._state.remove_network(identity))

    def _services(self) -> dict[str, str]:
        services = dict.fromkeys(ALWAYS_RUNNING, RUNNING)
        up = RUNNING if self._state.felix_process() is not None else STOPPED
        services |= dict.fromkeys(self._state.calico_services, up)
        services |= {
            name: RUNNING if runs else STOPPED
            for name, runs in self._state.network_services().items()
        }
        if name := self._state.kube_proxy_service:
            services[name] = RUNNING if self._state.kube_proxy_process() is not None else STOPPED
        return services

    def _updates(self) -> list[dict[str, str]]:
        return [
            {"Description": "Update", "HotFixID": name}
            for name in self._machine.group.windows_updates
        ]

    async def _restart_service(self, name: str) -> None:
        names = {service.lower() for service in self._services()}
        if name.lower() not in names:
            raise HostRefused("no-service", f"Cannot find any service with service name '{name}'.")
        if name.lower() != FELIX_SERVICE.lower():
            raise HostRefused("unknown", f"not emulated: Restart-Service {name}")
        await self._act(self._state.restart_felix())

    def _processes(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        if (process := self._state.felix_process()) is not None:
            name, command = felix_command(self._profile.calico.on("windows"))
            path = f"{self._state.calico_folder}\\{name}"
            found.append(
                {"Name": name, "ProcessId": process, "CommandLine": command, "ExecutablePath": path}
            )
        if (running := self._state.kube_proxy_process()) is not None:
            found.append(
                {"Name": kube_proxy.NAME, "ProcessId": running[0], "CommandLine": running[1]}
            )
        return found

    def _registry(self) -> dict[str, dict[str, object]]:
        """Return the values of each registry key below HKLM, by key. Numbers are DWORDs."""
        found: dict[str, dict[str, object]] = {}
        for path, value in self._machine.group.windows_registry.items():
            key, _, name = path.rpartition("\\")
            found.setdefault(key, {})[name] = int(value) if value.isdigit() else value
        return found

    async def _stop_process(self, process: int) -> None:
        if process != self._state.felix_process():
            raise HostRefused(
                "no-process", f"Cannot find a process with the process identifier {process}."
            )
        await self._act((self._state.end_felix or self._state.restart_felix)())

    async def _act(self, work: Awaitable[None]) -> None:
        """Run an operation to its end, even if it disconnects the caller."""

        async def run() -> None:
            await work

        task = asyncio.create_task(run())
        self._acts.add(task)
        task.add_done_callback(self._acts.discard)
        await asyncio.shield(task)


def felix_command(version: str) -> tuple[str, str]:
    """Return name and command line of Felix' process on Windows, according to felix-service.ps1:
    ``calico.exe`` from v3.33 on."""
    found = re.match(r"v?(\d+)\.(\d+)", version)
    if found and (int(found[1]), int(found[2])) >= (3, 33):
        return "calico.exe", "calico.exe component felix"
    return "calico-node.exe", "calico-node.exe -felix"
