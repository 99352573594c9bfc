# SPDX-License-Identifier: Apache-2.0
"""Before anything is said about the cluster: are the pods that it was seen with still the ones they were?"""

from collections.abc import Iterable, Sequence
from functools import partial

from conformance.errors import EnvironmentBroken, Nonconformance
from conformance.expect import owners
from conformance.expect.engine.pairs import key
from conformance.expect.explain import message
from conformance.expect.session import Session
from conformance.model.attempt import Attempt
from conformance.model.endpoint import Workload
from conformance.model.explanation import Explanation
from conformance.model.observation import Observation
from conformance.probe.clocks import unix
from conformance.timing import hold, until

KNOWN_DEAD = 60.0
"""s.  By then a node that died is known to be lost: its lease lasts 40 s, and what others renew says so every 10 s."""


def pods_unchanged(expect: Session, workloads: Iterable[Workload], *, doubtful: bool) -> None:
    """Raises EnvironmentBroken when one of these pods is no longer the one it was.

    ``doubtful``: what was seen may be of a pod or node that ended just now: asks until the API would know of that.
    """
    several = list(workloads)
    if not doubtful:
        expect.prober.unchanged(several)
        return
    patience = expect.timings.run.pod_status
    hold(
        lambda: expect.prober.unchanged(several),
        lambda _: True,
        seconds=patience,
        every=patience / 2,
        description="the pods are what they were",
        clock=expect.clock,
    )
    nodes = list(dict.fromkeys(pod.node for pod in several))
    until(
        lambda: expect.context.world.silent(nodes),
        lambda silent: not silent,
        within=KNOWN_DEAD,
        description="kubelets renew their leases, or are known to be dead",
        clock=expect.clock,
    )
    expect.prober.unchanged(several)


def unless_changed(
    expect: Session,
    workloads: Iterable[Workload],
    verdict: Exception,
    *,
    want: bool = True,
    turned: bool = False,
) -> Exception:
    """``verdict``, or EnvironmentBroken when one of these pods is no longer the one it was: it explains more.

    So does a policy of others, where a path that is to be open (``want``) is closed, or the other way round; one that
    came or changed since, where it ``turned`` so.
    """
    told = getattr(verdict, "explanation", None) or str(verdict)
    try:
        pods_unchanged(expect, workloads, doubtful=True)
    except EnvironmentBroken as broken:
        return EnvironmentBroken(message.explained(told, by=str(broken)))
    seen = verdict.seen if isinstance(verdict, Nonconformance) else ()
    return (
        excused(expect, told, seen[-1].attempt, seen, want=want, turned=turned) if seen else None
    ) or verdict


def excused(
    expect: Session,
    text: str | Explanation,
    attempt: Attempt,
    seen: Sequence[Observation],
    *,
    want: bool,
    turned: bool = False,
) -> EnvironmentBroken | None:
    """What takes the place of a message where a policy of others could give what was seen, or that it ``turned``.

    So does a change of another run, where a path that is to be open is lost.
    """
    context = expect.context
    otherwise = (
        seen[0].at - unix(0.0)
        if turned
        else context.since.get((*key(attempt.source, attempt.target), want))
    )
    told = partial(
        owners.excused,
        context.world.others,
        attempt,
        seen,
        want=want,
        otherwise=otherwise,
        at=context.enforced_at or "both",
    )
    if by := told():
        return owners.decided(context.world.others, text, by, lasting=bool(told(lasting=True)))
    by = owners.lost_by(context.world.runs, attempt, seen) if want else ""
    return owners.decided(context.world.runs, text, by) if by else None
