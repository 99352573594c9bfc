# SPDX-License-Identifier: Apache-2.0
"""Concludes from the evidence about a path which layer failed. The module reads nothing itself, and
decides no verdict.

A conclusion names a layer only if the evidence fits no other layer; otherwise the layer is ``not
known``, with the causes that fit.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from conformance.model.explanation import UNKNOWN
from conformance.policy.acl_answer import Answer


@dataclass(frozen=True, kw_only=True)
class End:
    """The end of a path on a Windows node, with the list of access rules there."""

    pod: str
    node: str
    promised: Answer
    """The answer (allow or block) of the rules that Felix' release renders for the pod's
    policies."""
    held: Answer
    """The answer (allow or block) of the rules that HNS really has."""
    difference: str = ""
    """The first difference between Felix' rules and HNS' rules; empty if they are equal."""
    defects: str = ""
    """The known defects of the release, if the release's rules give their answer only because of
    these defects."""
    unread: str = ""
    """The reason why one of the two lists is not known."""

    @property
    def answers(self) -> tuple[Answer, Answer]:
        """Return the answers of Felix' rules and of HNS' rules. Return two empty strings if a list
        is not known."""
        return ("", "") if self.unread else (self.promised, self.held)


@dataclass(frozen=True, kw_only=True)
class PathEvidence:
    """Everything that was read about a path with an unexpected result."""

    should_be_open: bool
    ends: Sequence[End] = ()
    """The ends of the path on Windows nodes."""
    arrives: bool = False
    """True if a packet still arrives after lists were read that block it."""
    linux: Sequence[str] = ()
    """The Linux nodes at the path's ends, whose rules are not read."""
    unready: str = ""
    """The backends that are not ready, each with the time since which it is not ready."""
    overlay: str = ""
    """Wrong routes, forwarding entries, VNIs or ports with which the nodes reach each other's
    pods."""
    networks: str = ""
    """The HNS networks of the Windows ends, each with the time of its last change."""
    balancer: str = ""
    """The fault of the Service's load balancer, if the load balancer is missing or wrong."""
    balancer_node: str = ""
    """The Windows node whose load balancers were read; empty if none were read."""
    refused: bool = False
    """True if the newest answer is a refusal."""
    by_service: bool = False
    """True if the path leads through a Service, by its address, name or NodePort."""
    backends_answer: bool = False
    """True if the backends answer at their own addresses, but not through the Service."""


def conclude(evidence: PathEvidence) -> str:
    """Return the layer that failed, or ``not known`` with the causes that fit."""
    return _closed(evidence) if evidence.should_be_open else _leak(evidence)


def _leak(evidence: PathEvidence) -> str:
    """Return why a packet arrived although a policy closes the path."""
    for end in evidence.ends:
        if end.answers == ("Block", "Allow"):
            return f"{end.difference} on {end.node}: Felix did not program it"
    closing = [end for end in evidence.ends if end.answers[1] == "Block"]
    if closing:
        return _blocked(closing, arrives=evidence.arrives)
    opened = _by_defects(evidence.ends, "Allow")
    return opened or _nothing(evidence, "Felix' rules, or what is below them")


def _by_defects(ends: Sequence[End], does: Answer) -> str:
    """Return a text about the node whose list allows (or blocks) the packet because of known
    defects. Return an empty string if there is no such node."""
    by_defects = (
        f"the list of {end.node} {does.lower()}s the packet because of a known defect of this "
        f"release ({end.defects}), with which Felix renders the policies"
        for end in ends
        if end.defects and end.held == does
    )
    return next(by_defects, "")


def _blocked(closing: Sequence[End], *, arrives: bool) -> str:
    """Return why a packet arrived although lists at the path's ends block it."""
    sound = [end for end in closing if not end.difference]
    state = "is as it should be" if sound else f"differs ({closing[0].difference})"
    nodes = _nodes(sound or closing)
    if arrives:
        return (
            f"the list of {nodes} {state} and blocks the packet, yet the packet arrives: the "
            "fault is below HNS' list"
        )
    return (
        f"{UNKNOWN}: the list of {nodes} {state}, and now blocks the packet, which no longer "
        "arrives; either Felix programmed the list late, or the fault is below the list"
    )


def _nodes(ends: Sequence[End]) -> str:
    return " and ".join(dict.fromkeys(end.node for end in ends))


def _closed(evidence: PathEvidence) -> str:
    """Return why a packet did not arrive on a path that should be open."""
    if evidence.unready:
        return f"{evidence.unready}: the backend is at fault, not the network"
    if evidence.overlay:
        return f"{evidence.overlay}: the routes between nodes{_networks(evidence)}"
    for end in evidence.ends:
        if end.answers == ("Allow", "Block"):
            return f"{end.difference} on {end.node}: Felix did not program it"
    if blocked := _by_defects(evidence.ends, "Block"):
        return blocked
    if evidence.backends_answer or evidence.balancer:
        return _of_service(evidence)
    if evidence.refused:
        behind = "kube-proxy has no backend for it, or " if evidence.by_service else ""
        other = "" if evidence.by_service else ", or a firewall refuses it"
        return f"{UNKNOWN}: {behind}nothing listens at the port{other}"
    return _nothing(evidence, "a firewall, or packet loss between the nodes")


def _of_service(evidence: PathEvidence) -> str:
    """Return why a path through a Service fails although the backends answer at their own
    addresses."""
    if evidence.balancer:
        return (
            f"HNS on {evidence.balancer_node} differs from the EndpointSlices "
            f"({evidence.balancer}): kube-proxy did not program it"
        )
    if evidence.balancer_node:
        return (
            f"the load balancer on {evidence.balancer_node} matches the EndpointSlices, and the "
            "backends answer at their own addresses: the fault is below kube-proxy, in HNS"
        )
    return (
        f"{UNKNOWN}: the backends answer at their own addresses; either kube-proxy did not "
        "program the Service, or what it programmed does not work"
    )


def _unread(evidence: PathEvidence) -> Iterator[str]:
    """Yield the lists and answers of a path's ends that were not read."""
    for end in evidence.ends:
        if end.unread:
            yield f"the list of {end.node}: {end.unread}"
        elif not (end.promised and end.held):
            yield f"the answer of {end.node} to this packet"
    yield from (f"the rules of Linux node {node}" for node in evidence.linux)


def _nothing(evidence: PathEvidence, causes: str) -> str:
    unread = list(dict.fromkeys(_unread(evidence)))
    left = f"; not read: {', '.join(unread)}" if unread else ""
    rendered = "".join(
        f"; the list of {end.node} is as this release renders it: {end.held} for the packet"
        for end in evidence.ends
        if end.held and not end.difference
    )
    return f"{UNKNOWN}: {causes}{rendered}{left}{_networks(evidence)}"


def _networks(evidence: PathEvidence) -> str:
    return f"; {evidence.networks}" if evidence.networks else ""
