# SPDX-License-Identifier: Apache-2.0
"""A lab, put together: API server, control plane, Calico, faults, and labd.

This module only connects the parts and orders their starts and ends.
"""

import asyncio
import logging
import os
import secrets
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hybridlab.api.authentication import Token
from hybridlab.api.contract import NodeAgent, Obj
from hybridlab.api.core import Settings
from hybridlab.api.requests import MASTERS
from hybridlab.api.server import ApiServer
from hybridlab.calico.cluster import Calico
from hybridlab.cluster import certificates, kubeconfig
from hybridlab.cluster.control import ControlServer
from hybridlab.cluster.ending import EndRequest
from hybridlab.cluster.exits import OK
from hybridlab.cluster.felix_pods import FelixPods
from hybridlab.cluster.installs.axes import install_of
from hybridlab.cluster.installs.installed import Installed
from hybridlab.cluster.kube_proxy_pods import WindowsKubeProxies
from hybridlab.cluster.rundir import RunDir
from hybridlab.cluster.windows_hosts import HostAnswers, windows_hosts
from hybridlab.controllers.manager import ControlPlane
from hybridlab.dataplane.contract import remote_dataplane
from hybridlab.faults.gates import ServiceGate, ZoneGate
from hybridlab.faults.injector import Injector
from hybridlab.faults.lab_parts import LabParts
from hybridlab.faults.model import Taps
from hybridlab.kernel import log, open_files
from hybridlab.kernel.rpc import Server
from hybridlab.labd.launch import Labd, LabdFailed
from hybridlab.networks.registry import fault_types, plane_of
from hybridlab.policy import selectors
from hybridlab.profiles.machines import machines
from hybridlab.profiles.model import Profile
from hybridlab.runtime.contract import WindowsHosts
from hybridlab.runtime.descriptors import RemoteStreams, remote_runtime
from hybridlab.runtime.stalls import KubeletStalls

ADMIN = "kubernetes-admin"
DEATH_IS_HEARD_WITHIN = 0.5
"""Seconds to wait for labd's end after a failure: the failure may be a consequence of that end, and
be noticed before it."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The inputs from which a lab is put together."""

    profile: Profile
    listener: socket.socket
    labd: Labd
    directory: RunDir
    kubeconfig: Path
    begun: float
    """The monotonic seconds at which the command began."""
    taps: Taps | None = None
    powershell: str = ""
    """The version of the PowerShell that runs the probe programs of Windows pods; empty: the lab
    emulates the probe programs."""


