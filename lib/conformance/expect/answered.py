"""Who answered: a connection counts for a route only if, where the answer says whose it is, a backend gave it."""

from __future__ import annotations

from conformance.model.attempt import Kind
from conformance.model.endpoint import Target
from conformance.model.observation import DENIED_VERDICTS, Observation, Verdict
from conformance.pods.roles import STREAM_PORT
from conformance.probe.protocol import same_pod

ARRIVED = frozenset(
    {Verdict.CONNECTED, Verdict.REFUSED, Verdict.RESET, Verdict.ABORTED, Verdict.CLOSED, Verdict.NO_ANSWER}
)
"""Verdicts that only a packet which got to the target, or to whoever has its address, can bring about."""


def plain(target: Target) -> Kind:
    """The least that shows whether a target is reached: a connection, or an echo."""
    return Kind.UDP if target.protocol == "udp" else Kind.TCP


def telling(target: Target) -> Kind:
    """The kind of attempt whose server says whom it saw and who it is."""
    return Kind.UDP if target.protocol == "udp" else Kind.HTTP


def usual(target: Target, *, want: bool) -> Kind:
    """What is tried where a test names no kind, on a route that is to be open or not.

    An open route to pods is asked so that the answer can name the pod, whichever way it goes: a pod's address is given
    to another pod, too; but for streams' ports, where nothing answers.  A closed route gets a bare connect, by Services
    too: a denial is that nothing answers the first packet.
    """
    return telling(target) if want and target.backends and target.port != STREAM_PORT else plain(target)


def unexpected_backend(observation: Observation) -> str:
    """The pod that answered and is no backend of the target; empty: a backend did, or nobody says who."""
    who, target = observation.served_by, observation.attempt.target
    namespace, _, pod = who.partition("/")
    if observation.verdict is not Verdict.CONNECTED or target is None or not (namespace and pod and target.backends):
        return ""
    return "" if any(same_pod(backend, who) for backend in target.backends) else who


def as_wanted(observation: Observation, want: bool) -> bool:
    """Whether a route is open, or closed, as it is to be."""
    if want:
        return observation.verdict is Verdict.CONNECTED and not unexpected_backend(observation)
    return observation.verdict in DENIED_VERDICTS
