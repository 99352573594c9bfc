# SPDX-License-Identifier: Apache-2.0
"""What a machine that runs late excuses: a budget that is over, and nothing else.

Budgets are given once more there (:meth:`conformance.probe.machine.Machine.more`).  What is still wrong then is wrong;
but where the lab runs on the same machine, and that was overwhelmed all the while, nothing is said of it.  No lateness
excuses a packet that arrives after an agreed denial, another pod's answer, or a failure that is no denial.
"""

from collections.abc import Sequence

from conformance.errors import EnvironmentBroken
from conformance.expect.engine.decide import Broken, Held, Path, Standing, Why, Wrong
from conformance.expect.outcome import Outcome
from conformance.expect.session import Session

TENTH = 0.1
"""s.  The least that is told."""
OVERWHELMED = "the machine of the lab was overwhelmed all the while"
REMEDY = "run again when less else runs on this machine, with fewer workers (-n), or with the lab on another machine"


def excuse(expect: Session, outcomes: Sequence[Outcome], began: float) -> None:
    """Nothing is said of paths that are not yet as they are to be, if the lab's machine was overwhelmed all the while.

    ``began``: when they were asked first, by the expectation's clock.
    """
    machine = expect.context.pace.machine
    now = expect.clock.monotonic()
    for outcome in outcomes:
        path = outcome.path
        standing = outcome.standing
        if (
            not path.given
            or not isinstance(standing, Wrong)
            or standing.why not in (Why.OPEN, Why.CLOSED)
        ):
            continue
        if machine.overwhelmed(began, now):
            machine.excused += 1
            text = outcome.explained(
                expect.context.claims, f"{OVERWHELMED}{told(path, standing)}", REMEDY
            )
            outcome.standing = Broken(EnvironmentBroken(text))


def told(path: Path, standing: Standing) -> str:
    """That a path was given more time; empty: it was not, or did without."""
    if not path.given or isinstance(standing, Broken):
        return ""
    own = path.rule.within - path.given
    if (
        isinstance(standing, Held)
        and (path.first_right if path.want else standing.row[0].at) <= own
    ):
        return ""  # open paths are asked for as long as closed ones are
    behind = path.given - own
    why = (
        f"this machine was behind by up to {behind:.1f} s"
        if behind >= TENTH
        else "this machine's cores were all busy"
    )
    return f"; it was given {path.given:.0f} s beyond its {own:g} s, since {why}"