class Lab:
    """A lab that is starting, running, or ending."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._streams: RemoteStreams | None = None
        self._stops: list[Callable[[], Any]] = []
        """The function that ends each started part, in the order of starting."""

    async def start(self) -> None:
        """Start everything and return when the cluster is ready: nodes Ready, system pods
        Running, DNS answering.

        labd must be connected.
        """
        setting = self._setting
        profile = self._setting.profile
        identity = certificates.make()
        channel = setting.labd.channel
        dataplane = remote_dataplane(channel)
        self._streams = RemoteStreams(channel)
        runtime = remote_runtime(channel, self._streams)

        token = secrets.token_urlsafe(32)
        tokens = {token: Token(ADMIN, (MASTERS,))}
        self._server = server = ApiServer(
            _api_settings(profile, tokens, identity.ca_pem.decode()),
            listener=setting.listener,
            tls=identity.context,
            agent_of=self._agent_of,
        )
        plane = plane_of(profile)
        installed = Installed(profile, plane)
        calico = Calico(server.client, dataplane, profile, plane, installed, log=self._felix_says)
        zone_gate = ZoneGate(dataplane)
        service_gate = ServiceGate(dataplane)
        kubelet_stalls = KubeletStalls()
        self._control_plane = ControlPlane(
            server.client,
            dataplane,
            runtime,
            profile,
            calico.pod_network,
            installed,
            resolvers=zone_gate,
            proxied=service_gate,
            snat_local_pods_to=calico.snat_for,
            snat_node_ports_to=calico.node_port_snat_for,
            issue_token=self._issue_token,
            kubelet_stalls=kubelet_stalls,
        )
        on_windows = {name: (node.machine, node.hns) for name, node in calico.windows.items()}
        kube_proxies = WindowsKubeProxies(
            profile, plane, on_windows, self._control_plane, runtime, service_gate
        )
        hosts = windows_hosts(calico, self._control_plane, kube_proxies, profile)
        answers = HostAnswers(hosts, calico)
        Server(WindowsHosts, channel).answer_with(answers)
        self._felixes = FelixPods(calico, self._control_plane, runtime)
        lab = LabParts(
            dataplane,
            calico,
            server.client("hybridlab"),
            zone_gate,
            server.interference,
            self._kill,
            service_gate,
            kubelet_stalls,
            answers.answers,
        )
        server.interference.admission.taps["webhooks"] = plane.admit
        taps = setting.taps or Taps()
        self._injector = Injector(lab, {**fault_types(plane.kind), **taps.faults}, fault_types())
        taps.put(lab)

        await server.start()
        self._stops.append(server.stop)
        await self._control_plane.register()
        await calico.start()
        self._stops.append(calico.stop)
        await self._control_plane.start()
        if not install_of(profile).windows_pods:
            self._felixes.start_services()
        self._stops += [self._control_plane.stop, self._felixes.stop, kube_proxies.stop]
        await self._control_plane.ready()
        await calico.ipam_saved()
        control = ControlServer(setting.directory.control, self._operations())
        await control.start()
        self._stops.append(control.stop)
        access = kubeconfig.Access(server=server.url, ca_pem=identity.ca_pem, token=token)
        kubeconfig.write(setting.kubeconfig, access, setting.directory.path)

    async def connect(self) -> None:
        """Wait for labd. Raise LabdFailed with the features that this machine lacks."""
        channel = await self._setting.labd.connect(self._on_event)
        loop = asyncio.get_running_loop()
        open_files.listen(lambda lack: loop.call_soon_threadsafe(channel.end, lack))
        log.begin("hybridlab")
        for handler in logging.getLogger().handlers:
            # labd's end is logged once; it causes all later failures, which are not logged.
            handler.addFilter(lambda record: not channel.closed)

    async def stop(self) -> None:
        """End every part that has started, in reverse order, and labd at the end."""
        for stop in reversed(self._stops):
            await stop()
        await self._setting.labd.close()

    def ready_line(self) -> str:
        """Return the line that the command prints when the lab is ready."""
        profile = self._setting.profile
        seconds = time.monotonic() - self._setting.begun
        outside = (
            f"outside host {profile.network.outside_address}, "
            if profile.network.outside_address
            else ""
        )
        powershell = self._setting.powershell
        windows = f"PowerShell {powershell} in Windows pods, " if powershell else ""
        return (
            f"hybridlab ready: profile {profile.name}, {len(machines(profile))} nodes, {self._server.url}, "
            f"kubeconfig {self._setting.kubeconfig}, {outside}{windows}after {seconds:.2f} s"
        )

    def _on_event(self, name: str, parameters: Any) -> None:
        if self._streams is not None:
            self._streams.event(name, parameters)

    def _agent_of(self, node: str) -> NodeAgent | None:
        return self._control_plane.node_agent(node)

    async def _kill(self, pod: Obj, container: str) -> None:
        await self._control_plane.kill_container(pod, container)

    def _felix_says(self, node: str, line: str) -> None:
        self._felixes.say(node, line)

    async def _issue_token(self, pod: Obj, audience: str, seconds: int) -> str:
        """Return a token of the pod's ServiceAccount, as its kubelet requests it."""
        name = pod["spec"].get("serviceAccountName") or "default"
        namespace = pod["metadata"]["namespace"]
        account = await self._server.client("hybridlab").get("serviceaccounts", name, namespace)
        spec = {"audiences": [audience] if audience else [], "expirationSeconds": max(seconds, 600)}
        return str(
            self._server.core.authenticator.issue(account, {"spec": spec})["status"]["token"]
        )

    def _operations(self) -> Mapping[str, Callable[[Mapping[str, Any]], Any]]:
        async def status(_: Mapping[str, Any]) -> dict[str, Any]:
            pods, _version = await self._server.client("hybridlab").list("pods")
            return {
                "profile": self._setting.profile.name,
                "nodes": len(machines(self._setting.profile)),
                "pods": len(pods),
                "seconds": time.monotonic() - self._setting.begun,
                "pid": os.getpid(),
                "server": self._server.url,
                "kubeconfig": str(self._setting.kubeconfig),
                "requests": self._server.audit.total(),
                "faults": [active["id"] for active in self._injector.active()],
            }

        async def active(_: Mapping[str, Any]) -> list[dict[str, Any]]:
            return self._injector.active()

        async def inject(request: Mapping[str, Any]) -> dict[str, str]:
            parameters = {
                str(key): str(value) for key, value in (request.get("parameters") or {}).items()
            }
            return {"id": await self._injector.inject(str(request.get("fault")), parameters)}

        async def heal(request: Mapping[str, Any]) -> dict[str, str]:
            await self._injector.heal(str(request.get("id")))
            return {}

        async def heal_all(_: Mapping[str, Any]) -> dict[str, str]:
            await self._injector.heal_all()
            return {}

        return {
            "status": status,
            "active": active,
            "inject": inject,
            "heal": heal,
            "heal-all": heal_all,
        }


