# SPDX-License-Identifier: Apache-2.0
"""What lies nearer than the path that failed: what its nodes lack for each other's pods, or what closes a backend.

A Service whose backend is closed by its own address is no matter of Services alone: a policy that stays, or the
network, explains both.  A path between nodes whose routes, forwarding entries, VNI or port are wrong is explained by
them.  It decides nothing, and is asked once an expectation has failed, about the path that is told first.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from conformance.errors import SuiteError
from conformance.expect.engine.answered import ARRIVED, plain
from conformance.expect.engine.names import Asks
from conformance.expect.explain import message
from conformance.expect.explain.advice import SERVICES, kube_proxy
from conformance.expect.explain.between_nodes import Blamed
from conformance.model.attempt import Attempt
from conformance.model.endpoint import Addressing, Target, Workload
from conformance.model.observation import Observation, Verdict

SILENT = (Verdict.TIMED_OUT, Verdict.UNREACHABLE)
"""How a path ends that leads nowhere."""
TRIES = 2
"""How often a backend is asked by its own address: one lost packet closes nothing."""


@dataclass(frozen=True)
class Nearest:
    """What a message says about it; empty: nothing was found nearer."""

    observed: str = ""
    """For the first line, after the verdicts."""
    lines: dict[str, str] = field(default_factory=dict)


Overlay = Callable[[Workload, Target], Blamed]
"""What the overlay needs on the nodes of a path's ends and is wrong there; nothing without an overlay."""


def nearest(
    asks: Asks,
    attempt: Attempt,
    seen: Sequence[Observation],
    policies: Callable[[Sequence[Workload]], Sequence[str]],
    overlay: Overlay = lambda source, target: Blamed(),
) -> Nearest:
    """What explains that nothing connects on this path, which is to be open.

    ``policies`` names those that may be in force at these pods.
    """
    target = attempt.target
    if target is None or not seen or seen[-1].verdict not in SILENT:
        return Nearest()
    there = list(policies([attempt.source, *target.backends]))
    if target.path is Addressing.POD_IP:
        return _of_pod(target, seen[-1].verdict, there, overlay(attempt.source, target))
    named = _named(there)
    if not target.backends:
        return Nearest(lines=named)
    if target.path not in SERVICES:
        return Nearest(lines=named | {"do": _advice(there, target, Blamed())})
    own = _by_own_address(asks, attempt, target)
    if not own:
        return Nearest(lines=named)
    told = "; ".join(f"{goal}: {message.summary(several)}" for goal, several in own.items())
    if any(answer.verdict in ARRIVED for several in own.values() for answer in several):
        return Nearest(
            lines={
                "own address": f"{told}: the pods are open, what leads to them is not",
                "do": kube_proxy(attempt.source, target),
            }
        )
    near = _of_backends(target, there, overlay(attempt.source, target))
    return replace(near, lines={"own address": told} | near.lines)


def _of_pod(target: Target, last: Verdict, there: Sequence[str], found: Blamed) -> Nearest:
    """What lies nearer than a path by a pod's own address; ``there``: policies."""
    told = found.wrong[0] if found.wrong else "" if there else found.sound
    lines = _named(there) | _lines(found)
    if target.backends and last is Verdict.TIMED_OUT:
        lines.setdefault("do", _advice(there, target, found))
    return Nearest(observed=f", while {told}" if told else "", lines=lines)


def _of_backends(target: Target, there: Sequence[str], found: Blamed) -> Nearest:
    """What lies nearer than a path by a Service whose backends are closed by their own addresses,
    too."""
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
    return Nearest(observed=f", by the backend's own address too{why}", lines=lines)


def _named(policies: Sequence[str]) -> dict[str, str]:
    return {"policies there": "; ".join(policies)} if policies else {}


def _lines(found: Blamed) -> dict[str, str]:
    """What a message says about the overlay; nothing where all that it needs is there."""
    if found.wrong:
        return {
            found.by: found.shown,
            "do": f"see {found.see}; then restart calico-node on that node (on Windows that resets its pods' "
            "connections)",
        }
    return {found.by: found.unread} if found.unread else {}


def _by_own_address(asks: Asks, attempt: Attempt, target: Target) -> dict[str, list[Observation]]:
    """What each backend answers there, by the target's label; empty where that could not be asked."""
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
    return {goal.label: [seen[place] for seen in rounds] for place, goal in enumerate(goals)}


def _advice(policies: Sequence[str], target: Target, found: Blamed) -> str:
    if len(policies) == 1:
        return f"read policy {policies[0]}; if it allows this, see {found.see}"
    if policies:
        return f"read the policies there; if they allow this, see {found.see}"
    nodes = ", ".join(dict.fromkeys(backend.node for backend in target.backends))
    return (
        f"no policy was found that selects these pods: see CONN-3, {found.see} first; "
        f"then Felix' log on node {nodes}"
    )
