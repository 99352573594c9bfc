# SPDX-License-Identifier: Apache-2.0
"""The hosts of a lab. A Windows host passes requests of PowerShell in a HostProcess container to
Calico, kube-proxy and HNS; a Linux host passes requests of ``birdcl`` to the pods' network."""

from collections.abc import Mapping
from typing import Any

from hybridlab.calico.cluster import Calico
from hybridlab.calico.cni_log import PATH
from hybridlab.cluster.installs.axes import install_of, kube_proxy_service
from hybridlab.cluster.kube_proxy_pods import WindowsKubeProxies
from hybridlab.controllers.manager import ControlPlane
from hybridlab.networks.contract.windows_node import WindowsNode
from hybridlab.profiles.model import Profile
from hybridlab.runtime.model import HostAnswer
from hybridlab.taps import Seam
from hybridlab.windows import kube_proxy
from hybridlab.windows.host import HostRefused, HostState, WindowsHost


def windows_hosts(
    calico: Calico, control_plane: ControlPlane, kube_proxies: WindowsKubeProxies, profile: Profile
) -> dict[str, WindowsHost]:
    """Map each Windows node to its host."""
    return {
        name: WindowsHost(
            node.machine, profile, _state(node, profile, calico, control_plane, kube_proxies)
        )
        for name, node in calico.windows.items()
    }


class HostAnswers:
    """Implements ``runtime.contract.WindowsHosts``."""

    def __init__(self, hosts: Mapping[str, WindowsHost], calico: Calico) -> None:
        self._hosts = hosts
        self._calico = calico
        self.answers: Seam[object] = Seam()
        """A seam through which the answer of a Windows host passes; its taps also receive the node
        and the question."""

    async def ask(self, node: str, question: str, arguments: dict[str, object]) -> HostAnswer:
        try:
            if node in self._hosts:
                answer = await self._hosts[node].answer(question, arguments)
                return HostAnswer(answer=self.answers(answer, node, question))
            return HostAnswer(answer=self._on_linux(node, question))
        except HostRefused as refused:
            return HostAnswer(kind=refused.kind, problem=str(refused))

    def _on_linux(self, node: str, question: str) -> object:
        tables = self._calico.plane.host_tables(
            self._calico.nodes[node], self._calico.typha.routing
        )
        if question not in tables:
            raise HostRefused(
                "unknown", f"not emulated: {question} of a Linux host on this network"
            )
        return tables[question]()


def _state(
    node: WindowsNode,
    profile: Profile,
    calico: Calico,
    control_plane: ControlPlane,
    kube_proxies: WindowsKubeProxies,
) -> HostState:
    name = node.machine.name
    felix = calico.felixes[name]
    install = install_of(profile)

    def remote_routes() -> list[dict[str, Any]]:
        routes = felix.routing.routes
        return [] if routes is None else calico.plane.hns_routes(routes, node)

    def files() -> dict[str, str]:
        found = {**node.cni_files, **kube_proxy.files(profile, node.machine)}
        log = calico.pod_network.logs.text(name)
        return found if log is None else {**found, PATH["windows"]: log}

    async def remove_network(identity: str) -> None:
        await calico.remove_hns_network(name, identity)
        control_plane.kubelets[name].cut_streams()

    return HostState(
        hns=node.hns,
        acls=lambda: felix.acls,
        pod_policies=lambda: node.pod_policies,
        remote_routes=remote_routes,
        services=lambda: control_plane.kube_proxies.table(name),
        files=files,
        felix_process=lambda: node.process,
        kube_proxy_process=lambda: kube_proxies.process(name),
        restart_felix=lambda: calico.restart_felix(name),
        remove_network=remove_network,
        end_felix=None if install.felix_restarts else lambda: calico.felix_stopped(name),
        calico_folder=install.windows_folder,
        calico_services=install.windows_services,
        kube_proxy_service=kube_proxy_service(profile),
        network_services=lambda: calico.plane.host_services(node),
        network_tables=calico.plane.host_tables(node.machine, calico.typha.routing),
    )
