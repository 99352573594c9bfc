# SPDX-License-Identifier: Apache-2.0
"""Withdraws outcomes for which changed pods or policies of other owners may be the reason, before
the outcomes are reported."""

from collections.abc import Sequence

from conformance.errors import EnvironmentBroken, MissingCapability, SuiteError
from conformance.expect import owners
from conformance.expect.engine.decide import Broken, BrokenControl, Wrong
from conformance.expect.engine.pairs import key
from conformance.expect.engine.path import Path, Why
from conformance.expect.guard import excused, pods_unchanged
from conformance.expect.outcome import Outcome
from conformance.expect.owners import CLOSED
from conformance.expect.session import Session
from conformance.model.attempt import Attempt
from conformance.model.endpoint import Workload
from conformance.probe.clocks import unix


def pods_of(attempt: Attempt) -> list[Workload]:
    """Return the source and the backends of a path. A failure of one of these pods looks like a
    failure of the network."""
    target = attempt.target
    return [attempt.source, *(target.backends if target else ())]


def lost_paths(expect: Session, paths: Sequence[Path]) -> Sequence[Path]:
    """Return the paths whose results may come from replaced pods, dead nodes or changes by other
    owners. If the state of the pods is not known, only changes by other owners count."""

    def all_there(some: Sequence[Path]) -> bool:
        try:
            expect.prober.unchanged(pod for path in some for pod in pods_of(path.attempt))
        except (EnvironmentBroken, MissingCapability):
            return False
        except SuiteError:
            pass
        return True

    gone = () if all_there(paths) else [path for path in paths if not all_there([path])]
    return [*gone, *(path for path in paths if path not in gone and given_by_others(expect, path))]


def given_by_others(expect: Session, path: Path) -> bool:
    """Return whether a lasting policy of another owner explains all observations of a path that
    should be open.

    Further waiting for such a path would show nothing new.
    """
    if (
        not path.want
        or not path.observations
        or any(one.verdict not in CLOSED for one in path.observations)
    ):
        return False
    context = expect.context
    otherwise = context.since.get((*key(path.attempt.source, path.attempt.target), True))
    times = owners.Times(path.observations[0].at - unix(0.0), otherwise)
    return context.world.others.explains(*owners.way(path.attempt), times=times)


def look_after_pods(expect: Session, outcomes: Sequence[Outcome]) -> None:
    """Mark paths as broken if their pods were replaced: a replaced pod can look like a denial or a
    violation.

    After a failure, query the API repeatedly, since it may report the end of a container only after
    some time.
    """
    doubtful = [
        outcome
        for outcome in outcomes
        if isinstance(outcome.standing, Wrong | BrokenControl) or not outcome.path.want
    ]
    if not doubtful:
        return
    failed = any(not outcome.held for outcome in outcomes)
    involved = [pod for outcome in doubtful for pod in pods_of(outcome.path.attempt)]
    try:
        pods_unchanged(expect, involved, doubtful=failed)
    except EnvironmentBroken as broken:
        doubted = [
            outcome for outcome in doubtful if changed(expect, outcome.path.attempt)
        ] or doubtful
        do = "read that pod's events, and its log with kubectl logs --previous"
        for outcome in doubted:
            error = EnvironmentBroken(
                outcome.explained(expect.context.claims, str(broken), "" if broken.cause else do)
            )
            error.cause = broken.cause
            outcome.standing = Broken(error)


def excuse(expect: Session, outcomes: Sequence[Outcome]) -> None:
    """Withdraw each failure that a policy of another owner could explain, since such a failure
    decides nothing about Calico.

    A leak after an agreed denial, or a path that wavers, is explained only by a policy that was
    added, changed or deleted meanwhile.
    """
    others = expect.context.world.others
    is_free = expect.context.world.change() is None
    open_paths = [
        owners.way(outcome.path.attempt)
        for outcome in outcomes
        if is_free and outcome.held and outcome.path.want
    ]
    others.observe(expect.context.claims, open_paths)
    with others.one_look(), expect.context.world.runs.one_look():
        for outcome in outcomes:
            standing = outcome.standing
            why = standing.why if isinstance(standing, Wrong | BrokenControl) else None
            if why in (Why.CLOSED, Why.OPEN, Why.WAVERS, Why.LEAK):
                _excuse(expect, outcome, why)
    others.observe((), ())  # paths that are open now are no evidence for later expectations


def _excuse(expect: Session, outcome: Outcome, why: Why) -> None:
    """Excuse a path if a foreign policy could cause its fault: such a fault decides nothing about
    Calico."""
    attempt = outcome.path.attempt
    if by := excused(
        expect,
        outcome.explanation(expect.context.claims),
        attempt,
        outcome.observations,
        want=outcome.path.want,
        turned=why in (Why.WAVERS, Why.LEAK),
    ):
        outcome.standing = Broken(by)
    elif why is Why.CLOSED and expect.context.world.others.defect(*owners.way(attempt)):
        outcome.is_control = False  # the claim is about this defect, so the path is no mere control
        outcome.standing = Wrong(why)


def changed(expect: Session, attempt: Attempt) -> EnvironmentBroken | None:
    """Return the error about a replaced pod or dead node at the path's ends, or None if nothing
    changed."""
    try:
        pods_unchanged(expect, pods_of(attempt), doubtful=False)
    except EnvironmentBroken as broken:
        return broken
    return None