async def run_until_signal(
    setting: Setting, say_ready: Callable[[str], None], end: EndRequest
) -> int:
    """Start a lab, print that it is ready, and keep it until SIGINT, SIGTERM or labd's death.
    Return the exit code."""
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()
    end.tell(lambda: loop.call_soon_threadsafe(asked.set))
    lab = Lab(setting)
    ended = asyncio.create_task(asked.wait())
    try:
        if not await _finished(asyncio.create_task(lab.connect()), {ended}):
            return OK
        died = asyncio.create_task(setting.labd.channel.wait_closed())
        if not await _finished(asyncio.create_task(lab.start()), {ended, died}):
            return _why_it_ends(ended, died)
        say_ready(lab.ready_line())
        await asyncio.wait({ended, died}, return_when=asyncio.FIRST_COMPLETED)
        return _why_it_ends(ended, died)
    finally:
        ended.cancel()
        await lab.stop()
        end.tell(None)


async def _finished(starting: asyncio.Task[None], ends: set[asyncio.Task[Any]]) -> bool:
    """Return whether a part of the start finished before any of ``ends``. If it did not, cancel the
    part and ignore its result."""
    await asyncio.wait({starting, *ends}, return_when=asyncio.FIRST_COMPLETED)
    if starting.done() and starting.exception() is not None:
        await asyncio.wait(ends, timeout=DEATH_IS_HEARD_WITHIN, return_when=asyncio.FIRST_COMPLETED)
    if not any(end.done() for end in ends):
        starting.result()
        return True
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    return False


def _why_it_ends(ended: asyncio.Task[Any], died: asyncio.Task[str]) -> int:
    """Return OK if the user ended the lab. Raise LabdFailed if labd died."""
    if not ended.done():
        reason = died.result()
        raise LabdFailed(
            reason
            if reason.startswith(open_files.LACK)
            else f"labd died ({reason}); the lab is gone"
        )
    died.cancel()
    return OK


def _api_settings(profile: Profile, tokens: Mapping[str, Token], ca_pem: str) -> Settings:
    return Settings(
        kubernetes_version=profile.kubernetes.version,
        service_cidr=profile.network.service_cidr,
        node_port_range=profile.kube_proxy.node_port_range,
        calico_v3_api=profile.calico.v3_api,
        calico_crd_v1_api=profile.calico.crd_v1_api,
        calico_version=profile.calico.version,
        calico_operator=install_of(profile).operator,
        selector_problem=selectors.problem,
        tokens=tokens,
        ca_certificate=ca_pem,
    )
