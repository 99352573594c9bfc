# SPDX-License-Identifier: Apache-2.0
"""Paths under policies of other owners: the paths' ends, and the policies that could cause their
results."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from conformance.errors import UsageProblem
from conformance.kube.client import Obj
from conformance.model.decision import Side
from conformance.model.endpoint import Addressing, Target, Workload
from conformance.policy import labels
from conformance.policy.foreign import End, ForeignPolicy, Observed, Way
from conformance.policy.oracle import fields
from conformance.policy.oracle.policies import DIRECTIONS, Direction
from conformance.policy.oracle.rules import NOT_KNOWN
from conformance.policy.oracle.switches import Switches
from conformance.policy.oracle.world import NetworkSet, Pod, named_ports

ENFORCED: Mapping[Direction, Side] = {"ingress": "target", "egress": "source"}
WORDS = {"closed": ("may deny", "denies"), "open": ("may allow", "allows")}


@dataclass(frozen=True)
class ObservedPath:
    """A path that policies may have opened or closed: its ends, and its result."""

    source: Workload
    targets: Sequence[Target]
    observed: Observed
    protocol: str
    at: Side
    """The end of the path at which policies are considered."""
    ends: Callable[[Sequence[Workload]], Mapping[str, End]]
    """A function that reads the labels of pods, and returns each pod as policies match it, by uid.
    It is called only if a policy must be judged."""

    @property
    def pods(self) -> list[Workload]:
        """Return all pods of the path, its source first."""
        return [self.source, *(pod for each in self.targets for pod in each.backends)]

    @cached_property
    def ways(self) -> list[tuple[str, Way]]:
        """Return the path in the form that policies match, with the present labels of its ends."""
        return self.ways_between(self.ends(self.pods))

    def ways_between(self, ends: Mapping[str, End]) -> list[tuple[str, Way]]:
        """Return the path between these ends in the form that policies match."""
        return [
            (pod, way)
            for target in self.targets
            for pod, way in ways_between(ends, self.source, target, self.protocol)
            if self.at in ("both", ENFORCED[way.direction])
        ]

    def describe(self, policies: Sequence[ForeignPolicy]) -> str:
        """Describe the policies, among these, that could cause the result; an empty string if there
        are none."""
        return describe(policies, self.ways, self.observed) if policies else ""

    def is_withstood(
        self,
        policy: ForeignPolicy,
        beside: Sequence["ObservedPath"],
        others: Sequence[ForeignPolicy],
    ) -> bool:
        """Return whether open paths (``beside``) at the same pod show that a policy does not close
        this path.

        They show this if the policy would have closed the open paths, too, in every reading in
        which it could close this path, and if no policy of ``others`` may have opened them.
        """
        ways = [way for _, way in self.ways if policy.could(way, "closed") is not False]
        open_ways = [
            way
            for path in beside
            for _, way in path.ways
            if all(one.could(way, "open") is False for one in others)
        ]
        return all(
            any(
                policy.gives(one, "closed", column)
                for one in open_ways
                if (str(one.end.member), one.direction) == (str(way.end.member), way.direction)
            )
            for way in ways
            for column in way.end.columns
            if policy.gives(way, "closed", column) is not False
        )

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
    observed: Observed,
    *,
    surely: bool = False,
) -> str:
    """Describe each policy that could cause the result: ``GlobalNetworkPolicy wide denies ingress
    of demo/server``. If the node reads the policy differently from the documents, add the reason.
    ``surely``: leave out policies whose effect is not known, or not documented."""
    lines = []
    for policy in policies:
        answers = [
            (bool(could), policy.explained(way, observed), f"{way.direction} of {pod}")
            for pod, way in ways
            if (could := policy.could(way, observed)) is not False
        ]
        answers = [answer for answer in answers if not surely or (answer[0] and not answer[1])]
        if answers:
            sure, why, what = max(answers, key=lambda answer: (answer[0], bool(answer[1])))
            line = f"{policy.label} {WORDS[observed][sure]} {what}"
            lines.append(f"{line} ({why})" if why else line)
    return "; ".join(dict.fromkeys(lines))


def may_close(
    policies: Iterable[ForeignPolicy],
    namespaces: Iterable[str],
    every: Iterable[tuple[Switches, ...]],
) -> bool:
    """Return whether a policy could close any path of any pod in these namespaces, on a node with
    any of these columns (ways of reading policies).

    Nothing but the namespace is known of the pods.
    """
    every = list(every)
    ways = [
        Way(direction=direction, end=End(member=pod_in(namespace), columns=columns), other=End())
        for namespace in namespaces
        for direction in DIRECTIONS
        for columns in every
    ]
    return any(policy.could(way, "closed") is not False for policy in policies for way in ways)


def ways_between(
    ends: Mapping[str, End], source: Workload, target: Target, protocol: str
) -> Iterator[tuple[str, Way]]:
    """Yield the path as policies match it at each end (egress at the source, ingress at the
    target), with the name of that end.

    For a node, only policies that apply to its HostEndpoint count, and a node always reaches its
    own pods.
    """
    name = protocol or target.protocol.upper()
    here = ends[source.uid]
    ports = tuple(dict.fromkeys(filter(None, (target.port, target.backend_port))))
    # behind a Service the source may have been translated
    is_direct = target.path is Addressing.POD_IP
    external = End(
        address=_address(target.host) if target.path is Addressing.EXTERNAL else NOT_KNOWN
    )
    for backend in target.backends or (None,):
        there = ends[backend.uid] if backend else external
        of_its_node = is_direct and _is_own_pod(source, backend)
        has_endpoint = bool(here.member and here.member.labels)
        if not source.host_network or (has_endpoint and not of_its_node):
            way = Way(direction="egress", end=here, other=there, protocol=name, ports=ports)
            yield _name(source), way
        if backend and not backend.host_network and not of_its_node:
            origin = here if is_direct else End()
            way = Way(direction="ingress", end=there, other=origin, protocol=name, ports=ports[-1:])
            yield _name(backend), way


def _is_own_pod(source: Workload, pod: Workload | None) -> bool:
    """Return whether the source is a node, and the pod runs on it."""
    return source.host_network and pod is not None and pod.node == source.node


def end_of(
    pod: Obj | None,
    namespace: Obj | None,
    account: Obj | None,
    workload: Workload,
    columns: tuple[Switches, ...],
) -> End:
    """Return a pod in the form that selectors match; properties that were not read count as
    unknown."""
    of_namespace = labels.of_namespace(namespace) if namespace else None
    of_account = labels.of_service_account(account) if account else None
    known = pod is not None and of_namespace is not None
    all_labels = labels.of_pod(pod, of_namespace or {}, of_account or {}) if pod and known else None
    member = Pod(
        namespace=workload.namespace,
        name=workload.pod,
        address=_address(workload.address),
        os=workload.os,
        node=workload.node,
        own=labels.own(pod) if pod else None,
        labels=all_labels,
        namespace_labels=of_namespace,
        account=labels.account_of(pod) if pod else "",
        account_labels=of_account,
        ports=named_ports(pod.get("spec") or {}, workload.pod) if pod else None,
    )
    return End(member=member, address=member.address, columns=columns)


def pod_in(namespace: str, of_namespace: labels.Labels | None = None) -> Pod:
    """Return a pod of which only the namespace is known."""
    return Pod(
        namespace=namespace,
        name="",
        address=NOT_KNOWN,
        os="",
        node="",
        own=None,
        labels=None,
        namespace_labels=of_namespace,
        account="",
        account_labels=None,
        ports=None,
    )


def node_end(node: str, of_endpoint: labels.Labels, address: str) -> End:
    """Return a node in the form that selectors match. ``of_endpoint``: the labels of the node's
    HostEndpoint; empty if it has none."""
    member = NetworkSet(namespace=f"node {node}", labels=of_endpoint, namespace_labels={}, nets=())
    return End(member=member, address=_address(address))


def _address(text: str) -> int:
    try:
        return fields.address(text)
    except UsageProblem:  # a name, or an address of IPv6
        return NOT_KNOWN


def _name(pod: Workload) -> str:
    return f"node {pod.node}" if pod.host_network else f"{pod.namespace}/{pod.pod}"
