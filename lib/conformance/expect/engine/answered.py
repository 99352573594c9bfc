# SPDX-License-Identifier: Apache-2.0
"""Checks which pod answered: a connection counts for a path only if a backend of the path's target
gave the answer. The suite's echo servers always name their pod, so an answer without a name on an
echo server's path comes from another server. If no server can name itself (a node's own port, the
cluster's DNS, ping, a bare connection), the decision says so."""

from collections.abc import Sequence
from string import ascii_lowercase

from conformance.model.attempt import Attempt, Kind, plain
from conformance.model.endpoint import Addressing, Target
from conformance.model.observation import Observation, Verdict
from conformance.pods.roles import DEMO_PORT, ECHO_PORT, STREAM_PORT
from conformance.probe.protocol import same_pod
from conformance.settings.assumptions import DENIED_VERDICTS

NAMELESS = "a server that does not report its name"
"""The text for a server that answers at an echo server's address and is no echo server."""
UNTOLD = "it is not known which pod answered"
DNS_UNTOLD = f"{UNTOLD}: answers from DNS servers do not name the pod that sends them"
PING_UNTOLD = f"{UNTOLD}: a ping reply names an address, but no pod"
_PAYLOAD = (ascii_lowercase * 2521).encode()
"""The payload of agents (docs/probe-protocol.md, section 5)."""
COMMAND_UNTOLD = f"{UNTOLD} this command: the output does not name the server"


def telling(target: Target) -> Kind:
    """Return the kind of attempt for which the server's answer contains the client's address and
    the server's name."""
    return Kind.UDP if target.protocol == "udp" else Kind.HTTP


def asked_for(target: Target, kind: Kind) -> str:
    """Return the request of an attempt. For an echo server, the request's path asks for an answer
    that also names the server's port; other servers return a page."""
    echo = (
        kind is Kind.HTTP and target.backends and (target.backend_port or target.port) != DEMO_PORT
    )
    return "/who" if echo else "/"


def default_kind(target: Target, *, want: bool) -> Kind:
    """Return the kind of probe for a path that should be open (or closed), if the test names no
    kind.

    On an open path to pods the answer should name the pod. This also holds if the target is a pod's
    address, since another pod may have got that address. Ports of streams are an exception, since
    no server answers a request there. A closed path gets a bare connect, also through a Service: in
    a denial, no server answers the first packet.
    """
    return (
        telling(target)
        if want and target.backends and target.port != STREAM_PORT
        else plain(target)
    )


def unexpected_backend(observation: Observation) -> str:
    """Return the pod that answered although it is no backend of the target. Return an empty string
    if a backend answered, or if the answer names no pod.

    An answer from a wrong port of a backend is as wrong as an answer from another pod; the result
    then also names the port.
    """
    who = observation.served_by
    target = observation.attempt.target
    if observation.verdict is not Verdict.CONNECTED or target is None or not target.backends:
        return ""
    if not _is_name(who):
        return NAMELESS if _has_to_tell(observation.attempt) else ""
    if not any(same_pod(backend, who) for backend in target.backends):
        return who
    wrong_port = observation.served_port not in {0, target.backend_port or target.port}
    return f"port {observation.served_port} of {who}" if wrong_port else ""


def with_who(because: str, observations: Sequence[Observation]) -> str:
    """Return ``because``. If an answer on this open path names no pod, add the reason."""
    if not observations or all(_is_name(observation.served_by) for observation in observations):
        return because
    return f"{because}; {UNTOLD}: {_reason_without_name(observations[-1].attempt)}"


def _is_name(who: str) -> bool:
    """Return whether a text is a pod's name with its namespace."""
    namespace, _, pod = who.partition("/")
    return bool(namespace and pod)


def _has_to_tell(attempt: Attempt) -> bool:
    """Return whether the target is an echo server, whose answer must name its pod.

    The demo's page on Windows comes from an echo server, too; on Linux it comes from nginx.
    """
    target = attempt.target
    if target is None or attempt.kind not in (Kind.HTTP, Kind.UDP):
        return False
    port = target.backend_port or target.port
    return port == ECHO_PORT or (
        port == DEMO_PORT and all(backend.os == "windows" for backend in target.backends)
    )


def _reason_without_name(attempt: Attempt) -> str:
    target = attempt.target
    if target is not None and not target.backends:
        return (
            "no server outside the cluster reports its name"
            if target.path is Addressing.EXTERNAL
            else "a node's own port names no pod"
        )
    return (
        "a bare connection names no pod"
        if attempt.kind is Kind.TCP
        else "the server at this target does not report its pod"
    )


def altered(observation: Observation) -> bool:
    """Return whether an echo differs from the payload in its first 65,536 bytes, which agents
    report.

    Servers return only the part of a long datagram for which the identity line leaves room.
    """
    sent = _PAYLOAD[: min(observation.attempt.payload, 1 << 16)]
    body = observation.body
    if observation.verdict is not Verdict.CONNECTED or not sent:
        return False
    if observation.attempt.kind is Kind.UDP:
        return len(body) < len(sent) or not sent.endswith(body.partition(b"\n")[2])
    return body[: len(sent)] != sent


def as_wanted(observation: Observation, want: bool) -> bool:
    """Return whether the observation shows the expected state of the path: open (``want``) or
    closed."""
    if want:
        return observation.verdict is Verdict.CONNECTED and not unexpected_backend(observation)
    return observation.verdict in DENIED_VERDICTS


def echoed(observation: Observation) -> bool:
    """Return whether a backend answered with exactly the bytes that were sent."""
    return as_wanted(observation, True) and not altered(observation)
