# SPDX-License-Identifier: Apache-2.0
"""Reads the evidence for a conclusion about the failed layer: lists of rules, backends, load
balancers."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from ipaddress import IPv4Address

from conformance.errors import SuiteError, first_line
from conformance.evidence.layer import End, PathEvidence
from conformance.evidence.packet_capture import Observe, ends_of
from conformance.expect.engine.names import UNSENT
from conformance.expect.explain.advice import SERVICES
from conformance.expect.explain.nearest import NOT_THROUGH
from conformance.facts.networks.hns_health import Look, wrong_balancers
from conformance.kube.client import Kube
from conformance.kube.fields import list_at
from conformance.model.attempt import Attempt, Kind
from conformance.model.endpoint import Addressing, Workload
from conformance.model.explanation import Explanation
from conformance.model.host import HnsNetwork
from conformance.model.observation import Verdict
from conformance.policy.acl_answer import Packet, answer
from conformance.policy.acl_differences import compare, observed_list
from conformance.policy.acl_list import HnsRule
from conformance.probe.host import Hosts

Lists = Callable[[Workload], list[tuple[HnsRule, ...]]]
"""Returns the lists of rules that Felix may give HNS for a Windows pod: a list with the known
defects of the release, and a list without them."""
DENIED = str(Verdict.TIMED_OUT)
ARRIVED = (Verdict.CONNECTED, Verdict.REFUSED, Verdict.RESET, Verdict.CLOSED, Verdict.NO_ANSWER)
"""Verdicts that are possible only if a packet reached its target."""
OVERLAY = "overlay"
SERVED = "own address"
"""The labels of two lines in an explanation. ``OVERLAY``: the nodes have wrong entries for each
other's pods. ``SERVED``: the answers of backends at their own addresses."""
DISCOVERY = "discovery.k8s.io/v1"


@dataclass(frozen=True)
class Sources:
    """The sources of the evidence about a path, other than the API and the hosts."""

    lists: Lists
    by_defects: Callable[[Workload], Mapping[str, tuple[HnsRule, ...]]]
    """Returns the lists with each set of a release's known defects, the smallest set first. The
    keys describe the effects of the defects."""
    observe: Observe


