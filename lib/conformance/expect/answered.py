"""Who answered: a connection counts for a route only if, where the answer says whose it is, a backend gave it."""

from __future__ import annotations

from conformance.model.attempt import Kind
from conformance.model.endpoint import Target
from conformance.model.observation import DENIED_VERDICTS, Observation, Verdict
from conformance.pods.roles import ECHO_PORT, STREAM_PORT
from conformance.probe.protocol import same_pod

ARRIVED = frozenset(
    {Verdict.CONNECTED, Verdict.REFUSED, Verdict.RESET, Verdict.ABORTED, Verdict.CLOSED, Verdict.NO_ANSWER}
)
"""Verdicts that only a packet which got to the target, or to whoever has its address, can bring about."""


NOBODY = "a server that is not the suite's"
"""Who answered over HTTP without saying who it is."""


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
    """Who answered and is no backend of the target; empty: a backend did, or nobody says who.

    Behind a Service a backend's other port is as wrong as another pod: then the port is told too.  Where the suite's
    echo servers are behind it, so is an answer of a program that does not say who it is.
    """
    who, target = observation.served_by, observation.attempt.target
    if observation.verdict is not Verdict.CONNECTED or target is None or not target.backends:
        return ""
    namespace, _, pod = who.partition("/")
    if not (namespace and pod):
        silent = target.backend_port == ECHO_PORT and observation.attempt.kind is Kind.HTTP and not who
        return NOBODY if silent and observation.status is not None else ""
    if not any(same_pod(backend, who) for backend in target.backends):
        return who
    wrong_port = target.backend_port and observation.served_port not in {0, target.backend_port}
    return f"port {observation.served_port} of {who}" if wrong_port else ""


def as_wanted(observation: Observation, want: bool) -> bool:
    """Whether a route is open, or closed, as it is to be."""
    if want:
        return observation.verdict is Verdict.CONNECTED and not unexpected_backend(observation)
    return observation.verdict in DENIED_VERDICTS
