# SPDX-License-Identifier: Apache-2.0
"""The only excuse that a slow machine gives: a time limit that has passed is extended once
(:meth:`conformance.probe.machine.Machine.more`). A path that is still wrong afterwards is wrong.
The exception is a lab on the same machine: if that machine was overloaded all the time, nothing is
decided. Lateness never excuses a packet that arrives after an agreed denial, another pod's answer,
or a failure that is no denial."""

from collections.abc import Sequence

from conformance.errors import EnvironmentBroken
from conformance.expect.engine.decide import Broken, Held, Standing, Wrong
from conformance.expect.engine.path import Path, Why
from conformance.expect.outcome import Outcome
from conformance.expect.session import Session

TENTH = 0.1
"""The shortest lag, in seconds, that a message mentions."""
OVERWHELMED = "the machine of the lab was overwhelmed throughout"
REMEDY = (
    "run again when this machine is less busy, with fewer workers (-n), or with the lab on "
    "another machine"
)


def excuse(expect: Session, outcomes: Sequence[Outcome], began: float) -> None:
    """If the lab's machine was overloaded all the time, leave paths undecided that are not yet as
    expected.

    ``began``: when the paths were first tried, by the expectation's clock.
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
        # A path that no policy concerns waits for no computation of the lab.
        if machine.overwhelmed(began, now, computes=not path.steady):
            machine.excused += 1
            text = outcome.explained(
                expect.context.claims, f"{OVERWHELMED}{describe(path, standing)}", REMEDY
            )
            outcome.standing = Broken(EnvironmentBroken(text))


def describe(path: Path, standing: Standing) -> str:
    """Return a text about the additional time that a path got. Return an empty string if the path
    got none, or did not need it."""
    if not path.given or isinstance(standing, Broken):
        return ""
    own = path.rule.within - path.given
    if (
        isinstance(standing, Held)
        and (path.first_right if path.want else standing.row[0].at) <= own
    ):
        return ""  # the path was as expected within its own time limit
    behind = path.given - own
    why = (
        f"this machine was behind by up to {behind:.1f} s"
        if behind >= TENTH
        else "this machine's cores were all busy"
    )
    return f"; the path was given {path.given:.0f} s more than its {own:g} s, since {why}"