@dataclass(frozen=True)
class PathReading:
    """The reader of the evidence about a failed path."""

    kube: Kube
    hosts: Hosts
    sources: Sources

    def read(self, path: Attempt, explanation: Explanation) -> PathEvidence:
        """Return the evidence about a path. ``explanation`` belongs to the path's failure."""
        ends = ends_of(path)
        is_open = explanation.expected != DENIED
        node = _balancing_node(path) if is_open else ""
        read = [self._end(end, path) for end in ends if end.os == "windows"]
        is_blocked = not is_open and any(end.answers[1] == "Block" for end in read)
        return PathEvidence(
            should_be_open=is_open,
            ends=read,
            arrives=is_blocked and self._arrives(path),
            linux=list(dict.fromkeys(end.node for end in ends if end.os != "windows")),
            unready="; ".join(self._unready(path)) if is_open else "",
            overlay=explanation.lines.get(OVERLAY, "") if is_open else "",
            networks="; ".join(self._networks(ends)) if is_open else "",
            balancer=self._balancer(node, path) if node else "",
            balancer_node=node,
            refused=explanation.observed.startswith("REFUSED"),
            by_service=path.target is not None and path.target.path in SERVICES,
            backends_answer=NOT_THROUGH in explanation.lines.get(SERVED, ""),
        )

    def _end(self, end: Workload, path: Attempt) -> End:
        """Return a Windows end's lists and their answers to the path's first packet."""
        try:
            accepted = self.sources.lists(end)
            held = observed_list(self.hosts.acl_list(end.node, end))
        except SuiteError as error:
            return End(pod=end.label, node=end.node, promised="", held="", unread=first_line(error))
        promised = min(accepted, key=lambda each: len(compare(each, held)))
        differences = compare(promised, held)
        packet = packet_at(end, path)
        read = End(
            pod=end.label,
            node=end.node,
            promised=answer(promised, packet) if packet else "",
            held=answer(held, packet) if packet else "",
            difference=str(differences[0]) if differences else "",
        )
        if differences or packet is None or answer(accepted[-1], packet) == read.held:
            return read
        defects = (
            text
            for text, each in self.sources.by_defects(end).items()
            if answer(each, packet) == read.held
        )
        return replace(read, defects=next(defects))

    def _arrives(self, path: Attempt) -> bool:
        """Return whether a packet arrives now, after the lists were read."""
        try:
            return self.sources.observe([path])[0].verdict in ARRIVED
        except SuiteError:
            return False

    def _unready(self, path: Attempt) -> Iterator[str]:
        """Yield the backends of a path that are not ready, each with the time since which it is not
        ready."""
        for pod in path.target.backends if path.target else ():
            obj = self.kube.find("v1", "Pod", pod.pod, pod.namespace)
            conditions = list_at(obj or {}, "status", "conditions")
            ready = next((each for each in conditions if each.get("type") == "Ready"), None)
            if ready and ready.get("status") != "True":
                yield (
                    f"pod {pod.pod} on {pod.node} is not Ready since "
                    f"{ready.get('lastTransitionTime')} ({ready.get('reason') or 'no reason'})"
                )

    def _networks(self, ends: Iterable[Workload]) -> Iterator[str]:
        """Yield a line for each HNS network of a Windows end, with the time of the network's last
        change."""
        for node in dict.fromkeys(end.node for end in ends if end.os == "windows"):
            yield from (
                f"HNS network {network.name} of {node} unchanged since {network.updated}"
                for network in self._own_networks(node)
            )

    def _own_networks(self, node: str) -> list[HnsNetwork]:
        """Return a node's pod networks for which HNS reports the time of the last change.

        Return an empty list if HNS does not answer, since these times are only additional evidence.
        """
        try:
            return [each for each in self.hosts.hns_networks(node) if each.updated]
        except SuiteError:
            return []

    def _balancer(self, node: str, path: Attempt) -> str:
        """Return the fault of the load balancer of a path's Service, or an empty string if there is
        no fault."""
        assert path.target is not None
        found = self.kube.get("v1", "Node", node)
        look = Look(
            endpoints=self.hosts.hns_endpoints(node, remote=True),
            balancers=self.hosts.load_balancers(node),
            services=self.kube.objects("v1", "Service"),
            slices=self.kube.objects(DISCOVERY, "EndpointSlice"),
            hosts={str(each.get("address")) for each in list_at(found, "status", "addresses")},
        )
        wrong: Mapping[object, str] = wrong_balancers(look)
        address = f"{path.target.host}:{path.target.port}/"
        return next((text for text in wrong.values() if address in text), "")


def packet_at(end: Workload, path: Attempt) -> Packet | None:
    """Return the first packet of a path at one of its ends. None if a Service may have changed the
    packet's addresses, or if an address is not IPv4."""
    target = path.target
    if target is None or target.path is not Addressing.POD_IP or path.kind is Kind.DNS:
        return None
    try:
        client, server = (int(IPv4Address(each)) for each in (path.source.address, target.host))
    except ValueError:
        return None
    is_client = end.uid == path.source.uid
    return Packet(
        direction="Out" if is_client else "In",
        protocol=17 if target.protocol == "udp" else 6,
        local=client if is_client else server,
        remote=server if is_client else client,
        port=target.port,
    )


def is_about_a_path(path: Attempt, explanation: Explanation) -> bool:
    """Return whether the failure is about a path being open or closed."""
    is_sent = not explanation.observed.startswith(tuple(map(str, UNSENT)))
    is_whole = explanation.expected in (DENIED, str(Verdict.CONNECTED))
    return path.kind is not Kind.DNS and is_sent and is_whole


def _balancing_node(path: Attempt) -> str:
    """Return the Windows node whose kube-proxy translates the path's ClusterIP. Return an empty
    string if a Linux node translates it, or if the path's address is no ClusterIP."""
    is_cluster_ip = path.target is not None and path.target.path is Addressing.CLUSTER_IP
    return path.source.node if is_cluster_ip and path.source.os == "windows" else ""


def command(pod: Workload, end: Workload) -> str:
    """Return the command that shows the list of an end; it is run in a pod of its node's host."""
    read = f"(Get-HnsEndpoint | Where-Object IPAddress -eq {end.address}).Policies"
    return (
        f"kubectl exec -n {pod.namespace} {pod.pod} -c {pod.container} -- powershell -Command "
        f"'{read}'"
    )
