# SPDX-License-Identifier: Apache-2.0
"""Checks that the pods are still those that made the observations, before the suite reports a
failure of the cluster."""

from collections.abc import Iterable, Sequence
from functools import partial

from conformance.errors import EnvironmentBroken, Nonconformance
from conformance.expect import owners
from conformance.expect.context import Context
from conformance.expect.engine.answered import unexpected_backend
from conformance.expect.engine.pairs import key
from conformance.expect.explain import message
from conformance.expect.explain.advice import SERVICES
from conformance.expect.machine_lag import OVERWHELMED, REMEDY
from conformance.expect.session import Session
from conformance.model.attempt import Attempt
from conformance.model.endpoint import Workload
from conformance.model.explanation import Explanation
from conformance.model.observation import Observation
from conformance.probe.clocks import unix
from conformance.timing import hold, until

KNOWN_DEAD = 60.0
"""Seconds after which a dead node is known to be lost: its lease lasts 40 s and is renewed every 10
s."""


def pods_unchanged(expect: Session, workloads: Iterable[Workload], *, doubtful: bool) -> None:
    """Raise EnvironmentBroken if a pod is no longer the same pod.

    ``doubtful``: an observation may come from a pod or node that ended just now. In this case,
    query the API for as long as it may take to report the end.
    """
    pods = list(workloads)
    if not doubtful:
        expect.prober.unchanged(pods)
        return
    patience = expect.timings.run.pod_status
    hold(
        lambda: expect.prober.unchanged(pods),
        lambda _: True,
        seconds=patience,
        every=patience / 2,
        description="the pods are unchanged",
        clock=expect.clock,
    )
    nodes = list(dict.fromkeys(pod.node for pod in pods))
    until(
        lambda: expect.context.world.silent(nodes),
        lambda silent: not silent,
        within=KNOWN_DEAD,
        description="kubelets renew their leases, or are known to be dead",
        clock=expect.clock,
    )
    expect.prober.unchanged(pods)


def unless_changed(
    expect: Session,
    workloads: Iterable[Workload],
    verdict: Exception,
    *,
    want: bool = True,
    turned: bool = False,
) -> Exception:
    """Return ``verdict``, or the error that explains it better: a pod that is no longer the same
    pod, or a policy of another owner.

    Such a policy may have closed a path that should be open (``want``), or opened a path that
    should be closed. If the path changed its state during the observations (``turned``), only a
    policy that was added or changed meanwhile explains the new state.
    """
    text = getattr(verdict, "explanation", None) or str(verdict)
    try:
        pods_unchanged(expect, workloads, doubtful=True)
    except EnvironmentBroken as broken:
        error = EnvironmentBroken(message.explained(text, by=str(broken)))
        error.cause = broken.cause
        return error
    observations = verdict.observations if isinstance(verdict, Nonconformance) else ()
    return (
        undecided(expect, text, observations[-1].attempt, observations, want=want, turned=turned)
        if observations
        else None
    ) or verdict


def undecided(
    expect: Session,
    text: str | Explanation,
    attempt: Attempt,
    observations: Sequence[Observation],
    *,
    want: bool = True,
    turned: bool = False,
) -> EnvironmentBroken | None:
    """Return the error that replaces the failure of repeated attempts, or None if the failure
    stays.

    The reasons are those of :func:`excused`, and a lab whose machine was overloaded all the time.
    An overloaded machine does not excuse another pod's answer.
    """
    by = excused(expect, text, attempt, observations, want=want, turned=turned)
    if by or not want or not observations or unexpected_backend(observations[-1]):
        return by
    machine = expect.context.pace.machine
    if not machine.overwhelmed(observations[0].at - unix(0.0), expect.clock.monotonic()):
        return None
    machine.excused += 1
    by_machine = f"{OVERWHELMED}: {REMEDY}"
    return EnvironmentBroken(message.explained(text, by=by_machine))  # type: ignore[type-var]


def _unready(context: Context, attempt: Attempt, observations: Sequence[Observation]) -> str:
    """Describe which backends of a Service their kubelets found unready. Return an empty string if
    another pod answered for the Service."""
    target = attempt.target
    return (
        context.world.unready(target.backends, observations[0].at)
        if target
        and observations
        and target.path in SERVICES
        and not unexpected_backend(observations[-1])
        else ""
    )


def excused(
    expect: Session,
    text: str | Explanation,
    attempt: Attempt,
    observations: Sequence[Observation],
    *,
    want: bool,
    turned: bool = False,
) -> EnvironmentBroken | None:
    """Return the error that replaces a failure if something else explains the failure. This is a
    policy of another owner, or unready backends, to which no Service leads. A change by another run
    also explains a lost open path. ``turned``: the path changed its state."""
    context = expect.context
    if want and (by := _unready(context, attempt, observations)):
        return EnvironmentBroken(message.explained(text, by=by))  # type: ignore[type-var]
    otherwise = (
        observations[0].at - unix(0.0)
        if turned
        else context.since.get((*key(attempt.source, attempt.target), want))
    )
    excuse = partial(
        owners.excused,
        context.world.others,
        attempt,
        observations,
        want=want,
        otherwise=otherwise,
        at=context.enforced_at or "both",
    )
    if by := excuse():
        return owners.decided(context.world.others, text, by, lasting=bool(excuse(lasting=True)))
    by = owners.lost_by(context.world.runs, attempt, observations) if want else ""
    return owners.decided(context.world.runs, text, by) if by else None
