# SPDX-License-Identifier: Apache-2.0
"""The CNI plugin: gives a pod an address and connects the pod to its node; later removes the
connection and the address.

Implements ``dataplane.pod_network.PodNetwork`` for every node. Until Felix has programmed an
endpoint, the data plane keeps it closed (Linux: in both directions, Windows: ingress), as Calico
does.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from hybridlab.api.contract import ApiError
from hybridlab.calico.address_wishes import wish_of
from hybridlab.calico.cni_log import CniLogs
from hybridlab.calico.ipam_objects import IPAMWriter
from hybridlab.dataplane.contract import Dataplane, DataplaneError
from hybridlab.dataplane.model import PodPort, PodSpec
from hybridlab.dataplane.pod_network import PodAttachment, SandboxError
from hybridlab.networks.contract.addresses import AddressError, AddressSource
from hybridlab.networks.contract.plane import Plane
from hybridlab.networks.contract.windows_node import WindowsNode
from hybridlab.profiles.machines import Machine, etc_hosts, resolver
from hybridlab.profiles.model import Profile
from hybridlab.taps import Seam

NETWORK_NAME = {"linux": "k8s-pod-network", "windows": "Calico"}
"""The CNI network's name, which is the first part of an IPAM handle."""

SearchList = Literal["own-only", "of-default", "of-first", "none"]
"""Wrong search lists that a fault gives new pods: only the domain of the pod's namespace, the list
of the namespace ``default``, the list of the node's first new pod, or an empty list."""

EndpointUp = Callable[[str, str], Awaitable[None]]
"""Called with (node, pod uid) when an interface exists. Returns once the pod's policy is in place,
or at once if the pod need not wait for it."""
EndpointDown = Callable[[str, str], None]
"""Called with (node, pod uid) when an interface is gone."""


@dataclass(frozen=True)
class _Wired:
    node: str
    handle: str
    attachment: PodAttachment


