# SPDX-License-Identifier: Apache-2.0
"""Searches for a cause that is nearer than the failed path itself. Wrong routes, forwarding
entries, VNIs or ports of two nodes explain a failed path between them. If a Service's backend is
closed at its own address, too, the Service alone is not at fault: the network, or a policy that is
still in force, explains both failures. The search decides nothing: it starts after an expectation
has failed, for the path that the message names first."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from conformance.errors import SuiteError
from conformance.expect.engine.names import Asks
from conformance.expect.explain import message
from conformance.expect.explain.advice import SERVICES, kube_proxy
from conformance.expect.explain.between_nodes import Blamed
from conformance.model.attempt import Attempt, Kind, plain
from conformance.model.endpoint import Addressing, Target, Workload
from conformance.model.observation import ARRIVED, Observation, Verdict

SILENT = (Verdict.TIMED_OUT, Verdict.UNREACHABLE)
"""The verdicts of a path on which no packet arrives."""
UDP_ALONE = ", over UDP, although TCP to the same address and port connects"
NOT_THROUGH = "the pods can be reached, but not through the Service"
"""The end of the line about backends that answer at their own addresses."""
TRIES = 2
"""The number of times that a backend is probed at its own address: more than one, since a single
lost packet does not show that the path is closed."""


@dataclass(frozen=True)
class Nearest:
    """The parts of a message about the nearer cause; all empty if no nearer cause was found."""

    observed: str = ""
    """The text for the first line, after the verdicts."""
    lines: dict[str, str] = field(default_factory=dict)


Overlay = Callable[[Workload, Target], Blamed]
"""Reads the wrong entries of the overlay on the nodes of a path's ends. Without an overlay there
are none."""


def nearest(
    asks: Asks,
    attempt: Attempt,
    observations: Sequence[Observation],
    policies: Callable[[Sequence[Workload]], Sequence[str]],
    overlay: Overlay = lambda source, target: Blamed(),
) -> Nearest:
    """Return the likely reason why nothing connects on this path, which should be open. The result
    also says if only UDP is affected.

    ``policies`` names policies that may be in force at these pods.
    """
    near = _nearest(asks, attempt, observations, policies, overlay)
    if observations and _udp_alone(asks, attempt, observations[-1].verdict):
        return replace(near, observed=f"{UDP_ALONE}{near.observed}")
    return near


def _udp_alone(asks: Asks, attempt: Attempt, last: Verdict) -> bool:
    """Return whether TCP connects to the same address and port at which UDP gets no answer."""
    target = attempt.target
    if target is None or target.protocol != "udp" or last not in (*SILENT, Verdict.REFUSED):
        return False
    give_up = asks.timings.of(attempt.source.os).tcp_give_up
    tcp = replace(attempt, target=replace(target, protocol="tcp"), kind=Kind.TCP, payload=0)
    try:
        (answer,) = asks.prober.observe([replace(tcp, give_up_after=give_up)])
    except SuiteError:
        return False
    return answer.verdict is Verdict.CONNECTED


def _nearest(
    asks: Asks,
    attempt: Attempt,
    observations: Sequence[Observation],
    policies: Callable[[Sequence[Workload]], Sequence[str]],
    overlay: Overlay,
) -> Nearest:
    """Return the likely reason why nothing connects on this path, without a comparison of
    protocols."""
    target = attempt.target
    if target is None or not observations or observations[-1].verdict not in SILENT:
        return Nearest()
    there = list(policies([attempt.source, *target.backends]))
    if target.path is Addressing.POD_IP:
        return _of_pod(target, observations[-1].verdict, there, overlay(attempt.source, target))
    named = _named(there)
    if not target.backends:
        return Nearest(lines=named)
    if target.path not in SERVICES:
        return Nearest(lines=named | {"do": _advice(there, target, Blamed())})
    own = _by_own_address(asks, attempt, target)
    if not own:
        return Nearest(lines=named)
    results = "; ".join(f"{goal}: {message.summary(answers)}" for goal, answers in own.items())
    if any(answer.verdict in ARRIVED for answers in own.values() for answer in answers):
        return Nearest(
            lines={
                "own address": f"{results}: {NOT_THROUGH}",
                "do": kube_proxy(attempt.source, target),
            }
        )
    near = _of_backends(target, there, overlay(attempt.source, target))
    return replace(near, lines={"own address": results} | near.lines)


def _of_pod(target: Target, last: Verdict, there: Sequence[str], found: Blamed) -> Nearest:
    """Return the nearer cause for a path to a pod's own address. ``there``: policies that may be in
    force at the path's pods."""
    finding = found.wrong[0] if found.wrong else "" if there else found.sound
    lines = _named(there) | _lines(found)
    if target.backends and last is Verdict.TIMED_OUT:
        lines.setdefault("do", _advice(there, target, found))
    return Nearest(observed=f", while {finding}" if finding else "", lines=lines)


def _of_backends(target: Target, there: Sequence[str], found: Blamed) -> Nearest:
    """Return the nearer cause for a Service whose backends are closed at their own addresses."""
    if found.wrong:
        why = f", while {found.wrong[0]}"
    elif len(there) == 1:
        why = f"; policy {there[0]} may close it"
    elif there:
        why = f"; one of {len(there)} policies there may close it"
    else:
        why = ": the path to the pod is closed, not only the Service"
    lines = _named(there) | _lines(found)
    if not found.wrong:
        lines["do"] = _advice(there, target, found)
    return Nearest(observed=f", at the backend's own address too{why}", lines=lines)


def _named(policies: Sequence[str]) -> dict[str, str]:
    return {"policies there": "; ".join(policies)} if policies else {}


def _lines(found: Blamed) -> dict[str, str]:
    """Return a message's lines about the overlay. Return no lines if all entries are right."""
    if found.wrong:
        return {
            found.by: found.shown,
            "do": f"see {found.see}; {found.do}",
        }
    return {found.by: found.unread} if found.unread else {}


def _by_own_address(asks: Asks, attempt: Attempt, target: Target) -> dict[str, list[Observation]]:
    """Return the answers of each backend at its own address, by target label. Return no answers if
    no backend was tried."""
    source = attempt.source
    port = target.backend_port or target.port
    give_up = asks.timings.of(source.os).tcp_give_up
    goals = [
        backend.udp(port) if target.protocol == "udp" else backend.tcp(port)
        for backend in target.backends
    ]
    questions = [
        Attempt(source=source, target=goal, kind=plain(goal), give_up_after=give_up)
        for goal in goals
    ]
    try:
        rounds = [asks.prober.observe(questions) for _ in range(TRIES)]
    except SuiteError:
        return {}
    return {
        goal.label: [observations[place] for observations in rounds]
        for place, goal in enumerate(goals)
    }


def _advice(policies: Sequence[str], target: Target, found: Blamed) -> str:
    if len(policies) == 1:
        return f"read policy {policies[0]}; if it allows this path, see {found.see}"
    if policies:
        return f"read the policies there; if they allow this path, see {found.see}"
    nodes = ", ".join(dict.fromkeys(backend.node for backend in target.backends))
    return (
        f"no policy was found that selects these pods: see CONN-3, {found.see} first; "
        f"then read Felix' log on node {nodes}"
    )
