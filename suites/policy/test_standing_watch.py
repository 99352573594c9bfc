# SPDX-License-Identifier: Apache-2.0
"""Policies for pods that no test touches stay in force from a run's beginning to its end."""

from conformance.fixtures import StandingWatch
from conformance.marks import after_all_others, verifies


@after_all_others()
@verifies("POL-1", part="throughout the run", provisional=True)
def test_what_policies_closed_when_the_run_began_was_closed_until_it_ended(
    standing_watch: StandingWatch,
) -> None:
    because = "no event since then concerned these pods or their policies"
    standing_watch.held(because=because)