class CNI:
    """The CNI plugins of all nodes."""

    def __init__(  # noqa: PLR0917
        self,
        profile: Profile,
        plane: Plane,
        nodes: Mapping[str, Machine],
        dataplane: Dataplane,
        addresses: AddressSource,
        writer: IPAMWriter,
        windows: Mapping[str, WindowsNode],
        *,
        endpoint_up: EndpointUp,
        endpoint_down: EndpointDown,
        annotations: Callable[[str], Mapping[str, str]],
    ) -> None:
        """Set up the plugins. ``annotations``: returns the annotations of a namespace."""
        self._profile = profile
        self._plane = plane
        self._nodes = nodes
        self._dataplane = dataplane
        self._addresses = addresses
        self._writer = writer
        self._windows = windows
        self._endpoint_up = endpoint_up
        self._endpoint_down = endpoint_down
        self._annotations = annotations
        self.logs = CniLogs()
        self.refusals: Seam[str] = Seam()
        """A seam through which the plugin's message about a refused pod passes; for a pod that the
        plugin accepts, an empty message passes. Its taps also receive the node."""
        self._wired: dict[str, _Wired] = {}
        self.wrong_searches: dict[str, tuple[SearchList, frozenset[str]]] = {}
        """The wrong search list of each fault and the nodes that it affects, by the fault's id."""
        self._first_searched: dict[tuple[str, str], str] = {}
        """The namespace's domain of the first pod that a fault affected on a node, by fault and
        node."""

    def address_of(self, pod_uid: str) -> str | None:
        """Return a connected pod's address."""
        wired = self._wired.get(pod_uid)
        return wired.attachment.address if wired else None

    async def attach(self, pod: Mapping[str, Any], node: str) -> PodAttachment:
        """Give the pod an address and connect it to ``node``; a second call for the same pod
        returns the first result.

        Raise SandboxError in the plugin's wording.
        """
        uid: str = pod["metadata"]["uid"]
        if uid in self._wired:
            return self._wired[uid].attachment
        name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        try:
            attachment = await self._attach(pod, uid, node)
        except SandboxError as error:
            self._log(node, name, error.__cause__ or error)
            raise
        self._log(node, name)
        return attachment

    def _log(self, node: str, pod: str, problem: object = None) -> None:
        """Log the end of a call if the node's plugin is Calico's."""
        if self._type(node) == "calico":
            self.logs.added(node, pod, problem)

    def _type(self, node: str) -> str:
        return self._plane.cni_type(self._nodes[node].os)

    def _failed(self, node: str, error: object) -> SandboxError:
        return SandboxError(f'plugin type="{self._type(node)}" failed (add): {error}')

    async def _attach(self, pod: Mapping[str, Any], uid: str, node: str) -> PodAttachment:
        machine = self._nodes[node]
        windows = self._windows.get(node)
        refusal = self._plane.refusal(windows, pod) if windows is not None else ""
        if refusal := self.refusals(refusal, node):
            raise self._failed(node, refusal)
        sandbox_id = secrets.token_hex(32)
        handle = f"{NETWORK_NAME[machine.os]}.{sandbox_id}"
        try:
            wish = wish_of(
                pod["metadata"].get("annotations") or {},
                self._annotations(pod["metadata"]["namespace"]),
            )
            address = self._addresses.assign(node, handle, _attributes(pod, node), wish)
        except AddressError as error:
            raise self._failed(node, error) from error
        network = self._addresses.network_of(address)
        port = self._plane.pod_port(machine, address, network, windows)
        annotations = self._plane.pod_annotations(machine.os, address, sandbox_id)
        attachment = PodAttachment(
            address=address,
            gateway=port.gateway,
            mtu=port.mtu,
            mac=port.mac,
            annotations=annotations,
        )
        self._wired[uid] = _Wired(node, handle, attachment)
        try:
            if windows is not None:
                gone = windows.hns.ensure_pod_network(self._plane.plugged_network(windows, network))
                windows.hns.attach(uid, sandbox_id, address, port.mac or "")
                await self.cut_off(gone)
            results = await asyncio.gather(
                self._writer.saved(),
                self._dataplane.add_pod(self._spec(pod, machine, address, port)),
                self._endpoint_up(node, uid),
                return_exceptions=True,  # all calls end before anything is undone
            )
            for result in results:
                if isinstance(result, BaseException):
                    raise result
            if windows is not None and not windows.hns.attached(uid):
                raise self._failed(node, f"HNS network {windows.hns.pods} was removed meanwhile")
        except BaseException as error:
            await asyncio.shield(self._undo(uid))
            if isinstance(error, ApiError | DataplaneError):
                raise self._failed(node, error) from error
            raise
        return attachment

    async def detach(self, pod_uid: str) -> None:
        """Remove a pod's interface and release its address; do nothing if the pod has none. When
        this returns, the address can be assigned again."""
        wired = self._wired.get(pod_uid)
        if wired is None:
            return
        await self._dataplane.remove_pod(pod_uid)
        self._remove_endpoint(wired.node, pod_uid)
        self._wired.pop(pod_uid, None)
        self._endpoint_down(wired.node, pod_uid)
        self._addresses.release(wired.handle)
        await self._writer.saved()

    async def cut_off(self, pods: Iterable[str]) -> None:
        """Delete the interfaces of pods whose HNS network is gone. The pods keep their addresses
        until they are deleted."""
        await asyncio.gather(*(self._dataplane.cut_off_pod(pod) for pod in pods))

    async def _undo(self, uid: str) -> None:
        """Remove everything that a failed attachment has left."""
        wired = self._wired.pop(uid)
        self._remove_endpoint(wired.node, uid)
        self._endpoint_down(wired.node, uid)
        self._addresses.release(wired.handle)
        with contextlib.suppress(DataplaneError):  # the pod may never have been added
            await self._dataplane.remove_pod(uid)

    def _remove_endpoint(self, node: str, uid: str) -> None:
        if node in self._windows:
            self._windows[node].hns.detach(uid)

    def _spec(
        self, pod: Mapping[str, Any], machine: Machine, address: str, port: PodPort
    ) -> PodSpec:
        meta = pod["metadata"]
        settings = resolver(self._profile, pod)
        return PodSpec(
            id=meta["uid"],
            node=machine.name,
            name=meta["name"],
            namespace=meta["namespace"],
            address=address,
            port=port,
            hostname=pod["spec"].get("hostname") or meta["name"],
            nameservers=settings.nameservers,
            searches=self._searches(settings.searches, machine),
            etc_hosts=etc_hosts(self._profile, pod, address),
            **({"resolver_options": settings.options} if machine.os == "linux" else {}),
        )

    def _searches(self, given: tuple[str, ...], machine: Machine) -> tuple[str, ...]:
        """Return a pod's search domains. On Windows there is only the domain of the pod's
        namespace. Source: Kubernetes' page Networking on Windows, section on DNS."""
        given = given[:1] if machine.os == "windows" else given
        for fault, (wrong, nodes) in self.wrong_searches.items():
            if not given or machine.name not in nodes:
                continue
            own, *others = given
            if wrong == "none":
                given = ()
            elif wrong == "own-only":
                given = (own,)
            elif wrong == "of-default":
                given = (f"default.{own.partition('.')[2]}", *others)
            else:
                given = (self._first_searched.setdefault((fault, machine.name), own), *others)
        return given


def _attributes(pod: Mapping[str, Any], node: str) -> dict[str, str]:
    """Return the attributes that IPAM stores with an address."""
    return {
        "pod": pod["metadata"]["name"],
        "namespace": pod["metadata"]["namespace"],
        "node": node,
        "timestamp": f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S.%f} +0000 UTC",
    }
