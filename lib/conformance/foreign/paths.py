# SPDX-License-Identifier: Apache-2.0
"""Paths as policies of other owners meet them: their ends, and which policies could give their
result."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from conformance.kube.client import Obj
from conformance.model.decision import Side
from conformance.model.endpoint import Addressing, Target, Workload
from conformance.policy import labels
from conformance.policy.foreign import Direction, End, ForeignPolicy, Seen, Way

DIRECTIONS: tuple[Direction, ...] = ("ingress", "egress")
ENFORCED: Mapping[Direction, Side] = {"ingress": "target", "egress": "source"}
WORDS = {"closed": ("may deny", "denies"), "open": ("may allow", "allows")}


@dataclass(frozen=True)
class ObservedPath:
    """A path that policies may have opened or closed: its ends, and how it behaved."""

    source: Workload
    targets: Sequence[Target]
    seen: Seen
    protocol: str
    at: Side
    """The end at which policies count."""
    ends: Callable[[Sequence[Workload]], Mapping[str, End]]
    """Reads the labels of pods; called only where a policy is to be judged."""

    @property
    def pods(self) -> list[Workload]:
        """Return all pods of the path, its source first."""
        return [self.source, *(pod for each in self.targets for pod in each.backends)]

    @cached_property
    def ways(self) -> list[tuple[str, Way]]:
        """Return the path as policies meet it now."""
        return self.ways_between(self.ends(self.pods))

    def ways_between(self, ends: Mapping[str, End]) -> list[tuple[str, Way]]:
        """Return the path as policies meet it between these ends."""
        return [
            (pod, way)
            for target in self.targets
            for pod, way in ways_between(ends, self.source, target, self.protocol)
            if self.at in ("both", ENFORCED[way.direction])
        ]

    def describe(self, policies: Sequence[ForeignPolicy]) -> str:
        """Describe which of these policies could give the result; empty: none."""
        return describe(policies, self.ways, self.seen) if policies else ""

    def selected(self, described: Iterable[tuple[str, ForeignPolicy]]) -> list[str]:
        """Return the descriptions of the policies that may select an end of the path."""
        return [
            text
            for text, policy in described
            if any(policy.selects(way.end, way.direction) is not False for _, way in self.ways)
        ]


def describe(
    policies: Sequence[ForeignPolicy],
    ways: Sequence[tuple[str, Way]],
    seen: Seen,
    *,
    surely: bool = False,
) -> str:
    """Describe each policy that could give the result: ``GlobalNetworkPolicy wide denies ingress of
    demo/server``.

    ``surely``: leave out policies of which it is not known.
    """
    lines = []
    for policy in policies:
        answers = [(policy.could(way, seen), way.direction, pod) for pod, way in ways]
        answers = [answer for answer in answers if answer[0] or (answer[0] is None and not surely)]
        if answers:
            truth, direction, pod = max(answers, key=lambda answer: bool(answer[0]))
            lines.append(f"{policy.label} {WORDS[seen][bool(truth)]} {direction} of {pod}")
    return "; ".join(dict.fromkeys(lines))


def may_close(policies: Iterable[ForeignPolicy], namespaces: Iterable[str]) -> bool:
    """Return whether a policy could close anything of pods of which only the namespace is known."""
    ways = [
        Way(direction=direction, end=End(namespace=namespace), other=End())
        for namespace in namespaces
        for direction in DIRECTIONS
    ]
    return any(policy.could(way, "closed") is not False for policy in policies for way in ways)


def ways_between(
    ends: Mapping[str, End], source: Workload, target: Target, protocol: str
) -> Iterator[tuple[str, Way]]:
    """Yield each direction at each end, by the name of that end.

    A node is under the policies of its HostEndpoint alone, and always reaches its own pods.
    """
    name = protocol or target.protocol.upper()
    here = ends[source.uid]
    ports = tuple(dict.fromkeys(filter(None, (target.port, target.backend_port))))
    # behind a Service the source may have been translated
    is_direct = target.path is Addressing.POD_IP
    external = End(address="" if target.path is Addressing.NAME else target.host)
    for backend in target.backends or (None,):
        there = ends[backend.uid] if backend else external
        of_its_node = is_direct and _is_own_pod(source, backend)
        if not source.host_network or (here.calico and not of_its_node):
            way = Way(direction="egress", end=here, other=there, protocol=name, ports=ports)
            yield _name(source), way
        if backend and not backend.host_network and not of_its_node:
            origin = here if is_direct else End()
            way = Way(direction="ingress", end=there, other=origin, protocol=name, ports=ports[-1:])
            yield _name(backend), way


def _is_own_pod(source: Workload, pod: Workload | None) -> bool:
    """Return whether the source is a node, and the pod runs on it."""
    return source.host_network and pod is not None and pod.node == source.node


def end_of(pod: Obj | None, namespace: Obj | None, workload: Workload) -> End:
    """Return a pod as selectors match it; what was not read is not known."""
    of_namespace = labels.of_namespace(namespace) if namespace else None
    known = pod is not None and of_namespace is not None
    return End(
        namespace=workload.namespace,
        pod=labels.own(pod) if pod else None,
        calico=labels.of_pod(pod, of_namespace or {}, {}) if pod and known else None,
        of_namespace=of_namespace,
        address=workload.address,
    )


def _name(pod: Workload) -> str:
    return f"node {pod.node}" if pod.host_network else f"{pod.namespace}/{pod.pod}"
