# SPDX-License-Identifier: Apache-2.0
"""What takes back an outcome before it is said: pods that are not what they were, and policies of others."""

from collections.abc import Sequence

from conformance.errors import EnvironmentBroken, MissingCapability, SuiteError
from conformance.expect.engine.decide import Broken, BrokenControl, Path, Why, Wrong
from conformance.expect.guard import excused, pods_unchanged
from conformance.expect.outcome import Outcome
from conformance.expect.session import Session
from conformance.model.attempt import Attempt
from conformance.model.endpoint import Workload


def pods_of(attempt: Attempt) -> list[Workload]:
    """Source and backends: the pods whose own error would look like the network's."""
    target = attempt.target
    return [attempt.source, *(target.backends if target else ())]


def lost(expect: Session, paths: Sequence[Path]) -> Sequence[Path]:
    """Those of them of which a pod is no longer the one it was, or its node died; none where that is not known."""

    def all_there(several: Sequence[Path]) -> bool:
        try:
            expect.prober.unchanged(pod for path in several for pod in pods_of(path.attempt))
        except (EnvironmentBroken, MissingCapability):
            return False
        except SuiteError:
            pass
        return True

    return () if all_there(paths) else [path for path in paths if not all_there([path])]


def look_after_pods(expect: Session, outcomes: Sequence[Outcome]) -> None:
    """A pod that is no longer the one it was looks like a denial, and like a violation: its paths are broken.

    Where something is wrong, asks for as long as the API may not know yet of a container that ended.
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
        for outcome in doubted:
            outcome.standing = Broken(
                EnvironmentBroken(
                    outcome.explained(
                        expect.context.claims,
                        str(broken),
                        "read that pod's events, and its log with kubectl logs --previous",
                    )
                )
            )


def excuse(expect: Session, outcomes: Sequence[Outcome]) -> None:
    """Where a policy of others could give what is wrong with a path, nothing is said of Calico.

    A leak after an agreed denial, and a path that wavers, are given by none but one that came, changed or went.
    """
    for outcome in outcomes:
        why = outcome.standing.why if isinstance(outcome.standing, Wrong | BrokenControl) else None
        if why not in (Why.CLOSED, Why.OPEN, Why.WAVERS, Why.LEAK):
            continue
        if by := excused(
            expect,
            outcome.explanation(expect.context.claims),
            outcome.path.attempt,
            outcome.seen,
            want=outcome.path.want,
            turned=why in (Why.WAVERS, Why.LEAK),
        ):
            outcome.standing = Broken(by)


def changed(expect: Session, attempt: Attempt) -> EnvironmentBroken | None:
    """What there is to say of a pod at its ends that is no longer the one it was, or whose node died."""
    try:
        pods_unchanged(expect, pods_of(attempt), doubtful=False)
    except EnvironmentBroken as broken:
        return broken
    return None
