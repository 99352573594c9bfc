# SPDX-License-Identifier: Apache-2.0
"""The states of a story's members, and the events that lead from one state to another.

Members are pods without a controller, one on each covered node; an event happens to all of them.
"""

from dataclasses import dataclass
from typing import Literal

State = Literal["there", "unready", "beginning", "ending", "over", "gone"]
"""States of the members, in this order: they answer and are ready; they answer but are not ready;
they have an address, but their init container still runs; they answer until their grace period
ends; their containers have ended for good, so that only the pods' objects exist; they do not exist.
"""

ANSWER: tuple[State, ...] = ("there", "unready", "ending")
"""States in which members send and serve."""


@dataclass(frozen=True)
class Turn:
    """The change that an event makes to members."""

    after: tuple[State, ...]
    to: State


TURNS: dict[str, Turn] = {
    "again": Turn(("there", "unready", "over"), "there"),
    "replaced": Turn(("there", "unready"), "there"),
    "gone": Turn(("there", "unready", "ending", "over"), "gone"),
    "evicted": Turn(("there", "unready"), "gone"),
    "come": Turn(("gone",), "there"),
    "begin": Turn(("gone",), "beginning"),
    "begun": Turn(("beginning",), "there"),
    "unready": Turn(("there",), "unready"),
    "ready": Turn(("unready",), "there"),
    "restarted": Turn(("there",), "there"),
    "ending": Turn(("there",), "ending"),
    "failed": Turn(("there", "unready"), "over"),
    "succeeded": Turn(("gone",), "over"),
}
"""The events of pods, by the word that stories use."""
ONE_OF = {"restarted", "failed"}
"""Events of which a story may have only one: after ``restarted``, the pods' restart policy must
start the containers again; after ``failed``, it must not."""


def after(state: State, event: str) -> State | None:
    """Return the state of the members after an event; None: the event is impossible now."""
    turn = TURNS[event]
    return turn.to if state in turn.after else None
