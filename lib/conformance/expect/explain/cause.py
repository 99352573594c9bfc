# SPDX-License-Identifier: Apache-2.0
"""The common cause of wrong paths, which is at the beginning of a first line: ``windows-2019 does
not enforce the policy``.

It names nodes and no pods, so that claims that fail for the same cause have the same text.
"""

from collections.abc import Iterable, Sequence

from conformance.expect.engine.names import UNSENT
from conformance.expect.explain.advice import SERVICES, Side
from conformance.model.attempt import Attempt
from conformance.model.endpoint import Addressing
from conformance.model.observation import Observation, Verdict

SEVERAL = 2
"""The number of nodes that must be at the other end of wrong paths to show that the fault is not at
the other end."""
NAMED = 3
"""The maximum number of nodes that a text names. If there are more nodes, the text gives their
number."""


def passes(attempts: Sequence[Attempt], side: Side) -> str:
    """Return which node does not enforce the policy that should close these open paths.

    ``side``: the end that must enforce the policy. If either end may enforce it, the text names the
    end that all paths share, or else both ends.
    """
    return _enforcing(attempts, side, ("does not enforce", "do not enforce")) + " the policy"


def refuses(attempts: Sequence[Attempt], side: Side) -> str:
    """Describe on which node paths are refused that a policy should close silently."""
    nodes = _sources(attempts) if side == "source" else _targets(attempts) or _sources(attempts)
    return (
        f"connections to pods on {_named(nodes)} are refused, not dropped"
        if side != "source"
        else (f"connections from clients on {_named(nodes)} are refused, not dropped")
    )


def withholds(attempts: Sequence[Attempt], side: Side) -> str:
    """Return which node closes paths that its policies allow, and that were open before the
    policies."""
    return _enforcing(attempts, side, ("closes", "close")) + " what the policy allows"


def differs_at(wrong: Sequence[Attempt], held: Sequence[Attempt]) -> Side:
    """Return the end whose pods have only wrong paths, compared by pod, protocol and port.

    Return ``both`` if this is true of both ends or of neither end, or if too few nodes show it.
    Enough nodes show it if the other ends of the wrong paths are on several nodes, or have good
    paths to several nodes. ``held``: the paths of the same expectation that are as expected.
    """
    sides: tuple[Side, Side] = ("source", "target")
    found = [side for side in sides if _pods(wrong, side).isdisjoint(_pods(held, side))]
    if len(found) != 1:
        return "both"
    side = found[0]
    other = sides[side == "source"]
    good = [path for path in held if _pods([path], other) & _pods(wrong, other)]
    return side if max(len(_nodes(wrong, other)), len(_nodes(good, side))) >= SEVERAL else "both"


def _pods(attempts: Sequence[Attempt], side: Side) -> set[tuple[str, str, int]]:
    return {
        (pod.uid, attempt.target.protocol, attempt.target.port)
        for attempt in attempts
        if attempt.target
        for pod in ([attempt.source] if side == "source" else attempt.target.backends)
    }


def stays(attempts: Sequence[Attempt], side: Side) -> str:
    """Return which node still enforces policies that are gone."""
    return _enforcing(attempts, side, ("enforces", "enforce")) + " a policy that was removed"


def closed(attempts: Sequence[Attempt], observations: Sequence[Observation]) -> str:
    """Describe why paths that should be open are closed. ``observations``: the observations of the
    first path."""
    target = attempts[0].target
    path = target.path if target else None
    last = observations[-1].verdict if observations else None
    clients = _named(_sources(attempts))
    targets = _targets(attempts)
    if last in UNSENT:
        return unresolved(attempts)
    if path is Addressing.NODE_PORT:
        called = {
            attempt.target.at.node if attempt.target and attempt.target.at else ""
            for attempt in attempts
        }
        return (
            f"NodePorts of {_named(called if '' not in called else targets)} do not reach "
            "their pods"
        )
    if path in SERVICES:
        on = f" on {_named(targets)}" if targets else ""
        return f"clients on {clients} do not reach pods{on} through Services"
    return _unreached(attempts, "are refused by" if last is Verdict.REFUSED else "do not reach")


def unresolved(attempts: Sequence[Attempt]) -> str:
    """Describe on which nodes names do not resolve."""
    return f"names do not resolve on {_named(_sources(attempts))}"


def _unreached(attempts: Sequence[Attempt], does: str) -> str:
    """Describe between which nodes pods' own addresses cannot be reached. ``does``: the verb that
    says how the paths end."""
    sources = _sources(attempts)
    targets = _targets(attempts)
    clients = f"clients on {_named(sources)}"
    if not targets:
        first = attempts[0].target
        return f"{clients} {does} {first.host if first else 'a server'}"
    if sources == targets and len(sources) == 1:
        return f"pods on {_named(sources)} {does} each other"
    pairs = {
        (attempt.source.node, pod.node)
        for attempt in attempts
        for pod in (attempt.target.backends if attempt.target else ())
    }
    is_one_way = not any((end, begin) in pairs for begin, end in pairs if begin != end)
    if len(sources) == 1 or len(targets) == 1 or is_one_way:
        return f"{clients} {does} pods on {_named(targets)}"
    if len(shared := _shared(attempts)) == 1:
        return f"pods on {shared[0]} and those on other nodes {does} each other"
    return f"pods on {_named(sources | targets)} {does} each other"


def _enforcing(attempts: Sequence[Attempt], side: Side, does: tuple[str, str]) -> str:
    """Return the nodes at the end that enforces policies, with a verb. ``does``: the verb's
    singular and plural.

    If either end may enforce the policies, prefer a node that is an end of all paths, and is the
    client of some paths and the server of others.
    """
    sources = _sources(attempts)
    targets = _targets(attempts)
    nodes = targets if side == "target" and targets else sources
    if side == "both" and targets:
        shared = set(_shared(attempts))
        if len(shared) == 2:
            return f"{' or '.join(sorted(shared))} {does[0]}"
        nodes = shared & sources & targets or sources
        if not nodes <= targets:
            return f"{_named(sources)}, or {_named(targets)}, {does[1]}"
    return f"{_named(nodes)} {does[0 if len(nodes) == 1 else 1]}"


def _nodes(attempts: Iterable[Attempt], side: Side) -> set[str]:
    return _sources(attempts) if side == "source" else _targets(attempts)


def _sources(attempts: Iterable[Attempt]) -> set[str]:
    return {attempt.source.node for attempt in attempts}


def _targets(attempts: Iterable[Attempt]) -> set[str]:
    return {pod.node for attempt in attempts if attempt.target for pod in attempt.target.backends}


def _shared(attempts: Sequence[Attempt]) -> list[str]:
    """Return the nodes that are an end of each path."""
    return sorted(
        set.intersection(*(_sources([attempt]) | _targets([attempt]) for attempt in attempts))
    )


def _named(nodes: Iterable[str]) -> str:
    """Return ``a``, ``a and b``, or ``5 nodes``."""
    names = sorted(nodes)
    if len(names) > NAMED:
        return f"{len(names)} nodes"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
